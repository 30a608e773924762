"""How many pods, and how many slices of them, each domain holds.

A leaf holds as many pods as its free capacity divided by what one pod asks for; a domain above holds the sum of its
children. Where pods come in slices, incomplete slices do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.matching.placement import holds, untolerated
from core.model import NODE_NAME, Node, Placement, Requests, Requirement, ResourceFlavor, Toleration
from core.topology.nodes import PODS, Domains, Tree

_UNLIMITED = 2**31 - 1


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


def _selects(term: tuple[Requirement, ...], node: Node) -> bool:
    """Whether a term of node affinity selects a node; an empty one selects none."""
    named = any(requirement.key == NODE_NAME for requirement in term)
    labels = {**node.labels, NODE_NAME: node.name} if named else node.labels
    return bool(term) and all(holds(requirement, labels) for requirement in term)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the counts of a tree depend on: one pod, the leader that one of the domains must hold too, the nodes, and
    the units of slices (see ``Goal``). Below ``within``, a level and a number, are the only leaves that count.
    """

    per_pod: tuple[tuple[str, int], ...]
    leader: tuple[tuple[str, int], ...] | None
    filter: Filter
    slice_level: int
    sizes: tuple[int, ...]


@dataclass(slots=True)
class Table:
    """By level and number of a domain: the pods that it holds, and the units of them."""

    pods: list[list[int]]
    units: list[list[int]]


@dataclass(slots=True)
class Counts:
    """The counts of all domains. ``led`` are those if the domain holds the leader too, ``leads`` whether it can; both
    are as without a leader where none is asked for. ``scores`` is empty unless nodes are preferred.
    """

    tree: Tree
    shape: Shape
    plain: Table
    led: Table
    leads: list[list[bool]]
    scores: list[list[int]]
    excluded: dict[str, int] = field(default_factory=dict)


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


def counts(domains: Domains, shape: Shape, within: range | None = None) -> Counts:
    """Counts a shape on all domains; with ``within`` only on these leaves."""
    tree = domains.tree
    excluded: dict[str, int] = {}
    pods, led, leads, scores = [], [], [], []
    for leaf in range(len(tree.leaves)):
        why = _exclusion(tree, shape, leaf) if within is None or leaf in within else "topologyDomain"
        free = domains.free(leaf) if not why else {}
        held = _fit(free, shape.per_pod)
        if not why and not held:
            why = f'resource "{_scarcest(free, shape.per_pod)}"'
        if why:
            excluded[why] = excluded.get(why, 0) + 1
        pods.append(held)
        leads.append(shape.leader is not None and _fit(free, shape.leader) > 0)
        led.append(_fit(_without(free, shape.leader), shape.per_pod) if shape.leader and leads[-1] else held)
        node = tree.leaves[leaf].node
        scores.append(shape.filter.score(node) if node and held else 0)
    return _summed(tree, shape, excluded, pods, led, leads, scores)


def _summed(
    tree: Tree,
    shape: Shape,
    excluded: dict[str, int],
    pods: list[int],
    led: list[int],
    leads: list[bool],
    scores: list[int],
) -> Counts:
    """The counts of all levels, from those of the leaves."""
    found = Counts(tree, shape, Table([], []), Table([], []), [], [], excluded)
    for level in range(tree.lowest, -1, -1):
        if level < tree.lowest:
            below = found
            pods, led, leads, scores = [], [], [], []
            units_above, led_units_above = [], []
            unit = shape.sizes[level + 1] if level >= shape.slice_level else 1
            for children in tree.children[level]:
                raw = [each - each % unit for each in below.plain.pods[0][children.start : children.stop]]
                raw_led = [each - each % unit for each in below.led.pods[0][children.start : children.stop]]
                able = below.leads[0][children.start : children.stop]
                pods.append(sum(raw))
                losses = [a - b for a, b, c in zip(raw, raw_led, able, strict=True) if c]
                led.append(pods[-1] - min(losses, default=pods[-1] if shape.leader else 0))
                leads.append(bool(losses))
                scores.append(sum(below.scores[0][children.start : children.stop]))
                whole = below.plain.units[0][children.start : children.stop]
                whole_led = below.led.units[0][children.start : children.stop]
                units_above.append(sum(whole))
                losses = [a - b for a, b, c in zip(whole, whole_led, able, strict=True) if c]
                led_units_above.append(units_above[-1] - min(losses, default=units_above[-1] if shape.leader else 0))
        size = shape.sizes[level]
        own = level >= shape.slice_level
        found.plain.units.insert(0, [each // size for each in pods] if own else units_above)
        found.led.units.insert(0, [each // size for each in led] if own else led_units_above)
        found.plain.pods.insert(0, pods)
        found.led.pods.insert(0, led)
        found.leads.insert(0, leads)
        found.scores.insert(0, scores)
    return found


def _exclusion(tree: Tree, shape: Shape, leaf: int) -> str:
    node = tree.leaves[leaf].node
    return shape.filter.exclusion(node) if node is not None else ""


def _fit(free: Requests, per_pod: tuple[tuple[str, int], ...]) -> int:
    """How many pods fit into what is free; a resource that the nodes lack holds none."""
    return max(0, min((free.get(resource, 0) // amount for resource, amount in per_pod), default=_UNLIMITED))


def _scarcest(free: Requests, per_pod: tuple[tuple[str, int], ...]) -> str:
    """The resource of which the fewest pods fit; the first by name if there are several."""
    return min(per_pod, key=lambda each: (max(0, free.get(each[0], 0) // each[1]), each[0]))[0]


def _without(free: Requests, taken: tuple[tuple[str, int], ...]) -> Requests:
    left = dict(free)
    for resource, amount in taken:
        left[resource] = left.get(resource, 0) - amount
    return left
