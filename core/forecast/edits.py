"""The situation before an edit of one object and the one after it: the question whom that hits, for ``effects``.

Pure: State is read, never changed. Only the arenas that the edit may concern are taken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from core.forecast.situation import Situation, around
from core.model import ClusterQueue, Cohort, Key, LocalQueue, ResourceFlavor, StopPolicy, Workload
from core.state.state import State
from core.workload.actions import LifePolicy


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """The value of a WorkloadPriorityClass."""

    name: str
    value: int


Edited = ClusterQueue | Cohort | LocalQueue | ResourceFlavor | PriorityClass
_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class ObjectEdit:
    """An object before and after; None where it does not exist."""

    old: Edited | None
    new: Edited | None


def arenas(state: State, edit: ObjectEdit) -> list[str]:
    """Returns the arenas that an edit may change or join, in order. Costs the number of ClusterQueues."""
    reservations = state.reservations
    found = set[str]()
    for each in (edit.old, edit.new):
        match each:
            case ClusterQueue():
                found |= _with_queues(state, each.name) | _with_cohorts(state, {each.cohort})
                found |= _with_flavors(state, {name for name in _flavors(each) if _has_topology(state, name)})
            case Cohort():
                found |= _with_cohorts(state, {each.name, each.parent})
            case LocalQueue():
                found |= _with_queues(state, each.cluster_queue)
            case ResourceFlavor():
                found |= _with_flavors(state, {each.name})
            case PriorityClass():
                found |= set(reservations.arenas)
            case None:
                pass
    return sorted(found)


def concerned(state: State, named: Iterable[str]) -> tuple[int, int]:
    """Returns how many workloads hold quota and how many wait in these arenas."""
    queues = [name for arena in named for name in state.reservations.arenas[arena].queues]
    running = sum(len(node.reserved) for name in queues if (node := state.reservations.node(name)) is not None)
    return running, sum(len(state.pending.queues[name]) for name in queues if name in state.pending.queues)


def queues_concerned(state: State, edit: ObjectEdit, named: Iterable[str]) -> int:
    """Returns how many ClusterQueues and LocalQueues ``situations`` has."""
    queues = [name for arena in named for name in state.reservations.arenas[arena].queues]
    return len(queues) + sum(len(state.pending.local_queues_of(name)) for name in queues) + len(_pointing(state, edit))


def situations(
    state: State, edit: ObjectEdit, named: Iterable[str], now: float, life: LifePolicy | None = None
) -> tuple[Situation, Situation]:
    """Returns the situation before an edit and the one after it, in these ``arenas``."""
    before = before_edit(state, edit, named, now, life)
    return before, edited(before, edit)


def before_edit(
    state: State, edit: ObjectEdit, named: Iterable[str], now: float, life: LifePolicy | None = None
) -> Situation:
    """Returns the situation before an edit, in these ``arenas``."""
    return around(state, named, sorted(_pointing(state, edit)), now, life)


def edited(before: Situation, edit: ObjectEdit) -> Situation:
    """Returns the situation after an edit. A ClusterQueue that is deleted stays, without further admissions, until
    nothing uses it; a flavor stays until no ClusterQueue names it.
    """
    old, new = edit.old, edit.new
    match new or old:
        case ClusterQueue(name=name):
            queues = _put(before.cluster_queues, name, new if isinstance(new, ClusterQueue) else None)
            in_use = any(each.admission is not None and each.admission.cluster_queue == name for each in before.holding)
            if new is None and in_use and isinstance(old, ClusterQueue):
                queues[name] = replace(old, stop_policy=StopPolicy.HOLD)
            return dataclasses.replace(before, cluster_queues=queues)
        case Cohort(name=name):
            return dataclasses.replace(
                before, cohorts=_put(before.cohorts, name, new if isinstance(new, Cohort) else None)
            )
        case LocalQueue(key=key):
            queue = new if isinstance(new, LocalQueue) else None
            return dataclasses.replace(before, local_queues=_put(before.local_queues, key, queue))
        case ResourceFlavor(name=name) if isinstance(new, ResourceFlavor):
            return dataclasses.replace(before, flavors=_put(before.flavors, name, new))
        case PriorityClass() if isinstance(old, PriorityClass) and isinstance(new, PriorityClass):
            waiting = tuple(_follows(each, old, new.value) for each in before.waiting)
            holding = tuple(_follows(each, old, new.value) for each in before.holding)
            return dataclasses.replace(before, waiting=waiting, holding=holding)
    return before


def _follows(workload: Workload, old: PriorityClass, value: int) -> Workload:
    """A workload whose priority is that of its class has the new one; any other was set by hand."""
    same = workload.priority_class == old.name and workload.priority == old.value
    return replace(workload, priority=value) if same else workload


def _put(table: Mapping[_Name, _Value], name: _Name, value: _Value | None) -> dict[_Name, _Value]:
    return {key: each for key, each in table.items() if key != name} | ({name: value} if value is not None else {})


def _pointing(state: State, edit: ObjectEdit) -> Collection[Key]:
    """The LocalQueues whose workloads wait for this edit, although no arena has them yet."""
    match edit.new:
        case ClusterQueue(name=name):
            return state.pending.local_queues_of(name)
        case LocalQueue(key=key) if key in state.pending.local_queues:
            return (key,)
    return ()


def _with_queues(state: State, name: str) -> set[str]:
    found = state.reservations.arena_of.get(name)
    return {found} if found is not None else set()


def _with_cohorts(state: State, names: Set[str]) -> set[str]:
    wanted = names - {""}
    found = state.reservations.arenas.items()
    return {name for name, arena in found if wanted & arena.cohorts.keys()} if wanted else set()


def _with_flavors(state: State, names: Set[str]) -> set[str]:
    found = state.reservations
    if not names:
        return set()
    return {found.arena_of[name] for name, queue in found.cluster_queues.items() if names & _flavors(queue)}


def _flavors(queue: ClusterQueue) -> set[str]:
    return {name for group in queue.groups for name in group.flavors}


def _has_topology(state: State, flavor: str) -> bool:
    found = state.reservations.flavors.get(flavor)
    return found is not None and found.topology_name is not None
