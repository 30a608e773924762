"""Why an admitted job does not run, on the real control plane: ``explain``, and the event of the controller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from api.objects import Raw
from tests.cluster.world import World, job

pytestmark = pytest.mark.cluster

HOUR = 3600.0


def problems(world: World, name: str) -> dict[str, str]:
    """The reasons and sentences of ``explain``, as soon as there is a Workload to explain."""
    world.until("it has its Workload", lambda: world.workload(name))
    found = json.loads(world.explain(name, "-o", "json"))
    return {each["reason"]: each["message"] for each in found.get("pods", {}).get("problems", ())}


def resource_quota(name: str, **hard: str) -> Raw:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}}


def test_pods_that_a_resource_quota_refuses_are_explained(world: World) -> None:
    world.plane.kubectl("apply", "-n", world.namespace, "-f", "-", stdin=json.dumps(resource_quota("small", pods="2")))
    world.queue("q", 3)
    world.job("fill", "q", cpu=1, pods=3, seconds=HOUR)
    refused = "2 of 3 pods exist, and the next is refused: a pod is forbidden: exceeded quota: small"

    def told() -> str:
        found = problems(world, "fill").get("FailedCreate", "")
        return found if found.startswith(refused) else ""

    said = world.until("the status of the Job has both pods", told)
    assert "A ResourceQuota of the namespace is in the way" in said
    text = world.explain("fill")
    assert "It does not run as a whole: 2 of 3 pods run" in text


def test_pods_that_no_node_can_run_are_explained_in_the_schedulers_words(world: World) -> None:
    world.queue("q", 3)
    wrong = job("mainframe", "q", cpu=1, pods=2, seconds=HOUR)
    wrong["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/arch": "s390x"}
    world.create(wrong)
    said = world.until("it is explained", lambda: problems(world, "mainframe").get("Unschedulable", ""))
    assert said.startswith("2 of 2 pods are Pending: 0/")
    assert "nodes are available" in said


def test_a_job_whose_controller_does_not_exist_is_explained(world: World) -> None:
    world.queue("q", 3)
    world.create(
        {
            **(made := job("nobody", "q", cpu=1, pods=2, seconds=HOUR)),
            "spec": {**made["spec"], "managedBy": "example.com/x"},
        }
    )
    said = world.until("it is explained", lambda: problems(world, "nobody").get("NoController", ""))
    assert said.startswith("none of its 2 pods exists: spec.managedBy is example.com/x, so only that controller")


def test_a_job_that_runs_has_no_problem(world: World) -> None:
    world.queue("q", 3)
    world.job("fine", "q", cpu=1, pods=2, seconds=HOUR)
    world.until("it is admitted", lambda: world.running() == {"fine"})
    world.until("its pods run", lambda: "  2 of 2 pods run or have succeeded" in world.explain("fine"))
    assert problems(world, "fine") == {}


def test_kubectl_seiretsu_follows_the_namespace_of_the_context(world: World, tmp_path: Path) -> None:
    """The real kubectl, with the plugin on PATH."""
    world.queue("q", 3)
    world.job("fine", "q", cpu=1, pods=2, seconds=HOUR)
    world.until("it is admitted", lambda: world.running() == {"fine"})
    settings = json.loads(world.plane.kubeconfig.read_text())
    settings["contexts"][0]["context"]["namespace"] = world.namespace
    (tmp_path / "config").write_text(json.dumps(settings))
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environ = {**world.plane.environment(), "KUBECONFIG": str(tmp_path / "config"), "PATH": path}

    def plugin(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(world.plane.programs["kubectl"]), "seiretsu", *words]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    done = plugin("explain", "fine")
    assert done.stdout.startswith(f"{world.namespace}/fine (Workload"), done.stderr
    assert plugin("when", "fine").stdout.startswith(f"{world.namespace}/fine: started at")
    completed = subprocess.run(
        ["kubectl_complete-seiretsu", "explain", "f"], env=environ, capture_output=True, text=True, check=False
    )
    assert "fine" in completed.stdout.splitlines()
    wrong = plugin("explain", "fine", "-n", "nowhere")
    told = 'Error from server (NotFound): namespaces "nowhere" not found'
    assert (wrong.returncode, told in wrong.stderr) == (1, True), wrong.stderr
    as_nobody = plugin("explain", "fine", "--as", "nobody")
    assert as_nobody.returncode == 1
    assert "you may not read Job fine" in as_nobody.stderr
