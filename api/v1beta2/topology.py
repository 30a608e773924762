"""Topology: the levels of a data centre, by the node labels that name them."""

from typing import Annotated, Any

from pydantic import Field

from api.v1beta2.base import ATOMIC, LABEL_KEY_PATTERN, Model, rules

_HOSTNAME = "kubernetes.io/hostname"


class TopologyLevel(Model):
    """One level."""

    node_label: Annotated[str, Field(min_length=1, max_length=316, pattern=LABEL_KEY_PATTERN)]
    """The node label whose values are the domains of this level."""


_LEVEL_RULES = rules(
    (
        f"levels are mutable only when {_HOSTNAME} is the lowest level both before and after the change",
        f"self == oldSelf || (self[size(self) - 1].nodeLabel == '{_HOSTNAME}' &&"
        f" oldSelf[size(oldSelf) - 1].nodeLabel == '{_HOSTNAME}')",
    ),
    ("must be unique", "size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0"),
    (
        f"the {_HOSTNAME} label can only be used at the lowest level of topology",
        f"size(self.filter(i, i.nodeLabel == '{_HOSTNAME}')) == 0 || self[size(self) - 1].nodeLabel == '{_HOSTNAME}'",
    ),
)


class TopologySpec(Model):
    """The desired state of a Topology."""

    levels: Annotated[list[TopologyLevel], Field(min_length=1, max_length=16, json_schema_extra=ATOMIC | _LEVEL_RULES)]
    """The levels, highest first."""


class Topology(Model):
    """The levels of a data centre, such as block, rack and host."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: TopologySpec | None = None
    """The desired state."""
