"""Explains why a workload waits, what it needs, which workloads hold that, and which changes would help: counterfactual
cycles.

Every answer is a decision of the cycle: the workload is decided as if it were the only head, with present quota, and
then again without some holders or with a higher priority. Nothing is changed.

The command line has all the time it needs. The process that serves the visibility API has not: it takes one step after
the other, within ``ExplanationBounds``, and its State may change between two steps: what is answered is true of the
first one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import islice
from typing import Final

from msgspec import structs

from api import quantity
from api.names import PODS_RESOURCE, CheckState, Condition, PendingReason
from core.devices.fixes import explained
from core.explain import topology
from core.explain.explanation import Cell, Explanation, Holder, OtherHolders, Rooms
from core.explain.sight import EVERYTHING, Sight
from core.model import (
    AdmissionCheck,
    ClusterQueue,
    Decision,
    FlavorResource,
    Key,
    LocalQueue,
    Reserve,
    StayPending,
    StopPolicy,
    Workload,
)
from core.model import CheckState as CheckOf
from core.queue.order import queue_time
from core.queue.queue import QueueEntry
from core.quota.arena import Arena
from core.quota.demand import Demand
from core.quota.node import QueueNode
from core.quota.shares import share
from core.quota.tree import root_name
from core.quota.usage import Reservation, totals
from core.scheduling.cycle import replaced_slice, schedule
from core.scheduling.snapshot import Head, Snapshot
from core.scheduling.variants import preference
from core.state.queue_status import why_waiting
from core.state.state import State
from core.state.surroundings import surroundings
from core.steps import Steps, completed
from core.topology.largest import level_name, never_fits
from core.wire.timestamps import stamp
from core.workload.lifecycle import why_not_queued

MOST_HOLDERS = 200
"""Beyond so many holders no set of them is looked for: the answer would be no help."""


@dataclass(frozen=True, slots=True)
class ExplanationBounds:
    """What an explanation may cost. In an arena of more ``queues`` or with more ``holders`` nothing is decided again;
    ``tries`` cycles are run at most; no more ``nodes`` of a topology are looked at; ``names`` workloads are named in a
    list.
    """

    queues: int
    holders: int
    tries: int
    nodes: int
    names: int


@dataclass(frozen=True, slots=True)
class Audience:
    """For whom an explanation is, and what it may cost. ``order`` returns the workloads of a ClusterQueue in order."""

    sight: Sight = EVERYTHING
    bounds: ExplanationBounds | None = None
    order: Callable[[str], Sequence[QueueEntry]] | None = None

    def in_order(self, state: State, name: str) -> Sequence[QueueEntry]:
        """Returns the workloads that wait for a ClusterQueue, in the order in which they are decided."""
        if self.order is not None:
            return self.order(name)
        return state.pending.queues[name].in_order(state.pending.local_usage)


IN_FULL: Final = Audience()


def explain(state: State, key: Key, now: float) -> Explanation | None:
    """Returns the explanation of a workload; None if State has none of that name (or it has finished)."""
    return completed(explain_in_steps(state, key, now, IN_FULL))


def explain_in_steps(state: State, key: Key, now: float, audience: Audience) -> Steps[Explanation | None]:
    """As ``explain``, with a step after each cycle."""
    workload = state.workloads.get(key)
    if workload is None:
        return None
    if workload.parent:
        return (yield from _parent(state, workload, now, audience))
    held = state.reservations.get(key)
    if held is not None:
        return _running(state, held, now)
    reason, message = _not_queued(state, workload, now)
    if reason:
        ways = _to_queue(state, workload)
        return Explanation(key, "not queued", reason=reason, message=message, before=_before(workload), ways=ways)
    name = state.pending.where(key)
    entry = state.pending.entry(key)
    if name is None or entry is None:
        return Explanation(key, "waiting", message="it is not queued")
    if workload.requeue_at is not None and workload.requeue_at > now:
        return _backing_off(workload, name, now)
    question = _Question.of(state, workload, name, entry.demand, now, audience)
    try:
        return (yield from _waiting(question, audience.in_order(state, name)))
    finally:
        question.arena.readers -= 1


def _waiting(question: _Question, order: Sequence[QueueEntry]) -> Steps[Explanation]:
    """The explanation of a workload that is queued; ``order`` may be a second old, and not have it yet."""
    workload, sight, bounds = question.workload, question.audience.sight, question.audience.bounds
    place = next((number for number, each in enumerate(order, 1) if each.workload.key == workload.key), 0)
    most = bounds.names if bounds is not None else None
    before_it = (each.workload.key for each in islice(order, max(0, place - 1)))
    ahead = tuple(islice((key for key in before_it if sight.names(key)), most))
    first = order[0].workload.key if order else workload.key
    explanation = Explanation(
        key=workload.key,
        state="waiting",
        cluster_queue=question.cluster_queue,
        before=_before(workload),
        priority=workload.priority,
        place=place,
        waiting=len(order),
        rivals=question.rivals(),
        shares=question.shares(),
        ahead=ahead,
        ahead_more=max(0, place - 1) - len(ahead),
        cells=question.cells(),
        hidden=frozenset() if sight.names(first) else frozenset({first.namespace}),
    )
    if question.too_large:
        reason, message = why_waiting(question.state, workload, sight.named)
        return replace(explanation, reason=reason, message=message, omitted=(question.too_large,))
    yield
    decision = question.answer()
    yield
    holders = question.holders()
    hidden = explanation.hidden | {each.key.namespace for each in holders if not sight.names(each.key)}
    named, others = _by_name(holders, question.cluster_queue, sight, most)
    omitted = tuple(filter(None, (question.too_many_nodes,)))
    explanation = replace(
        explanation, holders=named, others=others, rooms=question.rooms(), hidden=hidden, omitted=omitted
    )
    yield
    ahead_of_it = (yield from _in_the_way(question, order)) if place > 1 else None
    if isinstance(decision, StayPending):
        ways = (*((ahead_of_it.way,) if ahead_of_it else ()), *(yield from question.ways(decision, explanation.rooms)))
        return replace(explanation, reason=decision.reason, message=decision.message, ways=ways)
    if ahead_of_it is not None:
        return replace(
            explanation, reason="Behind", message=ahead_of_it.message, ways=(ahead_of_it.way, *ahead_of_it.ways)
        )
    text = "It fits now and starts after the workloads ahead of it are scheduled." if place > 1 else "It fits now."
    return replace(explanation, reason="Fits", message=text)


def _by_name(
    holders: Iterable[Holder], mine: str, sight: Sight, most: int | None
) -> tuple[tuple[Holder, ...], tuple[OtherHolders, ...]]:
    """Returns the holders that are named, and the others together by ClusterQueue, as far as that is named."""
    named: list[Holder] = []
    others: dict[str, tuple[int, dict[FlavorResource, int]]] = {}
    for each in holders:
        if sight.names(each.key) and (most is None or len(named) < most):
            named.append(each)
            continue
        where = each.cluster_queue if sight.cluster_queues or each.cluster_queue == mine else ""
        number, amounts = others.get(where, (0, {}))
        for fr, amount in each.amounts.items():
            amounts[fr] = amounts.get(fr, 0) + amount
        others[where] = (number + 1, amounts)
    ordered = sorted(others.items(), key=lambda each: (each[0] != mine, each[0]))
    return tuple(named), tuple(OtherHolders(number, where, amounts) for where, (number, amounts) in ordered)


def _parent(state: State, parent: Workload, now: float, audience: Audience) -> Steps[Explanation]:
    """The explanation of a workload that is admitted through variants: that of each variant. Costs the number of
    workloads.
    """
    queue = surroundings(state, parent, now).cluster_queue
    variants = [each for each in state.workloads.values() if each.variant_of == parent.uid]
    variants.sort(key=lambda each: (preference(each, queue) if queue is not None else 0, each.key))
    explanations: list[tuple[Workload, Explanation]] = []
    for each in variants:
        found = yield from explain_in_steps(state, each.key, now, audience)
        if found is not None:
            explanations.append((each, found))
    parts = [f"{', '.join(each.allowed_flavors)}: {found.state} ({found.message})" for each, found in explanations]
    reason, message = _not_queued(state, parent, now)
    shown = "; ".join(parts) or message or "no variant was created yet"
    return Explanation(
        parent.key,
        "admitted" if parent.holds(Condition.ADMITTED) else "waiting",
        queue.name if queue is not None else "",
        reason=reason,
        message=f"it has a variant for each flavor, and runs with the one that is admitted: {shown}",
        before=_before(parent),
        priority=parent.priority,
        ways=tuple(f"for {each.key.name}: {way}" for each, found in explanations if each.active for way in found.ways),
    )


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A head that keeps its queue position, so that no workload behind it is decided."""

    message: str
    way: str
    ways: tuple[str, ...]


def _in_the_way(question: _Question, order: Sequence[QueueEntry]) -> Steps[_Ahead | None]:
    """Returns the head that must start or leave before this workload is decided; None if there is none."""
    state, audience, head = question.state, question.audience, order[0]
    queue = state.pending.queues.get(question.cluster_queue)
    key = head.workload.key
    sticky = queue is not None and queue.sticky == key
    if queue is None or not (queue.strict or sticky):
        return None
    other = question.about(head.workload, head.demand)
    decision = other.answer()
    yield
    if isinstance(decision, Reserve):
        return None
    why = "it waits for the workloads that it preempts" if sticky else "the queue is StrictFIFO"
    name = audience.sight.named(key)
    blocked = f"It fits now, but {name} is first in the queue and blocks it: {why}"
    way = f"{name} must first start or leave the queue: {why}"
    if not audience.sight.names(key):
        return _Ahead(blocked, way, ())
    message = f"{blocked}. {key} waits: {decision.reason}: {decision.message}"
    ways = tuple(f"for {key}: {each}" for each in (yield from other.ways(decision)))
    return _Ahead(message, way, ways)


def _backing_off(workload: Workload, cluster_queue: str, now: float) -> Explanation:
    """The workload was evicted and waits for ``requeueAt``."""
    eviction = workload.condition(Condition.EVICTED)
    requeued = workload.condition(Condition.REQUEUED)
    last = requeued if requeued is not None and not requeued.status else eviction
    left = round((workload.requeue_at or now) - now)
    why = f"{last.message}. " if last is not None and last.message else ""
    return Explanation(
        workload.key,
        "backing off",
        cluster_queue,
        reason=last.reason if last is not None else "",
        message=f"{why}It is requeued in {left} s",
        ways=(f"it is requeued in {left} s, after eviction {workload.requeue_count}",),
    )


def _running(state: State, held: Reservation, now: float) -> Explanation:
    key, workload = held.workload.key, held.workload
    if held.evicted:
        eviction = workload.condition(Condition.EVICTED)
        message = eviction.message if eviction else ""
        return Explanation(key, "being evicted", held.cluster_queue, message=message)
    used = sorted(held.usage.quota.items())
    amounts = [f"{quantity.text(fr.resource, amount)} {fr.resource} in {fr.flavor}" for fr, amount in used]
    message = f"it holds {', '.join(amounts)}" if amounts else "it requests no resource that has quota"
    if held.admitted:
        remain = workload.condition(Condition.PODS_REMAIN)
        message += f". {remain.message}" if remain is not None and remain.status else ""
        return Explanation(key, "admitted", held.cluster_queue, message=message)
    outstanding = [check for check in workload.checks if check.state != CheckState.READY]
    if outstanding:
        message += f"; it waits for admission checks: {', '.join(_awaited(check, now) for check in outstanding)}"
    known = state.reservations.checks
    ways = [_decided_by(known[check.name], check) for check in outstanding if check.name in known]
    return Explanation(key, "quota reserved", held.cluster_queue, message=message, ways=tuple(ways))


def _awaited(check: CheckOf, now: float) -> str:
    """What a check that is not ready reports, and since when."""
    waited = max(0, round(now - check.since))
    message = f" ({check.message})" if check.message else ""
    return f"{check.name} is {check.state} since {stamp(check.since)} ({waited} s){message}"


def _decided_by(check: AdmissionCheck, state: CheckOf) -> str:
    """Who must decide a check."""
    runs = "" if check.active else ", but it is not active: its controller does not run"
    tries = f"; it sent the workload back to the queue {state.retry_count} times" if state.retry_count else ""
    return f"AdmissionCheck {check.name} must become Ready; controller {check.controller_name} decides it{runs}{tries}"


def _before(workload: Workload) -> str:
    """Why it was stopped, where it ran before; '' where it did not."""
    eviction = workload.condition(Condition.EVICTED)
    return eviction.message if eviction is not None and eviction.status else ""


def _not_queued(state: State, workload: Workload, now: float) -> tuple[str, str]:
    """Why a workload is in no queue at all, in the words of its status; ('', '') where it is in one."""
    around = surroundings(state, workload, now)
    queue = around.cluster_queue
    condition = state.reservations.active_condition(queue.name) if queue else None
    reason, message = why_not_queued(workload, around)
    if reason and condition is not None and not condition.active:
        return reason, f"{message}: {condition.message}"
    if workload.gates and not reason:
        return PendingReason.ADMISSION_GATED, f"Admission is gated by: {','.join(workload.gates)}"
    return reason, message


def _to_queue(state: State, workload: Workload) -> tuple[str, ...]:
    """Returns what would put it into a queue."""
    here = sorted(key.name for key in state.pending.local_queues_in(workload.key.namespace))
    if not workload.active:
        return ("set spec.active of the Workload to true",)
    if workload.gates:
        return ("the controller that set the gate must remove it from the Job",)
    if workload.uncounted:
        return tuple(filter(None, (explained(workload.uncounted).fix,)))
    if workload.invalid:
        return ("create a Job whose pods request only what the namespace and Kubernetes allow",)
    local = state.pending.local_queues.get(Key(workload.key.namespace, workload.queue))
    if local is None:
        known = f"available: {', '.join(here)}" if here else "the namespace has none"
        close = get_close_matches(workload.queue, here, n=1)
        return (f"name a LocalQueue that exists{f': did you mean {close[0]}?' if close else ''} ({known})",)
    queue = state.reservations.cluster_queues.get(local.cluster_queue)
    if queue is None:
        return (f"an administrator must create ClusterQueue {local.cluster_queue}",)
    stopped: tuple[tuple[str, LocalQueue | ClusterQueue], ...]
    stopped = ((f"LocalQueue {workload.queue}", local), (f"ClusterQueue {queue.name}", queue))
    held = [name for name, each in stopped if each.stop_policy != StopPolicy.NONE]
    if held:
        return tuple(f"an administrator must set spec.stopPolicy of {name} to None" for name in held)
    if not state.reservations.active_condition(queue.name).active:
        return (f"ClusterQueue {queue.name} is inactive: an administrator must make it active",)
    return (f"namespace {workload.key.namespace} needs labels that ClusterQueue {queue.name} selects",)


@dataclass(slots=True)
class _Tries:
    """How many more cycles may be run; None: any number."""

    left: int | None

    def take(self) -> bool:
        """Whether one more may be run."""
        if self.left is None:
            return True
        self.left -= 1
        return self.left >= 0


@dataclass(frozen=True, slots=True)
class _Question:
    """The decision if this workload were the only head of its ClusterQueue.

    ``arena`` does not change while it is read; ``own`` is the same without the slice that the workload replaces, whose
    quota is taken over.
    """

    state: State
    workload: Workload
    cluster_queue: str
    demand: Demand
    now: float
    audience: Audience
    arena: Arena
    own: Arena
    tries: _Tries = field(default_factory=lambda: _Tries(None))

    @classmethod
    def of(
        cls, state: State, workload: Workload, cluster_queue: str, demand: Demand, now: float, audience: Audience
    ) -> _Question:
        """Returns the question; its arena has one more reader, which the caller must take away."""
        arena = state.reservations.arenas[state.reservations.arena_of[cluster_queue]]
        arena.readers += 1
        tries = _Tries(audience.bounds.tries if audience.bounds is not None else None)
        own = _without_slice(arena, workload, cluster_queue)
        return cls(state, workload, cluster_queue, demand, now, audience, arena, own, tries)

    def about(self, workload: Workload, demand: Demand) -> _Question:
        """Returns the same question about another workload of the ClusterQueue."""
        own = _without_slice(self.arena, workload, self.cluster_queue)
        return replace(self, workload=workload, demand=demand, own=own)

    @property
    def too_large(self) -> str:
        """Why nothing is decided again, as a sentence; '' if it is."""
        bounds = self.audience.bounds
        if bounds is None:
            return ""
        queues, held = len(self.arena.queues), sum(len(each.reserved) for each in self.arena.queues.values())
        if queues <= bounds.queues and held <= bounds.holders:
            return ""
        return (
            f"{held} workloads hold quota in {queues} ClusterQueues that share it: which of them hold what is missing,"
            " and what would let it start, is only computed for fewer"
        )

    @property
    def too_many_nodes(self) -> str:
        """Why the room on nodes is not looked at, as a sentence; '' if it is."""
        bounds = self.audience.bounds
        number = topology.nodes(self.own, self.node()) if bounds is not None else 0
        if bounds is None or number <= bounds.nodes:
            return ""
        return f"the room in the topology is only computed for fewer nodes than {number}"

    def answer(self, arena: Arena | None = None, workload: Workload | None = None) -> Decision:
        """The cycle's decision, perhaps on other quota or for the workload with another priority."""
        workload, arena = workload or self.workload, arena or self.arena
        head = Head(workload, self.cluster_queue, self.demand, queue_time(workload, self.state.policy))
        return schedule(self._snapshot(arena), [head], self.state.policy, self.now).decisions[0]

    def _snapshot(self, arena: Arena) -> Snapshot:
        placement = self.state.placement
        return Snapshot(
            arenas={arena.name: arena},
            arena_of={self.cluster_queue: arena.name},
            flavors=self.state.reservations.flavors,
            namespaces=self.state.namespaces,
            local_usage=self.state.pending.local_usage,
            pods_ready=not self.state.reservations.unready,
            topologies=None if placement is None else placement.topologies,
        )

    def node(self) -> QueueNode:
        """The ClusterQueue in ``own``."""
        return self.own.queues[self.cluster_queue]

    def tree(self) -> dict[str, QueueNode]:
        """The ClusterQueues of its tree, which share quota with it."""
        queues = self.own.queues
        root = root_name(queues[self.cluster_queue])
        return {name: node for name, node in queues.items() if root_name(node) == root}

    def rivals(self) -> int:
        """Returns how many workloads wait in the other ClusterQueues of its tree, which may get quota that becomes
        free.
        """
        lines = self.state.pending.queues
        return sum(len(lines[name]) for name in self.tree() if name != self.cluster_queue and name in lines)

    def shares(self) -> tuple[tuple[str, float], ...]:
        """Returns the shares of the ClusterQueues in its tree that wait or borrow, if these shares decide which is
        next. The name is '' where the reader may not read it.
        """
        if self.state.policy.fair_sharing is None or self.node().parent is None:
            return ()
        lines = self.state.pending.queues
        found = sorted((share(node).weighted, name) for name, node in self.tree().items())
        seen = self.audience.sight.cluster_queues
        competing = ((value, name) for value, name in found if value or lines.get(name))
        return tuple((name if seen or name == self.cluster_queue else "", value) for value, name in competing)

    def asked(self) -> dict[str, int]:
        """Returns its total request, by resource; including pods if the ClusterQueue counts them."""
        total: dict[str, int] = {}
        for pod_set in totals(self.workload):
            for resource, amount in pod_set.requests.items():
                total[resource] = total.get(resource, 0) + amount
            if PODS_RESOURCE in self.node().groups:
                total[PODS_RESOURCE] = total.get(PODS_RESOURCE, 0) + pod_set.count
        return total

    def cells(self) -> tuple[Cell, ...]:
        """Every flavor of the ClusterQueue for every resource asked for, in the order of the search."""
        node, asked = self.node(), self.asked()
        return tuple(
            Cell(
                fr,
                asked[resource],
                node.quotas[fr].nominal,
                node.usage.get(fr, 0),
                max(0, node.available(fr)),
                node.potential(fr),
                max(0, asked[resource] - node.available(fr)),
            )
            for group in node.spec.groups
            for flavor in group.flavors
            for resource in group.resources
            if resource in asked and (fr := FlavorResource(flavor, resource)) in node.quotas
        )

    def short(self) -> frozenset[FlavorResource]:
        """Returns the flavor-resources of which too little is free."""
        return frozenset(cell.flavor_resource for cell in self.cells() if cell.asked > cell.free)

    def holders(self) -> tuple[Holder, ...]:
        """Returns the workloads in the tree that hold what is missing: those of its own ClusterQueue first, then the
        largest.
        """
        short = self.short()
        found = [
            Holder(
                held.workload.key,
                held.cluster_queue,
                held.workload.priority,
                {fr: amount for fr, amount in held.usage.quota.items() if fr in short and amount},
            )
            for held in self._reserved()
            if held.uses(short)
        ]
        mine = self.cluster_queue
        if not short:
            found = self._placed()
        return tuple(sorted(found, key=lambda h: (h.cluster_queue != mine, -sum(h.amounts.values()), h.key)))

    def _placed(self) -> list[Holder]:
        """The workloads on domains of the flavors in which it would be placed: quota is free, and no room."""
        flavors = () if self.too_many_nodes else topology.flavors(self.own, self.node(), self.workload)
        return [
            Holder(held.workload.key, held.cluster_queue, held.workload.priority, held.usage.quota)
            for held in topology.holders(self.own)
            if any(fr.flavor in flavors for fr in held.usage.quota)
        ]

    def rooms(self) -> tuple[Rooms, ...]:
        """Returns the room on domains, for pod sets that are placed in a topology."""
        if self.too_many_nodes:
            return ()
        return topology.rooms(self.own, self.node(), self.workload, self.audience.sight)

    def _reserved(self) -> Iterable[Reservation]:
        return (held for node in self.tree().values() for held in node.reserved.values())

    def ways(self, decision: StayPending, rooms: Sequence[Rooms] = ()) -> Steps[list[str]]:
        """Returns the changes of which each would let it start; more quota is none for a flavor whose nodes could never
        hold it.
        """
        sight = self.audience.sight
        if decision.reason == PendingReason.WAITING_FOR_PODS_READY:
            unready = sight.listed(sorted(self.state.reservations.unready))
            return [f"it starts when the pods of {unready} are ready (waitForPodsReady.blockAdmission)"]
        found = []
        if decision.gated:
            gates = ", ".join(self.workload.closed_gates)
            found.append(f"it preempts others when its preemption gates are open: {gates}")
        ends = yield from self._ends()
        if ends:
            found.append(f"it fits when {sight.listed(ends)} {'ends' if len(ends) == 1 else 'have ended'}")
        if not self.short() and not self.too_many_nodes:
            moved = topology.moves(self.own, self.node(), self.workload, sight)
            found += [moved] if moved else []
            yield
        hopeless = [each for each in rooms if each.hopeless]
        for each in hopeless:
            found.append(_more_nodes(each, topology.largest_nodes(self.own, self.node(), self.workload, each)))
            yield
        found += self._more_quota({each.flavor for each in hopeless})
        found += yield from self._priority(decision)
        return found

    def _ends(self) -> Steps[list[Key]]:
        """Returns a minimal set of holders whose end would be enough, the earliest started first."""
        ranked = sorted(self.holders(), key=lambda h: (self._since(h.key), h.key))[:MOST_HOLDERS]
        enough = yield from self._first(len(ranked), lambda number: self._fits_without(ranked[: number + 1]))
        if enough is None:
            return []
        gone = ranked[: enough + 1]
        for holder in tuple(gone[:-1]):
            fewer = [each for each in gone if each is not holder]
            if not self.tries.take():
                break
            if self._fits_without(fewer):
                gone = fewer
            yield
        return [holder.key for holder in gone]

    def _first(self, number: int, holds: Callable[[int], bool]) -> Steps[int | None]:
        """Returns the first of so many cases that holds, if each case after one that holds does too; None if none does
        or there may be no more tries.
        """
        low, high = 0, number - 1
        if number == 0 or not self.tries.take() or not holds(high):
            return None
        yield
        while low < high:
            if not self.tries.take():
                return None
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle + 1, high)
            yield
        return low

    def _since(self, key: Key) -> float:
        held = self.state.reservations.get(key)
        found = held.workload.condition(Condition.QUOTA_RESERVED) if held else None
        return found.since if found else 0.0

    def _fits_without(self, gone: Iterable[Holder]) -> bool:
        other = self.own.copy()
        for holder in gone:
            other.release(holder.key, holder.cluster_queue)
        return isinstance(self.answer(other), Reserve)

    def _more_quota(self, but: Collection[str]) -> Iterable[str]:
        """For each flavor but these, the quota that is missing; where only the borrowing limit is in the way, that."""
        node = self.node()
        for group in node.spec.groups:
            for flavor in (each for each in group.flavors if each not in but):
                lacks = [c for c in self.cells() if c.flavor_resource.flavor == flavor and c.asked > c.free]
                if not lacks:
                    continue
                what = ", ".join(
                    f"{quantity.text(c.flavor_resource.resource, c.missing)} {c.flavor_resource.resource}"
                    for c in lacks
                )
                yield f"with {what} more quota in flavor {flavor} (nominalQuota of {self._raised(lacks)})"

    def _raised(self, lacks: Iterable[Cell]) -> str:
        node = self.node()
        limited = [
            c
            for c in lacks
            if node.parent is not None
            and node.quotas[c.flavor_resource].borrowing_limit is not None
            and node.parent.available(c.flavor_resource) + node.kept_free(c.flavor_resource) >= c.asked
        ]
        name = f"ClusterQueue {self.cluster_queue}"
        return f"{name}, or its borrowingLimit: the cohort has enough" if limited else name

    def _priority(self, decision: StayPending) -> Steps[list[str]]:
        """Returns whom it preempts, or else the lowest priority above its own at which it would, as a sentence."""
        if decision.victims:
            named = self.audience.sight.listed(victim.workload.key for victim in decision.victims)
            stopped = "it has" if len(decision.victims) == 1 else "they have"
            return [f"it preempts {named} when it is decided next, and starts when {stopped} stopped"]
        higher = sorted({h.priority + 1 for h in self.holders() if h.priority >= self.workload.priority})[:MOST_HOLDERS]
        lowest = yield from self._first(len(higher), lambda number: bool(self._victims(higher[number])))
        if lowest is None:
            return []
        value = higher[lowest]
        victims = self.audience.sight.listed(self._victims(value))
        return [f"with priority {value} or more (it has {self.workload.priority}) it would preempt {victims}"]

    def _victims(self, priority: int) -> list[Key]:
        """The workloads that it would preempt with another priority."""
        other = self.answer(workload=structs.replace(self.workload, priority=priority))
        return [victim.workload.key for victim in other.victims] if isinstance(other, StayPending) else []


def _more_nodes(rooms: Rooms, nodes: str) -> str:
    """What is missing where the nodes of a flavor could never hold a pod set."""
    where = f"the largest of flavor {rooms.flavor}" if rooms.required else f"flavor {rooms.flavor}"
    units = rooms.unit.replace("pod", "pods", 1) if rooms.unit == "pod" else rooms.unit.replace("slice", "slices", 1)
    who = f"{rooms.pod_set} (with {rooms.leader} in the same domain)" if rooms.leader else rooms.pod_set
    pods = f"{rooms.wanted} {units}{f' in one {level_name(rooms.level)}' if rooms.required else ''}"
    fact = f"pod set {who} {never_fits(pods, where, rooms.most, nodes)}"
    instead = ", or a level with more room" if rooms.required else ""
    return f"with fewer pods{instead}, or more nodes: {fact}"


def _without_slice(arena: Arena, workload: Workload, cluster_queue: str) -> Arena:
    """Returns the arena without the slice that a workload replaces; itself if there is none."""
    replaced = replaced_slice(workload, arena.queues[cluster_queue])
    if replaced is None:
        return arena
    other = arena.copy()
    other.release(replaced.key, cluster_queue)
    return other
