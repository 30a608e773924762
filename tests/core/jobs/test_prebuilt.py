"""A job that names a Workload made before it: adopted, waited for, or finished where the two do not agree."""

from __future__ import annotations

from typing import Any

import pytest

from core import transitions
from core.jobs.actions import (
    DeleteWorkload,
    Nothing,
    RemoveFinalizer,
    Start,
    Stop,
    UpdateWorkload,
    WorkloadStatus,
)
from core.jobs.decide import decide
from core.jobs.kinds import BATCH_JOB
from core.jobs.release import read
from core.jobs.situation import Situation
from core.model import Raw
from tests.core.jobs.samples import ADMISSION, CLASSES, FLAVORS, NOW, job, merged, with_status, workload_of

OTHERS = [{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "x-uid", "controller": True}]


def brought(**spec: Any) -> Raw:
    """A Workload like the job's, of nobody and in no queue."""
    raw = workload_of(job(), **spec)
    del raw["metadata"]["ownerReferences"], raw["spec"]["queueName"]
    return merged(raw, {"metadata": {"name": "brought", "labels": {"kueue.x-k8s.io/job-uid": None}}})


def situation(found: Raw, workload: Raw | None, *more: Raw) -> Situation:
    mine = workload is not None and (workload["metadata"].get("ownerReferences") or [{}])[0].get("uid") == "job-uid"
    owned = (*((workload,) if workload is not None and mine else ()), *more)
    return Situation(
        kind=BATCH_JOB,
        job=found,
        now=NOW,
        workloads=owned,
        flavors=FLAVORS,
        classes=CLASSES,
        prebuilt_name="brought",
        prebuilt=workload,
    )


def adopted(raw: Raw) -> Raw:
    action = decide(situation(job(), raw))
    assert isinstance(action, UpdateWorkload) and action.why == "adopted"
    assert action.patch["metadata"]["resourceVersion"] == "9"
    return merged(raw, action.patch)


def test_the_workload_that_a_job_names_becomes_its_own_and_the_job_starts_with_it() -> None:
    raw = adopted(brought())
    assert raw["metadata"]["ownerReferences"] == workload_of(job())["metadata"]["ownerReferences"]
    assert raw["metadata"]["labels"] == {"kueue.x-k8s.io/job-uid": "job-uid"}
    queued = decide(situation(job(), raw))
    assert isinstance(queued, UpdateWorkload) and queued.patch["spec"] == {"queueName": "lq"}
    given = merged(raw, queued.patch)
    admitted = with_status(given, read(given), transitions.reserved(read(given), ADMISSION, 1.0))
    assert isinstance(decide(situation(job(), admitted)), Start)
    ended = job(status={"conditions": [{"type": "Complete", "status": "True", "message": "done"}]})
    finished = decide(situation(ended, admitted))
    assert isinstance(finished, WorkloadStatus) and finished.after.holds("Finished")


@pytest.mark.parametrize(
    "raw",
    [None, merged(brought(), {"metadata": {"ownerReferences": OTHERS}})],
    ids=["there is none", "another object has it"],
)
def test_a_job_waits_for_the_workload_that_it_names_and_gets_no_other(raw: Raw | None) -> None:
    stop = decide(situation(job(suspend=False), raw))
    assert isinstance(stop, Stop) and stop.message == "missing workload"
    assert decide(situation(job(), raw)) == Nothing()


def test_a_workload_that_differs_from_its_job_is_finished_as_out_of_sync() -> None:
    raw = adopted(brought(podSets=workload_of(job(parallelism=2))["spec"]["podSets"]))
    action = decide(situation(job(), raw))
    assert isinstance(action, WorkloadStatus)
    condition = action.after.condition("Finished")
    assert condition is not None and condition.reason == "OutOfSync"
    done = with_status(raw, read(raw), action.after)
    assert isinstance(decide(situation(job(), done)), RemoveFinalizer)
    free = merged(done, {"metadata": {"finalizers": None}})
    assert isinstance(decide(situation(job(suspend=False), free)), Stop)
    assert decide(situation(job(), free)) == Nothing()


def test_a_workload_that_was_made_for_the_job_before_gives_way_to_the_one_it_names() -> None:
    action = decide(situation(job(), adopted(brought()), workload_of(job())))
    assert isinstance(action, DeleteWorkload)
    assert action.workload.name != "brought"
