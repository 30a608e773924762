"""A tenant with the role `edit` in its namespace, and nothing more, does not get more than its quota. One trick a test.

What such a tenant can do by design is in docs/security.md.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import dropwhile
from pathlib import Path
from typing import Any

import pytest

from app.identity import AS_CONTROLLER
from core.model import Raw
from devcluster.components import CONTROLLER_MANAGER
from devcluster.controlplane import ControlPlane
from tests.cluster.accounts import tenant
from tests.cluster.world import World, condition, job, ours
from tests.eventually import PATIENCE
from tests.observing import observing
from tests.serving import Served
from webhook.configurations import Endpoint, HookOptions, validating
from webhook.settings import ControllerAccount

pytestmark = [pytest.mark.cluster, pytest.mark.exceeds]

Tenant = Callable[..., subprocess.CompletedProcess[str]]
LABEL = "example.com/nodes"


@pytest.fixture
def world(cluster: ControlPlane, served: Served, namespace: str) -> World:
    """A namespace whose flavor has a node label, that no node has: nothing but quota is at stake."""
    made = World(cluster, namespace)
    made.flavor(**{LABEL: "of-the-flavor"})
    return made


def on_any_node(world: World) -> None:
    """Nodes have no label of the flavor: for tests whose pods must run."""
    world.merge(ours("ResourceFlavor", world.namespace, {}), {"spec": {"nodeLabels": None}})


@pytest.fixture
def observed(world: World) -> Iterator[None]:
    """The observer sees that no more than the quota of a queue is ever used, by pods neither."""
    with observing(world.plane, world.namespace):
        yield


@pytest.fixture
def by_tenant(world: World, tmp_path: Path) -> Tenant:
    """Runs kubectl as the tenant, in its namespace."""
    kubeconfig = str(tenant(world.plane, world.namespace, tmp_path))

    def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return world.plane.kubectl(*arguments, "-n", world.namespace, "--kubeconfig", kubeconfig, **more)

    world.until("the role is in force", lambda: run("auth", "can-i", "patch", "jobs").stdout == "yes\n")
    assert run("auth", "can-i", "patch", "workloads.kueue.x-k8s.io/status").stdout == "no\n"
    return run


def patch(name: str, change: Raw) -> tuple[str, ...]:
    return "patch", "job", name, "--type=merge", "-p", json.dumps(change)


def wants(node: str | None) -> Raw:
    """A change of the node selector; None takes the wish away."""
    return {"spec": {"template": {"spec": {"nodeSelector": {LABEL: node}}}}}


def unsuspended(found: Raw, name: str) -> bool:
    return found["metadata"]["name"] == name and not found["spec"]["suspend"]


def shown_suspended(world: World, name: str) -> bool:
    """Whether the status of a Job says that it is suspended."""
    return condition(world.jobs()[name], "Suspended")[0] == "True"


def pods(world: World) -> list[str]:
    """The pods that are there, in whatever state."""
    return [each["metadata"]["name"] for each in world.get("pods").get("items", [])]


def both(world: World, running: str, waits: str) -> None:
    """A queue of 2 cpu with a job that has them all, and one that waits."""
    world.queue("team", 2)
    world.job(running, "team", pods=2, seconds=600)
    world.until("its pods are there", lambda: len(pods(world)) == 2)
    world.job(waits, "team", pods=2, seconds=600)
    world.until("the other one waits", lambda: world.condition(waits, "QuotaReserved")[0] == "False")


@pytest.mark.usefixtures("observed")
def test_deleting_a_job_without_its_pods_frees_no_quota(world: World, by_tenant: Tenant) -> None:
    both(world, "left", "waits")
    held = world.workload("left")["metadata"]["name"]
    by_tenant("delete", "job", "left", "--cascade=orphan", check=True)
    told = world.until(
        "its Workload has the reason why it holds quota",
        lambda: condition(world.get("workloads", held), "PodsRemain")[2],
    )
    assert "2 of its pods still run" in told
    assert world.running() == set()
    world.until("its quota is counted", lambda: world.used("team")[0] == "2")
    command = told.partition("To delete them: kubectl ")[2].split()
    by_tenant(*command, "--wait=false", check=True)
    world.until("the next one runs when no pod is left", lambda: world.running() == {"waits"})


@pytest.mark.usefixtures("observed")
def test_a_job_that_was_made_to_contradict_its_flavor_does_not_run_without_quota(
    world: World, by_tenant: Tenant
) -> None:
    both(world, "first", "sly")
    by_tenant(*patch("sly", wants("others")), check=True)
    world.until("it waits for those nodes", lambda: world.workload("sly")["metadata"]["generation"] > 1)
    world.delete("jobs", "first")
    world.until("no flavor has such nodes", lambda: world.reason("sly", "QuotaReserved") == "False/NoMatchingFlavor")
    before = world.version("jobs")
    refused = by_tenant(*patch("sly", {"spec": {**wants(None)["spec"], "suspend": False}}))
    if refused.returncode:  # else the selector is removed already, and the Job may be admitted and run by now
        by_tenant(*patch("sly", wants(None)), check=True)
    (*_, started) = world.seen("jobs", before, lambda job: unsuspended(job, "sly"))
    selector = started["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {LABEL: "of-the-flavor"}, "the first write that unsuspends it is that of its admission"
    world.until("it holds its quota", lambda: world.used("team")[0] == "2")


def test_a_job_whose_workload_is_finished_does_not_run(world: World, by_tenant: Tenant) -> None:
    world.queue("team", 2)
    world.job("failed", "team", seconds=600)
    world.until("it runs", lambda: world.running() == {"failed"})
    name = world.workload("failed")["metadata"]["name"]
    done = {"type": "Finished", "status": "True", "reason": "Failed", "message": "by an administrator"}
    since = {**done, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    conditions = [*world.workload("failed")["status"]["conditions"], since]
    world.patch("workloads", name, {"status": {"conditions": conditions}}, subresource="status")
    world.until("it is stopped", lambda: world.running() == set())
    by_tenant(*patch("failed", {"spec": {"suspend": False}}))
    assert world.jobs()["failed"]["spec"]["suspend"], "and not started by hand"


@pytest.mark.usefixtures("observed")
@pytest.mark.parametrize("manager", ["seiretsu", "kueue-job-controller"])
def test_the_field_manager_of_the_controller_starts_nothing(world: World, by_tenant: Tenant, manager: str) -> None:
    both(world, "first", "waits")
    before = world.version("jobs")
    by_tenant(*patch("waits", {"spec": {"suspend": False}}), f"--field-manager={manager}")
    by_tenant("annotate", "job", "waits", "then=that", check=True)
    states = world.seen("jobs", before, lambda state: "then" in state["metadata"].get("annotations", {}))
    assert all(state["spec"]["suspend"] for state in states if state["metadata"]["name"] == "waits")


@pytest.mark.usefixtures("observed")
def test_a_running_job_does_not_run_more_pods_than_it_was_admitted_with(world: World, by_tenant: Tenant) -> None:
    world.queue("team", 2)
    grows = job("grows", "team", cpu=1, pods=1, seconds=600)
    world.create({**grows, "spec": {**grows["spec"], "completions": 40}})
    world.until("its pod is there", lambda: len(pods(world)) == 1)
    jobs, seen = world.version("jobs"), world.version("pods")
    by_tenant(*patch("grows", {"spec": {"parallelism": 40}}), check=True)
    world.until("it waits for 40 cpu", lambda: world.condition("grows", "QuotaReserved")[0] == "False")
    by_tenant("annotate", "job", "grows", "then=that", check=True)
    states = world.seen("jobs", jobs, lambda state: "then" in state["metadata"].get("annotations", {}))
    assert all(state["spec"]["suspend"] for state in states if state["spec"]["parallelism"] == 40)
    by_tenant(*patch("grows", {"spec": {"parallelism": 2}}), check=True)
    world.until("it runs with what fits", lambda: len(pods(world)) == 2 and world.running() == {"grows"})
    last = pods(world)[0]
    world.patch("pods", last, {"metadata": {"annotations": {"then": "that"}}})
    states = world.seen("pods", seen, lambda state: "then" in state["metadata"].get("annotations", {}))
    assert len({state["metadata"]["name"] for state in states}) == 3, "one before, two after, none between"


@pytest.mark.usefixtures("observed")
def test_a_job_whose_pods_ask_for_more_while_it_waits_waits_for_that(world: World, by_tenant: Tenant) -> None:
    """Kubernetes 1.36 lets everybody change the requests of a suspended Job."""
    both(world, "first", "sly")
    more = [{"op": "replace", "path": "/spec/template/spec/containers/0/resources/requests/cpu", "value": "1500m"}]
    by_tenant("patch", "job", "sly", "--type=json", "-p", json.dumps(more), check=True)
    world.delete("jobs", "first")
    world.until("it waits for 3 cpu", lambda: world.reason("sly", "QuotaReserved") == "False/ExceedsMaxQuota")
    assert world.running() == set()


def test_owner_references_of_a_running_job_do_not_keep_it_from_being_stopped(world: World, by_tenant: Tenant) -> None:
    world.queue("team", 2)
    world.job("tiny", "team", seconds=600)
    world.job("big", "team", seconds=600)
    world.until("both run", lambda: world.running() == {"tiny", "big"})
    uid = world.jobs()["tiny"]["metadata"]["uid"]
    above = {"apiVersion": "batch/v1", "kind": "Job", "name": "tiny", "uid": uid, "controller": True}
    by_tenant(*patch("big", {"metadata": {"ownerReferences": [above]}}))  # may be refused
    name = world.workload("big")["metadata"]["name"]
    world.patch("workloads", name, {"spec": {"active": False}})
    world.until("it is stopped", lambda: world.running() == {"tiny"})
    world.until("its quota is free", lambda: world.used("team")[0] == "1")


def test_a_running_job_without_pods_does_not_start_any_beyond_its_quota(world: World, by_tenant: Tenant) -> None:
    world.queue("team", 2)
    none = job("none", "team", cpu=1, pods=1, seconds=600)
    world.create({**none, "spec": {**none["spec"], "parallelism": 0, "completions": 40}})
    world.until("it is admitted with no pod", lambda: world.running() == {"none"})
    seen = world.version("jobs")
    by_tenant(*patch("none", {"spec": {"parallelism": 40}}), check=True)
    by_tenant("annotate", "job", "none", "then=that", check=True)
    states = world.seen("jobs", seen, lambda state: "then" in state["metadata"].get("annotations", {}))
    assert all(state["spec"]["suspend"] for state in states if state["spec"]["parallelism"] == 40)
    world.until("it waits for 40 cpu", lambda: world.condition("none", "QuotaReserved")[0] == "False")
    assert pods(world) == []


def test_a_start_that_the_job_controller_has_not_seen_holds_its_quota_after_the_stop(world: World) -> None:
    """A Job controller that is late creates pods for the start; the status of the Job counts none before that."""
    world.queue("team", 2, stopPolicy="Hold")
    world.job("brief", "team", pods=2, seconds=600)
    world.until("its controller has seen it", lambda: shown_suspended(world, "brief"))
    seen = world.version("pods")
    world.plane.pause(CONTROLLER_MANAGER)
    try:
        world.patch("clusterqueues", world.full("team"), {"spec": {"stopPolicy": "None"}})
        world.until("it is started", lambda: world.running() == {"brief"} and world.used("team")[0] == "2")
        world.patch("workloads", world.workload("brief")["metadata"]["name"], {"spec": {"active": False}})
        world.until("its controller has to show the stop", lambda: not shown_suspended(world, "brief"))
        assert world.running() == set() and world.used("team")[0] == "2"
    finally:
        world.plane.resume(CONTROLLER_MANAGER)
    world.until("its quota is released", lambda: world.used("team")[0] == "0" and pods(world) == [])
    released = int(world.workload("brief")["metadata"]["resourceVersion"])
    gated = {"schedulingGates": [{"name": "example.com/never"}], "containers": [{"name": "c", "image": "i"}]}
    world.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "last"}, "spec": gated})
    states = world.seen("pods", seen, lambda found: found["metadata"]["name"] == "last")[:-1]
    assert all(int(pod["metadata"]["resourceVersion"]) < released for pod in states)


def stubborn(name: str) -> Raw:
    """A Job of two pods that ignore SIGTERM, with an hour to terminate."""
    made = job(name, "team", cpu=1, pods=2, seconds=600)
    made["spec"]["template"]["metadata"]["annotations"]["seiretsu.dev/ignores-sigterm"] = "true"
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 3600
    return made


def killed(by_tenant: Tenant, names: list[str]) -> None:
    """Pods that terminate are gone, as if their kubelet had killed them and their Job had counted them."""
    for name in names:
        by_tenant("patch", "pod", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}', check=True)
    by_tenant("delete", "pods", *names, "--force", "--grace-period=0", check=True)


def test_a_stopped_job_does_not_start_again_while_its_pods_terminate(world: World, by_tenant: Tenant) -> None:
    on_any_node(world)
    world.queue("team", 2)
    world.create(stubborn("long"))
    world.until("its pods run", lambda: len(on_nodes(world)) == 2)
    world.until("its quota is counted", lambda: world.used("team")[0] == "2")
    world.job("waits", "team", pods=2, seconds=600)
    first, before = pods(world), world.version("jobs")
    by_tenant(*patch("long", {"spec": {"suspend": True}}), check=True)
    world.until("its pods terminate", lambda: world.jobs()["long"]["status"].get("terminating") == 2)
    by_tenant("annotate", "job", "long", "then=that", check=True)
    assert world.running() == set() and world.used("team")[0] == "2"
    by_tenant("annotate", "job", "long", "that=now", check=True)
    states = world.seen("jobs", before, lambda found: "that" in found["metadata"].get("annotations", {}))
    runs = partial(dropwhile, lambda found: found["metadata"]["name"] != "long" or not found["spec"]["suspend"])
    assert all(found["spec"]["suspend"] for found in runs(states)), "once it is stopped: neither it nor the other one"
    killed(by_tenant, first)
    world.until("it runs when they are gone", lambda: world.running() == {"long"} and len(pods(world)) == 2)


def ungate(pod: str) -> tuple[str, ...]:
    return "patch", "pod", pod, "--type=json", "-p", '[{"op":"remove","path":"/spec/schedulingGates"}]'


def ungated(world: World) -> list[str]:
    """The living pods that wait for nothing."""
    living = (each for each in world.get("pods")["items"] if each["status"].get("phase") not in ("Succeeded", "Failed"))
    return [each["metadata"]["name"] for each in living if not each["spec"].get("schedulingGates")]


def test_the_gates_and_labels_of_an_elastic_jobs_pods_are_not_the_tenants(world: World, by_tenant: Tenant) -> None:
    world.queue("team", 1)
    grows = job("grows", "team", cpu=1, pods=1, seconds=600)
    grows["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    world.create({**grows, "spec": {**grows["spec"], "completions": 12}})
    world.until("its pod runs", lambda: len(ungated(world)) == 1)
    (runs,) = ungated(world)
    by_tenant(*patch("grows", {"spec": {"parallelism": 3}}), check=True)
    world.until("two more wait", lambda: len(pods(world)) == 3)
    for pod in {*pods(world)} - {runs}:
        assert "the pod waits for quota" in by_tenant(*ungate(pod)).stderr
        assert by_tenant("label", "pod", pod, "kueue.x-k8s.io/podset=x", "--overwrite").returncode
    assert "quota is counted by it" in by_tenant("label", "pod", runs, "kueue.x-k8s.io/podset-").stderr
    assert "quota is counted by it" in by_tenant("label", "pod", runs, "batch.kubernetes.io/controller-uid-").stderr
    both_at_once = {"metadata": {"labels": None, "finalizers": None}, "spec": {"schedulingGates": None}}
    for pod in {*pods(world)} - {runs}:
        assert by_tenant("patch", "pod", pod, "--type=merge", "-p", json.dumps(both_at_once)).returncode
    assert ungated(world) == [runs]


def below(world: World, owner: str) -> Raw:
    """An owner reference by which a Job controls an object."""
    uid = world.jobs()[owner]["metadata"]["uid"]
    return {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": uid, "controller": True}


@pytest.mark.usefixtures("observed")
def test_a_job_does_not_follow_an_owner_that_did_not_create_it(world: World, by_tenant: Tenant) -> None:
    world.queue("team", 2)
    world.job("admitted", "team", cpu=2, seconds=600)
    world.until("it runs", lambda: world.running() == {"admitted"})
    child = job("child", "team", cpu=2, pods=6, seconds=600)
    child["metadata"]["ownerReferences"] = [below(world, "admitted")]
    told = by_tenant("create", "-f", "-", stdin=json.dumps(child), check=True)
    assert "controller of Job admitted is now false" in told.stderr
    world.until("it waits for its own quota", lambda: world.condition("child", "QuotaReserved")[0] == "False")
    assert world.running() == {"admitted"}
    for name in ("child", "admitted"):  # while it waits, and while it runs
        owner = {"metadata": {"ownerReferences": [below(world, "admitted")]}}
        assert "only the controller of an owner" in by_tenant(*patch(name, owner)).stderr
    container = {"containers": [{"name": "main", "image": "none"}]}
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": container}
    between = {"selector": {"matchLabels": labels}, "template": template}
    for version, kind, spec in (("v1", "Pod", container), ("apps/v1", "ReplicaSet", between)):
        metadata = {"name": "between", "ownerReferences": [below(world, "admitted")]}
        made = json.dumps({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
        assert "only the controller of an owner" in by_tenant("create", "-f", "-", stdin=made).stderr


def changing(world: World, job: str, ended: threading.Event, changes: list[int]) -> None:
    """Changes an annotation of a Job again and again."""
    path = f"/apis/batch/v1/namespaces/{world.namespace}/jobs/{job}"
    with closing(world.plane.administrator.connection(timeout=PATIENCE)) as connection:
        while not ended.is_set():
            body = json.dumps({"metadata": {"annotations": {"changed": str(time.time_ns())}}})
            connection.request("PATCH", path, body, {"Content-Type": "application/merge-patch+json"})
            answer = connection.getresponse()
            answer.read()
            changes.append(answer.status)


def test_a_job_that_its_owner_changes_all_the_time_is_stopped(world: World) -> None:
    """Each change makes another version, and most writes that were decided on the one before come too late."""
    world.queue("team", 2)
    world.job("busy", "team", pods=2, seconds=600)
    world.until("its pods are there", lambda: len(pods(world)) == 2)
    world.until("its quota is counted", lambda: world.used("team")[0] == "2")
    ended, changes = threading.Event(), list[int]()
    threads = [threading.Thread(target=changing, args=(world, "busy", ended, changes)) for _ in range(6)]
    for each in threads:
        each.start()
    try:
        world.until("it is changed all the time", lambda: len(changes) > 50)
        world.patch("workloads", world.workload("busy")["metadata"]["name"], {"spec": {"active": False}})
        world.until("it is stopped, and its quota is free", lambda: world.used("team")[0] == "0")
        assert world.running() == set() and pods(world) == []
    finally:
        ended.set()
        for each in threads:
            each.join()
    assert {*changes} == {200}


def waiting_set() -> Raw:
    """A ReplicaSet whose pods wait for quota, as that of a Deployment in a queue: so far it has none."""
    marks = {"kueue.x-k8s.io/pod-suspending-parent": "deployment"}
    labels = {"app": "a", "kueue.x-k8s.io/queue-name": "team"}
    containers = [{"name": "main", "image": "none"}]
    template = {"metadata": {"annotations": marks, "labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "waits"}, "spec": spec}


def unmark(field: str, key: str) -> tuple[str, ...]:
    """Takes a mark out of the template of that ReplicaSet."""
    change = {"spec": {"template": {"metadata": {field: {f"kueue.x-k8s.io/{key}": None}}}}}
    return "patch", "replicaset", "waits", "--type=merge", "-p", json.dumps(change)


def test_the_marks_by_which_pods_of_a_replica_set_wait_are_not_the_tenants(world: World, by_tenant: Tenant) -> None:
    world.create(waiting_set())
    for field, key in (("annotations", "pod-suspending-parent"), ("labels", "queue-name")):
        assert "the pods wait for quota by these marks" in by_tenant(*unmark(field, key)).stderr
    assert by_tenant("scale", "replicaset", "waits", "--replicas=0").returncode == 0
    own = {"spec": {"template": {"metadata": {"labels": {"mine": "yes"}}}}}
    assert by_tenant("patch", "replicaset", "waits", "--type=merge", "-p", json.dumps(own)).returncode == 0


def test_a_job_that_was_suspended_by_hand_is_not_started_by_hand_beside_its_pods(
    world: World, by_tenant: Tenant
) -> None:
    on_any_node(world)
    world.queue("team", 2)
    world.create(stubborn("turns"))
    world.until("its pods run", lambda: len(on_nodes(world)) == 2)
    first, before = pods(world), world.version("jobs")
    by_tenant(*patch("turns", {"spec": {"suspend": True}}), check=True)
    told = by_tenant(*patch("turns", {"spec": {"suspend": False}}), check=True)
    assert "suspend" in told.stderr, "a warning"
    world.until("its pods terminate", lambda: world.jobs()["turns"]["status"].get("terminating") == 2)
    by_tenant(*patch("turns", {"spec": {"suspend": False}}), check=True)
    by_tenant("annotate", "job", "turns", "then=that", check=True)
    states = world.seen("jobs", before, lambda found: "then" in found["metadata"].get("annotations", {}))
    stopped = next(place for place, state in enumerate(states) if state["spec"]["suspend"])
    assert all(state["spec"]["suspend"] for state in states[stopped:]) and pods(world) == first
    killed(by_tenant, first)
    world.until("it runs when they are gone", lambda: len({*pods(world)} - {*first}) == 2 == len(pods(world)))


def test_a_job_does_not_take_the_workload_of_another_one(world: World, by_tenant: Tenant) -> None:
    both(world, "holds", "waits")
    name = world.workload("holds")["metadata"]["name"]
    for each in ("taker", "waits"):
        label = {"metadata": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": name}}}
        taker = job(each, "team", cpu=1, pods=2, seconds=600, labels=label["metadata"]["labels"])
        if each == "taker":
            by_tenant("create", "-f", "-", stdin=json.dumps(taker), check=True)
        else:
            by_tenant(*patch(each, label))  # may be refused
    world.until("it has an event", lambda: world.events("Job", "taker"))
    assert world.running() == {"holds"}
    world.until("its quota is counted", lambda: world.used("team")[0] == "2")
    assert world.condition("holds", "Finished") == ("", "", "")


def test_a_priority_class_of_the_system_outranks_nobody(world: World, by_tenant: Tenant) -> None:
    both(world, "holds", "first")
    world.outlive_second_of("first")
    critical = job("critical", "team", cpu=1, pods=2, seconds=600)
    critical["spec"]["template"]["spec"]["priorityClassName"] = "system-node-critical"
    told = by_tenant("create", "-f", "-", stdin=json.dumps(critical), check=True).stderr
    assert "PriorityClass system-node-critical does not order the queue" in told
    world.until("it waits, too", lambda: world.workload("critical"))
    assert world.workload("critical")["spec"]["priority"] == world.workload("first")["spec"]["priority"]
    world.delete("jobs", "holds")
    world.until("who came first is the next", lambda: world.running() == {"first"})


def test_a_pod_that_is_created_with_the_token_of_a_pod_of_the_job_has_no_quota_of_its_own(
    world: World, by_tenant: Tenant
) -> None:
    """Admission believes the pod, as it must believe the driver of a SparkApplication; the guard counts."""
    on_any_node(world)
    world.queue("team", 1)
    made = job("driver", "team", cpu=1, pods=1, seconds=600)
    made["spec"]["template"]["spec"]["serviceAccountName"] = "tenant"
    world.create(made)
    (first,) = world.until("it runs", lambda: on_nodes(world))
    uid = world.get("pods", first)["metadata"]["uid"]
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={first}", f"--bound-object-uid={uid}")
    token = by_tenant("create", "token", "tenant", *bound, check=True).stdout.strip()
    above = {"apiVersion": "v1", "kind": "Pod", "name": first, "uid": uid, "controller": True}
    spec = made["spec"]["template"]["spec"]
    for number in range(3):
        metadata = {"name": f"more-{number}", "ownerReferences": [above]}
        found = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        by_tenant("create", "-f", "-", f"--token={token}", stdin=found, check=True)
    world.until("they are stopped", lambda: not {*pods(world)} & {"more-0", "more-1", "more-2"})
    world.until("and so is the job", lambda: "EvictedDueToPodsWithoutQuota" in told_of(world))


def nested(made: Raw, levels: int) -> str:
    """An object whose managed fields, which the API server keeps as they are sent, have so many levels."""
    fields = '{"f:a":' * levels + "{}" + "}" * levels
    entry = {"manager": "me", "operation": "Update", "apiVersion": made["apiVersion"], "fieldsType": "FieldsV1"}
    since = {"time": "2026-01-01T00:00:00Z", "fieldsV1": "FIELDS"}
    metadata = {**made["metadata"], "managedFields": [{**entry, **since}]}
    return json.dumps({**made, "metadata": metadata}).replace('"FIELDS"', fields)


def test_objects_that_are_nested_too_deep_to_be_read_hide_nothing(world: World, by_tenant: Tenant) -> None:
    """Decoders read a thousand levels, the API server ten thousand; every replica reads each Job and each pod."""
    on_any_node(world)
    world.queue("team", 2)
    unqueued = job("unqueued", "", cpu=1, pods=1, seconds=600)
    del unqueued["metadata"]["labels"]
    spec = {"nodeName": "gone", "containers": [{"name": "main", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "deep"}, "spec": spec}
    for made, levels in ((unqueued, 5_000), (pod, 9_000), (job("queued", "team", cpu=1, pods=1, seconds=600), 900)):
        by_tenant("create", "-f", "-", stdin=nested(made, levels), check=True)
    world.job("other", "team", seconds=600)
    world.until("both run", lambda: {"queued", "other"} <= world.running())
    for name in ("queued", "other"):
        world.patch("workloads", world.workload(name)["metadata"]["name"], {"spec": {"active": False}})
    world.until("both are stopped", lambda: world.running() == {"unqueued"} and world.used("team")[0] == "0")
    too_deep = nested(job("refused", "team", cpu=1, pods=1, seconds=600), 5_000)
    assert "mjob.kb.io" in by_tenant("create", "-f", "-", stdin=too_deep).stderr, "one that would be queued"


def on_nodes(world: World) -> list[str]:
    """The pods that have a node."""
    return [each["metadata"]["name"] for each in world.get("pods")["items"] if each["spec"].get("nodeName")]


def told_of(world: World) -> set[str]:
    """The reasons of all events of the namespace."""
    return {each["reason"] for each in world.get("events")["items"]}


POLICIES = "validatingadmissionpolicybindings"
WEBHOOKS = "validatingwebhookconfigurations"


@pytest.fixture
def without_policies(world: World, served: Served) -> Iterator[None]:
    """The webhooks hold what the policies do, as on an API server that serves none."""
    kubectl = partial(world.plane.kubectl, check=True)
    (name,) = (each for each in kubectl("get", WEBHOOKS, "-o", "name").stdout.split() if "/seiretsu" in each)
    live = json.loads(kubectl("get", name, "-o", "json").stdout)
    bundle = b64decode(live["webhooks"][0]["clientConfig"]["caBundle"])
    account = ControllerAccount(AS_CONTROLLER["Impersonate-User"])
    options = HookOptions(endpoint=Endpoint(url=f"https://{served.address}"), ca_bundle=bundle, account=account)
    wanted = validating(options)
    there = {each["name"] for each in live["webhooks"]}
    wanted["metadata"]["name"] = "second-line"
    wanted["webhooks"] = [each for each in wanted["webhooks"] if each["name"] not in there]
    assert [each["name"] for each in wanted["webhooks"]] == [
        *("vjob-owner.kb.io", "vpod-counted.kb.io"),
        *("vreplicaset-marks.kb.io", "vstatefulset-marks.kb.io"),
    ]
    bindings = json.loads(kubectl("get", POLICIES, "-o", "json").stdout)
    for each in bindings["items"]:
        del each["metadata"]["resourceVersion"], each["metadata"]["uid"]
    kubectl("apply", "-f", "-", stdin=json.dumps(wanted))
    kubectl("delete", POLICIES, "--all")
    try:
        yield
    finally:
        kubectl("create", "-f", "-", stdin=json.dumps(bindings))
        kubectl("delete", WEBHOOKS, "second-line")


@pytest.mark.usefixtures("without_policies")
def test_webhooks_hold_what_policies_would(world: World, by_tenant: Tenant) -> None:
    world.queue("team", 1)
    grows = job("grows", "team", cpu=1, pods=2, seconds=600)
    grows["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    grows["spec"]["parallelism"] = 1
    world.create(grows)
    world.until("it runs", lambda: len(ungated(world)) == 1)
    by_tenant(*patch("grows", {"spec": {"parallelism": 2}}), check=True)
    world.until("another pod waits", lambda: len(pods(world)) == 2)
    (waits,) = {*pods(world)} - {*ungated(world)}
    told = world.until("no policy answers", lambda: refused_by_webhook(by_tenant(*ungate(waits), "--dry-run=server")))
    assert "spec.schedulingGates: Forbidden: the pod waits for quota" in told
    owner = {"metadata": {"ownerReferences": [below(world, "grows")]}}
    assert "only the controller of an owner" in by_tenant(*patch("grows", owner)).stderr
    told = by_tenant("label", "pod", waits, "kueue.x-k8s.io/podset-").stderr
    assert "metadata.labels[kueue.x-k8s.io/podset]: Forbidden: quota is counted by it" in told
    assert by_tenant("label", "pod", waits, "mine=yes").returncode == 0
    world.create(waiting_set())
    told = by_tenant(*unmark("annotations", "pod-suspending-parent")).stderr
    assert "vreplicaset-marks.kb.io" in told and "the pods wait for quota by these marks" in told
    assert by_tenant("label", "replicaset", "waits", "mine=yes").returncode == 0


def refused_by_webhook(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr if "vpod-counted.kb.io" in done.stderr else ""
