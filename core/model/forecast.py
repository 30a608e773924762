"""When a waiting workload starts: the result of a forecast, which admission, the API and commands show.

Separate from ``core.forecast``, which computes it, because everything below that package shows it.
"""

from __future__ import annotations

from msgspec import Struct

from api.objects import Key


class StartForecast(Struct, frozen=True, gc=False):
    """The start of one waiting workload, in seconds from ``at`` (epoch seconds): one of ten starts is before ``p10``,
    half are before ``p50``, nine of ten before ``p90``. All are None where that is not known, and ``unknown`` says why.

    ``flavors`` are the most likely ones, in the order of the pod sets. ``waits_for`` is why it waits now, ``after`` the
    workload whose end lets it start. ``rests_on`` says from what the run times are known. ``coarse`` is a first answer
    for a long queue, whose times are rounded; a better one follows. ``checks`` are the AdmissionChecks that decide
    after the start of this forecast, which is the reservation of quota. ``never``: it does not start as things are.
    """

    key: Key
    cluster_queue: str
    at: float
    p10: float | None = None
    p50: float | None = None
    p90: float | None = None
    flavors: tuple[str, ...] = ()
    waits_for: str = ""
    after: Key | None = None
    unknown: str = ""
    rests_on: str = ""
    coarse: bool = False
    checks: tuple[str, ...] = ()
    never: bool = False

    @property
    def known(self) -> bool:
        """Whether there is an answer."""
        return self.p50 is not None

    def remaining(self, now: float) -> tuple[float, float, float] | None:
        """Returns p10, p50 and p90 in seconds from ``now``, at least 0; None if the start is not known."""
        if self.p10 is None or self.p50 is None or self.p90 is None:
            return None
        gone = now - self.at
        return max(0.0, self.p10 - gone), max(0.0, self.p50 - gone), max(0.0, self.p90 - gone)

    def expected(self, now: float) -> str:
        """Returns when it starts as a clause: "about 12 min (5 to 40)"; '' if the start is not known."""
        if self.p50 is None:
            return ""
        return f"about {span(max(0.0, self.p50 - (now - self.at)))} {self.between(now)}".rstrip()

    def between(self, now: float) -> str:
        """Returns the interval in which it starts, in parentheses; '' where there is none, or it is a moment."""
        ends = self.remaining(now)
        return "" if ends is None or span(ends[0]) == span(ends[2]) else interval(*ends)

    def overdue(self, now: float) -> bool:
        """Whether it has not started by the time at which nine of ten have: the forecast was wrong."""
        return self.p90 is not None and now - self.at > self.p90


def span(seconds: float) -> str:
    """Returns a duration in the unit that suits it: 90 s, 12 min, 3 h, 4 d."""
    for most, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < most:
            return f"{round(seconds / unit)} {name}"
    return f"{round(seconds / 86_400)} d"


def interval(low: float, middle: float, high: float) -> str:
    """Returns an interval in parentheses, with units only where they are not that of the value between them."""
    ends, unit = (span(low), span(high)), span(middle).split()[1]
    bare = [end.split()[0] if all(each.split()[1] == unit for each in ends) else end for end in ends]
    return f"({bare[0]} to {bare[1]})"
