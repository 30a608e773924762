"""RayCluster (ray.io/v1): a head and groups of workers; and what a RayJob and a RayService have in common with it.

KubeRay adds containers to the head that no template has: they are counted in the Workload, and never written. It
accepts changes of templates while a cluster runs and leaves its pods as they are: one write stops a cluster and
restores its templates. Its ``state`` is stale while pods start and end, so a cluster is active until it is reported as
suspended (seen with v1.6.2).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from api import quantity
from api.builtin import BOOLEAN, INTEGER, METADATA, POD_TEMPLATE, QUANTITY, TEXT, Schema, fields, list_of, map_of
from api.errors import FieldError, forbidden, invalid, too_many
from api.feature_gates import Enabled
from api.names import MULTIKUEUE_CONTROLLER, Annotation
from api.objects import Resource, key_of
from api.structural import Form
from core.actions import Delete, Target, Write
from core.jobs import meta
from core.jobs.admission import metadata
from core.jobs.fields import Path, at, dotted
from core.jobs.job_reader import Outcome, Slot, count, holds
from core.jobs.job_starter import Right
from core.jobs.kind import JobKind
from core.model import Raw

MOST_POD_SETS: Final = 18
HEAD: Final = "head"
_AUTOSCALED: Final = ("spec", "enableInTreeAutoscaling")
_REPLICAS_IN_CEL: Final = "(has(group.replicas) ? group.replicas : 1)"
_LEAST_IN_CEL: Final = "(has(group.minReplicas) ? group.minReplicas : 0)"
_FAULT_TOLERANT: Final = "ray.io/ft-enabled"
_AUTOSCALER: Final = {"cpu": "500m", "memory": "512Mi"}
_REDIS_CLEANUP: Final = {"cpu": "200m", "memory": "256Mi"}
"""KubeRay runs a Job with these requests when a cluster with fault tolerance ends, after its head."""

CLUSTER: Final[dict[str, Schema]] = {
    "enableInTreeAutoscaling": BOOLEAN,
    "autoscalerOptions": fields(resources=fields(requests=map_of(QUANTITY), limits=map_of(QUANTITY))),
    "headGroupSpec": fields(template=POD_TEMPLATE),
    "workerGroupSpecs": list_of(
        fields(groupName=TEXT, replicas=INTEGER, minReplicas=INTEGER, numOfHosts=INTEGER, template=POD_TEMPLATE),
    ),
}
"""The fields of a cluster that are read."""


class RayKind(JobKind):
    """A kind that runs a cluster; ``pods_path`` is the field that describes it."""

    pods_label = "ray.io/cluster"
    pods_field = "replicas"
    managed_by = ("spec", "managedBy")
    own_controller = "ray.io/kuberay-operator"
    elastic = True
    updates_checked_by_queue = True

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """Returns the pod set ``head``, and one for each group of workers."""
        cluster = at(job, self.pods_path)
        if not cluster:
            return []
        groups = enumerate(_scaled(groups_of(cluster), self.autoscaled(job, related)))
        return [
            Slot(HEAD, 1, self._head_path, called="the head group"),
            *(
                Slot(
                    str(each.get("groupName") or "").lower(),
                    _replicas(each) * max(each.get("numOfHosts") or 1, 1),
                    (*self.pods_path, "workerGroupSpecs", index, "template"),
                    called="worker group {}",
                    field="replicas" if (each.get("numOfHosts") or 1) <= 1 else "replicas times numOfHosts",
                )
                for index, each in groups
            ),
        ]

    def autoscaled(self, job: Raw, related: Sequence[Raw] = ()) -> Raw | None:
        """The RayCluster whose worker groups an autoscaler resizes instead of those of the job; None for none."""
        return None

    def template_of(self, job: Raw, slot: Slot, related: Sequence[Raw] = ()) -> Raw | None:
        """The pod template of a group; that of the head with everything that KubeRay adds to it."""
        found: Raw | None = super().template_of(job, slot, related)
        return self.head(job, found) if found and slot.path == self._head_path else found

    @property
    def _head_path(self) -> Path:
        return (*self.pods_path, "headGroupSpec", "template")

    def head(self, job: Raw, template: Raw) -> Raw:
        """The head's template with the container of the autoscaler, and with the requests of Redis' clean-up."""
        cluster = at(job, self.pods_path)
        spec = template.get("spec") or {}
        containers = list(spec.get("containers") or ())
        if containers and fault_tolerant(job, cluster):
            containers[0] = _at_least(containers[0], _REDIS_CLEANUP)
        if cluster.get("enableInTreeAutoscaling"):
            given = (cluster.get("autoscalerOptions") or {}).get("resources")
            resources = given or {"requests": _AUTOSCALER, "limits": _AUTOSCALER}
            containers.append({"name": "autoscaler", "resources": resources})
        return {**template, "spec": {**spec, "containers": containers}}

    def validate_create(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        """The rules for a cluster in a queue."""
        return self.cluster_errors(job, enabled) + super().validate_create(job, enabled)

    def cluster_errors(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        """Returns the errors of the cluster: autoscaling, the number of its groups and their names."""
        cluster, path = at(job, self.pods_path) or {}, dotted(self.pods_path)
        groups = cluster.get("workerGroupSpecs") or []
        errors: list[FieldError] = []
        if cluster.get("enableInTreeAutoscaling") and not self.may_scale(job, enabled):
            errors.append(invalid(f"{path}.enableInTreeAutoscaling", True, self.autoscaling_error))
        if len(groups) >= MOST_POD_SETS:
            errors.append(too_many(f"{path}.workerGroupSpecs", len(groups) + 1, MOST_POD_SETS))
        reserved = f'"{HEAD}" is reserved for the head group'
        return errors + [
            forbidden(f"{path}.workerGroupSpecs[{index}].groupName", reserved)
            for index, each in enumerate(groups)
            if each.get("groupName") == HEAD
        ]

    autoscaling_error = "a kueue managed job should only use autoscaling when workload slicing is enabled"

    def may_scale(self, job: Raw, enabled: Enabled) -> bool:
        """Whether the number of workers may change while they run: it is an elastic job, where those exist."""
        return metadata.elastic(job, enabled)


class RayCluster(RayKind):
    """The ``ray.io/raycluster`` framework."""

    framework = "ray.io/raycluster"
    counted = "`head`; each worker group: its replicas times hosts"
    resizable = True
    resource = Resource("ray.io", "v1", "rayclusters", "RayCluster")
    pods_path = ("spec",)
    first_template = ("spec", "headGroupSpec", "template")
    pods_in_cel = (
        "has({job}.spec.workerGroupSpecs) ? {job}.spec.workerGroupSpecs.map(group,"
        f" ({_LEAST_IN_CEL} > {_REPLICAS_IN_CEL} ? {_LEAST_IN_CEL} : {_REPLICAS_IN_CEL}) *"
        " (has(group.numOfHosts) && group.numOfHosts > 1 ? group.numOfHosts : 1)).sum() : 0"
    )
    form = Form(fields(metadata=METADATA, spec=fields(suspend=BOOLEAN, managedBy=TEXT, **CLUSTER)))

    def size_fields(self, job: Raw) -> Mapping[str, tuple[Path, int]]:
        """The replicas of each group of workers. Those of RayJobs and RayServices are changed in the worker only, in
        the RayCluster that is made of them there.
        """
        workers = [slot for slot in self.slots(job) if slot.path != self._head_path]
        hosts = (at(job, (*slot.path[:-1], "numOfHosts")) or 1 for slot in workers)
        return {
            slot.name: ((*slot.path[:-1], "replicas"), max(each, 1)) for slot, each in zip(workers, hosts, strict=True)
        }

    autoscaling_error = (
        "a kueue-managed RayCluster can use autoscaling only as an elastic job: enable the ElasticJobsViaWorkloadSlices"
        f' feature gate and set the "{Annotation.ELASTIC_JOB}": "true" annotation'
    )

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether KubeRay has seen it, and does not report it as suspended."""
        return active(job)

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """A cluster runs until it is deleted."""
        return None

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether KubeRay reports it as ready."""
        return state(job) == "ready"

    def awaits_pods(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether workers are missing: a cluster stays ready when it gets more of them."""
        status = job.get("status") or {}
        return state(job) != "ready" or status.get("desiredWorkerReplicas", 0) > status.get("readyWorkerReplicas", 0)

    def cluster_errors(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        """Returns the errors of the cluster; an autoscaler in another cluster cannot resize it."""
        errors = super().cluster_errors(job, enabled)
        elsewhere = at(job, ("spec", "managedBy")) == MULTIKUEUE_CONTROLLER and at(job, _AUTOSCALED)
        if elsewhere and metadata.elastic(job, enabled):
            detail = "in-tree autoscaling is not supported for a MultiKueue-managed elastic RayCluster"
            errors.append(forbidden(dotted(_AUTOSCALED), detail))
        return errors


RAY_CLUSTER: Final = RayCluster()


class RunsCluster(RayKind):
    """A kind whose objects have a RayCluster, which its autoscaler resizes; ``cluster_path`` has the cluster's name.

    KubeRay does nothing with an object that it finds invalid, and its owner can make it invalid while it runs: then
    nobody but Seiretsu stops its clusters (seen with v1.6.2).
    """

    related = (RAY_CLUSTER.resource,)
    rights: ClassVar[tuple[Right, ...]] = (Right(RAY_CLUSTER.resource, "delete"),)
    cluster_path: ClassVar[Path]

    @abstractmethod
    def invalid(self, job: Raw) -> bool:
        """Whether KubeRay has found it invalid."""

    def stop(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Sequence[Write]:
        """Suspends it, and deletes the clusters of an object that is invalid."""
        if (writes := super().stop(job, pod_sets, related)) or not self.invalid(job):
            return writes
        left = (each for each in related if not meta.deleting(each))
        return [Delete(meta.uid(each), Target(RAY_CLUSTER.resource, key_of(each))) for each in left]

    def autoscaled(self, job: Raw, related: Sequence[Raw] = ()) -> Raw | None:
        """The RayCluster of an elastic job with an autoscaler."""
        scales = meta.elastic(job) and at(job, (*self.pods_path, "enableInTreeAutoscaling"))
        return self._cluster(job, related) if scales else None

    def awaits_pods(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether workers are missing in its cluster."""
        found = self._cluster(job, related)
        return found is None or RAY_CLUSTER.awaits_pods(found)

    def slice_of(self, job: Raw, related: Sequence[Raw] = ()) -> str:
        """The generations of the job and of its cluster."""
        found = self._cluster(job, related)
        return "_".join((super().slice_of(job), super().slice_of(found) if found is not None else ""))

    def _cluster(self, job: Raw, related: Sequence[Raw]) -> Raw | None:
        name = at(job, self.cluster_path)
        return next((each for each in related if each["metadata"]["name"] == name), None)


def groups_of(cluster: Raw) -> list[Raw]:
    """The groups of workers of a cluster's description."""
    return list(cluster.get("workerGroupSpecs") or ())


def _replicas(group: Raw) -> int:
    """The most replicas that KubeRay runs of a group: never fewer than ``minReplicas``, whatever ``replicas`` says.

    ``maxReplicas`` and ``suspend`` of a group only lower that, and are not counted: they can be changed while it runs.
    """
    return max(count(group), group.get("minReplicas") or 0)


def _scaled(groups: list[Raw], cluster: Raw | None) -> list[Raw]:
    """The groups with the replicas that they have in a RayCluster."""
    if cluster is None:
        return groups
    replicas = {each.get("groupName"): each.get("replicas") for each in groups_of(cluster["spec"])}
    found = ((each, replicas.get(each.get("groupName"))) for each in groups)
    return [each if count is None else {**each, "replicas": count} for each, count in found]


def state(cluster: Raw) -> str:
    """The state of a RayCluster, '' for one that KubeRay has not seen."""
    return str(at(cluster, ("status", "state")) or "")


def active(cluster: Raw) -> bool:
    """Whether a RayCluster may have pods."""
    conditions = {each["type"] for each in at(cluster, ("status", "conditions")) or ()}
    if "RayClusterSuspended" in conditions:
        return not holds(cluster, "RayClusterSuspended")
    return state(cluster) not in ("", "suspended")


def fault_tolerant(job: Raw, cluster: Raw) -> bool:
    """Whether the state of a cluster is kept in Redis, which is cleaned up at its end."""
    named = str(meta.annotations(job).get(_FAULT_TOLERANT) or "").lower() == "true"
    return named or cluster.get("gcsFaultToleranceOptions") is not None


def _at_least(container: Raw, requests: dict[str, str]) -> Raw:
    """The container with these requests, where it has lower ones or none."""
    resources = container.get("resources") or {}
    found: dict[str, Any] = dict(resources.get("requests") or {})
    for name, amount in requests.items():
        if name not in found or _lower(found[name], amount):
            found[name] = amount
    return {**container, "resources": {**resources, "requests": found}}


def _lower(this: object, that: str) -> bool:
    """Whether an amount is lower than another; False for one that is no quantity, which the API server refuses."""
    try:
        return quantity.exact(this) < quantity.exact(that)
    except ValueError:
        return False
