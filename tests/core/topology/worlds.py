"""Small topologies for tests, written as a picture: block, rack, host and its cpu."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.model import ANYWHERE, Node, PodSet, ResourceFlavor, TopologyAssignment, TopologyRequest
from core.topology import Asked, Domains, Misfit, Options, place

BLOCK, RACK, HOST = "block", "rack", "kubernetes.io/hostname"
LEVELS = (BLOCK, RACK, HOST)
FLAVOR = ResourceFlavor("tas", topology_name="default")


def node(path: str, cpu: int, **fields: Any) -> Node:
    """A node at ``b1/r1/x1`` with so many units of cpu and room for 110 pods."""
    labels = {**dict(zip(LEVELS, path.split("/"), strict=True)), **fields.pop("labels", {})}
    fields.setdefault("allocatable", {"cpu": cpu, "pods": 110})
    return Node(path, labels, **fields)


def domains(cpu: Mapping[str, int], levels: tuple[str, ...] = LEVELS, flavor: ResourceFlavor = FLAVOR) -> Domains:
    """The domains of nodes with so much cpu, by path."""
    return Domains(levels, flavor, [node(path, amount) for path, amount in cpu.items()], {})


def asked(count: int, *, cpu: int = 1, name: str = "main", **fields: Any) -> Asked:
    """Pods of one cpu each; ``required``, ``preferred``, ``unconstrained`` and ``slices`` as in a topology request."""
    request = TopologyRequest(
        **{key: fields.pop(key) for key in ("required", "preferred", "unconstrained", "slices") if key in fields}
    )
    placement = fields.pop("placement", ANYWHERE)
    return Asked(PodSet(name, count, {"cpu": cpu}, placement=placement, topology=request), count, **fields)


def placed(where: Domains, *requests: Asked, options: Options | None = None, empty: bool = False) -> dict[str, Any]:
    """By pod set the pods by hostname (or path), or the reason."""
    found = place(where, requests, options or Options(), empty=empty)
    return {name: shown(each) for name, each in found.items()}


def shown(found: TopologyAssignment | Misfit) -> Any:
    """Pods by domain, in the stored order; or the reason."""
    if isinstance(found, Misfit):
        return found.text
    return {"/".join(domain.values): domain.count for domain in found.domains}
