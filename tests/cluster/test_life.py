"""What can happen to a queued Job, on the real control plane: eviction and restart, deactivation, a changed priority
class, and changes of its checks, pods and Workload. What can happen to its queues is in test_life_of_queues.py.

Reasons and messages are Kueue's: people and programs match on them.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from api.objects import Raw
from core.wire.timestamps import stamp
from tests.cluster.world import World, condition, holds, job, marked_until, of_flavor, ours, pod_of, runs
from tests.serving import Service

pytestmark = pytest.mark.cluster

TOLERATION = {"key": "reserved", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}
GATED_BY = "kueue.x-k8s.io/admission-gated-by"
LONG_AGO = "2026-01-01T00:00:00Z"


REPORTED = {
    ("kueue-admission", "QuotaReserved"),
    ("kueue-admission", "Admitted"),
    ("kueue-admission", "EvictedDueToPreempted"),
    ("kueue-admission", "Preempted"),
    ("kueue-admission", "PreemptedWorkload"),
    ("batch/job-kueue-controller", "CreatedWorkload"),
    ("batch/job-kueue-controller", "Started"),
    ("batch/job-kueue-controller", "Stopped"),
}
"""Who reports what: the names that Kueue's events have."""


def reported(world: World) -> set[tuple[str, str]]:
    """Component and reason of all events."""
    return {(item.get("reportingComponent", ""), item["reason"]) for item in world.get("events")["items"]}


def priority_class(world: World, name: str, value: int) -> Raw:
    found = {**ours("WorkloadPriorityClass", world.full(name), {}), "value": value}
    del found["spec"]
    return found


def of_class(world: World, name: str) -> Raw:
    return {"kueue.x-k8s.io/priority-class": world.full(name)}


# The whole way, and the ways it ends.


def test_every_step_of_a_job_has_kueues_conditions_and_events(world: World) -> None:
    world.queue("team", 1)
    world.job("job", "team", seconds=600)
    world.until("its pods are ready", lambda: world.reason("job", "PodsReady") == "True/Started")
    world.complete("job")
    world.until("it is finished", lambda: holds(world.workload("job"), "Finished"))
    told = {kind: world.condition("job", kind) for kind in ("QuotaReserved", "Admitted", "PodsReady", "Finished")}
    assert told == {
        "QuotaReserved": ("True", "QuotaReserved", f"Quota reserved in ClusterQueue {world.full('team')}"),
        "Admitted": ("True", "Admitted", "The workload is admitted"),
        "PodsReady": ("True", "Started", "All pods reached readiness and the workload is running"),
        "Finished": ("True", "Succeeded", "Reached expected number of succeeded pods"),
    }


def test_a_job_that_fails_finishes_its_workload_as_failed(world: World) -> None:
    world.queue("team", 1)
    fails = job("fails", "team", cpu=1, pods=1, seconds=0.1)
    fails["spec"]["backoffLimit"] = 0
    fails["spec"]["template"]["metadata"]["annotations"]["seiretsu.dev/exit-code"] = "3"
    world.create(fails)
    world.until("it is finished", lambda: holds(world.workload("fails"), "Finished"))
    assert world.condition("fails", "Finished") == ("True", "Failed", "Job has reached the specified backoff limit")
    world.until("its quota is free", lambda: world.used("team") == ("0", "0"))


def test_a_preempted_job_gets_its_size_and_template_back_and_starts_again_when_quota_is_free(world: World) -> None:
    special = world.full("special")
    spec = {"nodeLabels": {"kubernetes.io/os": "linux"}, "tolerations": [TOLERATION]}
    world.create(ours("ResourceFlavor", special, spec), priority_class(world, "high", 100))
    world.queue("team", 3, resourceGroups=[of_flavor(special, 3)], preemption={"withinClusterQueue": "LowerPriority"})
    wide = job("wide", "team", cpu=1, pods=4, seconds=600)
    wide["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    world.create(wide)
    runs(world, "wide")
    started = world.jobs()["wide"]["spec"]
    pod = started["template"]["spec"]
    assert (started["parallelism"], pod["nodeSelector"], pod["tolerations"]) == (
        3,
        {"kubernetes.io/os": "linux"},
        [TOLERATION],
    )

    world.job("urgent", "team", cpu=2, seconds=600, labels=of_class(world, "high"))
    runs(world, "urgent")
    world.until("its template is as it was", lambda: world.jobs()["wide"]["spec"]["parallelism"] == 4)
    stopped = world.jobs()["wide"]["spec"]
    pod = stopped["template"]["spec"]
    assert (stopped["suspend"], pod.get("nodeSelector"), pod.get("tolerations")) == (True, None, None)
    status, reason, message = world.condition("wide", "Evicted")
    assert (status, reason) == ("True", "Preempted")
    assert message.startswith("Preempted to accommodate a workload (UID: ")
    assert message.endswith(
        f"due to prioritization in the ClusterQueue; preemptor path: /{world.full('team')}; "
        f"preemptee path: /{world.full('team')}"
    )
    assert world.condition("wide", "Preempted") == ("True", "InClusterQueue", message)
    assert world.condition("wide", "Requeued") == ("True", "Preempted", message)
    assert world.reason("wide", "Admitted") == "False/NoReservation"
    evictions = world.workload("wide")["status"]["schedulingStats"]["evictions"]
    assert evictions == [{"reason": "Preempted", "underlyingCause": "", "count": 1}]
    world.until("every event of a preemption is there", lambda: reported(world) >= REPORTED)

    world.delete("jobs", "urgent")
    runs(world, "wide")
    assert world.jobs()["wide"]["spec"]["parallelism"] == 3
    assert world.condition("wide", "Evicted") == ("False", "QuotaReserved", f"Previously: {message}")
    assert world.condition("wide", "Preempted") == ("False", "QuotaReserved", f"Previously: {message}")


def test_a_deactivated_workload_stops_its_job_until_it_is_activated_again(world: World) -> None:
    world.queue("team", 1)
    world.job("job", "team", seconds=600)
    runs(world, "job")
    name = world.workload("job")["metadata"]["name"]
    world.patch("workloads", name, {"spec": {"active": False}})
    world.until("it has stopped", lambda: not world.running() and world.used("team") == ("0", "0"))
    world.until("its Workload has the reason", lambda: world.reason("job", "QuotaReserved") == "False/Deactivated")
    assert world.condition("job", "Evicted") == ("True", "Deactivated", "The workload is deactivated")
    assert world.condition("job", "Requeued") == ("False", "Deactivated", "The workload is deactivated")
    world.patch("workloads", name, {"spec": {"active": True}})
    runs(world, "job")
    assert world.condition("job", "Requeued") == ("True", "Reactivated", "The workload was reactivated")
    assert world.reason("job", "Evicted") == "False/QuotaReserved"


def test_a_job_that_runs_longer_than_it_may_is_deactivated_and_has_all_its_time_again_when_activated(
    world: World,
) -> None:
    world.queue("team", 1)
    before, jobs_before = world.version("workloads"), world.version("jobs")
    world.job("job", "team", seconds=600, labels={"kueue.x-k8s.io/max-exec-time-seconds": "2"})
    world.seen("jobs", jobs_before, lambda found: not found["spec"]["suspend"])
    cause, message = "MaximumExecutionTimeExceeded", "exceeding the maximum execution time"
    world.until("it is deactivated", lambda: world.workload("job")["spec"]["active"] is False)
    world.until("it has stopped", lambda: world.reason("job", "QuotaReserved") == "False/Deactivated")
    evicted = ("True", f"DeactivatedDueTo{cause}", f"The workload is deactivated due to {message}")
    assert world.condition("job", "Evicted") == evicted
    assert marked_until(world, before, evicted) == (cause, message)
    world.until(
        "an event has the reason", lambda: cause in world.events("Workload", world.workload("job")["metadata"]["name"])
    )
    assert not world.running()
    evictions = [{"reason": "Deactivated", "underlyingCause": cause, "count": 1}]
    assert world.workload("job")["status"]["schedulingStats"]["evictions"] == evictions
    assert "accumulatedPastExecutionTimeSeconds" not in world.workload("job")["status"]
    again = world.version("workloads")
    world.patch("workloads", world.workload("job")["metadata"]["name"], {"spec": {"active": True}})
    world.seen("workloads", again, lambda found: condition(found, "Evicted")[:2] == ("False", "QuotaReserved"))
    world.until(
        "its time is over once more",
        lambda: world.workload("job")["status"]["schedulingStats"]["evictions"][0]["count"] == 2,
    )
    admitted, evicted_at = (since(world.workload("job"), kind) for kind in ("QuotaReserved", "Evicted"))
    assert evicted_at >= admitted, "both times are of the second run"


def since(found: Raw, kind: str) -> str:
    (at,) = [each["lastTransitionTime"] for each in found["status"]["conditions"] if each["type"] == kind]
    return str(at)


# Admission checks.


def active_check(world: World, name: str) -> str:
    """Creates an AdmissionCheck whose controller, the test, runs; returns its full name."""
    check = world.full(name)
    world.create(ours("AdmissionCheck", check, {"controllerName": "seiretsu.dev/test"}))
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": LONG_AGO}
    world.patch("admissionchecks", check, {"status": {"conditions": [active]}}, subresource="status")
    return check


@pytest.fixture
def checked(world: World) -> World:
    """A world with an active AdmissionCheck ``check``, and a queue ``team`` of one cpu that asks for it."""
    check = active_check(world, "check")
    world.queue("team", 1, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    world.job("job", "team", seconds=600)
    world.until("quota is reserved", lambda: world.reason("job", "QuotaReserved") == "True/QuotaReserved")
    waits = ("False", "UnsatisfiedAdmissionChecks", "The workload has not all checks ready")
    assert world.condition("job", "Admitted") == waits
    (state,) = world.workload("job")["status"]["admissionChecks"]
    assert (state["name"], state["state"]) == (check, "Pending")
    assert not world.running()
    return world


def answer(world: World, state: str, **more: Any) -> None:
    """The controller of the check speaks."""
    answers(world, "job", {world.full("check"): {"state": state} | more})


def answers(world: World, job: str, states: dict[str, Raw]) -> None:
    """The controllers of all checks of a job speak at once."""
    now = {"message": "", "lastTransitionTime": stamp(time.time())}
    said = [{"name": name, **now, **state} for name, state in states.items()]
    name = world.workload(job)["metadata"]["name"]
    world.patch("workloads", name, {"status": {"admissionChecks": said}}, subresource="status")


def asked(world: World, job: str) -> dict[str, tuple[str, int]]:
    """State and retries of each check of a job that has quota; nothing while it has none, or gives it back."""
    found = world.workload(job)
    if not holds(found, "QuotaReserved") or holds(found, "Evicted"):
        return {}
    checks = found["status"].get("admissionChecks") or []
    return {each["name"]: (each["state"], each.get("retryCount", 0)) for each in checks}


def test_a_job_starts_when_its_checks_are_ready_with_what_they_add(checked: World) -> None:
    answer(checked, "Pending", message="looking for a slot")
    checked.until("an event says so", lambda: "UpdatedAdmissionCheck" in checked.events("Job", "job"))
    update = {"name": "main", "nodeSelector": {"kubernetes.io/os": "linux"}, "annotations": {"example.com/slot": "7"}}
    answer(checked, "Ready", podSetUpdates=[update])
    runs(checked, "job")
    assert checked.condition("job", "Admitted") == ("True", "Admitted", "The workload is admitted")
    template = checked.jobs()["job"]["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert template["metadata"]["annotations"]["example.com/slot"] == "7"
    checked.patch("workloads", checked.workload("job")["metadata"]["name"], {"spec": {"active": False}})
    checked.until("its template is as it was", lambda: "nodeSelector" not in pod_of(checked, "job"))
    assert "example.com/slot" not in checked.jobs()["job"]["spec"]["template"]["metadata"]["annotations"]


def test_a_check_that_asks_for_a_retry_releases_the_quota_and_starts_again_after_its_delay(
    checked: World,
) -> None:
    answer(checked, "Retry", message="no machines", requeueAfterSeconds=600)
    message = f'Evicted due to AdmissionCheck in Retry state: "{checked.full("check")}" (no machines)'
    told = ("False", "AdmissionCheck", message)
    checked.until("it is put off", lambda: checked.condition("job", "Requeued") == told)
    assert checked.condition("job", "Evicted") == ("True", "AdmissionCheck", message)
    checked.until("its quota is free", lambda: checked.status("team")["reservingWorkloads"] == 0)
    (state,) = checked.workload("job")["status"]["admissionChecks"]
    assert (state["state"], state["retryCount"]) == ("Pending", 1)
    assert checked.workload("job")["status"]["requeueState"]["requeueAt"] > stamp(time.time() + 500)
    name = checked.workload("job")["metadata"]["name"]  # nobody wants to wait ten minutes
    soon = {"status": {"requeueState": None, "admissionChecks": [{**state, "requeueAfterSeconds": None}]}}
    checked.patch("workloads", name, soon, subresource="status")
    checked.until("it is admitted again", lambda: checked.reason("job", "QuotaReserved") == "True/QuotaReserved")
    assert checked.condition("job", "Requeued") == ("True", "BackoffFinished", "The workload backoff was finished")
    answer(checked, "Ready")
    runs(checked, "job")


def test_a_rejected_check_deactivates_the_workload(checked: World) -> None:
    before = checked.version("workloads")
    answer(checked, "Rejected", message="never")
    checked.until("it is deactivated", lambda: checked.workload("job")["spec"]["active"] is False)
    checked.until("its quota is free", lambda: checked.reason("job", "QuotaReserved") == "False/Deactivated")
    why = f'AdmissionCheck in Rejected state: "{checked.full("check")}" (never)'
    told = ("True", "DeactivatedDueToAdmissionCheck", f"The workload is deactivated due to {why}")
    assert checked.condition("job", "Evicted") == told
    assert marked_until(checked, before, told) == ("AdmissionCheck", why)
    name = checked.workload("job")["metadata"]["name"]
    checked.until("an event has the reason", lambda: "AdmissionCheckRejected" in checked.events("Workload", name))


def test_of_two_checks_one_is_for_one_flavor_and_a_retry_asks_both_again(world: World) -> None:
    always, there, second = active_check(world, "always"), active_check(world, "there"), world.full("second")
    world.create(ours("ResourceFlavor", second, {}))
    quota = [{"name": "cpu", "nominalQuota": 1}]
    flavors = [{"name": name, "resources": quota} for name in (world.namespace, second)]
    checks = {"admissionChecks": [{"name": always}, {"name": there, "onFlavors": [second]}]}
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    world.queue("team", 1, resourceGroups=groups, admissionChecksStrategy=checks)
    world.job("first", "team", seconds=600)
    world.until("the first has one check", lambda: asked(world, "first") == {always: ("Pending", 0)})
    world.job("other", "team", seconds=600)
    both = {always: ("Pending", 0), there: ("Pending", 0)}
    world.until("the other one has both", lambda: asked(world, "other") == both)
    answers(world, "other", {always: {"state": "Ready"}, there: {"state": "Retry"}})
    again = {always: ("Pending", 0), there: ("Pending", 1)}
    world.until("it is asked again, with quota", lambda: asked(world, "other") == again)
    assert world.condition("other", "Requeued")[:2] == ("True", "BackoffFinished")
    answers(world, "other", {always: {"state": "Ready"}, there: {"state": "Ready"}})
    runs(world, "other")
    answers(world, "first", {always: {"state": "Ready"}})
    runs(world, "first", "other")


def test_a_job_with_an_admission_gate_is_in_no_queue_until_its_gates_are_gone(world: World) -> None:
    world.queue("team", 2)
    made = job("gated", "team", cpu=1, pods=1, seconds=600)
    made["metadata"]["annotations"] = {GATED_BY: "example.com/one,example.com/two"}
    world.create(made)
    told = ("False", "AdmissionGated", "Admission is gated by: example.com/one,example.com/two")
    world.until("it is gated", lambda: world.condition("gated", "QuotaReserved") == told)
    world.job("free", "team", seconds=600)
    runs(world, "free")
    world.patch("jobs", "gated", {"metadata": {"annotations": {GATED_BY: None}}})
    runs(world, "free", "gated")
    name = world.workload("gated")["metadata"]["name"]
    wanted = {"AdmissionGated", "AdmissionGateCleared"}
    world.until("events say both", lambda: wanted <= world.events("Workload", name))


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
def test_a_stopped_queue_takes_back_what_is_only_reserved(checked: World, kind: str, policy: str) -> None:
    resource, name = checked.either("team", kind)
    checked.patch(resource, name, {"spec": {"stopPolicy": policy}})
    checked.until("nothing is reserved", lambda: checked.reason("job", "QuotaReserved") == "False/Suspended")
    assert "admission" not in checked.workload("job")["status"]
    checked.patch(resource, name, {"spec": {"stopPolicy": "None"}})
    checked.until("it is reserved again", lambda: checked.reason("job", "QuotaReserved") == "True/QuotaReserved")


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
def test_a_deleted_queue_takes_back_what_is_only_reserved(checked: World, kind: str) -> None:
    resource, name = checked.either("team", kind)
    before, workload = checked.version("workloads"), checked.workload("job")["metadata"]["name"]
    checked.delete(resource, name)
    checked.until("nothing is reserved", lambda: checked.reason("job", "QuotaReserved") == "False/Misconfigured")
    told = ("False", "Misconfigured", f"{kind} {name} is terminating or missing")
    checked.seen("workloads", before, lambda state: condition(state, "QuotaReserved") == told)
    assert "admission" not in checked.get("workloads", workload)["status"]
    checked.until("the ClusterQueue is gone or free", lambda: not checked.status("team").get("reservingWorkloads"))


# Priority.


def test_a_changed_class_reorders_the_queue_and_a_priority_set_by_hand_is_kept(world: World, service: Service) -> None:
    world.queue("team", 1)
    world.create(priority_class(world, "low", 10), priority_class(world, "mid", 20))
    world.job("holder", "team", seconds=600)
    runs(world, "holder")
    for name, klass in (("first", "mid"), ("second", "low"), ("third", "mid")):
        world.job(name, "team", seconds=600, labels=of_class(world, klass))
    world.until("all have their Workloads", lambda: len(world.workloads()) == 4)
    world.plane.kubectl(
        "patch", f"workloadpriorityclass.kueue.x-k8s.io/{world.full('low')}", "--type=merge", '-p={"value": 30}'
    )
    world.until("the class is followed", lambda: world.workload("second")["spec"]["priority"] == 30)
    world.delete("jobs", "holder")
    runs(world, "second")

    world.patch("workloads", world.workload("third")["metadata"]["name"], {"spec": {"priority": 100}})
    service.kill()
    service.ready()
    world.plane.kubectl(
        "patch", f"workloadpriorityclass.kueue.x-k8s.io/{world.full('mid')}", "--type=merge", '-p={"value": 25}'
    )
    world.until("the class is followed", lambda: world.workload("first")["spec"]["priority"] == 25)
    assert world.workload("third")["spec"]["priority"] == 100
    world.delete("jobs", "second")
    runs(world, "third")


# What others do to a Job that runs.


def test_pods_that_have_succeeded_give_their_quota_to_the_next_while_their_job_runs_on(world: World) -> None:
    world.queue("team", 3)
    world.job("wide", "team", pods=3, seconds=600)
    world.until("its pods run", lambda: world.jobs()["wide"].get("status", {}).get("ready") == 3)
    world.job("next", "team", seconds=600)
    world.until("the next one waits", lambda: world.reason("next", "QuotaReserved") == "False/WaitingForQuota")
    pod = next(item for item in world.get("pods")["items"] if item["metadata"]["name"].startswith("wide"))
    world.patch("pods", pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, subresource="status")
    runs(world, "wide", "next")
    assert world.workload("wide")["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]
    world.until("all is used", lambda: world.used("team") == ("3", "0"))


def test_a_job_that_is_removed_from_its_queue_does_not_block_the_next(world: World) -> None:
    world.queue("team", 1)
    world.job("first", "team", seconds=600)
    runs(world, "first")
    world.job("leaves", "team", seconds=600)
    world.until("it waits", lambda: world.reason("leaves", "QuotaReserved") == "False/WaitingForQuota")
    world.outlive_second_of("leaves")
    world.job("next", "team", seconds=600)
    world.patch("jobs", "leaves", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}})
    world.until("it has no Workload", lambda: "next" in world.workloads() and "leaves" not in world.workloads())
    world.delete("jobs", "first")
    runs(world, "next")
    assert world.jobs()["leaves"]["spec"]["suspend"] is True
    world.patch("jobs", "leaves", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}}})
    world.until("it is in the line again", lambda: world.reason("leaves", "QuotaReserved") == "False/WaitingForQuota")


def test_a_running_job_that_its_user_suspends_is_started_again(world: World) -> None:
    """As in Kueue, deactivate its Workload to make it wait."""
    world.queue("team", 1)
    world.job("job", "team", seconds=600)
    world.until("its pod runs", lambda: world.jobs()["job"].get("status", {}).get("ready") == 1)
    before = world.jobs()["job"]["metadata"]["generation"]
    world.patch("jobs", "job", {"spec": {"suspend": True}})
    world.until("it was started again", lambda: world.jobs()["job"]["metadata"]["generation"] >= before + 2)
    world.until("its pod runs again", lambda: world.jobs()["job"].get("status", {}).get("ready") == 1)
    assert world.running() == {"job"}
    world.until("its quota is counted", lambda: world.used("team") == ("1", "0"))
    assert not holds(world.workload("job"), "Evicted")


def test_a_workload_deleted_under_its_job_stops_it_and_another_takes_its_place(world: World) -> None:
    world.queue("team", 1)
    world.job("job", "team", seconds=600)
    runs(world, "job")
    old, generation = world.workload("job")["metadata"], world.jobs()["job"]["metadata"]["generation"]
    world.delete("workloads", old["name"])
    world.until("there is another", lambda: uid(world.workload("job")) not in ("", old["uid"]))
    runs(world, "job")
    assert world.jobs()["job"]["metadata"]["generation"] >= generation + 2, "the Job has run all the while"
    world.until("quota is held once", lambda: world.used("team") == ("1", "0"))


def uid(found: Raw) -> str:
    return str(found.get("metadata", {}).get("uid", ""))


def test_a_second_workload_for_a_job_is_deleted_and_the_job_runs_on(world: World) -> None:
    world.queue("team", 2)
    world.job("job", "team", seconds=600)
    runs(world, "job")
    first, generation = world.workload("job"), world.jobs()["job"]["metadata"]["generation"]
    second = ours("Workload", "second", {key: first["spec"][key] for key in ("podSets", "queueName")})
    second["metadata"]["ownerReferences"] = first["metadata"]["ownerReferences"]
    world.create(second)
    world.until("it is gone", lambda: not world.get("workloads", "second"))
    assert world.workload("job")["metadata"]["uid"] == first["metadata"]["uid"]
    assert (world.running(), world.jobs()["job"]["metadata"]["generation"]) == ({"job"}, generation)
    world.until("quota is held once", lambda: world.used("team") == ("1", "0"))


@pytest.mark.parametrize(
    ("resource", "allowed", "reached"),
    [
        ("jobs", "!object.spec.suspend", "True/ClusterQueueStopped"),
        ("workloads/status", "has(object.status.admission)", "True/ClusterQueueStopped"),
    ],
    ids=["before its job was stopped", "before its quota was given back"],
)
def test_an_eviction_goes_on_where_a_killed_controller_left_it(
    world: World, service: Service, resource: str, allowed: str, reached: str
) -> None:
    world.queue("team", 1)
    world.job("job", "team", seconds=600)
    runs(world, "job")
    forbid(world, resource, allowed)
    world.patch("clusterqueues", world.full("team"), {"spec": {"stopPolicy": "HoldAndDrain"}})
    world.until("it is on its way", lambda: world.reason("job", "Evicted") == reached)
    world.until("it got so far", lambda: bool(world.running()) == (resource == "jobs"))
    service.kill()
    assert world.workload("job")["status"]["admission"], "its quota was given back already"
    allow(world)
    service.ready()
    world.until("it has stopped", lambda: not world.running() and world.used("team") == ("0", "0"))
    assert world.reason("job", "Requeued") == "False/ClusterQueueStopped"
    world.patch("clusterqueues", world.full("team"), {"spec": {"stopPolicy": "None"}})
    runs(world, "job")


def forbid(world: World, resource: str, allowed: str) -> None:
    """Nobody may write what is not so, in this namespace; returns when that holds."""
    group = "batch" if resource == "jobs" else "kueue.x-k8s.io"
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": [resource]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector},
        "validations": [{"expression": allowed}],
    }
    binding = {"policyName": world.namespace, "validationActions": ["Deny"]}
    for kind, content in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding)):
        api = "admissionregistration.k8s.io/v1"
        world.create({"apiVersion": api, "kind": kind, "metadata": {"name": world.namespace}, "spec": content})
    kind, _, subresource = resource.partition("/")
    name = "job" if kind == "jobs" else world.workload("job")["metadata"]["name"]
    patch = '{"spec": {"suspend": true}}' if kind == "jobs" else '{"status": {"admission": null}}'
    options = [f"--subresource={subresource}"] if subresource else []
    trying = (kind, name, "-n", world.namespace, "--type=merge", "--dry-run=server", "-p", patch, *options)
    world.until("it is forbidden", lambda: world.namespace in world.plane.kubectl("patch", *trying).stderr)


def allow(world: World) -> None:
    """What was forbidden is allowed again, by the time a write is tried."""
    for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        world.plane.kubectl("delete", kind, world.namespace, check=True)


def test_a_job_waits_for_the_workload_that_it_names_adopts_it_and_ends_with_it(world: World) -> None:
    world.queue("team", 1)
    world.job("job", "team", seconds=1, labels={"kueue.x-k8s.io/prebuilt-workload-name": "brought"})
    assert world.jobs()["job"]["spec"]["suspend"] is True
    template = world.jobs()["job"]["spec"]["template"]
    pods = {"name": "main", "count": 1, "template": {"spec": template["spec"]}}
    brought = ours("Workload", "brought", {"podSets": [pods]})
    assert not world.workloads()
    world.create(brought)
    world.until("it is finished", lambda: holds(world.workload("job"), "Finished"))
    assert world.workload("job")["metadata"]["name"] == "brought"
    assert world.condition("job", "Finished")[:2] == ("True", "Succeeded")
