"""Nodes and pods reach State when a flavor has a topology, all at once, and then each change that counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from api import resources
from api.names import Annotation
from api.objects import Resource
from controller.cache.caches import Caches
from controller.kube.store import SLICE
from controller.reconcilers.living import living_pods
from controller.reconcilers.topology import JUDGED, TopologyNodes
from controller.run.watched import rows
from controller.settings import Reading
from core.devices.mapping import device_rules
from core.jobs.kinds import BATCH_JOB
from core.model import Raw, TopologyAssignment, TopologyDomain
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.state.state import State
from core.topology.encoding import encode
from tests.controller.test_caches import made
from tests.controller.test_guard import pod
from tests.core.devices.samples import a_class, a_slice, device
from tests.core.jobs import samples
from tests.eventually import eventually


def node(name: str, version: int = 1, *, ready: str = "True", cpu: str = "8", beat: str = "1", **metadata: Any) -> Raw:
    since = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": beat, "lastTransitionTime": since}]
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": str(version), "labels": {"rack": "r"}, **metadata},
        "spec": {},
        "status": {"allocatable": {"cpu": cpu, "pods": "110"}, "conditions": conditions},
    }


DEFAULT = TopologyPolicy()
ASKS = {"kueue.x-k8s.io/podset-required-topology": "rack", Annotation.WORKLOAD: "w"}
"""The annotations of a pod that Workload w accounts for."""


class Listed:
    """A reflector that has listed."""

    def __init__(self) -> None:
        self.synced = asyncio.Event()


class World:
    """Stores, and what State was given."""

    def __init__(self, policy: TopologyPolicy | None = DEFAULT, reads: Reading | None = None) -> None:
        self.caches = Caches(State(SchedulingPolicy(topology=policy)), rows([BATCH_JOB]), reads)
        self.caches.start()
        self.pods = living_pods(Reading())
        self.events: list[str] = []
        self.nodes, self.of_pods = Listed(), Listed()
        self.topology = TopologyNodes(
            self.caches,
            self.pods,
            follow=lambda on: self.events.append("follow" if on else "leave"),
            wake=lambda: self.events.append("wake"),
        )

    def flavor(self, **spec: Any) -> None:
        self.caches.stores[resources.RESOURCE_FLAVORS].observe("ADDED", made("ResourceFlavor", "tas", spec))

    def workload(
        self,
        name: str,
        event: str = "ADDED",
        version: int = 1,
        *,
        level: str = "rack",
        on: dict[str, int] | None = None,
        marks: dict[str, str] | None = None,
    ) -> None:
        """A Workload; ``on`` is how many of its pods each rack has."""
        raw = samples.workload_of(samples.job())
        raw["spec"]["podSets"][0] |= {"topologyRequest": {"required": level}} if level else {}
        raw["metadata"] |= {"name": name, "uid": name, "resourceVersion": str(version), "annotations": marks or {}}
        if on is not None:
            topology = encode(TopologyAssignment(("rack",), tuple(TopologyDomain((each,), on[each]) for each in on)))
            given = {"name": "main", "flavors": {}, "count": sum(on.values()), "topologyAssignment": topology}
            reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            raw["status"] = {
                "admission": {"clusterQueue": "q", "podSetAssignments": [given]},
                "conditions": [reserved],
            }
        self.caches.workloads.observe(event, raw)

    def see(self, *pods: Raw, event: str = "ADDED", version: int = 1) -> None:
        for each in pods:
            raw = {**each, "metadata": {**each["metadata"], "resourceVersion": str(version)}}
            assert self.pods.observe(event, raw)

    @property
    def known(self) -> tuple[list[str], dict[str, Any]]:
        placement = self.caches.state.placement
        assert placement is not None
        return sorted(placement.nodes), {name: dict(used) for name, used in placement.others.items()}

    async def enter(self) -> None:
        self.nodes.synced.set()
        self.of_pods.synced.set()
        await eventually(lambda: bool(self.topology.known))


@pytest.fixture
async def world() -> Any:
    found = World()
    task = asyncio.create_task(found.topology.run(found.nodes, found.of_pods))
    yield found
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def changed(world: World, becomes: Callable[[], bool]) -> None:
    await eventually(becomes)


async def test_nothing_is_followed_while_no_flavor_has_a_topology(world: World) -> None:
    world.flavor(nodeLabels={"pool": "a"})
    world.nodes.synced.set()
    world.caches.nodes.observe("ADDED", node("n"))
    await turns()
    assert world.events == []
    assert world.known == ([], {})
    await world.topology.complete()


async def test_a_flavor_with_a_topology_has_nodes_and_pods_followed_and_state_gets_both_together(world: World) -> None:
    world.caches.nodes.observe("ADDED", node("n"))
    world.flavor(topologyName="racks")
    await turns()
    assert world.events == ["follow"]
    world.nodes.synced.set()
    world.see(pod("a"))
    await turns()
    assert world.known == ([], {}), "pods that are not known yet would seem to leave room"
    await world.enter()
    assert world.known == (["n"], {"n": {"cpu": 1000, "pods": 1}})


async def test_only_what_placement_depends_on_reaches_state(world: World) -> None:
    world.flavor(topologyName="racks")
    await world.enter()
    world.caches.nodes.observe("ADDED", node("n"))
    world.events.clear()
    world.caches.nodes.observe("MODIFIED", node("n", 2, beat="2"))
    assert world.events == []
    world.caches.nodes.observe("MODIFIED", node("n", 3, ready="False"))
    assert world.events == ["wake"]
    world.caches.nodes.observe("DELETED", node("n", 4))
    assert world.known == ([], {})


async def test_pods_of_topologies_are_not_counted_and_others_until_they_end(world: World) -> None:
    world.flavor(topologyName="racks")
    world.workload("w")
    world.see(pod("other"), pod("placed", annotations=ASKS))
    await world.enter()
    assert world.known[1] == {"n": {"cpu": 1000, "pods": 1}}
    world.see(pod("more", cpu="3"), version=2)
    world.see(pod("other", deletionTimestamp="2026-01-01T00:00:00Z"), event="MODIFIED", version=3)
    await changed(world, lambda: world.known[1] == {"n": {"cpu": 4000, "pods": 2}})
    world.see(pod("other"), event="DELETED", version=4)
    await changed(world, lambda: world.known[1] == {"n": {"cpu": 3000, "pods": 1}})
    world.see(pod("more"), event="DELETED", version=5)
    await changed(world, lambda: world.known[1] == {})


@pytest.mark.parametrize("annotations", [{**ASKS, Annotation.WORKLOAD: ""}, {**ASKS, Annotation.WORKLOAD: "x"}])
async def test_a_pod_that_asks_for_a_topology_without_a_workload_is_counted(world: World, annotations: Raw) -> None:
    world.flavor(topologyName="racks")
    world.workload("w")
    world.see(pod("foreign", annotations=annotations))
    await world.enter()
    assert world.known[1] == {"n": {"cpu": 1000, "pods": 1}}
    world.see(pod("foreign", annotations=ASKS), event="MODIFIED", version=2)
    await changed(world, lambda: world.known[1] == {})
    world.see(pod("foreign", annotations=annotations), event="MODIFIED", version=3)
    await changed(world, lambda: world.known[1] == {"n": {"cpu": 1000, "pods": 1}})
    world.see(pod("foreign", annotations=annotations), event="DELETED", version=4)
    await changed(world, lambda: world.known[1] == {})


async def test_a_pod_counts_whose_workload_is_not_placed_whatever_its_owner_annotates(world: World) -> None:
    world.flavor(topologyName="racks")
    world.workload("w", level="")
    world.see(pod("a", annotations={Annotation.WORKLOAD: "w"}))
    await world.enter()
    world.see(pod("a", annotations=ASKS), event="MODIFIED", version=2)
    for _ in world.topology.flush():
        pass
    assert world.known[1] == {"n": {"cpu": 1000, "pods": 1}}


async def test_pods_count_when_the_last_workload_that_they_name_is_gone(world: World) -> None:
    world.flavor(topologyName="racks")
    world.workload("w")
    slices = {Annotation.WORKLOAD_SLICE_NAME: "w", Annotation.ELASTIC_JOB: "true"}
    world.see(pod("a", annotations=ASKS), pod("b", annotations={**ASKS, **slices}), pod("c", annotations=ASKS))
    await world.enter()
    assert world.known[1] == {}
    world.workload("w-2", "ADDED", 1, marks=slices)
    world.workload("w", "DELETED", 2)
    world.see(pod("c", annotations=ASKS), event="DELETED", version=2)
    for _ in world.topology.flush():
        pass
    assert world.known[1] == {}
    world.workload("w-2", "DELETED", 3, marks=slices)
    await changed(world, lambda: world.known[1] == {"n": {"cpu": 2000, "pods": 2}})
    world.workload("w", "ADDED", 4)
    await changed(world, lambda: world.known[1] == {})


async def test_pods_that_ran_before_an_elastic_job_changed_its_size_count_where_it_has_no_domain(world: World) -> None:
    """They stay where they are, although the new Workload was given other domains for all its pods."""
    for name in ("n", "m"):
        world.caches.nodes.observe("ADDED", node(name, labels={"rack": name}))
    world.flavor(topologyName="racks")
    slices = {Annotation.WORKLOAD_SLICE_NAME: "w", Annotation.ELASTIC_JOB: "true"}
    world.workload("w", marks=slices, on={"n": 2})
    world.see(*(pod(name, annotations={**ASKS, **slices}) for name in "ab"))
    await world.enter()
    assert world.known[1] == {}
    world.workload("w-2", on={"n": 1, "m": 2}, marks=slices)
    await changed(world, lambda: world.known[1] == {"n": {"cpu": 1000, "pods": 1}})
    more = pod("c", annotations={**ASKS, **slices})
    world.see({**more, "spec": {**more["spec"], "nodeName": "m"}})
    world.see(pod("b", annotations={**ASKS, **slices}), event="DELETED", version=2)
    await changed(world, lambda: world.known[1] == {})
    world.workload("w-3", on={"m": 1}, marks=slices)
    await changed(world, lambda: world.known[1] == {"n": {"cpu": 1000, "pods": 1}})
    for name in ("w", "w-2", "w-3"):
        world.workload(name, "DELETED", 9, marks=slices)
    await changed(world, lambda: world.known[1] == {each: {"cpu": 1000, "pods": 1} for each in ("n", "m")})


async def test_two_flushes_at_once_leave_nothing_of_pods_that_are_gone(world: World) -> None:
    """The scheduler flushes before it decides, while another flush may pause between two pods."""
    for name in ("n", "m"):
        world.caches.nodes.observe("ADDED", node(name, labels={"rack": name}))
    world.flavor(topologyName="racks")
    slices = {Annotation.WORKLOAD_SLICE_NAME: "w", Annotation.ELASTIC_JOB: "true"}
    pods = [pod(f"p{number}", annotations={**ASKS, **slices}) for number in range(2 * JUDGED)]
    world.workload("w", marks=slices, on={"n": len(pods)})
    world.see(*pods)
    await world.enter()
    world.workload("w-2", on={"m": len(pods)}, marks=slices)
    first = world.topology.flush()
    next(first)
    world.see(*pods, event="DELETED", version=2)
    for each in (world.topology.flush(), first, world.topology.flush()):
        for _ in each:
            pass
    assert world.known[1] == {}


async def test_a_flush_ends_when_all_is_entered_that_another_one_has_not_reached(world: World) -> None:
    world.flavor(topologyName="racks")
    await world.enter()
    for number in range(2 * SLICE):
        found = pod(f"p{number}")
        world.see({**found, "spec": {**found["spec"], "nodeName": f"n{number}"}})
    next(world.topology.flush())
    for _ in world.topology.flush():
        pass
    assert len(world.known[1]) == 2 * SLICE


async def test_a_pod_that_changed_before_it_was_gone_is_not_counted_when_its_workload_is_gone(world: World) -> None:
    """Else its node would seem to be used for ever."""
    world.caches.nodes.observe("ADDED", node("n"))
    world.flavor(topologyName="racks")
    world.workload("w")
    world.see(pod("a", annotations=ASKS))
    await world.enter()
    leaving: Raw = {"deletionTimestamp": "2033-05-18T03:33:21Z", "deletionGracePeriodSeconds": 1}
    world.see(pod("a", annotations=ASKS, **leaving), event="MODIFIED", version=2)
    world.see(pod("a", annotations=ASKS, **leaving), event="DELETED", version=3)
    assert world.topology._placed == {}
    world.workload("w", "DELETED", version=2)
    assert tuple(world.topology.others.take_changed()) == ()
    assert world.known[1] == {}


async def test_nodes_count_the_requests_without_the_transformations_of_quota() -> None:
    found = living_pods(Reading(excluded_prefixes=("cpu",)))
    shape = found.lean({**pod("a"), "metadata": {**pod("a")["metadata"], "resourceVersion": "1"}}).shape
    assert (shape.requests, shape.own) == ({}, {"cpu": 1000})


async def test_without_the_feature_gate_nothing_is_followed() -> None:
    world = World(policy=None)
    world.flavor(topologyName="racks")
    await world.topology.run(world.nodes, world.of_pods)
    await world.topology.complete()
    assert world.events == []


GPUS = Reading(devices=device_rules([{"name": "gpus", "deviceClassNames": ["gpu"]}], {}))


@pytest.mark.parametrize(("reads", "counted"), [(GPUS, True), (Reading(devices=None), False)], ids=["on", "off"])
async def test_the_devices_of_a_node_reach_state_as_they_come_and_go(reads: Reading, counted: bool) -> None:
    world = World(reads=reads)

    def observe(of: Resource, event: str, raw: Raw, version: int) -> None:
        raw["metadata"] |= {"uid": raw["metadata"]["name"], "resourceVersion": str(version)}
        world.caches.stores[of].observe(event, raw)

    def offered() -> dict[str, int]:
        placement = world.caches.state.placement
        assert placement is not None
        return {name: each.allocatable.get("gpus", 0) for name, each in placement.nodes.items()}

    world.flavor(topologyName="racks")
    observe(resources.DEVICE_CLASSES, "ADDED", a_class("gpu", "device.driver == 'gpu.example.com'"), 1)
    observe(resources.RESOURCE_SLICES, "ADDED", a_slice("s", device(), device(), node="n"), 1)
    world.caches.nodes.observe("ADDED", node("n"))
    world.caches.nodes.observe("ADDED", node("m"))
    list(world.topology.enter())
    assert offered() == {"n": 2 * counted, "m": 0}
    observe(resources.RESOURCE_SLICES, "MODIFIED", a_slice("s", device(), node="m"), 2)
    assert offered() == {"n": 0, "m": 1 * counted}, "the driver moved"
    observe(resources.RESOURCE_SLICES, "ADDED", a_slice("anywhere", device()), 3)
    assert offered() == {"n": 1 * counted, "m": 2 * counted}, "a device that any node may get"
    world.caches.nodes.observe("MODIFIED", node("m", 2, cpu="4"))
    assert offered()["m"] == 2 * counted, "a node that changes keeps its devices"
    observe(resources.DEVICE_CLASSES, "MODIFIED", a_class("gpu", "false"), 4)
    assert offered() == {"n": 0, "m": 0}, "the class has no devices any more"


async def test_a_node_that_fails_is_not_ready_at_once_however_many_devices_are_to_be_counted_again() -> None:
    world = World(reads=GPUS)
    sweeps: list[Callable[[], Iterator[None]]] = []

    def offer(devices: int, version: int) -> None:
        raw = a_slice("anywhere", *[device()] * devices)
        raw["metadata"] |= {"uid": "anywhere", "resourceVersion": str(version)}
        world.caches.stores[resources.RESOURCE_SLICES].observe("MODIFIED" if version > 1 else "ADDED", raw)

    def swept() -> list[int]:
        """The steps of each sweep."""
        found = [sum(1 for _ in begin()) for begin in sweeps]
        sweeps.clear()
        return found

    def entered() -> dict[str, tuple[bool, int]]:
        assert world.caches.state.placement is not None
        found = world.caches.state.placement.nodes
        return {name: (each.usable, each.allocatable.get("gpus", 0)) for name, each in found.items()}

    world.flavor(topologyName="racks")
    a_gpu = a_class("gpu", "device.driver == 'gpu.example.com'")
    a_gpu["metadata"] |= {"uid": "gpu", "resourceVersion": "1"}
    world.caches.stores[resources.DEVICE_CLASSES].observe("ADDED", a_gpu)
    offer(1000, 1)
    world.caches.nodes.observe("ADDED", node("n"))
    list(world.topology.enter())
    world.caches.in_steps = lambda name, begin: sweeps.append(begin)
    world.caches.nodes.observe("MODIFIED", node("n", 2, ready="False"))
    world.caches.nodes.observe("ADDED", node("m"))
    assert (entered(), sweeps) == ({"n": (False, 1000), "m": (True, 1000)}, []), "devices of all nodes are known"
    offer(2000, 2)
    sweeps.clear()
    world.caches.nodes.observe("MODIFIED", node("n", 3))
    world.caches.nodes.observe("ADDED", node("new"))
    assert entered() == {"n": (True, 1000), "m": (True, 1000)}
    first, second = swept()
    assert first > 1 >= second, "they are counted once, in steps"
    assert entered() == {"n": (True, 2000), "m": (True, 1000), "new": (True, 2000)}
