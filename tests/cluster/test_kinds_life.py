"""The life of a job of each kind with its real operator: it waits, runs on its flavor, gives way, runs again and ends.

One function is the life of all kinds (``kinds`` has a row for each). All operators run beside one control plane; kwok
runs the pods. Ray's dashboards and spark-submit are stand-ins (``operators``), and so is Flux's operator (``kinds``).
Seiretsu is installed by its chart and has the rights that the chart grants; the last test compares them with those that
it asked for in all tests of this file.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from api.names import Label
from api.objects import Raw, Resource
from bench.kinds import QUEUE, local_queues, played, twice
from core.forecast.stored import NAME as REMEMBERED
from core.jobs.kinds import supported
from core.jobs.owners import KNOWN
from devcluster.controlplane import ControlPlane, Spec
from devcluster.errors import ClusterError
from devcluster.nodes import NodeGroup
from tests.cluster.audit import Audit, Use
from tests.cluster.charted import NAMESPACE, RELEASE, deployed, get, install
from tests.cluster.kinds import CASES, CLASS, LONG, RUN_FOR, Case, Life, every_operator, life_of
from tests.cluster.operators import alone, define
from tests.cluster.provisioning import Autoscaler, asks, check, config, owner, requests, uid
from tests.cluster.tricks import NOTHING_LEFT, TRICKS, WAITING, Kubectl, Settled, Trick, below, of_kinds, on_a_node
from tests.cluster.world import World, condition, holds, job, local_queue, ours
from tests.eventually import WAIT
from tests.observing import observing
from tests.serving import Served

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
SPACE = "kinds"
ONE, TWO = {"pool-one": "yes"}, {"pool-two": "yes"}
TOLERATION = {"key": "pool-one", "operator": "Exists", "effect": "NoSchedule"}


EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
LEASES = "leases"
"""The namespace of the Lease."""
PATIENT = {"leaseDuration": "180s", "renewDeadline": "150s"}
"""A process that loses its Lease ends: here it has only one for its rights, and the machine may be busy."""
CONFIGURATION: Raw = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "leaderElection": {"leaderElect": True, "resourceNamespace": LEASES, **PATIENT},
    "featureGates": {"SparkApplicationIntegration": True, "MultiKueue": False, "TopologyAwareScheduling": False},
    "integrations": {"frameworks": list(dict.fromkeys(case.framework for case in CASES))},
    "waitForPodsReady": {"timeout": "10m"},
    "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare"]},
    "seiretsu": {"provisioningRequests": {"enable": True}},
}


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """What Seiretsu's account asks the API server for."""
    return Audit(tmp_path_factory.mktemp("audit"), f"system:serviceaccount:{NAMESPACE}:{RELEASE}")


@pytest.fixture(scope="module")
def plane(audit: Audit) -> Iterator[ControlPlane]:
    """A control plane with nodes of two pools, whose labels have different keys, one of them tainted."""
    taint = {"key": "pool-one", "value": "yes", "effect": "NoSchedule"}
    pools = (
        NodeGroup(count=1, cpu="64", memory="256Gi", prefix="one", labels=ONE, taints=(taint,)),
        NodeGroup(count=1, cpu="64", memory="256Gi", prefix="two", labels=TWO),
    )
    with alone(), ControlPlane.start(spec=Spec(nodes=pools, apiserver=audit.options())) as started:
        for name in (SPACE, LEASES):
            started.kubectl("create", "namespace", name, check=True)
        started.kubectl(*WAIT, "--for=create", "serviceaccount/default", "-n", SPACE, check=True)
        yield started


@pytest.fixture(scope="module")
def served(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Seiretsu as the chart installs it; it is ready before there is a definition of any of these kinds."""
    directory = tmp_path_factory.mktemp("serve")
    install(plane, directory, CONFIGURATION)
    with deployed(plane, directory) as process:
        process.ready()
        yield process


@pytest.fixture(scope="module")
def world(plane: ControlPlane, served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The namespace, with a flavor for each pool; all operators are installed after Seiretsu."""
    made = World(plane, SPACE)
    made.create(
        ours("ResourceFlavor", "one", {"nodeLabels": ONE, "tolerations": [TOLERATION]}),
        ours("ResourceFlavor", "two", {"nodeLabels": TWO}),
    )
    for name, value in (("low", 1), ("high", 100)):
        metadata = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
        made.create({**metadata, "value": value})
    with every_operator(made, tmp_path_factory.mktemp("operators")):
        names = {case.kind.plural for case in CASES if case.kind.optional} | {"leaderworkersets"}
        made.until("all kinds are watched", lambda: names <= watched(served))
        yield made


def watched(served: Served) -> set[str]:
    return {event["resource"] for event in served.events if event["event"] == "served now"}


def groups(one: int | str, two: int) -> list[Raw]:
    """Resource groups with so many cpu of each flavor, and enough memory."""
    memory = {"name": "memory", "nominalQuota": "100Gi"}
    flavors = [
        {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}, memory]}
        for flavor, cpu in (("one", one), ("two", two))
    ]
    return [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]


def test_every_framework_has_a_kind_here() -> None:
    """A new kind is held to the same life: its row is a line in ``CASES``."""
    assert {case.framework for case in CASES} == set(supported())
    assert len({case.name for case in CASES}) == len(CASES)


def queue(world: World, name: str, one: int, *more: str) -> None:
    """A ClusterQueue in which a higher priority preempts, and LocalQueues."""
    preemption = {"withinClusterQueue": "LowerPriority"}
    fields = {"namespaceSelector": {}, "resourceGroups": groups(one, 0), "preemption": preemption}
    world.create(ours("ClusterQueue", name, fields), *(local_queue(each, name) for each in (name, *more)))


@EACH
def test_the_life_of_a_job(world: World, case: Case) -> None:
    name = case.name
    lives = {each: life_of(case)(world, case, f"{name}-{each}", f"{name}-{each}") for each in ("lasts", "gone")}
    queue(world, name, 0, *(life.queue for life in lives.values()))
    for life in lives.values():
        life.create()
        world.until(f"{life.name} waits", life.waits)
    life, other = lives["lasts"], lives["gone"]
    life.remember()
    other.delete()
    world.until("a waiting job that is deleted leaves nothing", lambda: other.gone() and not other.workloads())

    world.patch("clusterqueues", name, {"spec": {"resourceGroups": groups(4, 0)}})
    world.until("it runs on its flavor", lambda: life.running("one-1"))
    for pod in life.pods():
        assert pod["spec"]["nodeSelector"].items() >= ONE.items()
        assert TOLERATION in pod["spec"]["tolerations"]
        assert life.marked(pod)
    world.until("it is ready", lambda: life.all("PodsReady", "True"))
    assert len(life.workloads()) == case.workloads, "what its operator makes has no Workload"
    before = world.version("pods")
    urgent = job(f"{name}-urgent", name, cpu=4, pods=1, seconds=LONG, labels={CLASS: "high"})
    world.create(urgent)
    world.until("the urgent Job runs", lambda: f"{name}-urgent" in world.running())
    life.preempted(before)
    world.until("its templates are as before", life.restored)

    world.patch("clusterqueues", name, {"spec": {"resourceGroups": groups(4, 4)}})
    world.until("it runs again, on the other flavor", lambda: life.running("two-1"))
    assert all("pool-one" not in each["spec"]["nodeSelector"] for each in life.pods())
    world.remove(urgent)
    life.delete()
    world.until("a running job that is deleted leaves no Workload", lambda: life.workloads() == [])
    world.until("its quota is free", lambda: reserving(world, name) == 0)
    world.until("nothing is left", lambda: life.gone() and not life.pods())


@pytest.mark.parametrize("case", [case for case in CASES if case.ends], ids=lambda case: case.name)
@pytest.mark.parametrize(("ending", "code"), [("works", 0), ("fails", 1)])
def test_the_end_of_a_job(world: World, case: Case, ending: str, code: int) -> None:
    name = f"{case.name}-{ending}"
    queue(world, name, 4)
    life = life_of(case)(world, case, name, name)
    life.create(seconds=1, code=code)
    reason = case.failure if code else "Succeeded"
    if case.name == "appwrapper" and code:  # its operator looks for failures once a minute
        world.until("its component failed", lambda: holds(world.jobs().get(f"{name}-train", {}), "Failed"))
        annotated = {"metadata": {"annotations": {"example.com/looked-at": "yes"}}}
        world.merge(life.job(), annotated)
    world.until("its Workload has finished", lambda: life.all("Finished", "True", reason))
    world.until("its quota is free", lambda: reserving(world, name) == 0)
    life.delete()
    world.until("nothing is left", life.gone)


def used(world: World, queue: str) -> str:
    """How much cpu of the first flavor is reserved in a ClusterQueue."""
    (flavor,) = (each for each in world.get("clusterqueues", queue)["status"]["flavorsUsage"] if each["name"] == "one")
    return next(str(each["total"]) for each in flavor["resources"] if each["name"] == "cpu")


def reserving(world: World, queue: str) -> int:
    """How many Workloads hold quota of a ClusterQueue."""
    return int(world.get("clusterqueues", queue)["status"]["reservingWorkloads"])


@pytest.fixture(scope="module")
def by_tenant(world: World, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """Runs kubectl as a tenant of the namespace."""
    return of_kinds(world, tmp_path_factory.mktemp("tenant"))


def named(trick: Trick) -> str:
    """The name of what a trick is played with; no job has the name of another before a hyphen."""
    of = next(each for each in ((TRICKS, "trick"), (WAITING, "waits"), (NOTHING_LEFT, "stays")) if trick in each[0])
    return f"{trick.case}-{of[1]}-{of[0].index(trick)}"


def of_trick(world: World, trick: Trick) -> Life:
    """The job that a trick is played with."""
    case = next(each for each in CASES if each.name == trick.case)
    return life_of(case)(world, case, named(trick), named(trick))


def on_nodes(world: World, name: str) -> list[Raw]:
    """The pods of a job that run."""
    found = (each for each in world.get("pods").get("items", []) if on_a_node(each))
    return [each for each in found if each["metadata"]["name"].startswith(f"{name}-")]


def ended_by_kubelets(world: World, name: str) -> None:
    """Ends the pods of a job that are deleted, as a kubelet does: its Job's finalizer keeps a pod that has not ended,
    and kwok only deletes it.
    """
    for each in world.get("pods").get("items", []):
        metadata, phase = each["metadata"], each["status"].get("phase")
        if metadata["name"].startswith(f"{name}-") and "deletionTimestamp" in metadata and phase == "Running":
            with contextlib.suppress(ClusterError):  # it is gone
                world.patch("pods", metadata["name"], {"status": {"phase": "Failed"}}, subresource="status")


def released(world: World, name: str) -> None:
    """Remove the finalizers of what a tenant holds below a job."""
    for resource in ("rayclusters", "jobs.batch"):
        for each in below(world, resource, name):
            patch = ("patch", resource, each, "-n", SPACE, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
            world.plane.kubectl(*patch, check=True)


@pytest.mark.exceeds
@pytest.mark.parametrize("trick", WAITING, ids=lambda trick: trick.id)
def test_nothing_below_a_job_that_waits_runs(world: World, by_tenant: Kubectl, trick: Trick) -> None:
    life = of_trick(world, trick)
    queue(world, life.name, 0)
    trick.create(world, life.objects())
    world.until("it waits", life.waits)
    for _ in range(3):
        trick.play(world, by_tenant, life.name)
    world.until("no pod runs, and that stays so", Settled(lambda: on_nodes(world, life.name), 0))
    life.delete()
    world.until("nothing is left", lambda: life.gone() and not on_nodes(world, life.name))


class Preempted(NamedTuple):
    """A job that a trick was played with, and the Job with a higher priority that was created then."""

    life: Life
    urgent: Raw


@pytest.fixture(scope="module")
def preempted(world: World, by_tenant: Kubectl) -> dict[str, Preempted]:
    """The jobs of ``NOTHING_LEFT``, all of them at once: that an operator does nothing with a job that was stopped is
    known after half a minute.
    """
    found: dict[str, Preempted] = {}
    for trick in NOTHING_LEFT:  # one after the other: some jobs end soon after they run
        life = of_trick(world, trick)
        queue(world, life.name, 4)
        trick.create(world, life.objects())
        world.until("it runs", lambda life=life: len(on_nodes(world, life.name)) >= life.case.pods)  # type: ignore[misc]
        trick.play(world, by_tenant, life.name)
        urgent = job(f"urgent-{life.name}", life.name, cpu=4, pods=1, seconds=LONG, labels={CLASS: "high"})
        world.create(urgent)
        found[trick.id] = Preempted(life, urgent)
    return found


@pytest.mark.exceeds
@pytest.mark.parametrize("trick", NOTHING_LEFT, ids=lambda trick: trick.id)
def test_who_is_preempted_stops_whatever_its_owner_has_done(
    world: World, preempted: dict[str, Preempted], trick: Trick
) -> None:
    life, urgent = preempted[trick.id]

    def runs() -> bool:
        ended_by_kubelets(world, life.name)
        return urgent["metadata"]["name"] in world.running()

    world.until("the urgent Job runs", runs)
    world.until("no pod of the other runs, and that stays so", Settled(lambda: on_nodes(world, life.name), 0))
    world.until("its quota alone is in use", lambda: used(world, life.name) == "4")
    if "finalizer" in trick.called:
        released(world, life.name)
    life.delete()
    world.remove(urgent)
    world.until("nothing is left", lambda: life.gone() and not on_nodes(world, life.name))


@pytest.mark.exceeds
@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.id)
def test_no_trick_with_what_its_operator_made_runs_more_pods_than_were_admitted(
    world: World, by_tenant: Kubectl, trick: Trick
) -> None:
    life = of_trick(world, trick)
    name = life.name
    queue(world, name, 4)
    trick.create(world, life.objects())
    world.until("it runs", lambda: life.running("one-1"))
    world.until("all of it is in the status", lambda: reserving(world, name) == life.case.workloads)
    quota = used(world, name)
    world.patch("clusterqueues", name, {"spec": {"resourceGroups": groups(quota, 0)}})  # no more than that

    trick.play(world, by_tenant, name)
    settled = Settled(lambda: on_nodes(world, name), life.case.pods, quota)
    world.until("no more pods run than were admitted, and that stays so", settled)
    life.delete()
    world.until("nothing is left", lambda: life.gone() and not life.pods() and not on_nodes(world, name))


def test_a_jobset_that_starts_again_has_quota_for_what_has_succeeded(world: World) -> None:
    """Its driver has succeeded; when a worker fails, its controller creates all Jobs again."""
    name = "jobset-again"
    queue(world, name, 4)
    case = next(each for each in CASES if each.name == "jobset")
    (made,) = case.objects(name, name)
    driver, workers = (each["template"]["spec"] for each in made["spec"]["replicatedJobs"])
    driver["template"]["metadata"]["annotations"][RUN_FOR] = "1s"
    workers["backoffLimit"] = 0
    made["spec"]["failurePolicy"] = {"maxRestarts": 2}
    world.create(made)

    def of_attempt(number: int) -> list[Raw]:
        found = (each for each in world.get("pods").get("items", []) if each["metadata"]["name"].startswith(name))
        label = "jobset.sigs.k8s.io/restart-attempt"
        return [each for each in found if each["metadata"]["labels"].get(label) == str(number)]

    def succeeded() -> bool:
        return any(each["status"].get("phase") == "Succeeded" for each in of_attempt(0))

    world.until("its driver has succeeded", succeeded)
    running = [each for each in of_attempt(0) if each["status"].get("phase") == "Running"]
    assert running
    world.patch("pods", running[0]["metadata"]["name"], {"status": {"phase": "Failed"}}, subresource="status")
    world.until("its driver has run again", lambda: any(each["status"].get("phase") for each in of_attempt(1)))
    world.until("all run again", lambda: len(of_attempt(1)) == case.pods)
    life = life_of(case)(world, case, name, name)
    (found,) = life.workloads()
    assert condition(found, "Evicted")[0] != "True"
    assert not found["status"].get("reclaimablePods")
    life.delete()
    world.until("nothing is left", lambda: life.gone() and not on_nodes(world, name))


def test_jobs_of_all_kinds_at_once_all_end_within_the_quota(world: World) -> None:
    """An observer reads every change; ``bench.kinds`` does the same with 500 jobs."""
    world.create(
        ours("ClusterQueue", QUEUE, {"namespaceSelector": {}, "resourceGroups": groups(6, 6)}), *local_queues()
    )
    with observing(world.plane, SPACE) as observed:
        played(world, len(CASES))
    assert twice(observed.workloads) == []


def test_the_example_of_ray_runs_as_it_is(world: World) -> None:
    """The real KubeRay makes its cluster; the program is not run: the stand-in for the dashboard reports its end."""
    queue(world, "main", 4)
    printed = world.example("ray_job.py")
    phases = re.findall(r"^squares-\S+ is (\w+)", printed, re.MULTILINE)
    assert phases[-2:] == ["running", "succeeded"], printed


@pytest.mark.parametrize("owner", KNOWN.values(), ids=lambda owner: owner.kind)
def test_the_owner_of_a_job_is_read(world: World, audit: Audit, owner: Resource) -> None:
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": "absent", "uid": "1", "controller": True}
    made = job(f"of-{owner.kind.lower()}", "any", cpu=1, pods=1, seconds=1)
    made["metadata"]["ownerReferences"] = [reference]
    text = json.dumps(made)
    done = world.plane.kubectl("create", "--dry-run=server", "-n", SPACE, "-f", "-", stdin=text, check=True)
    assert "dry run" in done.stdout
    use = Use(owner.group, owner.plural, "get", SPACE, "absent")
    world.until("it is read", lambda: use in audit.asked())


def test_objects_that_no_job_needs_are_created_changed_and_released(world: World) -> None:
    queue(world, "rest", 0)
    world.create(
        ours("AdmissionCheck", "check", {"controllerName": "example.com/any"}),
        ours("ResourceFlavor", "unused", {}),
        ours("Cohort", "cohort", {}),
        {**ours("Queue", "first", {"clusterQueue": "rest"}), "apiVersion": "kueue.x-k8s.io/v1alpha1"},
    )
    world.until("the Queue has a LocalQueue", lambda: world.get("localqueues", "first"))
    first = {"apiVersion": "kueue.x-k8s.io/v1alpha1", "kind": "Queue", "metadata": {"name": "first"}}
    world.until("the Queue has a status", lambda: world.read(first).get("status"))
    world.patch("localqueues", "first", {"spec": {"clusterQueue": None}})

    def moved() -> bool:
        return bool(world.get("localqueues", "first")["spec"].get("clusterQueue") == "rest")

    world.until("its LocalQueue is of its ClusterQueue again", moved)
    world.until("the Cohort has a status", lambda: world.get("cohorts", "cohort").get("status"))
    waiting = job("waiting", "rest", cpu=1, pods=1, seconds=1)
    world.create(waiting)
    world.until("the Job waits", lambda: world.workload("waiting"))
    world.merge(waiting, {"metadata": {"labels": {Label.QUEUE_NAME: None}}})
    world.until("a Job that is not queued any more has no Workload", lambda: not world.workload("waiting"))
    world.remove(waiting)
    world.until("the Job is gone", lambda: not world.read(waiting))
    bearer = {"admissionchecks": "check", "resourceflavors": "unused", "clusterqueues": "rest"}
    for plural, name in bearer.items():
        world.until(f"{name} has a finalizer", lambda p=plural, n=name: world.get(p, n)["metadata"].get("finalizers"))  # type: ignore[misc]
        world.delete(plural, name)
        world.until(f"{name} is gone", lambda p=plural, n=name: not world.get(p, n))  # type: ignore[misc]


def test_a_secret_with_the_ca_that_is_deleted_is_made_again(world: World) -> None:
    name = f"{RELEASE}-webhook-server-cert"
    before = get(world.plane, "secret", name, "-n", NAMESPACE)["metadata"]["uid"]
    world.plane.kubectl("delete", "secret", name, "-n", NAMESPACE, check=True)
    served = f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}"

    def made() -> bool:
        found = world.plane.administrator.get(served)
        return found is not None and found["metadata"]["uid"] != before

    world.until("it is there again", made)


def test_metrics_are_read_by_an_account_with_the_right(world: World, tmp_path: Path) -> None:
    plane = world.plane
    plane.kubectl("create", "serviceaccount", "reader", "-n", SPACE, check=True)
    bound = (f"--clusterrole={RELEASE}-metrics-reader", f"--serviceaccount={SPACE}:reader")
    plane.kubectl("create", "clusterrolebinding", "reader", *bound, check=True)
    file = plane.kubeconfig_of(SPACE, "reader", tmp_path)
    token = json.loads(file.read_text())["users"][0]["user"]["token"]
    service = get(plane, "service", f"{RELEASE}-controller-manager-metrics-service", "-n", NAMESPACE)["spec"]
    configuration = get(plane, "configmap", f"{RELEASE}-config", "-n", NAMESPACE)["data"]
    (text,) = configuration.values()
    port = int(yaml.safe_load(text)["metrics"]["bindAddress"].rpartition(":")[2])
    assert service["ports"][0]["targetPort"] == "metrics"

    def status() -> int:
        unverified = ssl._create_unverified_context()  # this machine is not called as the Service is
        with contextlib.closing(http.client.HTTPSConnection("127.0.0.1", port, context=unverified)) as connection:
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
            return connection.getresponse().status

    world.until("they are read", lambda: status() == 200)


def test_nodes_are_asked_for_with_the_rights_of_the_chart(world: World) -> None:
    define(world, "provisioningrequests")
    world.create(config("nodes"), check("nodes"))
    world.create(
        ours(
            "ClusterQueue",
            "asks",
            {"namespaceSelector": {}, "resourceGroups": groups(0, 1), "admissionChecksStrategy": asks("nodes")},
        ),
        local_queue("asks", "asks"),
    )
    world.job("asks", "asks", seconds=LONG)
    made = world.until("there is a request", lambda: requests(world, "asks"))[0]
    request = world.get("provisioningrequests", made)
    world.until("it has its template", lambda: owner(world.get("podtemplates", f"ppt-{made}-main")) == uid(request))
    Autoscaler(world).answer(made, Provisioned="True")
    world.until("the job starts", lambda: "asks" in world.running())
    world.patch("clusterqueues", "asks", {"spec": {"stopPolicy": "HoldAndDrain"}})
    world.until("the request is deleted when it is evicted", lambda: not world.get("provisioningrequests", made))
    world.delete("jobs", "asks")


REASONED = {
    Use("kueue.x-k8s.io", "workloads", "get"): "read again after a write of unknown outcome or with a conflict",
    Use("kueue.x-k8s.io", "workloads/status", "patch"): "one that changed after the patch was made for it",
    Use("", "events", "list"): "why an admitted job has no pods, a minute after its start",
    Use("", "podtemplates", "delete"): "one that was made for a request that never was",
    Use("", "configmaps", "patch", NAMESPACE, REMEMBERED): "every ten minutes: these tests take less",
    Use("", "configmaps", "create", NAMESPACE): "the first of those writes",
    **{
        Use("", "configmaps", verb, "kube-system", "extension-apiserver-authentication"): "a role of Kubernetes"
        for verb in ("list", "watch")
    },
}
"""Rights that need not be used in these tests, and what they are for."""


@pytest.mark.of_its_file
def test_all_rights_of_the_chart_are_used_and_no_other_is_missing(world: World, audit: Audit) -> None:
    """For all tests of this file; one alone does not use them all."""
    assert audit.denied() == []
    assert audit.unused(world.plane) - set(REASONED) == set()
