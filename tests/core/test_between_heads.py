"""A cycle is judged head by head, and the world goes on in between: what changed makes a decision void, no more."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from core.model import (
    Key,
    LocalQueue,
    Placement,
    Plan,
    PodSet,
    Preemption,
    QueueingStrategy,
    Requirement,
    Reserve,
    StayPending,
)
from core.state.drain import drain, drain_in_steps
from core.state.state import State
from tests.builders import CPU, DEFAULT, cluster_queue, put, reserved, state, workload

LOWER = Preemption(within_cluster_queue="LowerPriority")


def first_plan(found: State, change: Callable[[], object]) -> Plan:
    """Of the next cycle, with a change after the look at its first head."""
    steps = drain_in_steps(found, found.policy, 100.0)
    assert next(steps) is None
    change()
    return next(step for step in steps if step is not None)


def settle(found: State) -> list[Plan]:
    return list(drain(found, found.policy, 100.0))


def preempting() -> State:
    """``victim`` runs with priority 3, ``p`` of priority 5 waits for its place; another queue has a head, too."""
    found = state(cluster_queue("a", 10, preemption=LOWER), cluster_queue("b", 10))
    put(found, reserved("victim", 10, "a", priority=3, queue="a"), workload("p", 10, priority=5, queue="a"))
    put(found, workload("other", 1, queue="b"))
    return found


def test_nothing_is_preempted_for_a_workload_that_was_deleted_meanwhile() -> None:
    found = preempting()
    first_plan(found, lambda: found.set_workload(Key("ns", "p"), None))
    assert not found.is_evicting(Key("ns", "victim"))


def test_nothing_is_preempted_for_a_workload_whose_priority_was_lowered_meanwhile() -> None:
    found = preempting()
    first_plan(found, lambda: put(found, workload("p", 10, priority=1, queue="a")))
    assert not found.is_evicting(Key("ns", "victim"))


def test_a_workload_whose_priority_was_raised_meanwhile_is_not_preempted() -> None:
    found = preempting()
    first_plan(found, lambda: put(found, reserved("victim", 10, "a", priority=9, queue="a")))
    assert not found.is_evicting(Key("ns", "victim"))


def test_a_queue_that_joins_the_cohort_meanwhile_brings_its_usage_with_it() -> None:
    found = state(cluster_queue("a", 15, cohort="A"), cluster_queue("b", 10, cohort="B"), cluster_queue("e", 1))
    put(found, reserved("running", 15, "a", queue="a"), workload("w", 5, queue="b"), workload("other", 1, queue="e"))
    first_plan(found, lambda: found.set_cluster_queue("a", cluster_queue("a", 0, cohort="B")))
    settle(found)
    assert not found.assumed(Key("ns", "w"))
    assert found.reservations.arenas[found.reservations.arena_of["b"]].queues["b"].parent.usage[DEFAULT] == 15  # type: ignore[union-attr]


def test_a_workload_that_arrives_at_the_end_of_a_long_drain_is_considered() -> None:
    found = state(cluster_queue("a", 10))
    settle(found)
    put(found, workload("new", 1))
    found.stop_until_changed()
    assert [head.workload.key.name for head in found.heads(100.0)] == ["new"]


def test_a_strict_head_whose_namespace_is_seen_late_is_admitted_then() -> None:
    found = state(cluster_queue("a", 10, strategy=QueueingStrategy.STRICT_FIFO))
    found.set_namespace("ns", None)
    put(found, workload("w", 1))
    settle(found)
    assert not found.assumed(Key("ns", "w"))
    found.set_namespace("ns", {})
    settle(found)
    assert found.assumed(Key("ns", "w"))


def test_a_preemptor_that_turns_out_never_to_fit_gives_up_its_place_to_higher_priorities() -> None:
    found = preempting()
    settle(found)
    found.set_cluster_queue("a", cluster_queue("a", 5, preemption=LOWER))
    settle(found)
    put(found, workload("higher", 5, priority=9, queue="a"))
    found.set_workload(Key("ns", "victim"), None)
    found.set_cluster_queue("a", cluster_queue("a", 10, preemption=LOWER))
    plans = settle(found)
    reserves = [d.workload.key.name for plan in plans for d in plan.decisions if isinstance(d, Reserve)]
    assert reserves == ["higher"]


def test_a_local_queue_of_another_weight_leaves_a_preemptor_its_place() -> None:
    found = preempting()
    settle(found)
    key = Key("ns", "a")
    found.set_local_queue(key, LocalQueue(key, "a", weight=2.0))
    assert found.pending.queues["a"].sticky == Key("ns", "p")


def test_a_workload_that_cannot_be_read_waits_and_the_others_go_on() -> None:
    found = state(cluster_queue("a", 10), cluster_queue("b", 10))
    odd = Requirement("size", "In", (5,))  # type: ignore[arg-type]
    found.set_flavor("default", replace(found.reservations.flavors["default"], node_labels={"size": "5"}))
    pods = PodSet("main", 1, {CPU: 1}, placement=Placement({}, ((odd,),), ()))
    put(found, workload("odd", 1, queue="a", pod_sets=(pods,)), workload("good", 1, queue="b"))
    plans = settle(found)
    assert found.assumed(Key("ns", "good"))
    (told,) = {d.reason: d.message for p in plans for d in p.decisions if isinstance(d, StayPending)}.items()
    assert told[0] == "Misconfigured"
    assert told[1].startswith("cannot be judged: ")
