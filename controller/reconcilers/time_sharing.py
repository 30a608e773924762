"""Lowers the priority of workloads that have run for long (``core.workload.time_sharing``)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from api import resources
from api.names import Annotation
from api.objects import Raw, key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.kube.errors import Conflict, NotFound
from controller.kube.store import in_steps
from controller.kube.workqueue import WorkQueue
from core.model import Key
from core.model.events import Event
from core.workload.time_sharing import TimeSharingPolicy, decide

WORKERS = 2


class TimeSharing:
    """``connect`` and ``run`` while this process leads."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        policy: TimeSharingPolicy,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.recorder = recorder
        self.policy = policy
        self._clock = clock
        self.queue = WorkQueue[Key]("time-sharing", longest_seconds=60.0)

    def connect(self) -> None:
        """Listens to Workloads."""
        self.caches.workloads.listen(self._changed)

    def everything(self) -> Iterator[None]:
        """Queues all Workloads, in steps."""
        return in_steps(self.caches.workloads.keys(), self.queue.add)

    async def run(self) -> None:
        """Lowers priorities until cancelled."""
        await self.queue.run(WORKERS, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        """Writes the boost of one Workload; returns after how many seconds to look again."""
        raw, workload = self.caches.workloads.get(key), self.caches.get(key)
        if raw is None or workload is None:
            return None
        patch, again = decide(raw, workload, self.policy, self._clock())
        if patch is None:
            return again
        try:
            await self.writer.patch(resources.WORKLOADS, key, patch)
        except (Conflict, NotFound):
            return again  # its change queues it again
        value = patch["metadata"]["annotations"][Annotation.PRIORITY_BOOST]
        if value is None:
            event = Event("Normal", "PriorityBoostCleared", f"Cleared {Annotation.PRIORITY_BOOST}")
        else:
            text = f"Set {Annotation.PRIORITY_BOOST}={value} after time-sharing window"
            event = Event("Normal", "PriorityBoostSet", text)
        self.recorder.record(resources.WORKLOADS, key, workload.uid, event)
        return again

    def _changed(self, old: Raw | None, new: Raw | None) -> None:
        if new is not None:
            self.queue.add(key_of(new))
