"""The quota that a ClusterQueue may use: nodes of a tree of cohorts, in which usage is added upwards.

Separate from the cycle because it does not know requests of workloads: every node has quotas, a subtree quota (its own
nominal quota and what its children lend), and usage. A child keeps what it does not lend (``kept``); usage above that
counts in its parent. Rules: https://kueue.sigs.k8s.io/docs/concepts/cohort/ and KEP 79 (hierarchical cohorts).

A node refers to its parent, and a parent to its children weakly: a tree without users is freed immediately, without a
garbage collection. The tree owns the nodes; code that walks down must hold the tree.

All amounts are integers in base units; ``None`` in a limit is "no limit". Reads cost the depth of the tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast
from weakref import ref

from core.model import ClusterQueue, FlavorResource, Key, Quota
from core.quota.demand import Demand
from core.quota.usage import Reservation

FlavorAmounts = dict[FlavorResource, int]
"""Amount by flavor-resource."""

_NO_QUOTA = Quota()


class QuotaNode:
    """A ClusterQueue or Cohort in its tree.

    ``quotas``, ``subtree`` and ``kept`` follow from the specification and are never changed in place, so copies of a
    tree share them; only ``usage`` changes.
    """

    __slots__ = (
        "__weakref__",
        "_potential",
        "kept",
        "limited",
        "name",
        "parent",
        "quotas",
        "subtree",
        "usage",
        "weight",
    )

    def __init__(self, name: str, quotas: Mapping[FlavorResource, Quota], weight: float) -> None:
        self.name = name
        self.quotas = quotas
        self.weight = weight
        self.parent: CohortNode | None = None
        self.subtree: FlavorAmounts = {}
        self.kept: FlavorAmounts = {}
        self.limited = False
        """Whether any lending or borrowing limit is set."""
        self.usage: FlavorAmounts = {}
        self._potential: FlavorAmounts = {}

    def settle(self, lent: Iterable[QuotaNode] = ()) -> None:
        """Computes subtree quota and the kept part of it, from the own quotas and those of the children, which are
        complete.
        """
        subtree = {fr: quota.nominal for fr, quota in self.quotas.items()}
        for child in lent:
            for fr, amount in child.subtree.items():
                subtree[fr] = subtree.get(fr, 0) + amount - child.kept.get(fr, 0)
        self.subtree = subtree
        self.kept = {
            fr: max(0, subtree[fr] - quota.lending_limit)
            for fr, quota in self.quotas.items()
            if quota.lending_limit is not None
        }
        self.limited = any(q.borrowing_limit is not None or q.lending_limit is not None for q in self.quotas.values())
        self._potential = {}

    def available(self, fr: FlavorResource) -> int:
        """Returns what may still be used here, from own and borrowed quota; negative if usage exceeds quota."""
        node: QuotaNode = self
        while not node.limited and node.parent is not None:
            node = node.parent
        if node.parent is None:
            return node.subtree.get(fr, 0) - node.usage.get(fr, 0)
        return node._available_within(fr, node.parent)

    def _available_within(self, fr: FlavorResource, parent: CohortNode) -> int:
        """``available`` if there are limits between this node and its parent."""
        above = parent.available(fr)
        used = self.usage.get(fr, 0)
        kept = self.kept.get(fr, 0)
        quota = self.quotas.get(fr)
        if quota is not None and quota.borrowing_limit is not None:
            above = min(above, self.subtree.get(fr, 0) - kept - max(0, used - kept) + quota.borrowing_limit)
        return above + kept - used if kept > used else above

    def potential(self, fr: FlavorResource) -> int:
        """The most this node could ever use of the flavor-resource, were nothing in use anywhere."""
        found = self._potential.get(fr)
        if found is None:
            found = self._potential[fr] = self._most(fr)
        return found

    def _most(self, fr: FlavorResource) -> int:
        own = self.subtree.get(fr, 0)
        if self.parent is None:
            return own
        most = self.kept.get(fr, 0) + self.parent.potential(fr)
        limit = self.quotas.get(fr, _NO_QUOTA).borrowing_limit
        return most if limit is None else min(most, own + limit)

    def kept_free(self, fr: FlavorResource) -> int:
        """Returns the free part of the quota that no other node can borrow."""
        return max(0, self.kept.get(fr, 0) - self.usage.get(fr, 0))

    def beyond_kept(self, amounts: Mapping[FlavorResource, int]) -> Mapping[FlavorResource, int]:
        """Returns how much of additional usage here would count in the parent too."""
        if not self.limited:
            return amounts
        return {fr: max(0, amount - self.kept_free(fr)) for fr, amount in amounts.items()}

    def exceeds(self, fr: FlavorResource, more: int = 0) -> bool:
        """Whether usage, and ``more`` on top, is beyond the quota of this subtree: whether it borrows."""
        return self.usage.get(fr, 0) + more > self.subtree.get(fr, 0)

    def within(self, frs: Iterable[FlavorResource]) -> bool:
        """Whether none of these flavor-resources is used beyond the quota of this subtree."""
        return not any(self.exceeds(fr) for fr in frs)

    def add(self, amounts: Mapping[FlavorResource, int]) -> None:
        """Adds amounts to the usage here, and what exceeds the kept part to the parents; nothing if negative."""
        for fr, amount in amounts.items():
            left = amount
            node: QuotaNode | None = self
            while node is not None and left > 0:
                used = node.usage.get(fr, 0)
                node.usage[fr] = used + left
                if node.limited:
                    left -= max(0, node.kept.get(fr, 0) - used)
                node = node.parent

    def remove(self, amounts: Mapping[FlavorResource, int]) -> None:
        """Undoes ``add``."""
        for fr, amount in amounts.items():
            left = amount
            node: QuotaNode | None = self
            while node is not None and left > 0:
                used = node.usage.get(fr, 0)
                node.usage[fr] = used - left
                if node.limited:
                    left = min(left, used - node.kept.get(fr, 0))
                node = node.parent

    def fits(self, amounts: Mapping[FlavorResource, int]) -> bool:
        """Whether all the amounts are available together (they are different flavor-resources)."""
        for fr, amount in amounts.items():  # noqa: SIM110  (a generator costs half as much again)
            if amount > 0 and amount > self.available(fr):
                return False
        return True

    def ancestors(self) -> Iterator[CohortNode]:
        """Parent, its parent, and so on to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def members(self) -> Iterator[QueueNode]:
        """Returns all ClusterQueues below that take part in scheduling."""
        return iter(())

    def root(self) -> QuotaNode:
        """The top of the tree this node is in; itself where it has no cohort."""
        node: QuotaNode = self
        while node.parent is not None:
            node = node.parent
        return node

    def path(self) -> str:
        """The names from the root down, as in `/research/team/queue`."""
        names = [self.name, *(ancestor.name for ancestor in self.ancestors())]
        return "/" + "/".join(reversed(names))

    def borrowed(self, fr: FlavorResource) -> int:
        """Returns the usage beyond the quota of this subtree."""
        return max(0, self.usage.get(fr, 0) - self.subtree.get(fr, 0))


class CohortNode(QuotaNode):
    """A cohort: child cohorts, and ``queues`` that take part in scheduling; other members only lend and use quota."""

    __slots__ = ("_cohorts", "_lendable", "_queues", "height")

    def __init__(self, name: str, quotas: Mapping[FlavorResource, Quota], weight: float) -> None:
        super().__init__(name, quotas, weight)
        self._cohorts: tuple[ref[CohortNode], ...] = ()
        self._queues: tuple[ref[QueueNode], ...] = ()
        self.height = 0
        self._lendable: dict[str, int] | None = None

    @property
    def cohorts(self) -> Sequence[CohortNode]:
        """The child cohorts."""
        return cast(list[CohortNode], [each() for each in self._cohorts])

    @property
    def queues(self) -> Sequence[QueueNode]:
        """The ClusterQueues directly below that take part in scheduling."""
        return cast(list[QueueNode], [each() for each in self._queues])

    def adopt(self, cohorts: Iterable[CohortNode], queues: Iterable[QueueNode]) -> None:
        """Sets the children; the references are weak."""
        self._cohorts = tuple(map(ref, cohorts))
        self._queues = tuple(map(ref, queues))

    def members(self) -> Iterator[QueueNode]:
        """Returns all ClusterQueues below that take part in scheduling."""
        yield from self.queues
        for cohort in self.cohorts:
            yield from cohort.members()

    def measure(self) -> int:
        """Computes the height: the distance to the furthest leaf that takes part."""
        below = [cohort.measure() + 1 for cohort in self.cohorts]
        self.height = max([1 if self.queues or self.cohorts else 0, *below])
        return self.height

    def lendable(self) -> dict[str, int]:
        """Returns by resource the maximum that members of this cohort could use, summed over all flavors."""
        if self._lendable is None:
            total: dict[str, int] = {}
            for fr in self.root().subtree:
                total[fr.resource] = total.get(fr.resource, 0) + self.potential(fr)
            self._lendable = total
        return self._lendable


class QueueNode(QuotaNode):
    """A ClusterQueue in its tree. ``active`` ones take part in scheduling; ``reserved`` are the workloads that use its
    quota.
    """

    __slots__ = (
        "_below",
        "_lowest",
        "_owned",
        "_priorities",
        "active",
        "flavor_resources",
        "groups",
        "known",
        "reserved",
        "spec",
    )

    def __init__(self, spec: ClusterQueue, *, active: bool) -> None:
        super().__init__(spec.name, spec.quotas, spec.weight)
        self.spec = spec
        self.active = active
        self.groups = {resource: group for group in spec.groups for resource in group.resources}
        """The resource group of each resource that is covered."""
        self.flavor_resources: dict[str, dict[str, FlavorResource]] = {}
        """The flavor-resources, by flavor and resource."""
        for group in spec.groups:
            for flavor in group.flavors:
                self.flavor_resources.setdefault(flavor, {}).update(
                    {r: FlavorResource(flavor, r) for r in group.resources}
                )
        self.known: dict[Demand, object] = {}
        """Caches of other modules (``core.scheduling.search_cache``); a change of specification discards them."""
        self.reserved: dict[Key, Reservation] = {}
        self._priorities: dict[int, int] = {}
        """How many of those have a priority."""
        self._below: dict[int, FlavorAmounts] = {}
        """Cache: the usage of workloads below a priority."""
        self._owned = True
        self._lowest: float | None = None

    def hold(self, key: Key, held: Reservation) -> None:
        """Adds a workload to those that use the quota, or replaces it. Usage is not changed."""
        self._own()
        self._count(self.reserved.get(key), -1)
        self.reserved[key] = held
        self._count(held, +1)

    def drop(self, key: Key) -> None:
        """Have it among them no more. Usage is not changed."""
        self._own()
        self._count(self.reserved.pop(key), -1)

    def share(self, other: QueueNode) -> None:
        """Read the reservations of another node without copying them."""
        self.reserved, self._priorities, self._lowest = other.reserved, other._priorities, other._lowest
        self._below = other._below
        self._owned = False

    def lowest(self) -> float:
        """Returns the lowest priority of the workloads that hold quota here; infinity if there are none."""
        if self._lowest is None:
            self._lowest = min(self._priorities, default=math.inf)
        return self._lowest

    def used_below(self, priority: int) -> Mapping[FlavorResource, int]:
        """Returns the total usage of workloads with lower priority. Visits all workloads that hold quota here, once for
        a priority.
        """
        found = self._below.get(priority)
        if found is None:
            found = self._below[priority] = {}
            for held in self.reserved.values():
                if held.workload.priority < priority:
                    for fr, amount in held.usage.quota.items():
                        found[fr] = found.get(fr, 0) + amount
        return found

    def _own(self) -> None:
        """Copies what a snapshot reads too, so that it may be changed."""
        self._below = {}
        if not self._owned:
            self.reserved, self._priorities = dict(self.reserved), dict(self._priorities)
            self._owned = True

    def _count(self, held: Reservation | None, change: int) -> None:
        if held is not None:
            priority = held.workload.priority
            left = self._priorities.get(priority, 0) + change
            if left:
                self._priorities[priority] = left
            else:
                del self._priorities[priority]
            self._lowest = None


def borrowing_level(node: QuotaNode, fr: FlavorResource, amount: int) -> tuple[int, bool]:
    """Returns the level from which additional quota of ``amount`` is taken, and whether that is less than the whole
    tree.

    0 is the ClusterQueue itself; otherwise it is the height of the lowest cohort whose quota is sufficient (of the
    whole tree if none is).
    """
    cohort = node.parent
    if cohort is None or not node.exceeds(fr, amount):
        return 0, cohort is not None
    remaining = amount - node.kept_free(fr) if node.limited else amount
    while cohort.exceeds(fr, remaining):
        if cohort.parent is None:
            return cohort.height, False
        remaining -= cohort.kept_free(fr) if cohort.limited else 0
        cohort = cohort.parent
    return cohort.height, cohort.parent is not None
