"""The domains of one flavor's nodes, and what is used on each.

The tree of domains depends on the nodes only and never changes; usage changes with every admission. Copies share the
tree. A node that goes, comes back or changes makes a new tree, which shares all but one page of leaves with the old
one: its leaf keeps its number while it is gone, and its usage. Only a leaf that was not there yet makes a tree with
other numbers, in which the other leaves are used again. Domains of one level are numbered in the order of their paths,
so the children of a domain are a range of numbers, and to sort by number is to sort by path.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, overload

from msgspec import structs

from core.model import Node, PodSet, Requests, ResourceFlavor, Taint

if TYPE_CHECKING:
    from core.topology.counts import Counts, Exclusions, Filter, Shape
    from core.topology.request import Goal, Options

HOSTNAME: Final = "kubernetes.io/hostname"
PODS: Final = "pods"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
PAGE: Final = 64
LARGE: Final = 256
"""So many leaves are counted at once: that takes less than half a millisecond, if there is nothing to compare."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A domain of the lowest level. ``capacity`` is what its nodes can allocate without what pods outside of topology
    use there. ``node`` is its node if the lowest level is the hostname; only then pods are compared with nodes. A leaf
    whose nodes are gone is not ``present``: it holds nothing.
    """

    path: tuple[str, ...]
    capacity: Requests
    node: Node | None
    present: bool = True


class Leaves(Sequence[Leaf]):
    """All leaves by number, in pages that never change. ``present`` is how many have nodes."""

    __slots__ = ("_size", "pages", "present")

    def __init__(self, pages: list[list[Leaf]], present: int) -> None:
        self.pages = pages
        self.present = present
        self._size = sum(map(len, pages))

    @classmethod
    def of(cls, leaves: Sequence[Leaf]) -> Leaves:
        """Returns these leaves, which are all present."""
        return cls([list(leaves[at : at + PAGE]) for at in range(0, len(leaves), PAGE)], len(leaves))

    def changed(self, number: int, leaf: Leaf) -> Leaves:
        """Returns the same with another leaf. Costs a page, and a reference for each page."""
        pages = self.pages.copy()
        page = pages[number // PAGE].copy()
        present = self.present + leaf.present - page[number % PAGE].present
        page[number % PAGE] = leaf
        pages[number // PAGE] = page
        return Leaves(pages, present)

    @overload
    def __getitem__(self, number: int) -> Leaf: ...
    @overload
    def __getitem__(self, number: slice) -> list[Leaf]: ...
    def __getitem__(self, number: int | slice) -> Leaf | list[Leaf]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(self._size))]
        return self.pages[number // PAGE][number % PAGE]

    def __iter__(self) -> Iterator[Leaf]:
        return itertools.chain.from_iterable(self.pages)

    def __len__(self) -> int:
        return self._size


@dataclass(frozen=True, slots=True)
class Tree:
    """The domains of each level, highest first. ``children[level][number]`` is a range of numbers of the next level,
    ``parents[level][number]`` a number of the level above.
    """

    levels: tuple[str, ...]
    leaves: Leaves
    children: tuple[tuple[range, ...], ...]
    parents: tuple[tuple[int, ...], ...]
    numbers: Mapping[tuple[str, ...], int]
    by_hostname: bool
    """Whether a leaf is one node, and assignments name its hostname alone."""
    hidden: bool = False
    """Whether nodes were left out because another one has the same hostname."""

    @property
    def lowest(self) -> int:
        """The lowest level."""
        return len(self.levels) - 1

    def size(self, level: int) -> int:
        """The number of domains of a level."""
        return len(self.children[level])

    def path(self, level: int, number: int) -> tuple[str, ...]:
        """The values of a domain, those of the levels above first."""
        for below in range(level, self.lowest):
            number = self.children[below][number].start
        return self.leaves[number].path[: level + 1]

    def above(self, leaf: int, level: int) -> int:
        """The domain of a level that a leaf is in."""
        for below in range(self.lowest, level, -1):
            leaf = self.parents[below][leaf]
        return leaf

    def below(self, level: int, number: int, lower: int) -> range:
        """The domains of a lower level in a domain."""
        first, last = number, number
        for each in range(level, lower):
            first, last = self.children[each][first].start, self.children[each][last].stop - 1
        return range(first, last + 1)

    def values(self, leaf: int) -> tuple[str, ...]:
        """A leaf as assignments name it."""
        path = self.leaves[leaf].path
        return path[-1:] if self.by_hostname else path

    @property
    def named_levels(self) -> tuple[str, ...]:
        """The levels of assignments: the hostname alone if it is the lowest level, else all."""
        return self.levels[-1:] if self.by_hostname else self.levels


class Domains:
    """The domains of a flavor, with what workloads use on them.

    Usage is kept in pages of leaves that never change: a copy shares them, and what differs between two copies is found
    without looking at what is equal. ``counted`` are the counts of the last shapes that were asked for; all copies
    share them, and they follow the usage of the copy that asks (see ``core.topology.counts``).
    """

    __slots__ = ("_pages", "answers", "counted", "flavor", "tree", "unused")

    def __init__(
        self,
        levels: tuple[str, ...],
        flavor: ResourceFlavor,
        nodes: Iterable[Node],
        others: Mapping[str, Requests],
    ) -> None:
        """``others``: by node name, what pods outside of topology use there, with the number of them as ``pods``."""
        self._begin(flavor, _tree(levels, flavor, nodes, others))

    @classmethod
    def of(cls, flavor: ResourceFlavor, tree: Tree) -> Domains:
        """Returns the domains of a tree, on which nothing is used."""
        made = cls.__new__(cls)
        made._begin(flavor, tree)
        return made

    def _begin(self, flavor: ResourceFlavor, tree: Tree) -> None:
        self.flavor, self.tree = flavor, tree
        self.unused = False
        self.counted = Known()
        self.answers = Answers()
        self._pages = _blank(len(tree.leaves))

    def copy(self) -> Domains:
        """Returns the same domains with separate usage. Costs a reference for each page of leaves."""
        return self._with(self._pages.copy(), unused=self.unused)

    def empty(self) -> Domains:
        """Returns the same domains without usage of workloads; pods outside of topology stay."""
        other = self._with(_blank(len(self.tree.leaves)), unused=True)
        if self.counted.tree is not self.tree:
            self.counted.tree, self.counted.unused = self.tree, Answers()
        other.answers = self.counted.unused
        return other

    def add(self, values: tuple[str, ...], requests: Requests, count: int) -> None:
        """Counts so many pods on a leaf, and each as one of ``pods``; a negative number of pods is removed.

        ``values``: those of the levels of an assignment, or of the whole path. One that is no leaf is ignored.
        """
        leaf = self.tree.numbers.get(values)
        if leaf is None:
            return
        number, place = divmod(leaf, PAGE)
        page = self._pages[number].copy()
        used = dict(page[place])
        for resource, amount in requests.items():
            total = used.get(resource, 0) + amount * count
            if total:
                used[resource] = total
            else:
                used.pop(resource, None)
        pods = used.pop(PODS, 0) + count
        if pods:
            used[PODS] = pods
        page[place] = used
        self._pages[number] = page
        self.answers = self.answers.after(leaf) if count > 0 else Answers()

    def take_over(self, before: Domains) -> Set[tuple[str, ...]]:
        """Takes over the usage of domains with the same levels; returns the leaves that these did not have. Here
        nothing is used yet. Costs the leaves on which something is used.
        """
        numbers, old = self.tree.numbers, before.tree
        changed: dict[int, list[Requests]] = {}
        for leaf, used in enumerate(itertools.chain.from_iterable(before.pages)):
            now = numbers.get(old.values(leaf)) if used else None
            if now is not None:
                page, place = divmod(now, PAGE)
                if page not in changed:
                    changed[page] = self._pages[page] = self._pages[page].copy()
                changed[page][place] = used
        self.answers = Answers()
        return numbers.keys() - old.numbers.keys()

    def adopt(self, tree: Tree) -> None:
        """From now on the tree is this one, which has other leaves under the same numbers."""
        self.tree = tree
        self.answers = Answers()

    @property
    def is_large(self) -> bool:
        """Whether there are so many leaves that they are counted in steps."""
        return len(self.tree.leaves) > LARGE

    def number(self, values: tuple[str, ...]) -> int | None:
        """The number of a leaf; None if it has no nodes."""
        found = self.tree.numbers.get(values)
        return found if found is not None and self.tree.leaves[found].present else None

    def used(self, leaf: int) -> Requests:
        """What workloads use on a leaf."""
        return self._pages[leaf // PAGE][leaf % PAGE]

    def holds(self, leaf: int, needed: Iterable[tuple[str, int]]) -> bool:
        """Whether so much is free on a leaf of each of these resources."""
        page, place = divmod(leaf, PAGE)
        used, where = self._pages[page][place], self.tree.leaves.pages[page][place]
        capacity = where.capacity
        for resource, amount in needed:
            if amount > capacity.get(resource, 0) - used.get(resource, 0):
                return False
        return where.present

    def times(self, leaf: int, needed: Iterable[tuple[str, int]]) -> int:
        """How many times so much is free on a leaf; each resource is needed."""
        used, capacity = self.used(leaf), self.tree.leaves[leaf].capacity
        return min((capacity.get(name, 0) - used.get(name, 0)) // amount for name, amount in needed)

    @property
    def pages(self) -> list[list[Requests]]:
        """What is used on each leaf, in pages of ``PAGE`` leaves. For reading; a page is replaced when it changes."""
        return self._pages

    def _with(self, pages: list[list[Requests]], *, unused: bool) -> Domains:
        other = Domains.__new__(Domains)
        other.flavor, other.tree, other.counted, other._pages = self.flavor, self.tree, self.counted, pages
        other.unused, other.answers = unused, self.answers
        return other


_NO_ANSWERS: Final[Mapping[Hashable, Any]] = {}


class Answers(dict[Hashable, Any]):
    """What was placed on domains as they are used now: many workloads that wait ask the same. Replaced, never emptied,
    when usage changes: copies share it until then. ``domains`` is how many domains the answers name. See
    ``core.topology.place``.

    ``alone`` has by leaf the answers that name only this leaf, and ``still`` those of them that were right before pods
    were added on ``leaf``, and on no other: they are right as long as the leaf holds their pods too.
    """

    __slots__ = ("alone", "domains", "leaf", "still")

    def __init__(self, leaf: int = -1, still: Mapping[Hashable, Any] = _NO_ANSWERS) -> None:
        self.domains = 0
        self.alone: dict[int, dict[Hashable, Any]] = {}
        self.leaf, self.still = leaf, still

    def after(self, leaf: int) -> Answers:
        """The answers when pods were added on a leaf."""
        found: Mapping[Hashable, Any] = self.alone.get(leaf, _NO_ANSWERS)
        if self.leaf == leaf and self.still:
            found = {**self.still, **found}
        return Answers(leaf, found if len(found) <= _MOST_STILL else dict(list(found.items())[-_MOST_STILL:]))


class Known:
    """Counts by shape, and which leaves pods can run on by their filter; see ``core.topology.counts``. ``unused`` are
    the answers for domains of a ``tree`` on which nothing is used.
    """

    __slots__ = ("asked", "filters", "shapes", "tree", "unused")

    def __init__(self) -> None:
        self.tree: Tree | None = None
        self.unused = Answers()
        self.shapes: dict[tuple[Shape, bool], Counts] = {}
        self.asked: dict[tuple[int, bool, Options, bool], tuple[PodSet, Goal, Counts]] = {}
        """What pod sets ask for, and its counts, by the identity of the pod set (``core.topology.place``)."""
        self.filters: dict[Filter, Exclusions] = {}


_MOST_STILL: Final = 16
"""So many are kept when pods are added: equal workloads are often decided one after the other."""
_UNUSED: Final[Requests] = {}
_BLANK_PAGE: Final = [_UNUSED] * PAGE


def _blank(leaves: int) -> list[list[Requests]]:
    """Pages of leaves on which nothing is used; full ones are one list."""
    full, rest = divmod(leaves, PAGE)
    return [_BLANK_PAGE] * full + ([[_UNUSED] * rest] if rest else [])


def _tree(
    levels: tuple[str, ...], flavor: ResourceFlavor, nodes: Iterable[Node], others: Mapping[str, Requests]
) -> Tree:
    """The tree of the nodes that the flavor has: usable, with its labels and a label for every level."""
    by_hostname = levels[-1:] == (HOSTNAME,)
    found: dict[tuple[str, ...], tuple[dict[str, int], Node]] = {}
    hostnames: set[str] = set()
    hidden = False
    for node in sorted(nodes, key=lambda node: node.name):
        path = path_of(node, levels, flavor)
        if path is None:
            continue
        if by_hostname and path[-1] in hostnames:
            hidden = True
            continue  # two nodes of one hostname would be indistinguishable in an assignment: the first is used
        hostnames.add(path[-1])
        capacity, _ = found.setdefault(path, ({}, node))
        _count_node(capacity, node, others)
    paths = sorted(found)
    alike: dict[tuple[tuple[str, int], ...], Requests] = {}  # equal capacities are one value, and counted once
    leaves = Leaves.of(
        [
            Leaf(path, alike.setdefault(tuple(capacity.items()), capacity), node if by_hostname else None)
            for path in paths
            for capacity, node in (found[path],)
        ]
    )
    return _of_leaves(levels, leaves, by_hostname=by_hostname, hidden=hidden)


def _of_leaves(levels: tuple[str, ...], leaves: Leaves, *, by_hostname: bool, hidden: bool = False) -> Tree:
    """The tree of leaves in the order of their paths."""
    children, parents = _ranges([leaf.path for leaf in leaves], len(levels))
    numbers = {leaf.path: number for number, leaf in enumerate(leaves)}
    if by_hostname:
        numbers.update({leaf.path[-1:]: number for number, leaf in enumerate(leaves)})
    return Tree(levels, leaves, children, parents, numbers, by_hostname, hidden)


def path_of(node: Node | None, levels: tuple[str, ...], flavor: ResourceFlavor) -> tuple[str, ...] | None:
    """The values of the leaf that a node is in; None if the flavor does not have it."""
    if node is None or not flavor.node_labels.items() <= node.labels.items():
        return None
    if not node.usable and not (node.tolerable and levels[-1:] == (HOSTNAME,)):
        return None
    labels = node.labels
    return tuple(labels[level] for level in levels) if all(level in labels for level in levels) else None


def tolerable(node: Node) -> Node:
    """Returns a node that is not Ready, or is cordoned, as one for pods that tolerate that. Kubernetes adds the taints
    itself, a moment later.
    """
    key = UNSCHEDULABLE if node.unready_since is None else NOT_READY
    known = any(taint.key == key for taint in node.taints)
    taints = node.taints if known else (*node.taints, Taint(key, "", "NoSchedule"))
    return structs.replace(node, tolerable=True, taints=taints)


def _count_node(capacity: dict[str, int], node: Node, others: Mapping[str, Requests]) -> None:
    """Adds what a node can allocate, without what pods outside of topology use there."""
    used = others.get(node.name) or {}
    for resource, amount in node.allocatable.items():
        capacity[resource] = capacity.get(resource, 0) + amount - used.get(resource, 0)


class FlavorNodes:
    """The unused domains of a flavor, and what is needed to change them with its nodes. ``usable``: see ``Node``."""

    def __init__(
        self, levels: tuple[str, ...], flavor: ResourceFlavor, nodes: Mapping[str, Node], others: Mapping[str, Requests]
    ) -> None:
        """``nodes`` and ``others`` by name are read again at each change."""
        self.flavor = flavor
        self.domains = Domains(levels, flavor, nodes.values(), others)
        self._nodes, self._others = nodes, others
        self._new: dict[str, None] = {}
        """The nodes, by name, for which there is no leaf, or whose leaf must go."""
        self._members: dict[tuple[str, ...], set[str]] = {}
        """The names of the nodes of each leaf, where a leaf may have several."""
        if not self.domains.tree.by_hostname:
            for node in nodes.values():
                path = self._path(node)
                if path is not None:
                    self._members.setdefault(path, set()).add(node.name)

    @property
    def outdated(self) -> bool:
        """Whether ``renewed`` must be asked before the domains are used."""
        return bool(self._new)

    def renewed(self) -> FlavorNodes:
        """Returns the same with a tree that has all nodes, and in which each leaf may have another number. The leaves
        of nodes that have not changed are used again.
        """
        tree = self._grown()
        if tree is None:
            return FlavorNodes(self.domains.tree.levels, self.flavor, self._nodes, self._others)
        self.domains, self._new = Domains.of(self.flavor, tree), {}
        return self

    def _grown(self) -> Tree | None:
        """The tree with the nodes that are new, without leaves that are not present; None if it is built from the
        start.
        """
        tree = self.domains.tree
        if not tree.by_hostname or tree.hidden:
            return None
        leaves = [leaf for leaf in tree.leaves if leaf.present and leaf.node and leaf.node.name not in self._new]
        hostnames = {leaf.path[-1] for leaf in leaves}
        for name in sorted(self._new):
            node = self._nodes.get(name)
            path = self._path(node)
            if node is None or path is None:
                continue
            if path[-1] in hostnames:
                return None
            hostnames.add(path[-1])
            capacity: dict[str, int] = {}
            _count_node(capacity, node, self._others)
            leaves.append(Leaf(path, capacity, node))
        leaves.sort(key=lambda leaf: leaf.path)
        return _of_leaves(tree.levels, Leaves.of(leaves), by_hostname=True)

    def change(self, name: str, before: Node | None, now: Node | None) -> bool | None:
        """Follows a node that has changed, or what other pods use there. Returns whether that changes the tree; None if
        its domains must be numbered again (``renewed``). Costs a page of leaves, and the nodes of its leaf.
        """
        found = self._changed(name, before, now)
        if found is None:
            self._new[name] = None
        return found

    def _changed(self, name: str, before: Node | None, now: Node | None) -> bool | None:
        old, new = self._path(before), self._path(now)
        if old is None and new is None:
            return False
        if self.domains.tree.by_hostname:
            return self._change_host(name, old, new, now)
        for path, joins in ((old, False), (new, True)):
            if path is not None:
                names = self._members.setdefault(path, set())
                (names.add if joins else names.discard)(name)
        return (
            all(self._put(path, self._several(path)) for path in dict.fromkeys((old, new)) if path is not None) or None
        )

    def _path(self, node: Node | None) -> tuple[str, ...] | None:
        return path_of(node, self.domains.tree.levels, self.flavor)

    def _change_host(
        self, name: str, old: tuple[str, ...] | None, new: tuple[str, ...] | None, now: Node | None
    ) -> bool | None:
        tree = self.domains.tree
        if tree.hidden:
            return None
        for path in (old, new):
            number = tree.numbers.get(path[-1:]) if path is not None else None
            if number is not None and (node := tree.leaves[number].node) is not None and node.name != name:
                return None  # two nodes of one hostname
        if old is not None and old != new and not self._put(old, Leaf(old, {}, None, present=False)):
            return None
        if new is None or now is None:
            return True
        capacity: dict[str, int] = {}
        _count_node(capacity, now, self._others)
        return True if self._put(new, Leaf(new, capacity, now)) else None

    def _several(self, path: tuple[str, ...]) -> Leaf:
        """A leaf of several nodes as it is now."""
        capacity: dict[str, int] = {}
        for name in sorted(self._members[path]):
            _count_node(capacity, self._nodes[name], self._others)
        return Leaf(path, capacity, None, present=bool(self._members[path]))

    def _put(self, path: tuple[str, ...], leaf: Leaf) -> bool:
        """Changes a leaf; returns False if it was not there yet, or is the last one of the domain above it."""
        tree = self.domains.tree
        number = tree.numbers.get(path)
        if number is None or tree.numbers.get(path[-1:] if tree.by_hostname else path) != number:
            return False
        leaves = tree.leaves.changed(number, leaf)
        if not leaf.present:
            above = tree.parents[tree.lowest][number] if tree.lowest else None
            siblings = tree.children[tree.lowest - 1][above] if above is not None else range(len(leaves))
            if not any(leaves[each].present for each in siblings):
                return False
        self.domains.adopt(dataclasses.replace(tree, leaves=leaves))
        return True


def _ranges(
    paths: list[tuple[str, ...]], depth: int
) -> tuple[tuple[tuple[range, ...], ...], tuple[tuple[int, ...], ...]]:
    """The children and the parents of all domains, for sorted paths of the leaves."""
    starts: list[list[int]] = [[] for _ in range(depth)]
    """By level and number of a domain, its first child."""
    parents: list[list[int]] = [[] for _ in range(depth)]
    sizes = [0] * depth
    last: tuple[str | None, ...] = (None,) * depth
    for path in paths:
        level = 0
        while level < depth - 1 and path[level] == last[level]:
            level += 1
        for new in range(level, depth):
            if new:
                parents[new].append(sizes[new - 1] - 1)
            if new < depth - 1:
                starts[new].append(sizes[new + 1])
            sizes[new] += 1
        last = path
    children = [
        tuple(itertools.starmap(range, itertools.pairwise((*firsts, sizes[level + 1]))))
        for level, firsts in enumerate(starts[:-1])
    ]
    return (*children, (range(0),) * len(paths)), tuple(map(tuple, parents))
