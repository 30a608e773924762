"""Which Workload is that of a job."""

from __future__ import annotations

from typing import Any

import pytest

from seiretsu.client import Job, Phase, Queue


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
