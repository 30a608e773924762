"""ClusterQueue: quotas, cohort membership and the rules of ordering and preemption of one queue of the cluster."""

from typing import Annotated, Any, Literal

from pydantic import Field

from api.v1beta2.base import (
    EMPTY_DEFAULT,
    KEEP_UNKNOWN,
    SET,
    AdmissionCheckName,
    Conditions,
    FairSharing,
    FairSharingStatus,
    Int32,
    LabelSelector,
    Model,
    Reference,
    StopPolicy,
    list_map,
    ruled,
)
from api.v1beta2.quotas import FlavorsUsage, ResourceGroups

FungibilityPolicy = Literal["MayStopSearch", "TryNextFlavor"]


class FlavorFungibility(Model):
    """When the search for a flavor continues with the next one."""

    model_config = ruled(
        (
            "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor",
            "!has(self.preference) ||"
            " (self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor')",
        )
    )
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None
    """Which to choose where one flavor needs borrowing and another needs preemption."""
    when_can_borrow: FungibilityPolicy = "MayStopSearch"
    """Whether to take a flavor that needs borrowing before trying the next."""
    when_can_preempt: FungibilityPolicy = "TryNextFlavor"
    """Whether to take a flavor that needs preemption before trying the next."""


class BorrowWithinCohort(Model):
    """Preemption within the cohort by a workload that itself needs to borrow."""

    max_priority_threshold: Int32 | None = None
    """Only workloads of at most this priority are preempted."""
    policy: Literal["Never", "LowerPriority"] = "Never"
    """Whether such preemption happens."""


class Preemption(Model):
    """Which workloads pending workloads of this ClusterQueue may preempt."""

    model_config = ruled(
        (
            "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
            "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort) && "
            " self.borrowWithinCohort.policy != 'Never')",
        )
    )
    borrow_within_cohort: BorrowWithinCohort | None = Field(
        default_factory=BorrowWithinCohort, json_schema_extra=EMPTY_DEFAULT
    )
    """Preemption by workloads that need to borrow; needs reclaimWithinCohort."""
    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    """Preemption of workloads of other queues that hold more than their nominal quota."""
    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    """Preemption within this queue."""


class AdmissionCheckStrategyRule(Model):
    """An AdmissionCheck and the flavors it is for."""

    name: AdmissionCheckName
    """The AdmissionCheck."""
    on_flavors: Annotated[list[Reference], Field(max_length=64, json_schema_extra=SET)] | None = None
    """The flavors whose assignment needs the check; empty means all."""


class AdmissionChecksStrategy(Model):
    """The checks workloads need before they are admitted."""

    admission_checks: Annotated[
        list[AdmissionCheckStrategyRule], Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))
    ]
    """The checks."""


class AdmissionScope(Model):
    """Fairness among the LocalQueues of this ClusterQueue."""

    admission_mode: Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]
    """Whether past usage of a LocalQueue decides the order."""


class MigrationConstraints(Model):
    """How far a workload may move between flavors."""

    last_acceptable_flavor_name: Reference | None = None
    """The last flavor in order that is still accepted."""


class ConcurrentAdmissionMigration(Model):
    """What happens when a better flavor becomes free after admission."""

    constraints: MigrationConstraints | None = None
    """Limits of the migration."""
    mode: Annotated[Literal["TryPreferredFlavors", "RetainFirstAdmission"], Field(json_schema_extra={"maxLength": 253})]
    """Whether to move to preferred flavors or stay."""


class ConcurrentAdmissionPolicy(Model):
    """Trying several flavors at the same time."""

    migration: ConcurrentAdmissionMigration
    """Migration between flavors."""


NamespaceSelector = Annotated[LabelSelector, Field(json_schema_extra=KEEP_UNKNOWN)]
"""Unknown fields are kept so that they can be refused: dropped, `{team: a}` would be {} and select every namespace."""


class ClusterQueueSpec(Model):
    """The desired state of a ClusterQueue."""

    model_config = ruled(
        (
            "borrowingLimit must be nil when cohort is empty",
            "!has(self.cohortName) && has(self.resourceGroups) ? self.resourceGroups.all(rg, rg.flavors.all(f,"
            " f.resources.all(r, !has(r.borrowingLimit)))) : true",
        )
    )
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    """The checks workloads need before they are admitted."""
    admission_scope: AdmissionScope | None = None
    """Fairness among the LocalQueues of this ClusterQueue."""
    cohort_name: Reference | None = None
    """The cohort whose members lend each other unused quota."""
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None
    """Trying several flavors at the same time."""
    fair_sharing: FairSharing | None = None
    """How this queue competes in its cohort under fair sharing."""
    flavor_fungibility: FlavorFungibility | None = Field(
        default_factory=FlavorFungibility, json_schema_extra=EMPTY_DEFAULT
    )
    """When the search for a flavor continues with the next one."""
    namespace_selector: NamespaceSelector | None = None
    """The namespaces that may submit here: absent is none, {} is all."""
    preemption: Preemption | None = Field(default_factory=Preemption, json_schema_extra=EMPTY_DEFAULT)
    """Which workloads pending workloads may preempt."""
    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    """Whether a head that does not fit blocks the workloads behind it (StrictFIFO) or not."""
    resource_groups: ResourceGroups | None = None
    """Resources, flavors and quotas."""
    stop_policy: StopPolicy | None = "None"
    """Hold admits nothing more; HoldAndDrain also evicts admitted workloads."""


class ClusterQueueStatus(Model):
    """The observed state of a ClusterQueue."""

    admitted_workloads: Int32 | None = None
    """Workloads admitted and not finished."""
    conditions: Conditions | None = None
    """Active reports whether the queue admits, and if not, why."""
    fair_sharing: FairSharingStatus | None = None
    """Fair sharing as observed."""
    flavors_reservation: FlavorsUsage | None = None
    """Quota reserved, by flavor and resource."""
    flavors_usage: FlavorsUsage | None = None
    """Quota used by admitted workloads, by flavor and resource."""
    pending_workloads: Int32 | None = None
    """Workloads that wait."""
    reserving_workloads: Int32 | None = None
    """Workloads that hold a reservation."""


class ClusterQueue(Model):
    """A queue of the cluster: quotas by flavor, a cohort, and rules of ordering and preemption."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: ClusterQueueSpec | None = None
    """The desired state."""
    status: ClusterQueueStatus | None = None
    """The observed state."""
