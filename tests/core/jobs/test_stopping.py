"""A stopped job holds its quota until its controller has seen the stop and its pods are gone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.names import MULTIKUEUE_CONTROLLER
from core.actions import Patch, Wait
from core.jobs.actions import AwaitPods, Start, UpdateWorkloadStatus
from core.jobs.decide import decide
from core.jobs.kinds import BATCH_JOB, JOB_SET
from core.jobs.stopping import SETTLE_SECONDS, SHOWN_SECONDS, Ask, LastStart, observed
from core.model import Raw
from core.wire.merge import merged
from tests.core.jobs.samples import NOW, admitted, evicted, job, situation, started, workload_of
from tests.core.jobs.test_jobset import job_set, of_jobs
from tests.core.jobs.test_ownership import holding
from tests.core.jobs.test_ownership import situation as of_kind

UID = "job-uid"


def shown(status: str, *, since: str = "1970-01-01T00:10:00Z", **counts: int) -> Raw:
    """The status with the condition Suspended, as the Job controller writes it; 600 s is the time of the eviction."""
    suspended = {"type": "Suspended", "status": status, "lastTransitionTime": since}
    return {"conditions": [suspended], "ready": 0, "terminating": 0, **counts}


SEEN, RUNS = shown("True"), shown("False", active=3)
WAITED = admitted(workload_of(job()))
STOPPED = evicted(WAITED)


def held(status: Raw, start: LastStart | None = None, *, raw: Raw = STOPPED, **more: Any) -> Any:
    """What is decided about a Job that is suspended after it ran, and what it waits for."""
    asked = situation(job(status=status), raw, last_start=start, **more)
    return decide(asked), asked.stopping


def releases(found: Any) -> bool:
    action, stopping = found
    return stopping is None and isinstance(action, UpdateWorkloadStatus) and action.why == "release"


@pytest.mark.parametrize(
    ("status", "start", "released"),
    [
        pytest.param(SEEN, None, True, id="its controller has seen start and stop"),
        pytest.param({}, None, True, id="it never ran"),
        pytest.param(RUNS, None, False, id="its controller has not seen the stop"),
        pytest.param(shown("False"), None, False, id="nor has it, with no pod"),
        pytest.param({"ready": 0, "failed": 1}, None, False, id="a Job that was never held before, between two pods"),
        pytest.param(SEEN, LastStart(UID, held_since=NOW), False, id="the status is from before the start"),
        pytest.param(SEEN, LastStart(UID, held_since=NOW, asked=True), True, id="the status is newer, as asked for"),
        pytest.param({"ready": 0, "terminating": 0}, LastStart(UID, held_since=NOW, asked=True), False, id="asked"),
        pytest.param(SEEN, LastStart("another", held_since=NOW), True, id="an earlier job of the name was started"),
        pytest.param(shown("True", terminating=2), None, False, id="pods terminate"),
        pytest.param(shown("True", terminating=2, since="1970-01-01T00:00:00Z"), None, False, id="evicted later"),
    ],
)
def test_the_quota_of_a_stopped_job_is_released_when_its_controller_shows_its_end(
    status: Raw, start: LastStart | None, released: bool
) -> None:
    found = held(status, start, terminating_timeout=NOW)
    assert releases(found) == released
    assert released or found[0] == Wait()


def test_pods_of_a_job_with_its_own_selector_are_listed_by_the_label_with_its_uid() -> None:
    """Whoever changes their labels takes them away from the Job, whose status counts them no more."""
    own = merged(job(status=SEEN), {"spec": {"manualSelector": True}})
    start = LastStart(UID, seen=True, held_since=NOW - 5, asked=True)
    asked = situation(own, STOPPED, last_start=start, terminating_timeout=NOW)
    assert isinstance(asked.stopping, AwaitPods)
    assert (asked.stopping.uid, decide(asked)) == (UID, Wait())
    gone = situation(own, STOPPED, last_start=start, terminating_timeout=NOW, stopped_pods_gone=frozenset({UID}))
    assert gone.stopping is None
    assert observed(BATCH_JOB, merged(own, {"spec": {"suspend": False}}), start, NOW, ()) is not None


def test_the_job_controller_is_asked_by_the_removal_of_its_condition() -> None:
    failed = {"type": "FailureTarget", "status": "False"}
    status = {**SEEN, "conditions": [failed, *SEEN["conditions"]]}
    _, stopping = held(status, LastStart(UID, held_since=NOW))
    assert isinstance(stopping, Ask)
    (patch,) = stopping.steps
    assert isinstance(patch, Patch)
    assert patch.subresource == "status"
    assert patch.body == {"metadata": {"uid": UID, "resourceVersion": "5"}, "status": {"conditions": [failed]}}


@pytest.mark.parametrize(("seconds", "released"), [(300.0, True), (399.0, True), (401.0, False)])
def test_pods_that_terminate_hold_quota_as_long_as_the_operator_allows(seconds: float, released: bool) -> None:
    found = held(shown("True", terminating=2), terminating_timeout=seconds)
    assert releases(found) == released
    if not released:
        assert found[1] == Wait(seconds - 400.0), "it was evicted 400 s ago"


def test_what_remains_after_that_time_is_known() -> None:
    status = shown("True", terminating=2)
    assert situation(job(status=status), STOPPED, terminating_timeout=300.0).overdue
    assert not situation(job(status=status), STOPPED, terminating_timeout=900.0).overdue
    assert not situation(job(status=SEEN), STOPPED, terminating_timeout=300.0).overdue


@pytest.mark.parametrize("status", [RUNS, shown("True", terminating=1)], ids=["not seen", "pods terminate"])
def test_a_job_that_was_suspended_by_hand_is_not_started_beside_its_old_pods(status: Raw) -> None:
    by_hand = merged(started(job(), WAITED), {"spec": {"suspend": True}})
    assert decide(situation({**by_hand, "status": status}, WAITED, terminating_timeout=NOW)) == Wait()
    assert isinstance(decide(situation({**by_hand, "status": SEEN}, WAITED)), Start)


def test_a_job_that_another_cluster_runs_is_not_asked_here() -> None:
    away = job(managedBy=MULTIKUEUE_CONTROLLER, status=shown("True", terminating=3))
    assert situation(away, STOPPED, last_start=LastStart(UID)).stopping is None


@pytest.mark.parametrize(
    ("start", "gone", "stopping"),
    [
        pytest.param(LastStart("job-set-uid", seen=True, held_since=NOW), (), AwaitPods, id="its pods are listed"),
        pytest.param(LastStart("job-set-uid", seen=True, held_since=NOW), ("job-set-uid",), None, id="none is left"),
        pytest.param(LastStart("job-set-uid", held_since=NOW), ("job-set-uid",), Wait, id="some may be created yet"),
        pytest.param(LastStart("job-set-uid", held_since=NOW - SETTLE_SECONDS), ("job-set-uid",), None, id="no longer"),
        pytest.param(None, (), None, id="it never ran"),
    ],
)
def test_pods_of_kinds_whose_status_does_not_count_what_terminates_are_listed(
    start: LastStart | None, gone: tuple[str, ...], stopping: type | None
) -> None:
    found, raw = job_set(), evicted(holding(JOB_SET))
    found["metadata"]["uid"] = raw["metadata"]["ownerReferences"][0]["uid"] = "job-set-uid"
    known = of_kind(JOB_SET, found, raw, last_start=start, stopped_pods_gone=gone, terminating_timeout=NOW)
    assert known.stopping is None if stopping is None else isinstance(known.stopping, stopping)
    assert known.active == (stopping is not None)


@pytest.mark.parametrize(
    ("seconds", "gone", "stopping"),
    [
        (SHOWN_SECONDS - 1, ("job-set-uid",), Wait(1.0)),
        (SHOWN_SECONDS, ("job-set-uid",), None),
        (SHOWN_SECONDS, (), AwaitPods),
    ],
    ids=["its controller may show it yet", "it does not", "pods are left"],
)
def test_a_controller_that_does_nothing_with_a_job_holds_its_quota_no_longer_than_its_pods(
    seconds: float, gone: tuple[str, ...], stopping: Any
) -> None:
    """It does not run, or finds the job invalid: the status goes on showing pods of a job that was stopped."""
    found, raw = job_set(status=of_jobs(workers={"active": 2})), evicted(holding(JOB_SET))
    found["metadata"]["uid"] = raw["metadata"]["ownerReferences"][0]["uid"] = "job-set-uid"
    start = LastStart("job-set-uid", seen=True, held_since=NOW - seconds)
    known = of_kind(JOB_SET, found, raw, last_start=start, stopped_pods_gone=gone, terminating_timeout=NOW)
    assert JOB_SET.active(found)
    assert known.stopping == stopping or isinstance(known.stopping, stopping)
    assert known.active == (stopping is not None)


STATUSES = st.sampled_from(
    [{}, SEEN, shown("False"), RUNS, shown("True", terminating=1), {"ready": 0, "terminating": 0}]
)


@given(before=st.lists(st.tuples(st.booleans(), STATUSES), max_size=6))
def test_nothing_is_remembered_of_a_job_that_runs_and_whose_controller_shows_that(
    before: list[tuple[bool, Raw]],
) -> None:
    start: LastStart | None = LastStart(UID)
    for time, (suspend, status) in enumerate(before):
        start = observed(BATCH_JOB, job(suspend=suspend, status=status), start, float(time), ())
        assert start is None or start.uid == UID
        assert start is None or (start.held_since is not None) == suspend
    assert observed(BATCH_JOB, job(suspend=False, status=RUNS), start, NOW, ()) is None
