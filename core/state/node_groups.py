"""The nodes that have the labels of a flavor, and the most that one of them has, kept while nodes come, go and change.

Several rules of every admission call ask for them: to compare labels with each node takes a millisecond with some
thousand nodes. Separate from ``core.state.lookup``, whose answers keep nothing.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from core.model import Labels, Node

MOST_GROUPS: Final = 256
"""The labels of so many flavors are remembered; each takes a reference for each of its nodes."""
_Wanted = frozenset[tuple[str, str]]


class NodeGroup(Collection[Node]):
    """Nodes by name. What is asked about all of them is counted when it is asked first, and then with each change."""

    __slots__ = ("_amounts", "_nodes", "_silent")

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._silent = -1
        self._amounts: dict[str, _Amounts] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Node) and self._nodes.get(node.name) == node

    @property
    def reports(self) -> bool:
        """Whether each of them reports what it can allocate."""
        if self._silent < 0:
            self._silent = sum(not node.allocatable for node in self)
        return not self._silent

    def most(self, resource: str) -> int:
        """The most of a resource that one of them can allocate; 0 if none has it."""
        return self._of(resource).most

    def lacks(self, resource: str, amount: int) -> bool:
        """Whether each of them reports less of a resource than this."""
        known = self._of(resource)
        return known.nodes == len(self._nodes) and known.most < amount

    def add(self, node: Node) -> None:
        """Adds a node, or replaces it."""
        self.remove(node.name)
        self._nodes[node.name] = node
        self._count(node, 1)

    def remove(self, name: str) -> None:
        """Removes the node of this name, if it is one of them."""
        node = self._nodes.pop(name, None)
        if node is not None:
            self._count(node, -1)

    def _count(self, node: Node, sign: int) -> None:
        if self._silent >= 0:
            self._silent += sign * (not node.allocatable)
        for resource, amounts in self._amounts.items():
            if resource in node.allocatable:
                amounts.change(node.allocatable[resource], sign)

    def _of(self, resource: str) -> _Amounts:
        known = self._amounts.get(resource)
        if known is None:
            if len(self._amounts) >= MOST_RESOURCES:
                self._amounts.clear()
            known = self._amounts[resource] = _Amounts(
                node.allocatable[resource] for node in self if resource in node.allocatable
            )
        return known


MOST_RESOURCES: Final = 32
"""So many resources of a group are remembered."""


class _Amounts:
    """What nodes have of one resource. A change costs the logarithm of their number."""

    __slots__ = ("_heap", "_times", "nodes")

    def __init__(self, amounts: Iterable[int]) -> None:
        self._times = Counter(amounts)
        self._heap = [-amount for amount in self._times]
        heapq.heapify(self._heap)
        self.nodes = self._times.total()

    @property
    def most(self) -> int:
        """The largest amount; 0 if there is none."""
        while self._heap and not self._times[-self._heap[0]]:
            del self._times[-heapq.heappop(self._heap)]
        return -self._heap[0] if self._heap else 0

    def change(self, amount: int, sign: int) -> None:
        """One node more has this amount, or one less."""
        self.nodes += sign
        if sign > 0 and amount not in self._times:
            heapq.heappush(self._heap, -amount)
        self._times[amount] += sign
        if len(self._heap) > 2 * self.nodes + 64:  # most of them are of nodes that have something else now
            self._times = +self._times
            self._heap = [-each for each in self._times]
            heapq.heapify(self._heap)


class NodeGroups:
    """``changed`` must be called with each change of what ``nodes`` returns."""

    def __init__(self, nodes: Callable[[], Iterable[Node]]) -> None:
        self._nodes = nodes
        self._groups: dict[_Wanted, NodeGroup] = {}

    def having(self, labels: Labels) -> NodeGroup:
        """Returns the nodes with all these labels, in any order. To be read before anything changes. Costs the number
        of all nodes when labels are asked for the first time.
        """
        wanted = frozenset(labels.items())
        found = self._groups.get(wanted)
        if found is None:
            if len(self._groups) >= MOST_GROUPS:
                self._groups.clear()
            found = NodeGroup(node for node in self._nodes() if wanted <= node.labels.items())
            self._groups[wanted] = found
        return found

    def changed(self, old: Node | None, new: Node | None) -> None:
        """A node came, went or changed. Costs the number of groups, and nothing at a heartbeat."""
        if old == new:
            return
        for wanted, group in self._groups.items():
            if old is not None:
                group.remove(old.name)
            if new is not None and wanted <= new.labels.items():
                group.add(new)
