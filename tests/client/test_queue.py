"""Which Workload is that of a job."""

from __future__ import annotations

from typing import Any

import pytest

from seiretsu.client import ApiError, Job, Phase, Queue


class Api:
    """Plays the API server: remembers the queries, and has one Workload."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked.append(query)
        return {"items": [{"metadata": {"name": "w", "creationTimestamp": ""}, "spec": {}}]}


def job(kind: str, **labels: str) -> tuple[Api, Job]:
    api = Api()
    manifest = {"kind": kind, "metadata": {"name": "a", "uid": "1", "labels": labels}}
    return api, Job(Queue(api, "main"), manifest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "labels", "query"),
    [
        ("Job", {}, {"labelSelector": "kueue.x-k8s.io/job-uid=1"}),
        ("Pod", {}, {"labelSelector": "kueue.x-k8s.io/job-uid=1"}),
        ("Pod", {"kueue.x-k8s.io/pod-group-name": "g"}, {"fieldSelector": "metadata.name=g"}),
        ("Job", {"kueue.x-k8s.io/pod-group-name": "g"}, {"labelSelector": "kueue.x-k8s.io/job-uid=1"}),
    ],
)
def test_the_workload_of_a_job_is_found_by_its_uid_and_that_of_a_pod_group_by_its_name(
    kind: str, labels: dict[str, str], query: dict[str, str]
) -> None:
    api, found = job(kind, **labels)
    assert found.state().phase is Phase.WAITING
    assert api.asked == [query]


@pytest.mark.parametrize("kind", ["CronJob", "Deployment", "LeaderWorkerSet"])
def test_a_kind_with_many_workloads_is_refused_clearly_instead_of_waited_for(kind: str) -> None:
    with pytest.raises(ValueError, match=f"a {kind} has no Workload of its own"):
        job(kind)[1].wait()


class Cluster(Api):
    """An API server with these objects, by the end of their path."""

    def __init__(self, **objects: Any) -> None:
        super().__init__()
        self.objects = objects

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if path == "/apis/batch/v1":
            return {"resources": [{"name": "jobs", "kind": "Job"}]}
        found = self.objects.get(path.rpartition("/")[2])
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, dict) else {"items": found or []}


def why(kind: str = "Job", **objects: Any) -> str:
    manifest = {"kind": kind, "metadata": {"name": "a", "uid": "1"}, "spec": {}}
    return Job(Queue(Cluster(**objects), "mian"), manifest).why()  # type: ignore[arg-type]


def workload(queue: str = "mian", message: str = "LocalQueue mian doesn't exist", kind: str = "Job") -> dict[str, Any]:
    owner = {"kind": kind, "name": "a", "uid": "1", "controller": True}
    waits = {"type": "QuotaReserved", "status": "False", "reason": "Misconfigured", "message": message}
    return {
        "metadata": {"name": "w", "namespace": "n", "creationTimestamp": "", "ownerReferences": [owner]},
        "spec": {"queueName": queue, "podSets": [{"name": "main", "count": 2}]},
        "status": {"conditions": [waits]},
    }


def runs(kind: str = "Job") -> dict[str, Any]:
    found = workload(kind=kind)
    at = "1970-01-01T00:00:00Z"
    admitted = [
        {"type": each, "status": "True", "message": "", "lastTransitionTime": at}
        for each in ("QuotaReserved", "Admitted")
    ]
    return {**found, "status": {"conditions": admitted}}


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


@pytest.mark.parametrize(
    ("queues", "hint"),
    [
        ([named("gpu"), named("main")], ': did you mean "main"?'),
        ([named("gpu")], "; available: gpu"),
        ([], "; the namespace has none"),
        (ApiError(403, "Forbidden", "no"), ""),
    ],
)
def test_a_misspelt_queue_has_a_proposal(queues: Any, hint: str) -> None:
    assert why(workloads=[workload()], localqueues=queues) == f"waiting: LocalQueue mian doesn't exist{hint}"


def test_a_queue_that_exists_by_now_has_no_proposal() -> None:
    assert why(workloads=[workload()], localqueues=[named("mian")]) == "waiting: LocalQueue mian doesn't exist"


PENDING = {
    "metadata": {"name": "p", "uid": "p"},
    "status": {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/4 nodes"}],
    },
}


def test_why_an_admitted_job_does_not_run_is_said() -> None:
    said = why(workloads=[runs()], pods=[PENDING, PENDING])
    assert said == "running; 0 of 2 pods run or have succeeded: Unschedulable: 2 of 2 pods are Pending: 0/4 nodes"
    assert why(workloads=[runs()], pods=ApiError(403, "Forbidden", "no")) == "running"


def test_the_refusal_of_a_part_of_the_job_is_its_own() -> None:
    event = {
        "reason": "FailedCreate",
        "message": "Error creating: exceeded quota: small",
        "lastTimestamp": "1970-01-01T00:00:05Z",
        "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "name": "a-main-0", "uid": "child"},
    }
    part = {"metadata": {"name": "a-main-0", "ownerReferences": [{"uid": "1"}]}}
    told = {"workloads": [runs("JobSet")], "events": [event], "a-main-0": part}
    assert "none of its 2 pods exists, and the next is refused: exceeded quota: small" in why("JobSet", **told)
    other = {"metadata": {"name": "a-main-0", "ownerReferences": [{"uid": "2"}]}}
    assert "FailedCreate" not in why("JobSet", **{**told, "a-main-0": other})
