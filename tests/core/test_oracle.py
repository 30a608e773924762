"""Every recorded scheduling cycle of Kueue (``tests/recordings/cycles``) comes out the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.oracle import judge, scenarios

RECORDINGS = Path(__file__).parents[1] / "recordings"
FAMILIES = [
    "affinity",
    "classic",
    "fair",
    "gates",
    "groups",
    "mixed",
    "partial",
    "podsets",
    "preempt",
    "quantities",
    "seeds",
    "states",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cycle_decides_as_recorded(family: str) -> None:
    verdicts = [judge(scenario) for scenario in scenarios(RECORDINGS / "cycles" / f"{family}.jsonl.xz")]
    assert verdicts
    assert {v.name: v.differences for v in verdicts if v.differences} == {}
    assert {v.name: v.message_difference for v in verdicts if v.message_difference} == {}
