"""Forced suspension for every client and for repeated calls, also if all Jobs of selected namespaces are managed, with
or without a queue. (The controller of CronJobs: test_admission.py.)
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from api.names import Label
from core.model import Raw
from devcluster.controlplane import ControlPlane
from tests.cluster.accounts import may
from tests.cluster.operators import Operators
from tests.cluster.world import World, done
from tests.eventually import WAIT, until
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

EVERY_JOB = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector: {matchLabels: {managed: "yes"}}
integrations: {externalFrameworks: [Lease.v1.coordination.k8s.io]}
"""
MUTATING = "mutatingwebhookconfiguration/seiretsu-mutating-webhook-configuration"
MANAGED, FREE = "managed", "free"
JOB_SET = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "u-1", "controller": True}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of this module's own, with a namespace that is managed and one that is not."""
    with ControlPlane.start() as started:
        for name in (MANAGED, FREE):
            metadata = {"name": name, "labels": {"managed": "yes"} if name == MANAGED else {}}
            made = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            started.kubectl("create", "-f", "-", stdin=json.dumps(made), check=True)
            started.kubectl(*WAIT, "--for=create", "serviceaccount/default", "-n", name, check=True)
        yield started


@pytest.fixture(scope="module")
def process(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("serve")
    (directory / "config.yaml").write_text(EVERY_JOB)
    with serving(plane.kubeconfig, directory, "--config", str(directory / "config.yaml")) as served:
        served.ready()
        yield served


@pytest.fixture(scope="module")
def world(plane: ControlPlane, process: Served) -> World:
    """The managed namespace, with a queue of one cpu."""
    made = World(plane, MANAGED)
    made.flavor()
    made.queue("main", 1)
    return made


@pytest.fixture(scope="module")
def pod(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The credentials of a pod: a token of its service account, which may only create Jobs in its namespace."""
    spec = {"containers": [{"name": "main", "image": "none"}]}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client", "namespace": MANAGED}, "spec": spec}
    create(plane, made)
    for namespace in (MANAGED, FREE):
        plane.kubectl(
            "create", "role", "jobs", "--verb=create,get,patch", "--resource=jobs.batch", "-n", namespace, check=True
        )
        account = f"--serviceaccount={MANAGED}:default"
        plane.kubectl("create", "rolebinding", "jobs", "--role=jobs", account, "-n", namespace, check=True)
    bound = ("--bound-object-kind=Pod", "--bound-object-name=client")
    file = plane.kubeconfig_of(MANAGED, "default", tmp_path_factory.mktemp("pod"), *bound)
    asked = ("patch", "jobs", f"--kubeconfig={file}", "-n")
    until(lambda: may(plane, *asked, MANAGED) and may(plane, *asked, FREE))
    return file


@pytest.fixture(scope="module")
def job_sets(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JobSet's definition, webhooks and controller; returns the path of the controller's log."""
    return Operators(world, tmp_path_factory.mktemp("operators")).jobset()


def job(name: str, *, queue: str = "", namespace: str = MANAGED, cpu: str = "1", **metadata: Any) -> Raw:
    labels = {Label.QUEUE_NAME: queue} if queue else {}
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, **metadata},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def create(plane: ControlPlane, made: Raw, *arguments: str) -> Raw:
    done = plane.kubectl("create", "-f", "-", "-o", "json", *arguments, stdin=json.dumps(made), check=True)
    found: Raw = json.loads(done.stdout)
    return found


def stays_suspended(world: World, name: str, *arguments: str) -> str:
    """What kubectl prints where an update unsuspends a Job that waits: it is accepted, and changes nothing."""
    answer = patch(world.plane, name, {"spec": {"suspend": False}}, "-o", "json", *arguments)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["spec"]["suspend"] is True
    assert answer.stderr.startswith("Warning: spec.suspend stays true: ")
    return answer.stderr


def patch(plane: ControlPlane, name: str, change: Raw, *arguments: str) -> subprocess.CompletedProcess[str]:
    return plane.kubectl("patch", "job", name, "-n", MANAGED, "--type=merge", "-p", json.dumps(change), *arguments)


@pytest.mark.parametrize("queue", ["main", ""], ids=["one that names a queue", "one that names none"])
@pytest.mark.parametrize("owner", [None, JOB_SET], ids=["made by a pod", "made by a controller for its own object"])
def test_a_queued_job_waits_whichever_client_creates_it(world: World, pod: Path, owner: Raw | None, queue: str) -> None:
    more: dict[str, Any] = {"ownerReferences": [owner]} if owner else {}
    as_pod = ("--kubeconfig", str(pod), "--dry-run=server")
    assert create(world.plane, job("from-a-pod", queue=queue, **more), *as_pod)["spec"]["suspend"] is True


def test_a_pod_may_not_start_what_waits_either(world: World, pod: Path) -> None:
    create(world.plane, job("waits", queue="main", cpu="2"), "--kubeconfig", str(pod))
    assert 'waits in LocalQueue "main"' in stays_suspended(world, "waits", "--kubeconfig", str(pod))


def job_set(name: str, queue: str) -> Raw:
    """A JobSet of two Jobs, which name a queue if one is given."""
    made = job("unused", queue=queue)
    template: Raw = {"metadata": {"labels": made["metadata"]["labels"]}, "spec": made["spec"]}
    spec = {"replicatedJobs": [{"name": "workers", "replicas": 2, "template": template}]}
    metadata = {"name": name, "namespace": MANAGED}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("name", "queue", "warning"),
    [
        ("queued", "sets", 'stays true: the job waits in LocalQueue "sets"'),
        ("nameless", "", "stays true: the job names no queue"),
    ],
    ids=["that name a queue", "that name none"],
)
def test_jobs_that_the_controller_of_job_sets_makes_wait_although_it_tries_to_start_them(
    world: World, job_sets: Path, name: str, queue: str, warning: str
) -> None:
    if not world.get("localqueues", "sets"):
        world.queue("sets", 1)
    holder = f"before-{name}"
    world.job(holder, "sets", seconds=600)
    world.until("the quota is taken", lambda: holder in world.running())
    create(world.plane, job_set(name, queue))
    children = {f"{name}-workers-{index}" for index in range(2)}
    world.until("it has made its Jobs", lambda: children <= set(world.jobs()))
    world.until("it tried to start one, and was warned", lambda: warning in job_sets.read_text().replace('\\"', '"'))
    made = [world.jobs()[child] for child in children]
    assert {(each["metadata"]["ownerReferences"][0]["kind"], each["spec"]["suspend"]) for each in made} == {
        ("JobSet", True)
    }
    if not queue:
        selector = f"jobset.sigs.k8s.io/jobset-name={name}"
        given = f"{Label.QUEUE_NAME}=sets"
        world.plane.kubectl("label", "jobs", "-l", selector, given, "-n", MANAGED, check=True)
    world.delete("jobs", holder)
    world.until("both had their turn", lambda: all(done(world.jobs()[child]) for child in children))
    completed = "--for=condition=Completed"
    world.plane.kubectl(*WAIT, completed, f"jobset/{name}", "-n", MANAGED, check=True)


def test_a_job_without_a_queue_waits_until_it_is_given_one_and_is_then_admitted(world: World) -> None:
    assert create(world.plane, job("queueless"))["spec"]["suspend"] is True
    text = "The workload names no LocalQueue: set label kueue.x-k8s.io/queue-name on its job"
    why = ("False", "Misconfigured", text)
    world.until("its Workload waits, too", lambda: world.condition("queueless", "QuotaReserved") == why)
    assert "the job names no queue" in stays_suspended(world, "queueless")
    assert "queueless" not in world.running()
    patch(world.plane, "queueless", {"metadata": {"labels": {Label.QUEUE_NAME: "main"}}}).check_returncode()
    world.until("it is admitted", lambda: "queueless" in world.running())


def test_a_job_below_a_queued_job_runs_and_stops_with_it_and_has_no_workload(world: World) -> None:
    """Made by an account with the rights of the owner's controller; what others make: tests/cluster/test_escapes.py."""
    world.queue("family", 1)
    above = job("above", queue="family", cpu="100m")
    above["spec"]["template"]["metadata"] = {"annotations": {"seiretsu.dev/run-for": "600s"}}
    create(world.plane, above)
    world.until("it runs", lambda: "above" in world.running())
    uid = json.loads(world.plane.kubectl("get", "job", "above", "-n", MANAGED, "-o", "json").stdout)["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "above", "uid": uid, "controller": True}
    below = {f"below-{queue or 'none'}" for queue in ("family", "")}
    for queue in ("family", ""):
        made = job(f"below-{queue or 'none'}", queue=queue, cpu="50", ownerReferences=[owner])
        create(world.plane, made)
    world.until("they run with it", lambda: below <= world.running())
    world.patch("workloads", world.workload("above")["metadata"]["name"], {"spec": {"active": False}})
    world.until("they stop with it", lambda: world.running().isdisjoint({"above", *below}))
    assert below.isdisjoint(world.workloads())


def test_below_an_object_that_others_queue_a_job_is_theirs_to_start(world: World, pod: Path) -> None:
    """Leases stand for the objects of a controller that we know nothing of, and that makes their Workloads."""
    world.queue("others", 1)
    for name, cpu in (("queued", "1"), ("waiting", "7"), ("unqueued", "")):
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        uid = create(world.plane, {**lease, "metadata": {"name": name, "namespace": MANAGED}})["metadata"]["uid"]
        owner = {**lease, "name": name, "uid": uid, "controller": True}
        if cpu:
            create(world.plane, standing_for(owner, cpu))
            reserves = "Admitted" if name == "queued" else "QuotaReserved"
            world.until("it was looked at", partial(_told, world, name, reserves))
        made = job(f"of-{name}", queue="others", cpu="9", ownerReferences=[owner])
        made["spec"]["template"]["metadata"] = {"annotations": {"seiretsu.dev/run-for": "600s"}}
        made["spec"]["suspend"] = name == "waiting"
        stored = create(world.plane, made)
        assert stored["spec"]["suspend"] is (name != "queued")
        patch(world.plane, f"of-{name}", {"spec": {"suspend": False}}, "--kubeconfig", str(pod)).check_returncode()
    world.until("who is stopped is whose owner waits", lambda: "of-waiting" not in world.running())
    assert "of-queued" in world.running()
    world.until("the one that nobody queues has a Workload", lambda: "of-unqueued" in world.workloads())
    assert {name for name in world.workloads() if name.startswith("of-")} == {"of-unqueued"}


def _told(world: World, owner: str, condition: str) -> bool:
    return bool(world.condition(owner, condition)[0])


def standing_for(owner: Raw, cpu: str) -> Raw:
    """The Workload of an object that others queue."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"lease-{owner['name']}",
            "namespace": MANAGED,
            "labels": {Label.JOB_UID: owner["uid"]},
            "ownerReferences": [owner],
        },
        "spec": {"queueName": "others", "podSets": [pods]},
    }


APPLY = (("apply",), ("apply", "--server-side", "--field-manager=gitops"))


@pytest.mark.parametrize("how", APPLY, ids=["on the client", "on the server"])
def test_a_manifest_with_suspend_false_can_be_applied_again_and_again(world: World, how: tuple[str, ...]) -> None:
    """As GitOps tools do: while the Job waits, and while it runs."""
    name = f"synced-{len(how)}"
    world.queue(name, 1)
    world.job(f"{name}-first", name, seconds=600)
    world.until("the quota is taken", lambda: f"{name}-first" in world.running())
    made = job(name, queue=name)
    made["spec"] |= {"suspend": False}
    made["spec"]["template"]["metadata"] = {"annotations": {"seiretsu.dev/run-for": "600s"}}
    for _ in range(3):
        world.plane.kubectl(*how, "-f", "-", stdin=json.dumps(made), check=True)
        assert world.jobs()[name]["spec"]["suspend"] is True
    world.delete("jobs", f"{name}-first")
    world.until("it runs", lambda: name in world.running())
    world.plane.kubectl(*how, "-f", "-", stdin=json.dumps(made), check=True)
    assert name in world.running()
    held = patch(world.plane, name, {"spec": {"suspend": True}}, "--dry-run=server")
    workload = world.workload(name)["metadata"]["name"]
    assert f"to hold the job, set spec.active: false on Workload {workload}" in held.stderr


def test_kueues_mark_of_a_job_that_is_being_stopped_starts_nothing_and_stops_nothing(world: World, pod: Path) -> None:
    world.queue("marked", 1)
    mark = {"kueue.x-k8s.io/stopping": "true"}
    for suspend in (True, False):
        made = job(f"marked-{suspend}".lower(), queue="marked", cpu="2", annotations=mark)
        made["spec"]["suspend"] = suspend
        assert create(world.plane, made, "--kubeconfig", str(pod))["spec"]["suspend"] is True
        warned = stays_suspended(world, made["metadata"]["name"], "--kubeconfig", str(pod))
        assert 'the job waits in LocalQueue "marked"' in warned
    small = job("marked-small", queue="marked", cpu="100m", annotations=mark)
    create(world.plane, small)
    world.until("it is admitted", lambda: "marked-small" in world.running())


def test_a_namespace_that_is_not_managed_is_left_alone(world: World, pod: Path) -> None:
    for queue in ("", "main"):
        made = job("free", namespace=FREE, queue=queue)
        assert create(world.plane, made, "--kubeconfig", str(pod), "--dry-run=server")["spec"]["suspend"] is False


def test_asked_again_and_again_about_one_job_the_outcome_is_the_same(world: World) -> None:
    """Under a second name the API server calls us twice, and once more since the object changed in between."""
    once = create(world.plane, job("same", queue="main"), "--dry-run=server")
    found = json.loads(world.plane.kubectl("get", MUTATING, "-o", "json", check=True).stdout)
    found["metadata"] = {"name": "aaa-before-ours"}
    world.plane.kubectl("create", "-f", "-", stdin=json.dumps(found), check=True)
    try:
        again = create(world.plane, job("same", queue="main"), "--dry-run=server")
    finally:
        world.plane.kubectl("delete", "mutatingwebhookconfiguration", "aaa-before-ours", check=True)
    for each in (once, again):
        for mark in ("uid", "creationTimestamp"):
            del each["metadata"][mark]
        each["spec"]["selector"] = each["spec"]["template"]["metadata"]["labels"] = {}
    assert again == once


def test_while_serve_is_down_namespaces_that_are_not_managed_are_not_affected(world: World, process: Served) -> None:
    assert process.stop() == 0
    for queue in ("", "main"):
        assert create(world.plane, job("free", namespace=FREE, queue=queue), "--dry-run=server")
    text = json.dumps(job("held"))
    refused = world.plane.kubectl("create", "-f", "-", stdin=text)
    assert 'failed calling webhook "mjob.kb.io"' in refused.stderr
