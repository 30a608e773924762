"""Where in a topology a waiting workload would fit: for each domain of the level that it asks for, the room now and in
an empty cluster, and who is there; and which running workloads, if they were restarted, would make room.

Separate from ``core.explain.analysis``: these are the only answers that look at domains. The hint is text alone;
nothing is restarted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from core.explain.explanation import DomainRoom, Rooms
from core.explain.sight import EVERYTHING, Sight
from core.model import Key, Workload
from core.quota.arena import Arena
from core.quota.node import QueueNode
from core.quota.placement import Place, PlacementCapacity
from core.quota.usage import Reservation
from core.topology import Asked, Domains, Misfit, Options, place
from core.topology.counts import Counts, counts
from core.topology.flavors import asks
from core.topology.largest import largest
from core.topology.nodes import PODS
from core.topology.place import groups, roles, shape_of
from core.topology.request import Goal, goal

MOST_DOMAINS = 12
"""So many domains are shown, those with most room first."""
MOST_WIDE: Final = (12, 8, 4)
"""So many domains are drawn in one, by the number of levels below the highest."""
MOST_OPEN: Final = 2
"""Of the highest level so many domains are drawn with those in them, else the first."""
MOST_TRIED = 5
"""For so many domains of each pod set it is tried whether restarts would make room."""
MOST_MOVED = 3
"""So many workloads on a domain at most would be restarted."""


def nodes(arena: Arena, node: QueueNode) -> int:
    """Returns how many nodes, or other lowest domains, the flavors of a ClusterQueue have together."""
    return sum(each.tree.leaves.present for each in _domains(_capacity(arena), node).values())


def rooms(arena: Arena, node: QueueNode, workload: Workload, sight: Sight = EVERYTHING) -> tuple[Rooms, ...]:
    """Returns the room for each pod set that is placed, in each flavor with a topology that its ClusterQueue has."""
    capacity = _capacity(arena)
    if capacity is None:
        return ()
    held = list(holders(arena))
    return tuple(
        found
        for group in _groups(_asked(node, capacity, workload))
        for flavor, domains in _domains(capacity, node).items()
        if (found := _rooms(domains, group, flavor, held, capacity.options, sight)) is not None
    )


def largest_nodes(arena: Arena, node: QueueNode, workload: Workload, rooms: Rooms) -> str:
    """Returns the nodes of the largest domain, as ``6 nodes with 8 gpu each``, where these explain that no more pods of
    a pod set could ever be placed; else ''.
    """
    capacity = _capacity(arena)
    domains = _domains(capacity, node).get(rooms.flavor)
    if capacity is None or domains is None or rooms.leader:
        return ""
    for asked in _asked(node, capacity, workload):
        wanted = _goal(domains, asked, capacity.options)
        if asked.pod_set.name == rooms.pod_set and wanted is not None:
            found = largest(domains.empty(), asked, capacity.options)
            return found.nodes if found is not None and found.pods == rooms.most * wanted.size else ""
    return ""


def flavors(arena: Arena, node: QueueNode, workload: Workload) -> frozenset[str]:
    """Returns the flavors of a ClusterQueue in which a pod set of a workload might be placed."""
    capacity = _capacity(arena)
    if capacity is None:
        return frozenset()
    asked = list(_asked(node, capacity, workload))
    return frozenset(
        name
        for name, domains in _domains(capacity, node).items()
        if any(_goal(domains, each, capacity.options) is not None for each in asked)
    )


def moves(arena: Arena, node: QueueNode, workload: Workload, sight: Sight = EVERYTHING) -> str:
    """Returns which workloads, if they were restarted, would be placed elsewhere and so make room in one flavor for all
    pod sets that are placed, as a sentence; '' where none are found. Costs a bounded number of placements.
    """
    capacity = _capacity(arena)
    asked = list(_asked(node, capacity, workload)) if capacity is not None else []
    if capacity is None or not asked:
        return ""
    held = list(holders(arena))
    for flavor, domains in _domains(capacity, node).items():
        found = _moves(domains, asked, flavor, held, capacity.options, sight)
        if found:
            return found
    return ""


def _capacity(arena: Arena) -> PlacementCapacity | None:
    capacity = arena.further.get("topology")
    return capacity if isinstance(capacity, PlacementCapacity) else None


def _domains(capacity: PlacementCapacity | None, node: QueueNode) -> dict[str, Domains]:
    """The domains of the flavors with a topology that a ClusterQueue has, in its order."""
    known = capacity.domains if capacity is not None else {}
    return {name: known[name] for group in node.spec.groups for name in group.flavors if name in known}


def _goal(domains: Domains, asked: Asked, options: Options) -> Goal | None:
    """What is asked for in terms of the levels of a flavor; None if it cannot be, or no node is there."""
    wanted = goal(asked.topology, domains.tree.levels, options, implied=asked.implied)
    return None if isinstance(wanted, Misfit) or not domains.tree.leaves.present else wanted


def _asked(node: QueueNode, capacity: PlacementCapacity, workload: Workload) -> Iterator[Asked]:
    only = capacity.places_all(node.name)
    for pod_set in workload.pod_sets:
        if pod_set.count and (asks(pod_set.topology) or only):
            group = "" if pod_set.topology is None else pod_set.topology.group
            yield Asked(pod_set, pod_set.count, group, not asks(pod_set.topology))


class _Together(NamedTuple):
    """Pod sets that are placed in one domain: workers, and perhaps a leader (``core.topology.place``)."""

    workers: Asked
    leader: Asked | None = None

    def counted(self, domains: Domains, wanted: Goal, options: Options) -> Counts:
        """How many of the pods each domain holds."""
        return counts(domains, shape_of(domains, wanted, self.workers, self.leader, options))

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that the pods ask for; the number of pods if there are no others."""
        asked = {name for each in self if each is not None for name, amount in each.per_pod.items() if amount}
        return tuple(sorted(asked)) or (PODS,)


def _groups(requests: Iterable[Asked]) -> Iterator[_Together]:
    return (_Together(*roles(group)) for group in groups(requests))


class _Room(NamedTuple):
    """What domains hold, by level and number: pods, and units of a goal beside the leader at its own level. ``total``
    is how many units all domains hold together.
    """

    pods: list[list[int]]
    units: list[int]
    total: int

    @classmethod
    def of(cls, counted: Counts, level: int) -> _Room:
        """Returns a copy: counts follow whoever asks next."""
        pods = [each.copy() for each in counted.plain.pods]
        if not counted.leads:
            return cls(pods, counted.plain.units[level].copy(), sum(counted.plain.units[0]))
        beside, leads = counted.led, counted.leads
        pods[level] = [held if able else 0 for held, able in zip(beside.pods[level], leads[level], strict=True)]
        units = [held if able else 0 for held, able in zip(beside.units[level], leads[level], strict=True)]
        top = zip(counted.plain.units[0], beside.units[0], leads[0], strict=True)
        lost = min((plain - led for plain, led, able in top if able), default=None)
        return cls(pods, units, 0 if lost is None else sum(counted.plain.units[0]) - lost)


def _rooms(
    domains: Domains, group: _Together, flavor: str, held: Sequence[Reservation], options: Options, sight: Sight
) -> Rooms | None:
    asked, tree = group.workers, domains.tree
    wanted = _goal(domains, asked, options)
    if wanted is None:
        return None
    level = _shown(wanted)
    now = _Room.of(group.counted(domains, wanted, options), level)
    ever = _Room.of(group.counted(domains.empty(), wanted, options), level)
    taken = _taken(domains, level, held)
    order = sorted(range(tree.size(level)), key=lambda n: (-now.units[n], -ever.units[n], n))
    size = wanted.size
    number = asked.count // size
    drawn = _Drawing(domains, group.resources, wanted, level, number, now, ever, held, sight)
    shown = tuple(
        DomainRoom(
            "/".join(tree.path(level, number)) if sight.names_domains(tree.levels[level]) else "",
            now.units[number],
            ever.units[number],
            *_there(taken.get(number, {}), sight),
        )
        for number in order[:MOST_DOMAINS]
    )
    unit = "pod" if size == 1 else f"slice of {size} pods"
    return Rooms(
        asked.pod_set.name,
        flavor,
        tree.levels[level],
        number,
        unit,
        wanted.required,
        shown,
        max(0, len(order) - MOST_DOMAINS),
        asked.count % size,
        max(ever.units, default=0) if wanted.required else ever.total,
        group.leader.pod_set.name if group.leader is not None else "",
        tuple(drawn.rows()) if sight.nodes else (),
        max(0, tree.size(0) - drawn.widest) if sight.nodes else 0,
    )


class _Drawing(NamedTuple):
    """The tree of domains, cut to a number of rows that does not depend on the number of nodes. Costs the leaves, once
    for each level.
    """

    domains: Domains
    resources: tuple[str, ...]
    wanted: Goal
    level: int
    number: int
    now: _Room
    ever: _Room
    held: Sequence[Reservation]
    sight: Sight

    @property
    def lowest(self) -> int:
        """The lowest level that is drawn: one below the one that is asked for."""
        return min(self.level + 1, self.domains.tree.lowest)

    @property
    def widest(self) -> int:
        """How many domains are drawn in one, or of the highest level."""
        return MOST_WIDE[min(self.lowest, len(MOST_WIDE) - 1)]

    def rows(self) -> Iterator[DomainRoom]:
        """Yields the domains, each before those in it, and of one level those with most room first."""
        taken = [_taken(self.domains, depth, self.held) for depth in range(self.lowest + 1)]
        yield from self._below(0, range(self.domains.tree.size(0)), self._best(), taken, MOST_OPEN)

    def _best(self) -> list[list[int]]:
        """What orders the domains. Above the level that all pods must be in together: what the best one in it has."""
        tree, level = self.domains.tree, self.level
        best = self.now.pods[: self.lowest + 1]
        if self.wanted.required:
            best[level] = self.now.units
            for above in range(level - 1, -1, -1):
                best[above] = [max(best[above + 1][each.start : each.stop]) for each in tree.children[above]]
        return best

    def _below(
        self,
        depth: int,
        numbers: range,
        best: list[list[int]],
        taken: Sequence[Mapping[int, Mapping[Key, int]]],
        opened: int,
    ) -> Iterator[DomainRoom]:
        tree, ever = self.domains.tree, self.ever.pods[depth]
        order = sorted(numbers, key=lambda n: (-best[depth][n], -ever[n], n))
        for position, number in enumerate(order[: self.widest]):
            inside = tree.children[depth][number] if depth < self.lowest and position < opened else range(0)
            yield DomainRoom(
                tree.path(depth, number)[-1],
                self.now.pods[depth][number],
                ever[number],
                *_there(taken[depth].get(number, {}), self.sight),
                depth=depth,
                amounts=tuple(self._amounts(depth, number)),
                fits=self._fits(number) if depth == self.level and not self.wanted.unconstrained else "",
                hidden=max(0, len(inside) - self.widest) if inside else None,
            )
            yield from self._below(depth + 1, inside, best, taken, 1) if inside else ()

    def _amounts(self, depth: int, number: int) -> Iterator[tuple[str, int, int]]:
        """What is free of each resource, and what workloads use. A node that is gone has nothing."""
        leaves = self.domains.tree.below(depth, number, self.domains.tree.lowest)
        present = [(each, self.domains.tree.leaves[each]) for each in leaves]
        there = [(leaf.capacity, self.domains.used(each)) for each, leaf in present if leaf.present]
        for name in self.resources:
            used = sum(each.get(name, 0) for _, each in there)
            yield name, sum(each.get(name, 0) for each, _ in there) - used, used

    def _fits(self, number: int) -> str:
        if self.now.units[number] >= self.number:
            return "now"
        return "if empty" if self.ever.units[number] >= self.number else "never"


def _there(taken: Mapping[Key, int], sight: Sight) -> tuple[tuple[tuple[Key, int], ...], int]:
    """The workloads on a domain that may be named, those with most pods first, and the pods of all others."""
    named = sorted(((key, pods) for key, pods in taken.items() if sight.names(key)), key=lambda x: (-x[1], x[0]))
    return tuple(named), sum(pods for key, pods in taken.items() if not sight.names(key))


def _shown(wanted: Goal) -> int:
    """The level whose domains are shown: for pods that may be anywhere the one above, which people know by name."""
    return max(0, wanted.level - 1) if wanted.unconstrained else wanted.level


def holders(arena: Arena) -> Iterator[Reservation]:
    """Yields the reservations that use domains."""
    for node in arena.queues.values():
        for held in node.reserved.values():
            if "topology" in held.usage.further:
                yield held


def _taken(domains: Domains, level: int, reservations: Iterable[Reservation]) -> dict[int, dict[Key, int]]:
    """The pods of each workload on each domain of a level."""
    found: dict[int, dict[Key, int]] = {}
    for held in reservations:
        for number, count in _on(domains, level, held).items():
            found.setdefault(number, {})[held.workload.key] = count
    return found


def _on(domains: Domains, level: int, held: Reservation) -> dict[int, int]:
    found: dict[int, int] = {}
    for each, count in held.usage.further["topology"].items():
        if isinstance(each, Place) and (each.flavor == domains.flavor.name or domains.tree.by_hostname):
            leaf = domains.number(each.values)
            if leaf is not None:
                number = domains.tree.above(leaf, level)
                found[number] = found.get(number, 0) + count
    return found


def _moves(
    domains: Domains, asked: list[Asked], flavor: str, reservations: list[Reservation], options: Options, sight: Sight
) -> str:
    if not domains.tree.leaves.present or not _fits(domains.empty(), asked, options):
        return ""
    movable = [held for held in reservations if _restartable(held, flavor)]
    for group in _groups(asked):
        wanted = _goal(domains, group.workers, options)
        if wanted is None:
            return ""
        level = wanted.level if wanted.required else wanted.slice_level
        on = {held.workload.key: _on(domains, level, held) for held in movable}
        for number in _worth_emptying(domains, group, wanted, level, on, options):
            mine = sorted(
                (held for held in movable if number in on[held.workload.key]),
                key=lambda held: (sum(on[held.workload.key].values()), held.workload.key),
            )
            moved = _moved(domains, asked, mine, options)
            if moved:
                certain = wanted.required and len(asked) == 1 + (group.leader is not None)
                named = sight.names_domains(domains.tree.levels[level])
                where = "/".join(domains.tree.path(level, number)) if named else "another domain"
                return _hint(sight.listed(each.workload.key for each in moved), len(moved), where if certain else "")
    return ""


def _worth_emptying(
    domains: Domains,
    group: _Together,
    wanted: Goal,
    level: int,
    on: Mapping[Key, Mapping[int, int]],
    options: Options,
) -> list[int]:
    """The domains that may hold more if workloads leave them: for a required level those that are large enough, with
    most room first; for slices, and pods that may be on several domains, those of which the fewest pods must leave.
    """
    ever = _Room.of(group.counted(domains.empty(), wanted, options), level).units
    now = _Room.of(group.counted(domains, wanted, options), level).units
    if wanted.required:
        need = group.workers.count // wanted.size
        return sorted((n for n in range(len(now)) if ever[n] >= need), key=lambda n: (-now[n], n))[:MOST_TRIED]
    there: dict[int, int] = {}
    for each in on.values():
        for number, pods in each.items():
            there[number] = there.get(number, 0) + pods
    return sorted((n for n in there if ever[n] > now[n]), key=lambda n: (there[n], n))[:MOST_TRIED]


def _hint(names: str, number: int, where: str) -> str:
    was, they = ("was", "it") if number == 1 else ("were", "they")
    there = f"this workload in {where}" if where else "this workload would fit too"
    return f"if {names} {was} restarted, {they} would fit elsewhere, and {there} (nothing is restarted for it)"


def _fits(domains: Domains, asked: list[Asked], options: Options) -> bool:
    """Whether pod sets fit all together."""
    placed = place(domains, asked, options)
    return all(each.pod_set.name in placed and not isinstance(placed[each.pod_set.name], Misfit) for each in asked)


def _restartable(held: Reservation, flavor: str) -> bool:
    """Whether all that a workload is placed in is this flavor: then it can be placed again here."""
    admission = held.workload.admission
    given = admission.pod_sets if admission is not None else ()
    return not held.evicted and all(set(each.flavors.values()) == {flavor} for each in given)


def _moved(
    domains: Domains, asked: list[Asked], reservations: list[Reservation], options: Options
) -> list[Reservation]:
    """The first few of these reservations without which the pod sets fit, if all of them then fit elsewhere."""
    here = domains.copy()
    for number, held in enumerate(reservations[:MOST_MOVED], start=1):
        _count(here, held.usage.further["topology"], -1)
        trial = here.copy()
        if _put(trial, asked, options) and all(
            _put(trial, list(_again(each.workload)), options) for each in reservations[:number]
        ):
            return reservations[:number]
    return []


def _put(domains: Domains, asked: list[Asked], options: Options) -> bool:
    """Places pod sets, which then count; False if they do not fit."""
    placed = place(domains, asked, options)
    for each in asked:
        result = placed.get(each.pod_set.name)
        if result is None or isinstance(result, Misfit):
            return False
        for domain in result.domains:
            domains.add(domain.values, each.per_pod, domain.count)
    return True


def _again(workload: Workload) -> Iterator[Asked]:
    counts_of = {each.name: each.count for each in workload.admission.pod_sets} if workload.admission else {}
    for pod_set in workload.pod_sets:
        group = pod_set.topology.group if pod_set.topology is not None else ""
        yield Asked(
            pod_set, counts_of.get(pod_set.name, pod_set.count), group=group, implied=not asks(pod_set.topology)
        )


def _count(domains: Domains, amounts: Mapping[object, int], sign: int) -> None:
    for each, count in amounts.items():
        if isinstance(each, Place):
            domains.add(each.values, dict(each.requests), sign * count)
