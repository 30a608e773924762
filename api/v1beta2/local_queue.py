"""LocalQueue: named by users in their jobs; it points to a ClusterQueue."""

from typing import Annotated, Any

from pydantic import Field

from api.v1beta2.base import (
    IMMUTABLE,
    SUBDOMAIN_PATTERN,
    Conditions,
    FairSharing,
    Int32,
    Int64,
    Model,
    Quantity,
    StopPolicy,
    Time,
    rules,
)
from api.v1beta2.quotas import LocalQueueFlavorsUsage


class LocalQueueSpec(Model):
    """The desired state of a LocalQueue."""

    cluster_queue: (
        Annotated[str, Field(max_length=253, pattern=SUBDOMAIN_PATTERN, json_schema_extra=rules(IMMUTABLE))] | None
    ) = None
    """The ClusterQueue that backs this queue; immutable."""
    fair_sharing: FairSharing | None = None
    """How this queue competes with the other LocalQueues of its ClusterQueue."""
    stop_policy: StopPolicy | None = "None"
    """Hold admits nothing more; HoldAndDrain also evicts admitted workloads."""


class AdmissionFairSharingStatus(Model):
    """Usage of this queue over time."""

    consumed_resources: dict[str, Quantity]
    """Usage by resource, decayed by the half-life of the Configuration."""
    last_update: Time
    """When it was last computed."""


class LocalQueueFairSharingStatus(Model):
    """Fair sharing as observed."""

    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None
    """Usage of this queue over time."""
    weighted_share: Int64
    """The largest ratio of borrowed to lendable resources, in thousandths, divided by the weight."""


class LocalQueueStatus(Model):
    """The observed state of a LocalQueue."""

    admitted_workloads: Int32 | None = None
    """Workloads admitted and not finished."""
    conditions: Conditions | None = None
    """Active reports whether the queue accepts workloads, and if not, why."""
    fair_sharing: LocalQueueFairSharingStatus | None = None
    """Fair sharing as observed."""
    flavors_reservation: LocalQueueFlavorsUsage | None = None
    """Quota reserved by workloads of this queue."""
    flavors_usage: LocalQueueFlavorsUsage | None = None
    """Quota used by admitted workloads of this queue."""
    pending_workloads: Int32 | None = None
    """Workloads that wait."""
    reserving_workloads: Int32 | None = None
    """Workloads that hold a reservation."""


class LocalQueue(Model):
    """The queue of a namespace that jobs name; it leads to a ClusterQueue."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: LocalQueueSpec | None = None
    """The desired state."""
    status: LocalQueueStatus | None = None
    """The observed state."""
