"""Every recorded placement, cycle and encoding of Kueue (``tests/recordings/topology``) comes out the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.topology_oracle import is_overbooked, judged, main

RECORDINGS = Path(__file__).parents[2] / "recordings" / "topology"


@pytest.mark.parametrize("kind", ["placement", "encoding", "dra"])
def test_topologies_decide_as_recorded(kind: str) -> None:
    found = [
        (line["name"], difference)
        for line, difference in judged(RECORDINGS / f"{kind}.jsonl.xz")
        if not is_overbooked(line)
    ]
    assert found
    assert {name: difference for name, difference in found if difference} == {}


def test_the_figures_of_each_file_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(RECORDINGS), "--only", "encode/0001"]) == 0
    assert "encoding 1/1" in capsys.readouterr().out.splitlines()
    assert main([str(RECORDINGS.parent)]) == 2
