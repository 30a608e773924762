"""A job that names a Workload made before it: adopted, waited for, or finished where the two do not agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.jobs.actions import (
    AwaitPods,
    DeleteWorkload,
    Nothing,
    RemoveFinalizer,
    Start,
    Stop,
    UpdateWorkload,
    WorkloadStatus,
)
from core.jobs.decide import decide, earlier
from core.jobs.situation import Situation
from core.model import Raw
from core.wire.merge import merged
from tests.core.jobs.samples import admitted, decoded, job, read, situation, with_status, workload_of

OTHERS = [{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "x-uid", "controller": True}]


def brought(**spec: Any) -> Raw:
    """A Workload like the job's, without an owner and without a queue."""
    raw = workload_of(job(), **spec)
    del raw["metadata"]["ownerReferences"], raw["spec"]["queueName"]
    return merged(raw, {"metadata": {"name": "brought", "labels": {"kueue.x-k8s.io/job-uid": None}}})


def naming(found: Raw, workload: Raw | None, *more: Raw) -> Situation:
    """The situation of a Job that names a Workload, which it may own."""
    mine = workload is not None and (workload["metadata"].get("ownerReferences") or [{}])[0].get("uid") == "job-uid"
    owned = (*((workload,) if workload is not None and mine else ()), *more)
    return situation(found, *owned, decoded=decoded(workload, *more), prebuilt_name="brought", prebuilt=workload)


def adopted(raw: Raw) -> Raw:
    action = decide(naming(job(), raw))
    assert isinstance(action, UpdateWorkload) and action.why == "adopted"
    assert action.patch["metadata"]["resourceVersion"] == "9"
    return merged(raw, action.patch)


def test_the_workload_that_a_job_names_becomes_its_own_and_the_job_starts_with_it() -> None:
    raw = adopted(brought())
    assert raw["metadata"]["ownerReferences"] == workload_of(job())["metadata"]["ownerReferences"]
    assert raw["metadata"]["labels"] == {"kueue.x-k8s.io/job-uid": "job-uid"}
    queued = decide(naming(job(), raw))
    assert isinstance(queued, UpdateWorkload) and queued.patch["spec"] == {"queueName": "lq"}
    given = merged(raw, queued.patch)
    reserved = admitted(given)
    assert isinstance(decide(naming(job(), reserved)), Start)
    ended = job(status={"conditions": [{"type": "Complete", "status": "True", "message": "done"}]})
    finished = decide(naming(ended, reserved))
    assert isinstance(finished, WorkloadStatus) and finished.after.holds("Finished")


@pytest.mark.parametrize(
    "raw",
    [None, merged(brought(), {"metadata": {"ownerReferences": OTHERS}})],
    ids=["there is none", "another object has it"],
)
def test_a_job_waits_for_the_workload_that_it_names_and_gets_no_other(raw: Raw | None) -> None:
    stop = decide(naming(job(suspend=False), raw))
    assert isinstance(stop, Stop) and stop.message == "missing workload"
    assert decide(naming(job(), raw)) == Nothing()


def test_a_workload_that_differs_from_its_job_is_finished_as_out_of_sync() -> None:
    raw = adopted(brought(podSets=workload_of(job(parallelism=2))["spec"]["podSets"]))
    action = decide(naming(job(), raw))
    assert isinstance(action, WorkloadStatus)
    condition = action.after.condition("Finished")
    assert condition is not None and condition.reason == "OutOfSync"
    done = with_status(raw, read(raw), action.after)
    assert isinstance(decide(naming(job(), done)), RemoveFinalizer)
    free = merged(done, {"metadata": {"finalizers": None}})
    assert isinstance(decide(naming(job(suspend=False), free)), Stop)
    assert decide(naming(job(), free)) == Nothing()


def test_a_workload_that_was_made_for_the_job_before_gives_way_to_the_one_it_names() -> None:
    action = decide(naming(job(), adopted(brought()), workload_of(job())))
    assert isinstance(action, DeleteWorkload)
    assert action.workload.name != "brought"


def of_the_job_before(**metadata: Any) -> Raw:
    """The Workload that the job brings along, admitted for a deleted job of the same name."""
    before = adopted(brought())
    raw = merged(admitted(before), {"metadata": metadata})
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/job-uid": "before"}
    for owner in raw["metadata"].get("ownerReferences") or ():
        owner["uid"] = "before"
    return raw


def test_the_workload_of_an_earlier_job_goes_once_its_pods_are_gone_and_not_before() -> None:
    raw = of_the_job_before(deletionTimestamp="2024-11-01T00:00:00Z")
    now = naming(job(), raw, raw)
    assert earlier(now) == [AwaitPods(read(raw).key, "before")]
    assert decide(now) == Nothing()
    release = decide(replace(now, pods_gone=frozenset({"before"})))
    assert isinstance(release, RemoveFinalizer)


def test_a_job_does_not_start_with_the_quota_that_pods_of_an_orphaned_job_use() -> None:
    assert decide(naming(job(), of_the_job_before(ownerReferences=None))) == Nothing()


def test_a_job_that_waits_for_the_workload_it_names_holds_no_other() -> None:
    assert isinstance(decide(naming(job(), None, workload_of(job()))), DeleteWorkload)
