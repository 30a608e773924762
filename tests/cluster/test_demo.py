"""`make demo`, as a newcomer runs it first."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import clusters
from devcluster.controlplane import ControlPlane

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
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout  # of which no line is folded, for it goes to no terminal
    clock = [float(at) for at in re.findall(r"(\d+\.\d) s\b", told)]
    assert clock == sorted(clock), "one clock for all of it"
    for said in (
        "insufficient unused quota for cpu in flavor standard",
        'Warning: never starts: asks for 20 cpu, ClusterQueue "team-a" gives 12 in standard',
        'did you mean "main"?',
        "job-min-parallelism]: Invalid value: 7: should be between 0 and 1",
        "most borrowed: 4",
    ):
        assert said in told
    assert not processes_in(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def named() -> Iterator[str]:
    """The name of a cluster that nobody else has; what is left of it is taken down."""
    name = f"test-demo-{os.getpid()}"
    yield name
    if any(cluster.name == name for cluster in clusters.every()):
        clusters.down(name)


def staying(name: str) -> subprocess.Popen[str]:
    """`make up`, in a process group of its own as in a terminal, where it hears Ctrl-C whoever runs the tests."""
    hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", hears, "demo", "--stay", "--name", name],
        cwd=ROOT,
        env=os.environ | {"COLUMNS": "200", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_make_up_leaves_all_of_it_running_until_it_is_taken_down(named: str) -> None:
    demo = staying(named)
    said, _ = demo.communicate(timeout=400)
    assert demo.returncode == 0, said
    directory = clusters.get(named).directory
    plane = ControlPlane.attach(directory, named)
    assert f"export KUBECONFIG={plane.kubeconfig}" in said.splitlines()
    assert plane.runs("seiretsu")
    made = plane.kubectl("create", "-f", str(ROOT / "examples" / "jobs" / "train.yaml"), "-o", "json", check=True)
    assert json.loads(made.stdout)["spec"]["suspend"] is True
    clusters.down(named)
    assert not processes_in(directory)
    assert not directory.exists()


def test_ctrl_c_in_the_middle_of_make_up_ends_all_of_it_without_a_traceback(named: str) -> None:
    demo = staying(named)
    assert demo.stdout is not None
    said = []
    for line in demo.stdout:
        said.append(line)
        if "examples/queues.yaml is applied" in line:
            break
    directory = clusters.get(named).directory
    os.killpg(demo.pid, signal.SIGINT)
    rest, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, "".join(said) + rest
    assert "Interrupted: ending what was started." in rest
    assert "Traceback" not in rest
    assert not processes_in(directory)
    assert not directory.exists()
