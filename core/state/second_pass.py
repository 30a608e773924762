"""The workloads that hold quota and wait to be placed in a topology, with the times at which that is tried.

Separate from the queues: they are heads in addition to those. A try that fails is repeated after 1 s, 2 s, 4 s and so
on, at most 30 s. Source: KEP 2724 (two-phase admission).
"""

from __future__ import annotations

import heapq

from core.model import Key

FIRST, LONGEST = 1.0, 30.0
"""Seconds before the first try, and the most before another one."""


class SecondPass:
    """By workload, how often it was tried and when it is tried next."""

    def __init__(self) -> None:
        self._due: dict[Key, tuple[float, int]] = {}
        self._times: list[tuple[float, Key]] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def add(self, key: Key, now: float) -> None:
        """Adds a workload, if it is not there yet."""
        if key not in self._due:
            self._set(key, now + FIRST, 0)

    def failed(self, key: Key, now: float) -> None:
        """A try failed: there is another one later."""
        if key in self._due:
            tries = self._due[key][1] + 1
            self._set(key, now + min(FIRST * 2.0 ** min(tries, 10), LONGEST), tries)

    def discard(self, key: Key) -> None:
        """The workload needs no second pass any more."""
        self._due.pop(key, None)

    def due(self, now: float) -> list[Key]:
        """Returns the workloads that are tried now, in order."""
        return sorted(key for key, (at, _) in self._due.items() if at <= now) if self._due else []

    def next(self) -> float | None:
        """Returns the earliest time of a try; None if no workload waits for one."""
        while self._times and self._due.get(self._times[0][1], (None, 0))[0] != self._times[0][0]:
            heapq.heappop(self._times)
        return self._times[0][0] if self._times else None

    def _set(self, key: Key, at: float, tries: int) -> None:
        self._due[key] = (at, tries)
        heapq.heappush(self._times, (at, key))
