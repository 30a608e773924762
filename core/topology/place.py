"""Chooses the domains on which the pods of a workload run.

The rules, in order: the level at which all pods fit on one domain (or, if they need not, the domains at the highest
allowed level), then level by level the domains below, taken greedily. Two profiles order domains: best fit takes
those with most room first, so that few domains are used, and exchanges the last for the smallest that is enough; least
free capacity (for pods that may be anywhere) takes those with the least room first, so that large gaps stay whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Final, NamedTuple

from core.model import PodSet, TopologyAssignment, TopologyDomain
from core.topology import reasons
from core.topology.balanced import balanced
from core.topology.counts import Counts, Shape, Table, counts, effort, node_filter, requests_of
from core.topology.counts import prepare as prepare_counts
from core.topology.elastic import scaled
from core.topology.nodes import Domains, Tree
from core.topology.request import Asked, Goal, Misfit, Options, goal
from core.topology.spread import Rank, Spread


class Part(NamedTuple):
    """A domain of some level that takes so many units (see ``Goal``), and the leader or not."""

    domain: int
    units: int
    leader: bool = False


MOST_ANSWERS: Final = 1000
"""So many answers are kept for one state of the domains."""
MOST_ANSWERED: Final = 100_000
"""So many domains may be in all of them together: one answer may name all nodes. They use about 15 MB."""


MOST_COMPARED: Final = 20_000
"""Some milliseconds."""


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
    here = domains.empty() if empty else domains
    if len(requests) == 1 and not requests[0].updates and requests[0].previous is None and requests[0].spread is None:
        return {requests[0].pod_set.name: place_one(here, requests[0], options)}
    here = here.copy()
    found: dict[str, TopologyAssignment | Misfit] = {}
    for group in groups(requests):
        placed = _placed(here, group, options)
        found |= placed
        if any(isinstance(each, Misfit) for each in placed.values()):
            break
        for asked in group if len(found) < len(requests) else ():
            _count(here, asked, placed[asked.pod_set.name])
    return found


def prepare(domains: Domains, requests: Sequence[Asked], options: Options) -> Iterator[None]:
    """Counts in steps what ``place`` counts if it is asked for these for the first time: as usage is now, and as if
    nothing were in use.
    """
    for group in groups(requests):
        workers, leader = roles(group)
        wanted = goal(workers.topology, domains.tree.levels, options, implied=workers.implied)
        if isinstance(wanted, Misfit) or _refused(domains, workers):
            continue
        shape = shape_of(domains, wanted, workers, leader, options)
        for each in (domains, domains.empty()):
            yield from prepare_counts(each, shape)
            if leader is None and not workers.updates:
                _know(each, workers, wanted, counts(each, shape), options)


def is_known(domains: Domains, pod_set: PodSet, options: Options, *, implied: bool) -> bool:
    """Whether a pod set of which nothing depends on admission checks or other pod sets was counted before."""
    known = domains.counted.asked.get((id(pod_set), implied, options, domains.unused))
    return known is not None and known[0] is pod_set


def _know(domains: Domains, asked: Asked, wanted: Goal, counted: Counts, options: Options) -> None:
    """Remembers what an equal pod set asks for, with its counts."""
    known = domains.counted.asked
    if len(known) >= MOST_ANSWERS:
        known.clear()
    known[id(asked.pod_set), asked.implied, options, domains.unused] = (asked.pod_set, wanted, counted)


def is_quick(domains: Domains, asked: Asked, options: Options) -> bool:
    """Whether to place a pod set costs at most ``MOST_COMPARED`` comparisons with nodes: it was counted before, or
    there are few nodes, or there is little to compare. For callers that cannot pause.
    """
    if is_known(domains, asked.pod_set, options, implied=asked.implied):
        return True
    placement = asked.pod_set.placement
    terms = (*(placement.affinity or ()), *(term for _, term in placement.preferred))
    return len(domains.tree.leaves) * (1 + effort(terms, placement.tolerations)) <= MOST_COMPARED


def has_room(domains: Domains, requests: Sequence[Asked], options: Options) -> bool:
    """Whether ``place`` would find domains for all of them. For one pod set of a shape that was counted before, this
    costs less: where one domain has enough whole slices, those below it have too.
    """
    asked = requests[0]
    key = (id(asked.pod_set), asked.implied, options, domains.unused)
    alone = len(requests) == 1 and not asked.updates and asked.previous is None and not options.elastic
    found = domains.counted.asked.get(key) if alone else None
    if found is not None and found[0] is asked.pod_set:
        _, wanted, counted = found
        counted.follow(domains)
        need = asked.count // wanted.size
        if not counted.scores and not _may_balance(wanted, options) and counted.tree.leaves.present:
            if wanted.required:
                return _one(counted, wanted, wanted.level, need, leader=False) is not None
            return not isinstance(_choose(counted, wanted, need, leader=False)[1], Shortfall)
    return not any(isinstance(each, Misfit) for each in place(domains, requests, options).values())


class _Answer(NamedTuple):
    """What was found for a pod set. ``needed`` is what the pods use together if they are all on one leaf, and if that
    leaf alone decides whether they stay there (``Answers``).
    """

    pod_set: PodSet
    found: TopologyAssignment | Misfit
    needed: tuple[tuple[str, int], ...] = ()


def place_one(domains: Domains, asked: Asked, options: Options) -> TopologyAssignment | Misfit:
    """As ``place`` for one pod set of which nothing depends on admission checks or other workloads: its assignment, or
    why it does not fit, as it was found for an equal one if nothing has changed since. Equal pod sets of many workloads
    are one value (``core.wire.decode``).

    If nothing has changed but that pods were added on the one leaf of the assignment, and it holds these too, they go
    there: it was the one with the least room that is enough, as were the domains above it, and has less room now.
    """
    key, answers = (id(asked.pod_set), asked.count, asked.implied, options), domains.answers
    known: _Answer | None = answers.get(key)
    if known is not None and known.pod_set is asked.pod_set:
        return known.found
    known = answers.still.get(key)
    if known is None or known.pod_set is not asked.pod_set or not domains.holds(answers.leaf, known.needed):
        known = _asked_anew(domains, asked, options)
    named = len(known.found.domains) if isinstance(known.found, TopologyAssignment) else 0
    if len(answers) < MOST_ANSWERS and answers.domains + named <= MOST_ANSWERED:
        answers[key] = known
        answers.domains += named
        if known.needed and isinstance(known.found, TopologyAssignment):
            leaf = domains.tree.numbers[known.found.domains[0].values]
            answers.alone.setdefault(leaf, {})[key] = known
    return known.found


def _asked_anew(domains: Domains, asked: Asked, options: Options) -> _Answer:
    """The answer of a new search."""
    found = _alone_placed(domains, asked, options)
    special = options.elastic or options.balanced or options.preferred_affinity
    if special or isinstance(found, Misfit) or len(found.domains) != 1:
        return _Answer(asked.pod_set, found)
    count = found.domains[0].count
    return _Answer(asked.pod_set, found, tuple((name, amount * count) for name, amount in requests_of(asked.per_pod)))


def _alone_placed(domains: Domains, asked: Asked, options: Options) -> TopologyAssignment | Misfit:
    """The assignment of one pod set, with what was worked out when an equal one was asked for."""
    if options.elastic:
        return _placed(domains, [asked], options)[asked.pod_set.name]
    pod_set, known = asked.pod_set, domains.counted.asked
    key = (id(pod_set), asked.implied, options, domains.unused)
    found = known.get(key)
    if found is not None and found[0] is pod_set:
        _, wanted, counted = found
        counted.follow(domains)
        parts = _found(domains, wanted, asked, None, options, counted)
        return parts if isinstance(parts, Misfit) else _assigned(domains.tree, parts)
    answer = _placed(domains, [asked], options)[pod_set.name]
    wanted_ = goal(asked.topology, domains.tree.levels, options, implied=asked.implied)
    if not isinstance(wanted_, Misfit) and not _refused(domains, asked):
        _know(domains, asked, wanted_, counts(domains, shape_of(domains, wanted_, asked, None, options)), options)
    return answer


def _assigned(tree: Tree, parts: Iterable[Part]) -> TopologyAssignment:
    return assignment(tree, [(part.domain, part.units) for part in parts if part.units])


def groups(requests: Iterable[Asked]) -> list[list[Asked]]:
    """Returns the pod sets that are placed together, in the order of the first of each."""
    found: dict[tuple[str, int], list[Asked]] = {}
    for index, asked in enumerate(requests):
        found.setdefault((asked.group, 0 if asked.group else index), []).append(asked)
    return list(found.values())


def _count(domains: Domains, asked: Asked, placed: TopologyAssignment | Misfit) -> None:
    if isinstance(placed, TopologyAssignment):
        for domain in placed.domains:
            domains.add(domain.values, asked.per_pod, domain.count)


def _placed(domains: Domains, group: list[Asked], options: Options) -> dict[str, TopologyAssignment | Misfit]:
    names = [asked.pod_set.name for asked in group]
    if len(group) > 2:  # not every kind is checked when it is created
        return dict.fromkeys(
            names, Misfit(f"can only place groups of at most 2 pod sets, got: {len(group)} pod set(s)")
        )
    workers, leader = roles(group)
    if leader is not None and leader.count != 1:
        sizes = ", ".join(str(asked.count) for asked in group)
        return dict.fromkeys(names, Misfit(f"can only place groups where one pod set has 1 pod, got: {sizes}"))
    if options.elastic:
        kept = scaled(domains, workers, leader, lambda here, asked: found_leaves(here, asked, options))
        if kept is not None:
            return kept
    tree = domains.tree
    wanted = goal(workers.topology, tree.levels, options, implied=workers.implied)
    if isinstance(wanted, Misfit):
        return dict.fromkeys(names, wanted)
    parts = search(domains, wanted, workers, leader, options)
    if isinstance(parts, Misfit):
        return dict.fromkeys(names, parts)
    found: dict[str, TopologyAssignment | Misfit] = {workers.pod_set.name: _assigned(tree, parts)}
    if leader is not None:
        found[leader.pod_set.name] = assignment(tree, [(part.domain, 1) for part in parts if part.leader])
    return found


def roles(group: list[Asked]) -> tuple[Asked, Asked | None]:
    """Returns the workers, and the leader if there are two pod sets: the one with fewer pods, else the second."""
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


def most(domains: Domains, asked: Asked, options: Options, leader: Asked | None = None) -> int:
    """Returns a number of pods of a pod set than which no more can be placed, whatever number it asks for. Without a
    leader, so many are placed. Costs to count them once.
    """
    wanted = goal(asked.topology, domains.tree.levels, options, implied=asked.implied)
    if isinstance(wanted, Misfit) or (domains.tree.by_hostname and reasons.too_much(asked)):
        return 0
    counted = counts(domains, shape_of(domains, wanted, asked, leader, options))
    units = counted.led.units[wanted.level]
    if not wanted.required:
        held = sum(counted.plain.units[0])
    elif leader is not None:
        held = max(compress(units, counted.leads[wanted.level]), default=0)
    else:
        held = max(units, default=0)
    return held * wanted.size + wanted.size - 1  # those beyond the last whole slice are ignored


def shape_of(domains: Domains, wanted: Goal, workers: Asked, leader: Asked | None, options: Options) -> Shape:
    """Returns what of a request decides how many of its pods each domain holds."""
    return Shape(
        requests_of(workers.per_pod),
        requests_of(leader.per_pod) if leader else None,
        node_filter(workers.pod_set.placement, domains.flavor, workers.updates, scored=options.preferred_affinity),
        wanted.slice_level,
        wanted.sizes,
    )


def search(
    domains: Domains, wanted: Goal, workers: Asked, leader: Asked | None, options: Options, within: range | None = None
) -> list[Part] | Misfit:
    """The leaves for the workers, in pods, and for the leader."""
    refused = _refused(domains, workers)
    if refused:
        return Misfit(refused)
    counted = counts(domains, shape_of(domains, wanted, workers, leader, options), within)
    return _found(domains, wanted, workers, leader, options, counted)


def _refused(domains: Domains, workers: Asked) -> str:
    return reasons.conflict(workers) or (reasons.too_much(workers) if domains.tree.by_hostname else "")


def _found(
    domains: Domains, wanted: Goal, workers: Asked, leader: Asked | None, options: Options, counted: Counts
) -> list[Part] | Misfit:
    tree = domains.tree
    if not tree.leaves.present:
        return Misfit(f"no topology domains at level: {tree.levels[wanted.level]}")
    need = workers.count // wanted.size
    parts: list[Part] | Shortfall
    if workers.spread is not None and wanted.required:
        return _beside(domains, wanted, workers, workers.spread, counted, leader is not None)
    even = balanced(counted, wanted, need, leader=leader is not None) if _may_balance(wanted, options) else None
    if even is not None:
        level, shares = even
        parts = _split(counted, wanted, level, [Part(*share) for share in shares])
    else:
        level, parts = _choose(counted, wanted, need, leader is not None)
        if not isinstance(parts, Shortfall):
            parts = _descend(counted, wanted, level, parts)
    return parts if not isinstance(parts, Shortfall) else _misfit(domains, wanted, workers, counted, level, parts)


def _misfit(domains: Domains, wanted: Goal, workers: Asked, counted: Counts, level: int, found: Shortfall) -> Misfit:
    topology = domains.flavor.topology_name or ""
    if len(wanted.layers) > 1:
        fullest = counted.plain.ranking(level).fullest() or 0
        return Misfit(reasons.layers(topology, wanted, counted, level, fullest, workers.count))
    return Misfit(reasons.misfit(topology, wanted, counted, workers.count // wanted.size, found.fit))


def _beside(
    domains: Domains, wanted: Goal, workers: Asked, spread: Spread, counted: Counts, leader: bool
) -> list[Part] | Misfit:
    """The leaves for pods that are spread beside other workloads: where they may be is decided at one level."""
    tree = domains.tree
    if low := spread.too_low(tree.levels, wanted.level):
        return Misfit(f"topology spreading level {low} is below the podset topology {tree.levels[wanted.level]}")
    ranks = spread.ranks(tree, wanted.level)
    if all(rank is None for rank in ranks):
        return Misfit(f"topology spreading excludes all topology domains at level: {tree.levels[wanted.level]}")
    found: Part | list[Part] | Shortfall
    found = _on_best(counted, wanted, workers.count // wanted.size, leader, ranks)
    if isinstance(found, Part):
        found = _descend(counted, wanted, wanted.level, [found])
    return found if isinstance(found, list) else _misfit(domains, wanted, workers, counted, wanted.level, found)


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
            return level, Shortfall(_held_at_most(counted, level))
        if wanted.unconstrained or level == 0:
            return level, _several(counted, wanted, _whole(level), need, leader, counted.led)
        level -= 1


def _held_at_most(counted: Counts, level: int) -> int:
    """The slices that the first domain holds, in the order in which domains are tried: one that can hold the leader
    before all others, then by score. Without leader and scores nothing is scanned: many heads ask in each cycle.
    """
    units = counted.plain.units[level]
    if not counted.leads and not counted.scores:
        fullest = counted.plain.ranking(level).fullest()
        return 0 if fullest is None else units[fullest]
    held, pods = counted.led.units[level], counted.led.pods[level]
    leads = counted.leads[level] if counted.leads else [True] * len(units)
    if not counted.scores:
        numbers = list(compress(range(len(units)), leads)) or range(len(units))
        fullest = max(map(held.__getitem__, numbers))
        return units[min([n for n in numbers if held[n] == fullest], key=pods.__getitem__)]
    scores = counted.scores[level]
    return units[min(range(len(units)), key=lambda n: (not leads[n], -scores[n], -held[n], pods[n], n))]


def _one(counted: Counts, wanted: Goal, level: int, need: int, leader: bool) -> Part | None:
    """One domain that holds everything: the one with the fewest units that is enough, then by pods and path.

    Where nodes are preferred, the one with the best score is taken; if that is not enough, a required level takes
    another one.
    """
    if not need and not leader:
        return Part(0, 0)
    if not leader and not counted.scores:
        number = next(counted.plain.ranking(level).ascending(need), None)
        return None if number is None else Part(number, need)
    units, pods = counted.led.units[level], counted.led.pods[level]
    if leader and max(compress(units, counted.leads[level]), default=-1) < need:
        return None
    scores = counted.scores[level] if counted.scores else [0] * len(units)
    best = max(scores) if wanted.best_fit and not wanted.required else 0
    enough = [n for n, held in enumerate(units) if held >= need and scores[n] >= best]
    if leader:
        enough = [n for n in enough if counted.leads[level][n]]
    if not enough:
        return None
    if not counted.scores:
        least = min(map(units.__getitem__, enough))
        return Part(min([n for n in enough if units[n] == least], key=pods.__getitem__), need, leader)
    return Part(min(enough, key=lambda n: (-scores[n], units[n], pods[n], n)), need, leader)


def _on_best(counted: Counts, wanted: Goal, need: int, leader: bool, ranks: Sequence[Rank | None]) -> Part | Shortfall:
    """The domain for pods that are spread: of those that the rules rank best and are enough, the one with the fewest
    units.
    """
    if not need and not leader:
        return Part(0, 0)
    level = wanted.level
    units, pods = counted.led.units[level], counted.led.pods[level]
    scores = counted.scores[level] if counted.scores else [0] * len(units)
    able = counted.leads[level] if leader else [True] * len(units)
    ranked = {n: rank for n, rank in enumerate(ranks) if rank is not None}
    enough = [n for n in ranked if units[n] >= need and able[n]]
    if enough:
        best = min({ranked[n] for n in enough})
        alike = [(-scores[n], units[n], pods[n], n) for n in enough if ranked[n] == best]
        return Part(min(alike)[-1], need, leader)
    best = min(set(ranked.values()))
    first = min((-scores[n], not able[n], -units[n], pods[n], n) for n in ranked if ranked[n] == best)[-1]
    return Shortfall(counted.plain.units[level][first])


class _Pool(NamedTuple):
    """Domains of a level: those below some domains of the level above, or all of it (None)."""

    level: int
    parents: Sequence[int] | None

    def size(self, tree: Tree) -> int:
        """The number of domains."""
        if self.parents is None:
            return tree.size(self.level)
        return sum(len(tree.children[self.level - 1][parent]) for parent in self.parents)

    def numbers(self, tree: Tree) -> Iterable[int]:
        """The domains."""
        if self.parents is None:
            return range(tree.size(self.level))
        children = tree.children[self.level - 1]
        if len(self.parents) == 1:
            return children[self.parents[0]]
        return [number for parent in self.parents for number in children[parent]]


def _whole(level: int) -> _Pool:
    return _Pool(level, None)


def _several(
    counted: Counts, wanted: Goal, pool: _Pool, need: int, leader: bool, order_by: Table
) -> list[Part] | Shortfall:
    """Domains that together hold everything, each full except the last; the leader is on the first.

    Best fit exchanges the last domain for the smallest that is enough.
    """
    taken: list[Part] = []
    left = need
    first = _for_leader(counted, wanted, pool, need, order_by) if leader else None
    if first is not None:
        taken.append(first)
        left -= first.units
    elif leader:
        return Shortfall(0)
    units = counted.plain.units[pool.level]
    if pool.parents is None and first is None and pool.level <= wanted.slice_level:
        together = sum(counted.plain.units[0])  # above slices, a domain holds what its children hold
        if together < left:
            return Shortfall(together)
    if first is None and wanted.best_fit and pool.level <= wanted.slice_level and not counted.scores and left:
        alone = _alone(counted, pool, left)
        if alone is not None:
            return [Part(alone, left)]
    order = _Order(counted, wanted, pool, first.domain if first else None)
    for number in order:
        if not left:
            break
        if units[number]:
            chosen = order.smallest(number, left) if wanted.best_fit and units[number] >= left else number
            taken.append(Part(chosen, min(left, units[chosen])))
            left -= taken[-1].units
    return Shortfall(need - left) if left else taken


def _alone(counted: Counts, pool: _Pool, need: int) -> int | None:
    """The one domain that best fit takes if any holds everything: the one with the fewest units that is enough."""
    level, table = pool.level, counted.plain
    if pool.parents is None:
        return next(table.ranking(level).ascending(need), None)
    units, pods = table.units[level], table.pods[level]
    numbers = pool.numbers(counted.tree)
    enough = [units[n] for n in numbers if units[n] >= need]
    if not enough:
        return None
    least = min(enough)
    return min((pods[n], n) for n in numbers if units[n] == least)[1]


def _for_leader(counted: Counts, wanted: Goal, pool: _Pool, need: int, order_by: Table) -> Part | None:
    """The domain for the leader: the first in order that leaves enough for the workers elsewhere, if any does."""
    level = pool.level
    numbers = list(pool.numbers(counted.tree))
    units, plain = counted.led.units[level], counted.plain.units[level]
    leading = [n for n in numbers if counted.leads[level][n]]
    if not leading:
        return None
    total = sum(plain[n] for n in numbers)
    able = [n for n in leading if units[n] + total - plain[n] >= need] or leading
    order = _ordered(able, order_by, counted, wanted, level)
    first = order[0]
    if wanted.best_fit and units[first] >= need:
        first = _smallest(order, counted.led, counted, level, need)
    return Part(first, min(need, units[first]), True)


class _Order:
    """The domains of a pool in the order of the profile, except one.

    Small pools are sorted; large ones follow the ranking of their whole level, of which only the beginning is read.
    """

    def __init__(self, counted: Counts, wanted: Goal, pool: _Pool, without: int | None) -> None:
        self._counted, self._level, self._without = counted, pool.level, without
        self._sorted: list[int] | None = None
        tree, size = counted.tree, pool.size(counted.tree)
        ranked = not counted.scores and pool.level <= wanted.slice_level
        if ranked and (pool.parents is None or (size > _SMALL and size * 4 > tree.size(pool.level))):
            ranking = counted.plain.ranking(pool.level)
            self._within = None if pool.parents is None else (tree.parents[pool.level], frozenset(pool.parents))
            self._numbers = ranking.descending() if wanted.best_fit else ranking.ascending()
        else:
            numbers = (number for number in pool.numbers(tree) if number != without)
            self._sorted = _ordered(numbers, counted.plain, counted, wanted, pool.level)

    def __iter__(self) -> Iterator[int]:
        if self._sorted is not None:
            return iter(self._sorted)
        return self._inside(self._numbers)

    def smallest(self, current: int, need: int) -> int:
        """The domain with the fewest units that are enough, of ``current`` and those after it."""
        table = self._counted.plain
        if self._sorted is not None:
            after = self._sorted[self._sorted.index(current) :]
            return _smallest(after, table, self._counted, self._level, need)
        found = next(self._inside(table.ranking(self._level).ascending(need)))
        units = table.units[self._level]
        return current if units[found] == units[current] else found  # those before ``current`` hold as much or more

    def _inside(self, numbers: Iterator[int]) -> Iterator[int]:
        if self._without is not None:
            numbers = (number for number in numbers if number != self._without)
        if self._within is None:
            return numbers
        above, parents = self._within
        return (number for number in numbers if above[number] in parents)


_SMALL: Final = 256


def _ordered(numbers: Iterable[int], table: Table, counted: Counts, wanted: Goal, level: int) -> list[int]:
    """Domains in the order of the profile. Below the level of slices there are none to compare, only pods."""
    units, pods = table.units[level], table.pods[level]
    sign = 0 if level > wanted.slice_level else -1 if wanted.best_fit else 1
    if not counted.scores:
        return [n for _, _, n in sorted([(sign * units[n], pods[n], n) for n in numbers])]
    scores = counted.scores[level]
    return sorted(numbers, key=lambda n: (-scores[n], sign * units[n], pods[n], n))


def _smallest(numbers: Sequence[int], table: Table, counted: Counts, level: int, need: int) -> int:
    """The domain with the fewest units that are enough, among those with the score of the first."""
    units, pods = table.units[level], table.pods[level]
    enough = [n for n in numbers if units[n] >= need]
    if counted.scores:
        scores = counted.scores[level]
        enough = [n for n in enough if scores[n] == scores[numbers[0]]]
    return min(enough, key=lambda n: (units[n], pods[n], n))


def _descend(counted: Counts, wanted: Goal, level: int, parts: list[Part]) -> list[Part] | Shortfall:
    """The leaves below the chosen domains, in pods. Slices are distributed anew at each level, among the children of
    all chosen domains; a domain may get none although its parent was chosen.
    """
    while level < wanted.slice_level:
        need, leader = sum(part.units for part in parts), any(part.leader for part in parts)
        level += 1
        pool = _Pool(level, [part.domain for part in parts])
        found = _several(counted, wanted, pool, need, leader, counted.plain)
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
            pool = _Pool(level, (part.domain,))
            found = _several(counted, wanted, pool, part.units * scale // unit, part.leader, counted.plain)
            if isinstance(found, Shortfall):
                return found
            below += found
        parts = below
    return [Part(part.domain, part.units * sizes[level], part.leader) for part in parts]
