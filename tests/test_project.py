"""The project as a whole: it stands alone, and CI hides no flaky test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_no_file_refers_to_a_folder_beside_the_project() -> None:
    name = "shared"
    beside = [f"../{name}", f'/ "{name}"', "SEIRETSU_" + "SEEDS"]
    words = [word for text in beside for word in ("-e", text)]
    found = subprocess.run(["git", "grep", "-lF", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout == ""
    assert found.returncode == 1  # searched, and nothing found


def test_what_passes_only_at_the_second_try_is_printed_as_flaky(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_terminal_summary\n")
    (tmp_path / "test_both.py").write_text("def test_steady(): pass\ndef test_broken(): assert False\n")
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"SEIRETSU_SECOND_TRY": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    flaky = [line for line in told.stdout.splitlines() if line.startswith("FLAKY")]
    assert flaky == ["FLAKY test_both.py::test_steady failed at first and passed at the second try"]
    assert told.stdout.rstrip().splitlines()[-1].startswith("1 failed, 1 passed")
