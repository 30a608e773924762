"""The admission check of examples/check, as a process of its own with the rights of its manifest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.world import EXAMPLES, World

pytestmark = pytest.mark.cluster

CHECK = EXAMPLES.parent / "check"
COST = "example.com/cost-per-hour"


@pytest.fixture
def team(world: World) -> World:
    """A namespace that may spend 0.10 an hour, and a queue with much quota whose jobs need the check."""
    world.plane.kubectl("apply", "-f", str(CHECK / "budget.yaml"), check=True)
    world.plane.kubectl("annotate", "namespace", world.namespace, "example.com/budget=0.10", check=True)
    world.queue("team", 100, admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    return world


@contextmanager
def budget(world: World, directory: Path) -> Iterator[None]:
    """The controller runs, and is killed at the end."""
    kubeconfig = world.plane.kubeconfig_of("default", "budget-check", directory)
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "AGAIN_SECONDS": "2"}
    command = [sys.executable, str(CHECK / "budget.py")]
    with (directory / "log").open("a") as log, subprocess.Popen(command, env=environment, stderr=log) as process:
        try:
            yield
        finally:
            assert process.poll() is None, (directory / "log").read_text()
            process.kill()


def said(world: World, job: str) -> tuple[str, str]:
    """State and message of the check of a job."""
    (state,) = world.workload(job).get("status", {}).get("admissionChecks") or [{"state": "", "message": ""}]
    return state["state"], state["message"]


def has_quota(world: World, job: str) -> bool:
    return world.reason(job, "QuotaReserved") == "True/QuotaReserved"


def cost(world: World, job: str) -> str | None:
    found: str | None = world.jobs()[job]["spec"]["template"]["metadata"]["annotations"].get(COST)
    return found


def test_a_budget_is_kept_and_a_killed_controller_continues(team: World, tmp_path: Path) -> None:
    with budget(team, tmp_path):
        team.until("the ClusterQueue is active", lambda: team.active("team")[0] == "True")
        team.job("first", "team", seconds=600)
        team.until("it runs", lambda: team.running() == {"first"})
        assert (said(team, "first"), cost(team, "first")) == (("Ready", "0.05 of 0.10 are spent"), "0.05")
    team.job("second", "team", seconds=600)
    team.job("too-dear", "team", cpu=3, seconds=600)
    for name in ("second", "too-dear"):
        team.until(f"{name} has quota", partial(has_quota, team, name))
        assert said(team, name) == ("Pending", ""), "nobody decides while the controller is away"
    with budget(team, tmp_path):
        team.until("what waited runs", lambda: team.running() == {"first", "second"})
        why = 'AdmissionCheck in Rejected state: "budget" (costs 0.15 an hour, the budget of the namespace is 0.10)'
        told = ("True", "DeactivatedDueToAdmissionCheck", f"The workload is deactivated due to {why}")
        team.until("the budget rejects", lambda: team.condition("too-dear", "Evicted") == told)
        team.job("third", "team", seconds=600)
        left = "costs 0.05 an hour, 0.00 of 0.10 are left"  # the message stays when it has quota again
        team.until("it gave its quota back", lambda: left in team.condition("third", "Evicted")[2])
        assert team.running() == {"first", "second"}
        team.delete("jobs", "first")
        team.until("its turn comes", lambda: team.running() == {"second", "third"})
        assert team.workload("third")["status"]["admissionChecks"][0]["retryCount"] >= 1
