"""What is recorded of a workload's life, and how it is added up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.names import PreemptedReason
from core.history.record import (
    DeletedWorkload,
    HistoryEntry,
    JobOrigin,
    LifeRecord,
    QuotaAttempt,
    Step,
    Use,
    UseEnd,
    attempted,
    entries,
    held_by,
    resumed,
)
from core.history.report import Idle, Spans, Window, fairness, idle, series, window
from core.model import Admission, FlavorResource, PodSet, PodSetAssignment, Workload, messages
from core.model.workload import replace
from core.workload import transitions
from tests.builders import workload
from tests.effort import cases

DEFAULT = FlavorResource("default", "cpu")
ORIGIN = JobOrigin("Job", "train", "alice", {"cq": "research"})
ADMISSION = Admission("cq", (PodSetAssignment("main", {"cpu": "default"}, {"cpu": 4000}, 4),))
NEW = workload("w", 1000, created=1_000.0, pod_sets=(PodSet("main", 4, {"cpu": 1000}),))
HELD = transitions.reserved(NEW, ADMISSION, 1_010.0)
PREEMPTOR = workload("other", 1000)
TEXT = messages.preempted(PREEMPTOR, PreemptedReason.IN_CLUSTER_QUEUE, "/cq", "/cq")
GONE = transitions.preempted(HELD, PreemptedReason.IN_CLUSTER_QUEUE, TEXT, 1_050.0)


def of_type(found: list[HistoryEntry], kind: type[HistoryEntry]) -> list[HistoryEntry]:
    return [each for each in found if isinstance(each, kind)]


def finished(held: Workload, at: float) -> Workload:
    return transitions.condition(held, "Finished", status=True, reason="Succeeded", message="done", now=at)


def test_a_new_workload_is_recorded_with_its_job_and_its_user() -> None:
    assert entries(None, NEW, ORIGIN, 1_000.0) == [
        LifeRecord("uid-w", "ns", "w", "Job", "train", "alice", "lq", "", 0, "", 1_000.0),
        Step("uid-w", "Created", "", 1_000.0, 1_000.0),
    ]


def test_a_workload_that_waits_belongs_to_the_cluster_queue_of_its_local_queue() -> None:
    (record, _) = entries(None, NEW, ORIGIN._replace(cluster_queue="cq-of-lq"), 1_000.0)
    assert isinstance(record, LifeRecord)
    assert record.cluster_queue == "cq-of-lq"


def test_a_reservation_is_an_attempt_and_a_use_from_the_time_in_the_status() -> None:
    found = entries(NEW, HELD, ORIGIN, 1_011.5)
    assert of_type(found, QuotaAttempt) == [QuotaAttempt("uid-w", 1_010.0, "cq", 1_000.0, admitted=1_010.0)]
    assert of_type(found, Use) == [Use("uid-w", "default", "cpu", 1_010.0, 4000, "ns", "alice", "lq", "cq", "research")]


def test_a_preemption_names_the_preemptor_and_its_rule_and_use_lasts_until_quota_is_released() -> None:
    steps = {each.kind: each for each in of_type(entries(HELD, GONE, ORIGIN, 1_051.0), Step) if isinstance(each, Step)}
    assert steps["Preempted"].by == "uid-other"
    assert steps["Preempted"].reason == PreemptedReason.IN_CLUSTER_QUEUE
    assert not of_type(entries(HELD, GONE, ORIGIN, 1_051.0), UseEnd), "pods still run"
    released = transitions.released(GONE, 1_060.0)
    found = entries(GONE, released, ORIGIN, 1_061.0)
    assert of_type(found, UseEnd) == [UseEnd("uid-w", 1_060.0)]
    (attempt,) = of_type(found, QuotaAttempt)
    assert isinstance(attempt, QuotaAttempt)
    assert (attempt.ended, attempt.reason) == (1_060.0, "Preempted")


def test_a_workload_that_is_queued_again_waits_from_then_on() -> None:
    attempt = attempted(transitions.reserved(transitions.released(GONE, 1_060.0), ADMISSION, 1_100.0))
    assert attempt is not None
    assert (attempt.queued, attempt.reserved) == (1_060.0, 1_100.0)


def test_each_reason_why_it_waits_is_one_step_with_the_last_message() -> None:
    def waits(reason: str, message: str, before: Workload) -> Workload:
        return transitions.condition(before, "QuotaReserved", status=False, reason=reason, message=message, now=1_002.0)

    first = waits("WaitingForQuota", "4 of 8", NEW)
    second = waits("WaitingForQuota", "5 of 8", first)
    both = [*entries(NEW, first, ORIGIN, 1_002.0), *entries(first, second, ORIGIN, 1_030.0)]
    assert [(each.kind, each.reason, each.since) for each in both if isinstance(each, Step)] == [
        ("Waits", "WaitingForQuota", 1_002.0)
    ] * 2, "the key of the second is that of the first"


def test_nothing_is_recorded_of_a_change_of_other_fields() -> None:
    assert entries(HELD, replace(HELD, resource_version="7", generation=3), ORIGIN, 1_020.0) == []


def test_use_that_becomes_smaller_is_another_use() -> None:
    smaller = replace(HELD, reclaimable={"main": 1})
    assert entries(HELD, smaller, ORIGIN, 1_040.0) == [
        UseEnd("uid-w", 1_040.0),
        Use("uid-w", "default", "cpu", 1_040.0, 3000, "ns", "alice", "lq", "cq", "research"),
    ]


def test_a_workload_that_ends_has_an_outcome_and_the_time_that_it_ran() -> None:
    found = entries(HELD, finished(HELD, 1_110.0), ORIGIN, 1_112.0)
    (record,) = of_type(found, LifeRecord)
    assert isinstance(record, LifeRecord)
    assert (record.finished, record.outcome, record.message, record.ran) == (1_110.0, "Succeeded", "done", 100.0)
    assert of_type(found, UseEnd) == [UseEnd("uid-w", 1_110.0)]


def test_one_that_is_deleted_while_it_runs_held_its_quota_until_then() -> None:
    assert entries(HELD, None, ORIGIN, 1_200.0) == [DeletedWorkload("uid-w", 1_200.0)]
    assert entries(finished(HELD, 1_110.0), None, ORIGIN, 1_200.0) == [], "its end is known"


def test_a_variant_is_not_recorded() -> None:
    assert entries(None, replace(HELD, variant_of="uid-parent"), ORIGIN, 1_011.0) == []


def test_a_new_leader_writes_what_the_old_one_wrote_and_no_second_use() -> None:
    found = resumed(held_by(HELD), HELD, ORIGIN, 2_000.0, alive=1_900.0)
    assert not of_type(found, Use)
    assert of_type(found, QuotaAttempt) == of_type(entries(NEW, HELD, ORIGIN, 1_011.0), QuotaAttempt)


@pytest.mark.parametrize(
    ("held", "now", "wanted"),
    [
        pytest.param({}, HELD, [(Use, 1_010.0)], id="quota was reserved while nobody wrote"),
        pytest.param(
            {DEFAULT: 4000},
            finished(HELD, 1_110.0),
            [(UseEnd, 1_110.0)],
            id="it finished while nobody wrote: its status has the time",
        ),
        pytest.param(
            {DEFAULT: 3000}, HELD, [(UseEnd, 1_900.0), (Use, 1_900.0)], id="it changed at a time that is not known"
        ),
        pytest.param({DEFAULT: 4000}, NEW, [(UseEnd, 1_900.0)], id="it was released at a time that is not known"),
    ],
)
def test_a_new_leader_closes_the_gap(
    held: dict[FlavorResource, int], now: Workload, wanted: list[tuple[type, float]]
) -> None:
    found = resumed(held, now, ORIGIN, 2_000.0, alive=1_900.0)
    times = [
        (type(each), each.since if isinstance(each, Use) else each.until)
        for each in found
        if isinstance(each, Use | UseEnd)
    ]
    assert times == wanted


def test_a_message_is_kept_short_and_without_zero_bytes() -> None:
    long = transitions.waiting(NEW, "X", "\0" + "a" * 5_000, 1_001.0)
    (step,) = [each for each in of_type(entries(NEW, long, ORIGIN, 1_001.0), Step) if isinstance(each, Step)]
    assert len(step.message) < 1_001
    assert "\0" not in step.message


SPAN = st.tuples(st.integers(0, 999), st.integers(1, 999), st.integers(1, 50))


@settings(max_examples=cases(60, 500))
@given(st.lists(SPAN, max_size=20), st.sampled_from([7.0, 60.0, 250.0, 1000.0]))
def test_sums_by_first_and_last_part_give_the_exact_use_of_each_part(
    spans: list[tuple[int, int, int]], step: float
) -> None:
    over = Window(5_000.0, 6_000.0, step)
    several = [(float(begin), float(min(begin + length, 1_000)), amount) for begin, length, amount in spans]
    added: dict[tuple[int, int], list[float]] = {}
    for begin, end, amount in several:
        sums = added.setdefault((int(begin / step), int(end / step)), [0.0, 0.0, 0.0])
        for place, value in enumerate((amount, amount * begin, amount * end)):
            sums[place] += value
    found = series((Spans("g", "f", "r", i, j, *sums) for (i, j), sums in added.items()), over)
    parts = found.get(("g", FlavorResource("f", "r")), [0.0] * over.parts)
    for number in range(over.parts):
        begins, ends = (at - over.start for at in over.part(number))
        wanted = sum(amount * max(0.0, min(end, ends) - max(begin, begins)) for begin, end, amount in several)
        assert parts[number] == pytest.approx(wanted, abs=1e-6)


def test_fairness_is_one_for_equal_shares_and_counts_who_waits_for_nothing() -> None:
    over = Window(0.0, 3.0, 1.0)
    used = {("a", DEFAULT): [2.0, 3.0, 4.0], ("b", DEFAULT): [2.0, 1.0, 0.0]}
    waited = {("b", FlavorResource("", "")): [0.0, 0.0, 1.0]}
    assert fairness(used, None, waited, over) == [1.0, pytest.approx(0.8), pytest.approx(0.5)]
    assert fairness(used, {"a": 0.75, "b": 0.25}, waited, over)[1] == pytest.approx(1.0), "by what they may have"
    assert fairness(used, None, {}, over)[2] is None, "one alone is neither fair nor unfair"


def test_quota_is_idle_that_nobody_of_the_cohort_used() -> None:
    nominal = {(name, DEFAULT): [3600.0, 3600.0] for name in ("team/a", "team", "c")}
    used = {("team/a", DEFAULT): [7200.0, 0.0], ("c", DEFAULT): [1800.0, 9999.0]}
    assert idle(nominal, used) == [
        Idle("c", "default", "cpu", 2.0, 0.5),
        Idle("team", "default", "cpu", 4.0, 2.0),
    ]


def test_a_window_has_parts_of_a_round_length() -> None:
    assert window(0.0, 7 * 86400.0) == Window(0.0, 7 * 86400.0, 4 * 3600.0)
    assert window(0.0, 3600.0).step == 60.0
