"""All input of scheduling, updated as objects change; owned by one event loop, no I/O.

Separate from the cycle, which works on a snapshot of it. State counts each workload where it belongs (in the
reservations, in a queue, or nowhere), and chooses which heads are decided again. Time alone causes no decision, except
the end of a backoff (``next_wake``).

An arena (a tree of cohorts, or several that share nodes) is READY or IDLE; only heads of ready arenas go into a cycle.
A pending workload is ACTIVE (it may become the head) or INADMISSIBLE: parked ALONE, or with its GROUP (all of equal
demand and priority in its ClusterQueue). Requeued, it is active again. ``core.queue.queue`` draws these states.

| what happens | the arena | inadmissible workloads |
|---|---|---|
| a workload arrives or changes | ready if it is the head | inadmissible with its group, if that is |
| quota is released | ready | groups of its tree that ask for it are requeued soon (1) |
| room beside quota is released | ready | groups of all trees that had none are requeued soon (1) |
| a waiting workload leaves its queue | ready | all groups of its tree, and of others those without room: soon (1) |
| a ClusterQueue, Cohort, flavor, check changes | built again, ready | all groups soon (1), those alone at once |
| a Topology changes | built again, ready | as for a flavor |
| a node of a topology comes, goes or changes | ready | groups that had no room soon (1) |
| other pods use less of such a node | ready | groups that had no room soon (1) |
| a LocalQueue is opened or moved | ready | its workloads join their queue active |
| labels of a namespace change | ready | those of the namespace, alone: requeued |
| a backoff ends | ready | that workload is requeued |
| a cycle reserved quota, preempted or parked | ready | a head decided inadmissible: it, or its group (2) |
| a cycle did none of that | idle (2) | |
| the arena has no heads | idle | |
| some victims of a preemptor are free, not all | paused, for 1 s at most | |

(1) Before the next cycle if they fit, and otherwise often, unless a head of the arena comes first or a victim still
holds quota; and when the arena has no heads left, at the latest after 1 s (``wake_ups``). A workload that is
inadmissible alone because a closed gate keeps it from preempting is requeued with the groups, except before the next
cycle.
(2) Not where something in the arena has changed since the heads of the cycle were taken (``_changed``).

A second pass (``core.state.second_pass``) is due by time, and earlier when there is more room beside quota in its arena
(each row above with such room, and those in which the arena is built again); its arena need not be ready.

``_ready`` has ClusterQueues: one of its queues makes an arena ready. A backoff is that of an eviction
(``status.requeueState``), of a write that failed (``unassume``), or of a workload preempted again and again
(``preempted``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from api.names import MULTIKUEUE_CONTROLLER, PODS_RESOURCE, Condition, PendingReason
from core.model import (
    Admission,
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Key,
    Labels,
    LocalQueue,
    Node,
    Plan,
    Requests,
    Requeue,
    Reserve,
    ResourceFlavor,
    StayPending,
    Topology,
    Tried,
    Victim,
    Workload,
)
from core.model import Condition as StatusCondition
from core.model.policy import SchedulingPolicy
from core.model.workload import replace
from core.queue.order import queue_time
from core.queue.queue import QueueEntry
from core.queue.routing import PendingWorkloads, queueable
from core.quota.active import offers_heads
from core.quota.arena import Arena
from core.quota.capacity import CapacityKind, FurtherCapacity
from core.quota.checks import required_checks
from core.quota.node import QueueNode
from core.quota.placement import NodeChange, PlacementCapacity, PlacementKind, needs_second_pass
from core.quota.reservations import Reservations, put
from core.quota.usage import (
    ANYTHING_FREED,
    NO_USAGE,
    NOTHING_FREED,
    ROOM_FREED,
    Freed,
    Reservation,
    finished,
    holds_quota,
)
from core.scheduling.preemption.candidates import Borrowers, Preemptor
from core.scheduling.snapshot import Head, Snapshot
from core.state.kinship import Counted, Kinship
from core.state.local_queue_usage import LocalQueueUsage
from core.state.preempted import PreemptedWorkloads
from core.state.second_pass import SecondPass
from core.state.wake_ups import WakeUps, fits, freed_for


class State:
    """The queues, the quota in use, and what they depend on. All setters are idempotent; None deletes."""

    def __init__(
        self, policy: SchedulingPolicy | None = None, kinds: Iterable[CapacityKind] = (), *, explains: bool = True
    ) -> None:
        """``kinds`` are the capacities beside quota that limit what is admitted. Unless it ``explains`` why workloads
        wait, those that cannot start at a glance are not decided again.
        """
        self.policy = policy or SchedulingPolicy()
        self.explains = explains
        self.placement = PlacementKind(self.policy.topology) if self.policy.topology is not None else None
        """Nodes and topologies; None if topology-aware scheduling is off."""
        kinds = (*kinds, *([self.placement] if self.placement is not None else []))
        self.reservations = Reservations(
            concurrent_admission=self.policy.concurrent_admission,
            kinds=kinds,
            topologies=self.placement.topologies if self.placement is not None else None,
        )
        self.pending = PendingWorkloads(self.policy)
        self.local_queue_usage = LocalQueueUsage(self.pending, self.reservations)
        self.namespaces: dict[str, Labels] = {}
        self.workloads: dict[Key, Workload] = {}
        """All that are not finished."""
        self.kinship = Kinship(self.workloads, self.reservations)
        self._assumed: set[Key] = set()
        self._evicting: set[Key] = set()
        self._placed: dict[Key, Reserve] = {}
        """The decisions of second passes that their objects do not show yet."""
        self._ready: set[str] = set()
        self._changed: set[str] = set()
        self._void: set[str] = set()
        """Arenas whose nodes have changed since the heads of the cycle were taken."""
        self._wake_ups = WakeUps()
        self._preempted = PreemptedWorkloads()
        self._second_pass = SecondPass()
        self._roomier: set[str] = set()
        """ClusterQueues of arenas with more room beside quota than when second passes were last woken."""
        self._cycle = 0

    # The objects that workloads depend on.

    def set_flavor(self, name: str, flavor: ResourceFlavor | None) -> None:
        """Adds, changes or removes a ResourceFlavor: ClusterQueues that use it are decided again."""
        if put(self.reservations.flavors, name, flavor):
            if self.placement is not None:
                self.placement.forget([name])
            self.capacity_changed(name)

    def capacity_changed(self, flavor: str) -> None:
        """The total of a capacity beside quota has changed in a flavor: the arenas with it are built and decided
        again.
        """
        queues = self.reservations.cluster_queues.values()
        self._rebuild(queue.name for queue in queues if any(flavor in group.flavors for group in queue.groups))

    def set_topology(self, name: str, topology: Topology | None) -> None:
        """Adds, changes or removes a Topology: ClusterQueues with a flavor that names it are decided again."""
        if self.placement is not None and put(self.placement.topologies, name, topology):
            for flavor in list(self.reservations.flavors.values()):
                if flavor.topology_name == name:
                    self.placement.forget([flavor.name])
                    self.capacity_changed(flavor.name)

    def set_node(self, name: str, node: Node | None) -> None:
        """Adds, changes or removes a Node: workloads that wait in a flavor that it belongs to are decided again."""
        if self.placement is not None:
            self._nodes_changed(self.placement.set_node(name, node), void=True)

    def set_other_pods(self, name: str, requests: Requests) -> None:
        """Sets what pods outside of topology use on a node, with their number as ``pods``; nothing removes it.
        Workloads that wait in a flavor of the node are decided again. Costs nothing that grows with the number of
        workloads.
        """
        if self.placement is not None:
            self._nodes_changed(self.placement.set_others(name, requests))

    def _nodes_changed(self, change: NodeChange, *, void: bool = False) -> None:
        """The domains have changed; decisions that were made with the old ones are ``void``."""

        def concerns(capacity: FurtherCapacity) -> bool:
            return isinstance(capacity, PlacementCapacity) and not capacity.domains.keys().isdisjoint(change.trees)

        def adopt(capacity: FurtherCapacity) -> None:
            assert isinstance(capacity, PlacementCapacity)
            capacity.adopt(change.trees)

        if change.anew:
            self._mark_ready(self.reservations.mark_outdated(change.anew))
        if change.trees:
            for queue in self.reservations.change_total(PlacementKind.name, concerns, adopt):
                if void:
                    self._void.add(self.reservations.arena_of[queue])
                if change.more:
                    self._plan_wake_up(queue, ROOM_FREED)

    def set_admission_check(self, name: str, check: AdmissionCheck | None) -> None:
        """Adds, changes or removes an AdmissionCheck."""
        if put(self.reservations.checks, name, check):
            queues = self.reservations.cluster_queues.values()
            self._rebuild(queue.name for queue in queues if any(rule.name == name for rule in queue.checks))

    def set_cohort(self, name: str, cohort: Cohort | None) -> None:
        """Adds, changes or removes a Cohort: its old arena and its new arena are decided again."""
        if self.reservations.set_cohort(name, cohort):
            self._wake_parked_alone(self.reservations.hierarchy.queues_in(self.reservations.hierarchy.below([name])))

    def set_cluster_queue(self, name: str, queue: ClusterQueue | None) -> None:
        """Adds, changes or removes a ClusterQueue, with the workloads that wait for it or use its quota."""
        if self.reservations.set_cluster_queue(name, queue):
            self.pending.set_cluster_queue(name, queue)
            self._wake_parked_alone([name])

    def set_local_queue(self, key: Key, queue: LocalQueue | None) -> None:
        """Adds, changes or removes a LocalQueue, with the workloads that wait in it."""
        if self.pending.set_local_queue(key, queue):
            self.local_queue_usage.update(key)
            self._mark_ready(self.pending.reroute(key))

    def set_namespace(self, name: str, labels: Labels | None) -> None:
        """Adds, changes or removes the labels of a namespace: workloads that were rejected because of them are decided
        again.
        """
        if put(self.namespaces, name, None if labels is None else dict(labels)):
            for cluster_queue, queue in self.pending.queues.items():
                self._mark_ready(self.pending.wake([e for e in queue.alone if e.workload.key.namespace == name]))
                head = self.pending.head(cluster_queue)
                if head is not None and head.workload.key.namespace == name:  # order kept it awake
                    self._mark_ready([cluster_queue])

    # Workloads.

    def set_workload(self, key: Key, workload: Workload | None) -> None:
        """Adds, changes or removes a workload: counts its quota, queues it, or forgets it.

        What a plan assumed stays assumed until the object shows it; see ``unassume``.
        """
        before = self.workloads.get(key)
        if workload is None or finished(workload):
            now = None
            self._forget(key)
        else:
            now = self.kinship.uncircled(self.pending.with_shared_pod_sets(workload))
            self.workloads[now.key] = now
        concerned = self.kinship.update(before, now)
        if self.placement is not None:
            self.placement.select(before, now)
        if now is not None:
            self._count(now)
        for each in concerned:
            self._count(each)

    def unassume(self, key: Key, not_before: float = 0.0) -> None:
        """The write of a decision failed: releases the assumed quota and requeues the workload; a victim is not
        evicted.

        Until ``not_before``, or until its object changes, the workload is not decided.
        """
        held = self.reservations.get(key)
        if key in self._evicting and held is not None:
            self._evicting.discard(key)
            if key in self._assumed:  # a reservation that nobody has seen: its quota is free at once
                self._preempted.quota_released(key, held.cluster_queue)
            else:
                self._preempted.discard(key)
            self._count_reservation(key, self.reservations.of(held.workload))
            self._mark_ready([held.cluster_queue])
        if key in self._placed:
            del self._placed[key]
            if key in self.workloads:
                self._count(self.workloads[key])
                self._second_pass.failed(key, self.pending.now, not_before)
        if key in self._assumed:
            self._assumed.discard(key)
            self.local_queue_usage.refund(key)
            self._release_reservation(key)
            workload = self.workloads.get(key)
            for each in self.kinship.concerned(workload):
                self._count(each)
            if workload is not None and queueable(workload):
                if not_before > self.pending.now:
                    workload = replace(workload, requeue_at=max(not_before, workload.requeue_at or 0.0))
                self._mark_ready(self.pending.enqueue(workload))

    def assumed(self, key: Key) -> bool:
        """Whether a plan gave the workload quota, or domains, that its object does not show yet."""
        return key in self._assumed or key in self._placed

    def is_evicting(self, key: Key) -> bool:
        """Whether a plan evicted the workload and its object does not show it yet."""
        return key in self._evicting

    # For a recording, which begins between two cycles.

    @property
    def cycle(self) -> int:
        """How many plans were applied."""
        return self._cycle

    @property
    def assumed_keys(self) -> frozenset[Key]:
        """The workloads with quota that their objects do not show yet."""
        return frozenset(self._assumed)

    @property
    def placed_anew(self) -> bool:
        """Whether a second pass has given a workload domains that its object does not show yet."""
        return bool(self._placed)

    @property
    def evicting_keys(self) -> frozenset[Key]:
        """The workloads that a plan evicted and whose objects do not show it yet."""
        return frozenset(self._evicting)

    def restore(self, cycle: int, holding: Iterable[Workload], evicting: Iterable[Key]) -> None:
        """Sets what decisions have changed in another State that has the same objects: the number of plans, the
        workloads as they are counted, and those that are being evicted.
        """
        self._cycle = cycle
        for counted in holding:
            key = counted.key
            if key in self.workloads and not holds_quota(self.workloads[key]):
                self.pending.dequeue(key)
                self._assumed.add(key)
            self._count_reservation(key, self.reservations.of(counted))
            for each in self.kinship.concerned(self.workloads.get(key)):
                self._count(each)
        for key in evicting:
            held = self.reservations.get(key)
            if held is not None:
                self._evicting.add(key)
                self._second_pass.discard(key)
                self.reservations.hold(key, self.reservations.of(held.workload, evicted=True))

    # The cycle.

    def heads(self, now: float) -> tuple[Head, ...]:
        """Returns the heads of all arenas that are ready for a cycle; one for each ClusterQueue that takes part."""
        self._mark_ready(self.pending.end_backoffs(now))
        for key, seconds in self._preempted.delays().items():
            self.pending.postpone(key, now + seconds)
        arenas, arena_of = self.reservations.arenas, self.reservations.arena_of
        for arena in sorted(self.reservations.rebuilt & arenas.keys()):
            for name in {node.root(): name for name, node in arenas[arena].queues.items()}.values():
                self._plan_wake_up(name, ANYTHING_FREED)  # one of its queues wakes a tree
        self.reservations.rebuilt.clear()
        self._mark_ready(self.local_queue_usage.reordered)
        self.local_queue_usage.reordered.clear()
        self._changed.clear()
        self._void.clear()
        self._ready &= arena_of.keys()
        paused = {arena_of.get(name) for name in self._preempted.paused(now)}
        found = self._heads_of_ready_arenas(paused)
        if self._wake_parked(found, paused, now):
            found = self._heads_of_ready_arenas(paused)
        self._wake_second_passes()
        return (*self._second_heads(now), *found)

    def snapshot(self) -> Snapshot:
        """Returns the input of a cycle; later changes of State do not change it, until it is released."""
        arenas = dict(self.reservations.arenas)
        for arena in arenas.values():
            arena.readers += 1
        return Snapshot(
            arenas=arenas,
            arena_of=self.reservations.arena_of,
            flavors=dict(self.reservations.flavors),
            namespaces=dict(self.namespaces),
            cycle=self._cycle,
            local_usage=dict(self.pending.local_usage),
            pods_ready=not self.reservations.unready,
            topologies=None if self.placement is None else dict(self.placement.topologies),
        )

    def release(self, snapshot: Snapshot) -> None:
        """Releases the snapshot, so that later changes need no copy."""
        for arena in snapshot.arenas.values():
            arena.readers -= 1

    def apply(self, plan: Plan) -> None:
        """Applies the decisions of a plan: reserved quota is in use immediately, victims are evicted, the other heads
        wait.

        Arenas in which the cycle changed nothing are idle until something in them changes. A decision about a workload
        that changed since, or waits in another queue, is void.
        """
        for _ in self.applying(plan):
            pass

    def applying(self, plan: Plan) -> Iterator[None]:
        """``apply`` decision by decision, to be gone through to its end; others may change State between two."""
        self._cycle += 1
        arena_of = self.reservations.arena_of
        progress, looked = set[str](), set[str]()
        for decision in plan.decisions:
            name = _queue_of(decision)
            if decision.second_pass:
                self._apply_second_pass(decision)
                yield
            elif name in arena_of:
                looked.add(arena_of[name])
                if self._apply_decision(decision):
                    progress.add(arena_of[name])
                yield
        for arena in (looked - progress) & self.reservations.arenas.keys():
            self._ready.difference_update(self.reservations.arenas[arena].queues)
        self._ready |= self._changed

    def stop_until_changed(self) -> None:
        """Leaves all arenas alone until something in them changes."""
        self._ready &= self._changed

    def next_wake(self, now: float) -> float | None:
        """Returns when a workload can be decided although nothing changes (``now`` if that is already possible); None
        if never.
        """
        every = (
            self.pending.next_backoff(),
            self._wake_ups.next(),
            self._preempted.next(),
            self._second_pass.next(),
        )
        times = [at for at in every if at is not None]
        return max(min(times), now) if times else None

    def check(self) -> None:
        """Asserts the invariants: stored usage equals recomputed usage, queues are in order, nothing is counted
        twice.
        """
        self.reservations.check()
        self.pending.check()
        for key in self.workloads:
            assert key not in self.reservations or self.pending.where(key) is None, f"{key} is queued and holds quota"

    # How it is done.

    def _heads_of_ready_arenas(self, paused: set[str | None]) -> list[Head]:
        """Returns the heads of the ready arenas, except paused ones; arenas without a head become idle."""
        arenas, arena_of, active_conditions = (
            self.reservations.arenas,
            self.reservations.arena_of,
            self.reservations.active_conditions,
        )
        found: list[Head] = []
        for arena in sorted({arena_of[name] for name in self._ready} - paused):
            before, borrowers = len(found), Borrowers()
            for name in arenas[arena].queues:
                if not offers_heads(active_conditions[name]) or not self.pending.queues[name].active:
                    continue
                entry = self.pending.head(name)
                if not self.explains:
                    entry = self._first_that_may_start(arenas[arena], name, entry, borrowers)
                if entry is not None:
                    queue, key = self.pending.queues[name], entry.workload.key
                    kept = (queue.preemptor == key, queue.blocked == key)
                    found.append(Head(entry.workload, name, entry.demand, entry.time, entry.tried, *kept))
            if len(found) == before:
                self._ready.difference_update(arenas[arena].queues)
        return found

    def _wake_parked(self, heads: Iterable[Head], paused: set[str | None], now: float) -> bool:
        """Wakes parked workloads whose time has come; returns whether any was parked."""
        if not self._wake_ups:
            return False
        reservations, arena_of = self.reservations, self.reservations.arena_of
        first = {arena_of.get(held.cluster_queue) for key in reservations.evicted if (held := reservations.get(key))}
        with_heads = {arena_of.get(name) for name in self._ready}
        late = self._wake_ups.late(now, arena_of, first | with_heads)
        first |= paused | {arena_of[head.cluster_queue] for head in heads if self._comes_first(head)}
        early = self._wake_ups.early(self._cycle, arena_of, first)
        woken = []
        for due in (late, early):
            for arena, freed in due.items():
                nodes = freed_for(reservations.arenas[arena], freed)
                names = [node.name for node, each in nodes if self.pending.queues[node.name].wake(each)]
                if names and due is early:
                    self._wake_ups.woke(arena, self._cycle)
                woken += names
        for arena, freed in self._wake_ups.offers(arena_of, first).items():
            nodes = freed_for(reservations.arenas[arena], freed)
            woken += [n.name for n, each in nodes if self.pending.queues[n.name].offer(each, partial(fits, n))]
        self._ready.update(woken)
        return bool(woken)

    def _first_that_may_start(
        self, arena: Arena, name: str, entry: QueueEntry | None, borrowers: Borrowers
    ) -> QueueEntry | None:
        """Parks those of a queue that cannot start, at a glance, and were decided before; returns the next one."""
        queue, node = self.pending.queues[name], arena.queues[name]
        while entry is not None and not queue.strict and entry.group.reason and not entry.asleep:
            key = entry.workload.key
            if key in (queue.sticky, queue.preemptor, queue.blocked) or self._may_start(arena, node, entry, borrowers):
                break
            queue.park(key, group=True, short=entry.short, reason=entry.group.reason, message=entry.group.message)
            entry = self.pending.head(name) if queue.active else None
        return entry

    def _may_start(self, arena: Arena, node: QueueNode, entry: QueueEntry, borrowers: Borrowers) -> bool:
        """Whether a workload fits in the free quota, or might preempt others, at a glance."""
        if entry.short or (entry.tried is not None and entry.tried.unfinished) or fits(node, entry.demand):
            return True
        head = Head(entry.workload, node.name, entry.demand, entry.time)
        return not Preemptor(head, arena, node, self.policy, borrowers=borrowers).hopeless(node.quotas)

    def _comes_first(self, head: Head) -> bool:
        """Whether released quota belongs to this head before any parked workload of its arena."""
        return head.preemptor or head.blocked or self.pending.queues[head.cluster_queue].strict

    def _apply_decision(self, decision: Reserve | StayPending) -> bool:
        """Applies one decision; returns whether the next cycle in the arena may have another result."""
        key = decision.workload.key
        name = _queue_of(decision)
        entry = self.pending.unchanged_entry(name, decision.workload)
        if entry is None:
            return True  # it has changed since
        arena = self.reservations.arena_of[name]
        if arena in self.reservations.rebuilt or arena in self._void:
            return True  # and so has its input
        if isinstance(decision, Reserve):
            self._assume(key, decision)
            return True
        queue = self.pending.queues[name]
        if _outdated(entry.tried, decision.tried):
            self._wake_ups.add_late(name, Freed(entry.demand.resources))
        advanced = entry.continue_search(decision.tried, short=decision.short)
        short = decision.short or entry.short
        blocked = decision.reason == PendingReason.WAITING_FOR_PODS_READY
        queue.preemptor = _claimed(queue.preemptor, key, claims=decision.preempting)
        queue.blocked = _claimed(queue.blocked, key, claims=blocked)
        queue.sticky = _claimed(queue.sticky, key, claims=blocked or (decision.preempting and not queue.strict))
        for victim in decision.victims:
            self._evict(victim, key)
        if decision.requeue is Requeue.PARKED and name not in self._changed:
            queue.park(
                key,
                group=decision.alike,
                hopeless=decision.hopeless,
                short=short,
                gated=decision.gated,
                reason=decision.reason,
                message=decision.message,
            )
            return True
        if entry.repeats and decision.alike and not queue.strict and name not in self._changed:
            queue.park(key, group=True, short=short, reason=decision.reason, message=decision.message)
            return True
        return advanced or bool(decision.victims)

    def _second_heads(self, now: float) -> list[Head]:
        """Returns the workloads with quota whose second pass is due."""
        found = []
        for key in self._second_pass.due(now):
            held = self.reservations.get(key)
            if held is None or held.evicted or not self._is_placed_here(held.cluster_queue):
                self._second_pass.failed(key, now)  # else it would stay due, and the scheduler would never sleep
                continue
            demand = self.pending.demands.of(held.workload)
            time = queue_time(held.workload, self.policy)
            found.append(Head(held.workload, held.cluster_queue, demand, time, second_pass=True))
        return found

    def _wake_second_passes(self) -> None:
        """There is more room in some arenas: the workloads there that hold quota and wait for it are placed soon."""
        if not self._roomier:
            return
        arena_of = self.reservations.arena_of
        arenas = {arena_of[name] for name in self._roomier & arena_of.keys()}
        self._roomier.clear()

        def concerned(key: Key) -> bool:
            held = self.reservations.get(key)
            name = "" if held is None or held.evicted else held.cluster_queue
            return arena_of.get(name) in arenas and self._is_placed_here(name)

        self._second_pass.wake(concerned)

    def _is_placed_here(self, name: str) -> bool:
        """Whether the workloads of a ClusterQueue run in this cluster: else they are placed where they run."""
        queue, checks = self.reservations.cluster_queues.get(name), self.reservations.checks
        return queue is not None and not any(
            checks[rule.name].controller_name == MULTIKUEUE_CONTROLLER for rule in queue.checks if rule.name in checks
        )

    def _apply_second_pass(self, decision: Reserve | StayPending) -> None:
        """Applies a decision about a workload that holds quota, unless it has changed since."""
        key, held = decision.workload.key, self.reservations.get(decision.workload.key)
        if key not in self._second_pass or held is None or held.workload.admission != decision.workload.admission:
            return
        if isinstance(decision, StayPending):
            for victim in decision.victims:
                self._evict(victim, None if victim.workload.key == key else key)
            if not decision.postponed:
                self._second_pass.failed(key, self.pending.now)
            return
        self._second_pass.discard(key)
        self._placed[key] = decision
        changed = set(self._changed)
        self._count(self.workloads[key])
        self._changed = changed  # the domains that it leaves are offered to parked workloads after this plan

    def _assume(self, key: Key, decision: Reserve) -> None:
        workload = self.workloads[key]
        self.pending.dequeue(key)
        names = (Condition.QUOTA_RESERVED, Condition.ADMITTED) if decision.admitted else (Condition.QUOTA_RESERVED,)
        kept = tuple(c for c in workload.conditions if c.type not in (*names, Condition.EVICTED))
        since = self.pending.now
        conditions = (*kept, *(StatusCondition(name, True, since=since) for name in names))
        self._assumed.add(key)
        self.local_queue_usage.charge(workload, decision.admission.cluster_queue)
        admitted = replace(workload, admission=decision.admission, conditions=conditions)
        self._count_reservation(key, self.reservations.of(admitted))
        for each in self.kinship.concerned(workload):
            self._count(each)

    def required_checks(self, admission: Admission) -> list[str]:
        """Returns the checks that a workload with this admission must pass; none if its ClusterQueue is gone."""
        queue = self.reservations.cluster_queues.get(admission.cluster_queue)
        return required_checks(queue, admission) if queue is not None else []

    def _forget(self, key: Key) -> None:
        """A workload is gone, or finished."""
        self.workloads.pop(key, None)
        self._assumed.discard(key)
        self._evicting.discard(key)
        self._placed.pop(key, None)
        self._second_pass.discard(key)
        self._preempted.forget(key)
        self._stop_waiting(key)
        self._release_reservation(key)
        self.local_queue_usage.refund(key)

    def _count(self, workload: Workload) -> None:
        """Counts a workload where it belongs: in the reservations, in a queue, or nowhere."""
        key, counted = workload.key, self.kinship.counted(workload)
        if self.placement is not None:
            workload = self._with_domains(workload)
        if counted is Counted.FAMILY:
            self._stop_waiting(key)
            self._evicting.discard(key)
            self._give_up_quota(key)
        elif holds_quota(workload):
            self._assumed.discard(key)
            self.local_queue_usage.confirm(key)
            self._mark_ready(self.pending.dequeue(key))
            if workload.holds(Condition.EVICTED):
                self._evicting.discard(key)
            if counted is Counted.SUCCESSOR:
                self._release_reservation(key)
            else:
                self._count_reservation(key, self.reservations.of(workload, evicted=key in self._evicting or None))
        elif key not in self._assumed or not workload.active:
            self._assumed.discard(key)
            self._evicting.discard(key)
            self._give_up_quota(key)
            if queueable(workload):
                self._mark_ready(self.pending.enqueue(workload))
            else:
                self._stop_waiting(key)

    def _with_domains(self, workload: Workload) -> Workload:
        """Returns the workload with the domains that a second pass has found, and registers whether it needs one."""
        key = workload.key
        placed = self._placed.get(key)
        if placed is not None and placed.admission == workload.admission:
            del self._placed[key]
            placed = None
        if not needs_second_pass(workload) or key in self._evicting:
            self._placed.pop(key, None)
            self._second_pass.discard(key)
        elif placed is None:
            self._second_pass.add(key, self.pending.now)
        else:
            kept = tuple(c for c in workload.conditions if c.type != Condition.ADMITTED or not placed.admitted)
            new = (StatusCondition(Condition.ADMITTED, True, since=self.pending.now),) if placed.admitted else ()
            return replace(workload, admission=placed.admission, conditions=(*kept, *new), unhealthy_nodes=())
        return workload

    def _give_up_quota(self, key: Key) -> None:
        """A workload holds no quota any more, although it exists."""
        held = self._release_reservation(key)
        if held is not None:
            self._preempted.quota_released(key, held.cluster_queue)

    def _stop_waiting(self, key: Key) -> None:
        """A workload waits no longer and got no quota: workloads that are parked behind it are decided again."""
        name = self.pending.where(key)
        self._mark_ready(self.pending.dequeue(key))
        if name is not None:
            self._plan_wake_up(name, ANYTHING_FREED)

    def _evict(self, victim: Victim, preemptor: Key | None) -> None:
        key = victim.workload.key
        held = self.reservations.get(key)
        if held is not None and not held.evicted and held.workload.priority == victim.workload.priority:
            self._evicting.add(key)
            if preemptor is not None:
                self._preempted.add(key, preemptor, self.pending.now)
            self._second_pass.discard(key)
            self.reservations.hold(key, self.reservations.of(held.workload, evicted=True))

    def _count_reservation(self, key: Key, held: Reservation) -> None:
        """Counts a reservation; if it is smaller or has a lower priority than before, wakes the workloads that may now
        fit.
        """
        waiting = bool(self.reservations.unready)
        old = self.reservations.hold(key, held)
        if old is not None:
            freed = old.usage.freed(held.usage)
            if old.cluster_queue != held.cluster_queue or held.workload.priority < old.workload.priority:
                freed = old.usage.all_of_it
            if freed != NOTHING_FREED:
                self._plan_wake_up(old.cluster_queue, freed)
        elif self.placement is not None and self.placement.lets_others_in(held.usage):
            self._plan_wake_up(held.cluster_queue, ROOM_FREED)
        self._pods_ready(waiting)

    def _release_reservation(self, key: Key) -> Reservation | None:
        waiting = bool(self.reservations.unready)
        held = self.reservations.release(key)
        if held is not None:
            self._plan_wake_up(held.cluster_queue, held.usage.freed(NO_USAGE))
            if held.workload.variant_of:  # the other variants may have been refused because of it
                self._wake_parked_alone([held.cluster_queue])
            self._pods_ready(waiting)
        return held

    def _pods_ready(self, waiting: bool) -> None:
        if waiting and not self.reservations.unready and self.policy.block_admission:
            self._mark_ready(self.reservations.cluster_queues)

    def _rebuild(self, names: Iterable[str]) -> None:
        """Something that these ClusterQueues refer to has changed: wakes their arenas when they are built again."""
        changed = set(names)
        self.reservations.mark_stale(changed)
        self._wake_parked_alone(changed)

    def _wake_parked_alone(self, names: Iterable[str]) -> None:
        """Look again at workloads that were parked alone in these ClusterQueues."""
        for name in sorted(names):
            queue = self.pending.queues.get(name)
            if queue is not None:
                self._mark_ready(self.pending.wake(queue.alone))

    def _plan_wake_up(self, name: str, freed: Freed) -> None:
        """Wakes the workloads in the arena of a ClusterQueue that wait for what became free there."""
        if freed.resources is not None and PODS_RESOURCE in freed.resources:  # which no workload requests by its name
            freed = Freed(None, freed.further)
        self._wake_ups.add(name, freed)
        if freed.further and self._second_pass:
            self._roomier.add(name)
        self._mark_ready([name])

    def _mark_ready(self, names: Iterable[str]) -> None:
        """Something about these ClusterQueues has changed: their arenas are ready for a cycle."""
        for name in names:
            self._ready.add(name)
            self._changed.add(name)


def _outdated(before: Tried | None, now: Tried | None) -> bool:
    """Whether quota was released between two parts of a search for flavors: those of the first part may fit now."""
    return before is not None and now is not None and before.unfinished and before.generation < now.generation


def _claimed(old: Key | None, key: Key, *, claims: bool) -> Key | None:
    """Returns the workload that holds an exclusive role after a decision about ``key``."""
    if claims:
        return key
    return None if old == key else old


def _queue_of(decision: Reserve | StayPending) -> str:
    return decision.cluster_queue if isinstance(decision, StayPending) else decision.admission.cluster_queue
