"""JobSets from the queue to the end, with JobSet's own controller, definition and webhooks."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from api.objects import Raw
from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import IGNORES_SIGTERM, NodeGroup
from tests.cluster.operators import Operators
from tests.cluster.world import World, condition, holds, job, local_queue, ours
from tests.eventually import WAIT
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection: {leaderElect: false}
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset]}
waitForPodsReady: {timeout: 5m}
"""
ONE, TWO = {"pool-one": "yes"}, {"pool-two": "yes"}
SPACE = "sets"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane with nodes of two pools, whose labels have different keys, and without JobSet."""
    pools = (NodeGroup(count=1, prefix="one", labels=ONE), NodeGroup(count=1, prefix="two", labels=TWO))
    with ControlPlane.start(spec=Spec(nodes=pools)) as started:
        started.kubectl("create", "namespace", SPACE, check=True)
        started.kubectl(*WAIT, "--for=create", "serviceaccount/default", "-n", SPACE, check=True)
        yield started


@pytest.fixture(scope="module")
def served(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`seiretsu serve`, which is ready before there is a definition of JobSets."""
    directory = tmp_path_factory.mktemp("serve")
    (directory / "config.yaml").write_text(CONFIGURATION.replace("NAMESPACE", SPACE))
    with serving(plane.kubeconfig, directory, "--config", str(directory / "config.yaml")) as process:
        process.ready()
        yield process


@pytest.fixture(scope="module")
def world(plane: ControlPlane, served: Served, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The namespace, with a flavor for each pool, and JobSet installed after us."""
    absent = [event["resource"] for event in served.events if event["event"] == "not served yet: used when it is"]
    assert sorted(absent) == ["jobsets", "provisioningrequests"]
    made = World(plane, SPACE)
    made.create(ours("ResourceFlavor", "one", {"nodeLabels": ONE}), ours("ResourceFlavor", "two", {"nodeLabels": TWO}))
    for name, value in (("low", 1), ("high", 100)):
        metadata = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
        made.create({**metadata, "value": value})
    Operators(made, tmp_path_factory.mktemp("operators")).jobset()
    served.wait_for(lambda: any(e["event"] == "served now" for e in served.events), "JobSets are watched")
    return made


def groups(one: int, two: int) -> list[Raw]:
    """Resource groups with so many cpu of each flavor."""
    flavors = [
        {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        for flavor, cpu in (("one", one), ("two", two))
    ]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


def queue(world: World, name: str, one: int, **spec: Raw) -> None:
    fields = {"namespaceSelector": {}, "resourceGroups": groups(one, 0), **spec}
    world.create(ours("ClusterQueue", name, fields), local_queue(name, name))


def job_set(name: str, queue: str, *, seconds: float, **labels: str) -> Raw:
    """A JobSet of a driver and two Jobs of two workers each: five pods of one cpu."""

    def replicated(role: str, replicas: int, pods: int) -> Raw:
        spec = job("unused", queue, cpu=1, pods=pods, seconds=seconds)["spec"] | {"backoffLimit": 0}
        return {"name": role, "replicas": replicas, "template": {"spec": spec}}

    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue, **labels}},
        "spec": {"replicatedJobs": [replicated("driver", 1, 1), replicated("workers", 2, 2)]},
    }


def selectors(found: Raw) -> list[Raw]:
    """The node selectors of a JobSet's templates."""
    pods = [each["template"]["spec"]["template"]["spec"] for each in found["spec"]["replicatedJobs"]]
    return [pod.get("nodeSelector", {}) for pod in pods]


def children(world: World, name: str) -> dict[str, Raw]:
    return {child: found for child, found in world.jobs().items() if child.startswith(f"{name}-")}


def pods(world: World, name: str) -> list[Raw]:
    """The pods of a JobSet that are not being deleted."""
    found = world.get("pods")["items"]
    mine = [pod for pod in found if pod["metadata"]["labels"].get("jobset.sigs.k8s.io/jobset-name") == name]
    return [pod for pod in mine if "deletionTimestamp" not in pod["metadata"]]


def stopped(world: World, name: str) -> bool:
    found = world.get("jobsets", name)
    return found["spec"]["suspend"] and not pods(world, name)


def reserving(world: World, queue: str) -> int:
    """How many Workloads hold quota of a ClusterQueue."""
    return int(world.get("clusterqueues", queue)["status"]["reservingWorkloads"])


def running(world: World, name: str) -> bool:
    states = [pod["status"].get("phase") for pod in pods(world, name)]
    return states == ["Running"] * 5


def test_a_queued_jobset_waits_starts_on_its_flavor_gets_ready_and_finishes(world: World) -> None:
    queue(world, "first", one=4)
    made = job_set("waits", "first", seconds=600)
    world.create(made)
    world.until("its Jobs are there", lambda: len(children(world, "waits")) == 3)
    world.until("its Workload has a reason", lambda: world.condition("waits", "QuotaReserved")[0] == "False")
    found = world.get("jobsets", "waits")
    assert found["spec"]["suspend"] is True
    assert selectors(found) == [{}, {}]
    assert all(child["spec"]["suspend"] for child in children(world, "waits").values())
    assert pods(world, "waits") == []
    assert [(each["name"], each["count"]) for each in world.workload("waits")["spec"]["podSets"]] == [
        ("driver", 1),
        ("workers", 4),
    ]
    world.patch("clusterqueues", "first", {"spec": {"resourceGroups": groups(5, 0)}})
    world.until("its pods run", lambda: running(world, "waits"))
    assert selectors(world.get("jobsets", "waits")) == [ONE, ONE]
    assert {pod["spec"]["nodeName"] for pod in pods(world, "waits")} == {"one-1"}
    ready = ("True", "Started", "All pods reached readiness and the workload is running")
    world.until("it is ready", lambda: world.condition("waits", "PodsReady") == ready)
    world.complete(*children(world, "waits"))
    world.until("it has finished", lambda: world.condition("waits", "Finished")[:2] == ("True", "Succeeded"))
    assert holds(world.get("jobsets", "waits"), "Completed")
    assert set(world.workloads()) & {"waits", *children(world, "waits")} == {"waits"}, "its Jobs have none of their own"
    world.until("its quota is free", lambda: reserving(world, "first") == 0)


def test_a_preempted_jobset_is_restored_and_starts_again_on_another_flavor(world: World) -> None:
    queue(world, "second", one=5, preemption={"withinClusterQueue": "LowerPriority"})
    made = job_set("gives-way", "second", seconds=600, **{"kueue.x-k8s.io/priority-class": "low"})
    world.create(made)
    world.until("its pods run", lambda: running(world, "gives-way"))
    first = world.get("jobsets", "gives-way")
    assert selectors(first) == [ONE, ONE]
    urgent = job("urgent", "second", cpu=5, pods=1, seconds=600, labels={"kueue.x-k8s.io/priority-class": "high"})
    before = world.version("jobsets")
    world.create(urgent)
    states = world.seen("jobsets", before, lambda state: selectors(state) == [{}, {}])
    assert states[-1]["spec"]["suspend"], "what its start put in is taken out when it stops: after a conflict, later"
    world.until("the other one runs", lambda: "urgent" in world.running())
    world.patch("clusterqueues", "second", {"spec": {"resourceGroups": groups(5, 5)}})
    world.until("it runs again", lambda: running(world, "gives-way"))
    again = world.get("jobsets", "gives-way")
    assert selectors(again) == [TWO, TWO]
    assert again["status"].get("restarts", 0) == 0
    assert {pod["spec"]["nodeName"] for pod in pods(world, "gives-way")} == {"two-1"}
    assert condition(world.workload("gives-way"), "Admitted")[0] == "True"
    for kind, name in (("jobsets", "gives-way"), ("jobs", "urgent")):
        world.delete(kind, name)


def test_a_deactivated_jobset_is_stopped_and_its_templates_are_as_they_were(world: World) -> None:
    queue(world, "third", one=5)
    world.create(job_set("held", "third", seconds=600))
    world.until("it runs", lambda: running(world, "held"))
    name = world.workload("held")["metadata"]["name"]
    world.patch("workloads", name, {"spec": {"active": False}})
    world.until("it is stopped", lambda: stopped(world, "held"))
    world.until("its quota is free", lambda: reserving(world, "third") == 0)
    assert selectors(world.get("jobsets", "held")) == [{}, {}]
    world.delete("jobsets", "held")


def test_changes_that_admission_alone_may_make_are_refused(world: World) -> None:
    queue(world, "fourth", one=5)
    world.create(job_set("runs", "fourth", seconds=600))
    world.until("the first runs", lambda: running(world, "runs"))
    world.create(job_set("queued", "fourth", seconds=600))
    world.until("the second waits", lambda: world.condition("queued", "QuotaReserved")[0] == "False")

    def patch(name: str, change: Raw) -> tuple[int, str]:
        text = json.dumps(change)
        done = world.plane.kubectl("patch", "jobset", name, "-n", SPACE, "--type=merge", "-p", text)
        return done.returncode, done.stderr

    code, text = patch("queued", {"spec": {"suspend": False}})
    assert code == 0
    assert 'spec.suspend stays true: the job waits in LocalQueue "fourth"' in text
    assert world.get("jobsets", "queued")["spec"]["suspend"] is True
    code, text = patch("runs", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "third"}}})
    assert code == 1
    assert "metadata.labels[kueue.x-k8s.io/queue-name]" in text
    code, text = patch("runs", {"metadata": {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}})
    assert code == 1
    assert 'elastic job is not supported for "jobset.x-k8s.io/v1alpha2, Kind=JobSet"' in text
    code, text = patch("runs", {"spec": {"replicatedJobs": job_set("x", "y", seconds=1)["spec"]["replicatedJobs"]}})
    assert code == 1
    # Both hooks are asked at once: JobSet's controller, and ours for the selectors of nodes that the start has set.
    assert "field is immutable" in text or "the job has quota on these nodes" in text
    for name in ("runs", "queued"):
        world.delete("jobsets", name)


def test_a_deleted_jobset_keeps_its_quota_until_its_pods_are_gone(world: World) -> None:
    """They terminate slowly, and with that quota: the guard leaves them alone."""
    queue(world, "fifth", one=5)
    made = job_set("deleted", "fifth", seconds=600)
    for each in made["spec"]["replicatedJobs"]:
        template = each["template"]["spec"]["template"]
        template["spec"]["terminationGracePeriodSeconds"] = 3
        template["metadata"]["annotations"][IGNORES_SIGTERM] = "true"
    world.create(made)
    world.until("it runs", lambda: running(world, "deleted"))
    before = world.version("workloads")
    world.delete("jobsets", "deleted")
    world.until(
        "its Workload gives up the quota",
        lambda: not world.workload("deleted") or holds(world.workload("deleted"), "Finished"),
    )
    assert [pod for pod in pods(world, "deleted") if pod["status"]["phase"] == "Running"] == []
    world.create(job("next", "fifth", cpu=1, pods=1, seconds=0))

    def job_of(state: Raw) -> str:
        return str(state["metadata"]["ownerReferences"][0]["name"])

    states = world.seen("workloads", before, lambda state: job_of(state) == "next")
    queued = {name for name in map(job_of, states) if name.startswith("deleted")}
    assert queued == {"deleted"}, "its Jobs have no Workloads of their own: garbage collection will delete them"
