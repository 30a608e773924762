"""StatefulSets: one Workload, pods that are made one group, replicas from and to zero."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from api.feature_gates import DEFAULTS
from api.names import Annotation, Label
from core.actions import Delete, Patch
from core.jobs.actions import CreateWorkload, Problem, UpdateWorkload, UpdateWorkloadStatus
from core.jobs.kinds import POD, kind_at
from core.jobs.pod_owner_groups import GroupStep
from core.jobs.pod_owners import STATEFUL_SET
from core.jobs.stateful_sets import StatefulSetSituation, is_workload_of, name, settles_in, steps, workload_names
from core.model import Admission, Key, PodSetAssignment, Raw
from core.wire.merge import merged
from core.workload import transitions
from tests.core.jobs.samples import CLASSES, NOW, after, facts, read
from tests.core.jobs.test_pod import CONTAINER, GATE, pod


def stateful_set(*, replicas: int = 2, status: Raw | None = None, queue: str = "lq", image: str = "i") -> Raw:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{**CONTAINER, "image": image}]}}
    metadata = {"name": "s", "namespace": "ns", "uid": "set-uid", "labels": {Label.QUEUE_NAME: queue}}
    return {"metadata": metadata, "spec": {"replicas": replicas, "template": template}, "status": status or {}}


def decided(owner: Raw, raw: Raw | None = None, *pods: Raw) -> list[GroupStep]:
    return [step for step in steps(situation(owner, raw, *pods)) if step is not None]


def situation(owner: Raw, raw: Raw | None = None, *pods: Raw) -> StatefulSetSituation:
    return StatefulSetSituation(owner, pods, raw, read(raw) if raw is not None else None, CLASSES, NOW)


def workload_of(owner: Raw) -> Raw:
    (step,) = decided(owner)
    assert isinstance(step, CreateWorkload)
    raw = copy.deepcopy(step.manifest)
    raw["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9"}
    return raw


def admitted(raw: Raw) -> Raw:
    admission = Admission("cq", (PodSetAssignment("main", {"cpu": "spot"}, {}, 2),))
    return after(raw, lambda value: transitions.reserved(value, admission, 500.0))


def member(**more: Any) -> Raw:
    parent = {Annotation.POD_SUSPENDING_PARENT: "statefulset"}
    return pod(**{"name": "s-0", "annotations": parent, "labels": {Label.MANAGED: "true"}, **more})


def test_it_gets_the_workload_of_a_group_that_it_owns_and_does_not_control() -> None:
    raw = workload_of(stateful_set())
    assert raw["metadata"]["name"].startswith("statefulset-s-")
    assert raw["metadata"]["labels"] == {Label.JOB_UID: "set-uid"}
    assert raw["metadata"]["annotations"] == {
        Annotation.IS_GROUP_WORKLOAD: "true",
        Annotation.JOB_OWNER_GVK: "apps/v1, Kind=StatefulSet",
        Annotation.JOB_OWNER_NAME: "s",
    }
    assert raw["metadata"]["ownerReferences"] == [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "set-uid"}
    ]
    assert raw["spec"]["queueName"] == "lq"
    assert [(each["name"], each["count"]) for each in raw["spec"]["podSets"]] == [("main", 2)]


def test_the_pod_set_has_the_topology_request_of_the_template_also_with_other_replicas() -> None:
    owner = stateful_set()
    owner["spec"]["template"]["metadata"]["annotations"] = {Annotation.REQUIRED_TOPOLOGY: "rack"}
    asked = {"required": "rack", "podIndexLabel": "apps.kubernetes.io/pod-index"}
    (step,) = [each for each in steps(replace(situation(owner), topology_requests=True)) if each is not None]
    assert isinstance(step, CreateWorkload)
    assert step.manifest["spec"]["podSets"][0]["topologyRequest"] == asked
    assert "topologyRequest" not in workload_of(owner)["spec"]["podSets"][0], "the feature gate is off"
    more = situation(owner | {"spec": owner["spec"] | {"replicas": 3}}, workload_of(owner))
    (step,) = [each for each in steps(replace(more, topology_requests=True)) if each is not None]
    assert isinstance(step, UpdateWorkload)
    (pod_set,) = step.body["spec"]["podSets"]
    assert (pod_set["count"], pod_set["topologyRequest"]) == (3, asked)


def test_one_without_replicas_gets_no_workload() -> None:
    assert decided(stateful_set(replicas=0)) == []


def test_its_pods_become_one_group_with_one_write_each() -> None:
    owner = stateful_set()
    (step,) = decided(owner, workload_of(owner), member())
    assert isinstance(step, Patch)
    marked = merged(member(), step.body)
    assert kind_at(POD, POD.key(marked)) is not POD
    assert POD.key(marked) == Key("ns", f"group/{name(owner)}")
    assert marked["metadata"]["labels"][Label.QUEUE_NAME] == "lq"
    assert marked["metadata"]["annotations"][Annotation.POD_GROUP_TOTAL_COUNT] == "2"
    assert marked["metadata"]["annotations"][Annotation.ROLE_HASH] == "main"
    assert decided(owner, workload_of(owner), marked) == []


def test_a_pod_of_an_old_revision_is_let_go_during_a_rolling_update() -> None:
    owner = stateful_set(status={"currentRevision": "one", "updateRevision": "two"})
    old = member()
    old["metadata"]["labels"]["controller-revision-hash"] = "one"
    (step,) = decided(owner, admitted(workload_of(owner)), old)
    assert isinstance(step, Patch)
    assert GATE not in merged(old, step.body)["spec"]["schedulingGates"]


def test_a_pod_of_an_old_revision_without_quota_never_starts() -> None:
    status = {"currentRevision": "one", "updateRevision": "two"}
    owner, raw = stateful_set(replicas=4, status=status), admitted(workload_of(stateful_set()))
    old = [member(name=f"s-{place}", uid=f"{place}") for place in range(4)]
    for each in old:
        each["metadata"]["labels"]["controller-revision-hash"] = "one"
    found = [each for each in decided(owner, raw, *old) if isinstance(each, Patch) and "spec" in each.body]
    assert [each.target.key.name for each in found if each.target is not None] == ["s-0", "s-1"]


@pytest.mark.parametrize("evicted", [False, True], ids=["waiting", "evicted"])
def test_a_pod_of_an_old_revision_is_deleted_and_never_runs_without_admission(evicted: bool) -> None:
    owner = stateful_set(status={"currentRevision": "one", "updateRevision": "two"})
    old, raw = member(), workload_of(owner)
    old["metadata"]["labels"]["controller-revision-hash"] = "one"
    if evicted:
        raw = after(admitted(raw), lambda value: transitions.evicted(value, "Preempted", "preempted", NOW))
    found = decided(owner, raw, old)
    assert [each.uid for each in found if isinstance(each, Delete)] == [old["metadata"]["uid"]]
    assert all("spec" not in each.body for each in found if isinstance(each, Patch))


@pytest.mark.parametrize("has_quota", [False, True], ids=["waiting", "admitted"])
def test_its_gates_and_priority_class_are_those_of_the_workload_in_every_state(has_quota: bool) -> None:
    owner = stateful_set()
    owner["metadata"]["labels"][Label.PRIORITY_CLASS] = "low"
    raw = workload_of(owner)
    raw = admitted(raw) if has_quota else raw
    owner["metadata"]["annotations"] = {Annotation.ADMISSION_GATED_BY: "a.b/c"}
    owner["metadata"]["labels"][Label.PRIORITY_CLASS] = "high"
    (gates,) = decided(owner, raw)
    assert isinstance(gates, UpdateWorkload)
    raw = merged(raw, gates.body)
    assert raw["metadata"]["annotations"][Annotation.ADMISSION_GATED_BY] == "a.b/c"
    (of_class,) = decided(owner, raw)
    assert isinstance(of_class, UpdateWorkload)
    raw = merged(raw, of_class.body)
    assert (raw["spec"]["priority"], raw["spec"]["priorityClassRef"]["name"]) == (100, "high")
    assert decided(owner, raw) == []


def test_without_replicas_the_workload_gives_its_quota_back_and_waits_until_there_are_some() -> None:
    raw = admitted(workload_of(stateful_set()))
    (step,) = decided(stateful_set(replicas=0), raw)
    assert isinstance(step, UpdateWorkloadStatus)
    assert facts(step.after)["QuotaReserved"] == "False/OnHold"
    held = after(raw, lambda value: step.after)
    assert decided(stateful_set(replicas=0), held) == []
    (again,) = decided(stateful_set(), held)
    assert isinstance(again, UpdateWorkloadStatus)
    assert facts(again.after)["QuotaReserved"] == "False/PendingEvaluation"


def running(place: int, **metadata: Any) -> Raw:
    """A pod of the set that has a node."""
    return member(gated=False, spec={"nodeName": "n"}, status={"phase": "Running"}, uid=f"uid-{place}", **metadata)


PAST, SOON = "1970-01-01T00:16:00Z", "1970-01-01T00:17:00Z"
"""Before and after ``NOW``, which is 1000."""


@pytest.mark.parametrize(
    ("pods", "held", "again"),
    [
        ([running(0)], False, None),
        ([running(0, deletionTimestamp=SOON)], False, 20.0),
        ([running(0, deletionTimestamp=PAST)], True, None),
        ([member()], True, None),
        ([], True, None),
    ],
    ids=["runs", "is terminated", "should be gone, as on a lost node", "never started", "no pod"],
)
def test_scaled_to_zero_it_keeps_its_quota_until_no_pod_uses_it(
    pods: list[Raw], held: bool, again: float | None
) -> None:
    owner, raw = stateful_set(replicas=0), admitted(workload_of(stateful_set()))
    found = [step for step in decided(owner, raw, *pods) if isinstance(step, UpdateWorkloadStatus)]
    assert len(found) == held
    assert settles_in(situation(owner, raw, *pods)) == again


def test_scaled_to_zero_while_it_waits_it_leaves_the_queue() -> None:
    (step,) = decided(stateful_set(replicas=0), workload_of(stateful_set()))
    assert isinstance(step, UpdateWorkloadStatus)
    assert facts(step.after)["QuotaReserved"] == "False/OnHold"


@pytest.mark.parametrize("change", [{"queue": "other"}, {"replicas": 3}], ids=["queue", "replicas"])
def test_a_waiting_workload_follows_its_set_and_an_admitted_one_does_not(change: Any) -> None:
    raw = workload_of(stateful_set())
    (step,) = decided(stateful_set(**change), raw)
    assert isinstance(step, UpdateWorkload)
    found = decided(stateful_set(**change), admitted(raw))
    assert not any(isinstance(each, UpdateWorkload) for each in found)


def test_replicas_beyond_the_quota_of_a_running_set_are_reported() -> None:
    (problem,) = decided(stateful_set(replicas=5), admitted(workload_of(stateful_set())))
    assert isinstance(problem, Problem)
    assert problem.message == ("the quota is for 2 of 5 replicas, 3 pods wait: scale it to 2, or to 0 and then to 5")
    assert decided(stateful_set(replicas=1), admitted(workload_of(stateful_set()))) == []


@pytest.mark.parametrize("start", [0, 7])
def test_pods_without_quota_do_not_join_the_group_until_it_is_queued_again(start: int) -> None:
    owner, raw = stateful_set(replicas=4), admitted(workload_of(stateful_set()))
    owner["spec"]["ordinals"] = {"start": start}
    pods = [member(name=f"s-{start + place}", uid=f"{place}") for place in range(4)]

    def joins(raw: Raw) -> list[str]:
        patches = [each for each in decided(owner, raw, *pods) if isinstance(each, Patch)]
        return [each.target.key.name for each in patches if each.target is not None]

    assert joins(raw) == [f"s-{start}", f"s-{start + 1}"]
    assert len(joins(workload_of(owner))) == 4


def test_the_group_of_a_set_that_is_scaled_down_while_it_runs_is_ready_with_fewer_pods() -> None:
    raw = admitted(workload_of(stateful_set()))
    (step,) = decided(stateful_set(), raw, member())
    assert isinstance(step, Patch)
    marked = merged(member(), step.body)
    assert marked["metadata"]["annotations"][Annotation.POD_GROUP_TOTAL_COUNT] == "2"
    (fewer,) = decided(stateful_set(replicas=1), raw, marked)
    assert isinstance(fewer, Patch)
    assert fewer.body["metadata"]["annotations"] == {Annotation.POD_GROUP_TOTAL_COUNT: "1"}


def test_the_workload_of_an_older_version_is_adopted_with_its_name() -> None:
    owner = stateful_set()
    older = workload_of(owner)
    older["metadata"] |= {"name": workload_names(owner)[1], "ownerReferences": [], "labels": {}}
    assert is_workload_of(owner, older)
    (step, marks) = decided(owner, older, member())
    assert isinstance(step, UpdateWorkload)
    adopted = merged(older, step.body)
    assert [each["uid"] for each in adopted["metadata"]["ownerReferences"]] == ["set-uid"]
    assert adopted["metadata"]["labels"] == {Label.JOB_UID: "set-uid"}
    assert isinstance(marks, Patch)
    assert POD.key(merged(member(), marks.body)) == Key("ns", f"group/{workload_names(owner)[1]}")
    assert decided(owner, adopted) == []


def test_the_workload_of_an_earlier_set_of_the_same_name_is_not_adopted() -> None:
    owner = stateful_set()
    older = workload_of(owner)
    older["metadata"] |= {"name": workload_names(owner)[1]}
    older["metadata"]["ownerReferences"][0]["uid"] = "earlier"
    assert not is_workload_of(owner, older)


def test_the_workload_of_a_foreign_group_of_pods_is_not_the_stateful_sets_by_its_name() -> None:
    owner, reference = stateful_set(), {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}
    for called in workload_names(owner):
        foreign = workload_of(owner)
        foreign["metadata"] |= {"name": called, "ownerReferences": [reference], "labels": {}}
        assert not is_workload_of(owner, foreign, [member()])
        assert is_workload_of(owner, foreign, [member(uid="x")]), "an older version of Kueue made it"
    (told,) = [each for each in steps(replace(situation(owner, None, member()), taken=True)) if each is not None]
    assert isinstance(told, Problem)
    assert told.reason == "WorkloadNameConflict"


@pytest.mark.parametrize(
    ("before", "now", "errors"),
    [
        (2, 3, ["spec.replicas: Invalid value: 3: field is immutable"]),
        (2, 0, []),
        (0, 4, []),
    ],
    ids=["another number", "to zero", "from zero"],
)
def test_replicas_change_only_to_zero_and_from_zero(before: int, now: int, errors: list[str]) -> None:
    old, new = stateful_set(replicas=before), stateful_set(replicas=now)
    assert [str(each) for each in STATEFUL_SET.change_errors(old, new, DEFAULTS.__getitem__)] == errors


def test_replicas_wait_until_the_former_ones_have_released_their_quota() -> None:
    old, new, raw = stateful_set(replicas=0), stateful_set(replicas=3), workload_of(stateful_set())
    errors = STATEFUL_SET.change_errors(old, new, DEFAULTS.__getitem__, read(admitted(raw)))
    assert [str(each) for each in errors] == [
        "spec.replicas: Forbidden: workload from previous scale-down is still being deleted"
    ]
    assert STATEFUL_SET.change_errors(old, new, DEFAULTS.__getitem__, read(raw)) == []


def test_replicas_wait_for_the_pods_of_the_scale_down_and_requests_are_fixed() -> None:
    old, new = stateful_set(replicas=0), stateful_set(status={"replicas": 1})
    new["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
    assert [str(each) for each in STATEFUL_SET.change_errors(old, new, DEFAULTS.__getitem__)] == [
        "spec.replicas: Forbidden: scaling down is still in progress",
        'spec.template.spec.nodeSelector: Invalid value: {"a":"b"}: field is immutable',
    ]


def test_an_image_may_change() -> None:
    old, new = stateful_set(), stateful_set(image="new")
    assert STATEFUL_SET.change_errors(old, new, DEFAULTS.__getitem__) == []


def from_another_cluster(raw: Raw) -> tuple[Raw, Raw]:
    """The StatefulSet that a manager creates here, and the copy of its Workload there."""
    notes = {Annotation.MULTIKUEUE_ORIGIN_UID: "set-uid"}
    owner = merged(stateful_set(), {"metadata": {"uid": "here-uid", "annotations": notes}})
    owner["metadata"]["labels"][Label.MULTIKUEUE_ORIGIN] = "multikueue"
    copied = merged(raw, {"metadata": {"ownerReferences": None, "labels": {Label.JOB_UID: None}}})
    return owner, copied


def test_one_that_runs_here_for_another_cluster_has_the_workload_that_was_made_there() -> None:
    owner, copied = from_another_cluster(workload_of(stateful_set()))
    assert decided(owner) == []  # the copy is not here yet
    assert copied["metadata"]["name"] in workload_names(owner)
    (adoption,) = decided(owner, copied)
    assert isinstance(adoption, UpdateWorkload)
    assert adoption.body["metadata"]["ownerReferences"][0]["uid"] == "here-uid"
    (mark,) = decided(owner, merged(admitted(copied), adoption.body), member())
    assert isinstance(mark, Patch)
    assert mark.body["metadata"]["annotations"][Annotation.POD_GROUP_NAME] == copied["metadata"]["name"]


def test_an_annotation_alone_gives_it_no_other_workload() -> None:
    owner = merged(stateful_set(), {"metadata": {"annotations": {Annotation.MULTIKUEUE_ORIGIN_UID: "another-uid"}}})
    assert name(owner) == name(stateful_set())


def test_pods_of_an_old_revision_wait_here_while_it_runs_in_another_cluster() -> None:
    owner = stateful_set(status={"currentRevision": "old", "updateRevision": "new"})
    raw = admitted(workload_of(stateful_set()))
    old = member(labels={Label.MANAGED: "true", "controller-revision-hash": "old"})
    assert len(decided(owner, raw, old)) == 1
    assert decided(owner, merged(raw, {"status": {"clusterName": "worker1"}}), old) == []
