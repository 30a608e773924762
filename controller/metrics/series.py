"""Updates the counters from changes of the caches: counts transitions of Workloads, removes the series of deleted
queues.

Connected only on the leader, so that a sum over all replicas counts everything once. Earlier transitions are not
counted: after a restart or a change of leader counters begin at zero, as Prometheus allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from api.metrics.families import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE
from api.objects import Raw, key_of
from controller.cache.caches import Caches
from controller.metrics.counters import QueueingMetrics
from core.model import Key, Workload
from core.workload.milestones import milestones


class Series:
    """Listens from ``connect`` on."""

    def __init__(self, caches: Caches, metrics: QueueingMetrics, *, clock: Callable[[], float] = time.time) -> None:
        self.caches = caches
        self.metrics = metrics
        self.clock = clock

    def connect(self) -> None:
        """Connects the listeners. To be called after ``Caches.start``, so that the present state is not counted."""
        self.caches.observers.append(self._workload)
        self.caches.cluster_queues.listen(partial(self._gone, CLUSTER_QUEUE))
        self.caches.local_queues.listen(partial(self._gone, LOCAL_QUEUE))
        self.caches.cohorts.listen(partial(self._gone, COHORT))

    def _workload(self, old: Workload | None, new: Workload | None) -> None:
        if old is None or new is None or new.parent:  # its variants are counted
            return
        for milestone in milestones(old, new, self.clock()):
            self.metrics.happened(new, milestone)

    def _gone(self, kind: str, old: Raw | None, new: Raw | None) -> None:
        if old is None or new is not None:
            return
        self.metrics.forget(kind, key_of(old))
        cohort = (old.get("spec") or {}).get("cohortName", "")
        if kind == CLUSTER_QUEUE and cohort and not self._has_members(cohort):
            self.metrics.forget(COHORT, Key("", cohort))

    def _has_members(self, cohort: str) -> bool:
        """Whether there is a Cohort of the name, or one that is only named by its members."""
        known = self.caches.state.reservations.hierarchy
        return cohort in known.cohorts or bool(known.members(cohort) or known.children(cohort))
