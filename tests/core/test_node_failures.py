"""What follows for a workload when nodes of its assignment fail."""

from __future__ import annotations

from core.actions import Action, Patch, Wait
from core.model import (
    Admission,
    Condition,
    Placement,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    Toleration,
    TopologyAssignment,
    TopologyDomain,
    Workload,
)
from core.model.workload import replace
from core.topology.health import FAILED, HEALTHY, NodeHealth
from core.workload.actions import Evict
from core.workload.node_failures import assigned_nodes, decide, tolerations
from tests.builders import NOW, workload

HOST = ("kubernetes.io/hostname",)


def admitted(*nodes: str, levels: tuple[str, ...] = HOST, unhealthy: tuple[str, ...] = ()) -> Workload:
    """One pod on each of the nodes."""
    domains = tuple(TopologyDomain((name,), 1) for name in nodes)
    assigned = PodSetAssignment("main", {"cpu": "tas"}, {"cpu": 1}, len(nodes), TopologyAssignment(levels, domains))
    conditions = (Condition("QuotaReserved", True), Condition("Admitted", True))
    return workload("w", 1, admission=Admission("cq", (assigned,)), conditions=conditions, unhealthy_nodes=unhealthy)


def written(action: Action) -> object:
    assert isinstance(action, Patch)
    return action.body["status"]["unhealthyNodes"]


def test_a_failed_node_is_written_to_the_status() -> None:
    action = decide(admitted("a", "b"), {"a": HEALTHY, "b": FAILED}, NOW)
    assert written(action) == [{"name": "b"}]
    assert not isinstance(action, Evict)


def test_nothing_is_written_again_while_the_node_is_replaced() -> None:
    assert decide(admitted("a", "b", unhealthy=("b",)), {"a": HEALTHY, "b": FAILED}, NOW) == Wait(None)


def test_a_node_that_recovers_is_removed_again() -> None:
    assert written(decide(admitted("a", "b", unhealthy=("b",)), {"a": HEALTHY, "b": HEALTHY}, NOW)) is None


def test_a_second_failed_node_evicts() -> None:
    action = decide(admitted("a", "b", unhealthy=("b",)), {"a": FAILED, "b": FAILED}, NOW)
    assert isinstance(action, Evict)
    message = "Workload eviction triggered due to multiple TAS assigned node failures, including: b, a"
    evicted = action.after.condition("Evicted")
    assert evicted is not None and (evicted.reason, evicted.message) == ("NodeFailures", message)
    assert action.body["status"]["unhealthyNodes"] is None
    assert action.after.evictions == (("NodeFailures", "", 1),)
    assert [each.reason for each in action.events] == ["EvictedDueToNodeFailures"]


def test_two_nodes_that_fail_together_evict() -> None:
    assert isinstance(decide(admitted("a", "b"), {"a": FAILED, "b": FAILED}, NOW), Evict)


def test_one_node_fails_while_another_recovers() -> None:
    action = decide(admitted("a", "b", unhealthy=("b",)), {"a": FAILED, "b": HEALTHY}, NOW)
    assert written(action) == [{"name": "a"}]


def test_a_node_of_which_nothing_is_known_yet_changes_nothing_and_is_looked_at_in_time() -> None:
    found = {"a": NodeHealth(None, 20.0), "b": NodeHealth(None, 5.0)}
    assert decide(admitted("a", "b", unhealthy=("b",)), found, NOW) == Wait(5.0)


def test_only_hostnames_of_running_workloads_are_nodes() -> None:
    here = admitted("a", "b")
    assert list(assigned_nodes(here)) == ["a", "b"]
    assert assigned_nodes(admitted("rack-1", levels=("rack",))) == {}
    assert assigned_nodes(replace(here, conditions=(Condition("QuotaReserved", True),))) == {}
    assert assigned_nodes(replace(here, conditions=(*here.conditions, Condition("Evicted", True)))) == {}


def test_pods_tolerate_what_their_template_flavor_and_checks_tolerate() -> None:
    own, of_flavor = Toleration("own", "Exists"), Toleration("flavor", "Exists")
    found = admitted("a")
    found = replace(found, pod_sets=(PodSet("main", 1, {"cpu": 1}, placement=Placement(tolerations=(own,))),))
    flavors = {"tas": ResourceFlavor("tas", tolerations=(of_flavor,))}
    assert tolerations(found, assigned_nodes(found)["a"], flavors) == [(own, of_flavor)]
