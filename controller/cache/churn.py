"""Backoff for an object that is created again and again, whatever deletes it.

Two objects that use one Workload name, a program that deletes what it does not know, or a mistake of ours: each creates
and deletes without end, as fast as the API server answers. The writer of each cluster counts what it creates, and every
reconciler asks before it creates. Nothing is written for it, and a new process begins with an empty record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from api.objects import Key, Resource
from controller.kube.log import get_logger

log = get_logger(__name__)

FREE: Final = 5
"""So many creations of one object are not delayed: a job that is requeued or resized needs a few."""
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
FORGOTTEN_SECONDS: Final = 300.0
"""An object that was not created for so long begins anew."""


@dataclass(slots=True)
class _Created:
    times: int
    last: float


@dataclass(slots=True)
class Churn:
    """How often each object was created lately. ``clock`` is in seconds."""

    clock: Callable[[], float] = time.monotonic
    _created: dict[tuple[Resource, Key], _Created] = field(default_factory=dict)

    def wait(self, resource: Resource, key: Key) -> float:
        """After how many seconds this object may be created again; 0 for now."""
        known = self._created.get((resource, key))
        if known is None or known.times < FREE:
            return 0.0
        delay = min(FIRST_SECONDS * 2.0 ** min(known.times - FREE, 10), LONGEST_SECONDS)
        return max(0.0, known.last + delay - self.clock())

    def times(self, resource: Resource, key: Key) -> int:
        """How often this object was created, if the next creation is delayed; else 0."""
        known = self._created.get((resource, key))
        return known.times if known is not None and known.times >= FREE else 0

    def created(self, resource: Resource, key: Key) -> None:
        """Records a creation."""
        now, which = self.clock(), (resource, key)
        known = self._created.pop(which, None)
        again = known is not None and now - known.last < FORGOTTEN_SECONDS
        times = known.times + 1 if known is not None and again else 1
        self._created[which] = _Created(times, now)  # the one that was created last is the last in order
        while now - self._created[oldest := next(iter(self._created))].last >= FORGOTTEN_SECONDS:
            del self._created[oldest]
        if times >= FREE:
            log.warning("object is created again and again", resource=resource.plural, key=str(key), times=times)
