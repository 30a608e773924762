"""Plays recorded scheduling cycles with topologies: `bench.oracle` with nodes, other pods and second passes.

Separate because a line of these recordings has more to compare than its outcome alone: lines with the tag
``overbooked``, where Kueue puts more on a domain than it holds, are expected to differ.
"""

from __future__ import annotations

from bench.oracle import outcome
from core.model import Raw

OVERBOOKED = "overbooked"


def cycle_of(line: Raw) -> Raw:
    """Returns what one recorded cycle decides here, in the form of its ``expected``."""
    return outcome(line["input"])
