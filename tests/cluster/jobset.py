"""JobSet as it is installed in a cluster: its definition, its webhooks and its controller, all of the real release."""

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
from devcluster.controlplane import ControlPlane
from tests.cluster.accounts import kubeconfig_of
from tests.cluster.world import World, holds

Raw = dict[str, Any]

CRD = "jobsets.jobset.x-k8s.io"
HOOKS = ("mjobset.kb.io", "vjobset.kb.io")
"""Its hooks for JobSets; those for pods matter to exclusive placement only."""

CONFIGURATION = """
apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {{leaderElect: false}}
internalCertManagement: {{enable: false}}
metrics: {{bindAddress: "0"}}
health: {{healthProbeBindAddress: "0"}}
webhook: {{port: {port}, certDir: {directory}}}
"""


def define(world: World) -> None:
    """Install the definition of JobSets, and wait until the API server serves it."""
    world.plane.kubectl("apply", "--server-side", "-f", str(build.manifest("jobset-crd.yaml")), check=True)
    found = partial(world.plane.administrator.get, f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}")
    world.until("the definition is established", lambda: holds(found() or {}, "Established"))
    world.until("JobSets are served", lambda: world.get("jobsets"))


def run(world: World, directory: Path) -> Path:
    """Run its controller with a service account that may do anything, and its webhooks; returns the path of its log."""
    plane, namespace = world.plane, world.namespace
    plane.kubectl("create", "serviceaccount", "jobset", "-n", namespace, check=True)
    account = f"--serviceaccount={namespace}:jobset"
    plane.kubectl("create", "clusterrolebinding", "jobset", "--clusterrole=cluster-admin", account, check=True)
    authority = Authority("jobset")
    authority.server("127.0.0.1").write(directory / "tls")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "config.yaml").write_text(CONFIGURATION.format(port=port, directory=directory))
    program = build.ensure("jobset-controller")["jobset-controller"]
    kubeconfig = kubeconfig_of(plane, namespace, "jobset", directory)
    command: list[str | Path] = [program, f"--kubeconfig={kubeconfig}", f"--config={directory / 'config.yaml'}"]
    log = plane.run("jobset-controller", command)
    world.until("JobSet's webhooks listen", lambda: _listens(port))
    _install_hooks(plane, port, authority)
    return log


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _install_hooks(plane: ControlPlane, port: int, authority: Authority) -> None:
    bundle = base64.b64encode(authority.pair.certificate).decode()
    for document in yaml.safe_load_all(build.manifest("jobset-webhooks.yaml").read_text()):
        document["metadata"]["name"] = f"jobset-{document['metadata']['name']}"
        document["webhooks"] = [each for each in document["webhooks"] if each["name"] in HOOKS]
        for each in document["webhooks"]:
            url = f"https://127.0.0.1:{port}{each['clientConfig']['service']['path']}"
            each["clientConfig"] = {"url": url, "caBundle": bundle}
        plane.kubectl("create", "-f", "-", stdin=json.dumps(document), check=True)
