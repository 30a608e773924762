"""The condition Active of AdmissionChecks: whether their controller can decide them."""

from __future__ import annotations

import time
from collections.abc import Callable

from api import resources
from api.objects import Key, Raw, key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.reconciler import Reconciler
from controller.cache.writes import Writer
from core.actions import Action, Patch, Wait
from core.jobs import meta
from core.wire import active
from core.wire.active import Active, decided_by


class CheckConditions(Reconciler[Raw]):
    """Reconciles the AdmissionChecks with one ``controllerName``, for which ``wanted`` returns the condition. ``run``
    it while this process leads.
    """

    workers = 1

    def __init__(
        self,
        name: str,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        *,
        controller: str,
        wanted: Callable[[Raw], Active],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(name, resources.ADMISSION_CHECKS, writer, recorder, clock=clock)
        self.store = caches.stores[resources.ADMISSION_CHECKS]
        self._controller = controller
        self._wanted = wanted

    def everything(self) -> None:
        """Queues all checks."""
        for raw in self.store:
            self.queue.add(key_of(raw))

    def gather(self, key: Key) -> Raw | None:
        """The check, if it is one of this controller."""
        raw: Raw | None = self.store.get(key)
        return raw if raw is not None and decided_by(raw, self._controller) else None

    def decide(self, situation: Raw) -> Action:
        """The write of the condition, if it is another one."""
        patch = active.patch(situation, self._wanted(situation), self.clock())
        return Patch(patch, "status", why="active") if patch is not None else Wait()

    def about(self, situation: Raw) -> tuple[Key, str]:
        """The check."""
        return key_of(situation), meta.uid(situation)
