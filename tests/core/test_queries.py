"""The figures that status, metrics and people read."""

import math
from typing import NoReturn

import pytest

from core.model import Cohort, Key, LocalQueue, Quota
from core.model.policy import SchedulingPolicy, Strategy
from core.scheduling.cycle import schedule
from core.state.lookup import Lookup
from core.state.queries import (
    STEP,
    PendingCounts,
    asked,
    cohort_share,
    pending,
    pending_locally,
    place,
    places,
    shown_share,
    weighted_share,
)
from core.state.state import State
from tests.builders import DEFAULT, cluster_queue, reserved, state, workload


@pytest.fixture
def found() -> State:
    """A queue that borrows, with one waiting in each of two LocalQueues."""
    policy = SchedulingPolicy(fair_sharing=tuple(Strategy))
    made = state(
        cluster_queue("a", 5, cohort="all"),
        cluster_queue("b", 15, cohort="all"),
        policy=policy,
        local={"lq": "a", "l2": "a"},
    )
    made.set_workload(Key("ns", "run"), reserved("run", 9, "a"))
    made.set_workload(Key("ns", "one"), workload("one", 50, queue="l2", created=1.0))
    made.set_workload(Key("ns", "two"), workload("two", 1, created=2.0))
    return made


def counted(found: State, local_queue: str) -> PendingCounts:
    """The workloads that wait in a LocalQueue of the namespace, in which no other workload runs."""
    steps = pending_locally(found, Key("ns", local_queue))
    with pytest.raises(StopIteration) as end:
        while True:
            next(steps)
    counts: PendingCounts = end.value.value
    return counts


def test_the_requests_of_all_pending_workloads_are_summed(found: State) -> None:
    found.set_workload(Key("ns", "three"), workload("three", 1, created=3.0))
    assert (asked(found, "a"), asked(found, "b"), asked(found, "none")) == ({"cpu": 52}, {}, {})


def test_a_queue_that_borrows_has_a_share(found: State) -> None:
    assert (pending(found, "a"), weighted_share(found, "a"), weighted_share(found, "b")) == (
        PendingCounts(2, 0),
        200.0,
        0.0,
    )


def test_parked_workloads_count_as_inadmissible_in_both_queues(found: State) -> None:
    found.apply(schedule(found.snapshot(), found.heads(9.0), found.policy, 9.0))
    assert (pending(found, "a"), counted(found, "l2")) == (PendingCounts(1, 1), PendingCounts(0, 1))


def test_many_in_one_local_queue_are_counted_in_steps(found: State) -> None:
    for number in range(2 * STEP):
        found.set_workload(Key("ns", f"w-{number}"), workload(f"w-{number}", 1, created=3.0 + number))
    steps = pending_locally(found, Key("ns", "lq"))
    next(steps)
    found.set_workload(Key("ns", "w-0"), None)  # others run meanwhile
    assert sum(1 for _ in steps) == 1
    assert counted(found, "lq") == PendingCounts(2 * STEP, 0)


def test_places_are_counted_in_both_queues(found: State) -> None:
    assert [(p.workload.key.name, p.in_cluster_queue, p.in_local_queue) for p in places(found, "a")] == [
        ("one", 0, 0),
        ("two", 1, 0),
    ]
    assert place(found, Key("ns", "run")) is None


def test_an_infinite_share_is_shown_as_the_greatest_number() -> None:
    assert (shown_share(math.inf), shown_share(22.1)) == (2**63 - 1, 23)


def test_a_cycle_of_cohorts_is_reported_and_stops_no_other_queue(found: State) -> None:
    found.set_cohort("x", Cohort("x", parent="y"))
    found.set_cohort("y", Cohort("y", parent="x", quotas={DEFAULT: Quota(3)}))
    found.set_cluster_queue("c", cluster_queue("c", 5, cohort="x"))
    condition = found.reservations.active_condition("c")
    assert condition.reason == "CohortCycle"
    assert cohort_share(found, "x") is None
    healthy = found.reservations.active_condition("a")
    assert healthy.active


def test_the_local_queues_of_a_namespace_are_found_without_a_look_at_those_of_others(found: State) -> None:
    class Unread(dict[Key, LocalQueue]):
        def __iter__(self) -> NoReturn:
            raise AssertionError("all LocalQueues are looked at")

    other, lookup = Key("other", "lq"), Lookup(found)
    found.set_local_queue(other, LocalQueue(other, "a"))
    found.pending.local_queues = Unread(found.pending.local_queues)
    assert sorted(lookup.local_queue_names("ns")) == ["a", "b", "l2", "lq"]
    assert lookup.local_queue_names("other") == ["lq"]
    found.set_local_queue(other, None)
    assert lookup.local_queue_names("other") == []
