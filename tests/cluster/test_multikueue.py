"""MultiKueue on three real control planes: a manager, in which nothing runs, and two workers."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api.objects import Raw
from cli import worker_clusters
from cli.main import application
from controller.kube import config
from controller.kube.client import Client
from core.diagnosis.facts import WorkerFacts
from tests.cluster.fleet import Fleet, fleet, pods_of
from tests.cluster.fleet_crash import crashes, ends_at
from tests.cluster.fleet_faults import Faults, between
from tests.cluster.test_pods import phase, pod
from tests.cluster.test_topology import HOSTNAME, REQUIRED, hostnames
from tests.cluster.world import World, condition, done, job, of_flavor, ours
from tests.effort import SEED as CHOSEN
from tests.effort import cases
from tests.eventually import PATIENCE
from tests.observing import Observer
from tests.write_points import MANAGER_POINTS, WORKER_POINTS

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
SEED = 23
SMALL = (
    *(Faults.kill_manager, Faults.partition, Faults.kill_api_server, Faults.silence, Faults.spoil_network),
    *(Faults.stop_worker, Faults.rotate),
)
MANAGED = "kueue.x-k8s.io/multikueue"


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet")) as made:
        yield made


def managed(name: str, queue: str, **more: object) -> Raw:
    made = job(name, queue, **({"cpu": 1, "pods": 1, "seconds": 1.0} | more))  # type: ignore[arg-type]
    made["spec"]["managedBy"] = MANAGED
    return made


def copies(worker: World) -> list[Raw]:
    """The Workloads of the namespace in a worker."""
    found: list[Raw] = worker.get("workloads").get("items", [])
    return found


def test_a_job_runs_in_one_worker_and_its_status_comes_back(clusters: Fleet) -> None:
    here = clusters.manager
    here.until("both workers are connected", lambda: all(clusters.active(f"worker{n}")[0] == "True" for n in (1, 2)))
    clusters.queue("slice")
    here.create(managed("one", "slice"))
    here.until("it is done here", lambda: done(here.jobs()["one"]))
    here.until("its Workload is", lambda: here.condition("one", "Finished")[:2] == ("True", "Succeeded"))
    assert here.jobs()["one"]["status"]["succeeded"] == 1
    here.until("the workers have no copy", lambda: not any(map(copies, clusters.workers)))
    here.until("nor a job", lambda: clusters.where("one") == [])


def test_the_webhook_leaves_a_job_of_such_a_queue_to_the_workers(clusters: Fleet) -> None:
    here = clusters.manager
    clusters.queue("defaulted")
    here.job("left", "defaulted")
    assert here.jobs()["left"]["spec"]["managedBy"] == MANAGED
    here.until("it is done", lambda: done(here.jobs()["left"]))


def test_the_worker_with_room_runs_the_job_and_the_other_loses_its_copy(clusters: Fleet) -> None:
    here, (full, free) = clusters.manager, clusters.workers
    clusters.queue("room", there=(1, 8))
    here.create(managed("wide", "room", cpu=2, seconds=600.0))
    here.until("it runs in the second worker", lambda: clusters.where("wide") == ["worker2"])
    here.until("the first has no copy", lambda: not copies(full))
    workload = here.workload("wide")
    assert workload["status"]["clusterName"] == "worker2"
    assert "nominatedClusterNames" not in workload["status"]
    (check,) = workload["status"]["admissionChecks"]
    assert (check["state"], check["message"]) == ("Ready", 'The workload was admitted on "worker2"')
    here.until("its status is shown", lambda: here.jobs()["wide"].get("status", {}).get("active") == 1)
    here.until("and it is started here", lambda: not here.jobs()["wide"]["spec"]["suspend"])
    (copy,) = copies(free)
    assert copy["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] == "multikueue"
    here.delete("jobs", "wide")
    here.until("nothing is left of it", lambda: not free.jobs() and not copies(free))
    here.until("nor here", lambda: "wide" not in here.jobs() and not here.workload("wide"))


def test_a_job_that_its_worker_evicts_runs_in_the_other_one(clusters: Fleet) -> None:
    here, (one, other) = clusters.manager, clusters.workers
    clusters.queue("moves", there=(8, 1))
    here.create(managed("moved", "moves", cpu=2, seconds=600.0))
    here.until("it runs in the first worker", lambda: clusters.where("moved") == ["worker1"])
    spec = {"resourceGroups": [of_flavor(here.full("moves"), 8)]}
    other.patch("clusterqueues", here.full("moves"), {"spec": spec})
    one.patch("clusterqueues", here.full("moves"), {"spec": {"stopPolicy": "HoldAndDrain"}})
    here.until("it runs in the second worker", lambda: clusters.where("moved") == ["worker2"])
    name = here.workload("moved")["metadata"]["name"]
    here.until("it is reported", lambda: "EvictedDueToAdmissionCheck" in here.events("Workload", name))
    here.delete("jobs", "moved")


def test_a_group_of_pods_that_its_worker_evicts_runs_in_the_other_one(clusters: Fleet) -> None:
    """The pods here stay: nobody has to create others."""
    here, (one, other) = clusters.manager, clusters.workers
    clusters.queue("herd", there=(8, 1))
    for name in ("herd-a", "herd-b"):
        made = pod(name, "herd", labels={"kueue.x-k8s.io/pod-group-name": "herd"})
        made["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = "2"
        here.create(made)

    def run(world: World) -> bool:
        return all(phase(world, name) == "Running" for name in ("herd-a", "herd-b"))

    here.until("it runs in the first worker", lambda: run(one) and run(here))
    before = {name: here.get("pods", name)["metadata"]["uid"] for name in ("herd-a", "herd-b")}
    spec = {"resourceGroups": [of_flavor(here.full("herd"), 8)]}
    other.patch("clusterqueues", here.full("herd"), {"spec": spec})
    one.patch("clusterqueues", here.full("herd"), {"spec": {"stopPolicy": "HoldAndDrain"}})
    here.until("it runs in the second worker", lambda: run(other) and run(here))
    assert {name: here.get("pods", name)["metadata"]["uid"] for name in before} == before
    here.until("the first has none", lambda: not any(one.get("pods", name) for name in before))
    for name in before:
        here.delete("pods", name)


def test_an_elastic_job_is_resized_in_its_worker(clusters: Fleet) -> None:
    """The other worker has more room for the larger slice, and does not get it."""
    here, (one, _) = clusters.manager, clusters.workers
    clusters.queue("sized", here=8, there=(3, 0))
    made = managed("sized", "sized", pods=1, seconds=600.0)
    made["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    made["spec"]["completions"] = 3
    here.create(made)

    def runs(pods: int) -> bool:
        return clusters.where("sized") == ["worker1"] and one.jobs()["sized"].get("status", {}).get("ready") == pods

    here.until("it runs", lambda: runs(1))
    uid = one.jobs()["sized"]["metadata"]["uid"]
    clusters.workers[1].patch(
        "clusterqueues", here.full("sized"), {"spec": {"resourceGroups": [of_flavor(here.full("sized"), 8)]}}
    )
    here.patch("jobs", "sized", {"spec": {"parallelism": 3}})
    here.until("it has more pods", lambda: runs(3))
    here.until("they are shown here", lambda: here.jobs()["sized"].get("status", {}).get("ready") == 3)
    here.patch("jobs", "sized", {"spec": {"parallelism": 2}})
    here.until("it has fewer pods", lambda: runs(2))
    assert one.jobs()["sized"]["metadata"]["uid"] == uid
    here.delete("jobs", "sized")
    here.until("nothing is left of it", lambda: not one.jobs() and not copies(one))


def test_a_stateful_set_runs_in_a_worker_and_its_pods_here_wait(clusters: Fleet) -> None:
    here, (_, other) = clusters.manager, clusters.workers
    clusters.queue("served", there=(0, 8))
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": template}
    labels = {"kueue.x-k8s.io/queue-name": "served"}
    here.create(
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "labels": labels}, "spec": spec}
    )
    here.until("it runs", lambda: other.get("statefulsets", "web").get("status", {}).get("readyReplicas") == 2)
    (pod,) = here.get("pods")["items"]
    assert pod["status"]["phase"] == "Pending" and "nodeName" not in pod["spec"]
    assert len(copies(other)) == 1
    here.delete("statefulsets", "web")
    here.until("nothing is left of it", lambda: not copies(other) and not other.get("statefulsets")["items"])


def test_a_job_of_another_vendor_runs_in_a_worker(clusters: Fleet) -> None:
    """The test makes its Workload and its status, as the vendor's controllers would."""
    here, (one, _) = clusters.manager, clusters.workers
    clusters.queue("vendor", there=(8, 0))
    typed = {"apiVersion": "example.com/v1", "kind": "Widget"}
    here.create({**typed, "metadata": {"name": "mine"}, "spec": {"managedBy": MANAGED, "size": 3}})
    owner = {**typed, "name": "mine", "uid": here.get("widgets", "mine")["metadata"]["uid"], "controller": True}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    made = ours("Workload", "widget-mine", {"queueName": "vendor", "podSets": [pods]})
    here.create({**made, "metadata": {**made["metadata"], "ownerReferences": [owner]}})
    here.until("it is created in the worker", lambda: one.get("widgets", "mine").get("spec") == {"size": 3})
    one.patch("widgets", "mine", {"status": {"phase": "Running"}}, subresource="status")
    here.until("its status is shown", lambda: here.get("widgets", "mine").get("status") == {"phase": "Running"})
    here.delete("workloads", "widget-mine")
    here.until("nothing is left of it", lambda: not one.get("widgets")["items"] and not copies(one))


def test_a_job_is_placed_by_topology_in_its_worker_and_not_here(clusters: Fleet) -> None:
    """The manager has the same flavor and no node: it admits the job without domains, and does not look for any."""
    here, (one, _) = clusters.manager, clusters.workers
    for world in (here, *clusters.workers):
        world.create(ours("Topology", "hosts", {"levels": [{"nodeLabel": HOSTNAME}]}))
    clusters.queue("hosts", there=(8, 0), flavor={"nodeLabels": {"type": "kwok"}, "topologyName": "hosts"})
    made = managed("placed", "hosts", pods=2, seconds=600.0)
    made["spec"]["template"]["metadata"].setdefault("annotations", {})[REQUIRED] = HOSTNAME
    here.create(made)
    here.until("it is ready here", lambda: here.condition("placed", "PodsReady")[0] == "True")
    workload, (copy,) = here.workload("placed"), copies(one)
    assert (workload["status"]["clusterName"], here.condition("placed", "Admitted")[0]) == ("worker1", "True")
    (pods,) = workload["status"]["admission"]["podSetAssignments"]
    assert (pods.get("delayedTopologyRequest"), pods.get("topologyAssignment")) == ("Ready", None)
    (pods,) = copy["status"]["admission"]["podSetAssignments"]
    assert dict(hostnames(pods["topologyAssignment"])) == {"node-1": 2}
    found = [each["spec"] for each in one.get("pods")["items"] if each["metadata"]["labels"]["job-name"] == "placed"]
    assert [(each["nodeName"], each["nodeSelector"][HOSTNAME]) for each in found] == [("node-1", "node-1")] * 2

    here.create(managed("later", "hosts", seconds=1.0))
    here.until("a later job has ended", lambda: done(here.jobs()["later"]))
    assert here.workload("placed")["status"] == workload["status"]
    assert "SecondPassFailed" not in here.events("Workload", workload["metadata"]["name"])
    here.delete("jobs", "placed")
    here.until("nothing is left of it", lambda: not copies(one) and "placed" not in one.jobs())


def test_a_job_that_is_evicted_here_stops_in_its_worker(clusters: Fleet) -> None:
    here = clusters.manager
    clusters.queue("drained")
    here.create(managed("stopped", "drained", seconds=600.0))
    here.until("it runs", lambda: here.jobs()["stopped"].get("status", {}).get("active") == 1)
    here.patch("clusterqueues", here.full("drained"), {"spec": {"stopPolicy": "HoldAndDrain"}})
    here.until("it has no quota", lambda: here.condition("stopped", "QuotaReserved")[0] == "False")
    here.until("no worker has it", lambda: clusters.where("stopped") == [])
    assert here.jobs()["stopped"]["spec"]["suspend"]
    here.delete("jobs", "stopped")


def test_a_running_job_that_is_changed_here_runs_in_a_worker_as_it_is_now(clusters: Fleet) -> None:
    here = clusters.manager
    clusters.queue("changed")
    made = managed("changed", "changed", seconds=600.0)
    made["spec"]["completions"] = 2
    here.create(made)
    here.until("it runs", lambda: here.jobs()["changed"].get("status", {}).get("active") == 1)
    here.patch("jobs", "changed", {"spec": {"parallelism": 2}})
    here.until("it runs with two pods", lambda: here.jobs()["changed"].get("status", {}).get("active") == 2)
    assert len(clusters.where("changed")) == 1
    here.delete("jobs", "changed")


def _uid(world: World, job: str) -> str:
    """The uid of the Workload of a Job, '' as long as it has none."""
    return str(world.workload(job).get("metadata", {}).get("uid", ""))


def test_a_job_whose_workload_is_deleted_here_runs_again_with_another_one(clusters: Fleet) -> None:
    here = clusters.manager
    clusters.queue("renewed")
    here.create(managed("renewed", "renewed", seconds=600.0))
    here.until("it runs", lambda: here.jobs()["renewed"].get("status", {}).get("active") == 1)
    before = here.workload("renewed")["metadata"]
    here.delete("workloads", before["name"])
    here.until("it has another Workload", lambda: _uid(here, "renewed") not in ("", before["uid"]))
    here.until("it runs again", lambda: here.jobs()["renewed"].get("status", {}).get("active") == 1)
    assert len(clusters.where("renewed")) == 1
    here.delete("jobs", "renewed")


def test_a_job_that_no_worker_could_ever_take_is_reported_when_it_is_created(clusters: Fleet) -> None:
    """kubectl, the check, its event and ``explain`` have the same sentence."""
    here = clusters.manager
    clusters.queue("large", here=200)
    manifest = managed("large", "large", cpu=100)
    wanted = "No worker cluster can run it: worker1, worker2: asks for 100 cpu, at most 8 is allowed"
    dry_run = ("create", "--dry-run=server", "-n", here.namespace, "-f", "-")
    here.until(
        "kubectl warns", lambda: wanted in here.plane.kubectl(*dry_run, stdin=json.dumps(manifest), check=True).stderr
    )
    here.create(manifest)
    here.until("its check says so", lambda: wanted in json.dumps(here.workload("large").get("status")))
    here.until("an event says so", lambda: wanted in json.dumps(here.get("events")))
    assert wanted in here.explain("large")
    here.delete("jobs", "large")


def test_simulate_reads_the_workers_of_a_live_manager(clusters: Fleet, tmp_path: Path) -> None:
    clusters.queue("asked", there=(1, 8))
    jobs = tmp_path / "jobs.yaml"
    found = managed("wide", "asked", cpu=4)
    found["metadata"]["namespace"] = clusters.namespace
    jobs.write_text(json.dumps(found))
    words = ["--from-cluster", "--kubeconfig", str(clusters.planes[0].kubeconfig), str(jobs), "-o", "json"]
    answer = CliRunner().invoke(application(["simulate"]), ["simulate", *words])
    assert answer.exit_code == 0, answer.stderr
    (told,) = (each for each in json.loads(answer.stdout)["workloads"] if each["job"] == "wide")
    reason = "asks for 4 cpu, at most 1 is allowed"
    assert told["dispatched"] == [{"at": 0, "worker": "worker2", "notIn": {"worker1": reason}}]


def test_the_documented_account_of_a_worker_has_the_rights_that_are_used(clusters: Fleet, tmp_path: Path) -> None:
    """The commands of docs/multikueue.md, word by word, and the rights for a kind of another vendor."""
    page = (ROOT / "docs" / "multikueue.md").read_text()
    (commands,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    worker, environment = clusters.workers[0], clusters.planes[1].environment()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    paths = f"{clusters.planes[1].programs['kubectl'].parent}:{environment['PATH']}"
    subprocess.run(
        ["sh", "-euc", commands], cwd=tmp_path, env=environment | {"PATH": paths}, check=True, timeout=PATIENCE
    )
    assert worker.get("namespaces", "multikueue")
    rights = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["list", "watch", "create", "delete"]}
    typed, named = {"apiVersion": "rbac.authorization.k8s.io/v1"}, {"metadata": {"name": "widgets"}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "widgets"}
    account = {"kind": "ServiceAccount", "name": "multikueue", "namespace": "multikueue"}
    worker.create(
        {**typed, **named, "kind": "ClusterRole", "rules": [rights]},
        {**typed, **named, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [account]},
    )
    clusters.connect("least", (tmp_path / "worker1.kubeconfig").read_text())
    here = clusters.manager
    here.until("it is connected", lambda: clusters.active("least")[0] == "True")
    (facts,) = [each for each in asyncio.run(_doctor(here)) if each.name == "least"]
    assert facts.trouble == "" and facts.unseen == [] and facts.denied == [] and facts.not_served == []
    here.delete("multikueueclusters", "least")


def test_a_kubeconfig_file_is_read_and_followed(clusters: Fleet, tmp_path: Path) -> None:
    here, path = clusters.manager, tmp_path / "kubeconfig"
    path.write_text(clusters.planes[1].kubeconfig.read_text())
    source = {"kubeConfig": {"location": str(path), "locationType": "Path"}}
    here.create(ours("MultiKueueCluster", "by-path", {"clusterSource": source}))
    here.until("it is connected", lambda: clusters.active("by-path")[0] == "True")
    path.unlink()
    wanted = ("False", "BadKubeConfig", f"load client config failed: open {path}: no such file or directory")
    here.until("it is not any more", lambda: clusters.active("by-path") == wanted)
    here.delete("multikueueclusters", "by-path")


async def _doctor(world: World) -> list[WorkerFacts]:
    async with Client(config.load(world.plane.kubeconfig)) as client:
        objects = {"multikueueclusters": world.get("multikueueclusters")["items"]}
        return await worker_clusters.read(client, objects)


async def test_each_job_runs_once_whatever_fails(clusters: Fleet) -> None:
    """``python -m bench.fleet`` is the same at full size."""
    here, chance = clusters.manager, random.Random(SEED)
    print(f"seed {SEED}")
    await asyncio.to_thread(clusters.queue, "many", there=(3, 3))
    names = [f"many-{number}" for number in range(24)]
    observer = await asyncio.to_thread(
        Observer, clusters.planes[0], clusters.namespace, drained=True, workers=clusters.planes[1:]
    )
    with closing(observer):
        async with between(clusters) as proxies:
            await asyncio.to_thread(here.create, *(managed(name, "many", seconds=2.0) for name in names))
            for fault in SMALL:
                await fault(Faults(clusters, proxies, chance, 1.0))
            await asyncio.to_thread(
                here.until, "all have ended", lambda: all(done(here.jobs()[name]) for name in names)
            )
        observed = await asyncio.to_thread(observer.end)
    assert observed.broken == []
    assert observed.ran == len(names)


async def test_a_manager_that_ends_at_any_write_goes_on(clusters: Fleet) -> None:
    """`make test-long` ends it both before each write reaches the API server and after, `make test` at one of them."""
    print(f"seed {CHOSEN}")
    chance = random.Random(CHOSEN)
    with pods_of(clusters) as pods:
        ended_at = await crashes(clusters, ends=ends_at(chance, cases(1, 2)))
    assert set(ended_at) == {*MANAGER_POINTS, *WORKER_POINTS}
    assert {len(found) for name, found in pods.items() if name.startswith("ends-")} == {1}


def test_a_worker_that_never_answers_delays_no_other(clusters: Fleet) -> None:
    here = clusters.manager
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        clusters.connect("silent", json.dumps(kubeconfig))
        clusters.queue("patient", "silent")
        here.create(*(managed(f"patient-{number}", "patient") for number in range(4)))
        here.until("all have ended", lambda: all(done(here.jobs()[f"patient-{number}"]) for number in range(4)))
        (check,) = [
            each for each in here.get("admissionchecks")["items"] if here.full("patient") == each["metadata"]["name"]
        ]
        assert condition(check, "Active") == ("True", "SomeActiveClusters", "Inactive clusters: [silent]")
        here.delete("multikueueclusters", "silent")


def test_a_kubeconfig_that_may_not_be_used_is_reported(clusters: Fleet) -> None:
    clusters.connect("broken", json.dumps({"users": [{"name": "u", "user": {"exec": {"command": "sh"}}}]}))
    here = clusters.manager
    wanted = ("False", "InsecureKubeConfig", "load client config failed: exec plugins are not allowed")
    here.until("it is reported", lambda: clusters.active("broken") == wanted)
    here.delete("multikueueclusters", "broken")


def test_a_lost_worker_loses_its_job_and_what_it_has_when_it_is_back(clusters: Fleet) -> None:
    here, (one, other) = clusters.manager, clusters.workers
    clusters.give_up_after("3s")
    clusters.queue("lost", there=(8, 0))
    here.create(managed("lost", "lost", seconds=600.0))
    here.until("it runs in the first worker", lambda: here.jobs()["lost"].get("status", {}).get("active") == 1)
    spec = {"resourceGroups": [of_flavor(here.full("lost"), 8)]}
    other.patch("clusterqueues", here.full("lost"), {"spec": spec})
    one.plane.stop_apiserver()
    try:
        here.until(
            "the loss is reported", lambda: clusters.active("worker1")[:2] == ("False", "ClientConnectionFailed")
        )
        here.until("it runs in the second worker", lambda: "lost" in other.jobs())
    finally:
        one.plane.start_apiserver()
    here.until("the worker is back", lambda: clusters.active("worker1")[0] == "True")
    here.until("and has nothing of it", lambda: "lost" not in one.jobs() and not copies(one))
    assert here.workload("lost")["status"]["clusterName"] == "worker2"
    here.delete("jobs", "lost")


def test_a_copy_without_a_workload_here_is_collected(clusters: Fleet) -> None:
    here, (one, _) = clusters.manager, clusters.workers
    clusters.queue("orphan")
    here.create(managed("kept", "orphan", seconds=600.0))
    here.until("it runs", lambda: len(clusters.where("kept")) == 1)
    (copy,) = [each for world in clusters.workers for each in copies(world)]
    metadata = {"name": "orphan", "namespace": here.namespace, "labels": copy["metadata"]["labels"]}
    one.create({**copy, "metadata": metadata, "status": {}})
    one.until("the orphan is collected", lambda: "orphan" not in {each["metadata"]["name"] for each in copies(one)})
    assert len(clusters.where("kept")) == 1
    here.delete("jobs", "kept")
