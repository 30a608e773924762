"""What advice about one object may cost. Advice is a courtesy: what is too large or takes too long goes without.

Anybody may send megabytes, and whoever else creates a job waits meanwhile. What must be decided (suspension,
validation) does not depend on this.
"""

from __future__ import annotations

from typing import Any, Final

from core.feedback.rules import NOT_JUDGED, Finding

MOST_FIELDS: Final = 10_000
"""Fields and list elements of all pods of a job that are looked at: a thousand containers, or three thousand variables
of their environment. Kubernetes itself has no limit but the size of the whole.
"""

TOO_LARGE: Final = Finding(
    NOT_JUDGED, f"too large to check: the pods have more than {MOST_FIELDS:,} fields; queueing is not affected"
)


def larger(limit: int, *values: Any) -> bool:
    """Whether JSON values have more than so many fields and elements together. Costs no more than the limit does."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if not isinstance(value, dict | list):
            continue
        limit -= len(value)
        if limit < 0:
            return True
        waiting += value.values() if isinstance(value, dict) else value
    return False
