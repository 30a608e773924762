"""The status of ClusterQueues, LocalQueues and Cohorts, and the finalizers of what is in use.

Statuses change with every workload that moves; each object is written at most once per interval, and always once
more after its last change. What they say is ``core.state.queue_status``'s judgement of State.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from controller import resources
from controller.caches import Caches
from controller.kube.errors import NotFound
from controller.kube.resource import Resource
from controller.kube.workqueue import WorkQueue
from controller.writes import Writer
from core.model import Key, Raw
from core.state import queue_status
from core.wire.finalizers import kept, released

INTERVAL_SECONDS = 0.3
WORKERS = 16


class QueueStatuses:
    """Owns the work queue of the objects to look at. ``run`` for as long as we lead; ``changed`` says what changed."""

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
        """Something that the status of this object tells may have changed."""
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
        if resource == resources.ADMISSION_CHECKS:
            await self._finalize(resource, key, kept(raw))  # others have it from the webhook
            return None
        wanted = self._status(resource, key, raw)
        if wanted is not None and (changes := difference(raw.get("status") or {}, wanted)):
            patch: Raw = {"metadata": {"uid": raw["metadata"]["uid"]}, "status": changes}
            try:
                await self.writer.patch(resource, key, patch, subresource="status")
            except NotFound:  # gone meanwhile; the watch will say so
                return None
            self._written_at[item] = self._monotonic()
        return None

    def _status(self, resource: Resource, key: Key, raw: Raw) -> Raw | None:
        state, old = self.caches.state, raw.get("status") or {}
        if resource == resources.CLUSTER_QUEUES and key.name in state.holdings.cluster_queues:
            return queue_status.cluster_queue_status(state, key.name, old, self.clock())
        if resource == resources.LOCAL_QUEUES and key in state.lines.local_queues:
            return queue_status.local_queue_status(state, key, old, self.clock())
        if resource == resources.COHORTS and key.name in state.holdings.cohorts:
            return queue_status.cohort_status(state, key.name)
        return None

    def _in_use(self, resource: Resource, key: Key) -> bool:
        """Whether it is needed still: quota is held in the ClusterQueue, or a ClusterQueue has the flavor or check."""
        if resource == resources.CLUSTER_QUEUES:
            return bool(queue_status.reservations(self.caches.state, key.name))
        if resource == resources.RESOURCE_FLAVORS:
            return bool(self.caches.cluster_queues.by_index("flavor", key.name))
        if resource == resources.ADMISSION_CHECKS:
            return bool(self.caches.cluster_queues.by_index("check", key.name))
        return False

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
