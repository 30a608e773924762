"""What rules for administrators look at, and what more than one kind of them needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from core.feedback.rules import fitted
from core.lookup import Lookup
from core.model import Labels, ResourceFlavor

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Change(Generic[_Kind]):
    """An object before and after."""

    old: _Kind | None
    new: _Kind | None


def workloads(count: int) -> str:
    """So many workloads, in words."""
    return f"{count} {'workload' if count == 1 else 'workloads'}"


def drained(running: int) -> Iterable[str]:
    """What HoldAndDrain does to those who run."""
    if running == 1:
        yield "HoldAndDrain stops 1 running workload, which then waits; Hold lets it finish"
    elif running:
        yield f"HoldAndDrain stops {running} running workloads, which then wait; Hold lets them finish"


def lacks_nodes(flavor: ResourceFlavor, lookup: Lookup) -> bool:
    """Whether the flavor asks for labels that no node has; not in a cluster without nodes, which is being made."""
    nodes = tuple(lookup.node_labels() or ())
    wanted = flavor.node_labels.items()
    return bool(nodes and wanted) and not any(wanted <= labels.items() for labels in nodes)


def written(labels: Labels) -> str:
    """Labels as kubectl's ``-l`` takes them."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def cycle(start: str, parent: str, lookup: Lookup) -> Iterable[str]:
    """The circle that the parents of ``start`` make, if they do; its own is (to be) ``parent``."""
    path, name = [start], parent
    while name and name not in path:
        path.append(name)
        cohort = lookup.cohort(name)
        name = cohort.parent if cohort else ""
    if name:
        circle = " -> ".join([*path[path.index(name) :], name])
        yield fitted(
            f"the parents of cohort {start} run in a circle: {circle}; its ClusterQueues admit nothing",
            "the parents of the cohort run in a circle: its ClusterQueues admit nothing",
        )
