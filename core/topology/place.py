"""Chooses the domains on which the pods of a workload run.

The rules, in order: the level at which all pods fit on one domain (or, if they need not, the domains at the highest
allowed level), then level by level the domains below, taken greedily. Two profiles order domains: best fit takes
those with most room first, so that few domains are used, and exchanges the last for the smallest that is enough; least
free capacity (for pods that may be anywhere) takes those with the least room first, so that large gaps stay whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from core.model import TopologyAssignment, TopologyDomain
from core.topology import reasons
from core.topology.balanced import balanced
from core.topology.counts import Counts, Shape, Table, counts, node_filter, requests_of
from core.topology.elastic import scaled
from core.topology.nodes import Domains, Tree
from core.topology.request import Asked, Goal, Misfit, Options, goal


class Part(NamedTuple):
    """A domain of some level that takes so many units (see ``Goal``), and the leader or not."""

    domain: int
    units: int
    leader: bool = False


class Shortfall(NamedTuple):
    """No choice of domains; ``fit`` units would fit."""

    fit: int


def place(
    domains: Domains, requests: Sequence[Asked], options: Options, *, empty: bool = False
) -> dict[str, TopologyAssignment | Misfit]:
    """Returns the assignment of each pod set, by name, or why it does not fit; pod sets after the first that does not
    fit are left out. With ``empty`` as if no workload used anything.

    Each pod set sees what those before it take; the domains themselves are not changed.
    """
    here = domains.empty() if empty else domains.copy()
    found: dict[str, TopologyAssignment | Misfit] = {}
    for group in _groups(requests):
        placed = _placed(here, group, options)
        found |= placed
        if any(isinstance(each, Misfit) for each in placed.values()):
            break
        for asked in group:
            _count(here, asked, placed[asked.pod_set.name])
    return found


def _groups(requests: Sequence[Asked]) -> list[list[Asked]]:
    """Pod sets that are placed together, in the order of the first of each."""
    found: dict[tuple[str, int], list[Asked]] = {}
    for index, asked in enumerate(requests):
        found.setdefault((asked.group, 0 if asked.group else index), []).append(asked)
    return list(found.values())


def _count(domains: Domains, asked: Asked, placed: TopologyAssignment | Misfit) -> None:
    if isinstance(placed, TopologyAssignment):
        for domain in placed.domains:
            domains.add(domain.values, asked.per_pod, domain.count)


def _placed(domains: Domains, group: list[Asked], options: Options) -> dict[str, TopologyAssignment | Misfit]:
    workers, leader = _roles(group)
    if options.elastic:
        kept = scaled(domains, workers, leader, lambda here, asked: found_leaves(here, asked, options))
        if kept is not None:
            return kept
    tree = domains.tree
    wanted = goal(workers.topology, tree.levels, options, implied=workers.implied)
    names = [asked.pod_set.name for asked in group]
    if isinstance(wanted, Misfit):
        return dict.fromkeys(names, wanted)
    parts = search(domains, wanted, workers, leader, options)
    if isinstance(parts, Misfit):
        return dict.fromkeys(names, parts)
    found: dict[str, TopologyAssignment | Misfit] = {
        workers.pod_set.name: assignment(tree, [(part.domain, part.units) for part in parts if part.units])
    }
    if leader is not None:
        found[leader.pod_set.name] = assignment(tree, [(part.domain, 1) for part in parts if part.leader])
    return found


def _roles(group: list[Asked]) -> tuple[Asked, Asked | None]:
    """The workers, and the leader if there are two pod sets: the one with fewer pods, else the second."""
    if len(group) == 1:
        return group[0], None
    first, second = group[:2]
    return (second, first) if first.count < second.count else (first, second)


def assignment(tree: Tree, leaves: Iterable[tuple[int, int]]) -> TopologyAssignment:
    """The assignment of so many pods to each of these leaves, in the order of their paths."""
    found = tuple(TopologyDomain(tree.values(leaf), count) for leaf, count in sorted(leaves))
    return TopologyAssignment(tree.named_levels, found)


def found_leaves(
    domains: Domains, asked: Asked, options: Options, within: range | None = None
) -> dict[int, int] | Misfit:
    """The leaves for one pod set, of those within a range, and the number of pods on each; or why it does not fit."""
    wanted = goal(asked.topology, domains.tree.levels, options, implied=asked.implied)
    if isinstance(wanted, Misfit):
        return wanted
    parts = search(domains, wanted, asked, None, options, within)
    return parts if isinstance(parts, Misfit) else {part.domain: part.units for part in parts if part.units}


def search(
    domains: Domains, wanted: Goal, workers: Asked, leader: Asked | None, options: Options, within: range | None = None
) -> list[Part] | Misfit:
    """The leaves for the workers, in pods, and for the leader."""
    conflict = reasons.conflict(workers)
    if conflict:
        return Misfit(conflict)
    shape = Shape(
        requests_of(workers.per_pod),
        requests_of(leader.per_pod) if leader else None,
        node_filter(workers.pod_set.placement, domains.flavor, workers.updates, scored=options.preferred_affinity),
        wanted.slice_level,
        wanted.sizes,
    )
    counted = counts(domains, shape, within)
    tree = domains.tree
    if not tree.leaves:
        return Misfit(f"no topology domains at level: {tree.levels[wanted.level]}")
    need = workers.count // wanted.size
    parts: list[Part] | Shortfall
    even = balanced(counted, wanted, need, leader=leader is not None) if _may_balance(wanted, options) else None
    if even is not None:
        level, shares = even
        parts = _split(counted, wanted, level, [Part(*share) for share in shares])
    else:
        level, parts = _choose(counted, wanted, need, leader is not None)
        if not isinstance(parts, Shortfall):
            parts = _descend(counted, wanted, level, parts)
    if not isinstance(parts, Shortfall):
        return parts
    topology = domains.flavor.topology_name or ""
    if len(wanted.layers) > 1:
        return Misfit(reasons.layers(topology, wanted, counted, level, _fullest(counted, level), workers.count))
    return Misfit(reasons.misfit(topology, wanted, counted, need, parts.fit))


def _may_balance(wanted: Goal, options: Options) -> bool:
    return options.balanced and not wanted.required and not wanted.unconstrained


def _choose(counted: Counts, wanted: Goal, need: int, leader: bool) -> tuple[int, list[Part] | Shortfall]:
    """The level at which domains are chosen, and these."""
    level = wanted.level
    while True:
        one = _one(counted, wanted, level, need, leader)
        if one is not None:
            return level, [one]
        if wanted.required:
            return level, Shortfall(counted.plain.units[level][_fullest(counted, level)])
        if wanted.unconstrained or level == 0:
            return level, _several(counted, wanted, level, range(counted.tree.size(level)), need, leader, counted.led)
        level -= 1


def _fullest(counted: Counts, level: int) -> int:
    """The domain with the most slices; one that can hold the leader before all others."""
    units, pods, leads = counted.led.units[level], counted.led.pods[level], counted.leads[level]
    return min(range(len(units)), key=lambda n: (not leads[n], -units[n], pods[n], n))


def _one(counted: Counts, wanted: Goal, level: int, need: int, leader: bool) -> Part | None:
    """One domain that holds everything: the one with the fewest units, the first of them in the profile's order.

    Best fit only looks at the domains with the best score.
    """
    units, pods, leads, scores = (
        counted.led.units[level],
        counted.led.pods[level],
        counted.leads[level],
        counted.scores[level],
    )
    best = max(scores) if wanted.best_fit and not wanted.required else 0
    enough = [n for n in range(len(units)) if units[n] >= need and (leads[n] or not leader) and scores[n] >= best]
    if not enough:
        return None
    return Part(min(enough, key=lambda n: (-scores[n], units[n], pods[n], n)), need, leader)


def _several(
    counted: Counts, wanted: Goal, level: int, numbers: Sequence[int], need: int, leader: bool, order_by: Table
) -> list[Part] | Shortfall:
    """Domains that together hold everything, each full except the last; the leader is on the first."""
    taken: list[Part] = []
    left = need
    pool = list(numbers)
    if leader:
        units, leads = counted.led.units[level], counted.leads[level]
        plain = counted.plain.units[level]
        total = sum(plain[n] for n in pool)
        leading = [n for n in pool if leads[n]]
        if not leading:
            return Shortfall(0)
        able = [n for n in leading if units[n] + total - plain[n] >= need] or leading
        order = _ordered(able, order_by, counted, wanted, level)
        first = order[0]
        if wanted.best_fit and units[first] >= left:
            first = _smallest(order, counted.led, counted, level, left)
        taken.append(Part(first, min(left, units[first]), True))
        left -= taken[-1].units
        pool.remove(first)
    units = counted.plain.units[level]
    pool = _ordered(pool, counted.plain, counted, wanted, level)
    for index, number in enumerate(pool):
        if not left:
            break
        if units[number]:
            last = wanted.best_fit and units[number] >= left
            chosen = _smallest(pool[index:], counted.plain, counted, level, left) if last else number
            taken.append(Part(chosen, min(left, units[chosen])))
            left -= taken[-1].units
    return Shortfall(need - left) if left else taken


def _ordered(numbers: Iterable[int], table: Table, counted: Counts, wanted: Goal, level: int) -> list[int]:
    """Domains in the order of the profile. Below the level of slices there are none to compare, only pods."""
    units, pods, scores = table.units[level], table.pods[level], counted.scores[level]
    sign = 0 if level > wanted.slice_level else -1 if wanted.best_fit else 1
    return sorted(numbers, key=lambda n: (-scores[n], sign * units[n], pods[n], n))


def _smallest(numbers: Sequence[int], table: Table, counted: Counts, level: int, need: int) -> int:
    """The domain with the fewest units that are enough, among those with the score of the first."""
    units, pods, scores = table.units[level], table.pods[level], counted.scores[level]
    score = scores[numbers[0]]
    return min((n for n in numbers if units[n] >= need and scores[n] == score), key=lambda n: (units[n], pods[n], n))


def _descend(counted: Counts, wanted: Goal, level: int, parts: list[Part]) -> list[Part] | Shortfall:
    """The leaves below the chosen domains, in pods. Slices are distributed anew at each level, among the children of
    all chosen domains; a domain may get none although its parent was chosen.
    """
    while level < wanted.slice_level:
        pooled = [child for part in parts for child in counted.tree.children[level][part.domain]]
        need, leader = sum(part.units for part in parts), any(part.leader for part in parts)
        level += 1
        found = _several(counted, wanted, level, pooled, need, leader, counted.plain)
        if isinstance(found, Shortfall):
            return found
        parts = found
    return _split(counted, wanted, level, parts)


def _split(counted: Counts, wanted: Goal, level: int, parts: list[Part]) -> list[Part] | Shortfall:
    """The leaves below domains whose shares are fixed, in pods: each share goes to the domain's own children."""
    sizes = wanted.sizes
    while level < counted.tree.lowest:
        scale, unit = (sizes[level], sizes[level + 1]) if level >= wanted.slice_level else (1, 1)
        level += 1
        below: list[Part] = []
        for part in parts:
            children = counted.tree.children[level - 1][part.domain]
            units = part.units * scale // unit
            found = _several(counted, wanted, level, children, units, part.leader, counted.plain)
            if isinstance(found, Shortfall):
                return found
            below += found
        parts = below
    return [Part(part.domain, part.units * sizes[level], part.leader) for part in parts]
