"""Corrects forecasts by how the last ones turned out.

A forecast knows the run times of what runs and waits, and not who arrives, whose job is deleted or how long pods take
to stop. All of that shows in one number, which is remembered for each start: the time that it took, as a multiple of
the time that was forecast. Its quantiles shift and widen the next forecasts, so that of ten intervals eight are right
even where the world does what no run shows. Where forecasts were right they stay as they are.

Intervals are wider besides, by as much as it takes that eight of ten starts were inside lately: after a start outside
of its interval the next ones are wider, after four inside they are as wide as before.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from msgspec.structs import replace

from core.forecast.run_times import quantile
from core.model.forecast import StartForecast

KEPT: Final = 300
"""So many starts are remembered, of forecasts that were about as long."""
FEWEST: Final = 10
"""With fewer of them nothing is corrected."""
SHORTEST_SECONDS: Final = 30.0
"""A shorter forecast is not remembered, and not corrected: its multiple says little."""
LEAST, MOST = 0.1, 10.0
OUTSIDE: Final = 0.2
"""So many starts may be outside of their interval."""
STEP: Final = 0.1
WIDEST: Final = 8.0


def _like(expected: float) -> int:
    """Forecasts of half a minute, of two, of eight and so on turn out differently."""
    return int(math.log(expected / SHORTEST_SECONDS, 4))


class Calibration:
    """The multiples of the last starts."""

    def __init__(self) -> None:
        self._multiples: dict[int, deque[float]] = {}
        self._known: dict[int, tuple[float, float, float]] = {}
        self._width: dict[int, float] = {}

    def add(self, expected: float, took: float) -> None:
        """A workload that was expected to start after so many seconds took so many."""
        if expected >= SHORTEST_SECONDS:
            like = _like(expected)
            self._multiples.setdefault(like, deque(maxlen=KEPT)).append(min(max(took / expected, LEAST), MOST))
            self._known.pop(like, None)

    def judge(self, expected: float, *, inside: bool) -> None:
        """A workload that was expected to start after so many seconds started inside of its interval, or outside."""
        if expected >= SHORTEST_SECONDS:
            like = _like(expected)
            wider = STEP * ((0.0 if inside else 1.0) - OUTSIDE)
            self._width[like] = min(max(self._width.get(like, 1.0) * math.exp(wider), 1.0), WIDEST)

    def quantiles(self, expected: float) -> tuple[float, float, float] | None:
        """p10, p50 and p90 of the multiples of forecasts that were about as long; None while too few are known."""
        like = _like(expected)
        known = self._multiples.get(like, ())
        if like not in self._known and len(known) >= FEWEST:
            ordered = sorted(known)
            self._known[like] = quantile(ordered, 0.1), quantile(ordered, 0.5), quantile(ordered, 0.9)
        return self._known.get(like)

    def corrected(self, start: StartForecast) -> StartForecast:
        """Returns the forecast as it is shown, corrected by those that were judged."""
        if start.p50 is None or start.p50 < SHORTEST_SECONDS:
            return start
        found = self.quantiles(start.p50)
        if found is None:
            return start
        low, middle, high = found
        width, median = self._width.get(_like(start.p50), 1.0), start.p50 * middle
        return replace(
            start,
            p10=None if start.p10 is None else _further(min(start.p10 * middle, start.p50 * low), median, width),
            p50=median,
            p90=None if start.p90 is None else _further(max(start.p90 * middle, start.p50 * high), median, width),
        )


def _further(end: float, median: float, width: float) -> float:
    """Returns the end of an interval that is so many times as wide, in multiples of the median."""
    return end if width == 1.0 or median <= 0 else median * (end / median) ** width
