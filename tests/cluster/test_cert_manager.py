"""The chart with certificates by the real controllers of cert-manager and its CA injector: `make test-long`, because to
build them takes minutes.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509

from devcluster import build
from devcluster.controlplane import ControlPlane, Spec
from tests.cluster.charted import NAMESPACE, RELEASE, creates, deployed, get, helm, install
from tests.cluster.test_chart import CONFIGURATIONS
from tests.eventually import WAIT, until
from tests.serving import Served

pytestmark = pytest.mark.cluster

KINDS = ("certificates", "certificaterequests", "issuers", "clusterissuers")
"""The resources of cert-manager."""


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane.start(spec=Spec(nodes=())) as started:
        yield started


def test_certificates_of_cert_manager_are_issued_trusted_and_renewed(plane: ControlPlane, tmp_path: Path) -> None:
    """While the certificate is renewed, no Job is refused, and the CA stays."""
    paths = [f"--filename={build.manifest(f'{each}.yaml')}" for each in KINDS]
    plane.kubectl("apply", "--server-side", *paths, check=True)
    names = [f"crd/{each}.cert-manager.io" for each in KINDS]
    plane.kubectl(*WAIT, "--for=condition=Established", *names, check=True)
    plane.run("cert-manager", [build.ensure("cert-manager")["cert-manager"], f"--kubeconfig={plane.kubeconfig}"])
    mount = tmp_path / "mounts" / "cert"  # where the volume with this name is written
    install(plane, tmp_path, {"webhook": {"certDir": str(mount)}}, enableCertManager=True)
    certificate = f"certificate/{RELEASE}-serving-cert"
    plane.kubectl(*WAIT, "--for=condition=Ready", certificate, "-n", NAMESPACE, check=True)
    with deployed(plane, tmp_path) as served, mounted(plane, mount, f"{RELEASE}-webhook-server-cert"):
        served.ready()
        (authority,) = bundles(plane)
        first = serial(served)
        with creates(plane, "default") as wrong:
            issuing = {"type": "Issuing", "status": "True", "reason": "Renewed", "message": "as cmctl renew does"}
            condition = json.dumps(
                {"status": {"conditions": [issuing | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
            )
            patch = ("--subresource=status", "--type=merge", "-p", condition)
            plane.kubectl("patch", certificate, "-n", NAMESPACE, *patch, check=True)
            until(lambda: serial(served) != first)
        assert wrong == []
        assert bundles(plane) == {authority}, "the CA stays"
        assert served.stop() == 0
    assert helm(plane, "uninstall", RELEASE).returncode == 0


@contextmanager
def mounted(plane: ControlPlane, directory: Path, secret: str) -> Iterator[None]:
    """Writes a Secret into the files of a volume again and again, as kubelet does when it changes."""
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(0.5):
            for name, text in get(plane, "secret", secret, "-n", NAMESPACE)["data"].items():
                (directory / name).write_bytes(base64.b64decode(text))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def bundles(plane: ControlPlane) -> set[str]:
    """Every CA by which the API server verifies Seiretsu."""
    found = [get(plane, each)["items"] for each in (*CONFIGURATIONS, "crds", "apiservices")]
    configs = [hook["clientConfig"] for raw in (*found[0], *found[1]) for hook in raw["webhooks"]]
    conversions = [raw["spec"].get("conversion") or {} for raw in found[2]]
    configs += [each["webhook"]["clientConfig"] for each in conversions if each.get("webhook")]
    configs += [raw["spec"] for raw in found[3] if raw["metadata"]["name"].endswith("visibility.kueue.x-k8s.io")]
    return {each.get("caBundle", "") for each in configs}


def serial(served: Served) -> int:
    """The serial number of the certificate that is served."""
    text = ssl.get_server_certificate(("127.0.0.1", served.address.port))
    return x509.load_pem_x509_certificate(text.encode()).serial_number
