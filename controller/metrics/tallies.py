"""Counts of Workloads for gauges that would otherwise visit all of them: finished ones, and those that are not
admitted, by reason.

Updated with each change of a Workload, by LocalQueue: its ClusterQueue is looked up at the scrape, because it may
change.
"""

from __future__ import annotations

from collections import Counter

from api.names import Condition
from core.model import Key, Workload
from core.quota.reservations import local_queue_of
from core.state.queries import why_unadmitted

ReasonKey = tuple[str, str]
"""Reason and underlying cause."""


class Tallies:
    """``changed`` observes ``Caches``."""

    def __init__(self) -> None:
        self.finished: Counter[Key] = Counter()
        self.unadmitted: dict[Key, Counter[ReasonKey]] = {}

    def changed(self, old: Workload | None, new: Workload | None) -> None:
        """Count a Workload as it is now and no longer as it was."""
        if old is not None:
            self._count(old, -1)
        if new is not None:
            self._count(new, 1)

    def _count(self, workload: Workload, difference: int) -> None:
        queue = local_queue_of(workload)
        if workload.holds(Condition.FINISHED) and not workload.variant_of:
            self.finished[queue] += difference
            if not self.finished[queue]:
                del self.finished[queue]
        why = why_unadmitted(workload)
        if why is not None:
            counts = self.unadmitted.setdefault(queue, Counter())
            counts[why] += difference
            if not counts[why]:
                del counts[why]
            if not counts:
                del self.unadmitted[queue]
