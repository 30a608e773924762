"""`make demo`, as a newcomer runs it first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.cluster


def processes_in(folder: Path) -> list[str]:
    """The command lines of running processes that name a folder; only Linux tells."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            lines.append(line)
    return lines


def test_the_demo_shows_the_main_job_ends_by_itself_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "demo"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = " ".join(done.stdout.split())  # however wide the terminal is
    for said in (
        "insufficient unused quota for cpu in flavor standard",
        'Warning: never starts: asks for 20 cpu, ClusterQueue "team-a" gives at most 12',
        'did you mean "main"?',
        "job-min-parallelism]: Invalid value: 7: should be between 0 and 1",
        "most borrowed: 4",
    ):
        assert said in told
    assert not processes_in(tmp_path)
    assert not list(tmp_path.iterdir())
