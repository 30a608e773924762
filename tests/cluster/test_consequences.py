"""What an administrator reads of an edit on a real control plane, before it and when it is made: whom it hits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.model import Raw
from tests.cluster.world import World, runs
from tests.eventually import PATIENCE

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]


def smaller(world: World, name: str, cpu: str) -> Raw:
    """The ClusterQueue with another nominalQuota."""
    raw = world.get("clusterqueues", world.full(name))
    spec = raw["spec"]
    spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = cpu
    return {
        "apiVersion": raw["apiVersion"],
        "kind": "ClusterQueue",
        "metadata": {"name": raw["metadata"]["name"]},
        "spec": spec,
    }


def plan(world: World, files: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli.main", "plan", "-f", str(files), "--from-cluster", *more],
        cwd=ROOT,
        env=world.plane.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_an_edit_says_whom_it_hits_before_and_when_it_is_made(world: World, tmp_path: Path) -> None:
    world.queue("a", 4)
    world.job("first", "a", cpu=2, seconds=3600)
    runs(world, "first")
    world.job("large", "a", cpu=4, seconds=3600)
    world.until("the job waits", lambda: world.reason("large", "QuotaReserved") == "False/WaitingForQuota")
    edit = smaller(world, "a", "3")
    path = tmp_path / "edit.json"
    path.write_text(json.dumps(edit))
    told = plan(world, path)
    assert told.returncode == 2, told.stderr
    assert "nominalQuota: 4 -> 3" in told.stdout
    large = world.workload("large")["metadata"]["name"]
    assert f"  1 waiting never starts\n    {world.namespace}/{large}" in told.stdout
    warned = world.plane.kubectl("apply", "--dry-run=server", "-f", str(path), check=True).stderr
    assert "1 waiting never starts" in warned, warned
    assert world.get("clusterqueues", world.full("a"))["spec"] != edit["spec"], "nothing was written"


def test_what_starts_by_an_edit_is_named_and_starts(world: World, tmp_path: Path) -> None:
    world.queue("b", 1)
    world.job("waits", "b", cpu=2, seconds=3600)
    world.until("the job waits", lambda: world.workload("waits") != {})
    path = tmp_path / "edit.json"
    path.write_text(json.dumps(smaller(world, "b", "2")))
    told = plan(world, path, "-o", "json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["start"] == [f"{world.namespace}/{world.workload('waits')['metadata']['name']}"]
    warned = world.plane.kubectl("apply", "-f", str(path), check=True).stderr
    assert "1 waiting starts" in warned, warned
    runs(world, "waits")
