"""How busy the API server is, by the latency of the process's own writes.

Nothing is configured: the same rule makes a hundred deferrable writes a second at an idle API server and a few at a
busy one.
"""

import math
import time
from collections.abc import Callable, Hashable

from controller.kube.flow import limits


class _Latency:
    """The latency of one kind of write: its average, and the lowest average of two windows, in seconds."""

    __slots__ = ("average", "lowest", "lowest_before", "since")

    def __init__(self, seconds: float, now: float) -> None:
        self.average = self.lowest = seconds
        self.lowest_before = float("inf")
        self.since = now

    def add(self, seconds: float, now: float) -> None:
        self.average += limits.SMOOTHING * (seconds - self.average)
        if now - self.since > limits.IDLE_WINDOW_SECONDS:
            self.since, self.lowest_before, self.lowest = now, self.lowest, float("inf")
        self.lowest = min(self.lowest, self.average)

    @property
    def idle(self) -> float:
        return min(self.lowest, self.lowest_before, limits.HIGHEST_IDLE_SECONDS)


class Pressure:
    """``wrote`` after each write, ``refused`` for each answer 429; ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._latencies: dict[Hashable, _Latency] = {}
        self._average = 1.0
        self._at = clock()

    def wrote(self, kind: Hashable, seconds: float) -> None:
        """Records how long a write took from the call to its answer. ``kind``: writes that usually take equally long,
        for example those of one verb and resource.
        """
        now = self._clock()
        latency = self._latencies.setdefault(kind, _Latency(seconds, now))
        latency.add(seconds, now)
        self._add(seconds / max(latency.idle, limits.SHORTEST_IDLE_SECONDS))

    def refused(self) -> None:
        """Records an answer 429."""
        self._add(limits.REFUSED_SLOWDOWN)

    @property
    def slowdown(self) -> float:
        """How many times longer than at an idle API server a write takes at present; 1 if nothing is known."""
        return 1.0 + (self._average - 1.0) * self._kept()

    @property
    def interval(self) -> float:
        """Seconds between the starts of two deferrable writes."""
        slowdown = self.slowdown
        return min(limits.LONGEST_SECONDS, limits.UNIT_SECONDS * slowdown * max(0.0, slowdown - 1.0))

    def _add(self, slowdown: float) -> None:
        before, share = self.slowdown, max(limits.SMOOTHING, 1.0 - self._kept())
        self._average = before + share * (max(1.0, slowdown) - before)
        self._at = self._clock()

    def _kept(self) -> float:
        """The share of the average that is not forgotten yet."""
        return math.exp2((self._at - self._clock()) / limits.RECOVERY_SECONDS)
