"""A cluster with Kueue, as far as others see it: objects with the names and in the form of Kueue's manifests, a server
that answers its webhooks, and its Lease. A test plays kubelet: the server runs while the Deployment has replicas.

The real Kueue can be used instead: `KUEUE_MANIFESTS` is the file that `kubectl kustomize config/default` prints, and
`KUEUE_MANAGER` the program. Nothing of it is part of this repository.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import http.server
import json
import os
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import yaml

from api import crds
from api.names import GROUP, LEADER_ELECTION_ID, Label
from api.objects import Raw
from devcluster.certificates import Authority
from devcluster.controlplane import ControlPlane
from operations.uninstall import held
from tests.cluster.charted import free_ports
from tests.eventually import PATIENCE, WAIT, until
from tests.reviewing import ReviewHandler

NAMESPACE = "kueue-system"
DEPLOYMENT = "kueue-controller-manager"
SERVICE = "kueue-webhook-service"
SECRET = "kueue-webhook-server-cert"
LABELS = {"app.kubernetes.io/name": "kueue", "control-plane": "controller-manager"}
CONVERSION: Raw = {"service": {"name": SERVICE, "namespace": NAMESPACE, "path": "/convert"}}
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


def definitions() -> list[Raw]:
    """CRDs as Kueue has them, but for what the schemas describe: no Queue, its names LocalQueue's."""
    found = []
    for definition in crds.definitions(CONVERSION):
        names, spec = definition["spec"]["names"], definition["spec"]
        if names["kind"] == "Queue":
            continue
        if names["kind"] == "LocalQueue":
            del names["categories"]
            names["shortNames"] = ["queue", "queues", "lq"]
        spec["versions"] = [version for version in spec["versions"] if version["name"] != "v1alpha1"]
        found.append(definition)
    return found


def manifests() -> list[Raw]:
    """Returns Kueue's objects in the order in which they are applied."""
    if file := os.environ.get("KUEUE_MANIFESTS"):
        return [each for each in yaml.load_all(Path(file).read_text(), Loader=yaml.CSafeLoader) if each]
    return [
        _object("v1", "Namespace", NAMESPACE),
        *({**each, "metadata": {**each["metadata"], "labels": LABELS}} for each in definitions()),
        _object("v1", "ServiceAccount", DEPLOYMENT),
        _object("v1", "ConfigMap", "kueue-manager-config", data={"controller_manager_config.yaml": _CONFIGURATION}),
        _object("v1", "Service", SERVICE, spec={"ports": [{"port": 443, "targetPort": 9443}], "selector": _SELECTOR}),
        _object("apps/v1", "Deployment", DEPLOYMENT, spec=_DEPLOYMENT),
        _webhooks("Mutating", _webhook("mjob", "batch", "jobs"), _webhook("mworkload", GROUP, "workloads")),
        _webhooks("Validating", _webhook("vjob", "batch", "jobs"), _webhook("vcohort", GROUP, "cohorts")),
        _object("apiregistration.k8s.io/v1", "APIService", "v1beta2.visibility.kueue.x-k8s.io", spec=_VISIBILITY),
    ]


def _object(version: str, kind: str, name: str, **fields: object) -> Raw:
    place = {} if kind in ("Namespace", "APIService") else {"namespace": NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": LABELS, **place}, **fields}


_SELECTOR = {"control-plane": "controller-manager"}
_CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
webhook: {port: 9443}
leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io}
integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset]}
"""
_DEPLOYMENT = {
    "replicas": 1,
    "selector": {"matchLabels": _SELECTOR},
    "template": {
        "metadata": {"labels": LABELS},
        "spec": {
            "serviceAccountName": DEPLOYMENT,
            "containers": [{"name": "manager", "image": "kueue", "args": ["--feature-gates=ReclaimablePods=true"]}],
            "volumes": [{"name": "manager-config", "configMap": {"name": "kueue-manager-config"}}],
        },
    },
}
_VISIBILITY = {
    "group": "visibility.kueue.x-k8s.io",
    "version": "v1beta2",
    "groupPriorityMinimum": 100,
    "versionPriority": 100,
    "insecureSkipTLSVerify": True,
    "service": {"name": "kueue-visibility-server", "namespace": NAMESPACE},
}


def _webhook(name: str, group: str, plural: str) -> Raw:
    system = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", NAMESPACE]}
    version = "v1" if group == "batch" else "v1beta2"
    return {
        "name": f"{name}.kb.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"service": {"name": SERVICE, "namespace": NAMESPACE, "path": f"/{name}"}},
        "namespaceSelector": {"matchExpressions": [system]},
        "rules": [
            {"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE", "UPDATE"], "resources": [plural]}
        ],
    }


def _webhooks(phase: str, *webhooks: Raw) -> Raw:
    name = f"kueue-{phase.lower()}-webhook-configuration"
    found = _object("admissionregistration.k8s.io/v1", f"{phase}WebhookConfiguration", name, webhooks=list(webhooks))
    del found["metadata"]["namespace"]
    return found


class Program(Protocol):
    """What runs in Kueue's pod."""

    def start(self) -> None:
        """Start it; its webhooks answer when this returns."""

    def stop(self) -> None:
        """End it, as SIGTERM does."""


class Kueue:
    """Kueue on a control plane: its objects, and its program while the Deployment has replicas."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane, (self.port,) = plane, free_ports(1)
        authority = Authority("kueue")
        authority.server(f"{SERVICE}.{NAMESPACE}.svc").write(directory / "kueue")
        self.program: Program
        if manager := os.environ.get("KUEUE_MANAGER"):
            self.program, self.bundle = _Manager(plane, directory, manager, self.port), ""
        else:
            self.program = _StandIn(plane, directory, self.port)
            self.bundle = base64.b64encode(authority.pair.certificate).decode()

    def install(self) -> None:
        """Apply its manifests, for the port on which the program listens here, and start it."""
        crds_first = [self._here(each) for each in manifests()]
        hooks = [each for each in crds_first if each["kind"].endswith("WebhookConfiguration")]
        others = [each for each in crds_first if each not in hooks]
        self._apply(others)
        if not self.bundle:
            self._apply(hooks)
        self.program.start()
        if self.bundle:
            self._apply(hooks)

    def _apply(self, objects: list[Raw]) -> None:
        text = yaml.dump_all(objects, Dumper=yaml.CSafeDumper)
        self.plane.kubectl("apply", "--server-side", "--field-manager=installer", "-f", "-", stdin=text, check=True)
        names = [f"crd/{each['metadata']['name']}" for each in objects if each["kind"] == "CustomResourceDefinition"]
        if names:
            self.plane.kubectl(*WAIT, "--for=condition=Established", *names, check=True)

    def _here(self, raw: Raw) -> Raw:
        """Nothing routes Services here: a program listens on the port of its Service, and has a certificate for it."""
        raw = json.loads(json.dumps(raw))
        configs = [each["clientConfig"] for each in raw.get("webhooks") or ()]
        conversion = (raw.get("spec") or {}).get("conversion") or {}
        configs += [conversion["webhook"]["clientConfig"]] if conversion.get("webhook") else []
        for config in configs:
            config["service"]["port"] = self.port
            if self.bundle:
                config["caBundle"] = self.bundle
        if raw["kind"] == "Service" and raw["metadata"]["name"] == SERVICE:
            raw["spec"]["ports"] = [{"port": self.port, "targetPort": self.port}]
        return raw

    def replicas(self) -> int:
        """What the Deployment asks for."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{DEPLOYMENT}"
        return int((self.plane.administrator.get(path) or {"spec": {"replicas": 0}})["spec"]["replicas"])

    @contextlib.contextmanager
    def kubelet(self) -> Iterator[None]:
        """Ends and starts the program as the Deployment asks."""
        ended = threading.Event()

        def follow() -> None:
            runs = True
            while not ended.wait(0.2):
                wanted = self.replicas() > 0
                if wanted and not runs:
                    self.program.start()
                elif runs and not wanted:
                    self.program.stop()
                runs = wanted

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.program.stop()


class _StandIn:
    """Suspends Jobs with a queue name, converts by renaming the version, and holds the Lease; decides nothing."""

    def __init__(self, plane: ControlPlane, directory: Path, port: int) -> None:
        self._plane, self._directory, self._port = plane, directory, port
        self._server: http.server.ThreadingHTTPServer | None = None
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        self._ended.clear()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._directory / "kueue.crt", self._directory / "kueue.key")
        self._server = http.server.ThreadingHTTPServer(("0.0.0.0", self._port), _Answer)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._threads = [threading.Thread(target=each) for each in (self._server.serve_forever, self._lead)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        if self._server is None:
            return
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        for thread in self._threads:
            thread.join()

    def _lead(self) -> None:
        """Takes the Lease where it is free or has expired, renews it, and releases it at the end, as Kueue does."""
        me, led = f"{DEPLOYMENT}-1_standin", False
        while not self._ended.wait(0.5):
            lease = self._plane.administrator.get(f"{LEASE}/{LEADER_ELECTION_ID}")
            led = led or not lease or not held(lease, datetime.datetime.now(datetime.UTC))
            if led:
                self._write(lease, me)
        if led:
            self._write(self._plane.administrator.get(f"{LEASE}/{LEADER_ELECTION_ID}"), "")

    def _write(self, lease: Raw | None, holder: str) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "renewTime": now, "acquireTime": now, "leaseDurationSeconds": 15}
        metadata = {"name": LEADER_ELECTION_ID, "namespace": NAMESPACE}
        body: Raw = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        if lease is None:
            self._plane.administrator.request("POST", LEASE, body)
        else:
            body["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
            self._plane.administrator.request("PUT", f"{LEASE}/{LEADER_ELECTION_ID}", body)


class _Answer(ReviewHandler):
    protocol_version = "HTTP/1.1"

    def respond(self, request: Raw) -> Raw:
        if self.path.startswith("/convert"):
            version = request["desiredAPIVersion"]
            converted = [{**each, "apiVersion": version} for each in request["objects"]]
            return {"convertedObjects": converted, "result": {"status": "Success"}}
        job = request.get("object") or {}
        created = self.path.startswith("/mjob") and request["operation"] == "CREATE"
        if not created or Label.QUEUE_NAME not in (job["metadata"].get("labels") or {}):
            return {"allowed": True}
        patch = json.dumps([{"op": "add", "path": "/spec/suspend", "value": True}]).encode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}


class _Manager:
    """The real program, with a token of its service account, its Configuration, and its Secret as files."""

    def __init__(self, plane: ControlPlane, directory: Path, program: str, port: int) -> None:
        self._plane, self._directory, self._program, self._port = plane, directory, program, port
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        health, metrics = free_ports(2)
        found = self._plane.kubectl(
            "get", "configmap", "kueue-manager-config", "-n", NAMESPACE, "-o", "json", check=True
        )
        config = yaml.safe_load(json.loads(found.stdout)["data"]["controller_manager_config.yaml"])
        certs = self._directory / "mounted"
        certs.mkdir(exist_ok=True)
        config["webhook"] = {"port": self._port, "certDir": str(certs)}
        config["health"] = {"healthProbeBindAddress": f"127.0.0.1:{health}"}
        config["metrics"] = {"bindAddress": f"127.0.0.1:{metrics}"}
        # in a pod it reads this from a file
        config["leaderElection"] = {**config.get("leaderElection", {}), "resourceNamespace": NAMESPACE}
        file = self._directory / "controller_manager_config.yaml"
        file.write_text(yaml.safe_dump(config))
        kubeconfig = self._plane.kubeconfig_of(NAMESPACE, DEPLOYMENT, self._directory)
        self._ended.clear()
        self._thread = threading.Thread(target=self._mount, args=(certs,))
        self._thread.start()
        Path("/visibility").mkdir(exist_ok=True)
        named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', f"{DEPLOYMENT}-1")  # as its pod
        with (self._directory / "kueue.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*named, self._program, f"--config={file}", "--zap-log-level=2", f"--kubeconfig={kubeconfig}"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=os.environ | {"KUEUE_NAMESPACE": NAMESPACE},
            )  # fmt: skip

        def ready() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, (self._directory / "kueue.log").read_text()[-4000:]
            shown = subprocess.run(["curl", "-sf", f"http://127.0.0.1:{health}/readyz"], check=False)
            return shown.returncode == 0

        until(ready)

    def stop(self) -> None:
        if self._process is None:
            return
        self._ended.set()
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._process = None
        if self._thread is not None:
            self._thread.join()

    def _mount(self, certs: Path) -> None:
        """Writes the Secret's entries as files, as kubelet does."""
        while not self._ended.is_set():
            secret = self._plane.administrator.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}") or {}
            for name, value in (secret.get("data") or {}).items():
                (certs / name).write_bytes(base64.b64decode(value))
            time.sleep(0.5)
