"""Groups of pods: one Workload for all, and what becomes of each pod."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.names import Annotation, Condition, Label
from core.actions import Create, Delete, Patch, Wait
from core.jobs import workload
from core.jobs.actions import (
    CreateWorkload,
    Problem,
    RemoveFinalizer,
    RemoveJobFinalizer,
    Start,
    Stop,
    UpdateWorkload,
    UpdateWorkloadStatus,
)
from core.jobs.decide import decide
from core.jobs.groups import created_before_its_pods
from core.jobs.kinds import POD, POD_GROUP, kind_at
from core.jobs.kinds.pod_group import owner_reference, sort_out
from core.jobs.pod_shape import role_hash
from core.jobs.situation import JobSituation
from core.model import Admission, Key, PodSetAssignment, Raw
from core.model.owner import owner
from core.wire.merge import merged
from core.wire.pod_requests import RequestRules
from core.workload import transitions
from tests.core.jobs.samples import CLASSES, FLAVORS, NOW, after, decoded, evicted, facts, read
from tests.core.jobs.test_pod import CONTAINER, GATE, pod
from tests.effort import cases

GROUP = "group"
ROLES = ("driver", "worker", "worker")
CPUS = {"driver": "2", "worker": "1"}


def containers(cpu: str) -> list[Raw]:
    return [{**CONTAINER, "resources": {"requests": {"cpu": cpu}}}]


HASHES = {role: role_hash({"containers": containers(cpu)}) for role, cpu in CPUS.items()}
DRIVER, WORKER = HASHES["driver"], HASHES["worker"]
GONE = "1970-01-01T00:16:00Z"
"""Before ``NOW``, which is 1000."""
LATER = "1970-01-01T00:17:00Z"


def member(
    name: str, role: str = "worker", *, gated: bool = True, phase: str = "", cpu: str = "", **metadata: Any
) -> Raw:
    """A pod of a group of three, as admission leaves it."""
    role_given = {Annotation.ROLE_HASH: HASHES[role]}
    annotations = {Annotation.POD_GROUP_TOTAL_COUNT: "3", **role_given, **metadata.pop("annotations", {})}
    labels = {"app": "x", Label.QUEUE_NAME: "lq", Label.MANAGED: "true", Label.POD_GROUP_NAME: GROUP}
    labels |= metadata.pop("labels", {})
    made = {"name": name, "uid": name, "labels": labels, "annotations": annotations, "creationTimestamp": name}
    spec = {"containers": containers(cpu or CPUS[role]), **({} if gated else {"nodeName": "n"})}
    return pod(
        gated=gated, status={"phase": phase or ("Pending" if gated else "Running")}, spec=spec, **made | metadata
    )


def group(*pods: Raw) -> Raw:
    return POD_GROUP.whole(pods, NOW)


def three(*, gated: bool = True) -> list[Raw]:
    return [member("a", "driver", gated=gated), member("b", gated=gated), member("c", gated=gated)]


def workload_of(*pods: Raw) -> Raw:
    raw = copy.deepcopy(workload.manifest(POD_GROUP, group(*pods), {"spec": {"priority": 0}}))
    raw["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9"}
    return raw


def admitted(raw: Raw) -> Raw:
    given = [PodSetAssignment(each["name"], {"cpu": "spot"}, {}, each["count"]) for each in raw["spec"]["podSets"]]
    return after(raw, lambda value: transitions.reserved(value, Admission("cq", tuple(given)), 500.0))


def decided(pods: list[Raw], *workloads: Raw, **more: Any) -> Any:
    given: Raw = {"flavors": FLAVORS, "classes": CLASSES, "decoded": decoded(*workloads), **more}
    named = workloads[0] if workloads else more.get("prebuilt")
    job = POD_GROUP.beside(group(*pods), named, read(named) if named else None, RequestRules())
    mine = tuple(raw for raw in workloads if POD_GROUP.owns(job, raw))
    return decide(JobSituation(kind=POD_GROUP, job=job, now=NOW, workloads=mine, **given))


def of(action: Any) -> list[str]:
    """The pods of the writes of an action."""
    return [each.target.key.name for each in action.steps]


def test_pods_of_a_group_have_one_key_and_its_workload_leads_back_to_it() -> None:
    keys = {POD.key(each) for each in three()}
    assert keys == {Key("ns", "group/group")}
    assert [kind_at(POD, key) for key in keys] == [POD_GROUP]
    assert kind_at(POD, POD.key(pod())) is POD
    by = owner(workload_of(*three()))
    assert by is not None
    assert (by.group, by.kind, by.namespace, by.name) == ("", "Pod", "ns", "group/group")


def test_a_complete_group_gets_one_workload_with_a_pod_set_for_each_role() -> None:
    action = decided(three())
    assert isinstance(action, CreateWorkload)
    metadata = action.manifest["metadata"]
    assert metadata["name"] == GROUP
    assert metadata["annotations"][Annotation.IS_GROUP_WORKLOAD] == "true"
    assert Label.JOB_UID not in metadata["labels"]
    assert metadata["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name} for name in ("a", "b", "c")
    ]
    assert {each["name"]: each["count"] for each in action.manifest["spec"]["podSets"]} == {DRIVER: 1, WORKER: 2}


def test_nothing_happens_until_all_pods_are_there() -> None:
    assert decided(three()[:2]) == Problem("ErrWorkloadCompose", "'group' group has fewer runnable pods than expected")


def test_with_fast_admission_the_first_pod_stands_for_all() -> None:
    fast = {Annotation.POD_GROUP_FAST_ADMISSION: "true"}
    action = decided([member("a", annotations=fast)])
    assert isinstance(action, CreateWorkload)
    assert [(each["name"], each["count"]) for each in action.manifest["spec"]["podSets"]] == [(WORKER, 3)]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"labels": {Label.QUEUE_NAME: "other"}}, "pods 'a' and 'c' has different queue names: lq!=other"),
        (
            {"annotations": {Annotation.POD_GROUP_TOTAL_COUNT: "4"}},
            f"pods 'a' and 'c' has different '{Annotation.POD_GROUP_TOTAL_COUNT}' values: 3!=4",
        ),
    ],
    ids=["queue", "total count"],
)
def test_the_pods_of_a_group_must_agree(other: Raw, message: str) -> None:
    assert decided([*three()[:2], member("c", **other)]) == Problem("ErrWorkloadCompose", message)


COPIED = workload.Copied(labels=frozenset({"team", "app"}), annotations=frozenset({"note"}))


def test_the_workload_of_a_group_gets_copied_labels_from_whichever_pod_has_them() -> None:
    pods = [*three()[:2], member("c", labels={"team": "red"}, annotations={"note": "n"})]
    action = decided(pods, copied=COPIED)
    assert isinstance(action, CreateWorkload)
    assert action.manifest["metadata"]["labels"] == {"app": "x", "team": "red"}
    assert action.manifest["metadata"]["annotations"]["note"] == "n"


def test_pods_with_different_values_of_a_copied_label_get_no_workload() -> None:
    pods = [*three()[:1], member("b", labels={"team": "red"}), member("c", labels={"team": "blue"})]
    text = "pods 'b' and 'c' has different values of label 'team': red!=blue"
    assert decided(pods, copied=COPIED) == Problem("ErrWorkloadCompose", text)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, True),
        ({"ownerReferences": [{"kind": "Pod", "name": "a", "uid": "a"}]}, False),
        ({"finalizers": ["kueue.x-k8s.io/resource-in-use"]}, False),
        ({"annotations": {}}, False),
    ],
    ids=["by a user", "a pod owns it", "by Seiretsu", "not of a group"],
)
def test_a_workload_of_a_group_may_be_created_before_its_pods(metadata: Raw, expected: bool) -> None:
    base: Raw = {"name": GROUP, "annotations": {Annotation.IS_GROUP_WORKLOAD: "true"}}
    assert created_before_its_pods({"metadata": base | metadata}) is expected


def test_excess_pods_lose_their_finalizer_and_are_deleted_the_newest_first() -> None:
    pods = [*three(), member("d")]
    for workloads in ((), (workload_of(*three()),)):
        action = decided(pods, *workloads)
        assert isinstance(action, RemoveJobFinalizer)
        assert [each["metadata"]["name"] for each in action.excess] == ["d"]
        assert of(action) == ["d", "d"]
        assert [type(each) for each in action.steps] == [Patch, Delete]


def test_pods_that_wait_are_in_excess_before_those_that_run() -> None:
    pods = [member("a", "driver", gated=False), member("b"), member("c", gated=False), member("d", gated=False)]
    (excess,) = sort_out(group(*pods), workload_of(*three())["spec"]["podSets"]).excess
    assert excess["metadata"]["name"] == "b"


def test_the_gates_of_a_group_that_serves_are_left_to_the_owner_of_its_pods() -> None:
    pods = [member(each, annotations={Annotation.POD_GROUP_SERVING: "true"}) for each in "abc"]
    raw = workload_of(*pods)
    raw["metadata"]["annotations"][Annotation.ADMISSION_GATED_BY] = "a.b/c"
    assert not isinstance(decided(pods, raw), UpdateWorkload)


def test_an_admitted_group_starts_each_pod_with_the_nodes_of_its_role() -> None:
    pods = three()
    action = decided(pods, admitted(workload_of(*pods)))
    assert isinstance(action, Start)
    assert of(action) == ["a", "b", "c"]
    for found, write in zip(pods, action.steps, strict=True):
        assert isinstance(write, Patch)
        started = merged(found, write.body)
        assert GATE not in started["spec"]["schedulingGates"]
        assert started["spec"]["nodeSelector"] == {"kind": "spot"}
        assert started["metadata"]["labels"][Label.POD_SET] == found["metadata"]["annotations"][Annotation.ROLE_HASH]


def test_a_group_in_which_a_pod_has_succeeded_is_not_started_again_and_frees_its_quota() -> None:
    raw = admitted(workload_of(*three()))
    pods = [*three(gated=False)[:2], member("c", gated=False, phase="Succeeded")]
    action = decided(pods, raw)
    assert isinstance(action, UpdateWorkloadStatus)
    assert action.after.reclaimable == {WORKER: 1}
    assert decided(pods, after(raw, lambda value: action.after)) == Wait()


def test_a_failed_pod_keeps_its_finalizer_until_another_of_its_role_is_there() -> None:
    raw = admitted(workload_of(*three()))
    pods = [*three(gated=False)[:2], member("c", gated=False, phase="Failed")]
    waits = decided(pods, raw)
    assert isinstance(waits, UpdateWorkloadStatus)
    found = waits.after.condition(Condition.WAITING_FOR_REPLACEMENT_PODS)
    assert found is not None
    assert (found.status, found.reason, found.message) == (True, "PodsFailed", "Some Failed pods need replacement")
    replaced = [*pods, member("d")]
    raw = after(raw, lambda value: waits.after)
    owned = decided(replaced, raw)
    assert isinstance(owned, UpdateWorkload)
    assert [each.message for each in owned.target_events] == ["Added 1 owner reference(s)"]
    raw = merged(raw, {"metadata": {"ownerReferences": owned.body["metadata"]["ownerReferences"]}})
    released = decided(replaced, raw)
    assert isinstance(released, RemoveJobFinalizer)
    assert (of(released), released.excess) == (["c"], ())
    replaced[2] = member("c", gated=False, phase="Failed", finalizers=[])
    complete = decided(replaced, raw)
    assert isinstance(complete, UpdateWorkloadStatus)
    assert facts(complete.after)[Condition.WAITING_FOR_REPLACEMENT_PODS] == "False/PodsReady"
    started = decided(replaced, after(raw, lambda value: complete.after))
    assert isinstance(started, Start)
    assert of(started) == ["d"]


def test_a_group_finishes_when_all_its_pods_have_succeeded() -> None:
    pods = [member(name, role, gated=False, phase="Succeeded") for name, role in zip("abc", ROLES, strict=True)]
    action = decided(pods, admitted(workload_of(*three())))
    assert isinstance(action, UpdateWorkloadStatus)
    assert facts(action.after)["Finished"] == "True/Succeeded"
    assert action.after.condition("Finished").message == "Pods succeeded: 3/3."  # type: ignore[union-attr]
    finished = after(admitted(workload_of(*three())), lambda value: action.after)
    released = decided(pods, finished)
    assert isinstance(released, RemoveJobFinalizer)
    assert of(released) == ["a", "b", "c"]


@pytest.mark.parametrize("unretriable", [True, False], ids=["unretriable", "retriable"])
def test_only_an_unretriable_group_finishes_with_failed_pods(unretriable: bool) -> None:
    mark = {Annotation.RETRIABLE_IN_GROUP: "false"} if unretriable else {}
    pods = [
        member("a", "driver", gated=False, phase="Succeeded"),
        member("b", gated=False, phase="Failed", annotations=mark),
        member("c", gated=False, phase="Failed"),
    ]
    outcome = POD_GROUP.finished(group(*pods))
    assert (outcome.message if outcome else "") == ("Pods succeeded: 1/3." if unretriable else "")


def test_a_group_whose_total_count_is_lowered_is_not_finished_while_pods_run() -> None:
    lower = {Annotation.POD_GROUP_TOTAL_COUNT: "1"}
    pods = [member("a", gated=False, phase="Succeeded", annotations=lower), member("b", gated=False, annotations=lower)]
    assert POD_GROUP.finished(group(*pods)) is None


def test_a_serving_group_never_finishes_and_keeps_all_its_quota() -> None:
    mark = {Annotation.POD_GROUP_SERVING: "true"}
    found = group(*(member(name, gated=False, phase="Succeeded", annotations=mark) for name in "abc"))
    assert POD_GROUP.finished(found) is None
    assert POD_GROUP.reclaimable(found) == {}


def test_an_evicted_group_is_deleted_and_waits_for_replacements_with_its_workload() -> None:
    raw = evicted(admitted(workload_of(*three())), "Preempted", "Preempted to accommodate a workload")
    pods = three(gated=False)
    action = decided(pods, raw)
    assert isinstance(action, Stop)
    assert of(action) == ["a", "a", "b", "b", "c", "c"]
    marked = {"type": "TerminationTarget", "status": "True"}
    status = {"phase": "Running", "conditions": [marked]}
    ending = [merged(each, {"metadata": {"deletionTimestamp": LATER}, "status": status}) for each in pods]
    assert decided(ending, raw) == Wait()
    assert POD_GROUP.settles_in(group(*ending)) == 20.0
    over = [merged(each, {"metadata": {"deletionTimestamp": GONE}}) for each in ending]
    waits = decided(over, raw)
    assert isinstance(waits, UpdateWorkloadStatus)
    assert facts(waits.after)[Condition.WAITING_FOR_REPLACEMENT_PODS] == "True/Preempted"
    raw = after(raw, lambda value: waits.after)
    freed = decided(over, raw)
    assert isinstance(freed, UpdateWorkloadStatus)
    assert facts(freed.after)["QuotaReserved"].startswith("False/")
    assert decided(over, after(raw, lambda value: freed.after)) == Wait()


@pytest.mark.parametrize(("longest", "active"), [(30.0, True), (10.0, False)], ids=["within the limit", "beyond it"])
def test_pods_that_terminate_count_no_longer_than_the_operator_allows(longest: float, active: bool) -> None:
    grace = {"deletionTimestamp": "1970-01-02T00:16:20Z", "deletionGracePeriodSeconds": 86400}
    pods = [merged(each, {"metadata": grace}) for each in three(gated=False)]
    raw = workload_of(*three())
    job = POD_GROUP.beside(group(*pods), raw, read(raw), RequestRules(), longest)
    assert POD_GROUP.active(job) == active
    assert POD_GROUP.settles_in(job) == (10.0 if active else None)


OF_A_SET: Raw = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "uid": "set-uid", "controller": True}


@pytest.mark.parametrize(
    ("set_owns", "sidecar", "runs"),
    [(True, "100m", True), (True, "2", False), (False, "100m", False)],
    ids=["a mesh adds a container", "more than a mesh adds", "to a group that counted its pods as they are"],
)
def test_what_others_add_to_the_pods_of_a_set_takes_no_place_from_them(
    set_owns: bool, sidecar: str, runs: bool
) -> None:
    raw = admitted(workload_of(*three()))
    mine = {"ownerReferences": [OF_A_SET]} if set_owns else {}
    raw["metadata"] |= mine
    pods = [merged(each, {"metadata": mine}) for each in three()]
    for each in pods:
        each["spec"]["containers"].append({"name": "proxy", "resources": {"requests": {"cpu": sidecar}}})
    job = POD_GROUP.beside(group(*pods), raw, read(raw), RequestRules(), injected={"cpu": 500})
    found = sort_out(job, raw["spec"]["podSets"])
    assert (len(found.kept), len(found.uncounted)) == ((3, 0) if runs else (0, 3))


@pytest.mark.parametrize("gated", [True, False], ids=["that waits", "whose pods have ended"])
def test_a_group_that_a_user_deletes_is_let_go_with_its_workload(gated: bool) -> None:
    pods = [merged(each, {"metadata": {"deletionTimestamp": GONE}}) for each in three(gated=gated)]
    raw = workload_of(*three())
    action = decided(pods, raw)
    assert isinstance(action, RemoveJobFinalizer)
    assert of(action) == ["a", "b", "c"]
    free = [merged(each, {"metadata": {"finalizers": None}}) for each in pods]
    assert isinstance(decided(free, raw), RemoveFinalizer)


def test_a_workload_of_another_owner_with_the_name_of_the_group_is_never_taken() -> None:
    other = {"metadata": {"name": GROUP, "namespace": "ns", "uid": "other"}, "spec": {"podSets": []}}
    action = decided(three(), prebuilt=other)
    assert action == Problem(
        "WorkloadNameConflict",
        'A Workload named "group" already exists but is not a pod group workload; this pod group cannot be admitted',
    )


def test_a_group_with_a_prebuilt_workload_waits_for_its_owner_to_create_it() -> None:
    prebuilt = {Annotation.PREBUILT_WORKLOAD: GROUP}
    assert decided([member(name, annotations=prebuilt) for name in "abc"]) == Wait()


def test_pods_that_were_stopped_are_released_when_their_prebuilt_workload_is_gone() -> None:
    stopped = {"status": {"conditions": [{"type": "TerminationTarget", "status": "True"}]}}
    prebuilt = {Annotation.PREBUILT_WORKLOAD: GROUP}
    pods = [member(name, gated=False, phase="Failed", annotations=prebuilt, deletionTimestamp=GONE) for name in "abc"]
    action = decided([merged(each, stopped) for each in pods])
    assert isinstance(action, RemoveJobFinalizer)
    assert of(action) == ["a", "b", "c"]


def test_a_role_that_has_enough_pods_does_not_take_the_place_of_another_role() -> None:
    action = decided([member("a", "driver"), member("b", "driver"), member("c", "worker")], workload_of(*three()))
    assert isinstance(action, RemoveJobFinalizer)
    assert [each["metadata"]["name"] for each in action.excess] == ["b"]


def test_the_pods_of_a_deleted_group_workload_are_deleted_without_finalizers() -> None:
    raw = workload_of(*three())
    raw["metadata"]["deletionTimestamp"] = GONE
    action = decided(three(), raw)
    assert isinstance(action, Stop)
    assert [type(each) for each in action.steps].count(Delete) == 3
    assert sum("finalizers" in each.body["metadata"] for each in action.steps if isinstance(each, Patch)) == 3
    for name in "abc":  # a patch that names a version is not behind a write that changes it
        steps = [each for each in action.steps if not isinstance(each, Create)]
        mine = [each for each in steps if each.target is not None and each.target.key.name == name]
        guarded = ["resourceVersion" in each.body["metadata"] for each in mine if isinstance(each, Patch)]
        assert guarded == [True, False]


@pytest.mark.parametrize("phase", ["Running", "Pending"], ids=["runs", "runs its init containers"])
def test_the_workload_of_a_group_keeps_its_quota_while_a_pod_is_in_its_grace_period(phase: str) -> None:
    raw = admitted(workload_of(*three()))
    raw["metadata"]["deletionTimestamp"] = GONE
    stopped = [member(name, role, gated=False, phase=phase) for name, role in zip("abc", ROLES, strict=True)]
    ending = [merged(each, {"metadata": {"deletionTimestamp": LATER, "finalizers": None}}) for each in stopped]
    assert decided(ending, raw) == Wait()
    over = [merged(each, {"metadata": {"deletionTimestamp": GONE}}) for each in ending]
    assert isinstance(decided(over, raw), RemoveFinalizer)


@pytest.mark.parametrize(
    ("check", "ran", "released"),
    [("mk", True, False), ("mk", False, True), ("other", True, True)],
    ids=["that ran in another cluster", "that never ran", "that ran here"],
)
def test_the_quota_of_an_evicted_group_of_a_set_is_released_here(check: str, ran: bool, released: bool) -> None:
    """Not of one that ran in another cluster: its pods here never ran, so they do not show when it has ended."""
    serving = {Annotation.POD_GROUP_SERVING: "true"}
    pods = [member(name, annotations=serving, finalizers=[]) for name in "abc"]
    raw = workload_of(*pods)
    raw["metadata"]["annotations"][Annotation.JOB_OWNER_GVK] = "apps/v1, Kind=StatefulSet"
    raw = merged(admitted(raw), {"status": {"admissionChecks": [{"name": check, "state": "Ready", "message": ""}]}})
    kinds = raw["status"]["conditions"]
    raw["status"]["conditions"] = [each for each in kinds if ran or each["type"] != Condition.ADMITTED]
    raw = evicted(raw, "Preempted", "Preempted to accommodate a workload")
    found = decided(pods, raw, worker_checks=("mk",))
    assert isinstance(found, UpdateWorkloadStatus if released else Wait)


def test_pods_of_a_serving_group_without_quota_wait_and_are_not_deleted() -> None:
    serving = {Annotation.POD_GROUP_SERVING: "true", Annotation.POD_GROUP_FAST_ADMISSION: "true"}
    pods = [member(name, gated=False, annotations=serving, finalizers=[]) for name in "abc"]
    raw = admitted(workload_of(*pods))
    more = [member(name, annotations=serving, finalizers=[]) for name in "de"]
    assert isinstance(decided([*pods, *more], raw), Wait)
    raw["metadata"]["ownerReferences"] += [owner_reference(each) for each in more]
    assert of(decided([*pods[:2], *more], raw)) == ["d"], "as many as have quota"


def owned(raw: Raw, *pods: Raw) -> Raw:
    """The Workload with these pods as owners, too."""
    references = [*raw["metadata"]["ownerReferences"], *map(owner_reference, pods)]
    return merged(raw, {"metadata": {"ownerReferences": references}})


def test_pods_that_give_themselves_one_role_get_a_pod_set_for_each_shape() -> None:
    same = {Annotation.ROLE_HASH: "same"}
    action = decided([member(name, cpu=cpu, annotations=same) for name, cpu in (("a", "10m"), ("b", "8"), ("c", "8"))])
    assert isinstance(action, CreateWorkload)
    found = action.manifest["spec"]["podSets"]
    assert sorted((each["count"], each["template"]["spec"]["containers"]) for each in found) == [
        (1, containers("10m")),
        (2, containers("8")),
    ]


@pytest.mark.parametrize("fast", [False, True], ids=["group", "fast admission"])
def test_a_pod_that_asks_for_more_than_its_role_was_counted_with_never_starts(fast: bool) -> None:
    mark = {Annotation.POD_GROUP_FAST_ADMISSION: "true"} if fast else {}
    small = [member(name, cpu="10m", annotations=mark) for name in "abc"]
    role = role_hash({"containers": containers("10m")})
    liar = member("d", cpu="8", annotations={**mark, Annotation.ROLE_HASH: role}, labels={Label.POD_SET: role})
    raw = owned(admitted(workload_of(*(small[:1] if fast else small))), *small)
    started = decided([small[0], small[1], liar], raw)
    if isinstance(started, UpdateWorkloadStatus):  # a replacement is missing
        raw = after(raw, lambda value: started.after)
        started = decided([small[0], small[1], liar], raw)
    assert isinstance(started, Start)
    assert of(started) == ["a", "b"]
    run = [member(name, cpu="10m", gated=False, annotations=mark) for name in "ab"]
    told = decided([*run, liar], raw)
    assert told == Problem(
        "ErrWorkloadCompose",
        f"pod 'd' asks for cpu 8, the Workload counted 10m for each pod of role {role}: it does not start; delete it,"
        " or the Workload and create the group again",
        liar,
    )


@pytest.mark.parametrize("serving", [False, True], ids=["group", "serving"])
def test_a_pod_that_runs_and_asks_for_more_than_was_counted_is_stopped(serving: bool) -> None:
    mark = {Annotation.POD_GROUP_SERVING: "true"} if serving else {}
    pods = [member(name, role, gated=False, annotations=mark) for name, role in zip("abc", ROLES, strict=True)]
    raw = admitted(workload_of(*pods))
    pods[2] = member("c", gated=False, cpu="4", annotations=mark)
    action = decided(pods, raw)
    assert isinstance(action, RemoveJobFinalizer)
    assert [each["metadata"]["name"] for each in action.excess] == ["c"]
    assert any(isinstance(each, Delete) for each in action.steps)


def test_a_running_pod_that_changes_its_role_keeps_its_place_or_is_stopped() -> None:
    pods, raw = three(gated=False), admitted(workload_of(*three()))
    renamed = merged(pods[1], {"metadata": {"annotations": {Annotation.ROLE_HASH: "zzz"}}})
    more = member("d")
    action = decided([pods[0], renamed, pods[2], more], owned(raw, more))
    assert isinstance(action, RemoveJobFinalizer)
    assert [each["metadata"]["name"] for each in action.excess] == ["d"], "the place is taken"
    hidden = merged(renamed, {"spec": {"nodeSelector": {"kind": "spot"}}})  # as a start leaves it: another shape
    action = decided([pods[0], hidden, pods[2], more], owned(raw, more))
    assert isinstance(action, RemoveJobFinalizer)
    assert [each["metadata"]["name"] for each in action.excess] == ["b"], "it has no place and runs"


def test_a_started_pod_is_known_by_the_role_that_it_was_created_with() -> None:
    pods = [merged(each, {"spec": {"nodeSelector": {"kind": "spot"}}}) for each in three(gated=False)]
    assert decided(pods, admitted(workload_of(*three()))) == Wait()


def test_a_place_whose_quota_was_given_back_is_not_taken_again() -> None:
    raw = admitted(workload_of(*three()))
    done = [*three(gated=False)[:2], member("c", gated=False, phase="Succeeded")]
    gave = decided(done, raw)
    assert isinstance(gave, UpdateWorkloadStatus)
    assert gave.after.reclaimable == {WORKER: 1}
    raw = after(raw, lambda value: gave.after)
    more = member("d")
    for pods in ([*done, more], [*done[:2], more]):  # the pod that succeeded is there, or was deleted
        action = decided(pods, owned(raw, more))
        assert isinstance(action, RemoveJobFinalizer)
        assert [each["metadata"]["name"] for each in action.excess] == ["d"]
    assert decided(done[:2], raw) == Wait(), "the quota is not reserved again"


@settings(max_examples=cases(50, 500))
@given(st.lists(st.tuples(st.sampled_from(["Succeeded", "Running", "gone"]), st.booleans()), max_size=6), st.randoms())
def test_never_more_pods_have_a_place_than_quota_is_reserved_for(changes: list[Any], chance: Random) -> None:
    """Whatever becomes of its pods, and however many others are created."""
    pods = three(gated=False)
    raw = owned(admitted(workload_of(*three())), *map(member, "defghi"))
    for place, (phase, added) in enumerate(changes):
        chosen = chance.randrange(len(pods)) if pods else 0
        if phase == "gone":
            del pods[chosen : chosen + 1]
        elif pods:
            pods[chosen] = merged(pods[chosen], {"status": {"phase": phase}})
        pods += [member("defghi"[place])] if added else []
        if not pods:
            return
        while isinstance(action := decided(pods, raw), UpdateWorkloadStatus):
            raw = after(raw, lambda value, action=action: action.after)
        started = set(of(action)) if isinstance(action, Start) else set()
        pods = [
            member(each["metadata"]["name"], gated=False) if each["metadata"]["name"] in started else each
            for each in pods
        ]
        value = read(raw)
        if value.holds(Condition.FINISHED):
            return
        using = sum(each["status"]["phase"] == "Running" for each in pods)
        assert using <= 3 - sum(value.reclaimable.values()) or isinstance(action, RemoveJobFinalizer)


def of_set(*pods: Raw, uid: str = "set-uid") -> Raw:
    """The Workload of these pods, which a StatefulSet owns."""
    raw = workload_of(*pods)
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": uid}
    return merged(raw, {"metadata": {"ownerReferences": [reference, *raw["metadata"]["ownerReferences"]]}})


def served(name: str, *, gated: bool = True, by: str = "set-uid") -> Raw:
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": by, "controller": True}
    return member(
        name,
        gated=gated,
        annotations={Annotation.POD_GROUP_SERVING: "true"},
        ownerReferences=[reference],
        finalizers=[],
    )


@pytest.mark.parametrize("queue", ["lq", ""], ids=["with a queue", "without a queue"])
@pytest.mark.parametrize("reference", [False, True], ids=["without owner", "with the reference of another set"])
def test_the_workload_of_a_stateful_set_is_not_taken_by_a_pod_that_names_it(queue: str, reference: bool) -> None:
    mine = [served(name) for name in "ab"]
    raw = admitted(of_set(*mine))
    foreign = served("x", by="other") if reference else member("x")
    foreign["metadata"]["labels"][Label.QUEUE_NAME] = queue
    action = decided([foreign], raw, prebuilt=raw, managed=bool(queue))
    if not queue:
        assert action == Wait()
        return
    assert isinstance(action, Problem)
    assert action.reason == "WorkloadNameConflict"
    assert action.message == (
        'Workload "group" is that of StatefulSet "s": pod "x" is not of it and does not start; give its group'
        " another name"
    )


def test_a_pod_that_joins_the_group_of_a_stateful_set_takes_no_place_and_is_told_so() -> None:
    mine, foreign = [served(name, gated=False) for name in "bc"], member("a")
    raw = admitted(of_set(*mine))
    told = decided([foreign, *mine], raw, prebuilt=raw)
    assert isinstance(told, Problem)
    assert (told.reason, told.about) == ("WorkloadNameConflict", foreign)
    runs = member("a", gated=False)
    stop = decided([runs, *mine], raw, prebuilt=raw)
    assert isinstance(stop, Stop)
    assert of(stop) == ["a", "a"], "marked and deleted"
