"""The queues of pending workloads: routed by LocalQueue to the queue of a ClusterQueue, or to none at present.

Separate from ``core.queue.queue``, which orders one queue, and from ``core.state.state``, which decides when to decide
again. A workload is listed under its LocalQueue while it is pending, so that it is routed again when that LocalQueue is
created or changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from api.names import Condition, EvictedReason, PendingReason, RequeuedReason
from core.model import ClusterQueue, Key, LocalQueue, QueueingStrategy, StopPolicy, Workload
from core.model.policy import SchedulingPolicy
from core.queue.admission_fair_sharing import USAGE_BASED
from core.queue.order import QueueKey, queue_key
from core.queue.queue import Queue, QueueEntry, SearchProgress
from core.quota.demand import Demand, Demands
from core.quota.reservations import discard, local_queue_of, put


class PendingWorkloads:
    """All queues, and the queue of each workload."""

    def __init__(self, policy: SchedulingPolicy) -> None:
        self.policy = policy
        self.local_queues: dict[Key, LocalQueue] = {}
        self.queues: dict[str, Queue] = {}
        self.stopped: set[str] = set()
        """ClusterQueues that are stopped."""
        self.concurrent: dict[str, tuple[str, ...]] = {}
        """The flavors of the ClusterQueues that admit variants only."""
        self.by_local_queue: dict[Key, dict[Key, None]] = {}
        """Pending workloads by LocalQueue, queued or not; a dict, because a set is twice as large."""
        self.local_usage: dict[Key, float] = {}
        self.now = 0.0
        self._local_queues_of: dict[str, set[Key]] = {}
        """The LocalQueues that point to a ClusterQueue, existing or not."""
        self._local_queues_in: dict[str, set[Key]] = {}
        """The LocalQueues of a namespace."""
        self._queued: dict[Key, QueueEntry] = {}
        self._unqueued: dict[Key, Workload] = {}
        """Pending workloads that are in no queue."""
        self._backoffs: list[tuple[float, Key]] = []
        self._postponed: dict[Key, float] = {}
        """The time until which a pending workload is not decided, in addition to its own backoff."""
        self.demands = Demands()

    def local_queues_of(self, cluster_queue: str) -> Collection[Key]:
        """The LocalQueues that point to a ClusterQueue."""
        return self._local_queues_of.get(cluster_queue, ())

    def local_queues_in(self, namespace: str) -> Collection[Key]:
        """The LocalQueues of a namespace."""
        return self._local_queues_in.get(namespace, ())

    def where(self, key: Key) -> str | None:
        """The ClusterQueue a workload is queued for."""
        entry = self._queued.get(key)
        return entry.group.cluster_queue if entry is not None else None

    def entry(self, key: Key) -> QueueEntry | None:
        """The queue entry of a workload."""
        return self._queued.get(key)

    def unchanged_entry(self, name: str, judged: Workload) -> QueueEntry | None:
        """Returns the entry of a workload that waits in this ClusterQueue, if nothing changed that a decision depends
        on.
        """
        entry = self._queued.get(judged.key)
        if (
            entry is None
            or entry.group.cluster_queue != name
            or (judged is not entry.workload and not still_judged(judged, entry.workload))
        ):
            return None
        return entry

    def bypassed(self, key: Key) -> str:
        """Returns why workloads like this one wait, if it arrived while they were parked and so is not decided
        itself.
        """
        entry = self.entry(key)
        return entry.group.reason if entry is not None and entry.bypassed and entry.group.parked else ""

    def head(self, name: str) -> QueueEntry | None:
        """The head of a ClusterQueue's queue."""
        return self.queues[name].head(self.local_usage)

    def with_shared_pod_sets(self, workload: Workload) -> Workload:
        """The workload with the pod sets that all of its demand share."""
        demand = self.demands.of(workload)
        if workload.pod_sets is demand.pod_sets or workload.reclaimable:
            return workload
        return replace(workload, pod_sets=demand.pod_sets)

    def set_cluster_queue(self, name: str, queue: ClusterQueue | None) -> None:
        """Adds a queue for the ClusterQueue, with the workloads that wait for it; or removes it.

        A queue whose order does not change is not changed.
        """
        self.stopped.discard(name)
        if queue is not None and queue.stop_policy != StopPolicy.NONE:
            self.stopped.add(name)
        self.concurrent.pop(name, None)
        if queue is not None and queue.migration is not None and self.policy.concurrent_admission:
            self.concurrent[name] = queue.flavors
        old = self.queues.get(name)
        made = None if queue is None else self._queue_for(queue)
        if old is not None and made is not None and made.order == old.order:
            return
        if old is not None:
            del self.queues[name]
            for entry in old.clear():
                del self._queued[entry.workload.key]
                self._unqueued[entry.workload.key] = entry.workload
        if made is not None:
            self.queues[name] = made
            for key in sorted(self._local_queues_of.get(name, ())):
                self.reroute(key)

    def set_local_queue(self, key: Key, queue: LocalQueue | None) -> bool:
        """Adds, changes or removes a LocalQueue; returns whether that changed anything. ``reroute`` moves its
        workloads.
        """
        old = self.local_queues.get(key)
        if not put(self.local_queues, key, queue):
            return False
        if old is not None:
            discard(self._local_queues_of, old.cluster_queue, key)
        if queue is not None:
            self._local_queues_of.setdefault(queue.cluster_queue, set()).add(key)
            self._local_queues_in.setdefault(key.namespace, set()).add(key)
        else:
            discard(self._local_queues_in, key.namespace, key)
        return True

    def _queue_for(self, queue: ClusterQueue) -> Queue:
        strict = queue.strategy == QueueingStrategy.STRICT_FIFO
        by_usage = self.policy.admission_fair_sharing is not None and queue.admission_mode == USAGE_BASED
        return Queue(queue.name, strict=strict, by_local_queue=by_usage)

    def reroute(self, local_queue: Key) -> set[str]:
        """Routes the workloads of a LocalQueue again; returns the ClusterQueues whose head may have changed.

        Workloads that were in no queue start awake, as in Kueue, even if Requeued=False still reports that their queue
        is stopped: it runs again, and they would otherwise be decided too late.
        """
        changed: set[str] = set()
        for key in sorted(self.by_local_queue.get(local_queue, ())):
            entry = self._queued.get(key)
            workload = entry.workload if entry is not None else self._unqueued[key]
            if self.where(key) != self._route_of(workload):
                changed |= self._leave(key) | self._join(key, workload, anew=entry is None)
        return changed

    def enqueue(self, workload: Workload) -> set[str]:
        """Queues a pending workload; returns the ClusterQueues whose head has changed."""
        key = workload.key
        entry = self._queued.get(key)
        old = entry.workload if entry is not None else self._unqueued.get(key)
        changed = self.dequeue(key) if old is not None and old.queue != workload.queue else set()
        self.by_local_queue.setdefault(local_queue_of(workload), {})[key] = None
        if entry is not None and self._route_of(workload) != self.where(key):
            changed |= self._leave(key)
        return changed | self._join(key, workload)

    def dequeue(self, key: Key) -> set[str]:
        """Removes a workload that is no longer pending; returns the ClusterQueues whose head has changed."""
        entry = self._queued.get(key)
        old = entry.workload if entry is not None else self._unqueued.pop(key, None)
        if old is None:
            return set()
        self._postponed.pop(key, None)
        local_queue = local_queue_of(old)
        del self.by_local_queue[local_queue][key]
        if not self.by_local_queue[local_queue]:
            del self.by_local_queue[local_queue]
        return self._leave(key)

    def postpone(self, key: Key, until: float) -> None:
        """Delays the decision about a waiting workload until a time."""
        name = self.where(key)
        if name is not None:
            self._postponed[key] = until
            self.queues[name].park(key, group=False)
            heapq.heappush(self._backoffs, (until, key))

    def wake(self, entries: Iterable[QueueEntry]) -> set[str]:
        """Wakes workloads that were parked alone, except those in backoff; returns the ClusterQueues concerned."""
        changed: set[str] = set()
        for entry in entries:
            if entry.asleep and not self._in_backoff(entry.workload):
                name = entry.group.cluster_queue
                self.queues[name].wake_one(entry.workload.key)
                changed.add(name)
        return changed

    def end_backoffs(self, now: float) -> set[str]:
        """Queues the workloads whose backoff has ended; returns the ClusterQueues concerned."""
        self.now = now
        changed: set[str] = set()
        while self._backoffs and self._backoffs[0][0] <= now:
            at, key = heapq.heappop(self._backoffs)
            entry = self.entry(key)
            if entry is not None and self._backoff(entry.workload) == at:
                self._postponed.pop(key, None)
                changed |= self.wake([entry])
        return changed

    def next_backoff(self) -> float | None:
        """When the earliest backoff ends."""
        while self._backoffs:
            at, key = self._backoffs[0]
            entry = self.entry(key)
            if entry is not None and entry.asleep and self._backoff(entry.workload) == at:
                return at
            heapq.heappop(self._backoffs)
        return None

    def check(self) -> None:
        """Asserts the invariants."""
        for name, queue in self.queues.items():
            queue.check()
            for entry in queue:
                assert self.where(entry.workload.key) == name
        for key, entry in self._queued.items():
            assert self.queues[entry.group.cluster_queue].get(key) is entry, f"the entry of {key} is not in its queue"
        listed = {key: local_queue for local_queue, keys in self.by_local_queue.items() for key in keys}
        assert self._queued.keys().isdisjoint(self._unqueued)
        assert listed == {
            key: local_queue_of(each)
            for key, each in (*self._unqueued.items(), *((key, entry.workload) for key, entry in self._queued.items()))
        }
        pointing = {(queue.cluster_queue, key) for key, queue in self.local_queues.items()}
        assert pointing == {(name, key) for name, keys in self._local_queues_of.items() for key in keys}
        within = {(namespace, key) for namespace, keys in self._local_queues_in.items() for key in keys}
        assert within == {(key.namespace, key) for key in self.local_queues} and all(self._local_queues_in.values())

    def _route(self, key: Key) -> str | None:
        local_queue = self.local_queues.get(key)
        if local_queue is None or local_queue.stop_policy != StopPolicy.NONE:
            return None
        return local_queue.cluster_queue if local_queue.cluster_queue in self.queues else None

    def _route_of(self, workload: Workload) -> str | None:
        """The ClusterQueue whose queue a workload waits in; None also for one that waits for its variants."""
        name = self._route(local_queue_of(workload))
        return None if name in self.concurrent and not (workload.variant_of or workload.slice_name) else name

    def _join(self, key: Key, workload: Workload, *, anew: bool = False) -> set[str]:
        name = self._route_of(workload)
        if name is None:
            self._unqueued[key] = workload
            return set()
        self._unqueued.pop(key, None)
        queue, old = self.queues[name], self._queued.get(key)
        place = queue_key(workload, self.policy, self.concurrent.get(name, ()))
        demand = self.demands.of(workload)
        if old is not None and judged_alike(old, workload, place, demand):
            old.workload = workload
            if not self.policy.keeps_progress:
                old.search = None
            return set()
        was_head = old is not None and self.head(name) is old
        awake = anew or (old is not None and not old.asleep)
        until = self._backoff(workload)
        asleep = until > self.now or (not awake and self._in_backoff(workload))
        entry = self._queued[key] = queue.push(workload, place, demand, asleep=asleep)
        if self.policy.keeps_progress and old is not None and old.demand is demand and old.tried is not None:
            entry.search = SearchProgress(old.tried)
        if until > self.now:
            heapq.heappush(self._backoffs, (until, key))
        return {name} if was_head or self.head(name) is entry else set()

    def _leave(self, key: Key) -> set[str]:
        entry = self._queued.pop(key, None)
        if entry is None:
            return set()
        name = entry.group.cluster_queue
        first = self.head(name)
        self.queues[name].remove(key)
        return {name} if first is entry else set()

    def _in_backoff(self, workload: Workload) -> bool:
        requeued = workload.condition(Condition.REQUEUED)
        if requeued is not None and not requeued.status:
            # A drained workload keeps its queue position: a workload that arrived while the queue was stopped does not
            # overtake it before Requeued=True is written. Kueue waits for that write.
            drained = requeued.reason == EvictedReason.CLUSTER_QUEUE_STOPPED
            if requeued.reason == RequeuedReason.INADMISSIBLE:
                return False  # its devices could not be counted, and can now: the condition is removed soon
            if not drained or self._route(local_queue_of(workload)) in self.stopped:
                return True
        return self._backoff(workload) > self.now

    def _backoff(self, workload: Workload) -> float:
        """Returns when the workload may be decided; 0 if nothing delays it."""
        postponed = self._postponed.get(workload.key, 0.0) if self._postponed else 0.0
        return max(workload.requeue_at or 0.0, postponed)


def judged_alike(entry: QueueEntry, now: Workload, place: QueueKey, demand: Demand) -> bool:
    """Whether nothing has changed about a workload that a decision about it or its queue position depends on."""
    before = entry.workload
    return (
        entry.key == place
        and entry.demand is demand
        and still_judged(before, now)
        and before.requeue_at == now.requeue_at
        and before.condition(Condition.REQUEUED) == now.condition(Condition.REQUEUED)
        and before.condition(Condition.EVICTED) == now.condition(Condition.EVICTED)
    )


def still_judged(judged: Workload, now: Workload) -> bool:
    """Whether a workload is still the one that a decision is about: the same object, and nothing has changed that the
    decision depends on.
    """
    return (
        judged.uid == now.uid
        and judged.queue == now.queue
        and judged.priority == now.priority
        and judged.pod_sets == now.pod_sets
        and judged.reclaimable == now.reclaimable
        and judged.checks == now.checks
        and bool(judged.closed_gates) == bool(now.closed_gates)
        and judged.invalid == now.invalid
        and judged.uncounted == now.uncounted
    )


def queueable(workload: Workload) -> bool:
    """Whether a workload without quota may wait for it."""
    reserved = workload.condition(Condition.QUOTA_RESERVED)
    return (
        workload.active
        and not workload.deleting
        and not workload.gates
        and not workload.uncounted
        and not (reserved is not None and reserved.reason == PendingReason.ON_HOLD and not reserved.status)
        and not workload.holds(Condition.WAITING_FOR_REPLACEMENT_PODS)
    )
