"""A program on this machine behind a Service of the control plane, as a chart's webhook is: it listens on its port."""

from __future__ import annotations

import base64
import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.objects import Raw
from devcluster.certificates import Authority
from devcluster.controlplane import ControlPlane
from tests.reviewing import ReviewHandler

_SERVICE = """
apiVersion: v1
kind: Service
metadata: {{name: refuser, namespace: {namespace}}}
spec:
  selector: {{app: refuser}}
  ports: [{{name: https, port: {port}, targetPort: https}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: {namespace}}}
webhooks:
- name: refuser.seiretsu.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {{caBundle: {bundle}, service: {{namespace: {namespace}, name: refuser, port: {port}}}}}
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {namespace}}}}}
  rules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}}]
"""


class _Refuse(ReviewHandler):
    def respond(self, request: Raw) -> Raw:
        return {"allowed": False, "status": {"message": "reached and refused"}}


@pytest.fixture
def refuser(namespace: str, tmp_path: Path) -> Iterator[tuple[int, bytes]]:
    """The port of a webhook that refuses all it is asked, and the authority its callers may trust."""
    authority = Authority("test")
    authority.server(f"refuser.{namespace}.svc").write(tmp_path / "serving")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "serving.crt", tmp_path / "serving.key")
    with http.server.ThreadingHTTPServer(("0.0.0.0", 0), _Refuse) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port, authority.pair.certificate
        server.shutdown()
        thread.join()


@pytest.mark.cluster
def test_the_api_server_calls_a_webhook_behind_a_service(
    cluster: ControlPlane, namespace: str, refuser: tuple[int, bytes]
) -> None:
    port, authority = refuser
    manifest = _SERVICE.format(namespace=namespace, port=port, bundle=base64.b64encode(authority).decode())
    cluster.kubectl("apply", "-f", "-", stdin=manifest, check=True)
    try:
        for _ in range(100):  # the API server's caches take a moment to know Service and webhook
            answer = cluster.kubectl("create", "secret", "generic", "any", "-n", namespace, "--dry-run=server")
            if "reached and refused" in answer.stderr:
                break
        assert "reached and refused" in answer.stderr, answer
    finally:
        cluster.kubectl("delete", "validatingwebhookconfiguration", namespace, check=True)
