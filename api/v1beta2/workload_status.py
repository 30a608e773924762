"""The status of a Workload: its admission, its conditions, its checks, and its history."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from api.v1beta2.base import (
    ATOMIC,
    ATOMIC_MAP,
    TOLERATION_RULES,
    AdmissionCheckName,
    Conditions,
    Count,
    Int32,
    Model,
    PodSetName,
    Positive,
    Quantity,
    Reference,
    Time,
    Toleration,
    list_map,
    ruled,
)

_Value = Annotated[str, Field(max_length=63)]
ClusterName = Annotated[str, Field(max_length=256)]
ClusterNames = Annotated[list[ClusterName], Field(max_length=20, json_schema_extra=ATOMIC)]


class IndividualValues(Model):
    """Values that differ between domains, without their common parts."""

    prefix: _Value | None = None
    """The common prefix of all values."""
    roots: Annotated[list[_Value], Field(min_length=1, max_length=100000, json_schema_extra=ATOMIC)]
    """The rest of each value, one for each domain."""
    suffix: _Value | None = None
    """The common suffix of all values."""


class LevelValues(Model):
    """The values of one level's node label in the domains of a slice."""

    model_config = ruled(
        (
            "exactly one of the fields in [universal individual] must be set",
            "has(self.universal) != has(self.individual)",
        )
    )
    individual: IndividualValues | None = None
    """One value a domain."""
    universal: _Value | None = None
    """The one value of all domains."""


class PodCounts(Model):
    """How many pods each domain of a slice holds."""

    model_config = ruled(
        (
            "exactly one of the fields in [universal individual] must be set",
            "[has(self.universal),has(self.individual)].filter(x,x==true).size() == 1",
        )
    )
    individual: Annotated[list[Positive], Field(min_length=1, max_length=100000, json_schema_extra=ATOMIC)] | None = (
        None
    )
    """One count a domain."""
    universal: Positive | None = None
    """The one count of all domains."""


class TopologyAssignmentSlice(Model):
    """Some domains of an assignment, written compactly."""

    model_config = ruled(
        (
            "podCounts.individual must have length equal to domainCount",
            "!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",
        ),
        (
            "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this"
            " TopologyAssignmentSlice",
            "self.valuesPerLevel.all(x, !has(x.individual) || size(x.individual.roots) == self.domainCount)",
        ),
    )
    domain_count: Positive
    """How many domains."""
    pod_counts: PodCounts
    """Pods by domain."""
    values_per_level: Annotated[list[LevelValues], Field(min_length=1, max_length=16, json_schema_extra=ATOMIC)]
    """Label values by level, in the order of levels."""


class TopologyAssignment(Model):
    """Where the pods of a pod set are to run."""

    model_config = ruled(
        (
            "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
            "self.slices.all(x, size(x.valuesPerLevel) == size(self.levels))",
        )
    )
    levels: Annotated[
        list[Annotated[str, Field(max_length=317)]], Field(min_length=1, max_length=16, json_schema_extra=ATOMIC)
    ]
    """Node labels, highest level first."""
    slices: Annotated[list[TopologyAssignmentSlice], Field(max_length=1000, json_schema_extra=ATOMIC)]
    """The domains and their pods."""


class PodSetAssignment(Model):
    """The assignment of one pod set."""

    count: Count | None = None
    """How many pods may run."""
    delayed_topology_request: (
        Annotated[Literal["Pending", "Ready"], Field(json_schema_extra={"maxLength": 7})] | None
    ) = None
    """Whether the topology is assigned later, after the admission checks."""
    flavors: dict[str, Reference] | None = None
    """The flavor by resource."""
    name: PodSetName = "main"
    """The pod set."""
    resource_usage: dict[str, Quantity] | None = None
    """The total usage of its pods, by resource."""
    topology_assignment: TopologyAssignment | None = None
    """Where its pods are to run."""


class Admission(Model):
    """The quota a workload holds."""

    model_config = ConfigDict(json_schema_extra=ATOMIC_MAP)
    cluster_queue: Reference | None = None
    """The ClusterQueue whose quota is used."""
    pod_set_assignments: (
        Annotated[list[PodSetAssignment], Field(max_length=18, json_schema_extra=list_map("name"))] | None
    ) = None
    """The assignment of each pod set."""


_Tolerations = Annotated[list[Toleration], Field(max_length=8, json_schema_extra=ATOMIC | TOLERATION_RULES)]


class PodSetUpdate(Model):
    """The additions of an admission check to the pods of a pod set."""

    annotations: dict[str, str] | None = None
    """Annotations to add."""
    labels: dict[str, str] | None = None
    """Labels to add."""
    name: PodSetName
    """The pod set."""
    node_selector: dict[str, str] | None = None
    """Node selector to add."""
    tolerations: _Tolerations | None = None
    """Tolerations to add."""


class AdmissionCheckState(Model):
    """The state of one admission check of a workload."""

    last_transition_time: Time
    """When the state last changed."""
    message: Annotated[str, Field(max_length=32768)]
    """For people."""
    name: AdmissionCheckName
    """The AdmissionCheck."""
    pod_set_updates: Annotated[list[PodSetUpdate], Field(max_length=18, json_schema_extra=ATOMIC)] | None = None
    """The additions to the pods."""
    requeue_after_seconds: Count | None = None
    """How long to wait before the check is tried again."""
    retry_count: Count | None = None
    """How often it was tried again."""
    state: Literal["Pending", "Ready", "Retry", "Rejected"]
    """Ready lets the workload in; Retry sends it back to the queue; Rejected deactivates it."""


AdmissionCheckStates = Annotated[list[AdmissionCheckState], Field(max_length=8, json_schema_extra=list_map("name"))]


class PreemptionGateState(Model):
    """The state of one preemption gate."""

    last_transition_time: Time
    """When it last changed."""
    name: Annotated[str, Field(min_length=1, max_length=63)]
    """The gate."""
    position: Literal["Closed", "Open"]
    """Open lets preemptions happen."""


class ReclaimablePod(Model):
    """Pods of a set that need their quota no longer."""

    count: Count
    """How many."""
    name: PodSetName
    """The pod set."""


ReclaimablePods = Annotated[list[ReclaimablePod], Field(max_length=18, json_schema_extra=list_map("name"))]


class RequeueState(Model):
    """How often and until when the workload was put back."""

    count: Count | None = None
    """How often it was put back after a timeout or a retry."""
    requeue_at: Time | None = None
    """When it is requeued."""


class PodSetRequest(Model):
    """The request of a pod set's pods, as the queue counts it."""

    name: PodSetName
    """The pod set."""
    resources: dict[str, Quantity] | None = None
    """The total request of its pods, by resource, after limits, overhead and transformations."""


PodSetRequests = Annotated[list[PodSetRequest], Field(max_length=18, json_schema_extra=list_map("name"))]


class Eviction(Model):
    """How often a workload was evicted for one reason."""

    count: Count
    """How often."""
    reason: Annotated[str, Field(max_length=316)]
    """The reason of the Evicted condition."""
    underlying_cause: Annotated[str, Field(max_length=316)]
    """The cause; empty if the reason is complete."""


class SchedulingStats(Model):
    """The history of the workload."""

    evictions: (
        Annotated[list[Eviction], Field(max_length=256, json_schema_extra=list_map("reason", "underlyingCause"))] | None
    ) = None
    """Evictions by reason."""


class UnhealthyNode(Model):
    """A node of the assignment that failed."""

    name: _Value
    """The node."""


UnhealthyNodes = Annotated[list[UnhealthyNode], Field(max_length=8, json_schema_extra=list_map("name"))]


STATUS_RULES = (
    (
        "clusterName is immutable once set",
        "!has(oldSelf.clusterName) || !has(self.clusterName) || oldSelf.clusterName == self.clusterName",
    ),
    (
        "clusterName and nominatedClusterNames are mutually exclusive",
        "!has(self.clusterName) || (!has(self.nominatedClusterNames) || (has(self.nominatedClusterNames) &&"
        " size(self.nominatedClusterNames) == 0))",
    ),
)


class WorkloadStatus(Model):
    """The decisions about a workload."""

    model_config = ruled(*STATUS_RULES)
    accumulated_past_execution_time_seconds: Int32 | None = None
    """How long the workload ran in earlier admissions."""
    admission: Admission | None = None
    """The quota it holds."""
    admission_checks: AdmissionCheckStates | None = None
    """The checks its ClusterQueue demands."""
    cluster_name: ClusterName | None = None
    """The worker cluster it runs on (MultiKueue)."""
    conditions: Conditions | None = None
    """QuotaReserved, Admitted, PodsReady, Evicted, Preempted, Requeued, Finished and others."""
    nominated_cluster_names: ClusterNames | None = None
    """Worker clusters it is offered to (MultiKueue)."""
    preemption_gates: (
        Annotated[list[PreemptionGateState], Field(max_length=8, json_schema_extra=list_map("name"))] | None
    ) = None
    """The state of its preemption gates."""
    reclaimable_pods: ReclaimablePods | None = None
    """Pods that need their quota no longer."""
    requeue_state: RequeueState | None = None
    """How often and until when it was put back."""
    resource_requests: PodSetRequests | None = None
    """The request, while it holds no quota."""
    scheduling_stats: SchedulingStats | None = None
    """The history of the workload."""
    unhealthy_nodes: UnhealthyNodes | None = None
    """Nodes of its assignment that failed."""
