"""What a topology costs while no flavor names one: no watch, no byte and nothing kept; and when the last one goes."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import pytest

from api import resources
from api.names import Label
from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.reconcilers import node_failures, topology, topology_ungater
from controller.run.controller import Controller
from controller.settings import ControllerSettings, GuardSettings
from core.guard.pods import RUNNING
from core.jobs.kinds import BATCH_JOB
from core.model import Key
from tests.controller.test_caches import made
from tests.controller.test_guard import pod
from tests.controller.test_topology import World, node
from tests.eventually import eventually

PODS = 100
VERSIONS = itertools.count(10)
ON_NODES, OF_WORKLOADS = f"pods {RUNNING}", f"pods {Label.POD_SET}"


class Streams(Client):
    """A client of an API server with nodes and pods. ``watches`` are those that are open now, ``opened`` all that were,
    ``sent`` are the bytes of their events; by resource and selector.
    """

    def __init__(self) -> None:
        super().__init__(Connection("http://127.0.0.1:1"))
        self.watches: Counter[str] = Counter()
        self.opened: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()

    async def pages(self, resource: Resource, *_: Any, **__: Any) -> AsyncGenerator[Raw, None]:
        self.opened[f"list of {resource.plural}"] += 1
        yield {"items": []}

    async def watch(
        self, resource: Resource, namespace: str = "", *, params: Mapping[str, str], **_: Any
    ) -> AsyncGenerator[bytes, None]:
        selector = params.get("labelSelector") or params.get("fieldSelector") or ""
        name = f"{resource.plural} {selector}".strip()
        self.watches[name] += 1
        self.opened[name] += 1
        try:
            for raw in self._objects(resource):
                line = orjson.dumps({"type": "ADDED", "object": raw})
                self.sent[name] += len(line)
                yield line
            end = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
            yield orjson.dumps({"type": "BOOKMARK", "object": {"metadata": end}})
            await asyncio.Event().wait()
        finally:
            self.watches[name] -= 1

    def _objects(self, resource: Resource) -> list[Raw]:
        if resource == resources.NODES:
            return [node(f"n{number}") for number in range(3)]
        if resource == resources.PODS:
            return [pod(f"p{number}") for number in range(PODS)]
        return []

    @property
    def of_pods(self) -> Mapping[str, int]:
        """The open watches of pods, without those of a kind of job."""
        return {name: self.watches[name] for name in (ON_NODES, OF_WORKLOADS) if self.watches[name]}


@asynccontextmanager
async def running(*, guard: bool) -> AsyncIterator[tuple[Controller, Streams]]:
    """A controller that leads in a cluster without flavors."""
    client = Streams()
    settings = ControllerSettings(guard=GuardSettings(enabled=guard), frameworks=(BATCH_JOB.framework,))
    controller = Controller(client, settings)
    task = asyncio.create_task(controller.run())
    try:
        await eventually(controller.leading.is_set)
        yield controller, client
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def flavor(controller: Controller, event: str, topology: str | None = "racks") -> None:
    raw = made("ResourceFlavor", "tas", {"topologyName": topology} if topology else {})
    raw["metadata"] |= {"uid": f"tas-{next(VERSIONS)}", "resourceVersion": str(next(VERSIONS))}
    store = controller.caches.stores[resources.RESOURCE_FLAVORS]
    if event == "DELETED":
        there = store.get(Key("", "tas"))
        assert there is not None
        store.remove_from_write(Key("", "tas"), there["metadata"]["uid"])
    else:
        store.observe(event, raw)


def nodes_of_state(controller: Controller) -> int:
    placement = controller.caches.state.placement
    assert placement is not None
    return len(placement.nodes) + len(placement.others)


WITH_ONE = Counter(each.__name__ for each in (topology, topology, topology_ungater, node_failures))
WITHOUT = Counter([topology.__name__])
"""One sees whether a Workload has domains."""


def observers(controller: Controller) -> Counter[str]:
    """The observers of Workloads that have to do with topologies, by module; others, and this one, may come after the
    moment in which the controller leads.
    """
    modules = (str(each.__module__) for each in controller.caches.observers)
    return Counter(each for each in modules if each in WITH_ONE)


async def test_without_a_topology_no_pod_is_watched_and_no_byte_of_one_is_read() -> None:
    async with running(guard=False) as (controller, client):
        flavor(controller, "ADDED", topology=None)
        await eventually(lambda: client.watches["nodes"])  # as ever, for warnings
        assert not any(client.opened[each] for each in (ON_NODES, OF_WORKLOADS, "list of pods"))
        assert (client.sent[ON_NODES], client.sent[OF_WORKLOADS]) == (0, 0)
        assert (len(controller.pods), nodes_of_state(controller)) == (0, 0)
        flavor(controller, "ADDED")
        await eventually(lambda: client.of_pods == {ON_NODES: 1, OF_WORKLOADS: 1})
        await eventually(lambda: nodes_of_state(controller) == 4)
        assert client.sent[ON_NODES] > 100 * PODS


async def test_with_the_guard_a_topology_costs_one_watch_more() -> None:
    async with running(guard=True) as (controller, client):
        await eventually(lambda: client.of_pods == {ON_NODES: 1})
        flavor(controller, "ADDED")
        await eventually(lambda: client.of_pods == {ON_NODES: 1, OF_WORKLOADS: 1})
        await eventually(lambda: controller.topology.known)
        flavor(controller, "DELETED")
        await eventually(lambda: client.of_pods == {ON_NODES: 1})
        await eventually(lambda: not nodes_of_state(controller))
        assert (client.opened[ON_NODES], len(controller.pods)) == (1, PODS)


async def test_all_watches_end_with_the_last_topology_and_begin_again_with_the_next() -> None:
    async with running(guard=False) as (controller, client):
        for times in (1, 2):
            flavor(controller, "ADDED")
            await eventually(lambda: controller.topology.known and client.of_pods == {ON_NODES: 1, OF_WORKLOADS: 1})
            assert (len(controller.pods), nodes_of_state(controller)) == (PODS, 4)
            await eventually(lambda: observers(controller) == WITH_ONE)
            flavor(controller, "DELETED")
            await eventually(lambda: not client.of_pods and not len(controller.pods))
            await eventually(lambda: (nodes_of_state(controller), observers(controller)) == (0, WITHOUT))
            assert (client.opened[ON_NODES], client.opened[OF_WORKLOADS]) == (times, times)


async def test_a_flavor_that_is_replaced_gets_pods_of_a_new_list() -> None:
    """It is there again while the watch of the one before ends: State has no node before all pods are known again."""
    async with running(guard=False) as (controller, client):
        flavor(controller, "ADDED")
        await eventually(lambda: controller.topology.known)
        flavor(controller, "DELETED")
        for _ in range(3):
            await asyncio.sleep(0)
        flavor(controller, "ADDED")
        await eventually(lambda: client.opened[ON_NODES] == 2 and controller.topology.known)
        assert (len(controller.pods), nodes_of_state(controller)) == (PODS, 4)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    found = World()
    found.nodes.synced.set()
    found.of_pods.synced.set()
    task = asyncio.create_task(found.topology.run(found.nodes, found.of_pods))
    yield found
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def end(world: World) -> None:
    world.caches.stores[resources.RESOURCE_FLAVORS].observe("DELETED", made("ResourceFlavor", "tas", {}))


def ends_by_deletion(world: World) -> None:
    world.workload("w", "DELETED", 3)


def ends_by_release(world: World) -> None:
    world.workload("w", "MODIFIED", 3)


@pytest.mark.parametrize("ends", [ends_by_deletion, ends_by_release])
async def test_a_workload_that_is_still_placed_is_looked_after_until_its_quota_is_free(
    world: World, ends: Callable[[World], None]
) -> None:
    world.flavor(topologyName="racks")
    world.workload("waits")
    world.workload("w", on={"r": 1})
    world.caches.nodes.observe("ADDED", node("n"))
    await eventually(lambda: world.topology.known)
    end(world)
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.topology.known and world.known[0] == ["n"] and "leave" not in world.events
    ends(world)
    await eventually(lambda: "leave" in world.events)
    assert world.known == ([], {}) and not world.topology.known


async def test_a_process_that_begins_with_a_placed_workload_and_no_flavor_looks_after_it(world: World) -> None:
    world.workload("w", on={"r": 1})
    await eventually(lambda: world.topology.known)


async def test_the_first_list_is_not_waited_for_when_the_flavor_goes_meanwhile() -> None:
    world = World()  # no list is complete
    world.flavor(topologyName="racks")
    task = asyncio.create_task(world.topology.run(world.nodes, world.of_pods))
    complete = asyncio.create_task(world.topology.complete())
    await eventually(lambda: world.events == ["follow"])
    assert not complete.done()
    end(world)
    await eventually(complete.done)
    task.cancel()
