"""The chart on a real control plane: installed, upgraded and removed by helm (``charted``)."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from api.names import LEADER_ELECTION_ID
from api.objects import Raw
from controller.kube import config
from controller.kube.client import Client
from controller.kube.elector import LEASES
from controller.kube.errors import NotFound
from controller.run.rights import DEFINITIONS
from core.jobs.kinds import supported
from devcluster import build, containers
from devcluster.certificates import Authority
from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import NodeGroup
from tests.charts.rendering import POLICIES_SERVED, documents, rendered
from tests.cluster.charted import CHART, NAMESPACE, RELEASE, ROOT, deployed, get, helm, install, started
from tests.cluster.steady import creating
from tests.effort import cases
from tests.eventually import PATIENCE, WAIT, eventually, until
from tests.replicas import LAME_DUCK_SECONDS, balanced
from tests.serving import Served

EXAMPLES, SECURITY = ROOT / "examples", ROOT / "docs" / "security.md"
KUEUE_VALUES = ROOT / "tests" / "charts" / "kueue_values.yaml"
RATE = cases(10, 100)
"""Jobs created a second: each moment of an upgrade has creates, and the machine has time for other tests."""
CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
CLIENTS = "webhook-clients"
"""The Secret with the CA of the API server's client certificate."""

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own: the chart's webhooks concern every namespace. Its API server calls webhooks
    with a client certificate, whose CA is in a Secret.
    """
    group = NodeGroup(labels={"seiretsu.dev/pool": "standard"})
    directory, authority = tmp_path_factory.mktemp("admission"), Authority("clients of webhooks")
    option = f"--admission-control-config-file={admission_configuration(directory, authority)}"
    with ControlPlane.start(spec=Spec(nodes=(group,), apiserver=(option,))) as started:
        started.kubectl("create", "namespace", NAMESPACE, check=True)
        (directory / "ca.crt").write_bytes(authority.pair.certificate)
        words = ("create", "secret", "generic", CLIENTS, "-n", NAMESPACE, f"--from-file={directory / 'ca.crt'}")
        started.kubectl(*words, check=True)
        yield started


def admission_configuration(directory: Path, authority: Authority) -> Path:
    """The files of docs/security.md: with them the API server has a client certificate for webhooks."""
    authority.client("kube-apiserver").write(directory / "client")
    certificate = {"client-certificate": str(directory / "client.crt"), "client-key": str(directory / "client.key")}
    users = [{"name": "*", "user": certificate}]
    kubeconfig = directory / "webhooks.conf"
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": users}))
    file = directory / "admission.yaml"
    (example,) = re.findall(
        r"```yaml\n(apiVersion: apiserver.config.k8s.io/v1\n.*?)```", SECURITY.read_text(), re.DOTALL
    )
    file.write_text(example.replace("/etc/kubernetes/webhooks.conf", str(kubeconfig)))
    return file


def shows(file: Path, text: str) -> bool:
    return text in file.read_text()


def test_helm_installs_what_the_app_needs_and_uninstalls_without_a_trace(plane: ControlPlane, tmp_path: Path) -> None:
    done = helm(plane, "package", str(CHART), "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("*.tgz")
    known = {"clientCA": {"secretName": CLIENTS, "names": ["kube-apiserver"]}}
    values = install(plane, tmp_path, chart=package, webhooks=known)
    with deployed(plane, tmp_path) as served:
        served.ready()
        the_probes_of_the_deployment_are_answered(plane)
        the_test_of_the_release_passes(plane, tmp_path)
        an_upgrade_keeps_every_ca(plane, values, tmp_path, "helm")
        plane.kubectl("apply", "-f", str(EXAMPLES / "queues.yaml"), check=True)
        a_user_who_may_edit_a_namespace_sees_why_a_job_waits(plane, tmp_path)
        only_the_api_server_may_call_webhooks(plane, served)
        what_waits_is_asked_through_the_api_server(plane, tmp_path)
        the_demo_runs_unchanged(plane)
        refused = [event for event in served.events if "orbidden" in json.dumps(event)]
        assert not refused, "the chart's roles lack a right that the app uses"
        drained_nodes_leave_one(plane)
        assert served.stop() == 0
    done = helm(plane, "uninstall", RELEASE)
    assert done.returncode == 0, done.stderr
    for kind in CONFIGURATIONS:
        assert get(plane, kind)["items"] == []
    kept = [crd["metadata"]["name"] for crd in get(plane, "crds")["items"]]
    assert "workloads.kueue.x-k8s.io" in kept, "uninstalling the chart takes everybody's queues away"
    job = (EXAMPLES / "jobs" / "train.yaml").read_text().replace("namespace: team-a", "namespace: default")
    # the API server forgets the policies a moment after they are deleted
    asyncio.run(eventually(lambda: plane.kubectl("create", "-f", "-", stdin=job).returncode == 0))
    namespaces_can_be_deleted_after_release(plane)


def the_probes_of_the_deployment_are_answered(plane: ControlPlane) -> None:
    """As a kubelet asks them: the paths and ports of the container, which the chart takes from the Configuration."""
    deployment = get(plane, "deployment", f"{RELEASE}-controller-manager", "-n", NAMESPACE)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    for name in ("readinessProbe", "livenessProbe"):
        asked = container[name]["httpGet"]
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", ports[asked["port"]])) as connection:
            connection.request("GET", asked["path"])
            assert connection.getresponse().status == 200, name


def the_test_of_the_release_passes(plane: ControlPlane, tmp_path: Path) -> None:
    """`helm test`: the container of its pod, with another Python and, for its host name, the address of the Service.
    With a client CA it must be refused; without one it must get the verdict of the webhook.
    """
    (pod,) = documents(helm(plane, "get", "hooks", RELEASE).stdout)
    container = containers.of_pod(plane, pod["spec"], NAMESPACE, tmp_path / "test-pod")
    assert not {name for name in container.environment if name.startswith("KUBERNETES")}, "it needs no token"
    _, *options = container.command
    (script,) = container.arguments
    address = get(plane, "service", f"{RELEASE}-webhook-service", "-n", NAMESPACE)["spec"]["clusterIP"]
    resolved = {container.environment["SERVICE"]: address}
    dns = (
        f"import socket; ask = socket.getaddrinfo; known = {resolved}\n"
        "socket.getaddrinfo = lambda host, *rest, **more: ask(known[host], *rest, **more)\n"
    )
    words = [sys.executable, *options, dns + script]
    done = subprocess.run(
        words, env=container.environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr


def the_demo_runs_unchanged(plane: ControlPlane) -> None:
    program = [sys.executable, "-m", "cli.main", "demo", "--kubeconfig", str(plane.kubeconfig)]
    done = subprocess.run(
        program, cwd=ROOT, env=plane.environment(), capture_output=True, text=True, check=False, timeout=3 * PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 Jobs submitted" in done.stdout
    queue = get(plane, "clusterqueue", "team-a")
    conditions = {condition["type"]: condition["status"] for condition in queue["status"]["conditions"]}
    assert conditions["Active"] == "True"


def finalizers(plane: ControlPlane, namespace: str) -> list[str]:
    """The finalizers of all Workloads of a namespace."""
    found = get(plane, "workloads", "-n", namespace)["items"]
    return [each for raw in found for each in raw["metadata"].get("finalizers") or ()]


def namespaces_can_be_deleted_after_release(plane: ControlPlane) -> None:
    """Without Seiretsu the deletion waits for its finalizers, as the chart's notes say; after the command it ends."""
    remaining = len(finalizers(plane, "team-a"))
    assert remaining, "a Job of the demo can never start, and waits"
    plane.kubectl("delete", "-f", str(EXAMPLES / "queues.yaml"), "--wait=false", check=True)
    message = "jsonpath={.status.conditions[?(@.type=='NamespaceFinalizersRemaining')].message}"
    until(lambda: "resource-in-use" in plane.kubectl("get", "namespace", "team-a", "-o", message).stdout)
    program = [sys.executable, "-m", "cli.main", "uninstall", "--release", "--namespace", NAMESPACE]
    done = subprocess.run(
        program, cwd=ROOT, env=plane.environment(), capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert f"removed the finalizer of {remaining} workloads" in done.stdout
    for what in ("namespace/team-a", "clusterqueue/team-a"):
        plane.kubectl(*WAIT, "--for=delete", what, check=True)


async def test_t10_upgrades_with_the_values_of_kueue_fail_no_create(plane: ControlPlane, tmp_path: Path) -> None:
    """Helm 3 installs the chart with Kueue's values. While Jobs are created, helm 3 and 4 upgrade it, the rendered
    chart is applied, and both replicas are replaced, as the Deployment asks: the next one starts before the last one
    ends.
    """
    configuration, theirs = kueues()
    values = await asyncio.to_thread(partial(install, plane, tmp_path, configuration, name="helm3", **theirs))
    (port,) = {
        each["port"] for each in get(plane, "service", f"{RELEASE}-webhook-service", "-n", NAMESPACE)["spec"]["ports"]
    }
    directories = (tmp_path / f"replica-{number}" for number in itertools.count())
    async with Client(config.load(plane.kubeconfig)) as client, balanced("0.0.0.0", port) as (balancer, _):

        async def start() -> None:
            new = await asyncio.to_thread(partial(started, plane, next(directories), beside=True))
            balancer.replicas.append(new)
            await asyncio.to_thread(new.ready)
            await eventually(lambda: len(balancer.ready) == len(balancer.replicas))

        async def stop(old: Served) -> None:
            old.process.terminate()
            assert await asyncio.to_thread(old.wait) == 0
            balancer.replicas.remove(old)

        await start()
        await start()
        await asyncio.to_thread(the_test_of_the_release_passes, plane, tmp_path)
        first, leaders = list(balancer.replicas), {await leader(client)}
        async with creating(client, RATE) as creates:
            await asyncio.to_thread(an_upgrade_keeps_every_ca, plane, values, tmp_path, "helm3", "helm", "kubectl")
            for old in first:
                await start()
                await stop(old)
                leaders.add(await leader(client))
        assert creates.failures == []
        assert creates.made > 50
        assert len(leaders) >= 2, "the lease went to another replica when its holder was replaced"
        for old in list(balancer.replicas):
            await stop(old)
    done = helm(plane, "uninstall", RELEASE, name="helm3")
    assert done.returncode == 0, done.stderr
    for kind in (*CONFIGURATIONS, "mutatingadmissionpolicies"):
        assert get(plane, kind)["items"] == []


def kueues() -> tuple[Raw, Raw]:
    """The Configuration of Kueue's values without its ports, and these values, with a short shutdown."""
    values = yaml.safe_load(KUEUE_VALUES.read_text())
    configuration = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    for ports in ("health", "metrics", "webhook"):
        del configuration[ports]
    values["metricsService"]["ports"][0]["targetPort"] = "metrics"
    values["controllerManager"]["manager"]["extraArgs"] = [f"--lame-duck={LAME_DUCK_SECONDS}"]
    return configuration, values


async def leader(client: Client) -> str:
    """Who holds the Lease of the installation, as soon as somebody does."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(NotFound):
                spec = (await client.get(LEASES, LEADER_ELECTION_ID, NAMESPACE))["spec"]
                if holder := str(spec.get("holderIdentity") or ""):
                    return holder
            await asyncio.sleep(0.2)


def test_the_api_server_accepts_everything_that_the_chart_can_render(plane: ControlPlane) -> None:
    given: Raw = {
        "metrics": {"prometheusNamespace": "default"},
        "webhookService": {"ipDualStack": {"enabled": True, "ipFamilies": ["IPv4"]}},
        "networkPolicy": {"webhookFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]},
        "managerConfig": {
            "controllerManagerConfigYaml": yaml.safe_dump(
                {"integrations": {"frameworks": list(supported())}, "leaderElection": {"resourceNamespace": "default"}}
            )
        },
    }
    for values in (given, given | {"enablePrometheus": True, "admissionPolicies": {"enabled": False}}):
        found = documents(rendered(values, namespace="default", served=POLICIES_SERVED))
        known = [each for each in found if "monitoring.coreos.com" not in each["apiVersion"]]
        done = plane.kubectl(
            *("create", "--dry-run=server", "--validate=strict", "-f", "-"),
            stdin=yaml.safe_dump_all(known, width=1_000_000),
        )
        refused = [line for line in done.stderr.splitlines() if "already exists" not in line]
        assert refused == []


def only_the_api_server_may_call_webhooks(plane: ControlPlane, served: Served) -> None:
    """It has just had Jobs suspended; a client without its certificate is refused."""
    hooks = get(plane, "mutatingwebhookconfiguration", f"{RELEASE}-mutating-webhook-configuration")["webhooks"]
    path = hooks[0]["clientConfig"]["service"]["path"]
    unverified = ssl._create_unverified_context()  # this machine is not called as the Service is
    call = http.client.HTTPSConnection("127.0.0.1", served.address.port, context=unverified)
    with contextlib.closing(call) as connection:
        connection.request("POST", path, "{}", {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 403
        assert b"needs a client certificate" in answer.read()


def a_user_who_may_edit_a_namespace_sees_why_a_job_waits(plane: ControlPlane, tmp_path: Path) -> None:
    """The aggregated roles are enough for kubectl and for a full answer of ``seiretsu explain``; nothing that decides
    may be written.
    """
    plane.kubectl(*WAIT, "--for=condition=Available", "apiservice/v1beta2.visibility.kueue.x-k8s.io", check=True)
    plane.kubectl("create", "serviceaccount", "user", "-n", "team-a", check=True)
    words = ("rolebinding", "user", "--clusterrole=edit", "--serviceaccount=team-a:user", "-n", "team-a")
    plane.kubectl("create", *words, check=True)
    file = plane.kubeconfig_of("team-a", "user", tmp_path)

    def as_user(*words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return plane.kubectl(*words, "-n", "team-a", f"--kubeconfig={file}", stdin=stdin)

    until(lambda: as_user("auth", "can-i", "list", "workloads.kueue.x-k8s.io").stdout.strip() == "yes")
    manifest = (EXAMPLES / "jobs" / "train.yaml").read_text().replace('cpu: "2"', 'cpu: "50"')
    created = as_user("create", "-f", "-", "-o", "json", stdin=manifest)
    assert created.returncode == 0, created.stderr
    job = json.loads(created.stdout)["metadata"]["name"]
    until(lambda: job in as_user("get", "workloads", "-o", "yaml").stdout)
    assert as_user("get", "localqueues").returncode == 0

    def explained() -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "cli.main", "explain", job, "-n", "team-a", "--kubeconfig", str(file)]
        return subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)

    until(lambda: "insufficient quota for cpu" in explained().stdout)
    until(lambda: "queue position 1 of 1" in explained().stdout)
    assert "Your rights do not show" not in explained().stdout
    for what in ("workloads.kueue.x-k8s.io", "workloads.kueue.x-k8s.io/status", "localqueues.kueue.x-k8s.io"):
        assert as_user("auth", "can-i", "patch", what).stdout.strip() == "no"
    a_user_who_may_view_a_namespace_uses_the_plugin(plane, tmp_path, job)
    plane.kubectl("delete", "job", job, "-n", "team-a", check=True)


def a_user_who_may_view_a_namespace_uses_the_plugin(plane: ControlPlane, tmp_path: Path, job: str) -> None:
    """`kubectl seiretsu explain` and `when` need no more than `view` there."""
    plane.kubectl("create", "serviceaccount", "viewer", "-n", "team-a", check=True)
    words = ("rolebinding", "viewer", "--clusterrole=view", "--serviceaccount=team-a:viewer", "-n", "team-a")
    plane.kubectl("create", *words, check=True)
    file = plane.kubeconfig_of("team-a", "viewer", tmp_path)

    def asked(command: str) -> str:
        program = [sys.executable, "-c", "from cli.main import plugin; plugin()", command, job, "-n", "team-a"]
        words = [*program, "--kubeconfig", str(file)]
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE).stdout

    until(lambda: "insufficient quota for cpu" in asked("explain"))
    until(lambda: "not known when it starts: too few jobs of LocalQueue main" in asked("when"))
    for command in ("explain", "when"):
        assert "queue position 1 of 1" in asked(command)


PENDING = "/apis/visibility.kueue.x-k8s.io/{version}/{queue}/pendingworkloads{query}"


def what_waits_is_asked_through_the_api_server(plane: ControlPlane, tmp_path: Path) -> None:
    """The visibility API, with the rights of the administrator and of the user of a namespace, and as a program."""
    plane.kubectl(*WAIT, "--for=condition=Available", "apiservice/v1beta2.visibility.kueue.x-k8s.io", check=True)
    plane.kubectl(*WAIT, "--for=condition=Available", "apiservice/v1beta1.visibility.kueue.x-k8s.io", check=True)
    manifest = yaml.safe_load((EXAMPLES / "jobs" / "train.yaml").read_text().replace('cpu: "2"', 'cpu: "50"'))
    for name in ("first", "second", "third"):
        manifest["metadata"] = {**manifest["metadata"], "name": name}
        manifest["metadata"].pop("generateName", None)
        plane.kubectl("create", "-f", "-", stdin=json.dumps(manifest), check=True)

    def asked(queue: str, query: str = "", version: str = "v1beta2", **given: str) -> Raw:
        path = PENDING.format(version=version, queue=queue, query=query)
        done = plane.kubectl("get", "--raw", path, *(f"--{name}={value}" for name, value in given.items()))
        found: Raw = json.loads(done.stdout) if done.returncode == 0 else {"refused": done.stderr}
        return found

    def jobs(found: Raw) -> list[str]:
        return [each["metadata"]["ownerReferences"][0]["name"] for each in found["items"]]

    local = "namespaces/team-a/localqueues/main"
    until(lambda: len(asked("clusterqueues/team-a")["items"]) == 3)
    for version in ("v1beta1", "v1beta2"):
        found = asked("clusterqueues/team-a", version=version)
        assert (found["kind"], found["apiVersion"]) == (
            "PendingWorkloadsSummary",
            f"visibility.kueue.x-k8s.io/{version}",
        )
        assert sorted(jobs(found)) == ["first", "second", "third"]
        assert [each["positionInClusterQueue"] for each in found["items"]] == [0, 1, 2]
    order = jobs(asked("clusterqueues/team-a"))
    assert jobs(asked("clusterqueues/team-a", "?offset=1&limit=1")) == order[1:2]
    assert jobs(asked(local, "?offset=1")) == order[1:]
    assert [each["positionInLocalQueue"] for each in asked(local)["items"]] == [0, 1, 2]
    assert 'clusterqueue.visibility.kueue.x-k8s.io "none" not found' in asked("clusterqueues/none")["refused"]

    kubeconfig = str(tmp_path / "kubeconfig-team-a-user")
    until(lambda: "items" in asked(local, kubeconfig=kubeconfig))
    assert "orbidden" in asked("clusterqueues/team-a", kubeconfig=kubeconfig)["refused"]

    plane.kubectl("api-resources", "--api-group=visibility.kueue.x-k8s.io", "-o", "name", check=True)
    for version in ("v1beta1", "v1beta2"):
        the_answer_is_described(plane, asked("clusterqueues/team-a", version=version), kubeconfig)
    plane.kubectl("delete", "jobs", "first", "second", "third", "-n", "team-a", check=True)


def the_answer_is_described(plane: ControlPlane, answer: Raw, kubeconfig: str) -> None:
    """The API server publishes the OpenAPI document of the version, to users without rights too."""
    document = f"/openapi/v3/apis/{answer['apiVersion']}"

    def read() -> subprocess.CompletedProcess[str]:
        return plane.kubectl("get", "--raw", document, f"--kubeconfig={kubeconfig}")

    until(lambda: read().returncode == 0)
    found = json.loads(read().stdout)
    schemas = {f"#/components/schemas/{name}": schema for name, schema in found["components"]["schemas"].items()}
    operation = found["paths"][f"/apis/{answer['apiVersion']}/clusterqueues/{{name}}/pendingworkloads"]["get"]
    summary = schemas[operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]]
    item = schemas[summary["properties"]["items"]["items"]["$ref"]]
    assert answer.keys() <= summary["properties"].keys()
    assert answer["items"][0].keys() == item["properties"].keys()


POLICIES = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
"""What helm asks the API server for, which `helm template` does not: without them there are more webhooks."""


def upgraded(plane: ControlPlane, values: Path, mark: str, program: str) -> None:
    """Gives every object of the chart another label, by helm upgrade or (without helm) by kubectl apply."""
    words = (RELEASE, str(CHART), "--values", str(values), "--set", f"commonLabels.upgraded={mark}")
    if program != "kubectl":
        done = helm(plane, "upgrade", *words, name=program)
        assert done.returncode == 0, done.stderr
        return
    served = [f"--api-versions=admissionregistration.k8s.io/v1/{each}" for each in POLICIES]
    done = helm(plane, "template", "--skip-tests", *served, *words)
    assert done.returncode == 0, done.stderr
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=done.stdout, check=True)


def an_upgrade_keeps_every_ca(plane: ControlPlane, values: Path, tmp_path: Path, *programs: str) -> None:
    """Every version that the API server has of a configuration while these programs change it has the CA in all its
    webhooks.
    """
    bundles = ".webhooks[*].clientConfig.caBundle"
    watched = {
        "mutatingwebhookconfiguration/seiretsu-mutating-webhook-configuration": bundles,
        "validatingwebhookconfiguration/seiretsu-validating-webhook-configuration": bundles,
        **{f"crd/{name}": ".spec.conversion.webhook.clientConfig.caBundle" for name in DEFINITIONS["resourceNames"]},
        **{f"apiservice/{version}.visibility.kueue.x-k8s.io": ".spec.caBundle" for version in ("v1beta1", "v1beta2")},
    }
    files = [tmp_path / f"watch-{number}" for number in range(len(watched))]
    watches: list[subprocess.Popen[bytes]] = []
    for file, (what, path) in zip(files, watched.items(), strict=True):
        shown = f"jsonpath={{.metadata.labels.upgraded}} [{{{path}}}]{{'\\n'}}"
        with file.open("w") as out:
            words: list[str | Path] = [build.ensure("kubectl")["kubectl"], "get", what, "--watch", "-o", shown]
            watches.append(subprocess.Popen(words, env=plane.environment(), stdout=out))
    try:
        for file in files:
            until(file.read_text)
        for program in programs:
            upgraded(plane, values, program, program)
            for file in files:
                until(partial(shows, file, f"{program} ["))
    finally:
        for watch in watches:
            watch.kill()
            watch.wait()
    for file, what in zip(files, watched, strict=True):
        seen = {line.partition("[")[2].rstrip("]") for line in file.read_text().splitlines()}
        assert len(seen) == 1, "a bundle changed"
        (shown,) = seen
        number = len(get(plane, *what.split("/")).get("webhooks") or [what])
        assert len(shown.split()) == number, "a bundle was empty"


def drained_nodes_leave_one(plane: ControlPlane) -> None:
    """The scheduler places the replicas apart, and the disruption controller lets one of them go at a time."""
    budget = f"poddisruptionbudget/{RELEASE}-controller-manager"
    allowed = "--for=jsonpath={.status.disruptionsAllowed}=1"
    plane.kubectl(*WAIT, allowed, budget, "-n", NAMESPACE, check=True)
    status = get(plane, budget, "-n", NAMESPACE)["status"]
    assert (status["expectedPods"], status["currentHealthy"], status["desiredHealthy"]) == (2, 2, 1)
    nodes = [pod["spec"]["nodeName"] for pod in get(plane, "pods", "-n", NAMESPACE)["items"]]
    assert len(nodes) == len(set(nodes)) == 2
