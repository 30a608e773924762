"""Workload: the queue entry of one job. The request (here), the decisions (workload_status)."""

from typing import Annotated, Any, Literal

from pydantic import Field

from api.v1beta2.base import (
    ATOMIC,
    ATOMIC_MAP,
    SUBDOMAIN_PATTERN,
    Count,
    Int32,
    Model,
    PodSetName,
    Positive,
    Reference,
    list_map,
    ruled,
)
from api.v1beta2.workload_status import WorkloadStatus

RESERVED_BEFORE = (
    "has(oldSelf.status) && has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.type =="
    " 'QuotaReserved' && c.status == 'True')"
)
RESERVED_NOW = RESERVED_BEFORE.replace("oldSelf", "self")
_ADMITTED_BEFORE = RESERVED_BEFORE.replace("QuotaReserved", "Admitted")
_ADMITTED_NOW = RESERVED_NOW.replace("QuotaReserved", "Admitted")
_LIMIT = "(has({0}.spec.maximumExecutionTimeSeconds) ? {0}.spec.maximumExecutionTimeSeconds : 0)"
_CLASS_BEFORE_AND_NOW = "has(oldSelf.spec.priorityClassRef) && has(self.spec.priorityClassRef)"


def immutable_while(forbidden: str, allowed: str) -> str:
    """Returns a CEL rule: where ``forbidden`` is true, which needs a status before, ``allowed`` must be true.

    The API server evaluates each rule in each write, and reads a field in steps, each of which copies the schema of the
    object around it. So the rule ends with a first status, and where nothing changed, before it searches conditions.
    """
    return f"!has(oldSelf.status) || {allowed} || !({forbidden})"


def _same_class(field: str) -> str:
    """CEL: there was no class, or it has the same value here. An error, which does not count, if there is none now."""
    ref = f"spec.priorityClassRef.{field}"
    return f"!has(oldSelf.spec.priorityClassRef) || oldSelf.{ref} == self.{ref}"


QUEUE_RULE = (
    "queueName is immutable while workload quota reserved",
    immutable_while(
        f"{RESERVED_BEFORE} && {RESERVED_NOW}",
        "(has(oldSelf.spec.queueName) ? has(self.spec.queueName) && oldSelf.spec.queueName == self.spec.queueName"
        " : !has(self.spec.queueName))",
    ),
)
EXECUTION_TIME_RULE = (
    "maximumExecutionTimeSeconds is immutable while workload quota reserved",
    immutable_while(f"{_ADMITTED_BEFORE} && {_ADMITTED_NOW}", f"{_LIMIT.format('oldSelf')} == {_LIMIT.format('self')}"),
)
WHOLE_WORKLOAD_RULES = (
    (
        "podSetAssignments must have the same number of podSets as the spec",
        "!has(self.status) || !has(self.status.admission) ||"
        f" size(self.spec.podSets) == size(self.status.admission.podSetAssignments) || !({RESERVED_NOW})",
    ),
    (
        "priorityClassRef is immutable while workload quota reserved",
        immutable_while(RESERVED_BEFORE, "has(oldSelf.spec.priorityClassRef) == has(self.spec.priorityClassRef)"),
    ),
    (
        "priorityClassRef.group is immutable while workload quota reserved",
        immutable_while(f"{RESERVED_BEFORE} && {_CLASS_BEFORE_AND_NOW}", _same_class("group")),
    ),
    (
        "priorityClassRef.kind is immutable while workload quota reserved",
        immutable_while(f"{RESERVED_BEFORE} && {_CLASS_BEFORE_AND_NOW}", _same_class("kind")),
    ),
    (
        "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved",
        immutable_while(
            f"{RESERVED_BEFORE} && {_CLASS_BEFORE_AND_NOW} && self.spec.priorityClassRef.group == 'scheduling.k8s.io'"
            " && self.spec.priorityClassRef.kind == 'PriorityClass'",
            _same_class("name"),
        ),
    ),
    QUEUE_RULE,
    EXECUTION_TIME_RULE,
)

_PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
_STRING_MAP = {"type": "object", "additionalProperties": {"type": "string"}}
POD_TEMPLATE_SCHEMA: dict[str, Any] = {
    "type": "object",
    **_PRESERVE,
    **ATOMIC_MAP,
    "properties": {
        "metadata": {
            "type": "object",
            **_PRESERVE,
            "properties": {"labels": _STRING_MAP, "annotations": _STRING_MAP},
        },
        "spec": {
            "type": "object",
            **_PRESERVE,
            "required": ["containers"],
            "properties": {
                "containers": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        **_PRESERVE,
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}},
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                }
            },
        },
    },
}
"""The outline of the pod template. The API server checked the template when the job was created; all fields of a pod in
this schema would reduce the Workload writes a second by a fifth, and drop fields of pods that are newer than the
schema. It is atomic: nobody applies single fields of it.
"""


class TopologyConstraint(Model):
    """One nested slice of a pod set and the topology level that must hold it."""

    size: Positive
    """Pods in a slice."""
    topology: Annotated[str, Field(min_length=1, max_length=63)]
    """The node label of the level."""


class PodSetTopologyRequest(Model):
    """Where the pods of a pod set should be relative to each other."""

    pod_index_label: Annotated[str, Field(max_length=317)] | None = None
    """The pod label that holds a pod's index."""
    pod_set_group_name: Annotated[str, Field(max_length=256)] | None = None
    """Pod sets of the same group are placed together."""
    pod_set_slice_required_topology: Annotated[str, Field(max_length=63)] | None = None
    """The level that must hold each slice."""
    pod_set_slice_size: Positive | None = None
    """Pods in a slice."""
    podset_slice_required_topology_constraints: (
        Annotated[list[TopologyConstraint], Field(max_length=3, json_schema_extra=ATOMIC)] | None
    ) = None
    """Nested slices, largest first."""
    preferred: Annotated[str, Field(max_length=63)] | None = None
    """The level that should hold all pods."""
    required: Annotated[str, Field(max_length=63)] | None = None
    """The level that must hold all pods."""
    sub_group_count: Count | None = None
    """Groups of replicated jobs in the pod set."""
    sub_group_index_label: Annotated[str, Field(max_length=317)] | None = None
    """The pod label that holds a group's index."""
    unconstrained: bool | None = None
    """Any placement within the topology will do."""


class PodSet(Model):
    """Equal pods of a job."""

    model_config = ruled(
        (
            "minCount should be positive and less or equal to count",
            "has(self.minCount) ? self.minCount <= self.count : true",
        )
    )
    count: Count = 1
    """How many pods."""
    min_count: Positive | None = None
    """The fewest the job can run with, for partial admission."""
    name: PodSetName = "main"
    """The name of the set."""
    template: Annotated[dict[str, Any], Field(json_schema_extra=POD_TEMPLATE_SCHEMA)]
    """The pod template of the job."""
    topology_request: PodSetTopologyRequest | None = None
    """Where the pods should be relative to each other."""


class PriorityClassRef(Model):
    """The class a workload has its priority from."""

    model_config = ruled(
        (
            "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
            "(self.group == 'scheduling.k8s.io') ? self.kind == 'PriorityClass' : true",
        ),
        (
            "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
            "(self.group == 'kueue.x-k8s.io') ? self.kind == 'WorkloadPriorityClass' : true",
        ),
    )
    group: Literal["kueue.x-k8s.io", "scheduling.k8s.io"]
    """The API group of the class."""
    kind: Literal["WorkloadPriorityClass", "PriorityClass"]
    """The kind of the class."""
    name: Annotated[str, Field(min_length=1, max_length=253, pattern=SUBDOMAIN_PATTERN)]
    """The name of the class."""


class PreemptionGate(Model):
    """Something that holds back preemptions for this workload until it opens."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """The name of the gate."""


class WorkloadSpec(Model):
    """The request."""

    model_config = ruled(
        (
            "priority should not be nil when priorityClassRef is set",
            "!has(self.priorityClassRef) || has(self.priority)",
        )
    )
    active: bool | None = True
    """False evicts the workload and keeps it out of the queue."""
    maximum_execution_time_seconds: Positive | None = None
    """How long the workload may be admitted before it is deactivated."""
    pod_sets: Annotated[list[PodSet], Field(min_length=1, max_length=18, json_schema_extra=list_map("name"))] | None = (
        None
    )
    """The pods of the job, equal ones together."""
    preemption_gates: (
        Annotated[list[PreemptionGate], Field(max_length=8, json_schema_extra=list_map("name"))] | None
    ) = None
    """Gates that hold back preemptions for this workload."""
    priority: Int32 | None = None
    """The priority: a higher value is first. May be changed at any time."""
    priority_class_ref: PriorityClassRef | None = None
    """The class that the priority comes from."""
    queue_name: Reference | None = None
    """The LocalQueue; immutable while quota is reserved."""


class Workload(Model):
    """The queue entry of a job: the pods that it requests, and the quota that it was assigned."""

    model_config = ruled(*WHOLE_WORKLOAD_RULES)
    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: WorkloadSpec | None = None
    """The request."""
    status: WorkloadStatus | None = None
    """The decisions."""
