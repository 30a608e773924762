"""The rules of the bench's observer, and its figures, on events made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from bench.observer import (
    CpuLimits,
    Seen,
    admission_seconds,
    admitted_at,
    evictions,
    finished_at,
    idle_while_waiting,
    judge,
    mean_use,
    refill_seconds,
    trace,
)

LIMITS = CpuLimits({"a": 15.0, "b": 15.0}, {"a": "all", "b": "all"}, {"all": 20.0})


def seen(name: str, at: float = 0.0, queue: str = "", cpu: float = 10.0, **flags: Any) -> Seen:
    """A state of a Workload; with a queue it is admitted."""
    none = {"admitted": bool(queue), "evicted": False, "finished": False, "deleted": False}
    return Seen(at, name, f"uid of {name}", queue, cpu, **(none | flags))


def judged(*events: Seen) -> list[str]:
    return judge(events, LIMITS, {one.name for one in events})


def test_a_run_within_the_quota_is_not_broken() -> None:
    first = [seen("one"), seen("one", queue="a"), seen("one", queue="a", finished=True)]
    second = [seen("two"), seen("two", queue="a"), seen("two", queue="a", finished=True)]
    assert judged(*first, *second) == []


def test_a_reservation_beyond_the_limit_of_its_queue_is_broken() -> None:
    done = {"finished": True}
    events = (seen("one", queue="a"), seen("two", queue="a"), seen("one", queue="a", **done))
    assert judged(*events, seen("two", queue="a", **done)) == ["two: ClusterQueue a uses 20 cpu of 15"]


def test_a_reservation_beyond_the_quota_of_the_cohort_is_broken() -> None:
    reserved = [seen(name, queue=queue) for name, queue in (("one", "a"), ("two", "b"))]
    third = seen("three", queue="b", cpu=5.0)
    done = [each._replace(finished=True) for each in (*reserved, third)]
    assert judged(*reserved, third, *done) == ["three: cohort all uses 25 cpu of 20"]


@pytest.mark.parametrize(
    ("evicted_at", "broken"),
    [
        pytest.param(None, ["three: cohort all uses 25 cpu of 20"], id="nobody stops"),
        pytest.param(2.5, [], id="one stops already"),
        pytest.param(4.0, [], id="one is evicted just afterwards"),
        pytest.param(9.0, ["three: cohort all uses 25 cpu of 20"], id="one is evicted for another reason later"),
    ],
)
def test_what_victims_leave_may_be_reserved_while_they_stop(evicted_at: float | None, broken: list[str]) -> None:
    held = [seen("one", 1.0, "a"), seen("two", 2.0, "b"), seen("three", 3.0, "b", 5.0)]
    evicted = [held[0]._replace(at=evicted_at, evicted=True)] if evicted_at is not None else []
    done = [each._replace(at=10.0, finished=True) for each in held]
    assert judged(*sorted([*held, *evicted], key=lambda each: each.at), *done) == broken


def test_the_changes_before_the_quota_was_exceeded_are_traced() -> None:
    one, two, three = seen("one", 1.0, "a"), seen("two", 2.0, "b"), seen("three", 3.0, "b", 5.0)
    waiting = seen("one", 0.5)
    assert trace([waiting, one, two, three, one._replace(at=4.0, finished=True)], LIMITS) == [
        "1.000 one uid of one: holds 10 cpu (admitted); all uses 10",
        "2.000 two uid of two: holds 10 cpu (admitted); all uses 20",
        "3.000 three uid of three: holds 5 cpu (admitted); all uses 25",
    ]
    assert trace([waiting, one, two], LIMITS) == []


@pytest.mark.parametrize(
    "end", ({"finished": True}, {"deleted": True, "finished": True}, {"queue": "", "admitted": False})
)
def test_what_has_ended_or_was_released_uses_no_quota(end: dict[str, Any]) -> None:
    one, two = seen("one", queue="a"), seen("two", queue="a")
    broken = judge([one, one._replace(**end), two, two._replace(finished=True)], LIMITS, {"two"})
    assert broken == []


def test_a_second_admission_needs_an_eviction_before() -> None:
    admitted, released = seen("one", queue="a"), seen("one")
    done = admitted._replace(finished=True)
    assert judged(admitted, released, admitted, done) == ["one was admitted again, and was not evicted before"]
    assert judged(admitted, admitted._replace(evicted=True), released, admitted, done) == []
    once = [admitted, admitted._replace(evicted=True), released, admitted, released, admitted, done]
    assert judged(*once) == ["one was admitted again, and was not evicted before"]


def test_at_most_one_workload_of_a_job_holds_quota() -> None:
    first = seen("one", queue="a", cpu=1.0)
    second = first._replace(uid="another")
    done = second._replace(finished=True)
    assert judged(first, second, first._replace(finished=True), done) == ["two Workloads of one hold quota"]
    assert judged(first, first._replace(deleted=True), second, done) == []


def test_an_admission_does_not_move_to_another_queue() -> None:
    admitted = seen("one", queue="a")
    broken = judged(admitted, admitted._replace(queue="b"), admitted._replace(queue="b", finished=True))
    assert broken == ["one moved from a to b while it was admitted"]


def test_a_workload_that_has_not_finished_is_lost() -> None:
    assert judge([seen("one")], LIMITS, ["one", "never-seen"]) == [
        "2 of 2 workloads have not finished: never-seen, one"
    ]


def test_an_eviction_counts_once_however_often_it_is_seen() -> None:
    admitted = seen("one", queue="a")
    evicted = admitted._replace(evicted=True)
    events = [admitted, evicted, evicted, seen("one", evicted=True), admitted, evicted]
    assert evictions(events) == 2


def test_the_mean_use_counts_admitted_workloads_until_they_finish() -> None:
    admitted = seen("one", at=2.0, queue="a")
    reserved = seen("two", at=0.0, queue="b", admitted=False)
    assert mean_use([reserved, admitted, admitted._replace(at=4.0, finished=True)], 0.0, 10.0) == 2.0
    assert mean_use([admitted], 1.0, 5.0) == 10.0 * 3 / 4


def test_the_last_admission_and_the_first_end_count() -> None:
    admitted = seen("one", at=2.0, queue="a")
    again = [admitted, seen("one", at=3.0), admitted._replace(at=7.0), admitted._replace(at=8.0)]
    events = [*again, admitted._replace(at=9.0, finished=True), admitted._replace(at=9.5, finished=True)]
    assert admitted_at(events) == {"one": 7.0}
    assert admission_seconds(events, {"one": 1.0}) == {"one": 6.0}
    assert finished_at(events) == {"one": 9.0}


def test_quota_is_idle_only_while_a_workload_waits_that_fits() -> None:
    """20 cpu in the cohort: one of 10 waits from 1 to 3, another of 10 from 4 to 5, one of 15 from 4 on."""
    requested = {"a/one": 10.0, "a/two": 10.0, "b/large": 15.0}
    one, two, large = (seen(name, queue=name[0], cpu=cpu) for name, cpu in requested.items())
    events = [
        seen("a/one", at=1.0),
        one._replace(at=3.0),
        seen("a/two", at=4.0),
        seen("b/large", at=4.0),
        two._replace(at=5.0),
        one._replace(at=8.0, finished=True),
        two._replace(at=9.0, finished=True),
        large._replace(at=9.5),
    ]
    # 10 cpu for 2 s, then 10 for 1 s (only the small one fits), then 15 for the half second before the last admission
    assert idle_while_waiting(events, LIMITS, requested, 0.0, 10.0) == pytest.approx((20 + 10 + 7.5) / 10)


def test_an_admission_takes_the_place_of_the_workload_that_ended_first() -> None:
    events = [
        *(seen("one", 1.0, queue="a"), seen("one", 2.0, queue="a", finished=True)),
        *(seen("two", 3.0, queue="a"), seen("three", 3.0, queue="a")),
        *(seen("two", 10.0, queue="a", finished=True), seen("three", 10.5, finished=True)),
        *(seen("four", 11.0, queue="a"), seen("four", 11.5, queue="a"), seen("five", 13.0, queue="a")),
    ]
    assert refill_seconds(events, since=5.0) == [1.0, 2.5]
