"""The lifecycle of Workloads outside of the cycle and their jobs: checks, stopped queues, backoff, timeouts,
deactivation, retention.

Collects input (from stores only), calls ``core.workload.lifecycle.next_step``, and applies one write, whose change
queues the Workload again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import assert_never

import structlog

from api import names, resources
from controller.caches import Caches
from controller.departures import Departures
from controller.events import Recorder
from controller.kube.errors import NotFound
from controller.kube.workqueue import WorkQueue
from controller.settings import Settings
from controller.writes import Writer
from core.jobs.release import holds_quota
from core.model import Key, Raw, Workload, events
from core.state.surroundings import surroundings
from core.wire.finalizers import released
from core.wire.guard import guarded
from core.workload.actions import Deactivate, Delete, Evict, Idle, LifecycleAction, ReleaseOrphan, Update
from core.workload.lifecycle import next_step
from core.workload.priority import Missing, followed

log = structlog.get_logger(__name__)

WORKERS = 20
SOON_SECONDS = 0.05


class WorkloadReconciler:
    """Reconciles every Workload, regardless of its owner. ``run`` while this process leads; call ``changed`` with each
    change.
    """

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.recorder = recorder
        self.settings = settings
        self.clock = clock
        self.departures = Departures(caches, writer, clock)
        self.queue = WorkQueue[Key]("workloads", longest_seconds=30.0)

    def changed(self, key: Key) -> None:
        """Queues this Workload."""
        self.queue.add(key)

    def changed_soon(self, key: Key) -> None:
        """Queues this Workload after the scheduler has handled the same change, which may be all that is needed."""
        self.queue.add_after(key, SOON_SECONDS)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self.queue.run(WORKERS, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        """Bring one Workload one step on. Returns when to look again, in seconds."""
        workload = self.caches.get(key)
        if workload is None or self.caches.state.assumed(key):  # a reservation is being written
            return None
        if await self._followed(key):
            return None  # the answer is a change: it is queued again
        step = self._next(workload)
        if isinstance(step, Idle):
            return step.requeue_after
        if isinstance(step, ReleaseOrphan):
            raw = self.caches.workloads.get(key)
            return await self.departures.release(raw) if raw is not None else None
        async with self.writer.turn(key.namespace, first=holds_quota(workload)):
            if self.caches.get(key) is not workload or self.caches.state.assumed(key):
                self.changed(key)  # it is decided again
                return None
            step = self._next(workload)  # its queue or a check may have changed while it waited
            if isinstance(step, (Idle, ReleaseOrphan)):
                self.changed(key)
                return None
            with contextlib.suppress(NotFound):  # it was deleted meanwhile; the watch will report it
                await self._apply(workload, step)
        return None

    def _next(self, workload: Workload) -> LifecycleAction:
        return next_step(workload, surroundings(self.caches.state, workload, self.clock(), self.settings.life))

    async def _followed(self, key: Key) -> bool:
        """Updates the priority of a Workload without a supported job from its WorkloadPriorityClass; returns whether
        that was a write.

        A job copies its class with its label (``core.jobs.decide``).
        """
        raw = self.caches.workloads.get(key)
        if raw is None or self.caches.controlled(raw):
            return False
        patch = followed(raw, "", self.caches.classes)
        if patch is None or isinstance(patch, Missing):
            return False
        await self.writer.patch(resources.WORKLOADS, key, guarded(patch, raw))
        return True

    async def _apply(self, workload: Workload, step: Update | Evict | Deactivate | Delete) -> None:
        match step:
            case Update():
                await self._patch(workload, step.patch, "status")
                self._updated(workload, step)
            case Evict():
                await self._patch(workload, step.patch, "status")
                self._evicted(workload, step)
            case Deactivate():
                await self._patch(workload, step.patch)
            case Delete():
                await self._release(workload)
                await self.writer.delete(resources.WORKLOADS, workload.key, workload.uid)
                self._tell(workload, events.deleted_finished())
            case _:
                assert_never(step)

    async def _patch(self, workload: Workload, patch: Raw, subresource: str = "") -> None:
        await self.writer.patch(resources.WORKLOADS, workload.key, patch, subresource=subresource)

    async def _release(self, workload: Workload) -> None:
        """Removes the finalizer from the version of the object that was found to be finished."""
        raw = self.caches.workloads.get(workload.key)
        patch = released(raw) if raw is not None else None
        if patch is not None:
            await self._patch(workload, patch)

    def _updated(self, workload: Workload, step: Update) -> None:
        log.info("workload status", workload=str(workload.key), why=step.why)
        match step.why:
            case "admit":
                self._tell(workload, events.admitted_by_checks(step.after, self.clock()))
            case "gate":
                self._tell(workload, events.Event(events.NORMAL, names.Event.ADMISSION_GATED, step.message))
            case "ungate":
                self._tell(workload, events.gate_cleared())
            case "reject":
                self._tell(workload, events.failed(names.Event.ADMISSION_CHECK_REJECTED, step.message))
            case "replaced":
                reason = names.FinishedReason.WORKLOAD_SLICE_REPLACED
                self._tell(workload, events.Event(events.NORMAL, reason, step.message))
            case "overtime":
                reason = names.Event.MAXIMUM_EXECUTION_TIME_EXCEEDED
                self._tell(workload, events.failed(reason, step.message))

    def _evicted(self, workload: Workload, step: Evict) -> None:
        log.info("workload evicted", workload=str(workload.key), reason=step.reason, cause=step.cause)
        self._tell(workload, events.evicted(step.reason, step.message, step.cause))

    def _tell(self, workload: Workload, event: events.Event) -> None:
        self.recorder.tell(resources.WORKLOADS, workload.key, workload.uid, event)
