"""Queues and Workloads as the API server has them, for the tests of the page."""

from __future__ import annotations

from api.objects import Raw

BORN = "2020-01-01T00:00:00Z"


def condition(kind: str, status: str = "True", message: str = "", reason: str = "R") -> Raw:
    return {"type": kind, "status": status, "message": message, "reason": reason, "lastTransitionTime": BORN}


def cluster_queue(name: str, *, waiting: int = 0, running: int = 0, active: bool = True, **spec: object) -> Raw:
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "8"}]}
    used = {"name": "default", "resources": [{"name": "cpu", "total": "6", "borrowed": "2"}]}
    told = condition("Active", "True" if active else "False", "" if active else "FlavorNotFound: no flavor x")
    return {
        "metadata": {"name": name, "resourceVersion": "1", "creationTimestamp": BORN},
        "spec": {"cohortName": "all", "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}], **spec},
        "status": {
            "pendingWorkloads": waiting,
            "admittedWorkloads": running,
            "flavorsUsage": [used],
            "conditions": [told],
        },
    }


def local_queue(name: str, cluster_queue_name: str, namespace: str = "team-a") -> Raw:
    metadata = {"name": name, "namespace": namespace, "resourceVersion": "1", "creationTimestamp": BORN}
    return {"metadata": metadata, "spec": {"clusterQueue": cluster_queue_name}, "status": {}}


def workload(
    name: str,
    *conditions: Raw,
    queue: str = "main",
    namespace: str = "team-a",
    priority: int = 0,
    created: str = BORN,
    admission: Raw | None = None,
    version: str = "1",
) -> Raw:
    owner = {"kind": "Job", "apiVersion": "batch/v1", "name": name, "uid": "1", "controller": True}
    return {
        "metadata": {
            "name": f"job-{name}",
            "namespace": namespace,
            "resourceVersion": version,
            "creationTimestamp": created,
            "ownerReferences": [owner],
        },
        "spec": {"queueName": queue, "priority": priority},
        "status": {"conditions": [*conditions], **({"admission": admission} if admission else {})},
    }


def admission(cluster_queue_name: str, flavor: str = "default") -> Raw:
    return {"clusterQueue": cluster_queue_name, "podSetAssignments": [{"name": "main", "flavors": {"cpu": flavor}}]}


def running(name: str, cluster_queue_name: str = "cq", **fields: object) -> Raw:
    told = (condition("QuotaReserved"), condition("Admitted"))
    return workload(name, *told, admission=admission(cluster_queue_name), **fields)  # type: ignore[arg-type]


def waiting(name: str, why: str = "no room", **fields: object) -> Raw:
    return workload(name, condition("QuotaReserved", "False", why), **fields)  # type: ignore[arg-type]
