"""The dominant resource share: how much of what its cohort can lend a member has borrowed.

Separate because fair preemption, the tournament between heads and the status of queues compare the same value. Rule:
https://kueue.sigs.k8s.io/docs/concepts/fair_sharing/ and KEP 1714. Over all resources, the greatest ratio of what is
borrowed to what the parent can lend, in thousandths, divided by the weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from core.model import FlavorResource
from core.quota.node import QuotaNode

_NOTHING: Mapping[FlavorResource, int] = {}
ShareRank = tuple[int, float]
"""The order of shares: members of weight 0 that borrow are after all others, and ordered by what they borrow."""


class DominantShare(Struct, frozen=True, gc=False):
    """A node's share. One may borrow and have ratio 0, where its parent has nothing to lend of the resource."""

    ratio: float
    weight: float
    borrowed: tuple[FlavorResource, ...] = ()

    @property
    def borrows(self) -> bool:
        """Whether more is used than the node's own quota."""
        return bool(self.borrowed)

    @property
    def rank(self) -> ShareRank:
        """Sort key; the lowest is the first to be admitted, the highest the first to be preempted."""
        if self.ratio == 0:
            return (0, 0.0)
        if self.weight == 0:
            return (1, self.ratio)
        return (0, self.ratio / self.weight)

    @property
    def weighted(self) -> float:
        """The share as it is shown; infinite for a weight of 0 that borrows."""
        grade, value = self.rank
        return math.inf if grade else value

    def borrows_any(self, usage: Mapping[FlavorResource, int]) -> bool:
        """Whether a flavor-resource in ``usage`` is borrowed."""
        return any(usage.get(fr, 0) > 0 for fr in self.borrowed)


def share(node: QuotaNode, more: Mapping[FlavorResource, int] = _NOTHING) -> DominantShare:
    """The share of a ClusterQueue or Cohort as usage is now, with ``more`` on top; a root borrows nothing."""
    if node.parent is None:
        return DominantShare(0.0, node.weight)
    usage = node.usage
    amounts: dict[str, int] = {}
    borrowed = []
    for fr, own in node.subtree.items():
        beyond = usage.get(fr, 0) + more.get(fr, 0) - own
        if beyond > 0:
            amounts[fr.resource] = amounts.get(fr.resource, 0) + beyond
            borrowed.append(fr)
    if not borrowed:
        return DominantShare(0.0, node.weight)
    lendable = node.parent.lendable()
    ratios = [
        _ratio(amount, lendable[resource]) for resource, amount in amounts.items() if lendable.get(resource, 0) > 0
    ]
    return DominantShare(max(ratios, default=0.0), node.weight, tuple(borrowed))


def _ratio(borrowed: int, lendable: int) -> float:
    """In thousandths, rounded as Kueue's floats are; infinite beyond them."""
    try:
        return float(borrowed) * 1000.0 / float(lendable)
    except OverflowError:
        thousandths = borrowed * 1000 // lendable
        return float(thousandths) if thousandths < 1 << 1000 else math.inf
