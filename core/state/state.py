"""Everything that scheduling depends on, kept up to date as objects change; owned by one event loop, no I/O.

Separate from the cycle, which judges a snapshot of it. State routes each workload to where it counts (usage, a queue,
or nowhere), and decides who is looked at again: a tree of cohorts is ready for a cycle when something in it has
changed that could let a workload in, and stays ready while cycles make progress. Nothing is ever looked at for the
passing of time but workloads whose backoff ends (``next_wake``).

Questions about it (counts, shares, capacity, places in the queue) are answered by ``core.state.queue_status``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from api.names import PODS_RESOURCE, Condition, PendingReason
from core.model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Key,
    Labels,
    LocalQueue,
    Plan,
    Requeue,
    Reserve,
    ResourceFlavor,
    Victim,
    Wait,
    Workload,
)
from core.model import Condition as StatusCondition
from core.model.policy import Policy
from core.queue.routing import Lines, queueable
from core.quota.active import offers_heads
from core.quota.reservations import Holdings, put
from core.quota.usage import Reservation, finished, holds_quota, reservation
from core.scheduling.snapshot import Head, Snapshot
from core.state.local_queue_usage import History
from core.state.preempted import Victims
from core.state.wake_ups import Wakes


class State:
    """The queues, the quota in use, and what they depend on. All setters are idempotent; None deletes."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.holdings = Holdings()
        self.lines = Lines(self.policy)
        self.history = History(self.lines, self.holdings)
        self.namespaces: dict[str, Labels] = {}
        self.workloads: dict[Key, Workload] = {}
        """All that are not finished."""
        self._assumed: set[Key] = set()
        self._evicting: set[Key] = set()
        self._ready: set[str] = set()
        self._stirred: set[str] = set()
        self._wakes = Wakes()
        self._victims = Victims()
        self._cycle = 0

    # What surrounds the workloads.

    def set_flavor(self, name: str, flavor: ResourceFlavor | None) -> None:
        """A ResourceFlavor came, changed or went: ClusterQueues that have it are looked at again."""
        if put(self.holdings.flavors, name, flavor):
            queues = self.holdings.cluster_queues.values()
            self._respecify(queue.name for queue in queues if any(name in group.flavors for group in queue.groups))

    def set_admission_check(self, name: str, check: AdmissionCheck | None) -> None:
        """An AdmissionCheck came, changed or went."""
        if put(self.holdings.checks, name, check):
            queues = self.holdings.cluster_queues.values()
            self._respecify(queue.name for queue in queues if any(rule.name == name for rule in queue.checks))

    def set_cohort(self, name: str, cohort: Cohort | None) -> None:
        """A Cohort came, changed or went: what was and what will be around it is looked at again."""
        if self.holdings.set_cohort(name, cohort):
            self._rouse(self.holdings.hierarchy.queues_in(self.holdings.hierarchy.below([name])))

    def set_cluster_queue(self, name: str, queue: ClusterQueue | None) -> None:
        """A ClusterQueue came, changed or went, with the workloads that wait for it or use its quota."""
        if self.holdings.set_cluster_queue(name, queue):
            self.lines.set_cluster_queue(name, queue)
            self._rouse([name])

    def set_local_queue(self, key: Key, queue: LocalQueue | None) -> None:
        """A LocalQueue came, changed or went, with the workloads that wait in it."""
        if put(self.lines.local_queues, key, queue):
            self.history.weigh(key)
            self._stir(self.lines.reroute(key))

    def set_namespace(self, name: str, labels: Labels | None) -> None:
        """A namespace came, went or has other labels: workloads that were turned away for them are looked at again."""
        if put(self.namespaces, name, None if labels is None else dict(labels)):
            for cluster_queue, queue in self.lines.queues.items():
                self._stir(self.lines.rouse([e for e in queue if e.asleep and e.workload.key.namespace == name]))
                head = self.lines.head(cluster_queue)
                if head is not None and head.workload.key.namespace == name:  # order kept it awake
                    self._stir([cluster_queue])

    def set_policy(self, policy: Policy) -> None:
        """Judge by other rules from now on: everything is queued anew."""
        self.policy = self.lines.policy = policy
        for name, queue in self.holdings.cluster_queues.items():
            self.lines.set_cluster_queue(name, None)
            self.lines.set_cluster_queue(name, queue)
        self._respecify(self.holdings.cluster_queues)

    # Workloads.

    def set_workload(self, key: Key, workload: Workload | None) -> None:
        """A workload came, changed or went: count its quota, queue it, or forget it.

        What a plan assumed stays assumed while the object does not show it yet; see ``unassume``.
        """
        if workload is None or finished(workload):
            self.workloads.pop(key, None)
            self._assumed.discard(key)
            self._evicting.discard(key)
            self._victims.forget(key)
            self._leave(key)
            self._release(key)
            self.history.refund(key)
            return
        workload = self.workloads[key] = self.lines.slim(workload)
        if holds_quota(workload):
            self._assumed.discard(key)
            self.history.settle(key)
            self._stir(self.lines.dequeue(key))
            if workload.holds(Condition.EVICTED):
                self._evicting.discard(key)
            self._hold(key, reservation(workload, evicted=key in self._evicting or None))
        elif key not in self._assumed or not workload.active:
            self._assumed.discard(key)
            self._evicting.discard(key)
            held = self._release(key)
            if held is not None:
                self._victims.free(key, held.cluster_queue)
            if queueable(workload):
                self._stir(self.lines.enqueue(workload))
            else:
                self._leave(key)

    def unassume(self, key: Key, not_before: float = 0.0) -> None:
        """A write of a plan failed: give assumed quota back and queue the workload again; let a victim stay.

        Until ``not_before``, or until its object changes, the workload is not looked at.
        """
        held = self.holdings.get(key)
        if key in self._evicting and held is not None:
            self._evicting.discard(key)
            self._victims.spare(key)
            self._hold(key, reservation(held.workload))
            self._stir([held.cluster_queue])
        if key in self._assumed:
            self._assumed.discard(key)
            self.history.refund(key)
            self._release(key)
            workload = self.workloads.get(key)
            if workload is not None and queueable(workload):
                if not_before > self.lines.now:
                    workload = replace(workload, requeue_at=max(not_before, workload.requeue_at or 0.0))
                self._stir(self.lines.enqueue(workload))

    def assumed(self, key: Key) -> bool:
        """Whether a plan gave the workload quota that its object does not show yet."""
        return key in self._assumed

    def expelled(self, key: Key) -> bool:
        """Whether a plan told the workload to leave and its object does not show it yet."""
        return key in self._evicting

    # The cycle.

    def heads(self, now: float) -> tuple[Head, ...]:
        """The heads of all trees that are ready for a cycle; one for each ClusterQueue that takes part."""
        self._stir(self.lines.end_backoffs(now))
        for key, seconds in self._victims.tired().items():
            self.lines.put_off(key, now + seconds)
        trees, roots = self.holdings.trees, self.holdings.roots
        for root in sorted(self.holdings.fresh & trees.keys()):
            name = next(iter(trees[root].queues), None)
            if name is not None:  # one of its queues wakes a tree
                self._wake(name, None)
        self.holdings.fresh.clear()
        self._stir(self.history.reordered)
        self.history.reordered.clear()
        self._stirred.clear()
        self._ready &= roots.keys()
        resting = {roots.get(name) for name in self._victims.resting(now)}
        found = self._found(resting)
        if self._rise(now):
            found = self._found(resting)
        return tuple(found)

    def snapshot(self) -> Snapshot:
        """What a cycle judges; it stays as it is whatever is set later, until it is let go."""
        trees = dict(self.holdings.trees)
        for tree in trees.values():
            tree.readers += 1
        return Snapshot(
            trees=trees,
            roots=self.holdings.roots,
            flavors=dict(self.holdings.flavors),
            namespaces=dict(self.namespaces),
            cycle=self._cycle,
            local_usage=dict(self.lines.local_usage),
            pods_ready=not self.holdings.unready,
        )

    def let_go(self, snapshot: Snapshot) -> None:
        """Nobody reads the snapshot any more: what changes next need not be copied for it."""
        for tree in snapshot.trees.values():
            tree.readers -= 1

    def apply(self, plan: Plan) -> None:
        """Take over what a plan decided: reserved quota is in use at once, victims are on their way, the rest waits.

        Trees in which nothing came of the cycle are not looked at again until something in them changes. A decision
        about a workload that changed since it was judged, or waits elsewhere, is void.
        """
        for _ in self.applying(plan):
            pass

    def applying(self, plan: Plan) -> Iterator[None]:
        """``apply`` decision by decision, to be gone through to its end; others may change State between two."""
        self._cycle += 1
        roots = self.holdings.roots
        progress, looked = set[str](), set[str]()
        for decision in plan.decisions:
            name = _queue_of(decision)
            if name in roots:
                looked.add(roots[name])
                if self._settle(decision):
                    progress.add(roots[name])
                yield
        for root in (looked - progress) & self.holdings.trees.keys():
            self._ready.difference_update(self.holdings.trees[root].queues)
        self._ready |= self._stirred

    def rest(self) -> None:
        """Leave all trees alone until something in them changes."""
        self._ready &= self._stirred

    def next_wake(self, now: float) -> float | None:
        """When time alone will let someone be looked at (``now`` where it has already); None where it will not."""
        every = (self.lines.next_backoff(), self._wakes.next(), self._victims.next())
        times = [at for at in every if at is not None]
        return max(min(times), now) if times else None

    def check(self) -> None:
        """Assert what must always hold: usage kept is usage recomputed, queues are in order, nothing counts twice."""
        self.holdings.check()
        self.lines.check()
        for key in self.workloads:
            assert key not in self.holdings or self.lines.where(key) is None, f"{key} is queued and holds quota"

    # How it is done.

    def _found(self, resting: set[str | None]) -> list[Head]:
        """The heads of the ready trees, but for those that rest; those without any are not ready any more."""
        trees, roots, standings = self.holdings.trees, self.holdings.roots, self.holdings.standings
        found: list[Head] = []
        for root in sorted({roots[name] for name in self._ready} - resting):
            before = len(found)
            for name in trees[root].queues:
                entry = self.lines.head(name) if offers_heads(standings[name]) else None
                if entry is not None:
                    queue, key = self.lines.queues[name], entry.workload.key
                    kept = (queue.preemptor == key, queue.blocked == key)
                    found.append(Head(entry.workload, name, entry.shape, entry.key[1], entry.tried, *kept))
            if len(found) == before:
                self._ready.difference_update(trees[root].queues)
        return found

    def _rise(self, now: float) -> bool:
        """Wake parked workloads in trees that have come to rest; whether any tree became ready by it."""
        if not self._wakes:
            return False
        holdings, roots = self.holdings, self.holdings.roots
        busy = {roots.get(name) for name in self._ready}
        busy |= {roots.get(held.cluster_queue) for key in holdings.leaving if (held := holdings.get(key))}
        ripe = self._wakes.ripe(now, roots, busy)
        before = len(self._ready)
        for root, resources in ripe.items():
            woken = [name for name in holdings.trees[root].queues if self.lines.queues[name].wake(resources)]
            self._ready.update(woken[:1])  # one of its queues makes a tree ready
        return len(self._ready) > before

    def _settle(self, decision: Reserve | Wait) -> bool:
        """Apply one decision; whether the next cycle in the tree may come to another outcome."""
        key = decision.workload.key
        name = _queue_of(decision)
        entry = self.lines.still_in(name, decision.workload)
        if entry is None:
            return True  # it has changed since
        if self.holdings.roots[name] in self.holdings.fresh:
            return True  # and so has what it was judged by
        if isinstance(decision, Reserve):
            self._assume(key, decision)
            return True
        queue = self.lines.queues[name]
        advanced = entry.try_on(decision.tried)
        blocked = decision.reason == PendingReason.WAITING_FOR_PODS_READY
        queue.preemptor = _claimed(queue.preemptor, key, claims=decision.preempting)
        queue.blocked = _claimed(queue.blocked, key, claims=blocked)
        queue.sticky = _claimed(queue.sticky, key, claims=blocked or (decision.preempting and not queue.strict))
        for victim in decision.victims:
            self._expel(victim, key)
        if decision.requeue is Requeue.PARKED and name not in self._stirred:
            why, hopeless = (decision.reason, decision.message), decision.hopeless
            queue.park(key, family=decision.alike, hopeless=hopeless, reason=why[0], message=why[1])
            return True
        if entry.circles and decision.alike and not queue.strict and name not in self._stirred:
            queue.park(key, family=True, reason=decision.reason, message=decision.message)
            return True
        return advanced or bool(decision.victims)

    def _assume(self, key: Key, decision: Reserve) -> None:
        workload = self.workloads[key]
        self.lines.dequeue(key)
        names = (Condition.QUOTA_RESERVED, Condition.ADMITTED) if decision.admitted else (Condition.QUOTA_RESERVED,)
        kept = tuple(c for c in workload.conditions if c.type not in (*names, Condition.EVICTED))
        since = self.lines.now
        conditions = (*kept, *(StatusCondition(name, True, since=since) for name in names))
        self._assumed.add(key)
        self.history.charge(workload, decision.admission.cluster_queue)
        self._hold(key, reservation(replace(workload, admission=decision.admission, conditions=conditions)))

    def _leave(self, key: Key) -> None:
        """A workload waits no more, without having got anything: those parked behind it are looked at again."""
        name = self.lines.where(key)
        self._stir(self.lines.dequeue(key))
        if name is not None:
            self._wake(name, None)

    def _expel(self, victim: Victim, preemptor: Key) -> None:
        key = victim.workload.key
        held = self.holdings.get(key)
        if held is not None and not held.evicted and held.workload.priority == victim.workload.priority:
            self._evicting.add(key)
            self._victims.expel(key, preemptor, self.lines.now)
            self.holdings.hold(key, reservation(held.workload, evicted=True))

    def _hold(self, key: Key, held: Reservation) -> None:
        """Count a reservation; wake whom it lets in, being smaller or of lower priority than it was."""
        waiting = bool(self.holdings.unready)
        old = self.holdings.hold(key, held)
        if old is not None:
            freed = {fr.resource for fr, amount in old.usage.items() if amount > held.usage.get(fr, 0)}
            if old.cluster_queue != held.cluster_queue or held.workload.priority < old.workload.priority:
                freed |= {fr.resource for fr in old.usage}
            if freed:
                self._wake(old.cluster_queue, freed)
        self._pods_ready(waiting)

    def _release(self, key: Key) -> Reservation | None:
        waiting = bool(self.holdings.unready)
        held = self.holdings.release(key)
        if held is not None:
            self._wake(held.cluster_queue, {fr.resource for fr, amount in held.usage.items() if amount})
            self._pods_ready(waiting)
        return held

    def _pods_ready(self, waiting: bool) -> None:
        if waiting and not self.holdings.unready and self.policy.block_admission:
            self._stir(self.holdings.cluster_queues)

    def _respecify(self, names: Iterable[str]) -> None:
        """What these ClusterQueues refer to has changed: wake their trees, once they are built anew."""
        changed = set(names)
        self.holdings.respecify(changed)
        self._rouse(changed)

    def _rouse(self, names: Iterable[str]) -> None:
        """Look again at workloads that were parked alone in these ClusterQueues."""
        for name in sorted(names):
            queue = self.lines.queues.get(name)
            if queue is not None:
                self._stir(self.lines.rouse([entry for entry in queue if entry.asleep]))

    def _wake(self, name: str, resources: set[str] | None) -> None:
        """Look again at whoever waits in the tree of a ClusterQueue for one of the resources (None: for whatever)."""
        self._wakes.add(name, None if resources and PODS_RESOURCE in resources else resources)
        self._stir([name])

    def _stir(self, names: Iterable[str]) -> None:
        """Something about these ClusterQueues has changed: their trees are ready for a cycle."""
        for name in names:
            self._ready.add(name)
            self._stirred.add(name)


def _claimed(old: Key | None, key: Key, *, claims: bool) -> Key | None:
    """Who has a place that one workload at a time can have, after a decision about ``key``."""
    if claims:
        return key
    return None if old == key else old


def _queue_of(decision: Reserve | Wait) -> str:
    return decision.cluster_queue if isinstance(decision, Wait) else decision.admission.cluster_queue
