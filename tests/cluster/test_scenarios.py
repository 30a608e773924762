"""The worked examples of Kueue's documentation, step by step on a real control plane, against what Kueue did."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.played import play
from tests.core.test_oracle import RECORDINGS

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("rules", ["classic", "fair"])
def test_the_worked_examples_come_out_as_they_did_with_kueue(rules: str, tmp_path: Path) -> None:
    agreed, every = play(RECORDINGS / "scenarios" / rules, tmp_path, only="seed-", parallel=16)
    assert agreed == every > 0
