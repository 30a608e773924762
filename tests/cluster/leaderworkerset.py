"""LeaderWorkerSet as it is installed in a cluster: its definitions, its webhooks and its controller, all of the real
release.
"""

from __future__ import annotations

import base64
import json
import socket
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from devcluster import build
from devcluster.certificates import Authority
from tests.cluster.accounts import kubeconfig_of
from tests.cluster.world import World, holds

Raw = dict[str, Any]

GROUP = "leaderworkerset.x-k8s.io"
NAME = "leaderworkerset.sigs.k8s.io/name"
CONFIGURATION = """
apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: false}}
metrics: {{bindAddress: "0"}}
health: {{healthProbeBindAddress: "0"}}
webhook: {{port: {port}, certDir: {directory}}}
"""


def define(world: World) -> None:
    """Install the definitions, and wait until the API server serves LeaderWorkerSets."""
    base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for plural in ("leaderworkersets", "disaggregatedsets"):
        path = build.manifest(f"{plural}.yaml")
        world.plane.kubectl("apply", "--server-side", "-f", str(path), check=True)
        name = yaml.safe_load(path.read_text())["metadata"]["name"]
        found = partial(world.plane.administrator.get, f"{base}/{name}")
        world.until(f"{name} is established", lambda found=found: holds(found() or {}, "Established"))  # type: ignore[misc]
    world.until("LeaderWorkerSets are served", lambda: world.get("leaderworkersets"))


def run(world: World, directory: Path) -> None:
    """Run its controller with a service account that may do anything, and its webhooks."""
    plane, namespace = world.plane, "lws-system"
    plane.kubectl("create", "namespace", namespace, check=True)
    plane.kubectl("create", "serviceaccount", "lws", "-n", namespace, check=True)
    account = f"--serviceaccount={namespace}:lws"
    plane.kubectl("create", "clusterrolebinding", "lws", "--clusterrole=cluster-admin", account, check=True)
    authority = Authority("lws")
    authority.server("127.0.0.1").write(directory / "tls")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "config.yaml").write_text(CONFIGURATION.format(port=port, directory=directory))
    program = build.ensure("lws-controller")["lws-controller"]
    kubeconfig = kubeconfig_of(plane, namespace, "lws", directory)
    command: list[str | Path] = [program, f"--kubeconfig={kubeconfig}", f"--config={directory / 'config.yaml'}"]
    plane.run("lws-controller", command)
    world.until("its webhooks listen", lambda: _listens(port))
    _install_hooks(world, port, authority)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _install_hooks(world: World, port: int, authority: Authority) -> None:
    """Its hook for pods gets only those of its own sets."""
    bundle = base64.b64encode(authority.pair.certificate).decode()
    for document in yaml.safe_load_all(build.manifest("lws-webhooks.yaml").read_text()):
        document["metadata"]["name"] = f"lws-{document['metadata']['name']}"
        for each in document["webhooks"]:
            url = f"https://127.0.0.1:{port}{each['clientConfig']['service']['path']}"
            each["clientConfig"] = {"url": url, "caBundle": bundle}
            if "pods" in each["rules"][0]["resources"]:
                each["objectSelector"] = {"matchExpressions": [{"key": NAME, "operator": "Exists"}]}
        world.plane.kubectl("create", "-f", "-", stdin=json.dumps(document), check=True)
