"""Times on the wire (RFC 3339, whole seconds, UTC) to and from seconds since the epoch, the unit of all of core."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=4096)
def epoch(text: str) -> float:
    """The moment that an RFC 3339 text names; raises ValueError for anything else. Objects of one second share it."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def maybe_epoch(text: str | None) -> float | None:
    """As ``epoch``; None where there is no text."""
    return epoch(text) if text else None


def stamp(seconds: float) -> str:
    """The text Kubernetes writes for this moment; parts of a second are dropped, as metav1.Time does."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
