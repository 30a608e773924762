"""Random small clusters for properties: cohort trees with limits, queues of every policy, workloads that run and
wait.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from core.model import (
    Admission,
    ClusterQueue,
    Cohort,
    Condition,
    FlavorResource,
    Fungibility,
    Key,
    LocalQueue,
    PodSet,
    PodSetAssignment,
    Preemption,
    QueueingStrategy,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Selector,
    Workload,
)
from core.model.policy import SchedulingPolicy, Strategy
from core.state.state import State

RESOURCES = ("cpu", "memory")
FLAVORS = ("fa", "fb")
AMOUNT = st.integers(0, 9)
LIMIT = st.none() | st.integers(0, 6)
POLICIES = st.sampled_from(
    [
        SchedulingPolicy(),
        SchedulingPolicy(priority_sorting_within_cohort=False),
        SchedulingPolicy(fair_sharing=tuple(Strategy)),
        SchedulingPolicy(fair_sharing=(Strategy.LESS_THAN_INITIAL_SHARE,)),
        SchedulingPolicy(fair_sharing=(Strategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE,)),
    ]
)


@st.composite
def quotas(draw: st.DrawFn) -> dict[FlavorResource, Quota]:
    return {FlavorResource(f, r): Quota(draw(AMOUNT), draw(LIMIT), draw(LIMIT)) for f in FLAVORS for r in RESOURCES}


@st.composite
def cluster_queues(draw: st.DrawFn, name: str) -> ClusterQueue:
    never_or = st.sampled_from
    return ClusterQueue(
        name=name,
        cohort=draw(st.sampled_from(["", "c0", "c1", "c2"])),
        groups=(ResourceGroup(RESOURCES, FLAVORS),),
        quotas=draw(quotas()),
        strategy=draw(st.sampled_from(list(QueueingStrategy))),
        namespace_selector=Selector(),
        fungibility=Fungibility(
            draw(never_or(["MayStopSearch", "TryNextFlavor"])),
            draw(never_or(["MayStopSearch", "TryNextFlavor"])),
            draw(never_or(["", "BorrowingOverPreemption", "PreemptionOverBorrowing"])),
        ),
        preemption=Preemption(
            draw(never_or(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])),
            draw(never_or(["Never", "Any", "LowerPriority"])),
            draw(never_or(["Never", "LowerPriority"])),
            draw(st.none() | st.integers(0, 3)),
        ),
        weight=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
    )


@st.composite
def workloads(draw: st.DrawFn, number: int, queue: str) -> Workload:
    count = draw(st.integers(1, 4))
    minimum = draw(st.none() | st.integers(1, count))
    requests = {r: draw(st.integers(0, 4)) for r in RESOURCES}
    return Workload(
        key=Key("ns", f"w{number:02}"),
        uid=f"u{number:02}",
        created=float(draw(st.integers(0, 5))),
        queue=queue,
        priority=draw(st.integers(0, 3)),
        pod_sets=(PodSet("main", count, requests, minimum),),
    )


def running(workload: Workload, queue: str, flavor: str, since: float) -> Workload:
    """The workload as it is when admitted in one flavor."""
    (pod_set,) = workload.pod_sets
    usage = {r: amount * pod_set.count for r, amount in pod_set.requests.items()}
    assigned = PodSetAssignment("main", dict.fromkeys(usage, flavor), usage, pod_set.count)
    return admitted(workload, Admission(queue, (assigned,)), since)


def admitted(workload: Workload, admission: Admission, since: float) -> Workload:
    """The workload as its object is once the admission has been written."""
    conditions = (Condition("QuotaReserved", True, since=since), Condition("Admitted", True, since=since))
    return replace(workload, admission=admission, conditions=conditions)


@st.composite
def worlds(draw: st.DrawFn, *, occupied: bool = True) -> State:
    """A State with up to five ClusterQueues in up to three cohorts, which may share nodes; ``occupied`` ones have
    workloads that run.
    """
    state = State(draw(POLICIES))
    state.set_namespace("ns", {})
    topology = draw(st.sampled_from([None, "racks"]))
    for flavor in FLAVORS:
        state.set_flavor(flavor, ResourceFlavor(flavor, topology_name=topology))
    parents = {"c0": "", "c1": draw(st.sampled_from(["", "c0"])), "c2": draw(st.sampled_from(["", "c0", "c1"]))}
    for name, parent in parents.items():
        if draw(st.booleans()):
            state.set_cohort(name, Cohort(name, parent, draw(quotas()), draw(st.sampled_from([0.0, 1.0, 3.0]))))
    names = [f"q{number}" for number in range(draw(st.integers(1, 5)))]
    for name in names:
        state.set_cluster_queue(name, draw(cluster_queues(name)))
        state.set_local_queue(Key("ns", name), LocalQueue(Key("ns", name), name))
    for number in range(draw(st.integers(1, 14))):
        queue = draw(st.sampled_from(names))
        workload = draw(workloads(number, queue))
        if occupied and draw(st.booleans()):
            workload = running(workload, queue, draw(st.sampled_from(FLAVORS)), float(draw(st.integers(0, 9))))
        state.set_workload(workload.key, workload)
    return state


@st.composite
def crowded(draw: st.DrawFn) -> State:
    """Up to three queues of one cohort full of workloads of all sizes, and one of high priority that asks for much."""
    state = State(draw(POLICIES))
    state.set_namespace("ns", {})
    for flavor in FLAVORS:
        state.set_flavor(flavor, ResourceFlavor(flavor))
    names = [f"q{number}" for number in range(draw(st.integers(1, 3)))]
    sizes = draw(
        st.lists(st.tuples(st.integers(1, 8), st.integers(0, 2), st.sampled_from(names)), min_size=2, max_size=9)
    )
    room = {name: sum(size for size, _, queue in sizes if queue == name) for name in names}
    lent = draw(st.integers(0, room[names[-1]])) if len(names) > 1 else 0
    nominal = {**room, names[0]: room[names[0]] + lent, names[-1]: room[names[-1]] - lent} if lent else room
    rules = Preemption(
        draw(st.sampled_from(["Never", "LowerPriority"])), draw(st.sampled_from(["Any", "LowerPriority"]))
    )
    for name in names:
        quota = {FlavorResource(f, r): Quota(nominal[name] if f == "fa" else 0) for f in FLAVORS for r in RESOURCES}
        groups = (ResourceGroup(RESOURCES, FLAVORS),)
        queue = ClusterQueue(
            name=name, cohort="c0", groups=groups, quotas=quota, namespace_selector=Selector(), preemption=rules
        )
        state.set_cluster_queue(name, queue)
        state.set_local_queue(Key("ns", name), LocalQueue(Key("ns", name), name))
    for number, (size, priority, home) in enumerate(sizes):
        pod_sets = (PodSet("main", 1, dict.fromkeys(RESOURCES, size)),)
        workload = Workload(Key("ns", f"w{number:02}"), f"u{number:02}", 0.0, home, priority, pod_sets)
        state.set_workload(workload.key, running(workload, home, "fa", float(draw(st.integers(0, 9)))))
    asked = dict.fromkeys(RESOURCES, draw(st.integers(1, 12)))
    state.set_workload(Key("ns", "z"), Workload(Key("ns", "z"), "z", 1.0, names[0], 3, (PodSet("main", 1, asked),)))
    return state


def copy(state: State) -> State:
    """Another State of the same objects."""
    made = State(state.policy)
    reservations: Any = state.reservations
    for name, labels in state.namespaces.items():
        made.set_namespace(name, labels)
    for name, flavor in reservations.flavors.items():
        made.set_flavor(name, flavor)
    for name, check in reservations.checks.items():
        made.set_admission_check(name, check)
    for name, cohort in reservations.cohorts.items():
        made.set_cohort(name, cohort)
    for name, queue in reservations.cluster_queues.items():
        made.set_cluster_queue(name, queue)
    for key, local_queue in state.pending.local_queues.items():
        made.set_local_queue(key, local_queue)
    for key, workload in state.workloads.items():
        made.set_workload(key, workload)
    return made
