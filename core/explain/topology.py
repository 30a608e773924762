"""Where in a topology a waiting workload would fit: for each domain of the level that it asks for, the room now and in
an empty cluster, and who is there; and which running workloads, if they were restarted, would make room.

Separate from ``core.explain.analysis``: these are the only answers that look at domains. The hint is text alone;
nothing is restarted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from core.explain.explanation import DomainRoom, Rooms
from core.explain.sight import EVERYTHING, Sight
from core.model import Key, Workload
from core.quota.arena import Arena
from core.quota.node import QueueNode
from core.quota.placement import Place, PlacementCapacity
from core.quota.usage import Reservation
from core.topology import Asked, Domains, Misfit, Options, place
from core.topology.counts import Shape, counts, node_filter, requests_of
from core.topology.flavors import asks
from core.topology.request import Goal, goal

MOST_DOMAINS = 12
"""So many domains are shown, those with most room first."""
MOST_TRIED = 5
"""For so many domains it is tried whether restarts would make room, and with so many holders at most."""
MOST_MOVED = 3


def nodes(arena: Arena, node: QueueNode) -> int:
    """Returns how many nodes, or other lowest domains, the flavors of a ClusterQueue have together."""
    capacity = arena.further.get("topology")
    if not isinstance(capacity, PlacementCapacity):
        return 0
    flavors = dict.fromkeys(name for group in node.spec.groups for name in group.flavors)
    return sum(capacity.domains[name].tree.leaves.present for name in flavors if name in capacity.domains)


def rooms(arena: Arena, node: QueueNode, workload: Workload, sight: Sight = EVERYTHING) -> tuple[Rooms, ...]:
    """Returns the room for each pod set that is placed, in each flavor with a topology that its ClusterQueue has."""
    capacity = arena.further.get("topology")
    if not isinstance(capacity, PlacementCapacity):
        return ()
    held = list(holders(arena))
    return tuple(
        found
        for asked in _asked(node, capacity, workload)
        for flavor in dict.fromkeys(name for group in node.spec.groups for name in group.flavors)
        if flavor in capacity.domains
        and (found := _rooms(capacity.domains[flavor], asked, flavor, held, capacity.options, sight)) is not None
    )


def moves(arena: Arena, node: QueueNode, workload: Workload, sight: Sight = EVERYTHING) -> str:
    """Returns which workloads, if they were restarted, would be placed elsewhere and so make room, as a sentence; ''
    where none are found, or several pod sets or flavors make that more than one question.
    """
    capacity = arena.further.get("topology")
    asked = list(_asked(node, capacity, workload)) if isinstance(capacity, PlacementCapacity) else []
    if not isinstance(capacity, PlacementCapacity) or len(asked) != 1 or not asked[0].topology.required:
        return ""
    flavors = dict.fromkeys(name for group in node.spec.groups for name in group.flavors)
    for flavor in flavors:
        if flavor in capacity.domains:
            held = list(holders(arena))
            found = _moves(capacity.domains[flavor], asked[0], flavor, held, capacity.options, sight)
            if found:
                return found
    return ""


def _asked(node: QueueNode, capacity: PlacementCapacity, workload: Workload) -> Iterator[Asked]:
    only = capacity.places_all(node.name)
    for pod_set in workload.pod_sets:
        if pod_set.count and (asks(pod_set.topology) or only):
            yield Asked(pod_set, pod_set.count, implied=not asks(pod_set.topology))


def _rooms(
    domains: Domains, asked: Asked, flavor: str, held: Iterable[Reservation], options: Options, sight: Sight
) -> Rooms | None:
    wanted = goal(asked.topology, domains.tree.levels, options, implied=asked.implied)
    if isinstance(wanted, Misfit) or not domains.tree.leaves.present:
        return None
    level, tree = _shown(wanted), domains.tree
    now, ever = _units(domains, asked, wanted), _units(domains.empty(), asked, wanted)
    taken = _taken(domains, level, held)
    order = sorted(range(tree.size(level)), key=lambda n: (-now[level][n], -ever[level][n], n))
    shown = tuple(
        DomainRoom(
            "/".join(tree.path(level, number)) if sight.nodes else "",
            now[level][number],
            ever[level][number],
            tuple(
                sorted(
                    ((key, pods) for key, pods in taken.get(number, {}).items() if sight.names(key)),
                    key=lambda each: (-each[1], each[0]),
                )
            ),
            sum(pods for key, pods in taken.get(number, {}).items() if not sight.names(key)),
        )
        for number in order[:MOST_DOMAINS]
    )
    size = wanted.size
    unit = "pod" if size == 1 else f"slice of {size} pods"
    return Rooms(
        asked.pod_set.name,
        flavor,
        tree.levels[level],
        asked.count // size,
        unit,
        wanted.required,
        shown,
        max(0, len(order) - MOST_DOMAINS),
        asked.count % size,
        max(ever[level], default=0) if wanted.required else sum(ever[0]),
    )


def _shown(wanted: Goal) -> int:
    """The level whose domains are shown: for pods that may be anywhere the one above, which people know by name."""
    return max(0, wanted.level - 1) if wanted.unconstrained else wanted.level


def _units(domains: Domains, asked: Asked, wanted: Goal) -> list[list[int]]:
    """How many slices (or pods) each domain holds, by level and number."""
    filtered = node_filter(asked.pod_set.placement, domains.flavor, asked.updates)
    shape = Shape(requests_of(asked.per_pod), None, filtered, wanted.slice_level, wanted.sizes)
    return counts(domains, shape).plain.units


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
    domains: Domains, asked: Asked, flavor: str, reservations: list[Reservation], options: Options, sight: Sight
) -> str:
    wanted = goal(asked.topology, domains.tree.levels, options, implied=asked.implied)
    if isinstance(wanted, Misfit) or not domains.tree.leaves.present:
        return ""
    level, need = wanted.level, asked.count // wanted.size
    now, ever = _units(domains, asked, wanted)[level], _units(domains.empty(), asked, wanted)[level]
    able = sorted((n for n in range(len(now)) if ever[n] >= need), key=lambda n: (-now[n], n))
    on = {held.workload.key: _on(domains, level, held) for held in reservations}
    for number in able[:MOST_TRIED]:
        mine = sorted(
            (held for held in reservations if number in on[held.workload.key] and _restartable(held, flavor)),
            key=lambda held: (sum(on[held.workload.key].values()), held.workload.key),
        )
        moved = _moved(domains, asked, mine[: MOST_MOVED * 2], options)
        if moved:
            names = sight.listed(held.workload.key for held in moved)
            where = "/".join(domains.tree.path(level, number)) if sight.nodes else "another domain"
            one = len(moved) == 1
            return (
                f"if {names} {'was' if one else 'were'} restarted, {'it' if one else 'they'} would fit elsewhere, and"
                f" this workload in {where} (nothing is restarted for it)"
            )
    return ""


def _restartable(held: Reservation, flavor: str) -> bool:
    """Whether all that a workload is placed in is this flavor: then it can be placed again here."""
    admission = held.workload.admission
    given = admission.pod_sets if admission is not None else ()
    return not held.evicted and all(set(each.flavors.values()) == {flavor} for each in given)


def _moved(domains: Domains, asked: Asked, reservations: list[Reservation], options: Options) -> list[Reservation]:
    """The first few of these reservations without which the pod set fits, if all of them then fit elsewhere."""
    here = domains.copy()
    for number, held in enumerate(reservations[:MOST_MOVED], start=1):
        _count(here, held.usage.further["topology"], -1)
        trial = here.copy()
        if _put(trial, [asked], options) and all(
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
