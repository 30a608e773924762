"""How long a job will probably wait, from how long others of its queue did. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from seiretsu.client.state import condition_of

Raw = dict[str, Any]

FEWEST: Final = 5
"""Fewer known waits than these give no estimate."""


@dataclass(frozen=True)
class Forecast:
    """When the server expects a job to start, in seconds from when it was asked: half of such starts are within
    ``median``, one of ten within ``p10``, nine of ten within ``p90`` (both None while the forecast is new). It is
    ``age`` seconds old.
    """

    median: float
    p10: float | None
    p90: float | None
    age: float

    def __str__(self) -> str:
        if self.p10 is None or self.p90 is None:
            return f"about {_words(self.median)}"
        return f"about {_words(self.median)} ({_words(self.p10)} to {_words(self.p90)})"


def forecast(raw: Raw | None) -> Forecast | None:
    """Returns the forecast in an answer of the visibility API; None while the start is not known."""
    if raw is None or "p50Seconds" not in raw:
        return None
    return Forecast(raw["p50Seconds"], raw.get("p10Seconds"), raw.get("p90Seconds"), raw["ageSeconds"])


@dataclass(frozen=True)
class Estimate:
    """How many seconds longer a job will wait: half of those like it started within ``median``, nine of ten within
    ``p90``; ``samples`` is how many these were.
    """

    median: float
    p90: float
    samples: int

    def __str__(self) -> str:
        return (
            f"about {_words(self.median)}, with 90 % certainty within {_words(self.p90)} "
            f"(from {self.samples} jobs of this queue that waited at least as long)"
        )


def estimate(waited: float, waits: Iterable[float]) -> Estimate | None:
    """Returns the estimate for a job that has waited for so many seconds, None where too little is known.

    Only jobs that had to wait at least as long say something about it.
    """
    longer = sorted(each - waited for each in waits if each >= waited)
    if len(longer) < FEWEST:
        return None
    last = len(longer) - 1
    return Estimate(longer[last // 2], longer[-(-last * 9 // 10)], len(longer))


def waits(workloads: Iterable[Raw], queue: str) -> list[float]:
    """Returns how many seconds each Workload of a LocalQueue waited from its creation to its first admission.

    One that was evicted is left out: its condition has the time of its last admission.
    """
    mine = (each for each in workloads if each["spec"].get("queueName") == queue)
    known = ((each["metadata"]["creationTimestamp"], condition_of(each, "Admitted")) for each in mine if _steady(each))
    return [
        max(0.0, epoch(since["lastTransitionTime"]) - epoch(created))
        for created, since in known
        if since.get("status") == "True"
    ]


def epoch(timestamp: str) -> float:
    """A timestamp of the API in seconds since 1970."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def _steady(workload: Raw) -> bool:
    return not condition_of(workload, "Evicted")


def _words(duration: float) -> str:
    if duration < 120:
        return f"{round(duration)} s"
    minutes = round(duration / 60)
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"
