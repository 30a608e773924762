"""How long a workload runs: a distribution, of which each run of a forecast takes one value.

Separate from ``core.forecast.learned``, which is one source of them: a simulation knows them, ``when`` is given one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from api.names import Condition
from core.model import Workload

KNOWN, LIMIT = "known run times", "maximumExecutionTimeSeconds alone"


class RunTime(Struct, frozen=True, gc=False):
    """How many more seconds a workload runs: ``quantiles`` in ascending order and at equal steps from the shortest to
    the longest; none if nothing is known. ``rests_on`` is the source, for people. Workloads ``like`` each other are
    long or short together by the part ``together`` (0 to 1): what few of them have taught may be wrong for all.
    """

    quantiles: tuple[float, ...] = ()
    rests_on: str = ""
    like: str = ""
    together: float = 0.0

    @property
    def known(self) -> bool:
        """Whether anything is known."""
        return bool(self.quantiles)

    @property
    def exact(self) -> bool:
        """Whether it is one value."""
        return bool(self.quantiles) and self.quantiles[0] == self.quantiles[-1]

    @property
    def median(self) -> float:
        """The run time that half of such workloads do not exceed; without end if nothing is known."""
        return self.at(0.5) if self.quantiles else math.inf

    def at(self, part: float) -> float:
        """Returns the run time that this part (0 to 1) of such workloads does not exceed. It must be known."""
        last = len(self.quantiles) - 1
        place = part * last
        below = min(int(place), last)
        above = min(below + 1, last)
        low, high = self.quantiles[below], self.quantiles[above]
        return low + (high - low) * (place - below)

    def capped(self, limit: float | None) -> RunTime:
        """Returns the same with no value above the limit; with nothing known any value up to it, in equal parts."""
        if limit is None:
            return self
        if not self.quantiles:
            return RunTime((0.0, limit), LIMIT)
        return replace(self, quantiles=tuple(min(value, limit) for value in self.quantiles))


UNKNOWN: Final = RunTime()
RunTimes = Callable[[Workload, float], RunTime]
"""Returns how much longer a workload runs that has run for so many seconds; 0 for one that waits."""


def constant(seconds: float, rests_on: str = KNOWN) -> RunTimes:
    """Every workload runs for so many more seconds, however long it has run."""
    found = RunTime((seconds,), rests_on)
    return lambda workload, elapsed: found


def elapsed(workload: Workload, now: float) -> float:
    """Returns for how many seconds a workload has run; 0 if it is not admitted."""
    admitted = workload.condition(Condition.ADMITTED) or workload.condition(Condition.QUOTA_RESERVED)
    return max(0.0, now - admitted.since) if admitted is not None and admitted.status else 0.0


def limit(workload: Workload, ran: float) -> float | None:
    """Returns how many more seconds it may run (``maximumExecutionTimeSeconds``); None without a limit."""
    if workload.max_execution is None:
        return None
    return max(0.0, workload.max_execution - (workload.past_execution or 0) - ran)


def rest_of(workload: Workload, now: float, run_times: RunTimes) -> RunTime:
    """Returns how much longer a workload runs, within its limit: what plays a cluster forward takes it from here."""
    ran = elapsed(workload, now)
    return run_times(workload, ran).capped(limit(workload, ran))


def either(first: RunTimes, other: RunTimes) -> RunTimes:
    """Returns run times of the first source, and of the other one where the first knows nothing."""

    def remaining(workload: Workload, ran: float) -> RunTime:
        found = first(workload, ran)
        return found if found.known else other(workload, ran)

    return remaining


def known(seconds: Callable[[Workload], float | None]) -> RunTimes:
    """Run times that are known in total, or not at all."""

    def remaining(workload: Workload, ran: float) -> RunTime:
        total = seconds(workload)
        return UNKNOWN if total is None else RunTime((max(0.0, total - ran),), KNOWN)

    return remaining


def quantile(ordered: Sequence[float], part: float) -> float:
    """Returns a quantile of values in ascending order, between two of them where that is so."""
    return RunTime(tuple(ordered)).at(part)
