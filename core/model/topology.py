"""Topologies: where nodes are relative to each other, and on which domains of them the pods of a workload run.

A domain is named by its values of the levels' labels, highest level first. Source: KEP 2724 (topology).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from core.model.kubernetes import Labels, Requests, Taint

NEVER_READY: Final = 0.0
"""``Node.unready_since`` of a node that has no condition Ready."""


class Topology(Struct, frozen=True, gc=False):
    """A Topology object: the node labels of its levels, highest first."""

    name: str
    levels: tuple[str, ...]


class TopologyDomain(Struct, frozen=True, gc=False):
    """A number of pods on one domain; ``values`` are those of the levels of the assignment that it is in."""

    values: tuple[str, ...]
    count: int


class TopologyAssignment(Struct, frozen=True, gc=False):
    """The domains of a pod set, in the order in which they are stored; ``levels`` is ``kubernetes.io/hostname`` alone
    where that is the lowest level, else all levels of the topology.
    """

    levels: tuple[str, ...]
    domains: tuple[TopologyDomain, ...]


class Node(Struct, frozen=True, gc=False):
    """What placement, the failure of nodes and warnings need of a Node. ``allocatable`` is empty while its kubelet has
    not reported any. ``usable`` is whether it is Ready and not cordoned. ``unready_since``: since when it is not Ready,
    in seconds since the epoch; None if it is Ready, ``NEVER_READY`` if its kubelet has not reported that. A
    ``tolerable`` one that is not usable is for pods that tolerate its taints, where levels end in the hostname (feature
    gate SchedulerLibraryIntegration).
    """

    name: str
    labels: Labels = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Requests = field(default_factory=dict)
    usable: bool = True
    unready_since: float | None = None
    tolerable: bool = False
