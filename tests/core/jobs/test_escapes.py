"""No job runs without quota, and no quota is given up while pods use it: the tricks of a tenant, as rules on values."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from core.actions import Wait
from core.jobs import workload
from core.jobs.actions import (
    AwaitPods,
    CreateWorkload,
    DeleteWorkload,
    RemoveFinalizer,
    Start,
    Stop,
    UpdateWorkload,
    UpdateWorkloadStatus,
)
from core.jobs.decide import decide, earlier, orphan
from core.jobs.kinds import BATCH_JOB
from core.jobs.release import remain
from core.model import Key, Raw
from core.wire.merge import merged
from core.workload import transitions
from core.workload.priority import PriorityClasses
from tests.core.jobs.samples import (
    NOW,
    admitted,
    after,
    evicted,
    facts,
    job,
    patches,
    read,
    situation,
    started,
    workload_of,
)

UID = "job-uid"
GONE = frozenset({UID})
AWAITS = AwaitPods(Key("ns", workload.name(BATCH_JOB, job())), UID)
CONTRADICTS = {"nodeSelector": {"kind": "other"}}


def failed(raw: Raw, message: str = "conflict") -> Raw:
    return after(raw, lambda value: transitions.finished(value, "FailedToStart", message, NOW))


def deleting(raw: Raw) -> Raw:
    return merged(raw, {"metadata": {"deletionTimestamp": "2024-11-01T00:00:00Z"}})


def orphaned(raw: Raw) -> Raw:
    """After ``--cascade=orphan``: the owner reference is gone."""
    return merged(raw, {"metadata": {"ownerReferences": None}})


def stopped(found: Raw, raw: Raw) -> Raw:
    """The job after what the rules do to it until something else than the job is to change."""
    while isinstance(action := decide(situation(found, raw)), Stop):
        for patch in patches(action.steps):
            found = merged(found, patch.body)
    return found


STATES: dict[str, Callable[[Raw], Raw]] = {
    "reserved": admitted,
    "evicted": evicted,
    "failed": failed,
    "deleting": deleting,
}


@pytest.mark.parametrize("steps", [each for n in range(4) for each in itertools.permutations(STATES, n)], ids="-".join)
def test_a_job_runs_only_with_a_workload_that_holds_quota_and_is_to_keep_it(steps: tuple[str, ...]) -> None:
    raw = workload_of(job())
    for step in steps:
        raw = STATES[step](raw)
    held = "reserved" in steps and not {"failed", "deleting"} & set(steps) and steps[-1] == "reserved"
    found = job(suspend=False, pod={"nodeSelector": {"kind": "spot"}})
    assert bool(stopped(found, raw)["spec"]["suspend"]) is not held


@pytest.mark.parametrize(
    "pod",
    [CONTRADICTS, {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"x": 1}}}}],
    ids=["another node selector", "another affinity"],
)
def test_a_waiting_job_that_wants_other_nodes_waits_for_those(pod: Raw) -> None:
    raw, changed = workload_of(job()), job(pod=pod)
    action = decide(situation(changed, raw))
    assert isinstance(action, UpdateWorkload)
    raw = merged(raw, action.body)
    assert decide(situation(changed, raw)) == Wait()
    assert raw["spec"]["podSets"][0]["template"]["spec"].items() >= pod.items()


def test_a_job_whose_quota_was_taken_from_outside_gets_its_own_node_selector_back() -> None:
    found, raw = job(pod={"nodeSelector": {"disk": "ssd"}}), workload_of(job(pod={"nodeSelector": {"disk": "ssd"}}))
    running = {**started(found, admitted(raw)), "status": {"active": 3}}
    left = stopped(running, raw)
    assert left["spec"]["suspend"]
    assert left["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd", "kind": "spot"}
    restored = stopped({**left, "status": {}}, raw)["spec"]["template"]
    assert restored["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert "annotations" not in restored["metadata"]


def test_a_job_that_could_not_start_stays_suspended_whatever_unsuspends_it() -> None:
    raw = failed(admitted(workload_of(job())), "nodeSelector contradicts")
    sly = job(suspend=False, pod=CONTRADICTS)
    stop = decide(situation(sly, raw))
    assert isinstance(stop, Stop)
    assert stop.message == "The job cannot run: its workload is finished: nodeSelector contradicts"
    waits = job(pod=CONTRADICTS)
    release = decide(situation(waits, raw))
    assert isinstance(release, RemoveFinalizer)
    assert decide(situation(waits, merged(raw, release.body))) == Wait()


def test_a_job_that_could_not_start_is_requeued_when_its_template_is_fixed() -> None:
    raw = failed(admitted(workload_of(job())))
    action = decide(situation(job(), raw))
    assert isinstance(action, DeleteWorkload)
    assert isinstance(decide(situation(job())), CreateWorkload)


def test_a_job_with_more_pods_that_was_suspended_in_the_same_write_is_stopped_to_the_end() -> None:
    raw = admitted(workload_of(job()))
    resized = merged(started(job(), raw), {"spec": {"parallelism": 40, "completions": 40, "suspend": True}})
    busy = {**resized, "status": {"active": 3}}
    assert decide(situation(busy, raw)) == Wait(), "its pods still use what the Workload holds"
    assert BATCH_JOB.stop(busy, raw["spec"]["podSets"]) == []
    idle = {**resized, "status": {}}
    restored = stopped(idle, raw)
    assert "nodeSelector" not in restored["spec"]["template"]["spec"]
    assert restored["spec"]["parallelism"] == 40
    assert isinstance(decide(situation(restored, raw)), DeleteWorkload)


@pytest.mark.parametrize("change", [deleting, orphaned, lambda raw: raw], ids=["deleted", "orphaned", "neither yet"])
def test_quota_of_a_deleted_job_is_held_until_its_pods_are_gone(change: Callable[[Raw], Raw]) -> None:
    raw = change(admitted(workload_of(job())))
    assert orphan(raw, read(raw), NOW, frozenset()) == AWAITS
    assert orphan(raw, read(raw), NOW, frozenset({"another"})) == AWAITS
    assert not isinstance(orphan(raw, read(raw), NOW, GONE), AwaitPods)


@pytest.mark.parametrize("raw", [workload_of(job()), failed(admitted(workload_of(job())))], ids=["waits", "finished"])
@pytest.mark.parametrize("change", [deleting, orphaned], ids=["deleted", "orphaned"])
def test_pods_are_not_listed_if_no_quota_is_held(change: Callable[[Raw], Raw], raw: Raw) -> None:
    changed = change(raw)
    assert not isinstance(orphan(changed, read(changed), NOW, frozenset()), AwaitPods)


def test_an_evicted_workload_whose_job_was_deleted_holds_its_quota_too() -> None:
    raw = orphaned(evicted(admitted(workload_of(job()))))
    assert orphan(raw, read(raw), NOW, frozenset()) == AWAITS


def test_the_message_about_remaining_pods_is_removed_when_they_are_gone() -> None:
    def remains(value: Any) -> Any:
        return transitions.condition(value, "PodsRemain", status=True, reason="JobDeleted", message="2", now=NOW)

    raw = orphaned(after(admitted(workload_of(job())), remains))
    action = orphan(raw, read(raw), NOW, GONE)
    assert isinstance(action, UpdateWorkloadStatus)
    assert facts(action.after)["PodsRemain"] == "False/PodsGone"
    assert facts(action.after)["Finished"] == "True/OwnerNotFound"


@pytest.mark.parametrize("dying", [True, False], ids=["deleted with it", "not yet"])
def test_a_job_that_is_being_deleted_lets_its_workload_go_when_its_pods_are_gone_and_not_before(dying: bool) -> None:
    raw = admitted(workload_of(job()))
    raw, found = (deleting(raw) if dying else raw), deleting(started(job(), raw))
    assert decide(situation(found, raw)) == AWAITS
    release = decide(situation(found, raw, pods_gone=GONE))
    assert isinstance(release, RemoveFinalizer)
    assert decide(situation(found, merged(raw, release.body))) == Wait(), "and nobody asks again"
    assert isinstance(decide(situation(found, workload_of(job()))), RemoveFinalizer), "at once where it holds no quota"


def test_a_new_job_of_the_name_does_not_wait_for_the_pods_of_the_old_one_whose_quota_is_held() -> None:
    old = admitted(workload_of(job()))
    new = copy.deepcopy(job())
    new["metadata"]["uid"] = "new-uid"
    assert isinstance(decide(situation(new, old)), CreateWorkload)
    assert earlier(situation(new, old)) == [AWAITS]
    assert earlier(situation(new, old, pods_gone=GONE)) == []
    assert isinstance(decide(situation(new, old, pods_gone=GONE)), DeleteWorkload)


def another(**spec: Any) -> Raw:
    """A Job of the same name that was created after the other was deleted."""
    return merged(job(**spec), {"metadata": {"uid": "new-uid"}})


@pytest.mark.parametrize("dying", [False, True], ids=["finished", "deleted"])
def test_the_workload_of_an_earlier_job_is_released_although_the_one_of_its_name_is_not_managed(dying: bool) -> None:
    old = admitted(workload_of(job()))
    old, new = (deleting(old) if dying else old), another(suspend=False)
    assert decide(situation(new, old, managed=False)) == Wait(), "its pods use the quota"
    release = decide(situation(new, old, managed=False, pods_gone=GONE))
    assert isinstance(release, RemoveFinalizer if dying else UpdateWorkloadStatus)


def test_a_job_below_another_one_leaves_the_quota_of_an_earlier_job_to_its_pods() -> None:
    old, new = admitted(workload_of(job())), another()
    assert decide(situation(new, old, ancestor_admitted=False)) == Wait()
    assert isinstance(decide(situation(new, old, ancestor_admitted=False, pods_gone=GONE)), DeleteWorkload)


def test_a_job_that_runs_below_another_one_releases_the_quota_of_an_earlier_job_when_its_pods_are_gone() -> None:
    """Nobody else does: it would be held as long as this job runs, and could not be preempted."""
    old, new = admitted(workload_of(job())), another(suspend=False)
    assert decide(situation(new, old, ancestor_admitted=True)) == Wait()
    action = decide(situation(new, old, ancestor_admitted=True, pods_gone=GONE))
    assert isinstance(action, UpdateWorkloadStatus)
    assert action.why == "finish"


def test_pods_of_a_job_with_a_custom_selector_are_found_by_uid_too() -> None:
    found = job(manualSelector=True)
    found["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = "forged"
    action = decide(situation(found, admitted(workload_of(found))))
    assert isinstance(action, Start)
    running = merged(found, patches(action.steps)[-1].body)
    assert running["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] == UID
    assert decide(situation(running, admitted(workload_of(found)))) == Wait()


def test_the_sentence_about_remaining_pods_names_some_of_them_and_the_command() -> None:
    assert remain(AWAITS, ["c", "a", "b", "d"]) == (
        "The job was deleted, but 4 of its pods still run (a, b, c, ...): the quota is held until no pod is left."
        " To delete them: kubectl delete pods -n ns -l batch.kubernetes.io/controller-uid=job-uid"
    )
    assert "1 of its pods still runs (a)" in remain(AWAITS, ["a"])
    assert "more than 4 of its pods still run (a, b, c, ...)" in remain(AWAITS, ["c", "a", "b", "d"], more=True)


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
@pytest.mark.parametrize(
    ("namespaces", "priority"),
    [({"kube-system"}, 5), ({"ns"}, 2_000_000_000), ({"*"}, 2_000_000_000), (set(), 5)],
    ids=["by default", "in this namespace", "as in Kueue", "nowhere"],
)
def test_a_class_of_the_system_outranks_nobody_where_it_does_not_count(
    name: str, namespaces: set[str], priority: int
) -> None:
    """Every user can name these classes, and their values are above those of all others."""
    pod = {name: 2_000_000_000, "usual": 5}
    classes = PriorityClasses(pod=pod, default="usual", system_namespaces=frozenset(namespaces))
    action = decide(situation(job(pod={"priorityClassName": name}), classes=classes))
    assert isinstance(action, CreateWorkload)
    assert action.manifest["spec"]["priority"] == priority
