"""The workloads that hold quota and wait to be placed in a topology, with the times at which that is tried.

Separate from the queues: they are heads in addition to those. A try that fails is repeated after 1 s, 2 s, 4 s and so
on, at most 30 s, and before that when there is more room: a second after the last try at the earliest, so that a burst
of changes causes one try. What was refused is not repeated earlier, whatever changes. Source: KEP 2724 (two-phase
admission), which repeats by time alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

from core.model import Key

FIRST, LONGEST = 1.0, 30.0
"""Seconds before the first try, and between two that a change causes; and the most before another one."""


class _Try(NamedTuple):
    """The next try: when it is due, how many have failed before it, and how early a change may cause it."""

    at: float
    failed: int
    earliest: float


class SecondPass:
    """By workload, how often it was tried and when it is tried next."""

    def __init__(self) -> None:
        self._due: dict[Key, _Try] = {}
        self._times: list[tuple[float, Key]] = []
        self._asleep: dict[Key, None] = {}
        """Those whose next try a change would cause earlier."""

    def __bool__(self) -> bool:
        """Whether any workload waits for a second pass."""
        return bool(self._due)

    def __contains__(self, key: Key) -> bool:
        return key in self._due

    def add(self, key: Key, now: float) -> None:
        """Adds a workload, if it is not there yet."""
        if key not in self._due:
            self._set(key, _Try(now + FIRST, 0, now + FIRST))

    def failed(self, key: Key, now: float, not_before: float = 0.0) -> None:
        """A try failed: there is another one later, not before this time."""
        if key in self._due:
            tries = self._due[key].failed + 1
            at = now + min(FIRST * 2.0 ** min(tries, 10), LONGEST)
            self._set(key, _Try(max(at, not_before), tries, max(now + FIRST, not_before)))

    def wake(self, concerned: Callable[[Key], bool]) -> None:
        """There is more room for these workloads: their next try is as early as it may be. Costs nothing for those that
        were woken before and not tried since.
        """
        for key in [each for each in self._asleep if concerned(each)]:
            self._set(key, self._due[key]._replace(at=self._due[key].earliest))

    def discard(self, key: Key) -> None:
        """The workload needs no second pass any more."""
        self._due.pop(key, None)
        self._asleep.pop(key, None)

    def due(self, now: float) -> list[Key]:
        """Returns the workloads that are tried now, in order."""
        return sorted(key for key, each in self._due.items() if each.at <= now) if self._due else []

    def next(self) -> float | None:
        """Returns the earliest time of a try; None if no workload waits for one."""
        while self._times and ((found := self._due.get(self._times[0][1])) is None or found.at != self._times[0][0]):
            heapq.heappop(self._times)
        return self._times[0][0] if self._times else None

    def _set(self, key: Key, next_try: _Try) -> None:
        self._due[key] = next_try
        heapq.heappush(self._times, (next_try.at, key))
        if next_try.at > next_try.earliest:
            self._asleep[key] = None
        else:
            self._asleep.pop(key, None)
