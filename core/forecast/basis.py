"""What the past says about the next hours: all that a forecast needs beside the situation itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from core.forecast.arrivals import NOBODY, ArrivalRates
from core.forecast.run_times import UNKNOWN, RunTimes
from core.forecast.situation import Situation
from core.model.forecast import StartForecast
from core.workload.actions import LifePolicy


@dataclass(frozen=True, slots=True)
class Basis:
    """How long workloads run, who is taken to arrive in a situation, and how a forecast is corrected by how the last
    ones turned out.
    """

    run_times: RunTimes = lambda workload, ran: UNKNOWN
    rates: Callable[[Situation], ArrivalRates] = lambda about: NOBODY
    corrected: Callable[[StartForecast], StartForecast] = lambda start: start
    life: LifePolicy = field(default_factory=LifePolicy)
