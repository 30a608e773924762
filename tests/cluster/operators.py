"""The operators of the kinds of jobs, each as its real release, run as guests of a control plane.

Each runs outside of the cluster with the service account of its release (``operator_accounts``). Two of them need
what one machine has once (MPI's port 8080, a directory of the training operator in /tmp): ``alone`` holds a lock for
them. What has no operator here has a stand-in, which says so: ``dashboard_stand_in`` for Ray's,
``SPARK_SUBMIT_STAND_IN`` for Spark's.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import functools
import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from devcluster import build
from devcluster.certificates import Authority
from tests.cluster.operator_accounts import ACCOUNTS, DRIVER, objects_of
from tests.cluster.world import World, holds
from tests.eventually import PATIENCE

Raw = dict[str, Any]

KUBEFLOW = ("pytorchjobs", "tfjobs", "xgboostjobs", "paddlejobs", "jaxjobs")
TRAINER = ("trainjobs", "trainingruntimes", "clustertrainingruntimes")
RAY = ("rayclusters", "rayjobs", "rayservices")
LWS = ("leaderworkersets", "disaggregatedsets")
SPARK = ("sparkapplications", "scheduledsparkapplications", "sparkconnects")
JOBSET = "jobset-crd"
"""The file with the definition of JobSets; the other definitions are in files named after their resources."""
OF_LWS = "leaderworkerset.sigs.k8s.io/name"
"""The label of all pods of a LeaderWorkerSet."""
SPARK_SUBMIT_STAND_IN = Path(__file__).parent / "spark_submit_stand_in.py"


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Holds the lock of this machine for operators of which only one instance can run."""
    with (Path(tempfile.gettempdir()) / "seiretsu-operators.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    """Whether a server listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def define(world: World, *files: str) -> None:
    """Install those of the definitions in these files that are missing, and wait until the API server serves all."""
    get = world.plane.administrator.get
    missing = [file for file in files if not get(_defined(file).served)]
    if missing:
        paths = [f"--filename={build.manifest(f'{file}.yaml')}" for file in missing]
        world.plane.kubectl("apply", "--server-side", "--validate=false", *paths, check=True, timeout=PATIENCE)
    for name, served in map(_defined, missing):
        at = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
        world.until(f"{name} is established", lambda at=at: holds(get(at) or {}, "Established"))  # type: ignore[misc]
        world.until(f"{served} is served", lambda served=served: get(served))  # type: ignore[misc]


RESTARTING: Final = (
    "/bin/sh",
    "-c",
    'while :; do "$@" & child=$!; trap "kill $child; exit" TERM INT; wait $child; sleep 1; done',
    "restarting",
)
"""A program after these words is started again when it has ended, as a kubelet does."""


class Defined(NamedTuple):
    """The name of a definition, and the path at which the API server serves its objects."""

    name: str
    served: str


@functools.cache
def _defined(file: str) -> Defined:
    # a definition has up to 1.4 MB: Python's own loader would take two seconds of CPU for each
    definition = yaml.load(build.manifest(f"{file}.yaml").read_text(), Loader=yaml.CSafeLoader)
    spec = definition["spec"]
    served = f"/apis/{spec['group']}/{spec['versions'][-1]['name']}/{spec['names']['plural']}"
    return Defined(definition["metadata"]["name"], served)


class Operators:
    """The operators of one control plane; their files are in one directory."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        self.plane = world.plane
        self.directory = directory
        self.authority = Authority("operators")
        self.kubeconfigs: dict[str, Path] = {}

    def account(self, program: str) -> Path:
        """The kubeconfig of an operator's account, which is made with its namespace when it is first asked for."""
        if program not in self.kubeconfigs:
            account = ACCOUNTS[program]
            self.world.create(*objects_of(account, self.world.namespace))
            self.kubeconfigs[program] = self.plane.kubeconfig_of(account.namespace, account.name, self.directory)
        return self.kubeconfigs[program]

    def run(self, program: str, *arguments: str, restarts: bool = False, **environ: str) -> Path:
        """Run a program of an operator, again when it has ended if it ``restarts``; returns the path of its log."""
        found = [*(RESTARTING if restarts else ()), build.ensure(program)[program]]
        temporary = self.directory / program
        temporary.mkdir(exist_ok=True)
        known = {"KUBECONFIG": str(self.account(program)), "TMPDIR": str(temporary)}
        return self.plane.run(program, [*found, *arguments], environ={**os.environ, **known, **environ})

    def training(self) -> None:
        """The training operator v1. Its validation is not installed: its configuration has no webhooks."""
        define(self.world, *KUBEFLOW)
        self.account("training-operator")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "training-operator-webhook-cert"}}
        self.plane.kubectl("create", "-n", "kubeflow", "-f", "-", stdin=json.dumps(secret), check=True)
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        hooks = {**kind, "metadata": {"name": "validator.training-operator.kubeflow.org"}, "webhooks": []}
        self.plane.kubectl("create", "-f", "-", stdin=json.dumps(hooks), check=True)
        below = "k8s-webhook-server/serving-certs/tls"
        for top in (Path("/tmp"), self.directory / "training-operator"):
            (top / below).parent.mkdir(parents=True, exist_ok=True)
            self.authority.server("127.0.0.1").write(top / below)
        kinds = [f"--enable-scheme={plural.removesuffix('s')}" for plural in KUBEFLOW]
        off = ("--metrics-bind-address=0", "--health-probe-bind-address=0")
        rates = ("--kube-api-qps=200", "--kube-api-burst=400")
        self.run("training-operator", *kinds, *off, *rates, f"--webhook-server-port={free_port()}")

    def mpi(self) -> None:
        """The MPI operator, which needs port 8080 and cannot do without leader election: on a busy machine it loses its
        Lease, and ends.
        """
        define(self.world, "mpijobs")
        rates = ("--kube-api-qps=200", "--kube-api-burst=400", "--controller-queue-rate-limit=500")
        self.run("mpi-operator", f"--kubeConfig={self.account('mpi-operator')}", *rates, restarts=True)

    def kuberay(self, proxy: str) -> None:
        """KubeRay, whose calls of Ray's dashboards go to a proxy."""
        define(self.world, *RAY)
        off = ("--metrics-addr=0", "--health-probe-bind-address=0", "--enable-leader-election=false")
        self.run("kuberay-operator", *off, "--reconcile-concurrency=4", HTTP_PROXY=proxy, http_proxy=proxy)

    def appwrapper(self) -> None:
        """AppWrapper's operator, with short waits before it calls something a failure."""
        define(self.world, "appwrappers")
        namespace = ACCOUNTS["appwrapper-controller"].namespace
        self.account("appwrapper-controller")
        second = 1_000_000_000
        waits = {"retryLimit": 0, "failureGracePeriod": second, "resetPause": second, "deletionGracePeriod": second}
        config = {
            "webhooksEnabled": False,
            "controllerManager": {"metrics": {"bindAddress": "0"}, "health": {"bindAddress": "0"}},
            "appwrapper": {
                "userRBACAdmissionCheck": False,
                "autopilot": {"monitorNodes": False},
                "faultTolerance": {
                    **waits,
                    "admissionGracePeriod": 60 * second,
                    "warmupGracePeriod": 60 * second,
                    "gracePeriodCeiling": 600 * second,
                    "successTTLCeiling": 600 * second,
                },
            },
        }
        given = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "appwrapper-operator-config"},
            "data": {"config.yaml": json.dumps(config)},
        }
        self.plane.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(given), check=True)
        self.run("appwrapper-controller", NAMESPACE=namespace)

    def jobset(self) -> Path:
        """JobSet's controller with its webhooks; returns the path of its log."""
        define(self.world, JOBSET)
        return self._controller(
            "jobset", apiVersion="config.jobset.x-k8s.io/v1alpha1", **self._own_certificates("jobset")
        )

    def lws(self) -> None:
        """The controller of LeaderWorkerSets with its webhooks."""
        define(self.world, *LWS)
        self._controller("lws", apiVersion="config.lws.x-k8s.io/v1alpha1", pods=OF_LWS, **self._own_certificates("lws"))

    def trainer(self) -> None:
        """The trainer with its webhooks; JobSet's controller must run."""
        define(self.world, *TRAINER)
        self._controller(
            "trainer",
            "--feature-gates=TrainJobStatus=false",
            apiVersion="config.trainer.kubeflow.org/v1alpha1",
            certManagement={"enable": False},
        )

    def spark(self, namespace: str) -> None:
        """The Spark operator's controller; of its webhooks only what concerns pods is there, by the stand-in."""
        define(self.world, *SPARK)
        self.world.create(*objects_of(DRIVER._replace(namespace=namespace)))
        home = self.directory / "spark"
        (home / "bin").mkdir(parents=True)
        script = home / "bin" / "spark-submit"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {SPARK_SUBMIT_STAND_IN} {_kubectl()} "$@"\n')
        script.chmod(0o755)
        off = ("--leader-election=false", "--health-probe-bind-address=0", "--metrics-bind-address=0")
        self.run(
            "spark-operator",
            *("controller", "start", f"--namespaces={namespace}", *off, "--enable-ui-service=false"),
            SPARK_HOME=str(home),
            OF_THE_KUBELET=str(self.plane.kubeconfig),
            KUBERNETES_SERVICE_HOST="127.0.0.1",
            KUBERNETES_SERVICE_PORT="443",
        )

    def _controller(self, name: str, *options: str, pods: str = "", **settings: Any) -> Path:
        """Run the controller of this name with a configuration, and install its webhooks; returns the path of its log.

        ``pods``: the label of its own pods; without one its webhooks get no pods.
        """
        program, port = f"{name}-controller", free_port()
        certificates = self._certificates(name)
        certificates.mkdir(parents=True)
        self.authority.server("127.0.0.1").write(certificates / "tls")
        config = {
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": "0"},
            **settings,
            "webhook": {**settings.get("webhook", {}), "port": port},
        }
        path = self.directory / f"{name}.yaml"
        path.write_text(json.dumps(config))
        log = self.run(program, f"--config={path}", *options)
        self.world.until(f"the webhooks of {program} listen", lambda: listens(port))
        self._hooks(name, port, pods)
        return log

    def _certificates(self, name: str) -> Path:
        """The directory where a controller looks for the certificate of its webhooks, below its ``TMPDIR``."""
        return self.directory / f"{name}-controller" / "k8s-webhook-server" / "serving-certs"

    def _own_certificates(self, name: str) -> Raw:
        """The settings of a controller that would make certificates itself, and looks for them in /tmp."""
        return {"internalCertManagement": {"enable": False}, "webhook": {"certDir": str(self._certificates(name))}}

    def _hooks(self, name: str, port: int, pods: str) -> None:
        """Install webhooks of a release, which are called on a port of this machine."""
        bundle = base64.b64encode(self.authority.pair.certificate).decode()
        for document in yaml.safe_load_all(build.manifest(f"{name}-webhooks.yaml").read_text()):
            document["metadata"]["name"] = f"{name}-{document['metadata']['name']}"
            about_pods = [each for each in document["webhooks"] if "pods" in each["rules"][0]["resources"]]
            for each in about_pods:
                each["objectSelector"] = {"matchExpressions": [{"key": pods, "operator": "Exists"}]}
            document["webhooks"] = [each for each in document["webhooks"] if pods or each not in about_pods]
            for each in document["webhooks"]:
                url = f"https://127.0.0.1:{port}{each['clientConfig']['service']['path']}"
                each["clientConfig"] = {"url": url, "caBundle": bundle}
            self.world.create(document)


def _kubectl() -> Path:
    return build.ensure("kubectl")["kubectl"]


class _DashboardStandIn(BaseHTTPRequestHandler):
    """Answers as the dashboards of all Ray clusters would: the name of a cluster says how its job ends."""

    def do_GET(self) -> None:
        host, path = self.headers.get("Host", ""), self.path.partition("://")[2].partition("/")[2] or self.path
        if "/api/jobs/" in f"/{path}":
            self._answer(_ray_job(host, path.rpartition("/")[2]))
        elif "/api/serve/applications" in f"/{path}":
            self._answer({"applications": {"fruit": {"name": "fruit", "status": "RUNNING", "deployments": {}}}})
        else:
            self._answer("success")

    def do_PUT(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer({"stopped": True, "submission_id": "stand-in"})

    def do_DELETE(self) -> None:
        self._answer({})

    def _answer(self, content: Any) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


def _ray_job(host: str, name: str) -> Raw:
    ends = {"lasts": "RUNNING", "fails": "FAILED"}
    status = next((state for word, state in ends.items() if word in host), "SUCCEEDED")
    told = {"job_id": name, "submission_id": name, "message": f"the stand-in says {status}", "start_time": 1}
    return {"status": status, "entrypoint": "e", "type": "SUBMISSION", **told}


@contextlib.contextmanager
def dashboard_stand_in() -> Iterator[str]:
    """A proxy that answers in the place of Ray's dashboards; yields its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _DashboardStandIn) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
