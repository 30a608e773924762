"""LocalQueue of v1beta1: `flavorUsage`, and descriptions of its flavors."""

from typing import Annotated, Any

from pydantic import Field

from api.v1beta2.base import ATOMIC, ATOMIC_MAP, SET, Conditions, Int32, Model, Reference, Taint, list_map
from api.v1beta2.local_queue import LocalQueueFairSharingStatus, LocalQueueSpec
from api.v1beta2.quotas import LocalQueueFlavorsUsage


class TopologyInfo(Model):
    """The topology of a flavor."""

    levels: Annotated[list[str], Field(min_length=1, max_length=16, json_schema_extra=ATOMIC)]
    """Node labels, highest level first."""
    name: Reference
    """The Topology."""


class LocalQueueFlavorStatus(Model):
    """The description of a flavor for users; no longer set."""

    name: Reference
    """The ResourceFlavor."""
    node_labels: Annotated[dict[str, str], Field(max_length=8, json_schema_extra=ATOMIC_MAP)] | None = None
    """Labels of its nodes."""
    node_taints: Annotated[list[Taint], Field(max_length=8, json_schema_extra=ATOMIC)] | None = None
    """Taints of its nodes."""
    resources: Annotated[list[str], Field(max_length=64, json_schema_extra=SET)] | None = None
    """Resources it has quota for."""
    topology: TopologyInfo | None = None
    """Its topology."""


class LocalQueueStatus(Model):
    """The observed state of a LocalQueue."""

    admitted_workloads: Int32 | None = None
    """Workloads admitted and not finished."""
    conditions: Conditions | None = None
    """Active reports whether the queue accepts workloads, and if not, why."""
    fair_sharing: LocalQueueFairSharingStatus | None = None
    """Fair sharing as observed."""
    flavor_usage: LocalQueueFlavorsUsage | None = None
    """Quota used by admitted workloads of this queue."""
    flavors: (
        Annotated[list[LocalQueueFlavorStatus], Field(max_length=64, json_schema_extra=list_map("name"))] | None
    ) = None
    """Descriptions of its flavors; no longer set."""
    flavors_reservation: LocalQueueFlavorsUsage | None = None
    """Quota reserved by workloads of this queue."""
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
