"""How good the forecasts of a workload were, judged when it starts: that at its creation, that at half of its wait, and
the last one.

Separate from the metrics, which count it, because the bench judges by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from core.model.forecast import StartForecast

Moment = Literal["create", "half", "last"]
MOMENTS: Final[tuple[Moment, ...]] = ("create", "half", "last")
KEPT: Final = 8
"""So many forecasts of a workload are kept; of more every other one in between is forgotten."""
SHORT_WAIT_SECONDS: Final = 10.0
"""A shorter wait is not judged: an error of a second would be large."""


class PastForecast(NamedTuple):
    """A forecast that was made ``at`` a time, as times: epoch seconds."""

    at: float
    p10: float
    p50: float
    p90: float
    computed: float
    """The seconds that were computed, before they were corrected (``core.forecast.calibration``)."""


class Verdict(NamedTuple):
    """The error of a forecast as a part of the wait, without sign, and whether the start was in its interval."""

    moment: Moment
    error: float
    inside: bool


class Record:
    """The forecasts of one workload, the first and the last always."""

    __slots__ = ("_forecasts",)

    def __init__(self) -> None:
        self._forecasts: list[PastForecast] = []

    def add(self, start: StartForecast, computed: float | None = None) -> None:
        """Keeps a forecast whose interval is known; ``computed`` are the seconds before they were corrected."""
        if start.p10 is None or start.p50 is None or start.p90 is None:
            return
        seconds = start.p50 if computed is None else computed
        forecast = PastForecast(start.at, start.at + start.p10, start.at + start.p50, start.at + start.p90, seconds)
        if self._forecasts and forecast.at < self._forecasts[-1].at:
            return
        if len(self._forecasts) > 1 and forecast.at == self._forecasts[-1].at:
            self._forecasts.pop()
        self._forecasts.append(forecast)
        if len(self._forecasts) > KEPT:
            self._forecasts[1:-1] = self._forecasts[1:-1:2]

    def verdicts(self, created: float, started: float) -> Iterator[Verdict]:
        """Judges the forecasts of a workload that was created and has started at these times; no forecast that was made
        later than half of the wait counts as one at creation.
        """
        wait = started - created
        if wait < SHORT_WAIT_SECONDS or not self._forecasts:
            return
        half = created + wait / 2
        if self._forecasts[0].at <= half:
            yield _verdict("create", self._forecasts[0], started, wait)
            before = [forecast for forecast in self._forecasts if forecast.at <= half]
            yield _verdict("half", before[-1], started, wait)
        yield _verdict("last", self._forecasts[-1], started, wait)

    def outcomes(self, started: float) -> Iterator[tuple[float, bool]]:
        """Returns of each forecast that is kept the seconds that were computed, and whether the start was inside."""
        for forecast in self._forecasts:
            yield forecast.computed, _verdict("last", forecast, started, 1.0).inside

    def multiples(self, started: float) -> Iterator[tuple[float, float]]:
        """Returns the seconds that were computed and those that it took, from each forecast that is kept."""
        for forecast in self._forecasts:
            yield forecast.computed, started - forecast.at


def _verdict(moment: Moment, forecast: PastForecast, started: float, wait: float) -> Verdict:
    """Times of the API are whole seconds, so a start may be a second outside of an interval and count as in it."""
    inside = forecast.p10 - 1.0 <= started <= forecast.p90 + 1.0
    return Verdict(moment, abs(forecast.p50 - started) / wait, inside)
