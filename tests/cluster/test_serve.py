"""The process from an operator's view: when it prints `ready`, how it stops, and what it restores automatically."""

import asyncio
import base64
import json
import re
import signal
import ssl
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.kinds import KINDS
from api.names import GROUP, Finalizer
from app.server import Address
from certs.directory import FILE, DirectoryStore
from certs.keeper import Keeper
from certs.live import LiveContext
from controller.kube import config
from controller.kube.client import Client
from devcluster.controlplane import ControlPlane, Spec
from tests.app.http import Answer, Wire, get, post
from tests.eventually import PATIENCE, WAIT, eventually, until
from tests.faults import proxied, status
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {generateName: waits-, labels: {kueue.x-k8s.io/queue-name: anything}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: x}]}}}
"""
HOOK = "/validate-batch-v1-job"
CONVERTED = "crd/clusterqueues.kueue.x-k8s.io"
VALIDATING = "validatingwebhookconfiguration/seiretsu-validating-webhook-configuration"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of this module's own: its API server is stopped and its webhooks are deleted."""
    with ControlPlane.start(spec=Spec(nodes=())) as started:
        yield started


@pytest.fixture
def served(plane: ControlPlane, tmp_path: Path) -> Iterator[Served]:
    with serving(plane.kubeconfig, tmp_path, forked=False) as process:
        process.ready()
        yield process


def trust(tmp_path: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))


def create(plane: ControlPlane) -> subprocess.CompletedProcess[str]:
    return plane.kubectl("create", "-f", "-", "-o", "json", stdin=JOB)


async def test_ready_is_printed_once_and_from_then_on_jobs_wait(plane: ControlPlane, tmp_path: Path) -> None:
    with serving(plane.kubeconfig, tmp_path, "--profile", str(tmp_path / "profile.txt"), forked=False) as process:
        process.ready()
        made = create(plane)
        assert json.loads(made.stdout)["spec"]["suspend"] is True, made.stderr
        async with Wire(process.address, trust(tmp_path)) as wire:
            assert (await wire.call(get("/readyz"))).body == b"ok"
            assert (await wire.call(get("/readyz/controller"))).body == b"ok"
            assert (await wire.call(get("/healthz"))).body == b"ok"
            metrics = (await wire.call(get("/metrics"))).body.decode()
            for sample in (
                'seiretsu_admission_verdicts_total{hook="/mutate-batch-v1-job",operation="CREATE",verdict="changed"}',
                "seiretsu_leader 1.0",
                'seiretsu_informer_age_seconds{resource="workloads"}',
                'seiretsu_gc_pause_seconds_count{generation="2"}',
                'seiretsu_ca_rotation_steps_total{step="create"}',
            ):
                assert sample in metrics
            assert "_created" not in metrics, "a second series for each counter"
        process.process.send_signal(signal.SIGUSR1)
        assert process.logged("The log level was changed")["to"] == "debug"
        create(plane)
        told = process.logged("admission changed")
        assert (told["level"], told["kind"], told["operation"], told["namespace"]) == (
            "debug",
            "Job",
            "CREATE",
            "default",
        )
        assert process.stop() == 0
        stacks = (tmp_path / "profile.txt").read_text()
        assert re.search(r"serve:run;\S+ \d+\n", stacks)
        assert process.lines == ["ready"]


async def test_metrics_are_given_to_clients_that_the_api_server_authorizes(plane: ControlPlane, tmp_path: Path) -> None:
    plane.kubectl("create", "serviceaccount", "prometheus", "-n", "default", check=True)
    token = plane.kubectl("create", "token", "prometheus", "-n", "default", check=True).stdout.strip()
    (tmp_path / "config.yaml").write_text("metrics: {bindAddress: ':0'}\n")
    with serving(plane.kubeconfig, tmp_path, "--config", str(tmp_path / "config.yaml")) as process:
        process.ready()
        (metrics,) = process.logged("Listening")["others"]
        address = Address("127.0.0.1", Address.parse(metrics).port)

        async def asked(*headers: str) -> Answer:
            async with Wire(address, trust(tmp_path)) as wire:
                return await wire.call(get("/metrics", *headers))

        assert (await asked()).status == 401
        assert (await asked("Authorization: Bearer nonsense")).status == 401
        denied = await asked(f"Authorization: Bearer {token}")
        user = "system:serviceaccount:default:prometheus"
        assert (denied.status, denied.body.decode()) == (
            403,
            f"{user} may not get /metrics: it needs the right get on the nonResourceURL /metrics\n",
        )
        plane.kubectl("create", "clusterrole", "reader", "--verb=get", "--non-resource-url=/metrics", check=True)
        role = ("--clusterrole=reader", "--serviceaccount=default:prometheus")
        plane.kubectl("create", "clusterrolebinding", "reader", *role, check=True)
        allowed = Answer(0, {})
        async with asyncio.timeout(PATIENCE):
            while allowed.status != 200:  # the API server's caches of rights, and that of denials
                await asyncio.sleep(0.5)
                allowed = await asked(f"Authorization: Bearer {token}")
        assert b"seiretsu_webhook_requests_total" in allowed.body


async def test_without_an_api_server_it_waits_and_says_why_and_is_ready_once_there_is_one(
    plane: ControlPlane, tmp_path: Path
) -> None:
    plane.kill_apiserver()
    try:
        with serving(plane.kubeconfig, tmp_path) as process:
            told = process.logged("The API server does not answer, trying again")
            assert (told["doing"], process.lines) == ("installing the CRDs", [])
            async with Wire(process.address, trust(tmp_path)) as wire:
                assert (await wire.call(get("/healthz"))).status == 200
                readiness = await wire.call(get("/readyz"))
            assert (readiness.status, b"[-]ca-bundle" in readiness.body) == (503, True)
            plane.start_apiserver()
            process.ready()
            assert process.stop() == 0
    finally:
        if not plane.runs("kube-apiserver"):
            plane.start_apiserver()


async def test_sigterm_is_obeyed_while_there_is_no_api_server(plane: ControlPlane, tmp_path: Path) -> None:
    plane.kill_apiserver()
    try:
        with serving(plane.kubeconfig, tmp_path, forked=False) as process:
            process.logged("The API server does not answer, trying again")
            assert process.stop() == 0
            assert process.lines == []
    finally:
        plane.start_apiserver()


async def test_an_api_server_that_dies_and_comes_back_does_not_end_the_process(
    plane: ControlPlane, served: Served, tmp_path: Path
) -> None:
    """Meanwhile it is alive, and ready: webhooks need no API server."""
    plane.kill_apiserver()
    async with Wire(served.address, trust(tmp_path)) as wire:
        for path in ("/healthz", "/readyz"):
            assert (await wire.call(get(path))).body == b"ok"
    plane.start_apiserver()
    made = create(plane)
    assert json.loads(made.stdout)["spec"]["suspend"] is True, made.stderr
    assert served.process.poll() is None


async def test_t11_a_call_in_flight_at_sigterm_is_answered_and_the_process_ends_with_0(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """T11: it ends after the lame duck time, when no new connection is accepted any more. `test_rollout.py` has the
    other half: of two replicas one is asked to stop, under load.
    """
    request = post(HOOK, b"{" + b" " * 1000 + b"}")
    with serving(plane.kubeconfig, tmp_path, "--lame-duck", "2", forked=False) as served:
        served.ready()
        async with Wire(served.address, trust(tmp_path)) as wire, Wire(served.address, trust(tmp_path)) as probe:
            await probe.call(get("/healthz"))
            served.process.terminate()
            served.logged("Asked to stop: answering the calls in flight")
            await wire.send(request[:-500])
            readiness = await probe.call(get("/readyz"))
            assert (readiness.status, readiness.headers["connection"]) == (503, "close")
            while await accepts(served.address, tmp_path):  # noqa: ASYNC110 - the other process closes its port
                await asyncio.sleep(0.05)
            await wire.send(request[-500:])
            answer = await wire.answer()
            assert (answer.status, answer.headers["connection"]) == (400, "close")  # no review, but answered
        assert await asyncio.to_thread(served.wait) == 0


async def accepts(address: Address, tmp_path: Path) -> bool:
    """Whether a new connection is answered."""
    try:
        async with Wire(address, trust(tmp_path)) as wire:
            return (await wire.call(get("/healthz"))).status == 200
    except OSError:
        return False


async def test_deleted_or_changed_hooks_are_restored_although_they_are_lost_again_and_again(
    plane: ControlPlane, served: Served
) -> None:
    bundle = base64.b64decode(_bundle(plane))
    for spoil in (
        ("delete", VALIDATING),
        ("patch", VALIDATING, "--type=json", "-p", '[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]'),
        ("patch", VALIDATING, "--type=json", "-p", '[{"op": "remove", "path": "/webhooks/0"}]'),
    ):
        plane.kubectl(*spoil, check=True)
        await eventually(lambda: base64.b64decode(_bundle(plane)) == bundle)
    patch = '{"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}}'
    plane.kubectl("patch", CONVERTED, "--type=merge", "-p", patch, check=True)
    path = "jsonpath={.spec.conversion.webhook.clientConfig.caBundle}"
    await eventually(lambda: plane.kubectl("get", CONVERTED, "-o", path).stdout)


def _bundle(plane: ControlPlane) -> str:
    found = plane.kubectl("get", VALIDATING, "-o", "json")
    hooks = json.loads(found.stdout)["webhooks"] if found.returncode == 0 else []
    bundles = {hook["clientConfig"].get("caBundle", "") for hook in hooks}
    return bundles.pop() if len(bundles) == 1 and len(hooks) > 4 else ""


async def _stored_by_a_wrong_clock(directory: Path) -> bytes:
    """The CA that a process whose clock is 300 days ahead leaves behind."""
    ahead = datetime.now(UTC) + timedelta(days=300)
    one = Keeper(DirectoryStore(directory), LiveContext(), ("localhost",), clock=lambda: ahead)
    await one.tick()
    return (directory / FILE).read_bytes()


async def test_a_ca_of_the_future_neither_ends_a_start_nor_the_service(plane: ControlPlane, tmp_path: Path) -> None:
    poison = await _stored_by_a_wrong_clock(tmp_path)
    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()
        assert json.loads(create(plane).stdout)["spec"]["suspend"] is True
        (tmp_path / FILE).write_bytes(poison)
        await eventually(lambda: (tmp_path / FILE).read_bytes() != poison)
        made = create(plane)
        assert json.loads(made.stdout)["spec"]["suspend"] is True, made.stderr
        async with Wire(process.address, trust(tmp_path)) as wire:
            assert (await wire.call(get("/readyz"))).body == b"ok"
        assert process.stop() == 0


async def test_a_port_in_use_is_an_error_that_names_it(plane: ControlPlane, served: Served, tmp_path: Path) -> None:
    with serving(plane.kubeconfig, tmp_path, "--bind", str(served.address), forked=False) as second:
        assert second.wait() == 1
        failed = second.logged("Could not start")
    said = f"cannot listen on {served.address}: Address already in use; --bind ADDR:PORT chooses another one"
    assert said in failed["error"]


async def test_rights_that_do_not_suffice_yet_are_named_and_waited_for(plane: ControlPlane, tmp_path: Path) -> None:
    plane.kubectl("create", "serviceaccount", "nobody", "-n", "default", check=True)
    kubeconfig = plane.kubeconfig_of("default", "nobody", tmp_path)
    with serving(kubeconfig, tmp_path / "certs") as process:
        refused = process.logged("Refused, trying again")
        assert refused["doing"] == "installing the CRDs"
        assert 'User "system:serviceaccount:default:nobody" cannot list resource' in refused["error"]
        role = ("clusterrolebinding", "nobody", "--clusterrole=cluster-admin", "--serviceaccount=default:nobody")
        plane.kubectl("create", *role, check=True)
        process.ready()
        assert process.stop() == 0
        assert process.events[-1]["event"] == "Stopped"


REFUSALS = (status(409, "Conflict"), status(403, "Forbidden"), status(404, "NotFound"), status(429, "TooManyRequests"))


async def test_a_start_that_is_refused_here_and_there_ends_ready(plane: ControlPlane, tmp_path: Path) -> None:
    async with Client(config.load(plane.kubeconfig)) as beside, proxied(beside.connection) as proxy:
        for place in ("customresourcedefinitions", "webhookconfigurations"):
            for number, refusal in enumerate(REFUSALS):
                proxy.inject(refusal, method="PATCH" if number % 2 else "GET", path=place)
        (tmp_path / "kubeconfig").write_text(proxy.kubeconfig)
        with serving(tmp_path / "kubeconfig", tmp_path / "certs") as process:
            await asyncio.to_thread(process.ready)
            told = [event["error"] for event in process.events if event["event"] == "Refused, trying again"]
            assert {error.split()[0] for error in told} >= {"403", "404", "409"}
            assert await asyncio.to_thread(process.stop) == 0


def test_a_wrong_configuration_is_reported_in_full_and_nothing_starts(plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("webhook: {prot: 1}\nmetrics: 7\n")
    with serving(plane.kubeconfig, tmp_path, "--config", str(tmp_path / "config.yaml"), forked=False) as process:
        assert process.wait() == 2
        assert process.log[1:] == [
            '  webhook.prot: Forbidden: unknown field; did you mean "port"?',
            "  metrics: Invalid value: 7: must be a map of fields",
        ]


STOLEN = '{"spec": {"holderIdentity": "a thief", "renewTime": "2100-01-01T00:00:00.000000Z"}}'


async def test_a_part_that_ends_ends_the_process_and_is_named(plane: ControlPlane, tmp_path: Path) -> None:
    """The lease is taken from it: the controller must not go on, and without one the process is of no use."""
    (tmp_path / "config.yaml").write_text(
        "leaderElection:\n  {leaderElect: true, resourceNamespace: default, resourceName: theft,\n"
        "   leaseDuration: 12s, renewDeadline: 9s, retryPeriod: 500ms}\n"
    )
    with serving(plane.kubeconfig, tmp_path, "--config", str(tmp_path / "config.yaml")) as process:
        process.ready()
        assert process.logged("Successfully loaded config file")["path"] == str(tmp_path / "config.yaml")
        plane.kubectl(*WAIT, "--for=create", "lease/theft", "-n", "default", check=True)
        plane.kubectl(*WAIT, "--for=jsonpath={.spec.holderIdentity}", "lease/theft", "-n", "default", check=True)
        plane.kubectl("patch", "lease/theft", "-n", "default", "--type=merge", "-p", STOLEN, check=True)
        assert await asyncio.to_thread(process.wait) == 1
        told = process.logged("A task of this process ended: stopping")
        assert told["task"] == "controller"
        assert "LeadershipLostError" in told["error"]


async def test_the_controllers_writes_are_not_sent_to_the_webhooks(
    plane: ControlPlane, served: Served, tmp_path: Path
) -> None:
    assert create(plane).returncode == 0
    served.logged("workload status")
    async with Wire(served.address, trust(tmp_path)) as wire:
        page = (await wire.call(get("/metrics"))).body.decode()
    counted = [line for line in page.splitlines() if line.startswith("seiretsu_webhook_requests_total{")]
    assert any("/validate-batch-v1-job" in line for line in counted)
    assert not any("-workload" in line for line in counted)
    assert 'rest_client_requests_total{code="201",method="create",resource="workloads"}' in page


QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 0}]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: leaving}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: leaving}
spec: {clusterQueue: all}
---
apiVersion: batch/v1
kind: Job
metadata: {name: waiting, namespace: leaving, labels: {kueue.x-k8s.io/queue-name: main}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: x, resources: {requests: {cpu: 1}}}]}}}
"""


def test_uninstall_takes_back_what_install_installed(plane: ControlPlane, tmp_path: Path) -> None:
    def uninstall(*options: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "cli.main", "uninstall", "--kubeconfig", str(plane.kubeconfig), *options]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def suspended() -> str:
        words = ("get", "job", "waiting", "-n", "leaving", "-o", "jsonpath={.spec.suspend}")
        return plane.kubectl(*words, check=True).stdout

    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()
        plane.kubectl("apply", "-f", "-", stdin=QUEUES, check=True)
        plane.kubectl(*WAIT, "workloads", "--all", "-n", "leaving", "--for=create", check=True)
        refused = uninstall()
        assert (refused.returncode, "stop seiretsu serve first" in refused.stderr) == (1, True)
        assert json.loads(create(plane).stdout)["spec"]["suspend"] is True, "nothing was removed"
        assert process.stop() == 0
    assert "failed calling webhook" in create(plane).stderr
    done = uninstall()
    assert (done.returncode, done.stdout.count("deleted the Validating")) == (0, 11), done.stdout + done.stderr
    policies = plane.kubectl("get", "validatingadmissionpolicies,validatingadmissionpolicybindings", "-o", "name")
    assert not policies.stdout
    assert not json.loads(create(plane).stdout)["spec"].get("suspend")
    assert plane.kubectl("get", "clusterqueues.v1beta2.kueue.x-k8s.io", "all", "-o", "name", check=True).stdout
    assert "NotFound" in plane.kubectl("get", "--raw", "/apis/kueue.x-k8s.io/v1beta1/clusterqueues").stderr
    assert suspended() == "true", "waiting jobs stay as they are"
    assert uninstall("--start-jobs").stdout.startswith("started ")
    assert suspended() == "false"
    held = plane.kubectl("get", "workloads", "-A", "-o", "jsonpath={.items[*].metadata.finalizers[*]}", check=True)
    released = uninstall("--release")
    told = f"removed the finalizer of {len(held.stdout.split())} workloads"
    assert held.stdout and told in released.stdout, released.stdout + released.stderr
    plane.kubectl("delete", "namespace", "leaving", check=True)
    plane.kubectl("delete", "clusterqueue/all", "resourceflavor/default", check=True)
    assert uninstall("--release").stdout == "nothing of Seiretsu was found to remove\n"
    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()  # and it can be installed again
        assert plane.kubectl("get", "--raw", "/apis/kueue.x-k8s.io/v1beta1/clusterqueues").returncode == 0


PODS_TOO = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations: {frameworks: [batch/job, pod, deployment]}
"""
UNQUEUED = JOB.replace(", labels: {kueue.x-k8s.io/queue-name: anything}", "")
POD = """
apiVersion: v1
kind: Pod
metadata: {{generateName: free-, namespace: {namespace}}}
spec: {{containers: [{{name: main, image: x}}]}}
"""
MORE = """
apiVersion: v1
kind: Namespace
metadata: {name: seiretsu-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: emptied}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: emptied}
spec: {clusterQueue: all}
"""


def test_t6_a_cluster_that_starts_with_nobody_serving_works_and_recovers_unaided(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """T6 and F2: the webhooks are registered, those of pods too, every replica is down, and the API server starts anew.

    Jobs and pods without a queue, Seiretsu's own namespace and kube-system are not affected; our kinds can be read in
    the version in which they are stored; namespaces go, except those with Workloads that hold a finalizer.
    """

    def made(manifest: str, *options: str) -> subprocess.CompletedProcess[str]:
        return plane.kubectl("create", "-f", "-", *options, stdin=manifest)

    def terminating() -> str:
        words = ("get", "namespace", "leaving", "-o", "jsonpath={.status.conditions[*].message}")
        return plane.kubectl(*words).stdout

    (tmp_path / "config.yaml").write_text(PODS_TOO)
    options = ("--config", str(tmp_path / "config.yaml"), "--namespace", "seiretsu-system")
    with serving(plane.kubeconfig, tmp_path, *options) as process:
        process.ready()
        plane.kubectl("apply", "-f", "-", stdin=QUEUES + "---" + MORE, check=True)
        plane.kubectl(*WAIT, "workloads", "--all", "-n", "leaving", "--for=create", check=True)
        process.stop(signal.SIGKILL)
    plane.kill_apiserver()
    plane.start_apiserver()
    refused = made(JOB)
    assert (refused.returncode, 'failed calling webhook "mjob.kb.io"' in refused.stderr) == (1, True), refused.stderr
    for manifest in (UNQUEUED, *(POD.format(namespace=each) for each in ("kube-system", "seiretsu-system", "default"))):
        done = made(manifest)
        assert done.returncode == 0, done.stderr
    kinds = ",".join(f"{kind.plural}.{kind.stored.name}.{GROUP}" for kind in KINDS)
    assert "clusterqueue.kueue.x-k8s.io/all" in plane.kubectl("get", kinds, "-A", check=True).stdout
    plane.kubectl("delete", "namespace", "emptied", check=True)
    plane.kubectl("delete", "namespace", "leaving", "--wait=false", check=True)
    until(lambda: Finalizer.RESOURCE_IN_USE in terminating(), "the namespace names the finalizer that it waits for")
    with serving(plane.kubeconfig, tmp_path, *options) as process:
        process.ready()  # nobody has to remove the webhooks first
        assert json.loads(made(JOB, "--dry-run=server", "-o", "json").stdout)["spec"]["suspend"] is True
        process.stop(signal.SIGKILL)
    hooks = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
    names = ("seiretsu-mutating-webhook-configuration", "seiretsu-validating-webhook-configuration")
    plane.kubectl("delete", hooks, *names, "--ignore-not-found", check=True)
    assert made(JOB, "--dry-run=server").returncode == 0, "deleting the webhooks needs nobody who serves them"
    with serving(plane.kubeconfig, tmp_path, *options) as process:
        process.ready()
        assert json.loads(create(plane).stdout)["spec"]["suspend"] is True
        plane.kubectl(*WAIT, "namespace", "leaving", "--for=delete", check=True)


def test_doctor_names_what_is_wrong_and_bundle_collects_it(plane: ControlPlane, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cli.main", *words, "--kubeconfig", str(plane.kubeconfig)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def rules(done: subprocess.CompletedProcess[str]) -> set[str]:
        return {each["rule"] for each in json.loads(done.stdout)["findings"] if each["severity"] == "error"}

    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()
        healthy = run("doctor", "-o", "json")
        assert (healthy.returncode, rules(healthy)) == (0, set()), healthy.stdout + healthy.stderr
        assert process.stop() == 0
    ended = run("doctor", "-o", "json")
    assert (ended.returncode, rules(ended)) == (1, {"webhooks", "conversions", "calls"}), ended.stdout + ended.stderr
    path = tmp_path / "bundle.tar.gz"
    assert run("bundle", str(path)).returncode == 0
    with tarfile.open(path) as archive:
        names = {name.removeprefix("seiretsu-bundle/") for name in archive.getnames()}
        assert {"doctor.txt", "version.json", "objects/clusterqueues.yaml", "objects/workloads.yaml"} <= names
        report = archive.extractfile("seiretsu-bundle/doctor.txt")
        assert report is not None
        assert b"where nothing answers" in report.read()
    away = json.loads(plane.kubeconfig.read_text())
    away["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "away").write_text(json.dumps(away))
    words = [sys.executable, "-m", "cli.main", "doctor", "--kubeconfig", str(tmp_path / "away")]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 3
