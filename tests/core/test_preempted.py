"""Victims of one preemptor are requeued together, and no workload is preempted for the same one endlessly."""

import pytest
from msgspec.structs import replace

from core.model import (
    Admission,
    ClusterQueue,
    FlavorResource,
    Key,
    PodSet,
    PodSetAssignment,
    Preemption,
    Quota,
    Reserve,
    ResourceGroup,
    StayPending,
    Workload,
)
from core.model.policy import SchedulingPolicy, Strategy
from core.simulation.simulation import Arrival, simulate
from core.state.drain import drain
from core.state.preempted import MAX_PAUSE, ROUNDS_WITHOUT_DELAY
from core.state.state import State
from core.state.wake_ups import MAX_WAIT
from core.workload import transitions
from tests.builders import EVERY, cluster_queue, reserved, state, workload

A, B = Key("ns", "a"), Key("ns", "b")


def decide(found: State, now: float) -> dict[str, str]:
    """What a drain says of each workload, last word: `reserved`, or the reason it waits for."""
    said = {}
    for plan in drain(found, found.policy, now):
        for decision in plan.decisions:
            said[decision.workload.key.name] = "reserved" if isinstance(decision, Reserve) else decision.reason
    return said


def lent_out() -> State:
    """Queue `mine` has lent all of its 3 cpu to `theirs`, and wants them back for one workload: two have to go."""
    found = state(
        cluster_queue("mine", 3, cohort="all", preemption=Preemption("Never", "Any")),
        cluster_queue("theirs", 1, cohort="all"),
        local={"lq": "mine", "lt": "theirs"},
    )
    for number in (1, 2):
        found.set_workload(Key("ns", f"v{number}"), victim(number))
    found.set_workload(Key("ns", "claim"), workload("claim", 3))
    assert decide(found, 0.0) == {"claim": "WaitingForPreemptedWorkloads"}
    return found


def victim(number: int) -> Workload:
    return reserved(f"v{number}", 2, "theirs", queue="lt", created=float(number), since=float(number))


def release(found: State, number: int, now: float) -> None:
    """The victim is stopped, and its quota free."""
    gone = transitions.preempted(victim(number), "InCohortReclamation", "", now)
    found.set_workload(Key("ns", f"v{number}"), gone)
    found.set_workload(Key("ns", f"v{number}"), transitions.released(gone, now))


def test_victims_of_one_preemptor_are_requeued_together_whichever_stops_first() -> None:
    found = lent_out()
    release(found, 2, 5.0)
    assert decide(found, 5.0) == {}, "the later one is judged while the earlier one still holds its place"
    release(found, 1, 5.1)
    assert decide(found, 5.1) == {"claim": "reserved", "v1": "WaitingForQuota"}


def test_a_tree_waits_a_second_for_the_other_victims_and_not_longer() -> None:
    found = lent_out()
    release(found, 2, 5.0)
    assert (found.heads(5.0), found.next_wake(5.0)) == ((), 5.0 + MAX_PAUSE)
    assert [head.workload.key.name for head in found.heads(5.0 + MAX_PAUSE)] == ["claim", "v2"]
    assert found.next_wake(6.0) in (None, 6.0 + MAX_PAUSE)


@pytest.mark.parametrize("first", [1, 2])
def test_victims_that_stop_seconds_apart_get_kueues_messages_in_either_order(first: int) -> None:
    """Kueue, with two equal victims that stop 2.5 s apart: the preemptor precedes the first, which stays queued. When
    both have stopped, the first in the queue gets a new message, and the other is parked with it without one.
    """
    found = lent_out()
    release(found, first, 5.0)
    assert decide(found, 5.0) == {}
    assert decide(found, 5.0 + MAX_PAUSE) == {"claim": "WaitingForPreemptedWorkloads", f"v{first}": "WaitingForQuota"}
    release(found, 3 - first, 7.5)
    assert decide(found, 7.5) == {"claim": "reserved", "v1": "WaitingForQuota"}
    assert decide(found, 7.5 + MAX_WAIT) in ({}, {"v1": "WaitingForQuota"}), "v2 is of v1's shape, and behind it"


def test_a_victim_that_finishes_or_is_kept_does_not_delay_others() -> None:
    found = lent_out()
    release(found, 2, 5.0)
    found.set_workload(Key("ns", "v1"), transitions.finished(victim(1), "Succeeded", "", 5.0))
    assert decide(found, 5.0) == {"claim": "reserved", "v2": "WaitingForQuota"}
    spared = lent_out()
    release(spared, 2, 5.0)
    spared.unassume(Key("ns", "v1"))
    assert decide(spared, 5.0)["claim"] == "WaitingForPreemptedWorkloads"


CPU, MEMORY = FlavorResource("default", "cpu"), FlavorResource("default", "memory")


def rivals() -> State:
    """Two queues with equal shares by cpu, that both borrow the last unit of memory: fairness gives each the other's.

    Nine of the ten units of memory are their owner's. Kueue preempts one for the other for ever.
    """
    rules = Preemption("LowerPriority", "Any")

    def queue(name: str, cpu: int, memory: int) -> ClusterQueue:
        return ClusterQueue(
            name=name,
            cohort="all",
            groups=(ResourceGroup(("cpu", "memory"), ("default",)),),
            quotas={CPU: Quota(cpu), MEMORY: Quota(memory)},
            namespace_selector=EVERY,
            preemption=rules,
        )

    found = state(
        queue("a", 1, 0),
        queue("b", 1, 0),
        queue("c", 2, 10),
        policy=SchedulingPolicy(fair_sharing=tuple(Strategy)),
        local={"a": "a", "b": "b"},
    )
    for name in "ab":
        found.set_workload(Key("ns", f"base-{name}"), reserved(f"base-{name}", 2, name, queue=name))
    found.set_workload(Key("ns", "base-c"), nine_of_memory())
    return found


def nine_of_memory() -> Workload:
    admission = Admission("c", (PodSetAssignment("main", {"memory": "default"}, {"memory": 9}, 1),))
    pod_sets = (PodSet("main", 1, {"memory": 9}),)
    return replace(reserved("base-c", 0, "c", queue="c"), admission=admission, pod_sets=pod_sets)


def wants_memory(name: str) -> Workload:
    return workload(name, 0, queue=name, pod_sets=(PodSet("main", 1, {"memory": 1}),))


def test_workloads_that_preempt_each_other_in_a_circle_do_so_ever_more_rarely() -> None:
    found = rivals()
    found.set_workload(B, wants_memory("b"))
    found.set_workload(A, wants_memory("a"))
    times: list[float] = []
    now = 0.0
    while now < 3600.0:
        for plan in drain(found, found.policy, now):
            for decision in plan.decisions:
                key = decision.workload.key
                if isinstance(decision, Reserve):
                    found.set_workload(key, transitions.reserved(found.workloads[key], decision.admission, now))
                for gone in decision.victims if isinstance(decision, StayPending) else ():
                    times.append(now)
                    out = transitions.preempted(found.workloads[gone.workload.key], gone.reason, "", now)
                    found.set_workload(out.key, transitions.released(out, now))
        found.check()
        wake = found.next_wake(now)
        now = max(now + 0.01, 3600.0 if wake is None else wake)
    assert len(times) > 2 * ROUNDS_WITHOUT_DELAY, "the first rounds are Kueue's"
    assert len(times) <= 2 * ROUNDS_WITHOUT_DELAY + 2 * 12, "an hour of it costs no more than a few rounds more"
    assert times[-1] - times[-3] > 600.0


def test_reservations_that_are_withdrawn_before_they_are_written_rest_like_preempted_ones() -> None:
    found = rivals()
    found.set_workload(B, wants_memory("b"))
    found.set_workload(A, wants_memory("a"))
    withdrawn, now = 0, 0.0
    while now < 3600.0:
        for plan in drain(found, found.policy, now):
            for decision in plan.decisions:
                for gone in decision.victims if isinstance(decision, StayPending) else ():
                    withdrawn += 1
                    found.unassume(gone.workload.key)
            assert withdrawn < 10 * ROUNDS_WITHOUT_DELAY, "else the drain would not end"
        found.check()
        wake = found.next_wake(now)
        now = max(now + 0.01, 3600.0 if wake is None else wake)
    assert ROUNDS_WITHOUT_DELAY < withdrawn <= 2 * ROUNDS_WITHOUT_DELAY + 2 * 12


def test_a_simulation_of_workloads_that_preempt_each_other_ends() -> None:
    arrivals = [Arrival(0.0, wants_memory(name), 30.0) for name in "ab"]
    timeline = simulate(rivals(), arrivals)
    assert all(timeline.courses[key].finished is not None for key in (A, B))


def test_a_workload_preempted_by_several_in_turn_is_queued_immediately() -> None:
    found = state(cluster_queue("q", 1, preemption=Preemption("LowerPriority")))
    low = workload("low", 1)
    for number in range(2 * ROUNDS_WITHOUT_DELAY):
        found.set_workload(low.key, reserved("low", 1, "q"))
        high = Key("ns", f"high-{number}")
        found.set_workload(high, workload(high.name, 1, priority=1))
        assert decide(found, float(number))[high.name] == "WaitingForPreemptedWorkloads"
        out = transitions.preempted(reserved("low", 1, "q"), "InClusterQueue", "", float(number))
        found.set_workload(low.key, transitions.released(out, float(number)))
        assert decide(found, float(number)) == {high.name: "reserved", "low": "WaitingForQuota"}
        found.set_workload(high, None)
    assert [head.workload.key for head in found.heads(100.0)] == [low.key]


def test_nothing_is_kept_of_a_removed_workload() -> None:
    found = lent_out()
    for name in ("v1", "v2", "claim"):
        found.set_workload(Key("ns", name), None)
    victims = found._preempted
    assert not (victims._preemptors or victims._holding or victims._paused or victims._rounds or victims._since)
