"""What is done about a Job: each test is a situation people know, and the one action it calls for."""

from dataclasses import replace

import pytest

from api import structural, validate
from api.names import MULTIKUEUE_CONTROLLER
from api.objects import key_of
from api.resources import WORKLOADS
from core.actions import Delete, Patch, Target, Wait
from core.jobs import workload
from core.jobs.actions import (
    CreateWorkload,
    DeleteWorkload,
    Problem,
    RemoveFinalizer,
    Start,
    Stop,
    UpdateWorkload,
    UpdateWorkloadStatus,
)
from core.jobs.decide import decide, orphan
from core.jobs.kinds import BATCH_JOB
from core.model import Admission, PodSetAssignment, Raw
from core.model.events import deleted_job
from core.wire import decode
from core.wire.merge import merged
from core.workload import transitions
from core.workload.actions import LifePolicy
from tests.core.jobs.samples import (
    CLASSES,
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
    with_status,
    workload_of,
)

CONTEXT = decode.WorkloadContext()
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


def test_a_job_without_workload_gets_one() -> None:
    action = decide(situation(job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "60"})))
    assert isinstance(action, CreateWorkload)
    manifest = action.manifest
    assert manifest["metadata"] == {
        "name": workload.name(BATCH_JOB, job()),
        "namespace": "ns",
        "labels": {"kueue.x-k8s.io/job-uid": "job-uid"},
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "j",
                "uid": "job-uid",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert {key: value for key, value in manifest["spec"].items() if key != "podSets"} == {
        "queueName": "lq",
        "maximumExecutionTimeSeconds": 60,
        "priority": 0,
    }


WITHOUT_QUEUE = {"kueue.x-k8s.io/queue-name": ""}


def test_a_job_without_queue_name_has_a_workload_without_queue_name_until_it_is_given_one() -> None:
    """Under manageJobsWithoutQueueName. Whatever is written is valid by the schema of the CRD."""
    nameless, named = job(labels=WITHOUT_QUEUE), job()
    created = decide(situation(nameless))
    assert isinstance(created, CreateWorkload)
    assert "queueName" not in created.manifest["spec"]
    waits = workload_of(nameless)
    assert decide(situation(nameless, waits)) == Wait()

    given = decide(situation(named, waits))
    assert isinstance(given, UpdateWorkload)
    taken = decide(situation(nameless, workload_of(named)))
    assert isinstance(taken, UpdateWorkload)
    resized = decide(situation(job(labels=WITHOUT_QUEUE, parallelism=2), workload_of(named)))
    assert isinstance(resized, UpdateWorkload) and resized.why == "matching"
    written = [
        created.manifest,
        merged(waits, given.body),
        merged(workload_of(named), taken.body),
        merged(workload_of(named), resized.body),
    ]
    assert [each["spec"].get("queueName") for each in written] == [None, "lq", None, None]
    schema = validate.schema_of("Workload") or {}
    assert [structural.violations(schema, each) for each in written] == [[], [], [], []]


def test_a_new_workload_has_the_priority_of_the_class() -> None:
    action = decide(situation(job(labels={PRIORITY_LABEL: "high"})))
    assert isinstance(action, CreateWorkload)
    assert action.manifest["spec"]["priority"] == 100
    assert action.manifest["spec"]["priorityClassRef"]["name"] == "high"
    action = decide(situation(job(pod={"priorityClassName": "pods"})))
    assert isinstance(action, CreateWorkload)
    assert action.manifest["spec"]["priority"] == 7
    assert action.manifest["spec"]["priorityClassRef"]["group"] == "scheduling.k8s.io"


def test_a_priority_class_that_does_not_exist_is_reported() -> None:
    assert decide(situation(job(labels={PRIORITY_LABEL: "hihg"}))) == Problem(
        "WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "hihg" not found'
    )


def test_a_job_that_is_not_managed_is_not_changed_even_if_it_runs() -> None:
    assert decide(situation(job(suspend=False), managed=False)) == Wait()


def test_a_job_that_is_taken_out_of_its_queue_takes_no_quota_any_more() -> None:
    queued = job()
    waits = workload_of(queued)
    withdrawn = {**queued, "metadata": {**queued["metadata"], "labels": {}}}
    for raw in (waits, admitted(waits)):
        action = decide(situation(withdrawn, raw, managed=False))
        assert isinstance(action, DeleteWorkload)
        assert [type(each) for each in action.steps] == [Patch, Delete]
    going = merged(withdrawn, {"status": {"active": 3}})
    assert decide(situation(going, admitted(waits), managed=False)) == Wait(), "its pods still use the quota"
    placed = merged(withdrawn, {"spec": {"template": {"spec": {"nodeSelector": {"pool": "fast"}}}}})
    restored = decide(situation(placed, admitted(waits), managed=False))
    assert isinstance(restored, Stop), "its template is put back as long as the Workload knows it"
    runs = merged(withdrawn, {"spec": {"suspend": False}})
    assert decide(situation(runs, admitted(waits), managed=False)) == Wait(), "what runs keeps its quota to its end"
    brings = merged(withdrawn, {"metadata": {"annotations": {PREBUILT: waits["metadata"]["name"]}}})
    assert decide(situation(brings, waits, managed=False)) == Wait(), "it is not ours"
    assert decide(situation(queued, waits, managed=False)) == Wait(), "its namespace is not managed for a while"


def test_a_job_that_is_changed_while_it_runs_in_another_cluster_is_stopped_there() -> None:
    """Else its pods would run on there, and the job here would wait for their end."""
    before, changed = job(), job(parallelism=5, completions=5, status={"active": 3})
    raw = admitted(workload_of(before))
    assert decide(situation(changed, raw)) == Wait(), "its pods here end by themselves"
    elsewhere = merged(raw, {"status": {"clusterName": "worker"}})
    action = decide(situation(changed, elsewhere))
    assert isinstance(action, UpdateWorkloadStatus)
    assert facts(action.after)["Evicted"] == "True/NoMatchingWorkload"
    assert facts(action.after)["QuotaReserved"] == "True/QuotaReserved"
    going = with_status(elsewhere, read(elsewhere), action.after)
    changed = merged(changed, {"spec": {"managedBy": MULTIKUEUE_CONTROLLER}})
    assert decide(situation(changed, going)) == Wait(), "until its pods there are gone"
    assert isinstance(decide(situation(merged(changed, {"status": {"active": 0}}), going)), DeleteWorkload)


def test_a_running_job_without_workload_is_suspended_first() -> None:
    action = decide(situation(job(suspend=False)))
    assert isinstance(action, Stop)
    assert (action.reason, action.was_running) == ("NoMatchingWorkload", True)
    assert action.message == "Missing Workload; unable to restore pod templates"


def test_a_workload_is_made_only_when_the_pods_of_before_are_gone() -> None:
    assert decide(situation(job(status={"active": 2}))) == Wait()


def test_a_job_starts_when_its_workload_is_admitted() -> None:
    action = decide(situation(job(), admitted(workload_of(job()))))
    assert isinstance(action, Start)
    assert action.cluster_queue == "cq"
    (patch,) = patches(action.steps)
    name = workload.name(BATCH_JOB, job())
    assert patch.body["spec"] == {
        "suspend": False,
        "template": {
            "metadata": {
                "labels": {
                    "kueue.x-k8s.io/cluster-queue-name": "cq",
                    "kueue.x-k8s.io/local-queue-name": "lq",
                    "kueue.x-k8s.io/podset": "main",
                },
                "annotations": {"kueue.x-k8s.io/workload": name},
            },
            "spec": {
                "nodeSelector": {"kind": "spot"},
                "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
            },
        },
    }


def test_a_running_admitted_job_is_as_it_should_be() -> None:
    raw = admitted(workload_of(job()))
    assert decide(situation(started(job(), raw), raw)) == Wait()


def test_a_job_waits_while_its_workload_does() -> None:
    assert decide(situation(job(), workload_of(job()))) == Wait()


def test_a_flavor_that_is_missing_at_the_start_is_reported_and_the_job_waits() -> None:
    action = decide(situation(job(), admitted(workload_of(job())), flavors={}))
    assert action == Problem("ErrWorkloadCompose", 'ResourceFlavor "spot" not found')


def test_a_selector_that_contradicts_the_flavor_fails_the_workload() -> None:
    found = job(pod={"nodeSelector": {"kind": "gpu"}})
    action = decide(situation(found, admitted(workload_of(found))))
    assert isinstance(action, UpdateWorkloadStatus)
    assert facts(action.after)["Finished"] == "True/FailedToStart"


def test_a_job_unsuspended_without_admission_is_suspended_again() -> None:
    action = decide(situation(job(suspend=False), workload_of(job())))
    assert isinstance(action, Stop)
    assert action.message == "Not admitted by cluster queue"


def test_an_evicted_job_is_stopped_then_gives_its_quota_back_when_its_pods_are_gone() -> None:
    raw = admitted(workload_of(job()))
    running = started(job(), raw)
    gone = evicted(raw)
    stop = decide(situation(running, gone))
    assert isinstance(stop, Stop)
    assert stop.message == "The ClusterQueue is stopped"
    stopped = running
    for patch in patches(stop.steps):
        stopped = merged(stopped, patch.body)
    assert decide(situation({**stopped, "status": {"active": 1}}, gone)) == Wait()
    release = decide(situation(stopped, gone))
    assert isinstance(release, UpdateWorkloadStatus)
    assert release.why == "release"
    assert release.body["status"]["admission"] is None
    assert facts(release.after) == {
        "QuotaReserved": "False/PendingEvaluation",
        "Admitted": "False/NoReservation",
        "Evicted": "True/ClusterQueueStopped",
        "Requeued": "False/ClusterQueueStopped",
    }
    assert decide(situation(stopped, merged(gone, release.body))) == Wait()


def test_a_partially_admitted_job_still_has_its_workload_and_gets_its_parallelism_back() -> None:
    found = job(annotations={"kueue.x-k8s.io/job-min-parallelism": "1"})
    raw = admitted(workload_of(found), Admission("cq", (PodSetAssignment("main", {"cpu": "spot"}, {"cpu": 2000}, 2),)))
    running = started(found, raw)
    assert running["spec"]["parallelism"] == 2
    assert decide(situation(running, raw)) == Wait()
    stop = decide(situation(running, evicted(raw)))
    assert isinstance(stop, Stop)
    assert patches(stop.steps)[-1].body["spec"]["parallelism"] == 3


@pytest.mark.parametrize(
    "flavors",
    [{}, {"spot": {"metadata": {"name": "spot"}, "spec": {"nodeLabels": {"kind": "other"}}}}],
    ids=["gone", "changed"],
)
def test_a_job_runs_on_when_its_flavor_is_gone_or_changed(flavors: dict[str, Raw]) -> None:
    found = job(annotations={"kueue.x-k8s.io/job-min-parallelism": "1"}, pod={"nodeSelector": {"kind": "spot"}})
    raw = admitted(workload_of(found), Admission("cq", (PodSetAssignment("main", {"cpu": "spot"}, {"cpu": 2000}, 2),)))
    running = started(found, raw)
    assert decide(situation(running, raw, flavors=flavors)) == Wait()
    stop = decide(situation(running, evicted(raw), flavors=flavors))
    assert isinstance(stop, Stop)
    assert patches(stop.steps)[-1].body["spec"]["parallelism"] == 3


def test_a_suspended_job_that_changes_has_its_workload_changed() -> None:
    raw = workload_of(job())
    action = decide(situation(job(parallelism=2), raw))
    assert isinstance(action, UpdateWorkload)
    assert action.why == "matching"
    changed = merged(raw, action.body)
    assert changed["spec"]["podSets"][0]["count"] == 2
    assert decide(situation(job(parallelism=2), changed)) == Wait()


def test_a_running_job_that_changes_is_stopped_and_its_workload_deleted() -> None:
    raw = admitted(workload_of(job()))
    running = started(job(), raw)
    running["spec"]["parallelism"] = 2
    stop = decide(situation(running, raw))
    assert isinstance(stop, Stop)
    assert stop.message == "No matching Workload; restoring pod templates according to existent Workload"
    for patch in patches(stop.steps):
        running = merged(running, patch.body)
    running["spec"]["parallelism"] = 2
    action = decide(situation(running, raw))
    assert isinstance(action, DeleteWorkload)
    assert [type(each) for each in action.steps] == [Patch, Delete]
    assert action.steps[-1] == Delete("wl-uid", Target(WORKLOADS, action.workload))


def test_quantities_that_mean_the_same_are_no_change() -> None:
    found = job()
    found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000m"
    assert decide(situation(found, workload_of(job()))) == Wait()


def test_the_workload_of_an_earlier_job_of_that_name_is_deleted() -> None:
    raw = workload_of(job())
    raw["metadata"]["ownerReferences"][0]["uid"] = "earlier"
    assert isinstance(decide(situation(job(), raw)), DeleteWorkload)


def test_of_two_matching_workloads_the_second_is_deleted() -> None:
    second = workload_of(job())
    second["metadata"] |= {"name": "second", "uid": "second-uid"}
    action = decide(situation(job(), workload_of(job()), second))
    assert isinstance(action, DeleteWorkload)
    assert action.steps[-1] == Delete("second-uid", Target(WORKLOADS, action.workload))


def test_of_two_matching_workloads_the_one_that_holds_quota_stays_whichever_came_first() -> None:
    second = workload_of(job())
    second["metadata"] |= {"name": "second", "uid": "second-uid"}
    holding = admitted(workload_of(job()))
    action = decide(situation(started(job(), holding), second, holding))
    assert isinstance(action, DeleteWorkload)
    assert action.steps[-1] == Delete("second-uid", Target(WORKLOADS, action.workload))


def test_a_waiting_job_may_change_its_queue() -> None:
    action = decide(situation(job(labels={"kueue.x-k8s.io/queue-name": "other"}), workload_of(job())))
    assert isinstance(action, UpdateWorkload)
    assert (action.why, action.body["spec"]) == ("queue", {"queueName": "other"})


def test_a_finished_job_finishes_its_workload_and_then_nothing_holds_it() -> None:
    raw = admitted(workload_of(job()))
    done = started(job(), raw)
    done["status"] = {"conditions": [{"type": "Complete", "status": "True", "message": "all done"}]}
    action = decide(situation(done, raw))
    assert isinstance(action, UpdateWorkloadStatus)
    assert facts(action.after)["Finished"] == "True/Succeeded"
    raw = merged(raw, action.body)
    release = decide(situation(done, raw))
    assert isinstance(release, RemoveFinalizer)
    assert decide(situation(done, merged(raw, release.body))) == Wait()


def test_a_deleted_workload_stops_its_job_and_goes() -> None:
    raw = admitted(workload_of(job()))
    running = started(job(), raw)
    raw["metadata"]["deletionTimestamp"] = "2024-11-01T00:00:00Z"
    stop = decide(situation(running, raw))
    assert isinstance(stop, Stop)
    assert stop.message == "Workload is deleted"
    for patch in patches(stop.steps):
        running = merged(running, patch.body)
    assert isinstance(decide(situation(running, raw)), RemoveFinalizer)


def test_a_deleted_job_releases_its_workload() -> None:
    raw = workload_of(job())
    raw["metadata"]["deletionTimestamp"] = "2024-11-01T00:00:00Z"
    found = job()
    found["metadata"]["deletionTimestamp"] = "2024-11-01T00:00:00Z"
    assert isinstance(decide(situation(found, raw)), RemoveFinalizer)


def test_a_workload_whose_job_is_gone_is_finished() -> None:
    raw = workload_of(job())
    action = orphan(raw, read(raw), NOW, frozenset())
    assert isinstance(action, UpdateWorkloadStatus)
    assert facts(action.after) == {"Finished": "True/OwnerNotFound"}


def test_without_its_gate_a_workload_whose_job_is_gone_only_loses_its_finalizer() -> None:
    raw = workload_of(job())
    action = orphan(raw, read(raw), NOW, frozenset(), LifePolicy(finishes_orphans=False))
    assert isinstance(action, RemoveFinalizer)
    assert (
        orphan(
            {**raw, "metadata": {**raw["metadata"], "finalizers": []}},
            read(raw),
            NOW,
            (),
            LifePolicy(finishes_orphans=False),
        )
        == Wait()
    )


def test_pods_that_are_not_needed_any_more_give_their_quota_back() -> None:
    raw = admitted(workload_of(job()))
    action = decide(situation({**started(job(), raw), "status": {"succeeded": 2}}, raw))
    assert isinstance(action, UpdateWorkloadStatus)
    assert action.body["status"] == {"reclaimablePods": [{"name": "main", "count": 2}]}


def test_without_the_feature_gate_pods_keep_their_quota_until_the_job_ends() -> None:
    raw = admitted(workload_of(job()))
    running = {**started(job(), raw), "status": {"succeeded": 2}}
    assert isinstance(decide(situation(running, raw, reclaimable_pods=False)), Wait)


@pytest.mark.parametrize("admitted_above", [True, False])
def test_the_child_of_a_managed_job_runs_while_that_one_is_admitted(admitted_above: bool) -> None:
    action = decide(situation(job(suspend=False), managed=False, ancestor_admitted=admitted_above))
    assert isinstance(action, Wait if admitted_above else Stop)


def test_pods_ready_follows_the_pods() -> None:
    raw = admitted(workload_of(job()))
    running = started(job(), raw)

    def next_reason(status: Raw, raw: Raw) -> tuple[str, Raw]:
        action = decide(situation({**running, "status": status}, raw, wait_for_pods_ready=True))
        assert isinstance(action, UpdateWorkloadStatus)
        return facts(action.after)["PodsReady"], merged(raw, action.body)

    reasons = []
    for status in ({}, {"ready": 3}, {"ready": 2}, {"ready": 3}):
        reason, raw = next_reason(status, raw)
        reasons.append(reason)
    assert reasons == ["False/WaitForStart", "True/Started", "False/WaitForRecovery", "True/Recovered"]


def test_a_job_deactivated_by_the_controller_is_deleted_after_its_retention() -> None:
    raw = after(
        workload_of(job(), active=False),
        lambda value: transitions.evicted(
            value, "Deactivated", "The workload is deactivated", 600.0, cause="RequeuingLimitExceeded"
        ),
    )
    assert decide(situation(job(), raw, retention_after_deactivation=500.0)) == Wait(100.0)
    at, told = Target(BATCH_JOB.resource, key_of(job())), (deleted_job(),)
    deletion = Delete("job-uid", at, why="retention", events=told)
    assert decide(situation(job(), raw, retention_after_deactivation=400.0)) == deletion


def with_class(name: str, value: int) -> tuple[Raw, Raw]:
    found = job(labels={PRIORITY_LABEL: name})
    action = decide(situation(found, classes=replace(CLASSES, workload={**CLASSES.workload, name: value})))
    assert isinstance(action, CreateWorkload)
    raw = action.manifest
    raw["metadata"] |= {"uid": "wl-uid", "resourceVersion": "9"}
    return found, raw


def followed(found: Raw, raw: Raw) -> Raw:
    action = decide(situation(found, raw))
    while isinstance(action, UpdateWorkload):
        raw = merged(raw, action.body)
        action = decide(situation(found, raw))
    assert action == Wait()
    return raw


def test_a_changed_class_value_reaches_the_workload() -> None:
    raw = followed(*with_class("low", 5))
    assert raw["spec"]["priority"] == 10


def test_a_changed_class_label_reaches_the_workload_even_when_it_runs() -> None:
    found, raw = with_class("low", 10)
    raw = followed(merged(found, {"metadata": {"labels": {PRIORITY_LABEL: "high"}}}), raw)
    assert (raw["spec"]["priority"], raw["spec"]["priorityClassRef"]["name"]) == (100, "high")


def test_a_priority_set_by_hand_survives_restarts_and_class_changes() -> None:
    found, raw = with_class("low", 5)
    raw["spec"]["priority"] = 77
    assert followed(found, raw)["spec"]["priority"] == 77
    raw = followed(merged(found, {"metadata": {"labels": {PRIORITY_LABEL: "high"}}}), raw)
    assert (raw["spec"]["priority"], raw["spec"]["priorityClassRef"]["name"]) == (77, "high")


def test_a_hand_set_priority_follows_again_when_set_back() -> None:
    found, raw = with_class("low", 5)
    raw["spec"]["priority"] = 77
    raw = followed(found, raw)
    raw["spec"]["priority"] = int(raw["metadata"]["annotations"]["seiretsu.kueue.x-k8s.io/class-priority"])
    assert followed(found, raw)["spec"]["priority"] == 10


def test_a_workload_made_by_kueue_follows_its_class_from_then_on() -> None:
    found, raw = with_class("low", 10)
    del raw["metadata"]["annotations"]
    adopted = followed(found, raw)
    assert adopted["metadata"]["annotations"] == {"seiretsu.kueue.x-k8s.io/class-priority": "10"}
    raised = merged(raw, {"spec": {"priority": 11}})
    assert followed(found, raised) == raised


def test_a_class_label_that_names_nothing_keeps_nothing_from_being_done() -> None:
    found, raw = with_class("low", 10)
    renamed = merged(found, {"metadata": {"labels": {PRIORITY_LABEL: "gone"}}})
    assert isinstance(decide(situation(renamed, raw)), Problem)
    assert isinstance(decide(situation(renamed, admitted(raw))), Start)


def test_a_gate_of_the_job_is_passed_on() -> None:
    gate = {"kueue.x-k8s.io/admission-gated-by": "example.com/g"}
    raw = followed(job(annotations=gate), workload_of(job()))
    assert raw["metadata"]["annotations"] == gate
    assert "annotations" not in followed(job(), raw)["metadata"] or not followed(job(), raw)["metadata"]["annotations"]
