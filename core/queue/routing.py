"""The queues of pending workloads: routed by LocalQueue to the queue of a ClusterQueue, or to none at present.

Separate from ``core.queue.queue``, which orders one queue, and from ``core.state.state``, which decides when to decide
again. A workload is listed under its LocalQueue while it is pending, so that it is routed again when that LocalQueue is
created or changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from api.names import Condition, EvictedReason, PendingReason
from core.model import ClusterQueue, Key, LocalQueue, QueueingStrategy, StopPolicy, Workload
from core.model.policy import SchedulingPolicy
from core.queue.admission_fair_sharing import USAGE_BASED
from core.queue.order import queue_key
from core.queue.queue import Queue, QueueEntry
from core.quota.demand import Demands
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
        self.by_local_queue: dict[Key, set[Key]] = {}
        """Pending workloads by LocalQueue, queued or not."""
        self.local_usage: dict[Key, float] = {}
        self.now = 0.0
        self._local_queues_of: dict[str, set[Key]] = {}
        """The LocalQueues that point to a ClusterQueue, existing or not."""
        self._where: dict[Key, str] = {}
        self._pending: dict[Key, Workload] = {}
        self._backoffs: list[tuple[float, Key]] = []
        self._postponed: dict[Key, float] = {}
        """The time until which a pending workload is not decided, in addition to its own backoff."""
        self.demands = Demands()

    def local_queues_of(self, cluster_queue: str) -> Collection[Key]:
        """The LocalQueues that point to a ClusterQueue."""
        return self._local_queues_of.get(cluster_queue, ())

    def where(self, key: Key) -> str | None:
        """The ClusterQueue a workload is queued for."""
        return self._where.get(key)

    def entry(self, key: Key) -> QueueEntry | None:
        """The queue entry of a workload."""
        name = self._where.get(key)
        return self.queues[name].get(key) if name is not None else None

    def unchanged_entry(self, name: str, judged: Workload) -> QueueEntry | None:
        """Returns the entry of a workload that waits in this ClusterQueue, if nothing changed that a decision depends
        on.
        """
        key = judged.key
        entry = self.queues[name].get(key) if self._where.get(key) == name else None
        if entry is None or (judged is not entry.workload and not still_judged(judged, entry.workload)):
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
                del self._where[entry.workload.key]
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
        return True

    def _queue_for(self, queue: ClusterQueue) -> Queue:
        strict = queue.strategy == QueueingStrategy.STRICT_FIFO
        by_usage = self.policy.admission_fair_sharing is not None and queue.admission_mode == USAGE_BASED
        return Queue(strict=strict, by_local_queue=by_usage)

    def reroute(self, local_queue: Key) -> set[str]:
        """Routes the workloads of a LocalQueue again; returns the ClusterQueues whose head may have changed.

        Workloads that were in no queue start awake, as in Kueue, even if Requeued=False still reports that their queue
        is stopped: it runs again, and they would otherwise be decided too late.
        """
        changed: set[str] = set()
        for key in sorted(self.by_local_queue.get(local_queue, ())):
            if self._where.get(key) == self._route_of(self._pending[key]):
                continue
            anew = key not in self._where
            changed |= self._leave(key) | self._join(key, self._pending[key], anew=anew)
        return changed

    def enqueue(self, workload: Workload) -> set[str]:
        """Queues a pending workload; returns the ClusterQueues whose head has changed."""
        key = workload.key
        old = self._pending.get(key)
        changed = self.dequeue(key) if old is not None and old.queue != workload.queue else set()
        self._pending[key] = workload
        self.by_local_queue.setdefault(local_queue_of(workload), set()).add(key)
        name = self._route_of(workload)
        if name != self._where.get(key):
            changed |= self._leave(key)
        return changed | self._join(key, workload)

    def dequeue(self, key: Key) -> set[str]:
        """Removes a workload that is no longer pending; returns the ClusterQueues whose head has changed."""
        old = self._pending.pop(key, None)
        if old is None:
            return set()
        self._postponed.pop(key, None)
        discard(self.by_local_queue, local_queue_of(old), key)
        return self._leave(key)

    def postpone(self, key: Key, until: float) -> None:
        """Delays the decision about a waiting workload until a time."""
        name = self._where.get(key)
        if name is not None:
            self._postponed[key] = until
            self.queues[name].park(key, group=False)
            heapq.heappush(self._backoffs, (until, key))

    def wake(self, entries: Iterable[QueueEntry]) -> set[str]:
        """Wakes workloads that were parked alone, except those in backoff; returns the ClusterQueues concerned."""
        changed: set[str] = set()
        for entry in entries:
            if entry.asleep and not self._in_backoff(entry.workload):
                name = self._where[entry.workload.key]
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
                assert self._where[entry.workload.key] == name
        for key, name in self._where.items():
            assert self.queues[name].get(key) is not None, f"{key} is said to be in {name}"
        pointing = {(queue.cluster_queue, key) for key, queue in self.local_queues.items()}
        assert pointing == {(name, key) for name, keys in self._local_queues_of.items() for key in keys}

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
            return set()
        queue = self.queues[name]
        old = queue.get(key)
        entry = QueueEntry(
            workload, queue_key(workload, self.policy, self.concurrent.get(name, ())), self.demands.of(workload)
        )
        if old is not None and judged_alike(old, entry):
            old.workload = workload
            return set()
        if old is not None and old.demand is entry.demand:
            entry.tried = old.tried
        was_head = old is not None and self.head(name) is old
        awake = anew or (old is not None and not old.asleep)
        until = self._backoff(workload)
        entry.asleep = until > self.now or (not awake and self._in_backoff(workload))
        queue.push(entry)
        self._where[key] = name
        if until > self.now:
            heapq.heappush(self._backoffs, (until, key))
        return {name} if was_head or self.head(name) is entry else set()

    def _leave(self, key: Key) -> set[str]:
        name = self._where.pop(key, None)
        if name is None:
            return set()
        first = self.head(name)
        self.queues[name].remove(key)
        return {name} if first is not None and first.workload.key == key else set()

    def _in_backoff(self, workload: Workload) -> bool:
        requeued = workload.condition(Condition.REQUEUED)
        if requeued is not None and not requeued.status:
            # A drained workload keeps its queue position: a workload that arrived while the queue was stopped does not
            # overtake it before Requeued=True is written. Kueue waits for that write.
            drained = requeued.reason == EvictedReason.CLUSTER_QUEUE_STOPPED
            if not drained or self._route(local_queue_of(workload)) in self.stopped:
                return True
        return self._backoff(workload) > self.now

    def _backoff(self, workload: Workload) -> float:
        """Returns when the workload may be decided; 0 if nothing delays it."""
        return max(workload.requeue_at or 0.0, self._postponed.get(workload.key, 0.0))


def judged_alike(old: QueueEntry, new: QueueEntry) -> bool:
    """Whether nothing has changed about a workload that a decision about it or its queue position depends on."""
    mine, its = old.workload, new.workload
    return (
        old.key == new.key
        and old.demand is new.demand
        and still_judged(mine, its)
        and mine.requeue_at == its.requeue_at
        and mine.condition(Condition.REQUEUED) == its.condition(Condition.REQUEUED)
        and mine.condition(Condition.EVICTED) == its.condition(Condition.EVICTED)
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
    )


def queueable(workload: Workload) -> bool:
    """Whether a workload without quota may wait for it."""
    reserved = workload.condition(Condition.QUOTA_RESERVED)
    return (
        workload.active
        and not workload.deleting
        and not workload.gates
        and not (reserved is not None and reserved.reason == PendingReason.ON_HOLD and not reserved.status)
        and not workload.holds(Condition.WAITING_FOR_REPLACEMENT_PODS)
    )
