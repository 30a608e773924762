"""The lifecycle of Workloads outside of the cycle and their jobs: checks, stopped queues, backoff, timeouts,
deactivation, retention. Gathers what is known of each (from stores only) for the rules of ``core.workload.lifecycle``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import structlog

from api import resources
from api.objects import key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.reconciler import Reconciler
from controller.cache.writes import Writer
from controller.reconcilers.departures import Departures
from controller.settings import ControllerSettings
from core.actions import Action, Deferred, Patch, Write, Writes
from core.jobs.release import holds_quota
from core.model import Key, Raw, Workload
from core.state.surroundings import surroundings
from core.workload.actions import Evict, ReleaseOrphan, Surroundings
from core.workload.lifecycle import next_step

log = structlog.get_logger(__name__)

SOON_SECONDS = 0.05


class Life(NamedTuple):
    """A Workload and what its life depends on."""

    workload: Workload
    raw: Raw
    around: Surroundings


class WorkloadReconciler(Reconciler[Life]):
    """Reconciles every Workload, regardless of its owner. ``run`` while this process leads; call ``changed`` with each
    change.
    """

    workers = 20

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        settings: ControllerSettings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("workloads", resources.WORKLOADS, writer, recorder, clock=clock)
        self.caches = caches
        self.settings = settings
        self.departures = Departures(caches, writer, recorder, self._is_orphan, settings.life, clock=clock)

    def changed(self, key: Key) -> None:
        """Queues this Workload."""
        self.queue.add(key)

    def changed_soon(self, key: Key) -> None:
        """Queues this Workload after the scheduler has handled the same change, which may be all that is needed."""
        self.queue.add_after(key, SOON_SECONDS)

    def gather(self, key: Key) -> Life | None:
        """What is known of a Workload; None while a reservation of it is written."""
        raw, workload = self.caches.workloads.get(key), self.caches.get(key)
        if raw is None or workload is None or self.caches.state.assumed(key):
            return None
        classes = None if self.caches.controlled(raw) else self.caches.classes
        policy, state = self.settings.life, self.caches.state
        return Life(workload, raw, surroundings(state, workload, self.clock(), policy, raw=raw, classes=classes))

    def decide(self, situation: Life) -> Action:
        """The next step of a Workload."""
        return next_step(situation.workload, situation.around)

    def about(self, situation: Life) -> tuple[Key, str]:
        """The Workload."""
        return situation.workload.key, situation.workload.uid

    def goes_first(self, situation: Life, action: Action) -> bool:
        """Workloads with quota come before those that wait for it."""
        return holds_quota(situation.workload)

    async def deferred(self, key: Key, situation: Life, action: Deferred) -> float | None:
        """Releases a Workload whose job is gone, which may need to list pods."""
        return await self.departures.reconcile(key)

    def _is_orphan(self, raw: Raw) -> bool:
        life = self.gather(key_of(raw))
        return life is not None and isinstance(self.decide(life), ReleaseOrphan)

    async def written(self, key: Key, situation: Life, action: Write | Writes) -> None:
        """Logs what happened. The answer of the write queues the Workload again."""
        if isinstance(action, Evict):
            log.info("workload evicted", workload=str(key), reason=action.reason, cause=action.cause)
        elif isinstance(action, Patch) and action.subresource:
            log.info("workload status", workload=str(key), why=action.why)
