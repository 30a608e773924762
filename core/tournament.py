"""The order of heads with fair sharing: in every cohort, the member whose share would be least goes first.

Separate from the cycle, which otherwise orders by borrowing, priority and time. After each entry the shares are worked
out anew, for it has changed them. Rule: KEP 1714, hierarchical fair sharing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from core.nomination import Entry
from core.policy import Policy
from core.quota import CohortNode
from core.shares import Rank, Share, share

_Order = tuple[bool, Rank, int, float, str]


def tournament(entries: Iterable[Entry], policy: Policy) -> Iterator[Entry]:
    """The entries tree by tree, each the winner as shares are when it is asked for."""
    trees: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        trees.setdefault(entry.tree.root, {})[entry.node.name] = entry
    for root in sorted(trees):
        left = trees[root]
        while left:
            winner = _winner(left, policy)
            del left[winner.node.name]
            yield winner


def _winner(left: dict[str, Entry], policy: Policy) -> Entry:
    first = next(iter(left.values()))
    root = first.node.root()
    if not isinstance(root, CohortNode):
        return first
    shares = {name: _shares(entry) for name, entry in left.items()}
    found = _best(root, left, shares, policy)
    assert found is not None, "every entry is below the root of its tree"
    return found


def _shares(entry: Entry) -> dict[str, Share]:
    """By cohort on the path to the root, the share of the member below it, were the entry admitted."""
    node = entry.node
    node.add_all(entry.usage)
    found: dict[str, Share] = {}
    below = share(node)
    for cohort in node.ancestors():
        found[cohort.name] = below
        below = share(cohort)
    node.remove_all(entry.usage)
    return found


def _best(
    cohort: CohortNode, left: dict[str, Entry], shares: dict[str, dict[str, Share]], policy: Policy
) -> Entry | None:
    contenders = [_best(child, left, shares, policy) for child in cohort.cohorts]
    contenders += [left.get(queue.name) for queue in cohort.queues]
    found = [entry for entry in contenders if entry is not None]
    return min(found, key=lambda e: _order(e, shares[e.node.name][cohort.name], policy), default=None)


def _order(entry: Entry, its: Share, policy: Policy) -> _Order:
    workload = entry.head.workload
    return (
        policy.prioritize_non_borrowing and its.borrows_any(entry.usage),
        its.rank,
        -workload.priority if policy.priority_sorting_within_cohort else 0,
        entry.head.time,
        workload.uid,
    )
