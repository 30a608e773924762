"""StatefulSets in other clusters: the object is created there, its pods here wait, and its status here is its own."""

from __future__ import annotations

from dataclasses import replace

from api.names import CheckState
from api.objects import Key, Raw
from core.jobs.mirrored_owners import MIRRORED_OWNERS
from core.jobs.pod_owners import STATEFUL_SET
from core.multikueue import here
from core.multikueue.group import Group, Worker
from core.multikueue.there import Begin, Withdraw, decide
from tests.core.multikueue.groups import copy, group

(KIND,) = MIRRORED_OWNERS


def stateful_set(uid: str = "u-s", *, status: Raw | None = None, **labels: str) -> Raw:
    metadata = {"name": "s", "namespace": "ns", "uid": uid, "resourceVersion": "4", "labels": {"app": "s", **labels}}
    spec: Raw = {"replicas": 2, "serviceName": "s", "template": {"spec": {"containers": []}}}
    return {"metadata": metadata, "spec": spec, "status": status or {"replicas": 2}}


def of_set(cluster: str = "w1", **found: str) -> Group:
    given = group(check=CheckState.READY, cluster=cluster, **found)  # type: ignore[arg-type]
    return replace(given, kind=KIND, job=stateful_set())


def test_it_is_created_in_the_worker_and_names_its_workload_and_its_origin() -> None:
    found = decide(of_set(), Worker("w1", workload=copy(Admitted="True")))
    assert isinstance(found, Begin)
    (made,) = found.manifests
    assert (made["apiVersion"], made["kind"]) == ("apps/v1", STATEFUL_SET.resource.kind)
    assert made["spec"] == stateful_set()["spec"]
    assert made["metadata"]["labels"]["app"] == "s"
    assert made["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] == "multikueue"
    assert made["metadata"]["annotations"]["kueue.x-k8s.io/multikueue-origin-uid"] == "u-s"
    assert "status" not in made
    assert (*KIND.workloads_of(made),) == (Key("ns", copy()["metadata"]["name"]),)


def test_its_status_here_is_not_changed() -> None:
    remote = stateful_set("u-there", status={"replicas": 2, "readyReplicas": 2})
    worker = Worker("w1", workload=copy(Admitted="True"), jobs=(remote,))
    assert here.decide(replace(of_set(), workers=(worker,))) == here.Wait()
    assert decide(of_set(), worker) is None


def test_it_is_deleted_in_the_worker_when_its_workload_has_no_quota_here() -> None:
    without = replace(of_set(held=False), job=stateful_set())  # type: ignore[arg-type]
    worker = Worker("w1", workload=copy(Admitted="True"), jobs=(stateful_set("u-there"),))
    found = decide(without, worker)
    assert isinstance(found, Withdraw) and found.jobs == worker.jobs and found.workload == worker.workload
