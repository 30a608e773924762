"""Outlives the process that owns a control plane, to end the control plane when its owner ends for any reason.

The owner holds the write end of a pipe that is this program's standard input and never writes: the end of file means
that it ended, also by `kill -9`. Then everything recorded is killed and the directory removed. The owner ends this
program by a signal when it has stopped the control plane itself.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

from devcluster import processes

_ROOT = Path(__file__).parent.parent


def start(directory: Path, records: Path) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Guards the control plane in `directory`; the returned pipe must be kept open as long as it should run."""
    code = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from devcluster.guard import main; main()"
    guard = subprocess.Popen(
        [sys.executable, "-S", "-c", code, directory, records],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert guard.stdin is not None
    return guard, guard.stdin


def main() -> None:
    """Wait for the owner's end, then clear up after it. Arguments: the directory, and that of the records in it."""
    directory, records = map(Path, sys.argv[1:])
    sys.stdin.buffer.read()
    if records.is_dir():
        processes.stop(processes.recorded(records), grace=0)
    shutil.rmtree(directory, ignore_errors=True)
