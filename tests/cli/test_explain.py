from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from api.objects import Raw
from cli.explain import answer, partial_answer
from cli.explained import jobs_of, plain, text
from cli.live import Seen
from cli.manifests import Mistakes, documents
from controller.settings import ControllerSettings
from core.explain.explanation import DomainRoom, Explanation, Rooms
from core.model import Key
from core.model.policy import SchedulingPolicy, Strategy

QUEUE = {"kueue.x-k8s.io/queue-name": "main"}
QUEUES = [document.raw for document in documents(Path(__file__).parents[2] / "examples" / "queues.yaml", Mistakes())]
NOW = 1_000.0


def workload(job: str, cpu: int, *, at: int, namespace: str = "team-a", holds: str = "", **spec: Any) -> Raw:
    """A Workload of a Job of one pod; ``holds`` is the ClusterQueue that has admitted it."""
    created = f"1970-01-01T00:00:{at:02d}Z"
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": str(cpu)}}}
    status: Raw = {}
    if holds:
        usage = {"name": "main", "count": 1, "flavors": {"cpu": "standard"}, "resourceUsage": {"cpu": str(cpu)}}
        status = {
            "admission": {"clusterQueue": holds, "podSetAssignments": [usage]},
            "conditions": [
                {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": created}
                for kind in ("QuotaReserved", "Admitted")
            ],
        }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"job-{job}",
            "namespace": namespace,
            "uid": f"uid-{job}",
            "creationTimestamp": created,
            "ownerReferences": [{"kind": "Job", "name": job, "uid": job, "apiVersion": "batch/v1", "controller": True}],
        },
        "spec": {
            "queueName": "main",
            "priority": 0,
            "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}],
            **spec,
        },
        "status": status,
    }


def explained(*workloads: Raw, of: str, change: Raw | None = None) -> Explanation:
    queues = [merge(queue, change) if change and queue["metadata"]["name"] == "team-a" else queue for queue in QUEUES]
    told = answer([*queues, *workloads], of, "team-a", NOW)
    assert isinstance(told, Explanation), told
    return told


def merge(queue: Raw, change: Raw) -> Raw:
    return queue | {"spec": queue["spec"] | change} if queue["kind"] == "ClusterQueue" else queue


FULL = (workload("old", 8, at=1, holds="team-a"), workload("borrower", 4, at=2, holds="team-a"))


def test_a_waiting_job_has_its_position_the_quota_holders_and_what_must_finish_first() -> None:
    told = explained(*FULL, workload("first", 4, at=3), workload("second", 4, at=4), of="second")
    assert (told.state, told.place, told.waiting) == ("waiting", 2, 2)
    assert [str(key) for key in told.ahead] == ["team-a/job-first"]
    assert [str(holder.key) for holder in told.holders] == ["team-a/job-old", "team-a/job-borrower"]
    assert told.ways[0] == "it fits when team-a/job-old ends"
    assert told.message.endswith("insufficient unused quota for cpu in flavor standard, 4 more needed")


def test_no_job_that_need_not_end_is_named_among_those_that_must() -> None:
    held = [workload(f"small-{n}", 1, at=n, holds="team-a") for n in range(1, 5)]
    told = explained(*held, workload("big", 8, at=5, holds="team-a"), workload("next", 8, at=6), of="next")
    assert told.ways[0] == "it fits when team-a/job-big ends"


def test_where_the_borrowing_limit_alone_is_in_the_way_it_is_named() -> None:
    told = explained(*FULL, workload("next", 4, at=3), of="next")
    assert (
        "with 4 cpu more quota in flavor standard (nominalQuota of ClusterQueue team-a, or its borrowingLimit: the"
        " cohort has enough)"
    ) in told.ways


def test_a_priority_that_would_preempt_is_shown_with_its_victims() -> None:
    change = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    told = explained(*FULL, workload("next", 4, at=3), of="next", change=change)
    assert told.ways[-1] == ("with priority 1 or more (it has 0) it would preempt team-a/job-borrower")


def test_the_numbers_are_those_of_the_quota_as_it_stands() -> None:
    (cell,) = plain(explained(*FULL, workload("next", 4, at=3), of="next"))["quota"]
    assert cell == {
        "flavor": "standard",
        "resource": "cpu",
        "requested": "4",
        "free": "0",
        "used": "12",
        "nominal": "8",
        "maximum": "12",
    }


def test_a_job_that_fits_waits_only_for_the_next_cycle() -> None:
    told = explained(workload("next", 4, at=3), of="next")
    assert (told.reason, told.message, told.ways) == ("Fits", "It fits now.", ())


@pytest.mark.parametrize(
    ("raw", "state", "message"),
    [
        (workload("x", 1, at=1, queueName="mian"), "not queued", "LocalQueue mian doesn't exist"),
        (workload("x", 1, at=1, active=False), "not queued", "The workload is deactivated"),
        (workload("x", 1, at=1, holds="team-a"), "admitted", "it holds 1 cpu in standard"),
    ],
    ids=["its queue does not exist", "it is deactivated", "it runs"],
)
def test_the_state_of_a_job_that_is_not_queued_is_shown(raw: Raw, state: str, message: str) -> None:
    told = explained(raw, of="x")
    assert (told.state, told.message) == (state, message)


def test_a_workload_that_holds_quota_for_the_pods_of_a_deleted_job_has_that_reason() -> None:
    raw = workload("x", 1, at=1, holds="team-a")
    del raw["metadata"]["ownerReferences"]
    remain = {"type": "PodsRemain", "status": "True", "reason": "JobDeleted", "message": "The job was deleted, but ..."}
    raw["status"]["conditions"].append({**remain, "lastTransitionTime": "1970-01-01T00:00:01Z"})
    told = explained(raw, of="job-x")
    assert (told.state, told.message) == ("admitted", "it holds 1 cpu in standard. The job was deleted, but ...")


def test_a_stopped_queue_is_the_reason_and_an_administrator_must_start_it() -> None:
    told = explained(workload("x", 1, at=1), of="x", change={"stopPolicy": "Hold"})
    assert told.message == "ClusterQueue team-a is inactive: Can't admit new workloads: is stopped."
    assert told.ways == ("an administrator must set spec.stopPolicy of ClusterQueue team-a to None",)


@pytest.mark.parametrize(
    ("change", "way"),
    [
        ({"spec": {"stopPolicy": "Hold"}}, "an administrator must set spec.stopPolicy of LocalQueue main to None"),
        ({"spec": {"clusterQueue": "none"}}, "an administrator must create ClusterQueue none"),
    ],
    ids=["its LocalQueue is stopped", "its ClusterQueue does not exist"],
)
def test_an_inactive_queue_is_explained_with_the_change_that_it_needs(change: Raw, way: str) -> None:
    queues = [raw | {"spec": raw["spec"] | change["spec"]} if raw["kind"] == "LocalQueue" else raw for raw in QUEUES]
    told = answer([*queues, workload("x", 1, at=1)], "x", "team-a", NOW)
    assert isinstance(told, Explanation)
    assert told.ways == (way,)


def test_a_namespace_that_is_not_selected_needs_the_labels() -> None:
    told = explained(workload("x", 1, at=1), of="x", change={"namespaceSelector": {"matchLabels": {"no": "yes"}}})
    assert told.ways == ("namespace team-a needs labels that ClusterQueue team-a selects",)


def the_job(name: str, **labels: str) -> Raw:
    return {"kind": "Job", "metadata": {"name": name, "namespace": "team-a", "labels": labels}, "spec": {}}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("plain", "it names no queue (label kueue.x-k8s.io/queue-name), so it has no Workload"),
        ("lost", "has no Workload yet; it names WorkloadPriorityClass urgnt, which must exist"),
        ("plian", "there is no Job plian in namespace team-a: did you mean plain?"),
        ("workload/x", "there is no Workload x in namespace team-a"),
    ],
    ids=["a Job that is not managed", "a Job whose class is missing", "a misspelt name", "no such Workload"],
)
def test_a_missing_workload_is_explained(asked: str, said: str) -> None:
    lost = {"kueue.x-k8s.io/queue-name": "main", "kueue.x-k8s.io/priority-class": "urgnt"}
    told = answer([*QUEUES, the_job("plain"), the_job("lost", **lost)], asked, "team-a", NOW)
    assert isinstance(told, str)
    assert said in told


def condition(kind: str, reason: str, message: str, status: str = "True") -> Raw:
    at = "1970-01-01T00:10:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def test_a_finished_job_has_its_result() -> None:
    raw = workload("x", 1, at=1, holds="team-a")
    raw["status"]["conditions"].append(condition("Finished", "Succeeded", "Job finished successfully"))
    told = explained(raw, of="x")
    assert (told.state, told.reason, told.message) == ("finished", "Succeeded", "Job finished successfully")


def test_a_job_whose_devices_cannot_be_counted_has_the_fix_without_the_configuration() -> None:
    raw = workload("x", 1, at=1)
    missing = (
        "spec.podSets[0].template.spec.resourceClaims[0]: Internal error: failed to get claim spec for"
        ' ResourceClaimTemplate one in podset main: resourceclaimtemplates.resource.k8s.io "one" not found'
    )
    raw["status"] = {
        "conditions": [
            condition("QuotaReserved", "Misconfigured", missing, "False"),
            condition("Requeued", "Inadmissible", missing, "False"),
        ],
    }
    told = explained(raw, of="x")
    assert (told.reason, told.message) == ("Misconfigured", missing)
    assert told.ways == ("create it in this namespace",)


def test_a_job_that_waits_for_devices_has_the_reason_of_its_status_without_the_configuration() -> None:
    raw = workload("x", 1, at=1)
    raw["spec"]["podSets"][0]["template"]["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimTemplateName": "t"}]
    assert explained(raw, of="x").reason == "Fits", "no cycle has decided it yet"
    lacks = "couldn't assign flavors to pod set main: insufficient quota for gpus in flavor standard"
    raw["status"] = {"conditions": [condition("QuotaReserved", "WaitingForQuota", lacks, "False")]}
    told = explained(raw, of="x")
    assert (told.reason, told.message) == ("WaitingForQuota", lacks)
    assert told.ways == ("with --config FILE, the Configuration of the controller, devices are counted here too",)


def test_a_job_in_backoff_has_the_remaining_time_and_the_cause() -> None:
    raw = workload("x", 1, at=1)
    message = "Exceeded the PodsReady timeout team-a/x"
    raw["status"] = {
        "requeueState": {"count": 2, "requeueAt": "1970-01-01T00:18:20Z"},
        "conditions": [condition("Requeued", "PodsReadyTimeout", message, "False")],
    }
    told = explained(raw, of="x")
    assert (told.state, told.reason) == ("backing off", "PodsReadyTimeout")
    assert told.message == f"{message}. It is requeued in 100 s"
    assert told.ways == ("it is requeued in 100 s, after eviction 2",)


def test_a_job_that_waits_for_admission_checks_lists_them() -> None:
    raw = workload("x", 1, at=1, holds="team-a")
    raw["status"]["conditions"].pop()
    raw["status"]["admissionChecks"] = [
        {"name": "capacity", "state": "Pending", "message": "", "lastTransitionTime": "1970-01-01T00:00:01Z"}
    ]
    raw["status"]["admissionChecks"][0]["message"] = "no machines yet"
    check: Raw = {
        "kind": "AdmissionCheck",
        "metadata": {"name": "capacity"},
        "spec": {"controllerName": "example.com/c"},
    }
    told = answer([*QUEUES, {"apiVersion": "kueue.x-k8s.io/v1beta2", **check}, raw], "x", "team-a", NOW)
    assert isinstance(told, Explanation)
    assert told.state == "quota reserved"
    waits = f"capacity is Pending since 1970-01-01T00:00:01Z ({round(NOW - 1)} s) (no machines yet)"
    assert told.message == f"it holds 1 cpu in standard; it waits for admission checks: {waits}"
    decides = "AdmissionCheck capacity must become Ready; controller example.com/c decides it"
    assert told.ways == (f"{decides}, but it is not active: its controller does not run",)
    raw["status"]["admissionChecks"][0]["retryCount"] = 2
    check["status"] = {"conditions": [{"type": "Active", "status": "True"}]}
    told = answer([*QUEUES, {"apiVersion": "kueue.x-k8s.io/v1beta2", **check}, raw], "x", "team-a", NOW)
    assert isinstance(told, Explanation)
    assert told.ways == (f"{decides}; it sent the workload back to the queue 2 times",)


def test_a_gated_job_names_the_owner_of_the_gate() -> None:
    raw = workload("x", 1, at=1)
    raw["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/hold"}
    told = explained(raw, of="x")
    assert (told.reason, told.message) == ("AdmissionGated", "Admission is gated by: example.com/hold")


def test_a_missing_flavor_is_the_reason_in_the_words_of_the_clusterqueue() -> None:
    queues = [raw for raw in QUEUES if raw["kind"] != "ResourceFlavor"]
    told = answer([*queues, workload("x", 1, at=1)], "x", "team-a", NOW)
    assert isinstance(told, Explanation)
    assert told.reason == "Suspended"
    assert told.message.startswith("ClusterQueue team-a is inactive: Can't admit new workloads: references missing")
    assert "standard" in told.message


STRICT = {"queueingStrategy": "StrictFIFO"}


def test_behind_a_strict_head_that_cannot_start_the_head_and_its_reason_are_named() -> None:
    told = explained(workload("huge", 20, at=1), workload("small", 1, at=2), of="small", change=STRICT)
    assert told.reason == "Behind"
    assert told.message.startswith(
        "It fits now, but team-a/job-huge is first in the queue and blocks it: the queue is StrictFIFO."
        " team-a/job-huge waits: "
        "ExceedsMaxQuota: "
    )
    assert told.ways[0] == "team-a/job-huge must first start or leave the queue: the queue is StrictFIFO"
    assert any("for team-a/job-huge: with 8 cpu more quota" in way for way in told.ways)


def test_a_job_that_waits_for_a_number_of_pods_lists_the_jobs_that_hold_them() -> None:
    group = {"coveredResources": ["pods"], "flavors": [{"name": "standard", "resources": []}]}
    group["flavors"] = [{"name": "standard", "resources": [{"name": "pods", "nominalQuota": "1"}]}]
    change = {"resourceGroups": [group], "cohortName": ""}
    held = workload("old", 0, at=1, holds="team-a")
    held["status"]["admission"]["podSetAssignments"][0] |= {
        "flavors": {"pods": "standard"},
        "resourceUsage": {"pods": "1"},
    }
    told = explained(held, workload("next", 0, at=2), of="next", change=change)
    (cell,) = plain(told)["quota"]
    assert (cell["resource"], cell["requested"], cell["free"]) == ("pods", "1", "0")
    assert told.ways[0] == "it fits when team-a/job-old ends"


def test_if_usage_exceeds_quota_the_whole_missing_amount_is_shown() -> None:
    told = explained(workload("old", 14, at=1, holds="team-a"), workload("next", 4, at=2), of="next")
    assert any(way.startswith("with 6 cpu more quota") for way in told.ways), told.ways


def test_with_block_admission_the_workload_whose_pods_are_awaited_is_named() -> None:
    chosen = ControllerSettings(policy=SchedulingPolicy(block_admission=True))
    told = answer(
        [*QUEUES, workload("old", 1, at=1, holds="team-a"), workload("next", 1, at=2)], "next", "team-a", NOW, chosen
    )
    assert isinstance(told, Explanation)
    assert told.reason == "WaitingForPodsReady"
    assert told.ways == ("it starts when the pods of team-a/job-old are ready (waitForPodsReady.blockAdmission)",)


def test_a_job_whose_name_begins_with_workload_is_found() -> None:
    assert explained(workload("workload-x", 1, at=1), of="workload-x").reason == "Fits"


def test_the_text_reads_from_what_is_wrong_to_what_to_do() -> None:
    objects = [*FULL, workload("first", 4, at=3), workload("next", 4, at=4)]
    lines = text(explained(*objects, of="next"), jobs_of(objects)).splitlines()
    first = "team-a/next (Workload job-next): waiting in ClusterQueue team-a, queue position 2 of 2, priority 0"
    assert lines[0] == first
    assert lines[1] == "  behind team-a/first"
    assert lines.index("Held by") < lines.index("What would let it start")
    assert "  - it fits when team-a/old ends" in lines
    assert lines[-1] == "Other waiting workloads may get free quota first: 1 ahead of it."


def test_a_preempted_job_names_its_preemptor() -> None:
    stopped = workload("low", 4, at=3)
    message = "Preempted to accommodate a workload (UID: 0ad, JobUID: 0b1) due to prioritization in the ClusterQueue"
    stopped["status"]["conditions"] = [
        {"type": "Evicted", "status": "True", "reason": "Preempted", "message": message, "lastTransitionTime": None}
        | {"lastTransitionTime": "1970-01-01T00:00:04Z"}
    ]
    preemptor = workload("high", 8, at=1, holds="team-a")
    preemptor["metadata"]["uid"] = "0ad"
    objects = [preemptor, FULL[1], stopped]
    said = text(explained(*objects, of="low"), jobs_of(objects))
    assert "It was evicted before: Preempted to accommodate a workload (team-a/high) due to prioritization" in said


def test_with_fair_sharing_the_least_borrower_and_other_waiting_jobs_are_named() -> None:
    rules = ControllerSettings(policy=SchedulingPolicy(fair_sharing=tuple(Strategy)))
    other = workload("other", 9, at=4, namespace="team-b")
    told = answer([*QUEUES, *FULL, workload("next", 4, at=3), other], "next", "team-a", NOW, rules)
    assert isinstance(told, Explanation)
    assert told.shares == (("team-b", 0.0), ("team-a", 250.0))
    said = text(told)
    assert "  team-b: 0\n  team-a: 250\n" in said
    assert "may get free quota first: 1 in other ClusterQueues of the cohort." in said


def test_a_path_of_cohorts_that_reads_like_a_workload_is_left_alone() -> None:
    path = "preemptor path: /team-a/job-next; preemptee path: /team-a/b"
    waiting = workload("next", 4, at=3)
    waiting["status"]["conditions"] = [
        {"type": "Evicted", "status": "True", "reason": "Preempted", "message": path, "lastTransitionTime": None}
        | {"lastTransitionTime": "1970-01-01T00:00:04Z"}
    ]
    objects = [*FULL, waiting]
    assert path in text(explained(*objects, of="next"), jobs_of(objects))


def event(message: str, at: str, reason: str = "WaitingForQuota") -> Raw:
    """An event about a Job."""
    metadata = {"name": at, "namespace": "team-a"}
    return {"kind": "Event", "metadata": metadata, "reason": reason, "message": message, "lastTimestamp": at}


JOB: Raw = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "x", "namespace": "team-a", "labels": {"kueue.x-k8s.io/queue-name": "main"}},
    "spec": {"suspend": True},
}
ADMITTED = {**JOB, "spec": {"suspend": False}}
EVENTS = (
    event("Waits: a", "2026-01-01T00:00:01Z"),
    event("Waits: b", "2026-01-01T00:00:02Z"),
    event("Created", "2027"),
)


@pytest.mark.parametrize(
    ("objects", "state", "message"),
    [
        ((JOB, *EVENTS), "waiting", "Waits: b"),
        ((JOB,), "waiting", "no reason is recorded yet"),
        ((ADMITTED, *EVENTS), "admitted", "it is not suspended"),
        ((JOB, workload("x", 1, at=1), *EVENTS), "waiting", "Waits: b"),
        ((ADMITTED, workload("x", 1, at=1, holds="team-a")), "admitted", ""),
    ],
    ids=["by its events", "by nothing", "by the Job", "its Workload says nothing", "by its Workload"],
)
def test_with_few_rights_the_state_is_shown_with_what_could_not_be_read(
    objects: tuple[Raw, ...], state: str, message: str
) -> None:
    told = partial_answer(Seen(list(objects), ("clusterqueues",)), "x", "team-a")
    assert isinstance(told, Explanation)
    assert (told.state, told.message, told.unseen) == (state, message, ("clusterqueues",))


@pytest.mark.parametrize(
    ("unseen", "said"),
    [
        ("jobs", "you may not read Job x in namespace team-a or its Workload: ask for that right"),
        ("clusterqueues", "there is no Job x in namespace team-a; see kubectl get jobs -n team-a"),
    ],
)
def test_a_job_that_is_not_shown_is_not_reported_as_missing(unseen: str, said: str) -> None:
    assert partial_answer(Seen([], (unseen,)), "x", "team-a") == said


def test_a_jobset_is_asked_for_by_its_kind() -> None:
    waiting = workload("sets", 4, at=3)
    waiting["metadata"]["ownerReferences"][0] |= {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    queued = {"kind": "JobSet", "metadata": {"name": "new", "namespace": "team-a", "labels": QUEUE}, "spec": {}}
    objects = [*QUEUES, *FULL, waiting, queued]
    for asked in ("jobset/sets", "jobsets/sets", "workload/job-sets"):
        told = answer(objects, asked, "team-a", NOW)
        assert isinstance(told, Explanation), told
        assert (told.key.name, told.state) == ("job-sets", "waiting")
    assert str(answer(objects, "sets", "team-a", NOW)).startswith("there is no Job sets in namespace team-a")
    assert str(answer(objects, "jobset/new", "team-a", NOW)).startswith(
        "JobSet new names queue main but has no Workload"
    )


def owned(kind: str, name: str, by: str = "", version: str = "apps/v1") -> Raw:
    """An object that names a queue, and the one that controls it."""
    references = [{"kind": "any", "name": by, "uid": f"uid-{by}", "controller": True}] if by else []
    metadata = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "labels": QUEUE}
    return {"apiVersion": version, "kind": kind, "metadata": {**metadata, "ownerReferences": references}}


def of_pod(name: str, **more: Any) -> Raw:
    raw = workload(name, 4, **more)
    raw["metadata"] |= {"name": f"pod-{name}", "ownerReferences": owned("Pod", "", name)["metadata"]["ownerReferences"]}
    raw["metadata"]["ownerReferences"][0] |= {"kind": "Pod", "apiVersion": "v1"}
    return raw


DEPLOYED = [
    owned("Deployment", "web") | {"spec": {"replicas": 3}},
    owned("ReplicaSet", "web-1", "web"),
    *(owned("Pod", f"web-1-{name}", "web-1", "v1") | {"spec": {}} for name in "abc"),
    of_pod("web-1-a", at=1, holds="team-a"),
    of_pod("web-1-b", at=3),
    of_pod("web-1-c", at=4),
]
SUMMARY = "Deployment web: 1 of 3 pods is admitted, 2 wait. The first that waits:"


def test_a_deployment_is_explained_with_the_first_of_its_pods_that_waits() -> None:
    objects = [*QUEUES, workload("old", 8, at=1, holds="team-a"), *DEPLOYED]
    told = answer(objects, "deployment/web", "team-a", NOW)
    assert isinstance(told, Explanation), told
    assert told.message.endswith("insufficient unused quota for cpu in flavor standard, 4 more needed")
    assert text(told, jobs_of(objects)).splitlines()[:2] == [
        SUMMARY,
        "team-a/web-1-b (Workload pod-web-1-b): waiting in ClusterQueue team-a, queue position 1 of 2, priority 0",
    ]
    assert plain(told)["summary"] == SUMMARY


def test_a_deployment_is_explained_with_the_rights_of_one_namespace() -> None:
    waits = [condition("QuotaReserved", "WaitingForQuota", "no quota", "False")]
    objects = [each | {"status": {"conditions": waits}} if "pod-web-1-b" in str(each) else each for each in DEPLOYED]
    told = partial_answer(Seen(objects, ("clusterqueues",)), "deployments/web", "team-a")
    assert isinstance(told, Explanation), told
    assert (told.summary, told.message, told.unseen) == (SUMMARY, "no quota", ("clusterqueues",))


@pytest.mark.parametrize(
    ("change", "asked", "said"),
    [
        ({}, "deployment/wbe", "there is no Deployment wbe in namespace team-a: did you mean web?"),
        ({}, "deployment/web", "Deployment web names queue main but has no Workload yet; kubectl describe deployment"),
        ({"spec": {"replicas": 0}}, "deployment/web", "Deployment web has 0 replicas, so there are no pods that"),
        ({"metadata": {"name": "web", "namespace": "team-a"}}, "deployment/web", "does not wait: it names no queue"),
    ],
)
def test_a_deployment_without_workloads_has_the_reason(change: Raw, asked: str, said: str) -> None:
    told = answer([*QUEUES, owned("Deployment", "web") | {"spec": {}} | change], asked, "team-a", NOW)
    assert isinstance(told, str)
    assert said in told


def test_the_workload_of_a_group_has_the_name_of_its_owner() -> None:
    group = workload("store", 4, at=1)
    marks = {"is-group-workload": "true", "job-owner-name": "store"}
    group["metadata"]["annotations"] = {f"kueue.x-k8s.io/{key}": value for key, value in marks.items()}
    told = answer([*QUEUES, group], "workload/job-store", "team-a", NOW)
    assert isinstance(told, Explanation), told
    assert text(told, jobs_of([group])).startswith("team-a/store (Workload job-store): waiting")


def test_pods_that_are_in_no_whole_slice_are_named() -> None:
    rooms = Rooms("main", "tas", "cloud/rack", 2, "slice of 2 pods", True, (DomainRoom("a", 1, 2),), left=1)
    printed = text(Explanation(Key("ns", "job"), "waiting", rooms=(rooms,)))
    assert "1 pod is in no whole slice: no domain is given for it" in printed
    assert plain(Explanation(Key("ns", "job"), "waiting", rooms=(rooms,)))["topology"][0]["podsInNoSlice"] == 1
