"""The chart as it is installed on a control plane: helm installs it, and the app runs as the Deployment says, with the
rights of its service account, with which it logs in as in a pod. Nothing runs containers here:
``devcluster.containers`` gives what a kubelet would.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from api.names import Label
from api.objects import Raw
from devcluster import build, containers
from devcluster.controlplane import ControlPlane
from tests.eventually import PATIENCE
from tests.forked import Forked
from tests.serving import Served, free_port

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "seiretsu"
RELEASE, NAMESPACE = "seiretsu", "queue-system"


def helm(
    plane: ControlPlane, *arguments: str, name: str = "helm", namespace: str = NAMESPACE
) -> subprocess.CompletedProcess[str]:
    program = build.ensure(name)[name]
    words: list[str | Path] = [program, *arguments, "--namespace", namespace]
    return subprocess.run(words, env=plane.environment(), capture_output=True, text=True, check=False, timeout=PATIENCE)


def free_ports(number: int) -> list[int]:
    ports: dict[int, None] = {}
    while len(ports) < number:
        ports[free_port()] = None
    return [*ports]


def get(plane: ControlPlane, *words: str) -> Raw:
    found: Raw = json.loads(plane.kubectl("get", *words, "-o", "json", check=True).stdout)
    return found


def install(
    plane: ControlPlane,
    directory: Path,
    configuration: Raw | None = None,
    *,
    chart: Path = CHART,
    name: str = "helm",
    **values: Any,
) -> Path:
    """helm install with the visibility API, on ports that are free here; returns the file of values."""
    file = values_file(directory, configuration, **values)
    done = helm(plane, "install", RELEASE, str(chart), "--create-namespace", "--values", str(file), name=name)
    assert done.returncode == 0, done.stderr
    return file


def values_file(directory: Path, configuration: Raw | None = None, **values: Any) -> Path:
    """Writes values with which the app listens on ports that are free here, and serves the visibility API."""
    webhook, health, metrics, visibility = free_ports(4)
    given = configuration or {}
    own = {
        "webhook": {"port": webhook, **given.get("webhook", {})},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": f":{metrics}"},
        "leaderElection": {"leaderElect": True},
        "visibilityServer": {"bindPort": visibility},
    }
    file = directory / "values.yaml"
    ports = {"ports": [{"port": webhook, "targetPort": "webhook"}]}
    here: Raw = {
        "managerConfig": {"controllerManagerConfigYaml": yaml.safe_dump({**own, **given, "webhook": own["webhook"]})},
        "webhookService": {**values.get("webhookService", {}), **ports},
        "visibility": {**values.get("visibility", {}), "port": visibility},
    }
    file.write_text(yaml.safe_dump({**values, **here}))
    return file


@contextmanager
def deployed(plane: ControlPlane, directory: Path, namespace: str = NAMESPACE) -> Iterator[Served]:
    """The Deployment's container as a process of this machine."""
    served = started(plane, directory, namespace)
    try:
        yield served
    except BaseException:
        print(f"seiretsu serve: exit code {served.process.poll()}", *served.log[-60:], sep="\n")
        raise
    finally:
        if served.process.poll() is None:
            served.process.kill()
        served.wait()


def started(plane: ControlPlane, directory: Path, namespace: str = NAMESPACE, *, beside: bool = False) -> Served:
    """Starts the Deployment's container, whose files are put into a directory. A replica ``beside`` others has none of
    their ports: it serves webhooks on a free one, and on no other, as pods have their own addresses.
    """
    container = containers.of_deployment(plane, f"{RELEASE}-controller-manager", namespace, directory / "mounts")
    command, *arguments = container.arguments
    assert command == "serve"
    if beside:
        configuration = container.mounts["config"] / "controller_manager_config.yaml"
        configuration.write_bytes(_without_ports(configuration.read_bytes()))
        arguments = ["--bind=127.0.0.1:0" if word.startswith("--bind=") else word for word in arguments]
    return Served(arguments, container.environment, start=Forked)


def _without_ports(configuration: bytes) -> bytes:
    given = yaml.safe_load(configuration)
    off: Raw = {"health": {"healthProbeBindAddress": "0"}, "metrics": {"bindAddress": "0"}}
    if "visibilityServer" in given:  # it is not asked here, but each replica publishes its CA
        (port,) = free_ports(1)
        off["visibilityServer"] = {"bindPort": port}
    return yaml.safe_dump({**given, **off}).encode()


@contextmanager
def creates(plane: ControlPlane, namespace: str) -> Iterator[list[str]]:
    """Creates Jobs with a queue name, one after the other; yields what was wrong with any of them: it was refused, or
    it was not suspended. Their LocalQueue does not exist, so none of them ever starts.
    """
    wrong, ended = list[str](), threading.Event()
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    metadata = {"generateName": "create-", "labels": {Label.QUEUE_NAME: "no-such-queue"}}
    job: Raw = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}

    def run() -> None:
        while not ended.wait(0.2):
            status, body = plane.administrator.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
            answer = json.loads(body)
            if status != 201:
                wrong.append(str(answer.get("message")))
            elif answer["spec"].get("suspend") is not True:
                wrong.append(f"{answer['metadata']['name']} is not suspended")

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield wrong
    finally:
        ended.set()
        thread.join()
