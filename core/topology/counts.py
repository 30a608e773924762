"""How many pods, and how many slices of them, each domain holds.

A leaf holds as many pods as its free capacity divided by what one pod asks for; a domain above holds the sum of its
children. Where pods come in slices, incomplete slices do not count.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import is_not
from typing import Final

from core.matching.placement import holds, untolerated
from core.model import NODE_NAME, Node, Placement, Requests, Requirement, ResourceFlavor, Toleration
from core.topology.nodes import PAGE, PODS, Domains, Tree
from core.topology.ranking import Ranking

_UNLIMITED = 2**31 - 1
STEP: Final = 256
"""The leaves that are counted between two pauses, if there is nothing to compare."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which nodes the pods of a pod set can run on, and which they prefer."""

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    preferred: tuple[tuple[int, tuple[Requirement, ...]], ...] = ()

    def exclusion(self, node: Node) -> str:
        """Why pods cannot run on a node, '' if they can: the first reason."""
        taint = untolerated(node.taints, self.tolerations)
        if taint is not None:
            value = f"={taint.value}" if taint.value else ""
            return f'taint "{taint.key}{value}:{taint.effect}"'
        if any(node.labels.get(key) != value for key, value in self.node_selector):
            return "nodeSelector"
        if self.affinity is not None and not any(_selects(term, node) for term in self.affinity):
            return "affinity"
        return ""

    def score(self, node: Node) -> int:
        """The summed weight of the preferred terms that a node matches."""
        return sum(weight for weight, term in self.preferred if _selects(term, node))

    @property
    def effort(self) -> int:
        """How long it takes to compare a node, in requirements of node affinity."""
        return effort((*(self.affinity or ()), *(term for _, term in self.preferred)), self.tolerations)


def effort(terms: Iterable[tuple[Requirement, ...]], tolerations: Sequence[Toleration]) -> int:
    """Returns how long it takes to compare a node with so much, in requirements of node affinity."""
    return sum(1 + sum(1 + len(each.values) // 64 for each in term) for term in terms) + len(tolerations) // 8


def _selects(term: tuple[Requirement, ...], node: Node) -> bool:
    """Whether a term of node affinity selects a node; an empty one selects none."""
    named = any(requirement.key == NODE_NAME for requirement in term)
    labels = {**node.labels, NODE_NAME: node.name} if named else node.labels
    return bool(term) and all(holds(requirement, labels) for requirement in term)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the counts of a tree depend on: one pod, the leader that one of the domains must hold too, the nodes, and
    the units of slices (see ``Goal``).
    """

    per_pod: tuple[tuple[str, int], ...]
    leader: tuple[tuple[str, int], ...] | None
    filter: Filter
    slice_level: int
    sizes: tuple[int, ...]


class Table:
    """By level and number of a domain: the pods that it holds, and the units of them."""

    __slots__ = ("_rankings", "pods", "units")

    def __init__(self, tree: Tree) -> None:
        self.pods = [[0] * tree.size(level) for level in range(len(tree.levels))]
        self.units = [[0] * tree.size(level) for level in range(len(tree.levels))]
        self._rankings: dict[int, Ranking] = {}

    def ranking(self, level: int) -> Ranking:
        """The domains of a level that hold a unit, in order; made when it is first asked for."""
        known = self._rankings.get(level)
        if known is None:
            known = self._rankings[level] = Ranking(self.units[level], self.pods[level])
        return known

    def put(self, level: int, number: int, pods: int, units: int) -> bool:
        """Sets what a domain holds; returns whether that is a change."""
        before = (self.units[level][number], self.pods[level][number])
        if before == (units, pods):
            return False
        self.units[level][number], self.pods[level][number] = units, pods
        if level in self._rankings:
            self._rankings[level].move(number, before, (units, pods))
        return True


class Counts:
    """The counts of all domains for a shape, with the usage of the ``Domains`` that asked last.

    ``led`` are those beside the leader, ``leads`` whether the domain can hold it; without a leader ``led`` is
    ``plain`` and ``leads`` empty. ``scores`` is empty unless nodes are preferred. A change of one leaf costs the
    domains above it, and what it moves in a ranking.
    """

    plain: Table
    led: Table
    leads: list[list[bool]]
    scores: list[list[int]]
    _excluded: dict[str, int]
    _reasons: list[str]
    _unexplained: dict[int, None]
    """The leaves whose reason may have changed since ``excluded`` was read."""

    __slots__ = (
        "_excluded",
        "_exclusions",
        "_pages",
        "_reasons",
        "_unexplained",
        "_within",
        "leads",
        "led",
        "plain",
        "scores",
        "shape",
        "tree",
    )

    def __init__(self, domains: Domains, shape: Shape, within: range | None) -> None:
        """Only leaves ``within`` a range hold pods. Nothing is counted before ``counting`` has come to its end."""
        self.tree, self.shape = domains.tree, shape
        self._exclusions = _exclusions(domains, shape.filter) if domains.tree.by_hostname else None
        self._within = within
        self._pages = domains.pages.copy()

    @classmethod
    def of(cls, domains: Domains, shape: Shape, within: range | None = None) -> Counts:
        """Returns the counts of all domains."""
        made = cls(domains, shape, within)
        for _ in made.counting():
            pass
        return made

    def follow(self, domains: Domains) -> None:
        """Counts again what differs in the usage of these domains, or in what other pods use there."""
        changed: list[int] = []
        if domains.tree is not self.tree:
            changed += _differing(self.tree.leaves.pages, domains.tree.leaves.pages)
            self.tree = domains.tree
        changed += _differing(self._pages, domains.pages)
        self._pages = domains.pages.copy()
        if len(changed) * 4 > len(self.tree.leaves):
            for _ in self.counting():
                pass
        elif changed:
            self._count_some(changed)

    def counting(self) -> Iterator[None]:
        """Counts all leaves and domains, in steps of some hundred microseconds."""
        tree, depth = self.tree, len(self.tree.levels)
        self.plain = Table(tree)
        self.led = self.plain if self.shape.leader is None else Table(tree)
        self.leads = [[False] * tree.size(level) for level in range(depth)] if self.shape.leader is not None else []
        self.scores = [[0] * tree.size(level) for level in range(depth)] if self.shape.filter.preferred else []
        self._excluded, self._unexplained = {}, {}
        self._reasons = [""] * len(tree.leaves)
        if self.leads or self.scores:
            pause = max(1, STEP // (4 + self.shape.filter.effort))
            for leaf in range(len(tree.leaves)):
                self._count_leaf(leaf)
                self._explain()
                if not leaf % pause:
                    yield
        else:
            yield from self._counting_leaves()
        for level in range(tree.lowest - 1, -1, -1):
            for number in range(tree.size(level)):
                self._count_domain(level, number)
                if not number % PAGE:
                    yield

    def _counting_leaves(self) -> Iterator[None]:
        """Counts the leaves, where there are no leaders and no scores. Leaves that are alike are counted once."""
        tree, shape = self.tree, self.shape
        pause = max(1, STEP // (1 + shape.filter.effort))
        pods, per_pod = self.plain.pods[tree.lowest], shape.per_pod
        unused: dict[int, tuple[int, str]] = {}
        """By the identity of a capacity of which nothing is used: what it holds, and what there is too little of."""
        reasons: dict[str, int] = {}
        leaf = 0
        for leaves, page in zip(tree.leaves.pages, self._pages, strict=True):
            for where, used in zip(leaves, page, strict=True):
                capacity = where.capacity
                why = self._why(leaf, where.node)
                if why:
                    held = 0
                elif used:
                    held = fit(capacity, used, per_pod)
                    if not held and where.present:
                        why = _lacking(capacity, used, per_pod)
                else:
                    known = unused.get(id(capacity))
                    if known is None:
                        held = fit(capacity, used, per_pod)
                        known = unused[id(capacity)] = held, "" if held else _lacking(capacity, used, per_pod)
                    held, why = known
                if held:
                    pods[leaf] = held
                elif where.present:
                    self._reasons[leaf] = why
                    reasons[why] = reasons.get(why, 0) + 1
                leaf += 1
                if not leaf % pause:
                    yield
        self._excluded.update(reasons)
        size = shape.sizes[tree.lowest]
        self.plain.units[tree.lowest] = pods.copy() if size == 1 else [each // size for each in pods]

    def _count_some(self, leaves: Iterable[int]) -> None:
        if not self.leads and not self.scores:
            for leaf in leaves:
                self._count_up(leaf)
            return
        changed = [leaf for leaf in leaves if self._count_leaf(leaf)]
        for level in range(self.tree.lowest - 1, -1, -1):
            above = self.tree.parents[level + 1]
            changed = [n for n in dict.fromkeys(above[n] for n in changed) if self._count_domain(level, n)]

    def _count_up(self, leaf: int) -> None:
        """Counts a leaf, and adds what it holds more to the domains above; not where there are leaders or scores."""
        table, sizes, number = self.plain, self.shape.sizes, leaf
        pods, units = table.pods, table.units
        level = self.tree.lowest
        before = (pods[level][leaf], units[level][leaf])
        self._count_leaf(leaf)
        now = (pods[level][leaf], units[level][leaf])
        while level and now != before:
            number = self.tree.parents[level][number]
            level -= 1
            held = pods[level][number]
            if level >= self.shape.slice_level:
                unit = sizes[level + 1]
                held += now[0] - now[0] % unit - before[0] + before[0] % unit
                whole = held // sizes[level]
            else:
                held += now[0] - before[0]
                whole = units[level][number] + now[1] - before[1]
            before = (pods[level][number], units[level][number])
            now = (held, whole)
            table.put(level, number, held, whole)

    def _count_leaf(self, leaf: int) -> bool:
        """Counts a leaf, and returns whether its figures have changed."""
        shape, level = self.shape, self.tree.lowest
        where = self.tree.leaves[leaf]
        why = self._why(leaf, where.node)
        capacity, used = where.capacity, self._pages[leaf // PAGE][leaf % PAGE]
        held = 0 if why else fit(capacity, used, shape.per_pod)
        changed = self.plain.put(level, leaf, held, held // shape.sizes[level])
        if shape.leader is not None:
            leads = not why and fit(capacity, used, shape.leader) > 0
            beside = fit(capacity, _with(used, shape.leader), shape.per_pod) if leads else held
            changed |= self.led.put(level, leaf, beside, beside // shape.sizes[level]) | (
                leads != self.leads[level][leaf]
            )
            self.leads[level][leaf] = leads
        if self.scores:
            score = shape.filter.score(where.node) if where.node is not None and held else 0
            changed |= score != self.scores[level][leaf]
            self.scores[level][leaf] = score
        if not held or self._reasons[leaf]:
            self._unexplained[leaf] = None
        return changed

    @property
    def excluded(self) -> dict[str, int]:
        """How many leaves hold no pod, by the reason; few are asked for it."""
        self._explain()
        return self._excluded

    def _explain(self) -> None:
        """Finds why the leaves that were counted last hold no pod."""
        for leaf in self._unexplained:
            where, why = self.tree.leaves[leaf], ""
            if where.present and not self.plain.pods[self.tree.lowest][leaf]:
                used = self._pages[leaf // PAGE][leaf % PAGE]
                why = self._why(leaf, where.node) or _lacking(where.capacity, used, self.shape.per_pod)
            self._exclude(leaf, why)
        self._unexplained.clear()

    def _why(self, leaf: int, node: Node | None) -> str:
        """Why pods cannot run on a leaf, '' if they can."""
        if self._within is not None and leaf not in self._within:
            return "topologyDomain"
        return self._exclusions.why(node) if self._exclusions is not None and node is not None else ""

    def _exclude(self, leaf: int, reason: str) -> None:
        before = self._reasons[leaf]
        if before == reason:
            return
        self._reasons[leaf] = reason
        if reason:
            self._excluded[reason] = self._excluded.get(reason, 0) + 1
        if before:
            self._excluded[before] -= 1
            if not self._excluded[before]:
                del self._excluded[before]

    def _count_domain(self, level: int, number: int) -> bool:
        """Counts a domain from its children, and returns whether its figures have changed."""
        shape, below = self.shape, level + 1
        children = self.tree.children[level][number]
        part = slice(children.start, children.stop)
        sliced = level >= shape.slice_level
        unit = shape.sizes[below] if sliced else 1
        raw = _whole(self.plain.pods[below][part], unit)
        pods = sum(raw)
        units = pods // shape.sizes[level] if sliced else sum(self.plain.units[below][part])
        changed = self.plain.put(level, number, pods, units)
        if self.leads:
            able = self.leads[below][part]
            led = pods - _least_loss(raw, _whole(self.led.pods[below][part], unit), able, pods)
            lost = _least_loss(self.plain.units[below][part], self.led.units[below][part], able, units)
            changed |= self.led.put(level, number, led, led // shape.sizes[level] if sliced else units - lost)
            changed |= any(able) != self.leads[level][number]
            self.leads[level][number] = any(able)
        if self.scores:
            score = sum(self.scores[below][part])
            changed |= score != self.scores[level][number]
            self.scores[level][number] = score
        return changed


def _differing(before: Sequence[Sequence[object]], now: Sequence[Sequence[object]]) -> list[int]:
    """The numbers of what is not the same in two lists of pages."""
    found: list[int] = []
    for page in compress(range(len(now)), map(is_not, before, now)):
        old, new, first = before[page], now[page], page * PAGE
        found += compress(range(first, first + len(new)), map(is_not, old, new))
    return found


def _whole(pods: list[int], unit: int) -> list[int]:
    """Pods without those of incomplete units."""
    return pods if unit == 1 else [each - each % unit for each in pods]


def _least_loss(plain: list[int], led: list[int], able: list[bool], otherwise: int) -> int:
    """What the leader costs on the domain where it costs least."""
    return min((a - b for a, b, c in zip(plain, led, able, strict=True) if c), default=otherwise)


def counts(domains: Domains, shape: Shape, within: range | None = None) -> Counts:
    """Counts a shape on all domains; with ``within`` only on these leaves.

    The result is shared and valid until the usage of any copy of the domains is counted for this shape again.
    """
    if within is not None:
        return Counts.of(domains, shape, within)
    found = domains.counted.shapes.pop((shape, domains.unused), None)
    if found is None:
        found = Counts.of(domains, shape)
    else:
        found.follow(domains)
    _keep(domains, found)
    return found


def prepare(domains: Domains, shape: Shape) -> Iterator[None]:
    """Counts a shape for the first time in steps, so that ``counts`` has little left to do."""
    if (shape, domains.unused) not in domains.counted.shapes:
        made = Counts(domains, shape, None)
        yield from made.counting()
        if (shape, domains.unused) not in domains.counted.shapes:  # nobody has counted it meanwhile
            _keep(domains, made)


def _keep(domains: Domains, found: Counts) -> None:
    """Keeps counts as the last ones: those that were asked for longest ago are dropped first."""
    known = domains.counted.shapes
    beyond = len(known) + 1 - _most(len(domains.tree.leaves))
    for old in list(known)[:beyond] if beyond > 0 else ():
        domains.counted.asked.clear()
        del known[old]
    known[found.shape, domains.unused] = found


def _most(leaves: int) -> int:
    """How many shapes are kept: 128 of 10,000 leaves use about 30 MB."""
    return min(128, max(16, 2_000_000 // max(1, leaves)))


def requests_of(per_pod: Requests) -> tuple[tuple[str, int], ...]:
    """What one pod asks for, with itself."""
    asked = dict(per_pod)
    asked[PODS] = asked.get(PODS, 0) + 1
    return tuple(sorted((resource, amount) for resource, amount in asked.items() if amount > 0))


def node_filter(
    placement: Placement, flavor: ResourceFlavor, updates: Sequence[Placement] = (), *, scored: bool = False
) -> Filter:
    """The filter of pods in a flavor, with the updates from admission checks. ``scored``: preferred nodes matter."""
    selector = dict(placement.node_selector)
    tolerations = placement.tolerations
    for update in updates:
        selector.update(update.node_selector)
        tolerations += update.tolerations
    return Filter(
        tuple(sorted(selector.items())),
        placement.affinity,
        tolerations + flavor.tolerations,
        placement.preferred if scored else (),
    )


class Exclusions:
    """Why pods with a filter cannot run on nodes. Nodes that are alike in what the filter reads are compared once."""

    __slots__ = ("_by_name", "_filter", "_keys", "_known", "_taints_only")

    def __init__(self, selected: Filter) -> None:
        requirements = [requirement for term in selected.affinity or () for requirement in term]
        keys = {key for key, _ in selected.node_selector} | {requirement.key for requirement in requirements}
        self._filter = selected
        self._by_name = NODE_NAME in keys
        self._keys = tuple(sorted(keys - {NODE_NAME}))
        self._known: dict[Hashable, str] = {}
        self._taints_only = selected.affinity is None and not selected.node_selector

    def why(self, node: Node) -> str:
        """Why pods cannot run on a node, '' if they can."""
        if self._taints_only and not node.taints:
            return ""
        labels = node.labels
        alike = (node.taints, node.name if self._by_name else "", tuple([labels.get(key) for key in self._keys]))
        found = self._known.get(alike)
        if found is None:
            if len(self._known) >= MOST_ALIKE:
                self._known.clear()
            found = self._known[alike] = self._filter.exclusion(node)
        return found


MOST_ALIKE: Final = 100_000
"""So many different nodes are remembered for a filter."""


def _exclusions(domains: Domains, selected: Filter) -> Exclusions:
    known = domains.counted.filters
    if selected not in known:
        if len(known) >= _most(len(domains.tree.leaves)):
            known.clear()
        known[selected] = Exclusions(selected)
    return known[selected]


def fit(capacity: Requests, used: Requests, per_pod: tuple[tuple[str, int], ...]) -> int:
    """How many pods fit into what is left of a capacity; a resource that the nodes lack holds none."""
    least = _UNLIMITED
    for resource, amount in per_pod:
        free = capacity.get(resource, 0) - used.get(resource, 0)
        if free < amount:
            return 0
        least = min(least, free // amount)
    return least


def _lacking(capacity: Requests, used: Requests, per_pod: tuple[tuple[str, int], ...]) -> str:
    """The reason that names the resource of which the fewest pods fit; the first by name if there are several."""
    scarcest = min(per_pod, key=lambda each: (fit(capacity, used, (each,)), each[0]))[0]
    return f'resource "{scarcest}"'


def _with(used: Requests, more: tuple[tuple[str, int], ...]) -> Requests:
    total = dict(used)
    for resource, amount in more:
        total[resource] = total.get(resource, 0) + amount
    return total
