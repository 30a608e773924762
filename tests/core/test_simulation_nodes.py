"""The life of workloads that run on nodes which are gone when a simulation starts."""

from __future__ import annotations

import math

import pytest

from core.model import (
    Admission,
    Condition,
    Node,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    Topology,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
    Workload,
)
from core.model.policy import SchedulingPolicy, TopologyPolicy
from core.simulation.simulation import Arrival, PlayedAttempt, simulate
from core.state.state import State
from tests.builders import CPU, cluster_queue, state, workload

RACK, HOSTNAME = "cloud/rack", "kubernetes.io/hostname"


def racks(*nodes: str, quota: int = 100, fail_fast: bool = True) -> State:
    """Nodes of 4 cpu; the first letter of each is its rack."""
    policy = SchedulingPolicy(topology=TopologyPolicy(fail_fast=fail_fast))
    found = state(cluster_queue("cq", quota), policy=policy)
    found.set_topology("t", Topology("t", (RACK, HOSTNAME)))
    found.set_flavor("default", ResourceFlavor("default", topology_name="t"))
    for name in nodes:
        found.set_node(name, Node(name, {RACK: name[0], HOSTNAME: name}, (), {CPU: 4, "pods": 10}))
    return found


def running(name: str, *nodes: str, levels: tuple[str, ...] = (HOSTNAME,)) -> Workload:
    """A workload with one pod of 2 cpu on each node, all in one rack."""
    domains = tuple(TopologyDomain((each,), 1) for each in nodes)
    count = len(nodes)
    given = PodSetAssignment("main", {CPU: "default"}, {CPU: 2 * count}, count, TopologyAssignment(levels, domains))
    return workload(
        name,
        0,
        pod_sets=(PodSet("main", count, {CPU: 2}, topology=TopologyRequest(required=RACK)),),
        admission=Admission("cq", (given,)),
        conditions=(Condition("QuotaReserved", True), Condition("Admitted", True)),
    )


def played(
    found: State, *workloads: Workload, gone: tuple[str, ...], run_for: float = 60.0
) -> list[list[PlayedAttempt]]:
    """The attempts of each workload."""
    timeline = simulate(found, [Arrival(0.0, each, run_for) for each in workloads], gone=gone)
    found.check()
    return [course.attempts for course in timeline.courses.values()]


def nodes(attempt: PlayedAttempt) -> list[str]:
    (given,) = attempt.admission.pod_sets
    assert given.topology is not None
    return [domain.values[-1] for domain in given.topology.domains]


def test_the_pods_of_one_node_that_is_gone_run_on_another_node() -> None:
    ((attempt,),) = played(racks("a1", "a2", "b0"), running("w", "a0", "a1"), gone=("a0",))
    assert (attempt.started, attempt.ended, attempt.reason) == (0.0, 60.0, "")
    assert nodes(attempt) in (["a1"], ["a1", "a2"])
    assert [each.nodes for each in attempt.replacements] == [("a0",)]


def test_a_workload_of_which_several_nodes_are_gone_starts_again_elsewhere() -> None:
    ((first, second),) = played(racks("b0"), running("w", "a0", "a1"), gone=("a0", "a1"))
    assert (first.ended, first.reason, first.preemptor) == (0.0, "NodeFailures", None)
    assert (second.started, second.ended, nodes(second)) == (0.0, 60.0, ["b0"])


def test_quota_of_an_evicted_workload_is_free_for_others() -> None:
    waits = workload("small", 0, pod_sets=(PodSet("main", 1, {CPU: 4}, topology=TopologyRequest(required=RACK)),))
    found = racks("b0", quota=4)
    large = running("large", "a0", "a1", "a2")
    first, (small,) = played(found, large, waits, gone=("a0", "a1", "a2"))
    assert [each.reason for each in first] == ["NodeFailures"], "it fits in no rack"
    assert (small.started, small.ended) == (0.0, 60.0)


@pytest.mark.parametrize("run_for", [60.0, math.inf])
def test_without_fail_fast_it_keeps_its_quota_and_the_simulation_ends(run_for: float) -> None:
    found = racks("a1", "b0", fail_fast=False)
    other = running("other", "a1", "a1")
    ((attempt,), _) = played(found, running("w", "a0", "a1"), other, gone=("a0",), run_for=run_for)
    assert (attempt.ended, attempt.reason) == (None if run_for == math.inf else 60.0, "")
    assert not attempt.replacements


def test_domains_above_the_nodes_do_not_fail() -> None:
    ((attempt,),) = played(racks("b0"), running("w", "a", levels=(RACK,)), gone=("a",))
    assert (attempt.ended, attempt.reason, attempt.replacements) == (60.0, "", ())


def test_a_workload_on_other_nodes_is_not_touched() -> None:
    ((attempt,),) = played(racks("a1"), running("w", "a1"), gone=("a0",))
    assert (attempt.started, attempt.ended, attempt.replacements) == (0.0, 60.0, ())
