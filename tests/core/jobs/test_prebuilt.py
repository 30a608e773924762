"""A job that names a Workload made before it: adopted, waited for, or finished where the two do not agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.actions import Wait
from core.jobs.actions import (
    AwaitPods,
    DeleteWorkload,
    RemoveFinalizer,
    Start,
    Stop,
    Ungate,
    UpdateWorkload,
    UpdateWorkloadStatus,
)
from core.jobs.decide import decide, earlier
from core.jobs.kinds import BATCH_JOB
from core.jobs.situation import JobSituation
from core.model import Admission, PodSetAssignment, Raw
from core.wire.merge import merged
from core.workload import transitions
from tests.core.jobs.samples import admitted, after, decoded, job, read, situation, with_status, workload_of

OTHERS = [{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "x-uid", "controller": True}]


def brought(**spec: Any) -> Raw:
    """A Workload like the job's, without an owner and without a queue."""
    raw = workload_of(job(), **spec)
    del raw["metadata"]["ownerReferences"], raw["spec"]["queueName"]
    return merged(raw, {"metadata": {"name": "brought", "labels": {"kueue.x-k8s.io/job-uid": None}}})


def naming(found: Raw, workload: Raw | None, *more: Raw) -> JobSituation:
    """The situation of a Job that names a Workload, which it may own."""
    mine = workload is not None and (workload["metadata"].get("ownerReferences") or [{}])[0].get("uid") == "job-uid"
    owned = (*((workload,) if workload is not None and mine else ()), *more)
    return situation(found, *owned, decoded=decoded(workload, *more), prebuilt_name="brought", prebuilt=workload)


def adopted(raw: Raw) -> Raw:
    action = decide(naming(job(), raw))
    assert isinstance(action, UpdateWorkload) and action.why == "adopted"
    assert action.body["metadata"]["resourceVersion"] == "9"
    return merged(raw, action.body)


def test_the_workload_that_a_job_names_becomes_its_own_and_the_job_starts_with_it() -> None:
    raw = adopted(brought())
    assert raw["metadata"]["ownerReferences"] == workload_of(job())["metadata"]["ownerReferences"]
    assert raw["metadata"]["labels"] == {"kueue.x-k8s.io/job-uid": "job-uid"}
    queued = decide(naming(job(), raw))
    assert isinstance(queued, UpdateWorkload) and queued.body["spec"] == {"queueName": "lq"}
    given = merged(raw, queued.body)
    reserved = admitted(given)
    assert isinstance(decide(naming(job(), reserved)), Start)
    ended = job(status={"conditions": [{"type": "Complete", "status": "True", "message": "done"}]})
    finished = decide(naming(ended, reserved))
    assert isinstance(finished, UpdateWorkloadStatus) and finished.after.holds("Finished")


@pytest.mark.parametrize(
    "raw",
    [
        None,
        merged(brought(), {"metadata": {"ownerReferences": OTHERS}}),
        merged(brought(), {"metadata": {"annotations": {"kueue.x-k8s.io/is-group-workload": "true"}}}),
    ],
    ids=["there is none", "another object has it", "a group of pods runs with it"],
)
def test_a_job_waits_for_the_workload_that_it_names_and_gets_no_other(raw: Raw | None) -> None:
    stop = decide(naming(job(suspend=False), raw))
    assert isinstance(stop, Stop) and stop.message == "missing workload"
    assert decide(naming(job(), raw)) == Wait()


def test_a_workload_that_differs_from_its_job_is_finished_as_out_of_sync() -> None:
    raw = adopted(brought(podSets=workload_of(job(parallelism=2))["spec"]["podSets"]))
    action = decide(naming(job(), raw))
    assert isinstance(action, UpdateWorkloadStatus)
    condition = action.after.condition("Finished")
    assert condition is not None and condition.reason == "OutOfSync"
    done = with_status(raw, read(raw), action.after)
    assert isinstance(decide(naming(job(), done)), RemoveFinalizer)
    free = merged(done, {"metadata": {"finalizers": None}})
    assert isinstance(decide(naming(job(suspend=False), free)), Stop)
    assert decide(naming(job(), free)) == Wait()


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
    assert decide(now) == Wait()
    release = decide(replace(now, pods_gone=frozenset({"before"})))
    assert isinstance(release, RemoveFinalizer)


def test_a_job_does_not_start_with_the_quota_that_pods_of_an_orphaned_job_use() -> None:
    assert decide(naming(job(), of_the_job_before(ownerReferences=None))) == Wait()


def test_a_job_that_waits_for_the_workload_it_names_holds_no_other() -> None:
    assert isinstance(decide(naming(job(), None, workload_of(job()))), DeleteWorkload)


ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
OF_MANAGER = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}


def resizable(pods: int = 2, *, generation: int = 1, labels: Raw = OF_MANAGER, **more: Any) -> Raw:
    """An elastic Job that runs here for another cluster."""
    found = job(annotations=ELASTIC, parallelism=pods, completions=None, **{"suspend": False} | more)
    found["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/elastic-job"}]
    found["metadata"]["labels"] = {**found["metadata"]["labels"], **labels}
    found["metadata"]["generation"] = generation
    return found


def slice_from_manager(pods: int, name: str, replaces: str = "", *, owned: bool = True, **labels: str | None) -> Raw:
    """A slice that another cluster made."""
    raw = workload_of(resizable(pods))
    notes = {**ELASTIC, "kueue.x-k8s.io/workload-slice-name": "brought"}
    notes |= {"kueue.x-k8s.io/workload-slice-replacement-for": f"ns/{replaces}"} if replaces else {}
    metadata = {"name": name, "uid": f"{name}-uid", "annotations": notes, "labels": {**OF_MANAGER, **labels}}
    return merged(raw, {"metadata": {**metadata, **({} if owned else {"ownerReferences": None})}})


def given(raw: Raw, count: int) -> Raw:
    """The slice with quota for so many pods."""
    return admitted(raw, Admission("cq", (PodSetAssignment("main", {"cpu": "spot"}, {"cpu": count}, count),)))


def replaced(raw: Raw) -> Raw:
    return after(raw, lambda value: transitions.finished(value, "WorkloadSliceReplaced", "", 600.0))


SMALL = given(slice_from_manager(2, "brought"), 2)
LARGER = slice_from_manager(3, "larger", "brought")
UNOWNED = slice_from_manager(3, "larger", "brought", owned=False)


def slices(found: Raw, *workloads: Raw, successor: Raw | None = None, named: Raw = SMALL) -> JobSituation:
    known = (*workloads, *((successor,) if successor is not None else ()))
    name = named["metadata"]["name"]
    more = {"decoded": decoded(named, *known), "prebuilt_name": name, "prebuilt": named, "successor": successor}
    return situation(found, *workloads, **more)


def test_the_pods_of_an_elastic_job_from_another_cluster_are_released_and_it_gets_no_slice_here() -> None:
    for pods in (2, 3):
        assert decide(slices(resizable(pods, generation=2), SMALL)) == Ungate(
            "job-uid", BATCH_JOB.uid_label, {"main": 2}
        )


def test_a_job_adopts_the_slice_that_another_cluster_made_to_replace_its_own() -> None:
    action = decide(slices(resizable(), SMALL, successor=UNOWNED))
    assert isinstance(action, UpdateWorkload) and action.target is not None
    assert (action.why, action.target.key.name) == ("adopted", "larger")
    assert isinstance(decide(slices(resizable(), SMALL, LARGER)), Ungate)


@pytest.mark.parametrize(
    "other",
    [
        slice_from_manager(3, "larger", "brought", owned=False, **{"kueue.x-k8s.io/multikueue-origin": None}),
        slice_from_manager(3, "larger", "brought", owned=False, **{"kueue.x-k8s.io/multikueue-origin": "another"}),
        merged(UNOWNED, {"metadata": {"annotations": {"kueue.x-k8s.io/workload-slice-name": "another"}}}),
        merged(UNOWNED, {"metadata": {"ownerReferences": OTHERS}}),
    ],
    ids=["of no manager", "of another manager", "of another job", "of another owner"],
)
def test_it_adopts_no_other(other: Raw) -> None:
    assert isinstance(decide(slices(resizable(), SMALL, successor=other)), Ungate)
    local = resizable(labels={})
    assert not isinstance(decide(slices(local, SMALL, successor=UNOWNED)), UpdateWorkload)


def test_a_job_runs_on_until_it_names_the_slice_that_has_replaced_its_own() -> None:
    before, now = replaced(SMALL), given(LARGER, 3)
    assert decide(slices(resizable(), before, now, named=before)) == Wait()
    renamed = slices(resizable(3, generation=2), before, now, named=now)
    assert decide(renamed) == Ungate("job-uid", BATCH_JOB.uid_label, {"main": 3})


@pytest.mark.parametrize("others", [(), (LARGER,)], ids=["it is gone", "it has no quota"])
def test_it_is_stopped_if_no_slice_has_its_quota(others: tuple[Raw, ...]) -> None:
    before = replaced(SMALL)
    assert isinstance(decide(slices(resizable(), before, *others, named=before)), Stop)
