"""Every recorded decision of Kueue is ours too: one cycle on each scenario of `../shared/oracle/cycle`.

The recordings live beside the project; the variable SEIRETSU_ORACLE names another place for them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.oracle import judge, scenarios

ROOT = Path(__file__).parents[2]
ORACLE = Path(os.environ.get("SEIRETSU_ORACLE", ROOT.parent / "shared" / "oracle"))
FAMILIES = [
    "affinity",
    "classic",
    "fair",
    "gates",
    "groups",
    "partial",
    "podsets",
    "preempt",
    "quantities",
    "seeds",
    "states",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cycle_decides_as_recorded(family: str) -> None:
    path = ORACLE / "cycle" / f"{family}.jsonl"
    assert path.exists(), f"{path} is missing: put the recordings there, or name their folder in SEIRETSU_ORACLE"
    verdicts = [judge(scenario) for scenario in scenarios(path)]
    assert verdicts
    assert {v.name: v.differences for v in verdicts if v.differences} == {}
    assert {v.name: v.message_difference for v in verdicts if v.message_difference} == {}
