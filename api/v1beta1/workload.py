"""Workload as v1beta1 spells it: the priority class in two fields, topology assignments domain by domain."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from api.v1beta2 import workload, workload_status
from api.v1beta2.base import (
    ATOMIC,
    ATOMIC_MAP,
    Conditions,
    Count,
    Int32,
    Model,
    PodSetName,
    Positive,
    Reference,
    list_map,
    ruled,
)
from api.v1beta2.workload import POD_TEMPLATE_SCHEMA, RESERVED_BEFORE, immutable_while

_SOURCES = "has(oldSelf.spec.priorityClassSource) && has(self.spec.priorityClassSource)"
_NAMES = "has(oldSelf.spec.priorityClassName) && has(self.spec.priorityClassName)"
_WHOLE_WORKLOAD_RULES = (
    workload.WHOLE_WORKLOAD_RULES[0],
    (
        "priorityClassSource is immutable while workload quota reserved",
        immutable_while(
            f"{RESERVED_BEFORE} && {_SOURCES}",
            "!has(oldSelf.spec.priorityClassSource) ||"
            " oldSelf.spec.priorityClassSource == self.spec.priorityClassSource",
        ),
    ),
    (
        "priorityClassName is immutable while workload quota reserved and priorityClassSource is not equal to"
        " kueue.x-k8s.io/workloadpriorityclass",
        immutable_while(
            f"{RESERVED_BEFORE} && {_SOURCES} && (self.spec.priorityClassSource !="
            f" 'kueue.x-k8s.io/workloadpriorityclass') && {_NAMES}",
            "!has(oldSelf.spec.priorityClassName) || oldSelf.spec.priorityClassName == self.spec.priorityClassName",
        ),
    ),
    workload.QUEUE_RULE,
    workload.EXECUTION_TIME_RULE,
)


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


class WorkloadSpec(Model):
    """The request."""

    model_config = ruled(
        (
            "priority should not be nil when priorityClassName is set",
            "has(self.priorityClassName) ? has(self.priority) : true",
        )
    )
    active: bool | None = True
    """False evicts the workload and keeps it out of the queue."""
    maximum_execution_time_seconds: Positive | None = None
    """How long the workload may be admitted before it is deactivated."""
    pod_sets: Annotated[list[PodSet], Field(min_length=1, max_length=18, json_schema_extra=list_map("name"))]
    """The pods of the job, equal ones together."""
    priority: Int32 | None = None
    """The priority: a higher value is first. May be changed at any time."""
    priority_class_name: Reference | None = None
    """The class that the priority comes from."""
    priority_class_source: Literal["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""] = ""
    """The kind of the class."""
    queue_name: Reference | None = None
    """The LocalQueue; immutable while quota is reserved."""


class TopologyDomainAssignment(Model):
    """How many pods run in one domain."""

    count: Positive
    """How many."""
    values: Annotated[list[str], Field(min_length=1, max_length=16, json_schema_extra=ATOMIC)]
    """The values of the node labels of all levels."""


class TopologyAssignment(Model):
    """Where the pods of a pod set are to run."""

    domains: list[TopologyDomainAssignment]
    """The domains and their pods."""
    levels: Annotated[
        list[Annotated[str, Field(max_length=317)]], Field(min_length=1, max_length=16, json_schema_extra=ATOMIC)
    ]
    """Node labels, highest level first."""


class PodSetAssignment(workload_status.PodSetAssignment):
    """The assignment of one pod set."""

    topology_assignment: TopologyAssignment | None = None  # type: ignore[assignment]  # spelled otherwise, same meaning
    """Where its pods are to run."""


class Admission(Model):
    """The quota a workload holds."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)
    cluster_queue: Reference
    """The ClusterQueue whose quota is used."""
    pod_set_assignments: Annotated[list[PodSetAssignment], Field(max_length=18, json_schema_extra=list_map("name"))]
    """The assignment of each pod set."""


class WorkloadStatus(Model):
    """The decisions about a workload."""

    model_config = ruled(*workload_status.STATUS_RULES)
    accumulated_past_exexcution_time_seconds: Int32 | None = None
    """How long the workload ran in earlier admissions."""
    admission: Admission | None = None
    """The quota it holds."""
    admission_checks: workload_status.AdmissionCheckStates | None = None
    """The checks its ClusterQueue demands."""
    cluster_name: workload_status.ClusterName | None = None
    """The worker cluster it runs on (MultiKueue)."""
    conditions: Conditions | None = None
    """QuotaReserved, Admitted, PodsReady, Evicted, Preempted, Requeued, Finished and others."""
    nominated_cluster_names: workload_status.ClusterNames | None = None
    """Worker clusters it is offered to (MultiKueue)."""
    reclaimable_pods: workload_status.ReclaimablePods | None = None
    """Pods that need their quota no longer."""
    requeue_state: workload_status.RequeueState | None = None
    """How often and until when it was put back."""
    resource_requests: workload_status.PodSetRequests | None = None
    """The request, while it holds no quota."""
    scheduling_stats: workload_status.SchedulingStats | None = None
    """The history of the workload."""
    unhealthy_nodes: workload_status.UnhealthyNodes | None = None
    """Nodes of its assignment that failed."""


class Workload(Model):
    """The queue entry of a job: the pods that it requests, and the quota that it was assigned."""

    model_config = ruled(*_WHOLE_WORKLOAD_RULES)
    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: WorkloadSpec | None = None
    """The request."""
    status: WorkloadStatus | None = None
    """The decisions."""
