"""`make demo`, as a newcomer runs it first."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import clusters
from tests.eventually import PATIENCE, eventually

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
        env=os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout  # of which no line is folded, for it goes to no terminal
    clock = [float(at) for at in re.findall(r"(\d+\.\d) s\b", told)]
    assert clock == sorted(clock), "one clock for all of it"
    for said in (
        "insufficient unused quota for cpu in flavor standard",
        'Warning: never starts: asks for 20 cpu, ClusterQueue "team-a" allows 12 in standard',
        'did you mean "main"?',
        "job-min-parallelism]: Invalid value: 7: should be between 0 and 1",
        "most borrowed: 4",
    ):
        assert said in told
    assert not processes_in(tmp_path)
    assert not list(tmp_path.iterdir())

    assert "8 Jobs submitted" in told
    assert "4 waited in the queue, 8 finished" in told


@pytest.fixture
def named() -> Iterator[str]:
    """A unique cluster name; the cluster is removed afterwards."""
    name = f"test-demo-{os.getpid()}"
    yield name
    if any(cluster.name == name for cluster in clusters.every()):
        clusters.down(name)


def staying(name: str, *before: str) -> subprocess.Popen[str]:
    """`make up` in a separate process group as in a terminal, so that it gets Ctrl-C however the tests are run."""
    hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = "; ".join([hears, *before, "from cli.main import main", "main()"])
    return subprocess.Popen(
        [sys.executable, "-c", script, "demo", "--stay", "--name", name],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "200", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def read_until(demo: subprocess.Popen[str], said: str) -> str:
    """What it prints up to the line that has these words."""
    assert demo.stdout is not None
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if said in line:
            break
    return "".join(lines)


def test_make_up_that_fails_leaves_nothing_running(named: str) -> None:
    demo = staying(named, "import cli.demo", "cli.demo.PATIENCE = 0.0")
    said, _ = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 1, said
    assert "a real control plane is up" in said
    assert "Failed: stopping what was started." in said
    assert "Traceback" not in said
    assert nothing_left(named)


def test_ctrl_c_in_the_middle_of_make_up_ends_all_of_it_without_a_traceback(named: str) -> None:
    demo = staying(named)
    said = read_until(demo, "examples/queues.yaml is applied")
    os.killpg(demo.pid, signal.SIGINT)
    rest, _ = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 130, said + rest
    assert "Interrupted: stopping what was started." in rest
    assert "Traceback" not in rest
    assert nothing_left(named)


async def test_make_up_that_is_killed_leaves_nothing_running(named: str) -> None:
    demo = staying(named)
    read_until(demo, "a real control plane is up")
    os.killpg(demo.pid, signal.SIGKILL)
    demo.communicate(timeout=PATIENCE)
    await eventually(lambda: nothing_left(named))


def nothing_left(name: str) -> bool:
    """Whether neither a process nor a file of a cluster is there."""
    directory = clusters.root() / name
    return not processes_in(directory) and not directory.exists()
