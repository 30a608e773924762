"""Each command of `kubectl seiretsu` on a real control plane, run by real kubectl; its output has the form that
kueuectl's documentation shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.world import World
from tests.eventually import PATIENCE

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the plugin and its completion, as a wheel installs them."""
    here = tmp_path_factory.mktemp("plugin")
    for name, entry in (("kubectl-seiretsu", "plugin"), ("kubectl_complete-seiretsu", "complete")):
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from seiretsu.__main__ import {entry}; {entry}()"
        (here / name).write_text(f"#!{sys.executable}\n{code}\n")
        (here / name).chmod(0o755)
    return here


class Plugin:
    """`kubectl seiretsu`, in the namespace of a test."""

    def __init__(self, world: World, programs: Path) -> None:
        self.world = world
        kubectl = Path(world.plane.programs["kubectl"])
        path = os.pathsep.join([str(programs), str(kubectl.parent), os.environ["PATH"]])
        self.environ = world.plane.environment() | {"PATH": path, "EDITOR": "true"}
        self.kubectl = str(kubectl)

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [self.kubectl, "seiretsu", *words]
        return subprocess.run(
            command, input=stdin, env=self.environ, capture_output=True, text=True, check=False, timeout=PATIENCE
        )

    def __call__(self, *words: str, stdin: str = "") -> str:
        """What a command prints, which succeeds."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def here(self, *words: str, stdin: str = "") -> str:
        """The same in the namespace of the test."""
        return self(*words, "-n", self.world.namespace, stdin=stdin)

    def completes(self, *words: str) -> list[str]:
        """What kubectl completes, as the scripts for bash, zsh and fish ask it."""
        done = subprocess.run(
            [self.kubectl, "__complete", "seiretsu", *words],
            env=self.environ,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        return done.stdout.splitlines()[:-1]


@pytest.fixture
def plugin(world: World, programs: Path) -> Plugin:
    return Plugin(world, programs)


def header(text: str) -> list[str]:
    return [each.strip() for each in text.splitlines()[0].split("   ") if each.strip()]


def cells(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if name in line.split())


def waiting_and_running(world: World) -> None:
    """A queue of one cpu, with a job that runs and one that waits."""
    world.queue("a", 1)
    world.job("runs", "a", seconds=10_000)
    world.until("the first runs", lambda: "runs" in world.running())
    world.job("waits", "a", seconds=10_000)
    world.until("the second waits", lambda: world.condition("waits", "QuotaReserved")[0] == "False")


def test_create_makes_what_kueuectls_examples_make(plugin: Plugin, world: World) -> None:
    name = world.full("made")
    quota = f"{world.namespace}:cpu=9;memory=36Gi"
    said = plugin("create", "clusterqueue", name, "--cohort", world.namespace, "--nominal-quota", quota)
    assert said == f"clusterqueue.kueue.x-k8s.io/{name} created\n"
    assert world.get("clusterqueues", name)["spec"]["resourceGroups"][0]["coveredResources"] == ["cpu", "memory"]

    flavor = world.full("arm")
    said = plugin(
        "create", "rf", flavor, "--node-labels", "kubernetes.io/arch=arm64", "--node-taints", "k=v:NoSchedule"
    )
    assert said == f"resourceflavor.kueue.x-k8s.io/{flavor} created\n"
    assert world.get("resourceflavors", flavor)["spec"]["nodeTaints"] == [
        {"key": "k", "value": "v", "effect": "NoSchedule"}
    ]

    assert plugin.here("create", "localqueue", "mine", "-c", name) == "localqueue.kueue.x-k8s.io/mine created\n"
    dry = plugin.here("create", "lq", "dry", "-c", name, "--dry-run", "server")
    assert dry == "localqueue.kueue.x-k8s.io/dry created (server dry run)\n"
    assert world.get("localqueues", "dry") == {}

    missing = plugin.run("create", "lq", "other", "-c", name + "x", "-n", world.namespace)
    assert missing.returncode == 1
    assert f"not found: did you mean {name}?" in missing.stderr
    assert plugin.here("create", "lq", "other", "-c", name + "x", "-i") == "localqueue.kueue.x-k8s.io/other created\n"

    again = plugin.run("create", "clusterqueue", name)
    assert (again.returncode, "AlreadyExists" in again.stderr) == (1, True)
    world.delete("clusterqueues", name)
    world.delete("resourceflavors", flavor)


def test_list_has_the_columns_of_kueuectls_documentation(plugin: Plugin, world: World) -> None:
    waiting_and_running(world)
    queues = plugin("list", "clusterqueue")
    assert header(queues) == ["NAME", "COHORT", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "AGE"]
    world.until("the counts", lambda: cells(plugin("list", "cq"), world.full("a"))[1:4] == ["1", "1", "true"])
    assert world.full("a") in plugin("list", "cq", "--active", "true", "-o", "name")

    local = plugin.here("list", "localqueue", "-c", world.full("a"))
    assert header(local) == ["NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "AGE"]
    assert header(plugin("list", "lq", "-A"))[0] == "NAMESPACE"

    found = plugin.here("list", "workload")
    names = "NAME|JOB TYPE|JOB NAME|LOCALQUEUE|CLUSTERQUEUE|STATUS|POSITION IN QUEUE|EXEC TIME|AGE"
    assert header(found) == names.split("|")
    assert cells(found, "runs")[1:6] == ["job", "runs", "a", world.full("a"), "ADMITTED"]
    assert cells(found, "waits")[1:6] == ["job", "waits", "a", world.full("a"), "PENDING"]
    of_status = plugin.here("list", "workload", "--status", "pending")
    assert "waits" in of_status
    assert "runs" not in of_status
    of_job = plugin.here(
        "list", "kwl", "--for", "job/waits", "-o", "jsonpath={.items[*].metadata.ownerReferences[0].name}"
    )
    assert of_job == "waits"
    assert "more needed" in cells_text(plugin.here("list", "workload", "-o", "wide"), "waits")

    assert header(plugin("list", "resourceflavor")) == ["NAME", "NODE LABELS", "AGE"]

    pods = plugin.here("list", "pods", "--for", "job/runs")
    kubectls = world.plane.kubectl("get", "pods", "-l", "job-name=runs", "-n", world.namespace).stdout
    assert [line.split()[:3] for line in pods.splitlines()] == [line.split()[:3] for line in kubectls.splitlines()]


def cells_text(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if name in line.split())


def test_formats_are_those_of_kubectl(plugin: Plugin, world: World) -> None:
    world.queue("a", 1)
    name = world.full("a")
    for form in ("json", "yaml", "name", "jsonpath={.items[*].spec.queueingStrategy}"):
        ours = plugin("list", "cq", "--field-selector", f"metadata.name={name}", "-o", form)
        kubectls = world.plane.kubectl(
            "get", "clusterqueues.kueue.x-k8s.io", "--field-selector", f"metadata.name={name}", "-o", form
        ).stdout
        if form == "json":
            assert json.loads(ours)["items"][0]["spec"] == json.loads(kubectls)["items"][0]["spec"]
        elif form != "yaml":
            assert ours == kubectls


def test_stop_and_resume(plugin: Plugin, world: World) -> None:
    waiting_and_running(world)
    name = world.full("a")
    assert plugin("stop", "clusterqueue", name, "--keep-already-running", "--dry-run", "server").endswith(
        "stopped (server dry run)\n"
    )
    assert world.get("clusterqueues", name)["spec"].get("stopPolicy", "None") == "None"
    assert (
        plugin("stop", "clusterqueue", name, "--keep-already-running")
        == f"clusterqueue.kueue.x-k8s.io/{name} stopped\n"
    )
    assert world.get("clusterqueues", name)["spec"]["stopPolicy"] == "Hold"
    assert plugin.completes("resume", "cq", name) == [name]
    assert plugin.completes("stop", "cq", name) == []
    assert plugin("resume", "clusterqueue", name) == f"clusterqueue.kueue.x-k8s.io/{name} resumed\n"
    assert plugin.here("stop", "localqueue", "a") == "localqueue.kueue.x-k8s.io/a stopped\n"
    world.until("what ran is evicted", lambda: "runs" not in world.running())
    plugin.here("resume", "lq", "a")
    world.until("it runs again", world.running)
    running = next(iter(world.running()))
    workload = world.workload(running)["metadata"]["name"]
    assert plugin.here("stop", "workload", workload) == f"workload.kueue.x-k8s.io/{workload} stopped\n"
    world.until("it is deactivated", lambda: world.reason(running, "Evicted") == "True/Deactivated")
    assert plugin.here("resume", "workload", workload) == f"workload.kueue.x-k8s.io/{workload} resumed\n"
    wrong = plugin.run("stop", "cq", name + "x")
    assert (wrong.returncode, f"did you mean {name}?" in wrong.stderr) == (1, True)


def test_delete_workload_deletes_its_job(plugin: Plugin, world: World) -> None:
    waiting_and_running(world)
    workload = world.workload("waits")["metadata"]["name"]
    kept = plugin.here("delete", "workload", workload, stdin="n\n")
    assert f"jobs.batch/waits associated with the {world.namespace}/{workload} workload" in kept
    assert kept.endswith("Deletion is canceled\n")
    assert "waits" in world.jobs()
    assert plugin.here("delete", "workload", workload, stdin="y\n").endswith("jobs.batch/waits deleted\n")
    world.until("job and workload are gone", lambda: "waits" not in world.jobs() and not world.workload("waits"))
    assert plugin.here("delete", "workload", "--all", "--yes") == "jobs.batch/runs deleted\n"
    world.until("all are gone", lambda: not world.jobs())


def test_get_describe_edit_patch_and_delete_are_kubectls(plugin: Plugin, world: World) -> None:
    world.queue("a", 1)
    name = world.full("a")
    assert plugin("get", "cq", name, "-o", "name") == f"clusterqueue.kueue.x-k8s.io/{name}\n"
    assert f"Name:         {name}" in plugin("describe", "clusterqueue", name)
    assert "no changes made" in (done := plugin.run("edit", "cq", name)).stdout + done.stderr
    plugin("patch", "cq", name, "--type", "merge", "-p", '{"spec":{"queueingStrategy":"StrictFIFO"}}')
    assert world.get("clusterqueues", name)["spec"]["queueingStrategy"] == "StrictFIFO"
    wrong = plugin.run("get", "lq", "aa", "-n", world.namespace)
    assert (wrong.returncode, "aa: did you mean a?" in wrong.stderr) == (1, True)
    assert "deleted" in plugin.here("delete", "localqueue", "a")


def test_kubectl_completes_commands_types_names_and_values(plugin: Plugin, world: World) -> None:
    world.queue("a", 1)
    name = world.full("a")
    assert {"list", "stop", "create", "explain"} <= set(plugin.completes(""))
    assert plugin.completes("list", "") == ["clusterqueue", "localqueue", "pods", "resourceflavor", "workload"]
    assert plugin.completes("get", "cl") == ["clusterqueue"]
    assert plugin.completes("get", "cq", name) == [name]
    assert plugin.completes("list", "workload", "-n", world.namespace, "-q", "") == ["a"]
    assert plugin.completes("list", "lq", "-c", name) == [name]
    assert plugin.completes("list", "workload", "--status", "p") == ["pending"]
    assert plugin.completes("list", "workload", "--st") == ["--status"]
    assert "jsonpath" in plugin.completes("list", "cq", "-o", "")
