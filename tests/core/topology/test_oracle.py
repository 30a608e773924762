"""Every recorded placement, cycle and encoding of Kueue (``tests/recordings/topology``) comes out the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.topology_oracle import judged, main

RECORDINGS = Path(__file__).parents[2] / "recordings" / "topology"


@pytest.mark.parametrize("kind", ["placement", "encoding", "dra"])
def test_topologies_decide_as_recorded(kind: str) -> None:
    found = list(judged(RECORDINGS / f"{kind}.jsonl.xz"))
    assert found
    assert {each.line["name"]: each.compared.difference for each in found if each.compared.difference} == {}
    messages = [message for each in found for message in each.compared.messages]
    assert len(messages) > 700 or kind != "placement"
    assert [message for message in messages if message] == []


def test_the_figures_of_each_file_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(RECORDINGS), "--only", "encode/0001"]) == 0
    assert "encoding 1/1" in capsys.readouterr().out.splitlines()
    assert main([str(RECORDINGS.parent)]) == 2
