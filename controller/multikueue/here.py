"""Writes about a Workload in this cluster, as ``core.multikueue.here`` decides."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

import structlog

from api import resources
from api.objects import Key
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.reconciler import Reconciler
from controller.cache.writes import Writer
from controller.metrics.counters import QueueingMetrics
from controller.multikueue.choices import Choices
from controller.multikueue.groups import Groups
from controller.multikueue.siblings import SiblingIndex
from core.actions import Action, Patch, Write, Writes
from core.multikueue import here
from core.multikueue.group import Group

log = structlog.get_logger(__name__)


class ManagerReconciler(Reconciler[Group]):
    """Reconciles Workloads in the cluster of the manager. Groups of one object are decided one by one."""

    workers = 20

    def __init__(
        self,
        caches: Caches,
        groups: Groups,
        siblings: SiblingIndex,
        choices: Choices,
        writer: Writer,
        recorder: Recorder,
        metrics: QueueingMetrics,
        clock: Callable[[], float],
    ) -> None:
        super().__init__("multikueue", resources.WORKLOADS, writer, recorder, clock=clock)
        self._caches = caches
        self._groups = groups
        self._siblings = siblings
        self._choices = choices
        self._metrics = metrics

    def gather(self, key: Key) -> Group | None:
        """What is known of a Workload here and in its workers; None while a reservation of it is written."""
        group = self._groups.group(key)
        if group.local is None or self._caches.state.assumed(key):
            return None
        return self._groups.with_never(group) if group.raw is not None and group.unassigned else group

    def decide(self, situation: Group) -> Action:
        """The next write about a Workload in this cluster."""
        return here.decide(situation)

    def about(self, situation: Group) -> tuple[Key, str]:
        """The Workload."""
        assert situation.local is not None
        return situation.local.key, situation.local.uid

    @contextlib.asynccontextmanager
    async def turn(self, key: Key, *, first: bool) -> AsyncIterator[None]:
        """Groups of one object are decided one by one: each decision knows where the others are."""
        async with self._siblings.one_by_one(key), super().turn(key, first=first):
            yield

    async def written(self, key: Key, situation: Group, action: Write | Writes) -> None:
        """Logs and counts what was decided about the Workload."""
        if not isinstance(action, Patch) or action.after is None or situation.local is None:
            return
        admission, worker = situation.local.admission, action.after.cluster_name if action.why == "admit" else ""
        log.info("multikueue workload", workload=str(key), why=action.why, worker=worker)
        if action.why == "nominate":
            self._choices.rounds[key] = self.clock()
        if worker and admission is not None:
            self._metrics.admitted_by_worker(admission.cluster_queue, worker)
