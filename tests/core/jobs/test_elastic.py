"""A job with the annotation elastic-job is resized while it runs: by a replacement that grows, in place to shrink."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.actions import Wait
from core.jobs import workload
from core.jobs.actions import (
    CreateWorkload,
    DeleteWorkload,
    Prepare,
    Start,
    Stop,
    Ungate,
    UpdateWorkload,
    UpdateWorkloadStatus,
)
from core.jobs.decide import decide
from core.jobs.elastic import to_ungate, ungated
from core.jobs.kinds import BATCH_JOB
from core.model import Admission, PodSetAssignment, Raw
from core.wire.merge import merged
from core.workload import transitions
from tests.core.jobs.samples import after, evicted, job, patches, read, situation

GATE = {"name": "kueue.x-k8s.io/elastic-job"}
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}


def elastic(parallelism: int = 3, *, generation: int = 1, suspend: bool = False, **more: Any) -> Raw:
    """An elastic Job of so many pods."""
    found = job(annotations=ELASTIC, suspend=suspend, parallelism=parallelism, completions=None, **more)
    found["spec"]["template"]["spec"]["schedulingGates"] = [GATE]
    found["metadata"]["generation"] = generation
    return found


def slice_of(found: Raw, name: str = "first", *, replaces: Raw | None = None, second: int = 1) -> Raw:
    """The pending slice of a Job of that size."""
    priority: Raw = {"spec": {"priority": 0}}
    raw = copy.deepcopy(workload.manifest(BATCH_JOB, found, priority, elastic=True, replaces=replaces))
    created = f"2026-01-01T00:00:0{second}Z"
    raw["metadata"] |= {"uid": f"{name}-uid", "resourceVersion": "9", "creationTimestamp": created}
    return raw


def admitted(raw: Raw) -> Raw:
    """The slice with quota for all its pods."""
    count = raw["spec"]["podSets"][0]["count"]
    given = Admission("cq", (PodSetAssignment("main", {"cpu": "spot"}, {"cpu": 1000 * count}, count),))
    return after(raw, lambda value: transitions.reserved(value, given, 500.0))


def counts(action: object) -> int:
    assert isinstance(action, CreateWorkload | UpdateWorkload)
    body = action.manifest if isinstance(action, CreateWorkload) else action.body
    count: int = body["spec"]["podSets"][0]["count"]
    return count


FIRST = slice_of(elastic())
RUNS = admitted(FIRST)
LARGER = slice_of(elastic(5, generation=2), "second", replaces=RUNS, second=2)


def test_the_first_slice_is_named_by_the_generation_and_names_itself() -> None:
    action = decide(situation(elastic(suspend=True)))
    assert isinstance(action, CreateWorkload)
    metadata = action.manifest["metadata"]
    assert metadata["annotations"] == {**ELASTIC, "kueue.x-k8s.io/workload-slice-name": metadata["name"]}
    later = workload.name(BATCH_JOB, elastic(generation=2), elastic=True)
    assert len({metadata["name"], later, workload.name(BATCH_JOB, elastic())}) == 3


def test_a_start_marks_the_pods_with_the_name_that_all_slices_share_and_keeps_the_gate() -> None:
    found = elastic(suspend=True)
    action = decide(situation(found, RUNS))
    assert isinstance(action, Start)
    for patch in patches(action.steps):
        found = merged(found, patch.body)
    template = found["spec"]["template"]
    assert template["metadata"]["annotations"] == {
        "kueue.x-k8s.io/workload": FIRST["metadata"]["name"],
        "kueue.x-k8s.io/workload-slice-name": FIRST["metadata"]["name"],
    }
    assert template["spec"]["schedulingGates"] == [GATE]


def test_a_job_that_grows_while_it_runs_gets_a_replacement_and_is_not_stopped() -> None:
    action = decide(situation(elastic(5, generation=2), RUNS))
    assert isinstance(action, CreateWorkload)
    assert counts(action) == 5
    assert action.manifest["metadata"]["name"] != RUNS["metadata"]["name"]
    assert action.manifest["metadata"]["annotations"] == {
        **ELASTIC,
        "kueue.x-k8s.io/workload-slice-name": RUNS["metadata"]["name"],
        "kueue.x-k8s.io/workload-slice-replacement-for": f"ns/{RUNS['metadata']['name']}",
    }


def test_while_the_replacement_waits_the_job_keeps_its_pods() -> None:
    action = decide(situation(elastic(5, generation=2), RUNS, LARGER))
    assert action == Ungate("job-uid", BATCH_JOB.uid_label, {"main": 3})


def test_when_the_replacement_is_admitted_all_its_pods_are_released() -> None:
    old = after(RUNS, lambda value: transitions.finished(value, "WorkloadSliceReplaced", "", 600.0))
    for slices in ((RUNS, admitted(LARGER)), (old, admitted(LARGER))):
        action = decide(situation(elastic(5, generation=2), *slices))
        assert action == Ungate("job-uid", BATCH_JOB.uid_label, {"main": 5})


def test_the_replacement_follows_the_size_of_the_job() -> None:
    action = decide(situation(elastic(7, generation=3), RUNS, LARGER))
    assert isinstance(action, UpdateWorkload)
    assert ((action.target and action.target.key), counts(action)) == (workload.key(LARGER), 7)
    reserved = after(
        admitted(LARGER), lambda v: transitions.condition(v, "Admitted", status=False, reason="", message="", now=1.0)
    )
    anew = decide(situation(elastic(7, generation=3), RUNS, reserved))
    assert isinstance(anew, DeleteWorkload)
    assert anew.workload == workload.key(LARGER)


@pytest.mark.parametrize("active", [True, False], ids=["queued again", "deactivated"])
def test_a_replacement_that_is_evicted_releases_its_quota_while_the_job_runs_on(active: bool) -> None:
    """A check has said Retry or Rejected, or it was preempted: it has no pods that would need the quota."""
    gone = merged(evicted(admitted(LARGER), "AdmissionCheck", ""), {"spec": {"active": active}})
    action = decide(situation(elastic(5, generation=2), RUNS, gone))
    assert isinstance(action, UpdateWorkloadStatus)
    assert (action.after.key, action.why) == (workload.key(LARGER), "release")
    assert not action.after.holds("QuotaReserved")


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_that_is_small_enough_again_needs_no_replacement(parallelism: int) -> None:
    action = decide(situation(elastic(parallelism, generation=3), RUNS, LARGER))
    assert isinstance(action, DeleteWorkload)
    assert action.workload == workload.key(LARGER)


def test_a_job_that_shrinks_keeps_its_workload_with_fewer_pods() -> None:
    action = decide(situation(elastic(2, generation=2), RUNS))
    assert isinstance(action, UpdateWorkload)
    assert ((action.target and action.target.key), counts(action)) == (workload.key(RUNS), 2)
    smaller = merged(RUNS, {"spec": action.body["spec"]})
    assert decide(situation(elastic(2, generation=2), smaller)) == Ungate("job-uid", BATCH_JOB.uid_label, {"main": 2})


@pytest.mark.parametrize("parallelism", [2, 5])
def test_the_workload_of_a_job_that_waits_is_changed(parallelism: int) -> None:
    action = decide(situation(elastic(parallelism, generation=2, suspend=True), FIRST))
    assert isinstance(action, UpdateWorkload)
    assert ((action.target and action.target.key), counts(action)) == (workload.key(FIRST), parallelism)


def test_an_evicted_job_is_stopped_and_its_replacement_deleted() -> None:
    gone = evicted(RUNS)
    found = elastic(5, generation=2)
    action = decide(situation(found, gone, LARGER))
    assert isinstance(action, DeleteWorkload)
    assert action.workload == workload.key(LARGER)
    assert isinstance(decide(situation(found, gone)), Stop)


def test_the_replacement_of_a_preempted_slice_is_queued_instead_of_it() -> None:
    gone = evicted(RUNS, "Preempted", "")
    found = elastic(5, generation=2, status={"active": 3})
    assert isinstance(decide(situation(found, gone, LARGER)), Stop)
    stopped = elastic(5, generation=2, suspend=True, status={"active": 3})
    assert decide(situation(stopped, gone, LARGER)) == Wait(), "its pods still use the quota"
    stopped["status"] = {}
    action = decide(situation(stopped, gone, LARGER))
    assert isinstance(action, UpdateWorkloadStatus)
    done = action.after.condition("Finished")
    assert done is not None
    assert (action.after.key, done.reason) == (workload.key(RUNS), "WorkloadSliceReplaced")
    ended = after(gone, lambda value: transitions.finished(value, "WorkloadSliceReplaced", "", 600.0))
    assert decide(situation(stopped, without_finalizers(ended), LARGER)) == Wait(), "it waits"


def without_finalizers(raw: Raw) -> Raw:
    return merged(raw, {"metadata": {"finalizers": None}})


def test_a_change_of_the_containers_is_no_resize() -> None:
    found = elastic(5, generation=2)
    found["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    assert isinstance(decide(situation(found, RUNS)), Stop)


@pytest.mark.parametrize("why", ["the gate is off", "no annotation", "its pods have no scheduling gate"])
def test_without_the_feature_a_job_that_grows_is_stopped(why: str) -> None:
    found = elastic(5, generation=2)
    if why == "no annotation":
        found["metadata"]["annotations"] = {}
    if why == "its pods have no scheduling gate":
        del found["spec"]["template"]["spec"]["schedulingGates"]
    off = {"elastic_jobs": False} if why == "the gate is off" else {}
    assert isinstance(decide(situation(found, RUNS, **off)), Stop)


def test_pods_that_a_growing_job_does_not_run_yet_are_not_reclaimable() -> None:
    """Six of eight are done: two of five pods are needed, and so two of the three that run."""
    status = {"succeeded": 6, "active": 3, "ready": 3}
    found = elastic(5, generation=2, status=status)
    found["spec"]["completions"] = 8
    found["spec"]["completionMode"] = "NonIndexed"
    action = decide(situation(found, RUNS, LARGER))
    assert getattr(action, "body", {}).get("status") == {"reclaimablePods": [{"name": "main", "count": 1}]}


def test_a_replacement_of_a_finished_job_is_deleted() -> None:
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    action = decide(situation(elastic(5, generation=2, status=done), RUNS, LARGER))
    assert isinstance(action, DeleteWorkload)
    assert action.workload == workload.key(LARGER)


def test_a_job_whose_pods_are_ready_is_left_alone() -> None:
    assert decide(situation(elastic(status={"active": 3, "ready": 3}), RUNS)) == Wait()


def pod(name: str, *, gated: bool, pod_set: str = "main", **more: Any) -> Raw:
    spec = {"schedulingGates": [GATE, {"name": "other"}]} if gated else {}
    labels = {"kueue.x-k8s.io/podset": pod_set}
    metadata = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1", "labels": labels}
    return {"metadata": metadata | more.pop("metadata", {}), "spec": spec, **more}


@given(st.lists(st.booleans(), max_size=12), st.integers(0, 12))
def test_never_more_pods_run_than_are_granted_and_none_waits_in_vain(gates: list[bool], granted: int) -> None:
    pods = [pod(f"p{place:02}", gated=gated) for place, gated in enumerate(gates)]
    chosen = to_ungate(pods, {"main": granted})
    running = gates.count(False)
    assert len(chosen) == max(0, min(granted - running, gates.count(True)))
    assert [each["metadata"]["name"] for each in chosen] == sorted(each["metadata"]["name"] for each in chosen)


def test_pods_of_each_pod_set_are_counted_apart_and_ended_ones_not_at_all() -> None:
    ended = pod("a", gated=False, status={"phase": "Failed"})
    leaving = pod("b", gated=True, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    others = [pod("c", gated=True, pod_set="workers"), pod("d", gated=True), pod("e", gated=True)]
    chosen = to_ungate([ended, leaving, *others], {"main": 1})
    assert [each["metadata"]["name"] for each in chosen] == ["d"]
    assert ungated(chosen[0]) == {
        "metadata": {"uid": "d", "resourceVersion": "1"},
        "spec": {"schedulingGates": [{"name": "other"}]},
    }


def test_a_slice_is_decoded_with_what_it_replaces() -> None:
    value = read(LARGER)
    assert (value.replaces, value.slice_name) == (workload.key(RUNS), RUNS["metadata"]["name"])


def test_an_elastic_job_that_admission_did_not_see_gets_the_gate_before_its_workload() -> None:
    unseen = job(annotations=ELASTIC, pod={"schedulingGates": [{"name": "example.com/other"}]})
    action = decide(situation(unseen))
    assert isinstance(action, Prepare)
    (patch,) = patches(action.steps)
    seen = merged(unseen, patch.body)
    assert seen["spec"]["template"]["spec"]["schedulingGates"] == [{"name": "example.com/other"}, GATE]
    assert seen["spec"]["suspend"]
    created = decide(situation(seen))
    assert isinstance(created, CreateWorkload)
    assert created.manifest["metadata"]["annotations"]["kueue.x-k8s.io/elastic-job"] == "true"


@pytest.mark.parametrize("why", ["the feature is off", "not elastic", "its template is fixed", "it has pods"])
def test_no_other_job_gets_the_gate(why: str) -> None:
    statuses: dict[str, Raw] = {
        "its template is fixed": {"startTime": "2026-01-01T00:00:00Z"},
        "it has pods": {"active": 1},
    }
    status = statuses.get(why, {})
    found = job(annotations={} if why == "not elastic" else ELASTIC, status=status)
    assert not isinstance(decide(situation(found, elastic_jobs=why != "the feature is off")), Prepare)
