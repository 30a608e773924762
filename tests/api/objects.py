"""Small valid objects of each kind, to be spoilt by a test in one place."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from api.objects import Raw

NOW = "2026-01-01T00:00:00Z"


def obj(kind: str, spec: Raw | None = None, status: Raw | None = None, **metadata: Any) -> Raw:
    """An object of ours in the stored version."""
    made: Raw = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "x", **metadata}}
    if spec is not None:
        made["spec"] = spec
    if status is not None:
        made["status"] = status
    return made


def changed(base: Raw, path: str, value: Any) -> Raw:
    """A copy with one field set: `spec.resourceGroups[0].flavors[0].name`; a value of ... removes it."""
    result = deepcopy(base)
    node: Any = result
    steps: list[str | int] = []
    for part in path.split("."):
        name, *indexes = part.replace("]", "").split("[")
        steps += [name, *(int(index) for index in indexes)]
    for step in steps[:-1]:
        node = node.setdefault(step, {}) if isinstance(step, str) else node[step]
    if value is ...:
        del node[steps[-1]]
    elif isinstance(node, list) and steps[-1] == len(node):
        node.append(value)
    else:
        node[steps[-1]] = value
    return result


def quota(name: str, nominal: str | int = "4", **limits: str | int) -> Raw:
    """A quota."""
    return {"name": name, "nominalQuota": nominal, **limits}


def group(*flavors: str, resources: tuple[str, ...] = ("cpu", "memory")) -> Raw:
    """A resource group with a quota of 4 for each."""
    return {
        "coveredResources": list(resources),
        "flavors": [{"name": name, "resources": [quota(resource) for resource in resources]} for name in flavors],
    }


def cluster_queue(**spec: Any) -> Raw:
    """A ClusterQueue in a cohort, with two flavors."""
    return obj("ClusterQueue", {"cohortName": "team", "resourceGroups": [group("a", "b")], **spec})


def pod_set(name: str = "main", count: int = 2, **fields: Any) -> Raw:
    """A pod set of one container."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container]}}, **fields}


def condition(kind: str, status: str = "True") -> Raw:
    """A condition."""
    return {"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": NOW}


def workload(*pod_sets: Raw, status: Raw | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    """A Workload."""
    metadata: Raw = {"annotations": annotations} if annotations else {}
    return obj(
        "Workload",
        {"queueName": "q", "podSets": list(pod_sets or [pod_set()]), **spec},
        status,
        namespace="default",
        **metadata,
    )


def admitted(**fields: Any) -> Raw:
    """The status of a Workload that holds quota for its one pod set."""
    return {
        "conditions": [condition("QuotaReserved"), condition("Admitted")],
        "admission": {
            "clusterQueue": "cq",
            "podSetAssignments": [{"name": "main", "count": 2, "flavors": {"cpu": "a"}, "resourceUsage": {"cpu": "2"}}],
        },
        **fields,
    }


VALID: dict[str, Callable[[], Raw]] = {
    "AdmissionCheck": lambda: obj("AdmissionCheck", {"controllerName": "example.com/check"}),
    "ClusterQueue": cluster_queue,
    "Cohort": lambda: obj("Cohort", {"parentName": "root", "resourceGroups": [group("a")]}),
    "LocalQueue": lambda: obj("LocalQueue", {"clusterQueue": "cq"}, namespace="default"),
    "MultiKueueCluster": lambda: obj("MultiKueueCluster", {"clusterSource": {"kubeConfig": {"location": "secret"}}}),
    "MultiKueueConfig": lambda: obj("MultiKueueConfig", {"clusters": ["a", "b"]}),
    "ProvisioningRequestConfig": lambda: obj("ProvisioningRequestConfig", {"provisioningClassName": "class"}),
    "ResourceFlavor": lambda: obj(
        "ResourceFlavor",
        {
            "nodeLabels": {"kind": "spot"},
            "nodeTaints": [{"key": "spot", "value": "true", "effect": "NoSchedule"}],
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        },
    ),
    "Topology": lambda: obj("Topology", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}),
    "Workload": workload,
    "WorkloadPriorityClass": lambda: {**obj("WorkloadPriorityClass"), "value": 10},
}
