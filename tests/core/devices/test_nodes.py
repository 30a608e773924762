"""Devices of a node: with a topology, pods that ask for devices run where they are free."""

from __future__ import annotations

import random
from typing import Any

import pytest

from core.devices.extended import IMPLICIT
from core.model import FlavorResource, Key, Node, Quota, Raw, ResourceGroup, StayPending, Workload
from core.model.queues import ClusterQueue
from core.model.workload import replace
from core.state.state import State
from core.steps import completed
from core.wire import decode
from core.wire.pod_requests import RequestRules
from tests.builders import CPU, put
from tests.core.devices.samples import a_class, a_slice, device, enter, exactly, inventory, template
from tests.core.test_placement_cycle import RACK, domains, last, node, queue, runs, world
from tests.effort import cases

GPUS = [{"name": "gpus", "deviceClassNames": ["gpu"]}]
CARD = "example.com/card"
OFFERED = (a_class("gpu", "device.driver == 'gpu.example.com'"), template("two", exactly("gpu", 2)))


def on(name: str, count: int, **fields: Any) -> Raw:
    """A slice with so many devices of a node."""
    return a_slice(f"s-{name}", *[device()] * count, node=name, **fields)


def allocatable(mappings: list[Raw], *objects: Raw, has: dict[str, int] | None = None, **gates: bool) -> dict[str, int]:
    """What the node n1 has, beside its cpu."""
    found = completed(inventory(mappings, *objects, **gates).equipped(Node("n1", allocatable={CPU: 4, **(has or {})})))
    return {name: amount for name, amount in found.allocatable.items() if name != CPU}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([on("n1", 3)], {"gpus": 3}, id="its own"),
        pytest.param([on("n2", 3)], {}, id="those of another node"),
        pytest.param([on("", 2), on("n1", 1)], {"gpus": 3}, id="with those of no single node"),
        pytest.param([on("n1", 3, driver="nic.example.com")], {}, id="those of another class"),
        pytest.param(
            [on("n1", 3, pool="p"), a_slice("new", device(), node="n1", pool="p", generation=2)],
            {"gpus": 1},
            id="the newest generation",
        ),
        pytest.param(
            [on("n1", 3, pool="p"), a_slice("new", device(), pool="p", generation=2)],
            {"gpus": 1},
            id="the newest generation is of no single node",
        ),
    ],
)
def test_a_node_has_devices_by_the_resource_of_their_class(objects: list[Raw], expected: dict[str, int]) -> None:
    assert allocatable(GPUS, *OFFERED, *objects) == expected


def test_a_device_of_two_classes_counts_once() -> None:
    both = [{"name": "gpus", "deviceClassNames": ["gpu", "large"]}]
    large = a_class("large", "device.attributes['gpu.example.com'].profile == 'large'")
    slices = a_slice("s", device("large"), device("small"), node="n1")
    assert allocatable(both, *OFFERED, large, slices) == {"gpus": 2}


def test_a_selector_that_cannot_be_evaluated_here_excludes_no_device() -> None:
    odd = a_class("gpu", "sets.contains(['a'], ['a'])")
    assert allocatable(GPUS, odd, on("n1", 3)) == {"gpus": 3}


def test_classes_that_count_by_counter_limit_no_node() -> None:
    source = {
        "counter": {"name": "memory", "driver": "gpu.example.com", "deviceSelector": {"cel": {"expression": "true"}}}
    }
    assert allocatable([GPUS[0] | {"sources": [source]}], *OFFERED, on("n1", 3)) == {}


def test_a_class_that_is_not_mapped_counts_as_its_extended_resource() -> None:
    assert allocatable([], a_class("gpu", resource=CARD), on("n1", 2)) == {CARD: 2, f"{IMPLICIT}gpu": 2}
    alone = allocatable([], a_class("gpu", resource=CARD), on("n1", 2), KueueDRAIntegrationExtendedResource=False)
    assert alone == {}


def test_a_device_plugin_offers_devices_of_the_class_too() -> None:
    found = allocatable(GPUS, a_class("gpu", resource=CARD), on("n1", 2), has={CARD: 3})
    assert found == {CARD: 3, "gpus": 5}


def test_a_device_that_many_claims_share_limits_nothing() -> None:
    shared = device() | {"allowMultipleAllocations": True}
    assert allocatable(GPUS, *OFFERED, a_slice("s", shared, node="n1"))["gpus"] > 1_000_000


def test_with_the_gate_off_no_node_has_devices_and_no_pod_takes_any() -> None:
    assert allocatable(GPUS, *OFFERED, on("n1", 3), KueueDRADeviceFeasibility=False) == {}
    found = Cluster(KueueDRADeviceFeasibility=False)
    assert found.read("w").pod_sets[0].with_devices is None
    assert found.read("w").pod_sets[0].requests == {CPU: 1, "gpus": 2}, "quota counts them"
    assert sum(domains(last(put(found.state, found.read("w")), "w")).values()) == 1


# In the cycle.


class Cluster:
    """A topology whose nodes have devices, and Workloads whose pods claim them."""

    def __init__(self, *objects: Raw, **gates: bool) -> None:
        classes = (a_class("gpu", resource=CARD), template("two", exactly("gpu", 2)))
        self.inventory = inventory(GPUS, *classes, *objects, **gates)
        self.context = decode.WorkloadContext(RequestRules(devices=self.inventory))
        self.state = world(with_devices(queue("a", "tas")), nodes=())
        for name, rack in (("n1", "r1"), ("n2", "r2")):
            self.offer(node(name, 9, rack=rack))

    def offer(self, found: Node) -> None:
        self.state.set_node(found.name, completed(self.inventory.equipped(found)))

    def read(self, name: str, pods: int = 1, *, status: Raw | None = None, **spec: Any) -> Workload:
        """A waiting Workload of pods in one rack, of which each claims two devices unless ``spec`` is another one."""
        spec = spec or {"resourceClaims": [{"name": "d", "resourceClaimTemplateName": "two"}]}
        spec.setdefault("containers", [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}])
        pod_set = {"name": "main", "count": pods, "template": {"spec": spec}, "topologyRequest": {"required": RACK}}
        metadata = {"name": name, "namespace": "ns", "uid": name}
        raw = {"metadata": metadata, "spec": {"queueName": "a", "podSets": [pod_set]}, "status": status or {}}
        return decode.workload(raw, self.context)


def with_devices(found: ClusterQueue) -> ClusterQueue:
    """The queue with quota for more devices than there are."""
    quotas = {**found.quotas, FlavorResource("tas", "gpus"): Quota(100)}
    return replace(found, groups=(ResourceGroup((CPU, "gpus"), ("tas",)),), quotas=quotas)


def test_pods_run_where_their_devices_are() -> None:
    found = Cluster(on("n1", 1), on("n2", 4))
    assert domains(last(put(found.state, found.read("w", 2)), "w")) == {"n2": 2}


def test_devices_in_use_are_not_given_again() -> None:
    found = Cluster(on("n1", 2), on("n2", 2))
    first = runs(found.read("first"), {"n1": 1})
    put(found.state, first)
    assert domains(last(put(found.state, found.read("second")), "second")) == {"n2": 1}
    decision = last(put(found.state, found.read("third")), "third")
    assert isinstance(decision, StayPending)
    assert 'excluded: resource "gpus": 2' in decision.message
    found.state.set_workload(first.key, None)
    assert domains(last(found.state, "third")) == {"n1": 1}


def test_a_waiting_job_starts_when_a_driver_offers_devices() -> None:
    found = Cluster()
    assert isinstance(last(put(found.state, found.read("w")), "w"), StayPending)
    enter(found.inventory, on("n2", 2))
    found.offer(node("n2", 9, rack="r2"))
    assert domains(last(found.state, "w")) == {"n2": 1}


def test_an_extended_resource_that_no_node_reports_is_a_device() -> None:
    found = Cluster(on("n2", 2))
    cards = {"requests": {"cpu": "1m", CARD: "2"}}
    workload = found.read("w", containers=[{"name": "c", "resources": cards}])
    assert workload.pod_sets[0].on_node == {CPU: 1, "gpus": 2}
    assert workload.pod_sets[0].per_pod == {CPU: 1, CARD: 2}, "what its containers request"
    assert domains(last(put(found.state, workload), "w")) == {"n2": 1}


def test_devices_stay_in_use_when_their_template_is_deleted() -> None:
    found = Cluster(on("n1", 2))
    found.inventory.set_template(Key("ns", "two"), None)
    given = {
        "name": "main",
        "count": 1,
        "flavors": {"cpu": "tas", "gpus": "tas"},
        "resourceUsage": {"cpu": "1m", "gpus": "2"},
    }
    condition = {"type": "QuotaReserved", "status": "True", "reason": "r", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"admission": {"clusterQueue": "a", "podSetAssignments": [given]}, "conditions": [condition]}
    assert found.read("w", status=status).pod_sets[0].on_node == {CPU: 1, "gpus": 2}


def used(found: State) -> dict[str, int]:
    """The devices in use by node."""
    total: dict[str, int] = {}
    for arena in found.reservations.arenas.values():
        for each in arena.queues.values():
            for held in each.reserved.values():
                for given in held.workload.admission.pod_sets if held.workload.admission else ():
                    for domain in given.topology.domains if given.topology else ():
                        total[domain.values[-1]] = total.get(domain.values[-1], 0) + 2 * domain.count
    return total


def test_no_node_gives_more_devices_than_it_has() -> None:
    chance = random.Random(5)
    for _ in range(cases(15, 200)):
        has = {name: chance.randrange(7) for name in ("n1", "n2")}
        found = Cluster(*[on(name, count) for name, count in has.items()])
        names = [f"w{number}" for number in range(5)]
        for name in names:
            put(found.state, found.read(name, chance.randrange(1, 3)))
        last(found.state, names[-1])
        in_use = used(found.state)
        assert all(amount <= has[name] for name, amount in in_use.items()), (has, in_use)
        assert in_use or max(has.values()) < 4, "who fits is admitted"
