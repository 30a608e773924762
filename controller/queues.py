"""The status of ClusterQueues, LocalQueues and Cohorts, and the finalizers of objects that are in use.

Statuses change with every workload; each object is written at most once in an interval, and always once after its last
change. ``core.state.queue_status`` computes them from State.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from api.objects import Resource
from controller.caches import Caches
from controller.kube.errors import NotFound
from controller.kube.workqueue import WorkQueue
from controller.writes import Writer
from core.model import Key, Raw
from core.state import queue_status
from core.state.state import State
from core.wire.finalizers import kept, released
from core.wire.guard import guarded

INTERVAL_SECONDS = 0.3
WORKERS = 16


class QueueStatuses:
    """Owns the work queue of these objects. ``run`` while this process leads; call ``changed`` with each change."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.clock = clock
        self._monotonic = monotonic
        self._written_at: dict[tuple[Resource, Key], float] = {}
        self.queue = WorkQueue[tuple[Resource, Key]]("queue-status", longest_seconds=30.0)

    async def run(self) -> None:
        """Write until cancelled."""
        await self.queue.run(WORKERS, self.reconcile)

    def changed(self, resource: Resource, key: Key) -> None:
        """The status of this object may have changed."""
        self.queue.add((resource, key))

    async def reconcile(self, item: tuple[Resource, Key]) -> float | None:
        """Bring one object up to date, unless that was done a moment ago. Returns when to look again, in seconds."""
        patience = self._written_at.get(item, float("-inf")) + INTERVAL_SECONDS - self._monotonic()
        if patience > 0:
            return patience
        resource, key = item
        raw = self.caches.stores[resource].get(key)
        if raw is None:
            self._written_at.pop(item, None)
            return None
        if "deletionTimestamp" in raw["metadata"] and not self._in_use(resource, key):
            await self._finalize(resource, key, released(raw))
            return None
        row = self.caches.rows[resource]
        if row.gets_finalizer:
            await self._finalize(resource, key, kept(raw))
        if row.status is None:
            return None
        wanted = row.status(self.caches.state, key, raw.get("status") or {}, self.clock())
        if wanted is not None and (changes := difference(raw.get("status") or {}, wanted)):
            patch = guarded({"status": changes}, raw, version=False)
            try:
                await self.writer.patch(resource, key, patch, subresource="status")
            except NotFound:  # it was deleted meanwhile; the watch will report it
                return None
            self._written_at[item] = self._monotonic()
        return None

    def _in_use(self, resource: Resource, key: Key) -> bool:
        in_use = self.caches.rows[resource].in_use
        return in_use is not None and in_use(self.caches, key)

    async def _finalize(self, resource: Resource, key: Key, patch: Raw | None) -> None:
        if patch is not None:
            with contextlib.suppress(NotFound):  # it went by itself
                await self.writer.patch(resource, key, patch)


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


def holds_quota(caches: Caches, key: Key) -> bool:
    """Whether workloads hold quota of a ClusterQueue."""
    return bool(queue_status.reservations(caches.state, key.name))


def flavor_in_use(caches: Caches, key: Key) -> bool:
    """Whether a ClusterQueue refers to a ResourceFlavor."""
    return bool(caches.cluster_queues.by_index("flavor", key.name))


def check_in_use(caches: Caches, key: Key) -> bool:
    """Whether a ClusterQueue refers to an AdmissionCheck."""
    return bool(caches.cluster_queues.by_index("check", key.name))
