"""One scheduling cycle: heads and a snapshot in, a plan out. Pure: the same input gives the same plan.

Each head is nominated as if it were alone, then all are put in order, and one after the other is decided against a
copy of the usage that those before it have changed. ``core.state.drain`` calls it again until no head gets any
further. Rules: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/ and, for the order with fair sharing, KEP 1714.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from api.names import CheckState, Condition, EvictedReason, PendingReason
from core.matching.placement import matches
from core.model import (
    Admission,
    Decision,
    FlavorResource,
    Key,
    Plan,
    QueueingStrategy,
    Requests,
    Requeue,
    Reserve,
    StayPending,
    Tried,
    Victim,
    Workload,
    messages,
)
from core.model.policy import SchedulingPolicy
from core.quota.arena import Arena
from core.quota.checks import required_checks
from core.quota.node import QueueNode, QuotaNode
from core.quota.usage import Reservation, Usage
from core.scheduling import variants
from core.scheduling.fair_order import tournament
from core.scheduling.flavors import Mode
from core.scheduling.nomination import Entry, Nomination, proposal
from core.scheduling.preemption.candidates import Borrowers, Candidate, Preemptor
from core.scheduling.snapshot import Head, Snapshot
from core.steps import Steps, completed

_FAILED = (CheckState.RETRY, CheckState.REJECTED)


def schedule(snapshot: Snapshot, heads: Sequence[Head], policy: SchedulingPolicy, now: float) -> Plan:
    """Returns a decision for each head. ``now`` is in epoch seconds; no decision depends on it at present."""
    return completed(schedule_in_steps(snapshot, heads, policy))


def schedule_in_steps(snapshot: Snapshot, heads: Sequence[Head], policy: SchedulingPolicy) -> Steps[Plan]:
    """As ``schedule``, with a step after every head that was nominated and every decision; returns the plan.

    A head that raises an error is refused with that error, and the others are judged without it: no stored object,
    however odd, stops the queues.
    """
    broken: list[StayPending] = []
    while True:
        cycle = _Cycle(snapshot, policy)
        try:
            plan = yield from cycle.run(heads)
        except Exception as error:
            culprit = cycle.looking
            if culprit is None:
                raise
            text = f"cannot be judged: {type(error).__name__}: {error}"
            broken.append(_refusal(culprit, None, PendingReason.MISCONFIGURED, text))
            heads = [head for head in heads if head is not culprit]
        else:
            return replace(plan, decisions=(*plan.decisions, *broken)) if broken else plan


@dataclass(slots=True)
class _Cycle:
    snapshot: Snapshot
    policy: SchedulingPolicy
    arenas: dict[str, Arena] = field(default_factory=dict)
    """Copies of the arenas that have heads, with the trees that have any."""
    heads: Sequence[Head] = ()
    """The heads that are decided in this cycle."""
    preempted: dict[str, dict[Key, Candidate]] = field(default_factory=dict)
    """The workloads that are chosen as victims, by arena."""
    borrowers: dict[QuotaNode, Borrowers] = field(default_factory=dict)
    """The ClusterQueues that borrow, by the root of their tree, with the usage at the start of the cycle."""
    reserved: dict[str, list[tuple[QueueNode, Usage]]] = field(default_factory=dict)
    """What heads that have to wait will use beside quota, by arena."""
    decisions: list[Decision] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    recomputed: list[tuple[str, str]] = field(default_factory=list)
    replaced: set[Key] = field(default_factory=set)
    """The slices whose quota a head has taken over."""
    pods_ready: bool = True
    looking: Head | None = None
    """The one that is decided now."""

    def run(self, heads: Sequence[Head]) -> Steps[Plan]:
        """Decides all heads; yields after each of them."""
        self.pods_ready = self.snapshot.pods_ready
        entries: list[Entry] = []
        refused: list[StayPending] = []
        self.heads = heads
        nomination = Nomination(self.policy, self.snapshot.flavors, self.snapshot.cycle, self.snapshot.topologies)
        for head in heads:
            self.looking = head
            wait = self._refuse(head)
            if wait is not None:
                refused.append(replace(wait, second_pass=True) if head.second_pass else wait)
                continue
            arena = self._arena(head.cluster_queue)
            if arena.kinds:
                yield from arena.prepare(head.workload, head.cluster_queue)
            entry = self._entry(head, arena)
            nomination.settle(entry)
            entries.append(entry)
            yield
        self.looking = None
        for entry in self._ordered(entries):
            self.looking = entry.head
            self.decisions.append(self._decide(entry, nomination))
            self.looking = None
            yield
        return Plan((*self.decisions, *refused), self.skipped, tuple(self.recomputed))

    def _arena(self, cluster_queue: str) -> Arena:
        name = self.snapshot.arena_of[cluster_queue]
        arena = self.arenas.get(name)
        if arena is None:
            whole = self.snapshot.arenas[name]
            queues = {head.cluster_queue for head in self.heads} if whole.quota.trees else None
            arena = self.arenas[name] = whole.copy(queues)
        return arena

    def _entry(self, head: Head, arena: Arena) -> Entry:
        node = arena.queues[head.cluster_queue]
        replaced = replaced_slice(head.workload, node)
        if head.second_pass:
            entry = Entry(head, node, arena, self._preemptor(head, arena, node, {}))
            entry.preemptor.gone = _own(entry)
            return entry
        if replaced is None:
            borrowers = self.borrowers.setdefault(node.root(), {})
            return Entry(head, node, arena, self._preemptor(head, arena, node, borrowers))
        preemptor = self._preemptor(head, arena, node, {}, gone={replaced.key})
        return Entry(head, node, arena, preemptor, replaced=replaced)

    def _preemptor(
        self, head: Head, arena: Arena, node: QueueNode, borrowers: Borrowers, gone: set[Key] | None = None
    ) -> Preemptor:
        return Preemptor(head, arena, node, self.policy, self.snapshot.local_usage, gone or set(), borrowers)

    def _again(self, entry: Entry, gone: set[Key]) -> Preemptor:
        """The preemptor of an entry that is nominated once more."""
        found = self._preemptor(entry.head, entry.arena, entry.node, {}, gone=gone)
        found.short = entry.preemptor.short
        return found

    def _ordered(self, entries: list[Entry]) -> Iterator[Entry]:
        """Heads that hold quota already come first: nobody else can use it. Then those that waited only for the pods
        of other workloads. In Kueue no other head is decided while they wait, so a workload that returns from its
        backoff meanwhile does not overtake them.
        """
        if any(entry.head.second_pass for entry in entries):
            entries = yield from self._second_pass(entries)
        yield from self._in_order([entry for entry in entries if entry.head.blocked])
        yield from self._in_order([entry for entry in entries if not entry.head.blocked])

    def _second_pass(self, entries: list[Entry]) -> Generator[Entry, None, list[Entry]]:
        """Yields those in their second pass that are decided before all others; returns the others.

        With fair sharing, as in Kueue, each ClusterQueue has one entry in the tournament: the head of its queue, or,
        if there is none, one that holds quota. What is left over is postponed.
        """
        second = [entry for entry in entries if entry.head.second_pass]
        first = [entry for entry in entries if not entry.head.second_pass]
        if self.policy.fair_sharing is None:
            yield from self._in_order(second)
            return first
        chosen = {entry.node.name: entry for entry in (*reversed(second), *first)}
        for entry in second:
            if chosen[entry.node.name] is not entry:
                self.decisions.append(self._stay(entry, postponed=True))
        return list(chosen.values())

    def _in_order(self, entries: list[Entry]) -> Iterator[Entry]:
        if self.policy.fair_sharing is not None:
            return tournament(entries, self.policy)
        by_priority, first = self.policy.priority_sorting_within_cohort, self.policy.prioritize_preemptors
        return iter(
            sorted(
                entries,
                key=lambda e: (
                    first and not e.head.preemptor,
                    e.assignment.level,
                    -e.head.workload.priority if by_priority else 0,
                    e.head.time,
                    e.head.workload.uid,
                    e.head.workload.key,
                ),
            )
        )

    # Heads that are not nominated at all.

    def _refuse(self, head: Head) -> StayPending | None:
        """Returns why a head may not be admitted regardless of free quota; None when it may."""
        workload = head.workload
        namespace = workload.key.namespace
        labels = self.snapshot.namespaces.get(namespace)
        arena = self.snapshot.arena_of.get(head.cluster_queue)
        node = self.snapshot.arenas[arena].queues[head.cluster_queue] if arena is not None else None
        if workload.checks and any(check.state in _FAILED for check in workload.checks):
            return _refusal(head, node, PendingReason.PENDING_EVALUATION, messages.FAILED_CHECKS)
        if node is None:
            return _refusal(head, node, PendingReason.MISCONFIGURED, messages.not_found(head.cluster_queue))
        if not node.active:
            return _refusal(head, node, PendingReason.SUSPENDED, messages.inactive(head.cluster_queue))
        if labels is None:
            return _refusal(head, node, PendingReason.MISCONFIGURED, messages.no_namespace(namespace))
        selector = node.spec.namespace_selector
        if selector is None or not matches(selector, labels):
            # Parked even where order is strict: it is the namespace that keeps it out, and nothing in the queue.
            return _refusal(head, None, PendingReason.MISCONFIGURED, messages.NAMESPACE_MISMATCH)
        if workload.invalid:
            return _refusal(head, node, PendingReason.MISCONFIGURED, "; ".join(workload.invalid))
        return None

    # Entries, one after the other.

    def _decide(self, entry: Entry, nomination: Nomination) -> Decision:
        if variants.better(entry.head.workload, entry.node):
            return self._wait(entry, PendingReason.PENDING_EVALUATION, messages.BETTER_VARIANT)
        worse = variants.worse(entry.head.workload, entry.node)
        if worse is not None and not variants.may_migrate(entry.head.workload, entry.node.spec):
            return self._wait(entry, PendingReason.PENDING_EVALUATION, messages.NO_MIGRATION)
        preempted = self.preempted.setdefault(entry.arena.name, {})
        fits: bool | None = None
        if entry.targets and self.policy.recompute_on_overlap and _overlaps(entry.targets, preempted):
            self._recompute(entry, preempted, nomination)
        elif entry.usage.further:
            fits = self._has_place(entry, preempted, nomination)
        mode = entry.assignment.mode
        preempts = mode.preempts
        if entry.head.second_pass and mode is not Mode.FIT and self._fails_fast(entry.head.workload):
            return self._evict_for_failed_node(entry)
        if mode is Mode.NO_FIT:
            return self._wait(
                entry, entry.assignment.no_fit_reason, entry.assignment.message, alike=True, hopeless=_hopeless(entry)
            )
        if preempts and not entry.targets:
            preemptor = self.policy.prioritize_preemptors and entry.head.preemptor
            if entry.node.spec.preemption.reclaim_within_cohort != "Any" or preemptor:
                self._reserve_for(entry, Usage(_reserved_for(entry), entry.usage.further))
            reason = entry.assignment.no_fit_reason or PendingReason.WAITING_FOR_QUOTA
            return self._wait(entry, reason, entry.assignment.message, alike=True)
        if preempts and entry.head.workload.closed_gates:
            return self._wait(entry, PendingReason.ADMISSION_GATED, messages.PREEMPTION_GATED, gated=True)
        if entry.deferred:
            self._reserve_for(entry, entry.usage)
            reason = PendingReason.WAITING_FOR_PREEMPTED_WORKLOADS
            return self._wait(entry, reason, messages.OVERLAPPING_FITS, preempting=True)
        if self._taken(entry, preempted):
            self.skipped[entry.node.name] += 1
            return self._skip(entry, messages.OVERLAPPING)
        if not (self._fits(entry, preempted) if fits is None else fits):
            self.skipped[entry.node.name] += 1 if preempts else 0
            return self._skip(entry, messages.NO_LONGER_FITS)
        if entry.targets:
            preempted.update({target.key: target for target in entry.targets})
        if preempts:
            self._reserve_for(entry, entry.usage)
        else:
            entry.arena.add(entry.node, entry.usage)
        if entry.replaced is not None:
            self.replaced.add(entry.replaced.key)
        if preempts:
            return self._preempt(entry)
        if self.policy.block_admission and not self.pods_ready and not entry.head.second_pass:
            reason = PendingReason.WAITING_FOR_PODS_READY
            return self._wait(entry, reason, messages.WAITING_FOR_PODS_READY, again=True)
        reserve = _reserve(entry)
        if worse is not None and reserve.admitted:
            return self._migrate(entry, worse)
        self.pods_ready = False
        return reserve

    def _migrate(self, entry: Entry, worse: Reservation) -> StayPending:
        """Evicts the variant that runs in a less preferred flavor; while checks are open, it runs on."""
        victim = Victim(
            workload=worse.workload,
            cluster_queue=entry.node.name,
            reason=EvictedReason.FLAVOR_MIGRATION,
            message=messages.migrated(entry.head.workload.uid),
        )
        return self._wait(
            entry,
            PendingReason.WAITING_FOR_PREEMPTED_WORKLOADS,
            messages.PENDING_MIGRATION,
            victims=() if worse.evicted else (victim,),
            preempting=True,
        )

    def _taken(self, entry: Entry, preempted: dict[Key, Candidate]) -> bool:
        """Whether an earlier head preempts one of its victims, or what it replaces, or has replaced a victim."""
        if entry.replaced is not None and entry.replaced.key in preempted:
            return True
        return any(target.key in preempted or target.key in self.replaced for target in entry.targets)

    def _fits(self, entry: Entry, preempted: dict[Key, Candidate]) -> bool:
        """Whether the head fits when all victims are gone, its own and those of earlier heads."""
        if not preempted and not entry.targets:
            return entry.arena.fits(entry.node, entry.usage)
        fits = self._when_gone(entry, preempted, lambda: entry.arena.fits(entry.node, entry.usage))
        return fits and self._has_room_now(entry, preempted)

    def _has_place(self, entry: Entry, preempted: dict[Key, Candidate], nomination: Nomination) -> bool | None:
        """Whether the head fits; nominates it again, in the flavors it had, if its quota is free, but what it was to
        use of other capacities is not. None if it was nominated again, and that is not known.
        """
        if not preempted and not entry.targets:
            if not entry.node.fits(entry.usage.quota):
                return False
            if entry.arena.fits_further(entry.node, entry.usage):
                return True
        elif self._fits(entry, preempted):
            return True
        elif not self._when_gone(entry, preempted, lambda: entry.node.fits(entry.usage.quota)):
            return False
        if self.policy.topology is not None and not self.policy.topology.recompute:
            entry.preemptor.short = True
            return False
        if nomination.moved(entry):
            alone = not preempted and len(entry.head.workload.pod_sets) == 1
            return True if alone else None
        entry.preemptor = self._again(entry, _own(entry))
        nomination.settle(entry, pinned=entry.assignment.chosen)
        return None

    def _has_room_now(self, entry: Entry, preempted: dict[Key, Candidate]) -> bool:
        """Whether a head that starts at once has room beside the victims of earlier heads, whose pods still run; what
        those heads have reserved is not in use yet. Quota is different: it may be reserved while victims stop.
        """
        if not preempted or not entry.usage.further or entry.deferred or entry.assignment.mode is not Mode.FIT:
            return True
        waiting = self.reserved.get(entry.arena.name, ())
        for node, usage in waiting:
            entry.arena.remove(node, usage)
        found = entry.arena.fits(entry.node, Usage({}, entry.usage.further))
        for node, usage in waiting:
            entry.arena.add(node, usage)
        return found

    def _reserve_for(self, entry: Entry, usage: Usage) -> None:
        """Counts what a head that has to wait will use, so that no later head takes it."""
        entry.arena.add(entry.node, usage)
        if usage.further:
            held = self.reserved.setdefault(entry.arena.name, [])
            held.append((entry.node, Usage({}, usage.further)))

    def _when_gone(self, entry: Entry, preempted: dict[Key, Candidate], holds: Callable[[], bool]) -> bool:
        """Whether something holds when all victims are gone, its own and those of earlier heads."""
        if not preempted and not entry.targets:
            return holds()
        gone = {**preempted, **{target.key: target for target in entry.targets}}.values()
        entry.preemptor.remove(gone)
        found = holds()
        entry.preemptor.add(gone)
        return found

    def _fails_fast(self, workload: Workload) -> bool:
        return bool(workload.unhealthy_nodes) and self.policy.topology is not None and self.policy.topology.fail_fast

    def _evict_for_failed_node(self, entry: Entry) -> StayPending:
        """Evicts a workload for whose failed node there is no other: it is queued again."""
        workload = entry.head.workload
        message = messages.no_replacement(workload.unhealthy_nodes)
        itself = Victim(workload, entry.node.name, EvictedReason.NODE_FAILURES, message)
        return replace(self._stay(entry), reason=EvictedReason.NODE_FAILURES, message=message, victims=(itself,))

    def _stay(self, entry: Entry, *, postponed: bool = False) -> StayPending:
        """The workload keeps its quota, and waits for another second pass."""
        return StayPending(
            workload=entry.head.workload,
            cluster_queue=entry.node.name,
            reason=PendingReason.WAITING_FOR_QUOTA,
            message=entry.assignment.message,
            requeue=Requeue.HEAP,
            second_pass=True,
            postponed=postponed,
        )

    def _recompute(self, entry: Entry, preempted: dict[Key, Candidate], nomination: Nomination) -> None:
        """Work the entry out again as if the victims of others were gone, keeping to the flavors it had."""
        others = list(preempted.values())
        entry.preemptor.remove(others)
        entry.preemptor = self._again(entry, {*preempted, *_own(entry)})
        nomination.settle(entry, pinned=entry.assignment.chosen)
        entry.preemptor.add(others)
        entry.deferred = entry.assignment.mode is Mode.FIT
        self.recomputed.append((entry.node.name, self._outcome(entry, preempted)))

    def _outcome(self, entry: Entry, preempted: dict[Key, Candidate]) -> str:
        """Returns the result of a repeated nomination, with its name in the metric."""
        if entry.deferred:
            return "deferred_fit"
        resolved = entry.targets and not self._taken(entry, preempted) and self._fits(entry, preempted)
        return "new_targets" if resolved else "skipped"

    def _preempt(self, entry: Entry) -> StayPending:
        head = entry.head
        victims = tuple(
            Victim(
                workload=target.held.workload,
                cluster_queue=target.node.name,
                reason=target.reason,
                message=messages.preempted(head.workload, target.reason, entry.node.path(), target.node.path()),
            )
            for target in sorted(entry.targets, key=lambda target: target.key)
            if not target.held.evicted
        )
        message = entry.assignment.message + messages.pending_preemption(len(entry.targets))
        reason = PendingReason.WAITING_FOR_PREEMPTED_WORKLOADS
        return self._wait(entry, reason, message, victims=victims, preempting=True)

    def _skip(self, entry: Entry, message: str) -> StayPending:
        """Returns a Wait for a head that lost its quota or its victims to others in this cycle."""
        waits = self._wait(entry, PendingReason.WAITING_FOR_QUOTA, message, again=True)
        return waits if self.policy.keeps_progress else replace(waits, tried=None)

    def _wait(
        self,
        entry: Entry,
        reason: str,
        message: str,
        *,
        alike: bool = False,
        hopeless: bool = False,
        again: bool = False,
        preempting: bool = False,
        gated: bool = False,
        victims: tuple[Victim, ...] = (),
    ) -> StayPending:
        """Returns a Wait. Only a head that was decided completely is parked: not one that lost its quota in this cycle
        (``again``), and not one that waits for victims.
        """
        if entry.head.second_pass:
            return replace(self._stay(entry), reason=reason, message=message, victims=victims)
        tried: Tried | None = None
        if not preempting and not gated:  # a gated head begins its search again
            tried = entry.assignment.tried(entry.arena.generation, self.snapshot.cycle)
        strict = entry.node.spec.strategy is QueueingStrategy.STRICT_FIFO
        stays = strict or again or preempting or (tried is not None and tried.unfinished)
        return StayPending(
            workload=entry.head.workload,
            cluster_queue=entry.node.name,
            reason=reason,
            message=message,
            requeue=Requeue.HEAP if stays else Requeue.PARKED,
            requests=_requests(entry.head),
            victims=victims,
            alike=alike and not strict,
            preempting=preempting,
            tried=tried,
            hopeless=hopeless,
            short=entry.preemptor.short,
            gated=gated,
        )


def _refusal(head: Head, node: QueueNode | None, reason: str, message: str) -> StayPending:
    """A refusal; a strict queue (``node``) keeps its head all the same."""
    keeps = node is not None and node.spec.strategy is QueueingStrategy.STRICT_FIFO
    requeue = Requeue.HEAP if keeps else Requeue.PARKED
    return StayPending(head.workload, head.cluster_queue, reason, message, requeue, _requests(head))


def _requests(head: Head) -> dict[str, Requests]:
    return {total.name: total.requests for total in head.demand.totals}


def _own(entry: Entry) -> set[Key]:
    """The workloads whose usage the entry takes over: they are no candidates for its preemption."""
    if entry.head.second_pass:
        return {entry.head.workload.key}
    return set() if entry.replaced is None else {entry.replaced.key}


def _overlaps(targets: list[Candidate], preempted: dict[Key, Candidate]) -> bool:
    return any(target.key in preempted for target in targets)


def replaced_slice(workload: Workload, node: QueueNode) -> Candidate | None:
    """Returns the slice that a workload replaces: it holds quota in the same ClusterQueue, is not evicted, and is of
    the same job.
    """
    held = node.reserved.get(workload.replaces) if workload.replaces is not None else None
    if held is None or held.evicted or held.workload.owner != workload.owner:
        return None
    return Candidate(held, node)


def _hopeless(entry: Entry) -> bool:
    """Whether no flavor could hold the workload even if nothing were in use; then earlier decisions cannot have caused
    the wait.
    """
    demand = entry.head.demand
    alone = len(demand.totals) == 1 and not demand.reducible and entry.whole
    return alone and entry.assignment.no_fit_reason in (
        PendingReason.EXCEEDS_MAX_QUOTA,
        PendingReason.NO_MATCHING_FLAVOR,
    )


def _reserved_for(entry: Entry) -> dict[FlavorResource, int]:
    """Returns the quota that other heads may not use while this workload waits: its own quota, and what it may borrow
    if it borrows.
    """
    node = entry.node
    found = {}
    for fr, amount in entry.usage.quota.items():
        quota = node.quotas.get(fr)
        nominal = quota.nominal if quota else 0
        used = node.usage.get(fr, 0)
        limit = quota.borrowing_limit if quota else None
        if not entry.assignment.level:
            found[fr] = max(0, min(amount, nominal - used))
        elif limit is None:
            found[fr] = amount
        else:
            found[fr] = min(amount, nominal + limit - used)
    return found


def _reserve(entry: Entry) -> Reserve:
    workload = entry.head.workload
    admission = entry.admission or proposal(entry.node, entry.assignment)
    admitted, second = _admitted(workload, admission, entry), entry.head.second_pass
    return Reserve(workload, admission, admitted, entry.assignment.considered, second)


def _admitted(workload: Workload, admission: Admission, entry: Entry) -> bool:
    """Whether nothing but quota was missing: all checks that the ClusterQueue asks for are there, and none is open.

    As in Kueue a check that nobody asks for any more counts until it is removed, which the write of the reservation
    does.
    """
    if any(given.awaits_topology for given in admission.pod_sets):
        return False
    if (not entry.node.spec.checks and not workload.checks) or workload.holds(Condition.ADMITTED):
        return True
    ready = {check.name for check in workload.checks if check.state == CheckState.READY}
    return len(ready) == len(workload.checks) and ready.issuperset(required_checks(entry.node.spec, admission))
