"""Preemption by priority and by position in the tree of cohorts: chooses the workloads to preempt so that a workload
fits.

Candidates are removed in order until it fits; then those that are not needed are added again. Separate from
``core.scheduling.preemption.fair``, which chooses by shares instead. Rules:
https://kueue.sigs.k8s.io/docs/concepts/preemption/ (classical preemption), KEP 1337 (borrowWithinCohort), KEP 79
(advantage in hierarchical cohorts).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from api.names import PreemptedReason, PreemptionPolicy
from core.model import FlavorResource
from core.quota.node import CohortNode, QueueNode, QuotaNode
from core.scheduling.preemption.candidates import Candidate, Preemptor, Room, fill_back


def classical_targets(preemptor: Preemptor, need: frozenset[FlavorResource], room: Room) -> list[Candidate]:
    """Returns the workloads to preempt so that there is room, if it is needed in ``need``; empty if no preemption
    helps.
    """
    return _Classical(preemptor, need, room).targets()


def out_of_reach(preemptor: Preemptor, requests: Mapping[FlavorResource, int]) -> bool:
    """Whether it is clear at a glance that there are no targets, nor would be if more were asked for besides."""
    own, within = _own_room(preemptor, requests)
    return not own and not _reaches_out(preemptor, requests, within=within)


@dataclass(slots=True)
class _Classical:
    """Preemption by priority and by position in the tree of cohorts."""

    preemptor: Preemptor
    need: frozenset[FlavorResource]
    room: Room

    def targets(self) -> list[Candidate]:
        own, within = _own_room(self.preemptor, self.room.quota)
        if not own and not _reaches_out(self.preemptor, self.room.quota, within=within):
            return []
        hierarchical, prioritized = self._from_cohort(within=within)
        if not own and not hierarchical and not prioritized:
            return []
        same = self._from_queue()
        ordered = self._in_order(hierarchical, prioritized, same)
        elsewhere = bool(hierarchical or prioritized)
        for borrowing in self._attempts(elsewhere=elsewhere, hierarchical=bool(hierarchical)):
            found = self._minimal(ordered, borrowing=borrowing)
            if found:
                return found
        return []

    def _attempts(self, *, elsewhere: bool, hierarchical: bool) -> tuple[bool, ...]:
        """Whether to allow borrowing, in the order of the attempts. Without it there are more candidates."""
        node = self.preemptor.node
        forbidden = node.spec.preemption.borrow_within_cohort == PreemptionPolicy.NEVER
        under = all(node.usage.get(fr, 0) < node.subtree.get(fr, 0) for fr in self.need)
        if not elsewhere or (forbidden and not under):
            return (True,)
        if forbidden and not hierarchical:
            return (False, True)
        return (True, False)

    def _in_order(self, *lists: list[Candidate]) -> list[Candidate]:
        """Those being evicted already first, then list by list; each by the order of candidates."""
        ranked = [sorted(each, key=lambda candidate: self.preemptor.rank(candidate.held)) for each in lists]
        evicted = [c for each in ranked for c in each if c.held.evicted]
        return evicted + [c for each in ranked for c in each if not c.held.evicted]

    def _minimal(self, candidates: list[Candidate], *, borrowing: bool) -> list[Candidate]:
        targets: list[Candidate] = []
        needed: list[Candidate] = []
        for candidate in candidates:
            if not self._valid(candidate, borrowing=borrowing):
                continue
            self.preemptor.remove((candidate,))
            targets.append(candidate)
            if self.preemptor.fits(self.room, borrowing=borrowing):
                needed = fill_back(self.preemptor, targets, self.room, borrowing=borrowing)
                break
        self.preemptor.add(needed or targets)
        return needed

    def _valid(self, candidate: Candidate, *, borrowing: bool) -> bool:
        """Whether preempting it still reclaims quota: every node up to the common cohort uses more than its own
        quota.
        """
        if candidate.node is self.preemptor.node:
            return True
        if borrowing and candidate.only_without_borrowing:
            return False
        node: QuotaNode | None = candidate.node
        while node is not None and node is not candidate.cohort:
            if node.within(self.need):
                return False
            node = node.parent
        return True

    def _from_queue(self) -> list[Candidate]:
        node = self.preemptor.node
        policy = node.spec.preemption.within_cluster_queue
        if policy == PreemptionPolicy.NEVER:
            return []
        reason = PreemptedReason.IN_CLUSTER_QUEUE
        return [Candidate(held, node, reason) for held in self.preemptor.candidates(node, policy, self.need)]

    def _from_cohort(self, *, within: bool) -> tuple[list[Candidate], list[Candidate]]:
        """Returns candidates of other ClusterQueues: those whose quota is closer to the preemptor, and those with lower
        priority.

        Without ``within`` neither an attempt without borrowing nor the candidates that only such an attempt can preempt
        are useful.
        """
        node = self.preemptor.node
        hierarchical: list[Candidate] = []
        prioritized: list[Candidate] = []
        if node.spec.preemption.reclaim_within_cohort == PreemptionPolicy.NEVER:
            return hierarchical, prioritized
        forbidden = node.spec.preemption.borrow_within_cohort == PreemptionPolicy.NEVER
        advantage, remaining = _fits_quota(node, self.room.quota)
        seen: CohortNode | None = None
        for cohort in node.ancestors():
            found = hierarchical if advantage else prioritized
            for member in self._borrowing(cohort, seen) if advantage or within or not forbidden else ():
                found.extend(self._judged(member, cohort, advantage=advantage))
            fits, remaining = _fits_quota(cohort, remaining)
            advantage = advantage or fits
            seen = cohort
        return hierarchical, prioritized

    def _borrowing(self, cohort: CohortNode, seen: CohortNode | None) -> Iterator[QueueNode]:
        """Returns the ClusterQueues below that use more than their own quota, in subtrees that do so too."""
        for child in cohort.cohorts:
            if child is not seen and not child.within(self.need):
                yield from self._borrowing(child, seen)
        for queue in cohort.queues:
            if queue is not self.preemptor.node and not queue.within(self.need):
                yield queue

    def _judged(self, member: QueueNode, cohort: CohortNode, *, advantage: bool) -> Iterator[Candidate]:
        rules = self.preemptor.node.spec.preemption
        forbidden = rules.borrow_within_cohort == PreemptionPolicy.NEVER
        reason = PreemptedReason
        for held in self.preemptor.candidates(member, rules.reclaim_within_cohort, self.need):
            if advantage:
                yield Candidate(held, member, reason.IN_COHORT_RECLAMATION, cohort)
            elif forbidden or self._above_threshold(held.workload.priority):
                yield Candidate(held, member, reason.IN_COHORT_RECLAMATION, cohort, only_without_borrowing=True)
            else:
                yield Candidate(held, member, reason.IN_COHORT_RECLAIM_WHILE_BORROWING, cohort)

    def _above_threshold(self, priority: int) -> bool:
        """Whether its priority protects a workload from a preemptor that borrows."""
        threshold = self.preemptor.node.spec.preemption.max_priority_threshold
        return priority >= self.preemptor.head.workload.priority or (threshold is not None and priority > threshold)


def _fits_quota(node: QuotaNode, requests: Mapping[FlavorResource, int]) -> tuple[bool, dict[FlavorResource, int]]:
    """Returns whether the requests fit in the quota of a subtree, and what must be borrowed from above it."""
    fits = not any(node.exceeds(fr, amount) for fr, amount in requests.items())
    return fits, {fr: max(0, amount - node.kept_free(fr)) for fr, amount in requests.items()}


def _own_room(preemptor: Preemptor, requests: Mapping[FlavorResource, int]) -> tuple[bool, bool]:
    """Returns two quick estimates for the case that all preemptible workloads of its own ClusterQueue are gone: whether
    the requests would fit (no more becomes available than these workloads use), and whether the ClusterQueue would not
    borrow. If it would borrow, an attempt without borrowing fails, and the candidates for such an attempt need not be
    collected.
    """
    node, inside = preemptor.node, preemptor.used_inside()
    fits = within = True
    for fr, amount in requests.items():
        short = amount - inside.get(fr, 0)
        within = within and not node.exceeds(fr, short)
        if fits and short > 0 and short > node.available(fr):
            fits = False
    return fits, within


def _reaches_out(preemptor: Preemptor, requests: Mapping[FlavorResource, int], *, within: bool) -> bool:
    """Whether a workload of another ClusterQueue can be a useful candidate."""
    node, rules = preemptor.node, preemptor.node.spec.preemption
    if node.parent is None or rules.reclaim_within_cohort == PreemptionPolicy.NEVER:
        return False
    flat = node.parent.parent is None
    if within or not flat or rules.borrow_within_cohort != PreemptionPolicy.NEVER:
        return True
    return not any(node.exceeds(fr, amount) for fr, amount in requests.items())
