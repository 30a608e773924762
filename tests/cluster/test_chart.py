"""The chart on a real control plane: helm installs it, and the app runs as the Deployment says, with the rights of its
service account. Nothing runs containers here, so the test plays kubelet: it starts the program with the container's
arguments, with the ConfigMap mounted where they can be read, and with a token of the service account.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from api.objects import Raw
from devcluster import build
from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import NodeGroup
from tests.serving import Served

ROOT = Path(__file__).parents[2]
CHART, EXAMPLES = ROOT / "charts" / "seiretsu", ROOT / "examples"
RELEASE, NAMESPACE = "seiretsu", "queue-system"

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of this module's own: the chart's webhooks concern every namespace."""
    group = NodeGroup(labels={"seiretsu.dev/pool": "standard"})
    with ControlPlane.start(spec=Spec(nodes=(group,))) as started:
        yield started


def helm(plane: ControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = build.ensure("helm")["helm"]
    words: list[str | Path] = [program, *arguments, "--namespace", NAMESPACE]
    return subprocess.run(words, env=plane.environment(), capture_output=True, text=True, check=False, timeout=120)


def free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def get(plane: ControlPlane, *words: str) -> Raw:
    found: Raw = json.loads(plane.kubectl("get", *words, "-o", "json", check=True).stdout)
    return found


def install(plane: ControlPlane, tmp_path: Path) -> None:
    """helm install, on ports that are free here."""
    webhook, health, metrics = free_ports(3)
    configuration = {
        "webhook": {"port": webhook},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
        "leaderElection": {"leaderElect": True},
    }
    values = tmp_path / "values.yaml"
    values.write_text(
        yaml.safe_dump(
            {
                "managerConfig": {"controllerManagerConfigYaml": yaml.safe_dump(configuration)},
                "webhookService": {"ports": [{"port": webhook, "targetPort": "webhook"}]},
            }
        )
    )
    done = helm(plane, "install", RELEASE, str(CHART), "--create-namespace", "--values", str(values))
    assert done.returncode == 0, done.stderr


def account_kubeconfig(plane: ControlPlane, account: str, path: Path) -> Path:
    """A kubeconfig with nothing but a token of the service account."""
    token = plane.kubectl("create", "token", account, "-n", NAMESPACE, check=True).stdout.strip()
    admin = json.loads(plane.kubeconfig.read_text())
    admin["users"] = [{"name": "pod", "user": {"token": token}}]
    for context in admin["contexts"]:
        context["context"]["user"] = "pod"
    path.write_text(json.dumps(admin))
    return path


@contextmanager
def deployed(plane: ControlPlane, tmp_path: Path) -> Iterator[Served]:
    """The Deployment's container as a process of this machine."""
    pod = get(plane, "deployment", f"{RELEASE}-controller-manager", "-n", NAMESPACE)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command, *arguments = container["args"]
    assert command == "serve"
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in container["volumeMounts"]:
        configured = volumes[mount["name"]].get("configMap")
        if configured:
            folder = tmp_path / mount["name"]
            folder.mkdir()
            for name, text in get(plane, "configmap", configured["name"], "-n", NAMESPACE)["data"].items():
                (folder / name).write_text(text)
            arguments = [word.replace(mount["mountPath"], str(folder)) for word in arguments]
    kubeconfig = account_kubeconfig(plane, pod["serviceAccountName"], tmp_path / "kubeconfig")
    served = Served(arguments, {"KUBECONFIG": str(kubeconfig)})
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.kill()
        served.wait()


def test_helm_installs_what_the_app_needs_and_uninstalls_without_a_trace(plane: ControlPlane, tmp_path: Path) -> None:
    install(plane, tmp_path)
    with deployed(plane, tmp_path) as served:
        served.ready()
        walk(plane)
        refused = [event for event in served.events if "orbidden" in json.dumps(event)]
        assert not refused, "the chart's roles lack a right that the app uses"
        drained_nodes_leave_one(plane)
        assert served.stop() == 0
    plane.kubectl("delete", "-f", str(EXAMPLES / "queues.yaml"), "--wait=false", check=True)
    done = helm(plane, "uninstall", RELEASE)
    assert done.returncode == 0, done.stderr
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        assert get(plane, kind)["items"] == []
    kept = [crd["metadata"]["name"] for crd in get(plane, "crds")["items"]]
    assert "workloads.kueue.x-k8s.io" in kept, "uninstalling the chart takes everybody's queues away"
    job = (EXAMPLES / "jobs" / "train.yaml").read_text().replace("namespace: team-a", "namespace: default")
    assert plane.kubectl("create", "-f", "-", stdin=job).returncode == 0


def drained_nodes_leave_one(plane: ControlPlane) -> None:
    """The scheduler places the replicas apart, and the disruption controller lets one of them go at a time."""
    budget = f"poddisruptionbudget/{RELEASE}-controller-manager"
    allowed = "--for=jsonpath={.status.disruptionsAllowed}=1"
    plane.kubectl("wait", allowed, budget, "-n", NAMESPACE, "--timeout=60s", check=True)
    status = get(plane, budget, "-n", NAMESPACE)["status"]
    assert (status["expectedPods"], status["currentHealthy"], status["desiredHealthy"]) == (2, 2, 1)
    nodes = [pod["spec"]["nodeName"] for pod in get(plane, "pods", "-n", NAMESPACE)["items"]]
    assert len(nodes) == len(set(nodes)) == 2


def walk(plane: ControlPlane) -> None:
    """Two Jobs of which only one fits: one runs to its end, then the other does."""
    plane.kubectl("apply", "-f", str(EXAMPLES / "queues.yaml"), check=True)
    manifest = (EXAMPLES / "jobs" / "train.yaml").read_text().replace('cpu: "2"', 'cpu: "5"')
    first, second = (
        json.loads(plane.kubectl("create", "-f", "-", "-o", "json", stdin=manifest, check=True).stdout)
        for _ in range(2)
    )
    assert first["spec"]["suspend"] is True
    assert second["spec"]["suspend"] is True
    names = [job["metadata"]["name"] for job in (first, second)]
    for name in names:
        plane.kubectl("wait", "--for=condition=complete", f"job/{name}", "-n", "team-a", "--timeout=60s", check=True)
    ended = [get(plane, "job", name, "-n", "team-a")["status"] for name in names]
    earlier, later = sorted(ended, key=lambda status: status["startTime"])  # created in one second, either may be first
    assert later["startTime"] >= earlier["completionTime"]
    queue = get(plane, "clusterqueue", "team-a")
    conditions = {condition["type"]: condition["status"] for condition in queue["status"]["conditions"]}
    assert conditions["Active"] == "True"
    events = plane.kubectl("get", "events", "-n", "team-a", "-o", "name", check=True).stdout
    assert events, "no event was written"
