"""Plain pods: one Workload each, started by removing their gate, stopped by deletion."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from api.feature_gates import DEFAULTS
from api.names import Annotation, Label
from core.actions import Delete, Patch, Target, Wait
from core.jobs import workload
from core.jobs.actions import (
    CreateWorkload,
    DeleteWorkload,
    RemoveFinalizer,
    RemoveJobFinalizer,
    Start,
    Stop,
    UpdateWorkloadStatus,
)
from core.jobs.decide import decide
from core.jobs.kinds import POD
from core.jobs.pod_shape import role_hash
from core.jobs.situation import JobSituation
from core.model import Admission, Key, PodSetAssignment, Raw
from core.wire.merge import merged
from core.workload import transitions
from core.workload.actions import LifePolicy
from tests.core.jobs.samples import CLASSES, FLAVORS, NOW, after, decoded, evicted, facts

GATE = {"name": "kueue.x-k8s.io/admission"}
TARGET = Target(POD.resource, Key("ns", "p"))
ADMISSION = Admission("cq", (PodSetAssignment("main", {"cpu": "spot"}, {"cpu": 1000}, 1),))
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}


def pod(*, gated: bool = True, status: Raw | None = None, spec: Raw | None = None, **metadata: Any) -> Raw:
    """A pod of queue lq as admission leaves it."""
    gates = [{"name": "example.com/other"}, *([GATE] if gated else [])]
    base = {
        "name": "p",
        "namespace": "ns",
        "uid": "pod-uid",
        "resourceVersion": "5",
        "labels": {"app": "x", Label.QUEUE_NAME: "lq", Label.MANAGED: "true"},
        "finalizers": ["example.com/own", "kueue.x-k8s.io/managed"],
    }
    found = {"containers": [CONTAINER], "schedulingGates": gates, **(spec or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": base | metadata,
        "spec": found,
        "status": status or {"phase": "Pending"},
    }


def workload_of(found: Raw) -> Raw:
    raw = copy.deepcopy(workload.manifest(POD, found, {"spec": {"priority": 0}}))
    raw["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9"}
    return raw


def admitted(raw: Raw) -> Raw:
    return after(raw, lambda value: transitions.reserved(value, ADMISSION, 500.0))


def decided(found: Raw, *workloads: Raw, **more: Any) -> Any:
    given: Raw = {"flavors": FLAVORS, "classes": CLASSES, "decoded": decoded(*workloads), **more}
    return decide(JobSituation(kind=POD, job=found, now=NOW, workloads=workloads, **given))


def test_a_gated_pod_gets_a_workload_of_its_spec_without_its_metadata() -> None:
    action = decided(pod())
    assert isinstance(action, CreateWorkload)
    assert action.manifest["metadata"]["name"].startswith("pod-p-")
    assert (
        action.manifest["metadata"]["ownerReferences"][0] | {"uid": "pod-uid", "controller": True}
        == (action.manifest["metadata"]["ownerReferences"][0])
    )
    assert action.manifest["spec"]["queueName"] == "lq"
    assert action.manifest["spec"]["podSets"] == [
        {"name": "main", "count": 1, "template": {"metadata": {}, "spec": pod()["spec"]}}
    ]


def test_a_start_is_one_write_that_adds_the_nodes_and_removes_only_our_gates() -> None:
    found = pod()
    found["spec"]["schedulingGates"].append({"name": "kueue.x-k8s.io/topology"})
    action = decided(found, admitted(workload_of(found)))
    assert isinstance(action, Start)
    (write,) = action.steps
    assert isinstance(write, Patch)
    started = merged(found, write.body)
    assert started["spec"] == {
        "containers": [CONTAINER],
        "schedulingGates": [{"name": "example.com/other"}],
        "nodeSelector": {"kind": "spot"},
        "tolerations": FLAVORS["spot"]["spec"]["tolerations"],
    }
    assert started["metadata"]["labels"] == {
        **found["metadata"]["labels"],
        Label.POD_SET: "main",
        Label.LOCAL_QUEUE: "lq",
        Label.CLUSTER_QUEUE: "cq",
    }
    assert write.body["metadata"]["resourceVersion"] == "5"


def test_a_pod_that_runs_for_another_cluster_gets_the_label_of_a_worker() -> None:
    raw = admitted(workload_of(pod()))
    raw["metadata"]["labels"] = {Label.MULTIKUEUE_ORIGIN: "multikueue"}
    (write,) = decided(pod(), raw).steps
    assert write.body["metadata"]["labels"]["kueue.x-k8s.io/multikueue-worker-workload-pod"] == "true"


def test_a_pod_that_runs_in_another_cluster_keeps_its_gates_here() -> None:
    raw = admitted(workload_of(pod()))
    raw["status"]["clusterName"] = "worker1"
    assert decided(pod(), raw) == Wait()


def running(found: Raw, raw: Raw) -> Raw:
    (write,) = decided(found, raw).steps
    return {**merged(found, write.body), "status": {"phase": "Running"}}


def test_a_running_pod_whose_workload_is_admitted_is_left_alone() -> None:
    raw = admitted(workload_of(pod()))
    assert decided(running(pod(), raw), raw) == Wait()


def test_an_evicted_pod_gets_the_reason_as_a_condition_and_is_deleted() -> None:
    raw = admitted(workload_of(pod()))
    found = running(pod(), raw)
    action = decided(found, evicted(raw, "Preempted", "Preempted to accommodate a workload"))
    assert isinstance(action, Stop)
    mark, deletion = action.steps
    assert deletion == Delete("pod-uid", TARGET)
    assert isinstance(mark, Patch)
    assert (mark.subresource, mark.target, mark.apply) == ("status", TARGET, True)
    (condition,) = mark.body["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        "TerminationTarget",
        "True",
        "WorkloadEvictedDueToPreempted",
        "Preempted to accommodate a workload",
    )
    assert mark.body["metadata"] == {"name": "p", "namespace": "ns", "uid": "pod-uid"}


@pytest.mark.parametrize("gated", [True, False], ids=["while it waits", "while it runs"])
def test_a_deleted_pod_loses_our_finalizer_first_and_then_its_workload_is_released(gated: bool) -> None:
    found, raw = pod(gated=gated, deletionTimestamp="2026-01-01T00:00:00Z"), workload_of(pod())
    action = decided(found, raw)
    assert isinstance(action, RemoveJobFinalizer)
    (write,) = action.steps
    assert isinstance(write, Patch)
    assert write.body == {"metadata": {"finalizers": ["example.com/own"], "uid": "pod-uid", "resourceVersion": "5"}}
    released = merged(found, write.body)
    assert isinstance(decided(released, raw), RemoveFinalizer)


@pytest.mark.parametrize(
    ("phase", "reason"), [("Succeeded", "Succeeded"), ("Failed", "Failed")], ids=["succeeded", "failed"]
)
def test_a_pod_that_has_ended_loses_its_finalizer_when_its_workload_is_finished(phase: str, reason: str) -> None:
    raw = admitted(workload_of(pod()))
    found = running(pod(), raw) | {"status": {"phase": phase, "message": "that was it"}}
    action = decided(found, raw)
    assert isinstance(action, UpdateWorkloadStatus)
    assert facts(action.after)["Finished"] == f"True/{reason}"
    assert action.after.condition("Finished").message == "that was it"  # type: ignore[union-attr]
    finished = after(raw, lambda value: action.after)
    assert isinstance(decided(found, finished), RemoveJobFinalizer)
    gone = merged(found, {"metadata": {"finalizers": None}})
    assert isinstance(decided(gone, finished), RemoveFinalizer)
    finished["metadata"]["finalizers"] = []
    assert decided(gone, finished) == Wait()


def test_a_pod_whose_gate_was_removed_by_hand_is_deleted() -> None:
    action = decided(pod(gated=False), workload_of(pod()))
    assert isinstance(action, Stop)
    assert isinstance(action.steps[-1], Delete)


def test_the_pod_of_a_deleted_workload_is_deleted_even_while_it_waits() -> None:
    raw = workload_of(pod())
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    action = decided(pod(), raw)
    assert isinstance(action, Stop)
    assert [type(each) for each in action.steps] == [Patch, Delete]


def test_a_pod_that_leaves_its_queue_is_not_deleted() -> None:
    action = decided(pod(labels={Label.MANAGED: "true"}), workload_of(pod()), managed=False)
    assert not isinstance(action, Stop)


def test_a_pod_of_a_statefulset_gets_no_workload_before_it_has_its_group() -> None:
    assert decided(pod(annotations={Annotation.POD_SUSPENDING_PARENT: "statefulset"})) == Wait()


def test_the_caches_keep_what_is_read_and_share_what_is_equal() -> None:
    known: dict[str, Raw] = {}

    def share(raw: Raw, /, **own: Any) -> Raw:
        shared = known.setdefault(str(raw), raw)
        return shared | own if own else shared

    def received(name: str) -> Raw:
        mounts = [{"name": f"kube-api-access-{name}", "mountPath": "/token"}, {"name": "data", "mountPath": "/data"}]
        spec = {
            "nodeName": f"node-{name}",
            "containers": [{**CONTAINER, "volumeMounts": mounts}],
            "volumes": [{"name": f"kube-api-access-{name}"}, {"name": "data"}],
        }
        found = pod(name=name, uid=name, spec=spec, gated=False)
        found["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 1000}
        found["status"] = {
            "phase": "Running",
            "podIP": name,
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": name},
                {"type": "Initialized", "status": "True"},
            ],
        }
        return found

    one, two = (POD.lean(received(name), share) for name in ("a", "b"))
    assert one["spec"]["nodeName"] == "node-a"
    assert one["spec"]["volumes"] == [{"name": "data"}]
    assert one["spec"]["containers"] is two["spec"]["containers"]
    assert one["status"] is two["status"]
    assert one["status"] == {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert one["metadata"]["labels"] is two["metadata"]["labels"]
    assert one["metadata"]["name"] == "a"
    assert "annotations" not in one["metadata"]


def test_the_role_hash_is_the_one_of_kueue() -> None:
    """Computed with Kueue's algorithm: the JSON of the shape with sorted keys and null for absent fields."""
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "5"}}}]}
    assert len(role_hash(spec)) == 8
    assert role_hash(spec) == role_hash({**spec, "restartPolicy": "Never", "nodeName": "n"})
    assert role_hash(spec) != role_hash({**spec, "nodeSelector": {"a": "b"}})


@pytest.mark.parametrize(
    ("metadata", "errors"),
    [
        (
            {"labels": {Label.MANAGED: "false"}},
            [f"metadata.labels[{Label.MANAGED}]: Forbidden: managed label value can only be 'true'"],
        ),
        (
            {"labels": {Label.POD_GROUP_NAME: "g"}},
            [
                f"metadata.annotations[{Annotation.POD_GROUP_TOTAL_COUNT}]: Required value: both the"
                f" '{Annotation.POD_GROUP_TOTAL_COUNT}' annotation and the '{Label.POD_GROUP_NAME}' label should be set"
            ],
        ),
        (
            {"annotations": {Annotation.POD_GROUP_TOTAL_COUNT: "2"}},
            [
                f"metadata.labels[{Label.POD_GROUP_NAME}]: Required value: both the"
                f" '{Annotation.POD_GROUP_TOTAL_COUNT}' annotation and the '{Label.POD_GROUP_NAME}' label should be set"
            ],
        ),
        (
            {"labels": {Label.POD_GROUP_NAME: "g"}, "annotations": {Annotation.POD_GROUP_TOTAL_COUNT: "0"}},
            [
                f'metadata.annotations[{Annotation.POD_GROUP_TOTAL_COUNT}]: Invalid value: "0": incorrect annotation'
                f" value '{Annotation.POD_GROUP_TOTAL_COUNT}=0': group total count should be greater than zero"
            ],
        ),
        (
            {
                "labels": {Label.POD_GROUP_NAME: "g", Label.PREBUILT_WORKLOAD: "other"},
                "annotations": {Annotation.POD_GROUP_TOTAL_COUNT: "1"},
            },
            [
                f'metadata.labels[{Label.PREBUILT_WORKLOAD}]: Invalid value: "other": prebuilt workload and pod group'
                " should be equal"
            ],
        ),
        (
            {"labels": {Label.POD_GROUP_NAME: "g"}, "annotations": {Annotation.POD_GROUP_TOTAL_COUNT: "2001"}},
            [
                f'metadata.annotations[{Annotation.POD_GROUP_TOTAL_COUNT}]: Invalid value: "2001": a group has at most'
                " 2000 pods: make several groups of them, or a JobSet"
            ],
        ),
        ({"labels": {Label.POD_GROUP_NAME: "g"}, "annotations": {Annotation.POD_GROUP_TOTAL_COUNT: "3"}}, []),
    ],
    ids=[
        "managed label",
        "group without count",
        "count without group",
        "count zero",
        "prebuilt workload",
        "too large",
        "valid",
    ],
)
def test_the_metadata_of_a_new_pod_is_checked_in_the_words_of_kueue(metadata: Raw, errors: list[str]) -> None:
    assert [str(each) for each in POD.validate_create(pod(**metadata), DEFAULTS.__getitem__)] == errors


def test_a_pod_of_a_group_that_is_older_than_the_limit_may_change() -> None:
    found = pod(labels={Label.POD_GROUP_NAME: "g"}, annotations={Annotation.POD_GROUP_TOTAL_COUNT: "3000"})
    assert POD.validate_update(found, found, DEFAULTS.__getitem__) == []


def test_a_pod_that_is_placed_together_with_others_may_change() -> None:
    """Else nobody could remove a finalizer from the pods of a LeaderWorkerSet, whose annotation they have."""
    rack = {Annotation.POD_SET_GROUP_NAME: "together", Annotation.REQUIRED_TOPOLOGY: "example.com/rack"}
    old = pod(annotations=rack, finalizers=["foregroundDeletion"])
    assert POD.validate_update(old, pod(annotations=rack, finalizers=[]), DEFAULTS.__getitem__) == []


def test_a_pod_stays_in_its_group_and_stays_unretriable() -> None:
    total = {Annotation.POD_GROUP_TOTAL_COUNT: "3"}
    old = pod(labels={Label.POD_GROUP_NAME: "g"}, annotations={**total, Annotation.RETRIABLE_IN_GROUP: "false"})
    new = pod(labels={Label.POD_GROUP_NAME: "h"}, annotations=total)
    assert [str(each) for each in POD.validate_update(old, new, DEFAULTS.__getitem__)] == [
        f"metadata.annotations[{Annotation.RETRIABLE_IN_GROUP}]: Forbidden: unretriable pod group can't be converted"
        " to retriable",
        f'metadata.labels[{Label.POD_GROUP_NAME}]: Invalid value: "h": field is immutable',
    ]


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_the_label_by_which_a_pod_is_watched_stays_until_it_has_ended(phase: str) -> None:
    """Without it a running pod would be taken for a deleted one, whose quota is free."""
    old, new = pod(gated=False, status={"phase": phase}), pod(gated=False, status={"phase": phase})
    del new["metadata"]["labels"][Label.MANAGED]
    errors = [str(each) for each in POD.validate_update(old, new, DEFAULTS.__getitem__)]
    text = "cannot be removed: a pod that runs would give its quota back"
    refused = f"metadata.labels[{Label.MANAGED}]: Forbidden: {text}"
    assert errors == ([refused] if phase == "Running" else [])


def freed(found: Raw, action: Any) -> Raw:
    (write,) = action.steps
    assert isinstance(write, Patch)
    assert (write.target, write.body["metadata"]["resourceVersion"]) == (TARGET, "5")
    return merged(found, write.body)


@pytest.mark.parametrize("admitted_above", [True, False], ids=["admitted", "waiting"])
def test_a_gated_pod_below_a_queued_job_loses_its_workload_and_runs_while_that_job_is_admitted(
    admitted_above: bool,
) -> None:
    found, raw = pod(), workload_of(pod())
    assert isinstance(decided(found, raw, ancestor_admitted=admitted_above), DeleteWorkload)
    action = decided(found, ancestor_admitted=admitted_above)
    if not admitted_above:
        assert action == Wait()
        return
    assert isinstance(action, Start)
    left = freed(found, action)
    assert left["spec"]["schedulingGates"] == [{"name": "example.com/other"}]
    assert left["metadata"]["finalizers"] == ["example.com/own"]
    assert decided(left, ancestor_admitted=True) == Wait()


def test_a_pod_without_workload_below_a_queued_job_loses_our_finalizer() -> None:
    action = decided(pod(gated=False), ancestor_admitted=False)
    assert isinstance(action, RemoveJobFinalizer)
    assert freed(pod(gated=False), action)["metadata"]["finalizers"] == ["example.com/own"]


def test_a_pod_that_runs_with_its_own_workload_keeps_it_when_an_owner_is_queued_later() -> None:
    raw = admitted(workload_of(pod()))
    found = running(pod(), raw)
    assert decided(found, raw, ancestor_admitted=False) == Wait()
    ended = {**found, "status": {"phase": "Succeeded"}}
    assert isinstance(decided(ended, raw, ancestor_admitted=False), UpdateWorkloadStatus)


def test_a_pod_whose_owner_is_not_known_yet_gets_no_workload() -> None:
    assert decided(pod(), owner_unread=True) == Wait()


@pytest.mark.parametrize(
    ("node", "phase", "over"),
    [("n", "Running", False), ("n", "Failed", True), ("n", "Succeeded", True), ("", "Pending", True)],
)
def test_a_deleted_pod_that_others_keep_gives_its_quota_back_when_it_has_ended(
    node: str, phase: str, over: bool
) -> None:
    raw = admitted(workload_of(pod()))
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/own"]}
    found = pod(gated=False, status={"phase": phase}, spec={"nodeName": node}, **metadata)
    action = decided(found, raw)
    assert isinstance(action, UpdateWorkloadStatus if over else RemoveFinalizer)
    if isinstance(action, UpdateWorkloadStatus):
        assert facts(action.after)["Finished"] == "True/OwnerNotFound"


@pytest.mark.parametrize(("timeout", "released"), [(30.0, False), (10.0, True)], ids=["within the limit", "beyond it"])
def test_a_pod_that_terminates_counts_no_longer_than_the_operator_allows(timeout: float, released: bool) -> None:
    """Its owner chooses its grace period: here a day, since 20 seconds."""
    metadata = {"deletionTimestamp": "1970-01-02T00:16:20Z", "deletionGracePeriodSeconds": 86400, "finalizers": []}
    ending = pod(gated=False, status={"phase": "Running"}, spec={"nodeName": "n"}, **metadata)
    action = decided(ending, admitted(workload_of(pod())), terminating_timeout=timeout)
    assert isinstance(action, UpdateWorkloadStatus) == released


def test_an_evicted_pod_keeps_its_quota_in_its_grace_period() -> None:
    raw = evicted(admitted(workload_of(pod())), "Preempted", "Preempted to accommodate a workload")
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []}
    ending = pod(gated=False, status={"phase": "Running"}, spec={"nodeName": "n"}, **metadata)
    after_all = decided(ending, raw)
    assert not isinstance(after_all, UpdateWorkloadStatus), "neither finished nor released"


@pytest.mark.parametrize(
    ("reason", "gate"), [("Preempted", True), ("NodeFailures", True), ("Preempted", False)], ids=["on", "on too", "off"]
)
def test_the_workload_of_an_evicted_pod_that_is_gone_is_not_requeued(reason: str, gate: bool) -> None:
    """With SkipReassignmentForPodOwnedWorkloads."""
    raw = evicted(admitted(workload_of(pod())), reason, "By test")
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/own"]}
    ended = pod(gated=False, status={"phase": "Failed"}, spec={"nodeName": "n"}, **metadata)
    action = decided(ended, raw, life=LifePolicy(requeues_pods=not gate))
    assert isinstance(action, UpdateWorkloadStatus)
    told = facts(action.after)
    assert (told["Finished"], told["Requeued"]) == ("True/OwnerNotFound", f"{not gate}/{reason}")
