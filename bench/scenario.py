"""The cluster of a benchmark: ClusterQueues in cohorts, and Jobs without a controller.

The Jobs have ``spec.managedBy``, so that kube-controller-manager ignores them: no pods are created, and queueing is
measured rather than the machine. Everything else about them is usual.
"""

from typing import NamedTuple

from api.objects import Raw, Resource

GROUP = "kueue.x-k8s.io"
FLAVORS = Resource(GROUP, "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False)
CLUSTER_QUEUES = Resource(GROUP, "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES = Resource(GROUP, "v1beta2", "localqueues", "LocalQueue")
WORKLOADS = Resource(GROUP, "v1beta2", "workloads", "Workload")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
JOBS = Resource("batch", "v1", "jobs", "Job")

NAMESPACE = "bench"
MANAGED_BY = "bench.seiretsu.dev/nobody"


class Size(NamedTuple):
    """How many Jobs are created in how many ClusterQueues in how many cohorts; ``quota`` is a ClusterQueue's cpu."""

    jobs: int
    queues: int
    cohorts: int

    @property
    def quota(self) -> int:
        """Returns quota for all Jobs: Seiretsu is measured, not the wait for quota."""
        return 10 * self.jobs + 100_000


def setting(size: Size) -> list[tuple[Resource, str, Raw]]:
    """Returns what must exist before the first Job, in order: resource, namespace, object."""
    cover = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": size.quota}]}
    found: list[tuple[Resource, str, Raw]] = [
        (NAMESPACES, "", {"metadata": {"name": NAMESPACE}}),
        (FLAVORS, "", _named(FLAVORS, "default")),
    ]
    for number in range(size.queues):
        spec = {
            "cohortName": f"cohort-{number % size.cohorts}",
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [cover]}],
        }
        found.append((CLUSTER_QUEUES, "", _named(CLUSTER_QUEUES, f"cq-{number}") | {"spec": spec}))
        local = _named(LOCAL_QUEUES, f"lq-{number}") | {"spec": {"clusterQueue": f"cq-{number}"}}
        found.append((LOCAL_QUEUES, NAMESPACE, local))
    return found


def job(name: str, queue: str = "", cpu: str = "1") -> Raw:
    """Returns a Job of one pod; with ``queue`` it is queued."""
    labels = {f"{GROUP}/queue-name": queue} if queue else {}
    container = {"name": "main", "image": "busybox:1.36", "command": ["true"], "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "managedBy": MANAGED_BY,
            "suspend": bool(queue),
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def _named(resource: Resource, name: str) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
