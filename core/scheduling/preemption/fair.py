"""Preemption by shares: a workload may preempt if its ClusterQueue has borrowed less than the other.

The usage of the preemptor counts as if it were admitted. In each step the member with the greatest share is found from
the root down, and one of its candidates is taken if the strategies allow it; at the end, candidates that are not needed
are added again. Separate from ``core.scheduling.preemption.classical``, which uses priority. Rules: KEP 1714 (S2-a and
S2-b), https://kueue.sigs.k8s.io/docs/concepts/preemption/ (fair sharing).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from api.names import PreemptedReason, PreemptionPolicy
from core.model import FlavorResource
from core.model.policy import Strategy
from core.quota.node import CohortNode, QueueNode, QuotaNode
from core.quota.shares import DominantShare, ShareRank, share
from core.quota.usage import Reservation
from core.scheduling.preemption.candidates import Candidate, Preemptor, Room, fill_back

_LOWEST: ShareRank = (0, -1.0)


def fair_targets(
    preemptor: Preemptor,
    need: frozenset[FlavorResource],
    room: Room,
    strategies: Sequence[Strategy],
) -> list[Candidate]:
    """Returns the workloads to preempt so that there is room, if it is needed in ``need``; empty if no preemption
    helps.
    """
    candidates = _candidates(preemptor, need)
    if not candidates:
        return []
    search = _Fair(preemptor, need, room)
    preemptor.node.add(room.quota)
    left = search.first(candidates, strategies[0])
    if not search.fits and len(strategies) > 1:
        search.second(left)
    preemptor.node.remove(room.quota)
    needed = fill_back(preemptor, search.targets, room, borrowing=True) if search.fits else []
    preemptor.add(needed if search.fits else search.targets)
    return needed


def _candidates(preemptor: Preemptor, need: frozenset[FlavorResource]) -> dict[str, list[Candidate]]:
    """The candidates by ClusterQueue, in order; reasons are set when they are chosen."""
    node = preemptor.node
    rules = node.spec.preemption
    found: dict[str, list[Candidate]] = {}
    members = [node] if rules.within_cluster_queue != PreemptionPolicy.NEVER else []
    if node.parent is not None and rules.reclaim_within_cohort != PreemptionPolicy.NEVER:
        members += [q for q in node.root().members() if q is not node and not q.within(need)]
    for member in members:
        policy = rules.within_cluster_queue if member is node else rules.reclaim_within_cohort
        held = sorted(preemptor.candidates(member, policy, need), key=preemptor.rank)
        if held:
            found[member.name] = [Candidate(each, member) for each in held]
    return found


@dataclass(slots=True)
class _Fair:
    """One search: ``targets`` are taken out of usage, with the preemptor's quota counted in."""

    preemptor: Preemptor
    need: frozenset[FlavorResource]
    room: Room
    targets: list[Candidate] = field(default_factory=list)
    fits: bool = False

    def first(self, candidates: dict[str, list[Candidate]], strategy: Strategy) -> dict[str, list[Candidate]]:
        """Preempts by the first strategy until it fits; returns the candidates that it skipped, for the second
        strategy.
        """
        node = self.preemptor.node
        entitled = self.preemptor.policy.preempt_within_nominal and node.within(self.need)
        left: dict[str, list[Candidate]] = {}
        for member, queue in _Descent(self.preemptor, candidates):
            if member is node:
                self._take(queue.pop(0), PreemptedReason.IN_CLUSTER_QUEUE)
            elif entitled:
                self._take(queue.pop(0), PreemptedReason.IN_COHORT_RECLAMATION)
            else:
                self._by_strategy(member, queue, strategy, left)
            if self.fits:
                break
        return left

    def second(self, candidates: dict[str, list[Candidate]]) -> None:
        """S2-b for those the first strategy passed over: one of each ClusterQueue, in order of shares."""
        descent = _Descent(self.preemptor, candidates)
        for member, queue in descent:
            mine, its = _below_common(self.preemptor.node, member)
            if share(mine).rank < share(its).rank:
                self._take(queue.pop(0), PreemptedReason.IN_COHORT_FAIR_SHARING)
                if self.fits:
                    return
            descent.drop(member)

    def _by_strategy(
        self, member: QueueNode, queue: list[Candidate], strategy: Strategy, left: dict[str, list[Candidate]]
    ) -> None:
        """Takes the first candidate of a ClusterQueue that the strategy allows; this changes the shares."""
        mine, its = _below_common(self.preemptor.node, member)
        new, old = share(mine).rank, share(its).rank
        while queue:
            target = queue.pop(0)
            if strategy is Strategy.LESS_THAN_INITIAL_SHARE:
                allowed = new < old
            else:
                self.preemptor.remove((target,))
                allowed = new <= share(its).rank
                self.preemptor.add((target,))
            if allowed:
                self._take(target, PreemptedReason.IN_COHORT_FAIR_SHARING)
                return
            left.setdefault(member.name, []).append(target)

    def _take(self, target: Candidate, reason: str) -> None:
        self.preemptor.remove((target,))
        self.targets.append(replace(target, reason=reason))
        node = self.preemptor.node
        node.remove(self.room.quota)
        self.fits = self.preemptor.fits(self.room, borrowing=True)
        node.add(self.room.quota)


def _below_common(one: QueueNode, other: QueueNode) -> tuple[QuotaNode, QuotaNode]:
    """The members of the lowest cohort that both have in common, through which they are in it."""
    below: dict[str, QuotaNode] = {}
    node: QuotaNode = one
    for cohort in one.ancestors():
        below[cohort.name] = node
        node = cohort
    node = other
    for cohort in other.ancestors():
        if cohort.name in below:
            return below[cohort.name], node
        node = cohort
    raise ValueError(f"{one.path()} and {other.path()} are in different trees")


class _Descent:
    """Iterates over ClusterQueues with candidates: each time the one that is found by following the greatest share down
    from the root.

    Members that borrow nothing are excluded permanently, except those on the path of the preemptor.
    """

    def __init__(self, preemptor: Preemptor, candidates: dict[str, list[Candidate]]) -> None:
        self._preemptor = preemptor
        self._candidates = candidates
        self._own = {cohort.name for cohort in preemptor.node.ancestors()}
        self._out: set[int] = set()
        self._shares: dict[int, DominantShare] = {}
        """Shares of nodes, valid until something below them changes."""

    def drop(self, member: QueueNode) -> None:
        """Excludes this ClusterQueue from now on."""
        self._out.add(id(member))

    def __iter__(self) -> Iterator[tuple[QueueNode, list[Candidate]]]:
        root = self._preemptor.node.root()
        if not isinstance(root, CohortNode):
            node = self._preemptor.node
            while id(node) not in self._out and self._candidates.get(node.name):
                yield node, self._candidates[node.name]
            return
        while id(root) not in self._out:
            member = self._next(root)
            if member is not None:
                yield member, self._candidates[member.name]
                for changed in (member, *member.ancestors()):
                    self._shares.pop(id(changed), None)

    def _share(self, node: QuotaNode) -> DominantShare:
        found = self._shares.get(id(node))
        if found is None:
            found = self._shares[id(node)] = share(node)
        return found

    def _next(self, cohort: CohortNode) -> QueueNode | None:
        """Returns the ClusterQueue with the greatest share below; None after excluding a node without candidates."""
        queue, queue_rank = self._greatest_queue(cohort)
        child, child_rank = self._greatest_cohort(cohort)
        if child is not None and child_rank >= queue_rank:
            return self._next(child)
        if queue is None:
            self._out.add(id(cohort))
        return queue

    def _greatest_queue(self, cohort: CohortNode) -> tuple[QueueNode | None, ShareRank]:
        best: QueueNode | None = None
        best_rank = _LOWEST
        for queue in cohort.queues:
            if id(queue) in self._out:
                continue
            found = self._share(queue)
            if not self._candidates.get(queue.name) or not (found.borrows or queue is self._preemptor.node):
                self._out.add(id(queue))
            elif best is None or found.rank > best_rank or (found.rank == best_rank and self._before(queue, best)):
                best, best_rank = queue, found.rank
        return best, best_rank

    def _greatest_cohort(self, cohort: CohortNode) -> tuple[CohortNode | None, ShareRank]:
        best: CohortNode | None = None
        best_rank = _LOWEST
        for child in cohort.cohorts:
            if id(child) in self._out:
                continue
            found = self._share(child)
            if not found.borrows and child.name not in self._own:
                self._out.add(id(child))
            elif best is None or found.rank >= best_rank:
                best, best_rank = child, found.rank
        return best, best_rank

    def _before(self, one: QueueNode, other: QueueNode) -> bool:
        first, second = self._held(one), self._held(other)
        return self._preemptor.rank(first) < self._preemptor.rank(second)

    def _held(self, queue: QueueNode) -> Reservation:
        return self._candidates[queue.name][0].held
