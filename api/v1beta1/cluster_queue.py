"""ClusterQueue as v1beta1 spells it: `cohort`, a plain list of admission checks, Borrow and Preempt."""

from typing import Annotated, Any, Literal

from pydantic import Field

from api.v1beta2.base import (
    EMPTY_DEFAULT,
    AdmissionCheckName,
    Conditions,
    FairSharing,
    Int32,
    Model,
    Reference,
    StopPolicy,
    Time,
    ruled,
)
from api.v1beta2.cluster_queue import AdmissionChecksStrategy, AdmissionScope, NamespaceSelector, Preemption
from api.v1beta2.local_queue import LocalQueueFairSharingStatus
from api.v1beta2.quotas import FlavorsUsage, ResourceGroups


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
    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor", "Borrow"] = "MayStopSearch"
    """Whether to take a flavor that needs borrowing before trying the next; Borrow is MayStopSearch."""
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor", "Preempt"] = "TryNextFlavor"
    """Whether to take a flavor that needs preemption before trying the next; Preempt is MayStopSearch."""


class ClusterQueueSpec(Model):
    """The desired state of a ClusterQueue."""

    model_config = ruled(
        (
            "borrowingLimit must be nil when cohort is empty",
            "!has(self.cohort) && has(self.resourceGroups) ? self.resourceGroups.all(rg, rg.flavors.all(f,"
            " f.resources.all(r, !has(r.borrowingLimit)))) : true",
        )
    )
    admission_checks: Annotated[list[AdmissionCheckName], Field(max_length=64)] | None = None
    """The checks workloads need before they are admitted, for all flavors."""
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    """The checks workloads need before they are admitted, by flavor."""
    admission_scope: AdmissionScope | None = None
    """Fairness among the LocalQueues of this ClusterQueue."""
    cohort: Reference | None = None
    """The cohort whose members lend each other unused quota."""
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


class PendingWorkload(Model):
    """A workload that waits."""

    name: str
    """Its name."""
    namespace: str
    """Its namespace."""


class PendingWorkloadsStatus(Model):
    """The first workloads of the queue; no longer set, the visibility API has them."""

    cluster_queue_pending_workload: list[PendingWorkload] | None = None
    """The first workloads of the queue."""
    last_change_time: Time
    """When that was."""


class ClusterQueueStatus(Model):
    """The observed state of a ClusterQueue."""

    admitted_workloads: Int32 | None = None
    """Workloads admitted and not finished."""
    conditions: Conditions | None = None
    """Active reports whether the queue admits, and if not, why."""
    fair_sharing: LocalQueueFairSharingStatus | None = None
    """Fair sharing as observed."""
    flavors_reservation: FlavorsUsage | None = None
    """Quota reserved, by flavor and resource."""
    flavors_usage: FlavorsUsage | None = None
    """Quota used by admitted workloads, by flavor and resource."""
    pending_workloads: Int32 | None = None
    """Workloads that wait."""
    pending_workloads_status: PendingWorkloadsStatus | None = None
    """The first workloads of the queue; no longer set."""
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
