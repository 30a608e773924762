"""What `helm test` runs: its pod asks the webhooks as the API server does, and fails if they do not answer."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from api.kinds import KINDS
from api.objects import Raw
from devcluster.certificates import Authority
from tests.charts.rendering import CHART, documents, only, rendered
from tests.eventually import PATIENCE
from tests.reviewing import ReviewHandler
from tests.webhook.cluster import ask

pytestmark = pytest.mark.cluster

PATH = "/validate-kueue-x-k8s-io-v1beta2-resourceflavor"


def pod(given: Raw | None = None) -> Raw:
    return only(documents(rendered(given)), "Pod", "seiretsu-test")


@contextmanager
def webhook(authority: Authority, directory: Path, *, status: int = 200, refuses: bool = False) -> Iterator[int]:
    """A server on a port of "localhost" that answers what the hook answers; with another status, nothing else."""

    class Handler(ReviewHandler):
        def respond(self, request: Raw) -> Raw:
            assert self.path == PATH
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
            return {"allowed": False} if refuses else ask(self.path, review)

        def do_POST(self) -> None:  # noqa: N802 - as http.server names it
            super().do_POST() if status == 200 else self.send_error(status)

    authority.server("localhost").write(directory / "server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "server.crt", directory / "server.key")
    with http.server.ThreadingHTTPServer(("localhost", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("trusted", "status", "refuses", "client_ca", "code"),
    [
        (True, 200, False, "", 0),
        (False, 200, False, "", 1),
        (True, 200, True, "", 1),
        (True, 503, False, "", 1),
        (True, 403, False, "clients", 0),
        (True, 200, False, "clients", 1),
    ],
    ids=[
        "answers",
        "a certificate of another CA",
        "refuses a valid flavor",
        "is not ready",
        "refuses who is not the API server",
        "answers everybody although it has a client CA",
    ],
)
def test_the_program_ends_with_0_only_if_the_webhooks_answer(
    tmp_path: Path, trusted: bool, status: int, refuses: bool, client_ca: str, code: int
) -> None:
    authority = Authority("seiretsu")
    known = authority if trusted else Authority("another")
    (tmp_path / "ca.crt").write_bytes(known.pair.certificate)
    (container,) = pod({"webhooks": {"clientCA": {"secretName": client_ca}}})["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"]}
    with webhook(authority, tmp_path, status=status, refuses=refuses) as port:
        here = {"SERVICE": "localhost", "PORT": str(port), "CA": str(tmp_path / "ca.crt")}
        program = [sys.executable, "-I", "-B", "-c", *container["args"]]
        done = subprocess.run(program, env=given | here, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == code, done.stdout + done.stderr


def test_the_pod_is_none_of_the_replicas_and_asks_the_service_with_the_published_ca() -> None:
    found = documents(rendered({"webhookService": {"ports": [{"port": 8443, "targetPort": "webhook"}]}}))
    tested, deployment = only(found, "Pod"), only(found, "Deployment")["spec"]
    assert tested["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert not deployment["selector"]["matchLabels"].items() <= tested["metadata"]["labels"].items()
    (container,), (replica,) = tested["spec"]["containers"], deployment["template"]["spec"]["containers"]
    assert container["image"] == replica["image"]
    given = {each["name"]: each["value"] for each in container["env"]}
    service = only(found, "Service", "seiretsu-webhook-service")
    assert given["SERVICE"] == f"{service['metadata']['name']}.queues.svc"
    assert given["PORT"] == str(service["spec"]["ports"][0]["port"])
    (volume,) = tested["spec"]["volumes"]
    assert volume["secret"]["secretName"] == only(found, "Secret")["metadata"]["name"]


def test_artifact_hub_is_told_every_kind() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    found = {
        (each["kind"], each["version"], each["name"])
        for each in yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])
    }
    assert found == {(each.kind, each.versions[0].name, each.crd_name) for each in KINDS}
