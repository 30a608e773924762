"""The order of heads with fair sharing: in every cohort, the member with the smallest share after its admission is
first.

Separate from the cycle, which otherwise orders by borrowing, priority and time. An admission changes the shares of the
cohorts above the entry, so these are computed again before the next winner is chosen. Rule: KEP 1714, hierarchical fair
sharing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from core.model.policy import SchedulingPolicy
from core.quota.node import CohortNode, QuotaNode
from core.quota.shares import DominantShare, ShareRank, share
from core.quota.tree import root_name
from core.scheduling.nomination import Entry

_Order = tuple[bool, bool, ShareRank, int, float, str]


def tournament(entries: Iterable[Entry], policy: SchedulingPolicy) -> Iterator[Entry]:
    """The entries tree by tree, each the winner as usage is when it is asked for."""
    trees: dict[QuotaNode, dict[str, Entry]] = {}
    for entry in entries:
        trees.setdefault(entry.node.root(), {})[entry.node.name] = entry
    for root in sorted(trees, key=root_name):
        left = trees[root]
        if isinstance(root, CohortNode):
            bracket = _Bracket(root, left, policy)
            while left:
                winner = bracket.pop()
                yield winner
                bracket.settle(winner)
        else:
            yield from left.values()


class _Bracket:
    """The tournament of one tree. ``left`` are the entries that have not won yet, by ClusterQueue."""

    def __init__(self, root: CohortNode, left: dict[str, Entry], policy: SchedulingPolicy) -> None:
        self._root = root
        self._left = left
        self._policy = policy
        self._orders = {name: self._order(entry) for name, entry in left.items()}
        self._best: dict[str, Entry | None] = {}
        self._lines: dict[str, list[Entry]] = {}
        """Returns the entries of the ClusterQueues directly in a cohort, the best one last."""

    def pop(self) -> Entry:
        """Returns the winner among the remaining entries."""
        winner = self._winner(self._root)
        assert winner is not None, "every entry is below the root of its tree"
        del self._left[winner.node.name]
        assert winner.node.parent is not None
        self._lines[winner.node.parent.name].pop()  # the winner of a tree is the best entry of its cohort
        return winner

    def settle(self, winner: Entry) -> None:
        """The usage of the winner may have changed: computes again what depends on the cohorts above it."""
        path = list(winner.node.ancestors())
        self._best.pop(self._root.name, None)
        if len(path) < 2:
            return
        for cohort in _subtree(path[-2]):
            self._best.pop(cohort.name, None)
            self._lines.pop(cohort.name, None)
            for queue in cohort.queues:
                entry = self._left.get(queue.name)
                if entry is not None:
                    self._orders[queue.name] = self._order(entry)

    def _winner(self, cohort: CohortNode) -> Entry | None:
        if cohort.name not in self._best:
            found = [entry for child in cohort.cohorts if (entry := self._winner(child)) is not None]
            found += self._line(cohort)[-1:]
            self._best[cohort.name] = min(found, key=lambda e: self._orders[e.node.name][cohort.name], default=None)
        return self._best[cohort.name]

    def _line(self, cohort: CohortNode) -> list[Entry]:
        line = self._lines.get(cohort.name)
        if line is None:
            line = [entry for queue in cohort.queues if (entry := self._left.get(queue.name)) is not None]
            line.sort(key=lambda e: self._orders[e.node.name][cohort.name], reverse=True)
            self._lines[cohort.name] = line
        return line

    def _order(self, entry: Entry) -> dict[str, _Order]:
        """By cohort on the path to the root, the sort key of the member below it, were the entry admitted."""
        node: QuotaNode = entry.node
        more = entry.usage.quota
        found: dict[str, _Order] = {}
        for cohort in node.ancestors():
            found[cohort.name] = self._key(entry, share(node, more))
            more = node.beyond_kept(more)
            node = cohort
        return found

    def _key(self, entry: Entry, its: DominantShare) -> _Order:
        workload, policy = entry.head.workload, self._policy
        return (
            policy.prioritize_preemptors and not entry.head.preemptor,
            policy.prioritize_non_borrowing and its.borrows_any(entry.usage.quota),
            its.rank,
            -workload.priority if policy.priority_sorting_within_cohort else 0,
            entry.head.time,
            workload.uid,
        )


def _subtree(cohort: CohortNode) -> Iterator[CohortNode]:
    yield cohort
    for child in cohort.cohorts:
        yield from _subtree(child)
