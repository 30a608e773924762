"""A forecast in the form of the visibility API, and read back from it.

Nothing in it names another workload: who may ask about one workload may not read all others.
"""

from __future__ import annotations

from core.model import Raw
from core.model.forecast import StartForecast


def written(start: StartForecast, now: float) -> Raw:
    """Returns the fields: seconds from now, and the age of the forecast; ``unknown`` is why there are none."""
    found: Raw = {"ageSeconds": round(max(0.0, now - start.at))}
    if start.p50 is None:
        return {**found, "unknown": start.unknown}
    between = start.remaining(now)
    if between is not None:
        found |= {"p10Seconds": round(between[0]), "p90Seconds": round(between[2])}
    gone = now - start.at
    return {
        **found,
        "p50Seconds": round(max(0.0, start.p50 - gone)),
        "message": f"starts in {start.expected(now)}",
        "flavors": list(start.flavors),
        "restsOn": start.rests_on,
        "coarse": start.coarse,
        "overdue": start.overdue(now),
        "admissionChecks": list(start.checks),
    }
