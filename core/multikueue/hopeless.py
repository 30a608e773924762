"""The sentence that no worker cluster can run a Workload, the same in warnings, checks and events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NO_WORKER: Final = "No worker cluster can run it"


def sentence(reasons: Mapping[str, str]) -> str:
    """The sentence with the reason of each worker by its name; equal reasons are written once."""
    named: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        named.setdefault(reason, []).append(name)
    several = (f"{', '.join(names)}: {reason}" for reason, names in named.items())
    return f"{NO_WORKER}: {'; '.join(several)}"


def shortest(reasons: Mapping[str, str]) -> str:
    """The sentence with the reason of the first worker only."""
    name, reason = next(iter(reasons.items()))
    more = f"; and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"{NO_WORKER}: {name}: {reason}{more}"
