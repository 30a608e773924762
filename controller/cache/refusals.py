"""Which refusals of an API server were reported: one whose message differs each time is not reported each time.

Kept in memory: after a restart a refusal is reported once more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from api.objects import Key

REPORT_SECONDS = 600.0
"""After this time a refusal of the same kind with another message is reported again."""


class Refusals:
    """When refusals were reported last, by the key of their Workload or job and their kind."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reported: dict[Key, dict[Hashable, float]] = {}

    def due(self, key: Key, kind: Hashable) -> bool:
        """Whether a refusal of this kind is to be reported now, which is remembered."""
        kinds, now = self._reported.setdefault(key, {}), self._clock()
        if now - kinds.get(kind, float("-inf")) < REPORT_SECONDS:
            return False
        kinds[kind] = now
        return True

    def forget(self, key: Key) -> None:
        """Forgets what was reported of a Workload or job: it is gone, or its object was taken."""
        self._reported.pop(key, None)
