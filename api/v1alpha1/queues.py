"""v0.1's Queue, ClusterQueue and ResourceFlavor."""

from typing import Annotated, Any, Literal

from pydantic import Field

from api.v1beta2.base import (
    ATOMIC,
    ATOMIC_MAP,
    IMMUTABLE,
    SUBDOMAIN_PATTERN,
    Int32,
    Model,
    Quantity,
    Reference,
    Taint,
    list_map,
    ruled,
    rules,
)
from api.v1beta2.cluster_queue import NamespaceSelector


class Quota(Model):
    """How much of a resource there is in a flavor."""

    max: Quantity | None = None
    """The maximum usage, including quota that other members of the cohort do not use; absent means no limit."""
    min: Quantity | None = None
    """How much is there for this queue at any time."""


QUOTA_RULE = (
    "write the quota of a flavor as quota: {min: ..., max: ...}; min and max beside the name would be lost",
    "has(self.quota) && !has(self.min) && !has(self.max)",
)


class Flavor(Model):
    """The quota of a resource in one flavor."""

    # `min` and `max` next to the name are a common abbreviation. As unknown fields they would be dropped, and the quota
    # would be 0: so they are defined, and refused.
    model_config = ruled(QUOTA_RULE)
    name: Reference = "default"
    """The ResourceFlavor."""
    max: Quantity | None = None
    """Not here: write quota.max."""
    min: Quantity | None = None
    """Not here: write quota.min."""
    quota: Quota | None = None
    """How much there is."""


class Resource(Model):
    """A resource and its flavors."""

    flavors: Annotated[list[Flavor], Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))]
    """The flavors, in the order in which they are tried."""
    name: str
    """The resource, such as cpu, memory or example.com/gpu."""


class ClusterQueueSpec(Model):
    """The desired state of a ClusterQueue."""

    cohort: Reference | None = None
    """The cohort whose members lend each other unused quota."""
    namespace_selector: NamespaceSelector | None = None
    """The namespaces that may submit here: absent is none, {} is all."""
    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    """Whether a head that does not fit blocks the workloads behind it (StrictFIFO) or not."""
    # Atomic, like resourceGroups, into which it is converted: server-side apply owns it as a whole. If it were merged
    # element by element, an element that is removed from a manifest would come back while another client writes the
    # stored version (status).
    resources: Annotated[list[Resource], Field(max_length=64, json_schema_extra=ATOMIC)] | None = None
    """Resources, flavors and quotas."""


class Usage(Model):
    """Usage of a resource in a flavor."""

    borrowing: Quantity | None = None
    """How much of the total is above the minimum."""
    total: Quantity | None = None
    """How much is used, including borrowed quota."""


class ClusterQueueStatus(Model):
    """The observed state of a ClusterQueue."""

    admitted_workloads: Int32 | None = None
    """Workloads admitted and not finished."""
    pending_workloads: Int32 | None = None
    """Workloads that wait."""
    used_resources: dict[str, dict[str, Usage]] | None = None
    """Usage by resource and flavor."""


class ClusterQueue(Model):
    """A queue of the cluster, as v0.1 wrote it."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: ClusterQueueSpec | None = None
    """The desired state."""
    status: ClusterQueueStatus | None = None
    """The observed state."""


class QueueSpec(Model):
    """The desired state of a Queue."""

    cluster_queue: (
        Annotated[str, Field(max_length=253, pattern=SUBDOMAIN_PATTERN, json_schema_extra=rules(IMMUTABLE))] | None
    ) = None
    """The ClusterQueue that backs this queue; immutable."""


class QueueStatus(Model):
    """The observed state of a Queue."""

    pending_workloads: Int32 | None = None
    """Workloads that wait."""


class Queue(Model):
    """The queue of a namespace, as v0.1 called it: it acts through a LocalQueue of the same name."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: QueueSpec | None = None
    """The desired state."""
    status: QueueStatus | None = None
    """The observed state."""


class ResourceFlavor(Model):
    """A kind of node that quota is given for, as v0.1 wrote it."""

    api_version: str | None = None
    kind: str | None = None
    labels: Annotated[dict[str, str], Field(max_length=8, json_schema_extra=ATOMIC_MAP)] | None = None
    """Labels of the nodes."""
    metadata: dict[str, Any] | None = None
    taints: Annotated[list[Taint], Field(max_length=8, json_schema_extra=ATOMIC)] | None = None
    """Taints of the nodes."""
