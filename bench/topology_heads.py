"""A scheduling cycle with a topology against the same one without: `python -m bench.topology_heads`.

1,000 heads of 1,000 ClusterQueues, as in ``bench.cycle``, each a pod that is to be in one rack, among 3,000 nodes with
20,000 running pods: where each head fits (and nearly all of them choose the node that an earlier head fills), and where
nothing fits. And a search for victims among 1,000 candidates, for a whole rack. Least CPU times, taking turns.
"""

from __future__ import annotations

import functools

from msgspec.structs import replace

from bench.cycle import NOW, RESOURCES, admitted_workload, best_of, cluster, cycles, pending_workload, plan
from core.model import (
    Admission,
    ClusterQueue,
    FlavorResource,
    Key,
    LocalQueue,
    Node,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Selector,
    Topology,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
    Workload,
)
from core.model.policy import SchedulingPolicy, Strategy, TopologyPolicy
from core.scheduling.cycle import schedule
from core.state.state import State

LEVELS = ("block", "rack", "kubernetes.io/hostname")
IN_RACK = TopologyRequest(required="rack")
NODES = 3_000
FLAVORS = ("on-demand", "spot")


def node(number: int, kind: str, *, rack: int, cpu: int) -> Node:
    """A node of a flavor with so many milli-cpu, in a rack of so many nodes."""
    labels = dict(zip(LEVELS, (f"b{number // 640}", f"r{number // rack}", f"n{number}"), strict=True))
    return Node(f"n{number}", {"type": kind, **labels}, allocatable={"cpu": cpu, "memory": 10**6, "pods": 110})


def on(workload: Workload, number: int, flavor: str, queue: str) -> Workload:
    """The running workload with its pod on a node."""
    domains = TopologyAssignment(LEVELS[-1:], (TopologyDomain((f"n{number}",), 1),))
    assert workload.admission is not None
    given = replace(workload.admission.pod_sets[0], flavors=dict.fromkeys(RESOURCES, flavor), topology=domains)
    pod_sets = (replace(workload.pod_sets[0], topology=TopologyRequest(unconstrained=True)),)
    return replace(workload, pod_sets=pod_sets, admission=Admission(queue, (given,)))


def with_topology(*, full: bool) -> State:
    """The State of ``bench.cycle`` with nodes."""
    policy = SchedulingPolicy(topology=TopologyPolicy())
    state = cluster(queues=1000, cohorts=50, pending=10_000, admitted=20_000, full=full, policy=policy)
    state.set_topology("t", Topology("t", LEVELS))
    for flavor in FLAVORS:
        state.set_flavor(flavor, ResourceFlavor(flavor, node_labels={"type": flavor}, topology_name="t"))
    for number in range(NODES):
        state.set_node(f"n{number}", node(number, FLAVORS[number % 2], rack=64, cpu=16_000))
    for number, key in enumerate(list(state.workloads)):
        found = state.workloads[key]
        if found.admission is None:
            state.set_workload(key, replace(found, pod_sets=(replace(found.pod_sets[0], topology=IN_RACK),)))
            continue
        flavor = found.admission.pod_sets[0].flavors["cpu"]
        place = (number // 2 * 2 + FLAVORS.index(flavor)) % NODES
        state.set_workload(key, on(found, place, flavor, found.admission.cluster_queue))
    return state


def victims(policy: SchedulingPolicy) -> float:
    """Milliseconds of a head that needs a rack of 128 pods, in which others of 1,000 with lower priority run."""
    state = State(policy)
    state.set_namespace("ns", {})
    state.set_topology("t", Topology("t", LEVELS))
    state.set_flavor("f", ResourceFlavor("f", topology_name="t"))
    for number in range(128):
        state.set_node(f"n{number}", node(number, "f", rack=16, cpu=8_000))
    quotas = {FlavorResource("f", resource): Quota(10**8) for resource in RESOURCES}
    groups = (ResourceGroup(RESOURCES, ("f",)),)
    rules = Preemption("LowerPriority", "Any")
    queue = ClusterQueue("q", groups=groups, quotas=quotas, namespace_selector=Selector(), preemption=rules)
    state.set_cluster_queue("q", queue)
    state.set_local_queue(Key("ns", "q"), LocalQueue(Key("ns", "q"), "q"))
    for number in range(1000):
        found = on(admitted_workload(number, "q"), number * 37 % 128, "f", "q")
        state.set_workload(found.key, found)
    key = Key("ns", "head")
    head = pending_workload(key, "q", 0, cpu=1000, priority=10)
    state.set_workload(key, replace(head, pod_sets=(replace(head.pod_sets[0], count=128, topology=IN_RACK),)))
    heads, snapshot = state.heads(NOW), state.snapshot()

    def preempt() -> None:
        (wait,) = schedule(snapshot, heads, policy, NOW).decisions
        assert len(getattr(wait, "victims", ())) > 100

    return best_of(5, preempt)[0]


def main() -> None:
    """Prints the figures."""
    print(f"{'milliseconds':58} without    with   ratio")
    for full, name in ((False, "1,000 heads, each fits"), (True, "1,000 heads, none fits")):
        plain = cluster(queues=1000, cohorts=50, pending=10_000, admitted=20_000, full=full)
        placed = with_topology(full=full)
        for state in (plain, placed):
            plan(state)
        without, found = cycles(plain, placed)
        print(f"{name:58} {without:7.1f} {found:7.1f} {found / without:7.2f}", flush=True)
    policy = functools.partial(SchedulingPolicy, topology=TopologyPolicy())
    for strategies, name in ((None, "classical"), (tuple(Strategy), "fair sharing")):
        took = victims(policy(fair_sharing=strategies))
        print(f"{f'victims for a rack among 1,000 candidates, {name}':58} {took:15.1f}")


if __name__ == "__main__":
    main()
