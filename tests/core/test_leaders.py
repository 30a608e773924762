"""Leaders by arena, as a model: together they decide what one leader decides, and never spend quota twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from core.model import ClusterQueue, Cohort, Key, LocalQueue, Preemption, ResourceFlavor, Workload
from core.model.policy import SchedulingPolicy
from core.model.workload import replace
from core.quota.usage import holds_quota
from core.simulation.leaders import Cluster, Leader, Unwritten, shard_of
from core.state.state import State
from tests.builders import NOW, cluster_queue, workload
from tests.core.worlds import FLAVORS, cluster_queues, quotas, workloads
from tests.effort import cases

COHORTS = ("", "c0", "c1", "c2", "c3")
QUEUES = tuple(f"q{number}" for number in range(5))


def empty() -> State:
    """What all leaders know from the beginning."""
    state = State(SchedulingPolicy())
    state.set_namespace("ns", {})
    for flavor in (*FLAVORS, "default"):
        state.set_flavor(flavor, ResourceFlavor(flavor))
    for name in QUEUES:
        state.set_local_queue(Key("ns", name), LocalQueue(Key("ns", name), name))
    return state


def leaders(cluster: Cluster, shards: int) -> list[Leader]:
    return [Leader(cluster, shard, shards, empty()) for shard in range(shards)]


def settle(cluster: Cluster, found: list[Leader]) -> None:
    """All leaders read, hand over, decide and write in turn until nothing changes any more."""
    for _ in range(60):
        before = len(cluster.changes)
        for leader in found:
            leader.read(10_000)
            leader.hand_over()
            leader.read(10_000)
            leader.decide(NOW)
            while leader.unwritten:
                leader.write()
        if len(cluster.changes) == before and all(each.state.next_wake(NOW) != NOW for each in found):
            return


def admitted(cluster: Cluster) -> dict[str, str]:
    """The ClusterQueue that holds quota for each admitted workload."""
    return {key.name: each.admission.cluster_queue for key, each in cluster.workloads.items() if each.admission}


class Writer:
    """Lets leaders decide and write, and asserts of each admission that, with the specifications that it was decided
    on, it fits beside all that is really admitted.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._known: dict[Key, tuple[ClusterQueue, ...]] = {}

    def decide(self, leader: Leader) -> None:
        before = {id(each) for each in leader.unwritten}
        leader.decide(NOW)
        known = tuple(leader.state.reservations.cluster_queues.values())
        self._known.update({each.before.key: known for each in leader.unwritten if id(each) not in before})

    def write(self, leader: Leader) -> Unwritten | None:
        if not leader.unwritten:
            return None
        state, decision = empty(), leader.unwritten[0]
        for queue in self._known[decision.before.key]:
            state.set_cluster_queue(queue.name, queue)
        for key, each in self.cluster.workloads.items():
            state.set_workload(key, each)
        written = leader.write()
        if written is not None and holds_quota(decision.after):
            arena = state.reservations.arenas[state.reservations.arena_of[decision.cluster_queue]]
            usage = state.reservations.of(decision.after).usage
            fits = arena.fits(arena.queues[decision.cluster_queue], usage)
            assert fits, f"{decision.after.key} was given quota that is in use"
        return written


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    cluster = Cluster()
    for name in COHORTS[1:]:
        if draw(st.booleans()):
            cluster.enter(Cohort, name, Cohort(name, "", draw(quotas())))
    for name in QUEUES[: draw(st.integers(2, 5))]:
        queue = draw(cluster_queues(name))
        cluster.enter(ClusterQueue, name, replace(queue, cohort=draw(st.sampled_from(COHORTS))))
    for number in range(draw(st.integers(1, 12))):
        made = draw(workloads(number, draw(st.sampled_from(QUEUES))))
        cluster.enter(Workload, made.key, made)
    return cluster


def copied(cluster: Cluster) -> Cluster:
    return Cluster(list(cluster.changes), dict(cluster.workloads))


@settings(max_examples=cases(40, 2000))
@given(clusters(), st.integers(2, 4))
def test_leaders_decide_together_what_one_decides(cluster: Cluster, shards: int) -> None:
    alone, together = copied(cluster), copied(cluster)
    settle(alone, leaders(alone, 1))
    settle(together, leaders(together, shards))
    assert admitted(together) == admitted(alone)
    marked = {name: shard_of(arena, shards) for name, arena in views(together).items()}
    assert together.marks == marked


def views(cluster: Cluster) -> dict[str, str]:
    return dict(Leader(copied(cluster), 0, 1, empty()).state.reservations.arena_of)


@st.composite
def narrow(draw: st.DrawFn) -> Cluster:
    """ClusterQueues that borrow from each other, and more workloads than there is quota for."""
    cluster = Cluster()
    rules = Preemption(draw(st.sampled_from(["Never", "LowerPriority"])), draw(st.sampled_from(["Never", "Any"])))
    for name in QUEUES:
        cohort = draw(st.sampled_from(COHORTS))
        cluster.enter(ClusterQueue, name, cluster_queue(name, draw(st.integers(1, 4)), cohort=cohort, preemption=rules))
    for number in range(draw(st.integers(4, 12))):
        cluster.enter(*arriving(draw, number))
    return cluster


def arriving(draw: Any, number: int) -> tuple[type, Key, Workload]:
    queue, size, priority = draw(st.sampled_from(QUEUES)), draw(st.integers(1, 6)), draw(st.integers(0, 2))
    made = workload(f"w{number:02}", size, queue=queue, priority=priority, created=float(number))
    return Workload, made.key, made


STEPS = st.tuples(
    st.sampled_from(["turn", "turn", "turn", "read", "write", "write", "restart", "move", "move", "end", "arrive"]),
    st.integers(0, 4),
    st.integers(0, 12),
)


@settings(max_examples=cases(80, 10_000))
@given(narrow(), st.integers(2, 3), st.lists(STEPS, min_size=10, max_size=60), st.data())
def test_quota_is_spent_once_and_no_workload_is_lost_whatever_is_late(
    cluster: Cluster, shards: int, steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    found, writer = leaders(cluster, shards), Writer(cluster)
    former: list[Leader] = []
    for what, who, number in steps:
        leader = found[who % shards]
        match what:
            case "turn":
                leader.read(10_000)
                leader.hand_over()
                leader.read(10_000)
                writer.decide(leader)
            case "read":
                leader.read(number)
                leader.hand_over()
                writer.decide(leader)
            case "write":
                writer.write(leader)
                assert [each.write() for each in former] == [None] * len(former), "the lease of its process has ended"
            case "restart":
                former.append(leader)
                found[who % shards] = Leader(cluster, leader.shard, shards, empty())
            case "move":
                move(cluster, QUEUES[who], COHORTS[number % len(COHORTS)])
            case "end":
                cluster.enter(Workload, Key("ns", f"w{number:02}"), None)
            case "arrive":
                cluster.enter(*arriving(data.draw, len(cluster.changes)))
    settle(cluster, found)
    fresh = Leader(copied(cluster), 0, 1, empty())
    fresh.hand_over()
    fresh.read(100)
    fresh.decide(NOW)
    assert [each.after.key for each in fresh.unwritten if holds_quota(each.after)] == [], "somebody was forgotten"


def move(cluster: Cluster, name: str, cohort: str) -> None:
    """A user moves a ClusterQueue to another cohort."""
    view = Leader(copied(cluster), 0, 1, empty())
    queue = view.state.reservations.cluster_queues.get(name)
    if queue is not None:
        cluster.enter(ClusterQueue, name, replace(queue, cohort=cohort))


def test_an_arena_waits_for_the_writes_of_its_former_leader() -> None:
    shards = {shard_of(f"cohort/{name}", 2): name for name in COHORTS[1:]}
    cluster, first, other = Cluster(), shards[0], shards[1]
    cluster.enter(ClusterQueue, "q0", cluster_queue("q0", 4000, cohort=first))
    cluster.enter(ClusterQueue, "q1", cluster_queue("q1", 4000, cohort=first))
    cluster.enter(Workload, Key("ns", "big"), workload("big", 8000, queue="q0"))
    old, new = leaders(cluster, 2)
    old.hand_over()
    old.read(100)
    old.decide(NOW)
    assert [each.before.key.name for each in old.unwritten] == ["big"], "it borrows the quota of q1"
    move(cluster, "q1", other)
    cluster.enter(Workload, Key("ns", "small"), workload("small", 4000, queue="q1"))
    new.read(100)
    new.hand_over()
    new.read(100)
    new.decide(NOW)
    assert new.unwritten == [], "q1 has the mark of its former leader"
    old.read(100)
    old.hand_over()
    assert cluster.marks["q1"] == 0, "a write that uses its quota is still to come"
    assert old.write() is not None
    old.hand_over()
    settle(cluster, [old, new])
    assert cluster.marks == {"q0": 0, "q1": 1}
    assert admitted(cluster) == {"big": "q0", "small": "q1"}


def test_a_mark_is_taken_once_and_a_write_without_it_is_refused_and_decided_again() -> None:
    cluster = Cluster()
    cluster.enter(ClusterQueue, "q0", cluster_queue("q0", 4000))
    cluster.enter(Workload, Key("ns", "w"), workload("w", 1000, queue="q0"))
    found = leaders(cluster, 2)
    (holder, other) = sorted(found, key=lambda each: each.shard != shard_of("queue/q0", 2))
    cluster.mark(holder, "q0")
    cluster.mark(other, "q0")
    assert cluster.marks == {"q0": holder.shard}, "another shard had read nothing of it"
    holder.read(100)
    holder.decide(NOW)
    cluster.unmark(holder, "q0")
    assert len(holder.unwritten) == 1
    assert holder.write() is None
    settle(cluster, found)
    assert admitted(cluster) == {"w": "q0"}
