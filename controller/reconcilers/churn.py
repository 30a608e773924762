"""Backoff for a Workload that is created again and again, whatever deletes it.

Two objects that use one Workload name, a program that deletes what it does not know, or a mistake of ours: each creates
and deletes without end, as fast as the API server answers. Every reconciler that creates Workloads asks here first.
Nothing is written for it, and a new process begins with an empty record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from core.model import Key

log = structlog.get_logger(__name__)

FREE: Final = 5
"""So many creations of one Workload are not delayed: a job that is requeued or resized needs a few."""
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
FORGOTTEN_SECONDS: Final = 300.0
"""A Workload that was not created for so long begins anew."""


@dataclass(slots=True)
class _Created:
    times: int
    last: float


@dataclass(slots=True)
class Churn:
    """How often each Workload was created lately. ``clock`` is in seconds."""

    clock: Callable[[], float] = time.monotonic
    _created: dict[Key, _Created] = field(default_factory=dict)

    def wait(self, workload: Key) -> float:
        """After how many seconds this Workload may be created again; 0 for now."""
        known = self._created.get(workload)
        if known is None or known.times < FREE:
            return 0.0
        delay = min(FIRST_SECONDS * 2.0 ** min(known.times - FREE, 10), LONGEST_SECONDS)
        return max(0.0, known.last + delay - self.clock())

    def created(self, workload: Key) -> int:
        """Records a creation. Returns how many there were, if the next one is delayed; else 0."""
        now = self.clock()
        known = self._created.pop(workload, None)
        again = known is not None and now - known.last < FORGOTTEN_SECONDS
        times = known.times + 1 if known is not None and again else 1
        self._created[workload] = _Created(times, now)  # the one that was created last is the last in order
        while now - self._created[oldest := next(iter(self._created))].last >= FORGOTTEN_SECONDS:
            del self._created[oldest]
        if times < FREE:
            return 0
        log.warning("workload is created again and again", workload=str(workload), times=times)
        return times
