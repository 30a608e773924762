"""The bench of a deep queue: which shares it measures, and what it reports when nothing was admitted."""

from __future__ import annotations

from collections import Counter

import pytest

from bench import deep
from bench.driver import Outcome


def test_a_share_whose_workloads_all_fit_is_refused_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        deep.main(["--share", "0.03"])
    assert "all 304 Workloads fit into the quota for 500" in capsys.readouterr().err


def test_a_run_in_which_nothing_was_admitted_ends_with_its_reason() -> None:
    why = "no event for 60 s: 0 of 10000 workloads have finished"
    outcome = Outcome(0.0, 60.0, {}, [], {}, {}, {}, [], Counter(), why)
    with pytest.raises(RuntimeError, match="no event for 60 s"):
        deep.summary(deep.LOAD, outcome, since=1.0)
