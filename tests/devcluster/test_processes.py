"""Only processes that were started here get signals, and all of them end."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster import processes

_FOREVER = "import signal; signal.pause()"
_STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
_WITH_CHILD = (
    "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']).pid, "
    "flush=True); import signal; signal.pause()"
)


def _start(directory: Path, code: str) -> processes.Record:
    command = [sys.executable, "-c", code]
    record = processes.start("sleeper", command, log=directory / "log", records=directory)
    assert processes.recorded(directory) == (record,)
    return record


def _said(log: Path) -> str:
    """The first line of a log, as soon as there is one."""
    with subprocess.Popen(["tail", "-n", "+1", "-f", log], stdout=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        line = tail.stdout.readline()
        tail.terminate()
    return line.strip()


def test_a_started_process_is_recorded_and_stopped(tmp_path: Path) -> None:
    record = _start(tmp_path, _FOREVER)
    assert record.alive()
    processes.stop([record], grace=10)
    assert not record.alive()


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    record = _start(tmp_path, _STUBBORN)
    assert _said(tmp_path / "log") == "ready"
    processes.stop([record], grace=0.05)
    assert not record.alive()


def test_children_go_with_their_parent(tmp_path: Path) -> None:
    record = _start(tmp_path, _WITH_CHILD)
    child = int(_said(tmp_path / "log"))
    assert processes.start_time(child)
    processes.stop([record], grace=10)
    processes.stop([processes.Record("child", child, processes.start_time(child) or "gone")], grace=10)
    assert processes.start_time(child) is None


def test_a_stopped_child_is_collected(tmp_path: Path) -> None:
    for _ in range(20):  # a child may end between any two of our looks at it
        record = _start(tmp_path, _FOREVER)
        processes.stop([record], grace=10)
        with pytest.raises(ChildProcessError):
            os.waitpid(record.pid, os.WNOHANG)


def test_the_way_a_process_ended_is_described(tmp_path: Path) -> None:
    record = _start(tmp_path, "import sys; print('ready', flush=True); sys.stdin.read(); sys.exit(3)")
    os.waitid(os.P_PID, record.pid, os.WEXITED | os.WNOWAIT)
    assert not record.alive()
    assert processes.exit_code(record) == 3


def test_another_process_with_the_same_id_is_left_alone(tmp_path: Path) -> None:
    record = _start(tmp_path, _FOREVER)
    stranger = replace(record, started="1")
    processes.stop([stranger], grace=0)
    assert processes.exit_code(record) is None
    processes.stop([record], grace=10)


@pytest.mark.parametrize("pid", [2**22 + 1])
def test_a_process_that_does_not_run_has_no_start_time(pid: int) -> None:
    assert processes.start_time(pid) is None
