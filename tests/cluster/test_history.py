"""The history and the recorder beside a real control plane: what `report` and `replay` make of what happened there."""

from __future__ import annotations

import csv
import io
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import application
from controller.history.database import FILE
from controller.history.recorder import recordings
from devcluster.controlplane import ControlPlane
from tests.cluster.world import World
from tests.serving import serving

pytestmark = pytest.mark.cluster


def run(command: str, *words: object) -> str:
    found = CliRunner().invoke(application([command]), [command, *map(str, words)])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_a_killed_leader_goes_on_and_the_story_is_complete(
    unserved: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    configuration = tmp_path / "configuration.yaml"
    configuration.write_text(
        f"seiretsu:\n  history: {{enable: true, directory: {tmp_path}}}\n"
        f"  recorder: {{enable: true, directory: {tmp_path}/recordings}}\n"
    )
    world = World(unserved, namespace)
    with serving(unserved.kubeconfig, tmp_path, "--config", str(configuration)) as process:
        process.ready()
        world.flavor()
        world.queue("team", 2)
        for name in ("first", "second", "third"):
            world.job(name, "team", seconds=600)
        world.until("two run", lambda: len(world.running()) == 2)
        process.stop(signal.SIGKILL)
    with serving(unserved.kubeconfig, tmp_path, "--config", str(configuration)) as process:
        process.ready()
        (waiting,) = {"first", "second", "third"} - world.running()
        done = sorted(world.running())
        world.complete(*done)
        world.until("the third runs", lambda: waiting in world.running())
        world.delete("jobs", waiting)
        world.until("its Workload is gone", lambda: waiting not in world.workloads())
        who = world.plane.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", check=True).stdout
        assert process.stop() == 0
    rows = csv.DictReader(io.StringIO(run("report", "--file", tmp_path / FILE, "--workloads", "-o", "csv")))
    ended = {row["job"]: (row["user"], row["outcome"]) for row in rows if row["namespace"] == namespace}
    last = ended.pop(waiting)
    assert last in ((who, "OwnerNotFound"), (who, "Deleted")), (
        "whoever sees first that the job is gone: we, or Kubernetes"
    )
    assert ended == dict.fromkeys(done, (who, "Succeeded"))
    told = run("report", "--file", tmp_path / FILE, "--by", "namespace", "-n", namespace)
    (line,) = [line.split() for line in told.splitlines() if line.startswith(namespace)]
    assert line[2] == "3", "all three were admitted"
    assert float(line[1]) >= 0.0
    files = recordings(tmp_path / "recordings")
    assert files, "of the second leader at least: the first may have been killed in its first second"
    for each in files:
        assert "decides all of them in the same way" in run("replay", each)
