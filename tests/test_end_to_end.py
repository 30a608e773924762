"""`make e2e` where it cannot run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("end_to_end")


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        ({}, "there is no docker"),
        (
            {"docker": "exit 1", "kind": "", "helm": "", "kubectl": ""},
            "the Docker daemon does not answer (docker info)",
        ),
        ({"docker": "exit 0"}, "there is no kind"),
    ],
)
def test_it_is_skipped_with_the_reason(tmp_path: Path, programs: dict[str, str], reason: str) -> None:
    for name, does in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    done = subprocess.run(
        ["/bin/bash", SCRIPT], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"make e2e is skipped: {reason}\n"), done.stderr
