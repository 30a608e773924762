"""What is queued of a Deployment, a StatefulSet or a LeaderWorkerSet, and which Workload is explained."""

from __future__ import annotations

from typing import Any

import pytest

from api.names import Annotation
from core.explain.parts import called, parts
from core.jobs.pod_owners import DEPLOYMENT, LEADER_WORKER_SET, STATEFUL_SET
from core.model import Raw
from tests.core.jobs import test_leader_worker_sets as lws
from tests.core.jobs import test_stateful_sets as sts


def controlled(kind: str, name: str, by: str, **more: Any) -> Raw:
    references = [{"kind": "any", "name": by, "uid": f"uid-{by}", "controller": True}]
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "ownerReferences": references}
    return {"kind": kind, "metadata": metadata, **more}


def of_pod(pod: str, at: int, *conditions: str) -> Raw:
    raw = controlled("Workload", f"pod-{pod}", pod)
    raw["metadata"]["creationTimestamp"] = f"1970-01-01T00:00:{at:02d}Z"
    return raw | {"status": {"conditions": [{"type": each, "status": "True"} for each in conditions]}}


WEB: Raw = {"kind": "Deployment", "metadata": {"name": "web", "uid": "uid-web"}, "spec": {"replicas": 5}}
OLD, NEW = (controlled("ReplicaSet", name, "web") for name in ("web-1", "web-2"))
FOREIGN = (
    controlled("ReplicaSet", "other-1", "other"),
    controlled("Pod", "stranger", "other-1"),
    of_pod("stranger", 1),
    controlled("Pod", "failed", "web-2", status={"phase": "Failed"}),
    of_pod("failed", 1, "Finished"),
)


def shown(objects: list[Raw], owner: Raw = WEB) -> tuple[str, str]:
    found = parts(DEPLOYMENT, owner, [OLD, NEW, *FOREIGN, *objects])
    assert found is not None
    return found.shown["metadata"]["name"], found.summary


def test_the_pods_of_a_deployment_are_counted_and_the_first_that_waits_is_explained() -> None:
    pods = [controlled("Pod", name, "web-1" if name == "a" else "web-2") for name in "abcd"]
    workloads = [of_pod("a", 1, "Admitted"), of_pod("b", 4), of_pod("c", 3)]
    summary = "1 of 5 pods is admitted, 2 wait, 1 has no Workload yet, 1 does not exist yet. The first that waits:"
    assert shown([*pods, *workloads]) == ("pod-c", f"Deployment web: {summary}")


def test_a_pod_that_is_evicted_waits() -> None:
    objects = [controlled("Pod", "a", "web-1"), of_pod("a", 1, "Admitted", "Evicted")]
    one = WEB | {"spec": {"replicas": 1}}
    assert shown(objects, one) == ("pod-a", "Deployment web: 0 of 1 pods are admitted, 1 waits. The first that waits:")


def test_pods_above_the_replicas_during_an_update_are_counted() -> None:
    objects = [*(controlled("Pod", name, "web-1") for name in "ab"), of_pod("a", 1, "Admitted"), of_pod("b", 2)]
    summary = "Deployment web: 1 of 2 pods is admitted, 1 waits. The first that waits:"
    assert shown(objects, WEB | {"spec": {"replicas": 1}}) == ("pod-b", summary)


def test_without_a_workload_nothing_is_queued() -> None:
    assert parts(DEPLOYMENT, WEB, [OLD, controlled("Pod", "a", "web-1"), *FOREIGN]) is None


def test_each_group_of_a_leader_worker_set_counts() -> None:
    owner = lws.made(replicas=3)
    first, second, third = ({"kind": "Workload", **raw} for raw in lws.workloads_of(owner))
    first["status"] = {"conditions": [{"type": "Admitted", "status": "True"}]}
    found = parts(LEADER_WORKER_SET, owner, [first, second, third])
    assert found is not None
    assert found.shown is second
    assert found.summary == "LeaderWorkerSet m: 1 of 3 groups is admitted, 2 wait. The first that waits:"
    assert [called(each) for each in (first, second)] == ["m group 0", "m group 1"]
    found = parts(LEADER_WORKER_SET, owner, [first])
    assert found is not None
    assert found.summary.startswith("LeaderWorkerSet m: 1 of 3 groups is admitted, 2 have no Workload yet")


@pytest.mark.parametrize(
    ("replicas", "summary"),
    [
        (2, ""),
        (4, "StatefulSet s: the quota is for 2 of 4 replicas, 2 pods wait: scale it to 2, or to 0 and then to 4"),
    ],
)
def test_a_stateful_set_has_one_workload_and_pods_without_quota_are_reported(replicas: int, summary: str) -> None:
    raw = {"kind": "Workload", **sts.admitted(sts.workload_of(sts.stateful_set(replicas=2)))}
    found = parts(STATEFUL_SET, sts.stateful_set(replicas=replicas), [raw])
    assert found is not None
    assert (found.shown, found.summary) == (raw, summary)
    assert called(raw) == "s"
    raw["metadata"]["annotations"][Annotation.IS_GROUP_WORKLOAD] = "false"
    assert not called(raw)
