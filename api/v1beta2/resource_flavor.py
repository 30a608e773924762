"""ResourceFlavor: a kind of node, by the labels and taints its nodes carry."""

from typing import Annotated, Any

from pydantic import Field

from api.v1beta2.base import (
    ATOMIC,
    ATOMIC_MAP,
    TAINT_RULES,
    TOLERATION_RULES,
    Model,
    Reference,
    Taint,
    Toleration,
    ruled,
)


class ResourceFlavorSpec(Model):
    """The desired state of a ResourceFlavor."""

    model_config = ruled(
        (
            "at least one nodeLabel is required when topology is set",
            "!has(self.topologyName) || has(self.nodeLabels) && self.nodeLabels.size() >= 1",
        ),
        (
            "topologyName is immutable when topologyName is set",
            "!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
        ),
    )
    node_labels: Annotated[dict[str, str], Field(max_length=8, json_schema_extra=ATOMIC_MAP)] | None = None
    """Labels of the nodes: matched against node selectors, and injected into pods that get this flavor."""
    node_taints: Annotated[list[Taint], Field(max_length=8, json_schema_extra=ATOMIC | TAINT_RULES)] | None = None
    """Taints of the nodes: workloads need to tolerate them to get this flavor (PreferNoSchedule excepted)."""
    tolerations: (
        Annotated[list[Toleration], Field(max_length=8, json_schema_extra=ATOMIC | TOLERATION_RULES)] | None
    ) = None
    """Tolerations injected into pods that get this flavor."""
    topology_name: Reference | None = None
    """The Topology of the nodes, for topology-aware scheduling."""


class ResourceFlavor(Model):
    """A kind of nodes with quota. One without labels and taints means all nodes."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: ResourceFlavorSpec | None = None
    """The desired state."""
