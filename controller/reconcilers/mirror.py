"""Queues of v0.1: each has a LocalQueue with its name, and its status reports how many workloads wait there.

Separate from the status of LocalQueues because it creates them: no other code needs to know Queues. A LocalQueue that a
user created with the same name is not changed, but its status is copied.
"""

from __future__ import annotations

from api import resources
from api.convert.queue import local_queue, moved, status
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import AlreadyExists, NotFound
from controller.kube.workqueue import WorkQueue
from core.model import Key
from core.wire.guard import guarded

WORKERS = 1


class QueueMirror:
    """Owns the work queue of Queues. ``run`` while this process leads."""

    def __init__(self, caches: Caches, writer: Writer) -> None:
        self.caches = caches
        self.writer = writer
        self.store = caches.stores[resources.QUEUES]
        self.queue = WorkQueue[Key]("queue-mirror", longest_seconds=30.0)

    def changed(self, key: Key) -> None:
        """The Queue or the LocalQueue of this name changed."""
        if self.store.get(key) is not None:
            self.queue.add(key)

    async def run(self) -> None:
        """Mirror until cancelled."""
        await self.queue.run(WORKERS, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        """Creates the LocalQueue if there is none, updates it, or else copies its status. The garbage collector deletes
        it.
        """
        raw = self.store.get(key)
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            return None
        found = self.caches.local_queues.get(key)
        try:
            if found is None:
                if seconds := self.writer.churn.wait(resources.LOCAL_QUEUES, key):
                    return seconds  # something deletes it whenever it was created
                await self.writer.create(resources.LOCAL_QUEUES, local_queue(raw))
            elif change := moved(raw, found):
                await self.writer.patch(resources.LOCAL_QUEUES, key, change)
            elif (raw.get("status") or {}) != (wanted := status(found)):
                patch = guarded({"status": wanted}, raw, version=False)
                await self.writer.patch(resources.QUEUES, key, patch, subresource="status")
        except (AlreadyExists, NotFound):
            pass  # the watch is behind; its event will queue it again
        return None
