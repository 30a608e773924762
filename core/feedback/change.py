"""The input of rules for administrators, and functions that several of them use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from core.feedback.rules import HINTS, absent, closest, fitted, shortened
from core.model import ClusterQueue, Labels, LocalQueue, ResourceFlavor, StopPolicy
from core.state.lookup import Lookup

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Change(Generic[_Kind]):
    """An object before and after."""

    old: _Kind | None
    new: _Kind | None


def workloads(count: int) -> str:
    """So many workloads, in words."""
    return f"{count} {'workload' if count == 1 else 'workloads'}"


_Stoppable = TypeVar("_Stoppable", ClusterQueue, LocalQueue)


def drained(change: Change[_Stoppable], count: Callable[[_Stoppable], int]) -> Iterable[str]:
    """The effect of a new HoldAndDrain on running workloads; ``count`` returns how many a queue has."""
    old, new = change.old, change.new
    if old is None or new is None or not new.stop_policy == StopPolicy.HOLD_AND_DRAIN != old.stop_policy:
        return
    running = count(old)
    if running == 1:
        yield "HoldAndDrain evicts 1 running workload, which then waits; Hold lets it finish"
    elif running:
        yield f"HoldAndDrain evicts {running} running workloads, which then wait; Hold lets them finish"


def missing_flavors(named: Iterable[str], lookup: Lookup, one: str, several: str) -> Iterable[str]:
    """Reports which of these flavors do not exist: names that are probably misspelt first, the others in one sentence.

    ``one`` and ``several`` are the consequence, while they do not exist.
    """
    missing = [name for name in named if lookup.flavor(name) is None]
    known = tuple(lookup.flavor_names())
    meant = {name: closest(name, known) for name in missing[:HINTS]}
    misspelt = [name for name in missing if meant.get(name)]
    strange = [name for name in missing if name not in misspelt]
    for name in misspelt if len(strange) > 1 else missing:
        none = f'ResourceFlavor "{shortened(name)}" does not exist'
        until = f"{none} yet: {one} until it is created"
        yield absent(
            "ResourceFlavor",
            name,
            known,
            meant.get(name),
            f"{none}, {one}",
            several="ResourceFlavors",
            until=(until,),
        )
    if len(strange) > 1:
        count = f"{len(strange)} ResourceFlavors"
        yield fitted(
            f"ResourceFlavors {', '.join(strange)} do not exist yet: {several} until they are created",
            f"{count} do not exist yet ({', '.join(map(shortened, strange[:2]))}, ...): {several}",
            or_else=[f"{count} do not exist yet: {several}"],
        )


def node_count(lookup: Lookup) -> str:
    """``none of 12 nodes has``, or ``the only node lacks``."""
    count = len(lookup.nodes_with({}))
    return "the only node lacks" if count == 1 else f"none of {count} nodes has"


def lacks_nodes(flavor: ResourceFlavor, lookup: Lookup) -> bool:
    """Whether the flavor asks for labels that no node has; not in a cluster without nodes, which is being made."""
    return bool(flavor.node_labels) and lookup.has_nodes() and not lookup.nodes_with(flavor.node_labels)


def written(labels: Labels) -> str:
    """Returns labels in the form of kubectl's ``-l``."""
    return ",".join(f"{shortened(key)}={shortened(value)}" for key, value in sorted(labels.items()))


def cycle(start: str, parent: str, lookup: Lookup) -> Iterable[str]:
    """Reports the cycle that the parents of ``start`` form, if they do; its new parent is ``parent``."""
    path, name = [start], parent
    while name and name not in path:
        path.append(name)
        cohort = lookup.cohort(name)
        name = cohort.parent if cohort else ""
    if name:
        around = [*path[path.index(name) :], name]
        circle = " -> ".join(map(shortened, around))
        nothing = "nothing is admitted there; change a parentName"
        yield fitted(
            f"the parents of cohort {shortened(start)} form a cycle: {circle}; {nothing}",
            f"the parents of cohort {shortened(start)} form a cycle: {circle}; nothing is admitted there",
            or_else=[f"the {len(around) - 1} parents of cohort {shortened(start)} form a cycle; {nothing}"],
        )
