"""The nodes that have the labels of a flavor, kept while nodes come, go and change.

Several rules of every admission call ask for them: to compare labels with each node takes a millisecond with some
thousand nodes. Separate from ``core.state.lookup``, whose answers keep nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from core.model import Labels, Node

MOST_GROUPS: Final = 256
"""The labels of so many flavors are remembered; each takes a reference for each of its nodes."""
_Wanted = frozenset[tuple[str, str]]


class NodeGroups:
    """``changed`` must be called with each change of what ``nodes`` returns."""

    def __init__(self, nodes: Callable[[], Iterable[Node]]) -> None:
        self._nodes = nodes
        self._groups: dict[_Wanted, dict[str, Node]] = {}

    def having(self, labels: Labels) -> Collection[Node]:
        """Returns the nodes with all these labels, in any order. To be read before anything changes. Costs the number
        of all nodes when labels are asked for the first time.
        """
        wanted = frozenset(labels.items())
        found = self._groups.get(wanted)
        if found is None:
            if len(self._groups) >= MOST_GROUPS:
                self._groups.clear()
            found = {node.name: node for node in self._nodes() if wanted <= node.labels.items()}
            self._groups[wanted] = found
        return found.values()

    def changed(self, old: Node | None, new: Node | None) -> None:
        """A node came, went or changed. Costs the number of groups, and nothing at a heartbeat."""
        if old == new:
            return
        for wanted, group in self._groups.items():
            if old is not None:
                group.pop(old.name, None)
            if new is not None and wanted <= new.labels.items():
                group[new.name] = new
