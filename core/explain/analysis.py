"""Explains why a workload waits, what it needs, which workloads hold that, and which changes would help: counterfactual
cycles.

Every answer is a decision of the cycle: the workload is decided as if it were the only head, with present quota, and
then again without some holders or with a higher priority. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from msgspec import structs

from api import quantity
from api.names import PODS_RESOURCE, CheckState, Condition, PendingReason
from core.explain import topology
from core.explain.explanation import Cell, Explanation, Holder, Rooms
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
from core.state.state import State
from core.state.surroundings import surroundings
from core.wire.timestamps import stamp
from core.workload.lifecycle import why_not_queued

MOST_HOLDERS = 200
"""Beyond so many holders no set of them is looked for: the answer would be no help."""


def explain(state: State, key: Key, now: float) -> Explanation | None:
    """Returns the explanation of a workload; None if State has none of that name (or it has finished)."""
    workload = state.workloads.get(key)
    if workload is None:
        return None
    if workload.parent:
        return _parent(state, workload, now)
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
    order = state.pending.queues[name].in_order(state.pending.local_usage)
    keys = [each.workload.key for each in order]
    place = keys.index(key) + 1
    question = _Question(state, workload, name, entry.demand, now)
    decision = question.answer()
    told = Explanation(
        key=key,
        state="waiting",
        cluster_queue=name,
        before=_before(workload),
        priority=workload.priority,
        place=place,
        waiting=len(keys),
        rivals=question.rivals(),
        shares=question.shares(),
        ahead=tuple(keys[: place - 1]),
        cells=question.cells(),
        holders=question.holders(),
        rooms=question.rooms(),
    )
    before = _in_the_way(state, order, place, now) if place > 1 else None
    if isinstance(decision, StayPending):
        ways = (*((before.way,) if before else ()), *question.ways(decision))
        return replace(told, reason=decision.reason, message=decision.message, ways=ways)
    if before is not None:
        return replace(told, reason="Behind", message=before.message, ways=(before.way, *before.ways))
    text = "It fits now and starts after the workloads ahead of it are scheduled." if place > 1 else "It fits now."
    return replace(told, reason="Fits", message=text)


def _parent(state: State, parent: Workload, now: float) -> Explanation:
    """The explanation of a workload that is admitted through variants: that of each variant. Costs the number of
    workloads.
    """
    queue = surroundings(state, parent, now).cluster_queue
    variants = [each for each in state.workloads.values() if each.variant_of == parent.uid]
    variants.sort(key=lambda each: (preference(each, queue) if queue is not None else 0, each.key))
    told = [(each, found) for each in variants if (found := explain(state, each.key, now)) is not None]
    parts = [f"{', '.join(each.allowed_flavors)}: {found.state} ({found.message})" for each, found in told]
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
        ways=tuple(f"for {each.key.name}: {way}" for each, found in told if each.active for way in found.ways),
    )


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A head that keeps its queue position, so that no workload behind it is decided."""

    message: str
    way: str
    ways: tuple[str, ...]


def _in_the_way(state: State, order: Sequence[QueueEntry], place: int, now: float) -> _Ahead | None:
    """Returns the head that must start or leave before this workload is decided; None if there is none."""
    head = order[0]
    name = state.pending.where(head.workload.key) or ""
    queue = state.pending.queues[name]
    sticky = queue.sticky == head.workload.key
    if place == 1 or not (queue.strict or sticky):
        return None
    question = _Question(state, head.workload, name, head.demand, now)
    decision = question.answer()
    if isinstance(decision, Reserve):
        return None
    why = "it waits for the workloads that it preempts" if sticky else "the queue is StrictFIFO"
    key = head.workload.key
    blocked = f"It fits now, but {key} is first in the queue and blocks it: {why}"
    message = f"{blocked}. {key} waits: {decision.reason}: {decision.message}"
    ways = tuple(f"for {key}: {way}" for way in question.ways(decision))
    return _Ahead(message, f"{key} must first start or leave the queue: {why}", ways)


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
    told = f" ({check.message})" if check.message else ""
    return f"{check.name} is {check.state} since {stamp(check.since)} ({waited} s){told}"


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
    here = sorted(key.name for key in state.pending.local_queues if key.namespace == workload.key.namespace)
    if not workload.active:
        return ("set spec.active of the Workload to true",)
    if workload.gates:
        return ("the controller that set the gate must remove it from the Job",)
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


@dataclass(frozen=True, slots=True)
class _Question:
    """The decision if this workload were the only head of its ClusterQueue."""

    state: State
    workload: Workload
    cluster_queue: str
    demand: Demand
    now: float

    def answer(self, snapshot: Snapshot | None = None, workload: Workload | None = None) -> Decision:
        """The cycle's decision, perhaps on other quota or for the workload with another priority."""
        workload = workload or self.workload
        head = Head(workload, self.cluster_queue, self.demand, queue_time(workload, self.state.policy))
        plan = schedule(snapshot or self.state.snapshot(), [head], self.state.policy, self.now)
        return plan.decisions[0]

    def arena(self) -> Arena:
        """The arena the ClusterQueue is in, without the slice that the workload replaces: its quota is taken over."""
        arena = self.state.reservations.arenas[self.state.reservations.arena_of[self.cluster_queue]]
        replaced = replaced_slice(self.workload, arena.queues[self.cluster_queue])
        if replaced is None:
            return arena
        other = arena.copy()
        other.release(replaced.key, self.cluster_queue)
        return other

    def node(self) -> QueueNode:
        """The ClusterQueue in it."""
        return self.arena().queues[self.cluster_queue]

    def tree(self) -> dict[str, QueueNode]:
        """The ClusterQueues of its tree, which share quota with it."""
        queues = self.arena().queues
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
        next.
        """
        if self.state.policy.fair_sharing is None or self.node().parent is None:
            return ()
        lines = self.state.pending.queues
        found = sorted((share(node).weighted, name) for name, node in self.tree().items())
        return tuple((name, value) for value, name in found if value or lines.get(name))

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
        arena = self.arena()
        flavors = {each.flavor for each in topology.rooms(arena, self.node(), self.workload)}
        return [
            Holder(held.workload.key, held.cluster_queue, held.workload.priority, held.usage.quota)
            for held in topology.holders(arena)
            if any(fr.flavor in flavors for fr in held.usage.quota)
        ]

    def rooms(self) -> tuple[Rooms, ...]:
        """Returns the room on domains, for pod sets that are placed in a topology."""
        return topology.rooms(self.arena(), self.node(), self.workload)

    def _reserved(self) -> Iterable[Reservation]:
        return (held for node in self.tree().values() for held in node.reserved.values())

    def ways(self, decision: StayPending) -> Iterable[str]:
        """Yields the changes of which each would let it start."""
        if decision.reason == PendingReason.WAITING_FOR_PODS_READY:
            unready = sorted(self.state.reservations.unready)
            yield f"it starts when the pods of {_list(unready)} are ready (waitForPodsReady.blockAdmission)"
            return
        if decision.gated:
            yield f"it preempts others when its preemption gates are open: {', '.join(self.workload.closed_gates)}"
        ends = self._ends()
        if ends:
            yield f"it fits when {_list(ends)} {'ends' if len(ends) == 1 else 'have ended'}"
        if not self.short():
            moved = topology.moves(self.arena(), self.node(), self.workload)
            yield from [moved] if moved else []
        yield from self._more_quota()
        yield from self._priority(decision)

    def _ends(self) -> list[Key]:
        """Returns a minimal set of holders whose end would be enough, the earliest started first."""
        arena = self.arena()
        ranked = sorted(self.holders(), key=lambda h: (self._since(h.key), h.key))[:MOST_HOLDERS]
        gone: list[Holder] = []
        for holder in ranked:
            gone.append(holder)
            if self._fits_without(arena, gone):
                break
        else:
            return []
        for holder in tuple(gone[:-1]):
            fewer = [each for each in gone if each is not holder]
            if self._fits_without(arena, fewer):
                gone = fewer
        return [holder.key for holder in gone]

    def _since(self, key: Key) -> float:
        held = self.state.reservations.get(key)
        found = held.workload.condition(Condition.QUOTA_RESERVED) if held else None
        return found.since if found else 0.0

    def _fits_without(self, arena: Arena, gone: Iterable[Holder]) -> bool:
        other = arena.copy()
        for holder in gone:
            other.release(holder.key, holder.cluster_queue)
        other.readers += 1
        snapshot = self.state.snapshot()
        snapshot = replace(snapshot, arenas={**snapshot.arenas, other.name: other})
        return isinstance(self.answer(snapshot), Reserve)

    def _more_quota(self) -> Iterable[str]:
        """For each flavor, the quota that is missing; where only the borrowing limit is in the way, that."""
        node = self.node()
        for group in node.spec.groups:
            for flavor in group.flavors:
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

    def _priority(self, decision: StayPending) -> Iterable[str]:
        """Yields the lowest priority at which it would preempt, if that is above its own."""
        if decision.victims:
            return
        higher = sorted({h.priority + 1 for h in self.holders() if h.priority >= self.workload.priority})
        for value in higher[:MOST_HOLDERS]:
            other = self.answer(workload=structs.replace(self.workload, priority=value))
            if isinstance(other, StayPending) and other.victims:
                victims = _list([victim.workload.key for victim in other.victims])
                yield f"with priority {value} or more (it has {self.workload.priority}) it would preempt {victims}"
                return


def _list(keys: Iterable[Key]) -> str:
    names = [str(key) for key in keys]
    shown = names[:5] + ([f"{len(names) - 5} more"] if len(names) > 5 else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
