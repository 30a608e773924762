"""The limits of advice about one object: an object that is too large or takes too long gets none.

Any user can send megabytes, and other users wait meanwhile. The required decisions (suspension, validation) do not
depend on these limits.
"""

from __future__ import annotations

from typing import Any, Final

from core.feedback.rules import NOT_JUDGED, Finding

MOST_FIELDS: Final = 10_000
"""Fields and list elements of all pods of a job that are checked: a thousand containers, or three thousand environment
variables. Kubernetes itself limits only the total size.
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
