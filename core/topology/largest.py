"""The domain that has room for most pods of a pod set, for people: what it is called and what its nodes have.

Separate from the search, which needs neither names nor nodes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from api import quantity
from core.topology.counts import Shape, Table, counts
from core.topology.nodes import HOSTNAME, Domains, Tree
from core.topology.place import shape_of
from core.topology.request import Asked, Goal, Misfit, Options, goal

MOST_NODES: Final = 1024
"""The nodes of a domain that are looked at for what they have: about a millisecond."""


class Largest(NamedTuple):
    """``pods`` fit on the domain ``name``, or on all domains together if the pods need not be on one; ``nodes`` is why,
    as ``6 nodes with 8 gpu each``, or '' where nodes alone do not explain it. ``higher`` is the lowest of the levels
    above of which one domain has room for all, '' if there is none; ``together`` fit on all domains.
    """

    pods: int
    name: str
    nodes: str
    higher: str
    together: int


def largest(domains: Domains, asked: Asked, options: Options) -> Largest | None:
    """Returns the largest domain for a pod set, as its domains are used. Costs to count them once."""
    tree = domains.tree
    wanted = goal(asked.topology, tree.levels, options, implied=asked.implied)
    if isinstance(wanted, Misfit) or not tree.leaves.present:
        return None
    shape = shape_of(domains, wanted, asked, None, options)
    table = counts(domains, shape).plain
    together = sum(table.units[0]) * wanted.size
    if not wanted.required:
        return Largest(together, "", _nodes(tree, range(len(tree.leaves)), table, shape), "", together)
    room = table.units[wanted.level]
    number = room.index(max(room))
    name = tree.path(wanted.level, number)[-1]
    nodes = _nodes(tree, tree.below(wanted.level, number, tree.lowest), table, shape)
    return Largest(room[number] * wanted.size, name, nodes, _higher(tree, table, wanted, asked.count), together)


def counted_nodes(number: int) -> str:
    """Returns e.g. ``1 node`` or ``6 nodes``."""
    return f"{number} node{'s' if number != 1 else ''}"


def never_fits(pods: str, where: str, most: int, nodes: str = "") -> str:
    """Returns the sentence, for warnings and `explain`, about pods of which only so many could ever be placed. ``pods``
    has their number and where they must be, ``nodes`` is as in ``Largest``.
    """
    return f"asks for {pods}: {where} could ever hold {most}{f' ({nodes})' if nodes else ''}"


def level_name(label: str) -> str:
    """What people call a domain of a level: the last part of its label."""
    return "node" if label == HOSTNAME else label.rpartition("/")[2]


def _higher(tree: Tree, table: Table, wanted: Goal, count: int) -> str:
    enough = [n for n in range(wanted.level) if max(table.units[n], default=0) * wanted.size >= count]
    return level_name(tree.levels[enough[-1]]) if enough else ""


def _nodes(tree: Tree, leaves: range, table: Table, shape: Shape) -> str:
    """How many nodes hold pods, and how much they have of the resource that limits all of them."""
    if not tree.by_hostname or len(leaves) > MOST_NODES:
        return ""
    pods = table.pods[tree.lowest]
    holding = [(pods[each], tree.leaves[each]) for each in leaves if pods[each]]
    for resource, amount in sorted(shape.per_pod, key=lambda each: ("/" not in each[0], each[0])):
        if holding and all(leaf.capacity.get(resource, 0) // amount == held for held, leaf in holding):
            break
    else:
        return ""
    has = {leaf.capacity[resource] for _, leaf in holding}
    shared = any(leaf.node and leaf.node.allocatable.get(resource) != leaf.capacity[resource] for _, leaf in holding)
    what = f"{quantity.text(resource, max(has))} {'free ' if shared else ''}{resource.rpartition('/')[2]}"
    if len(holding) == 1:
        return f"1 node with {what}"
    return (
        f"{len(holding)} nodes with {what} each" if len(has) == 1 else f"{len(holding)} nodes, the largest with {what}"
    )
