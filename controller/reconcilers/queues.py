"""The status of ClusterQueues, LocalQueues and Cohorts, and the finalizers of objects that are in use.

Finalizers are written at once. A status can wait: it takes a turn of the budget of deferrable writes
(``controller.kube.flow.budget``) and is computed when it has one. Counts are written a moment after their first change.
Each object is written at most once in an interval, and always once after its last change;
``core.state.queue_status`` computes the statuses from State.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial

from api import resources
from api.objects import Resource
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import NotFound
from controller.kube.flow.budget import Budget
from controller.kube.flow.limits import DEFERRED_AT_ONCE
from controller.kube.flow.pressure import Pressure
from controller.kube.workqueue import WorkQueue
from core.model import Key, Raw
from core.quota.active import ActiveCondition
from core.state import queue_status
from core.state.state import State
from core.wire.finalizers import kept, released
from core.wire.guard import guarded

INTERVAL_SECONDS = 0.3
SETTLE_SECONDS = 0.1
"""How long counts of a queue wait after a change: a workload that is admitted meanwhile costs one write, not two."""
WORKERS = 16

QueueItem = tuple[Resource, Key]

COUNTS = ("cluster-queue-counts", "local-queue-counts")
LANES = ("cluster-queue-conditions", "local-queue-conditions", *COUNTS)
"""The lanes of statuses. Lanes take turns, so the LocalQueues of a large ClusterQueue do not delay ClusterQueues and
Cohorts. Conditions come before counts and before all else that can wait: people and admission calls read them.
"""


class QueueStatuses:
    """Owns the work queues of these objects. ``run`` while this process leads; call ``changed`` with each change."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        *,
        budget: Budget | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.budget = budget or Budget(Pressure())
        self.clock = clock
        self._monotonic = monotonic
        self._written_at: dict[QueueItem, float] = {}
        self._writing: set[QueueItem] = set()
        self.queue = WorkQueue[QueueItem]("queues", longest_seconds=30.0, tenant=_namespace)
        self.lanes = {
            lane: WorkQueue[QueueItem](lane, longest_seconds=30.0, clock=monotonic, tenant=_namespace) for lane in LANES
        }

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(WORKERS, self.reconcile))
            for lane, queue in self.lanes.items():
                group.create_task(queue.run(DEFERRED_AT_ONCE, partial(self.write_status, lane)))

    def changed(self, resource: Resource, key: Key) -> None:
        """The status of this object may have changed, or whether it is in use."""
        self.queue.add((resource, key))

    async def reconcile(self, item: QueueItem) -> None:
        """Writes the finalizer of an object, if it is to change, and queues its status."""
        resource, key = item
        raw = self.caches.stores[resource].get(key)
        if raw is None:
            self._written_at.pop(item, None)
            return
        row = self.caches.rows[resource]
        if "deletionTimestamp" in raw["metadata"] and not (row.in_use is not None and row.in_use(self.caches, key)):
            await self._finalize(resource, key, released(raw))
            return
        if row.gets_finalizer:
            await self._finalize(resource, key, kept(raw))
        if row.status is not None:
            lane = self._lane(item, raw)
            self.lanes[lane].add_after(item, SETTLE_SECONDS if lane in COUNTS else 0.0)

    async def write_status(self, lane: str, item: QueueItem) -> float | None:
        """Writes the status of an object, if it differs, when ``lane`` has a turn. Returns when to look again, in
        seconds.
        """
        patience = self._written_at.get(item, float("-inf")) + INTERVAL_SECONDS - self._monotonic()
        if patience > 0:
            return patience
        if item in self._writing:  # for another lane: its answer must be known before the status is compared again
            return INTERVAL_SECONDS
        if self._patch(item) is None:
            return None
        async with self.budget.turn(lane, soon=lane not in COUNTS), self.writer.turn(item[1].namespace):
            patch = self._patch(item)
            if patch is None:
                return None
            if item in self._writing:
                return INTERVAL_SECONDS
            self._writing.add(item)
            try:
                await self.writer.patch(*item, patch, subresource="status")
            except NotFound:  # it was deleted meanwhile; the watch will report it
                return None
            finally:
                self._writing.remove(item)
        if self.caches.stores[item[0]].get(item[1]) is not None:
            self._written_at[item] = self._monotonic()
        return None

    def _patch(self, item: QueueItem) -> Raw | None:
        """Returns the patch that makes the status of an object what it should be now; None if it is."""
        resource, key = item
        raw, status = self.caches.stores[resource].get(key), self.caches.rows[resource].status
        if raw is None or status is None:
            return None
        shown = raw.get("status") or {}
        wanted = status(self.caches.state, key, shown, self.clock())
        changes = difference(shown, wanted) if wanted is not None else None
        return guarded({"status": changes}, raw, version=False) if changes else None

    def _lane(self, item: QueueItem, raw: Raw) -> str:
        """Returns the lane of an object's status: the one of conditions if it has no status yet or its condition
        Active changes.
        """
        resource, key = item
        shown, active = raw.get("status") or {}, self.caches.rows[resource].active
        condition = active(self.caches.state, key) if active is not None else None
        soon = not shown or (condition is not None and not queue_status.shows(shown, condition))
        kind = "local-queue" if resource == resources.LOCAL_QUEUES else "cluster-queue"
        return f"{kind}-conditions" if soon else f"{kind}-counts"

    async def _finalize(self, resource: Resource, key: Key, patch: Raw | None) -> None:
        if patch is not None:
            with contextlib.suppress(NotFound):  # it went by itself
                await self.writer.patch(resource, key, patch)


def _namespace(item: QueueItem) -> str:
    return item[1].namespace


def difference(old: Raw, new: Raw) -> Raw:
    """Return what a merge patch must contain to make ``old`` equal to ``new``; lists are replaced as a whole.

    As in Kueue a status field with an empty list is absent.
    """
    wanted = {name: None if value == [] else value for name, value in new.items()}
    return {name: value for name, value in wanted.items() if old.get(name) != value or (value is None and name in old)}


def cluster_queue_status(state: State, key: Key, old: Raw, now: float) -> Raw | None:
    """Returns the status that a ClusterQueue should have; None if State does not know it."""
    known = key.name in state.reservations.cluster_queues
    return queue_status.cluster_queue_status(state, key.name, old, now) if known else None


def local_queue_status(state: State, key: Key, old: Raw, now: float) -> Raw | None:
    """Returns the status that a LocalQueue should have; None if State does not know it."""
    return queue_status.local_queue_status(state, key, old, now) if key in state.pending.local_queues else None


def cohort_status(state: State, key: Key, old: Raw, now: float) -> Raw | None:
    """Returns the status that a Cohort should have; None if State does not know it."""
    return queue_status.cohort_status(state, key.name) if key.name in state.reservations.cohorts else None


def cluster_queue_active(state: State, key: Key) -> ActiveCondition | None:
    """Returns the condition Active that a ClusterQueue should have; None if State does not know it."""
    reservations = state.reservations
    return reservations.active_condition(key.name) if key.name in reservations.cluster_queues else None


def local_queue_active(state: State, key: Key) -> ActiveCondition | None:
    """Returns the condition Active that a LocalQueue should have; None if State does not know it."""
    queue = state.pending.local_queues.get(key)
    return queue_status.local_queue_condition(state, queue) if queue is not None else None


def holds_quota(caches: Caches, key: Key) -> bool:
    """Whether workloads hold quota of a ClusterQueue."""
    return bool(queue_status.reservations(caches.state, key.name))


def flavor_in_use(caches: Caches, key: Key) -> bool:
    """Whether a ClusterQueue refers to a ResourceFlavor."""
    return bool(caches.cluster_queues.by_index("flavor", key.name))


def topology_in_use(caches: Caches, key: Key) -> bool:
    """Whether a ResourceFlavor names a Topology."""
    return bool(caches.stores[resources.RESOURCE_FLAVORS].by_index("topology", key.name))


def check_in_use(caches: Caches, key: Key) -> bool:
    """Whether a ClusterQueue refers to an AdmissionCheck."""
    return bool(caches.cluster_queues.by_index("check", key.name))
