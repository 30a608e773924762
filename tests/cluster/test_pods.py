"""Plain pods from the queue to the end: gated, admitted, preempted, finished, deleted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.objects import Raw
from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import NodeGroup
from tests.cluster.accounts import tenant
from tests.cluster.operators import OF_LWS, Operators
from tests.cluster.world import World, condition, job, local_queue, ours
from tests.eventually import WAIT
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection: {leaderElect: false}
managedJobsNamespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
integrations: {frameworks: [batch/job, pod, deployment, statefulset, leaderworkerset.x-k8s.io/leaderworkerset]}
waitForPodsReady: {timeout: 5m}
"""
ONE, TWO = {"pool": "one"}, {"pool": "two"}
TAINT = {"key": "reserved", "value": "one", "effect": "NoSchedule"}
TOLERATION = {"key": "reserved", "operator": "Equal", "value": "one", "effect": "NoSchedule"}
SPACE = "pods"
GATE = "kueue.x-k8s.io/admission"
QUEUE, CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane with nodes of two pools, of which one has a taint."""
    pools = (
        NodeGroup(count=1, prefix="one", labels=ONE, taints=(TAINT,)),
        NodeGroup(count=1, prefix="two", labels=TWO),
    )
    with ControlPlane.start(spec=Spec(nodes=pools)) as started:
        for name in (SPACE, "elsewhere"):
            started.kubectl("create", "namespace", name, check=True)
            started.kubectl(*WAIT, "--for=create", "serviceaccount/default", "-n", name, check=True)
        yield started


@pytest.fixture(scope="module")
def served(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("serve")
    (directory / "config.yaml").write_text(CONFIGURATION.replace("NAMESPACE", SPACE))
    with serving(plane.kubeconfig, directory, "--config", str(directory / "config.yaml")) as process:
        process.ready()
        yield process


@pytest.fixture(scope="module")
def world(plane: ControlPlane, served: Served) -> World:
    """The namespace, with a flavor for each pool and two priority classes."""
    made = World(plane, SPACE)
    made.create(
        ours("ResourceFlavor", "one", {"nodeLabels": ONE, "tolerations": [TOLERATION]}),
        ours("ResourceFlavor", "two", {"nodeLabels": TWO}),
    )
    for name, value in (("low", 1), ("high", 100)):
        metadata = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": name}}
        made.create({**metadata, "value": value})
    return made


def groups(one: int, two: int) -> list[Raw]:
    """Resource groups with so many cpu of each flavor."""
    flavors = [
        {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        for flavor, cpu in (("one", one), ("two", two))
    ]
    return [{"coveredResources": ["cpu"], "flavors": flavors}]


def queue(world: World, name: str, one: int, two: int = 0, **spec: Raw) -> None:
    fields = {"namespaceSelector": {}, "resourceGroups": groups(one, two), **spec}
    world.create(ours("ClusterQueue", name, fields), local_queue(name, name))


def pod(name: str, queue: str = "", *, seconds: float = 600, code: int = 0, labels: Raw | None = None) -> Raw:
    """A pod of one cpu that ends after so many seconds."""
    run = {"seiretsu.dev/run-for": f"{seconds}s", "seiretsu.dev/exit-code": str(code)}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    named = {QUEUE: queue} if queue else {}
    metadata = {"name": name, "labels": {**named, **(labels or {})}, "annotations": run}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def gates(found: Raw) -> list[str]:
    return [each["name"] for each in found["spec"].get("schedulingGates", ())]


def phase(world: World, name: str) -> str:
    return str(world.get("pods", name).get("status", {}).get("phase", ""))


def gone(world: World, resource: str, name: str) -> bool:
    return not world.get(resource, name)


def reserving(world: World, queue: str) -> int:
    """How many Workloads hold quota of a ClusterQueue."""
    return int(world.get("clusterqueues", queue).get("status", {}).get("reservingWorkloads", -1))


def condition_of(world: World, name: str, kind: str) -> tuple[str, str, str]:
    return condition(world.get("workloads", name), kind)


def test_a_queued_pod_waits_behind_its_gate_starts_on_its_flavor_and_succeeds(world: World) -> None:
    queue(world, "first", one=0)
    world.create(pod("waits", "first", seconds=1))
    made = world.get("pods", "waits")
    assert GATE in gates(made)
    assert made["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"
    assert made["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]
    world.until("its Workload has a reason", lambda: world.condition("waits", "QuotaReserved")[0] == "False")
    assert world.workload("waits")["metadata"]["name"].startswith("pod-waits-")
    assert gates(world.get("pods", "waits")) == gates(made)
    world.patch("clusterqueues", "first", {"spec": {"resourceGroups": groups(1, 0)}})
    world.until("it runs or has ended", lambda: phase(world, "waits") in ("Running", "Succeeded"))
    started = world.get("pods", "waits")
    assert gates(started) == []
    assert started["spec"]["nodeSelector"] == ONE
    assert TOLERATION in started["spec"]["tolerations"]
    assert started["spec"]["nodeName"] == "one-1"
    world.until("it has finished", lambda: world.condition("waits", "Finished")[:2] == ("True", "Succeeded"))
    world.until("the finalizer is removed", lambda: "finalizers" not in world.get("pods", "waits")["metadata"])
    world.until("its quota is free", lambda: reserving(world, "first") == 0)
    reported = {"CreatedWorkload", "Started", "FinishedWorkload"}
    world.until("all of it is reported", lambda: reported <= world.events("Pod", "waits"))
    world.delete("pods", "waits")


def test_a_pod_that_fails_finishes_its_workload_as_failed(world: World) -> None:
    queue(world, "second", one=1)
    world.create(pod("fails", "second", seconds=0.1, code=3))
    world.until("it has finished", lambda: world.condition("fails", "Finished")[:2] == ("True", "Failed"))
    world.until("the finalizer is removed", lambda: "finalizers" not in world.get("pods", "fails")["metadata"])
    world.delete("pods", "fails")


def test_a_preempted_pod_is_deleted_with_the_reason_and_its_replacement_is_queued(world: World) -> None:
    """A ReplicaSet creates the replacement; its pods are queued one by one."""
    queue(world, "third", one=1, preemption={"withinClusterQueue": "LowerPriority"})
    template = pod("unused", "third", labels={CLASS: "low", "app": "set"})
    made = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "set"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "set"}},
            "template": {
                "metadata": {key: template["metadata"][key] for key in ("labels", "annotations")},
                "spec": {"containers": template["spec"]["containers"]},
            },
        },
    }
    world.create(made)

    def mine() -> dict[str, Raw]:
        found = world.get("pods")["items"]
        return {each["metadata"]["name"]: each for each in found if each["metadata"]["labels"].get("app") == "set"}

    world.until("its pod runs", lambda: [each["status"]["phase"] for each in mine().values()] == ["Running"])
    (victim,) = mine()
    before = world.version("pods")
    world.create(pod("urgent", "third", labels={CLASS: "high"}))

    def marked(state: Raw) -> bool:
        target = condition(state, "TerminationTarget")
        return state["metadata"]["name"] == victim and target[1] == "WorkloadEvictedDueToPreempted"

    states = world.seen("pods", before, marked)
    assert condition(states[-1], "TerminationTarget")[2].startswith("Preempted to accommodate a workload")
    world.until("the urgent pod runs", lambda: phase(world, "urgent") == "Running")
    world.until("the victim is gone", lambda: gone(world, "pods", victim))
    world.until("its replacement waits", lambda: [gates(each) != [] for each in mine().values()] == [True])
    world.delete("pods", "urgent")
    world.until("the replacement runs", lambda: [each["status"]["phase"] for each in mine().values()] == ["Running"])
    world.delete("replicasets", "set")
    world.until("its pods are gone", lambda: not mine())
    world.until("the quota is free", lambda: reserving(world, "third") == 0)


def test_a_deleted_pod_is_gone_with_its_workload_whether_it_waits_or_runs(world: World) -> None:
    queue(world, "fourth", one=1)
    world.create(pod("runs", "fourth"))
    world.until("it runs", lambda: phase(world, "runs") == "Running")
    world.create(pod("pending", "fourth"))
    world.until("the other waits", lambda: world.condition("pending", "QuotaReserved")[0] == "False")
    for name in ("pending", "runs"):
        workload = world.workload(name)["metadata"]["name"]
        world.delete("pods", name)
        world.until(f"{name} is gone", lambda name=name: gone(world, "pods", name))  # type: ignore[misc]
        world.until("its Workload too", lambda workload=workload: gone(world, "workloads", workload))  # type: ignore[misc]
    world.until("the quota is free", lambda: reserving(world, "fourth") == 0)


def test_the_pods_of_a_queued_job_are_not_queued_again(world: World) -> None:
    queue(world, "fifth", one=2)
    found = job("with-label", "fifth", cpu=1, pods=2, seconds=600)
    found["spec"]["template"]["metadata"]["labels"] = {QUEUE: "fifth"}
    world.create(found)

    def mine() -> list[Raw]:
        return [each for each in world.get("pods")["items"] if each["metadata"]["name"].startswith("with-label-")]

    world.until("its pods run", lambda: [each["status"]["phase"] for each in mine()] == ["Running"] * 2)
    assert all("kueue.x-k8s.io/managed" not in each["metadata"]["labels"] for each in mine())
    assert [name for name in world.workloads() if name.startswith("with-label")] == ["with-label"]
    world.delete("jobs", "with-label")


def test_a_pod_of_another_namespace_starts_at_once(world: World) -> None:
    other = World(world.plane, "elsewhere")
    other.create(pod("free", "first"))
    world.until("it runs", lambda: phase(other, "free") == "Running")
    assert other.workloads() == {}
    other.delete("pods", "free")


def test_a_gate_that_is_removed_by_hand_is_refused(world: World) -> None:
    queue(world, "sixth", one=0)
    world.create(pod("held", "sixth"))
    world.until("it waits", lambda: world.condition("held", "QuotaReserved")[0] == "False")
    patch: dict[str, Any] = {"spec": {"schedulingGates": []}}
    done = world.plane.kubectl("patch", "pod", "held", "-n", SPACE, "--type=merge", "-p", json.dumps(patch))
    assert done.returncode == 1
    assert "is started when its workload is admitted, not by hand" in done.stderr
    world.delete("pods", "held")


def group(
    name: str, queue: str, *, total: int = 2, index: int = 0, seconds: float = 600, labels: Raw | None = None
) -> Raw:
    """A pod of a group."""
    found = pod(
        f"{name}-{index}", queue, seconds=seconds, labels={"kueue.x-k8s.io/pod-group-name": name, **(labels or {})}
    )
    found["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = str(total)
    return found


def members(world: World, name: str) -> dict[str, Raw]:
    """The pods of a group that are there, by name."""
    items = world.get("pods")["items"]
    mine = (each for each in items if each["metadata"]["labels"].get("kueue.x-k8s.io/pod-group-name") == name)
    return {each["metadata"]["name"]: each for each in mine}


def phases(world: World, name: str) -> list[str]:
    return [each["status"]["phase"] for each in members(world, name).values()]


def test_a_group_waits_until_it_is_complete_starts_together_and_finishes(world: World) -> None:
    queue(world, "seventh", one=2)
    world.create(group("duo", "seventh", seconds=2))
    world.until("a pod is missing", lambda: "ErrWorkloadCompose" in world.events("Pod", "duo-0"))
    assert world.workloads().get("duo-0") is None
    world.create(group("duo", "seventh", index=1, seconds=2))
    world.until("both have started", lambda: set(phases(world, "duo")) <= {"Running", "Succeeded"})
    workload = world.get("workloads", "duo")
    assert [(each["count"]) for each in workload["spec"]["podSets"]] == [2]
    owners = {(each["name"], each.get("controller", False)) for each in workload["metadata"]["ownerReferences"]}
    assert owners == {("duo-0", False), ("duo-1", False)}
    assert {each["spec"]["nodeName"] for each in members(world, "duo").values()} == {"one-1"}
    world.until("it has finished", lambda: condition_of(world, "duo", "Finished")[:2] == ("True", "Succeeded"))
    assert condition_of(world, "duo", "Finished")[2] == "Pods succeeded: 2/2."
    world.until(
        "its pods are free", lambda: all("finalizers" not in p["metadata"] for p in members(world, "duo").values())
    )
    world.until("the quota is free", lambda: reserving(world, "seventh") == 0)
    for name in members(world, "duo"):
        world.delete("pods", name)


def test_an_excess_pod_of_a_group_is_deleted(world: World) -> None:
    queue(world, "eighth", one=2)
    world.create(group("crowd", "eighth"), group("crowd", "eighth", index=1))
    world.until("both run", lambda: phases(world, "crowd") == ["Running"] * 2)
    world.create(group("crowd", "eighth", index=2))
    world.until("it is deleted", lambda: "ExcessPodDeleted" in world.events("Pod", "crowd-2"))
    world.until("it is gone", lambda: set(members(world, "crowd")) == {"crowd-0", "crowd-1"})
    assert phases(world, "crowd") == ["Running"] * 2
    for name in ("crowd-0", "crowd-1"):
        world.delete("pods", name)
    world.until("the pods are gone", lambda: not members(world, "crowd"))
    world.until("its Workload too", lambda: gone(world, "workloads", "crowd"))
    world.until("the quota is free", lambda: reserving(world, "eighth") == 0)


def asking(found: Raw, cpu: str, **annotations: str) -> Raw:
    """The pod with another request, and annotations of Kueue."""
    found["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    given = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    found["metadata"]["annotations"] |= given
    return found


def test_pods_that_say_that_they_are_alike_are_counted_by_what_they_ask_for(world: World) -> None:
    queue(world, "liars", one=4)
    same = {"role_hash": "same"}
    world.create(asking(group("liars", "liars"), "10m", **same), asking(group("liars", "liars", index=1), "8", **same))
    world.until("8 cpu do not fit", lambda: condition_of(world, "liars", "QuotaReserved")[0] == "False")
    pod_sets = world.get("workloads", "liars")["spec"]["podSets"]
    asked = [each["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] for each in pod_sets]
    assert sorted(asked) == ["10m", "8"]
    fast = {**same, "pod_group_fast_admission": "true"}
    world.create(asking(group("fast", "liars", total=3), "10m", **fast))
    world.until("the first runs", lambda: phases(world, "fast") == ["Running"])
    world.create(asking(group("fast", "liars", total=3, index=1), "8", **fast))
    world.until("it is told", lambda: "ErrWorkloadCompose" in world.events("Pod", "fast-1"))
    world.create(asking(group("fast", "liars", total=3, index=2), "10m", **fast))
    world.until("the third runs", lambda: phase(world, "fast-2") == "Running")
    assert gates(world.get("pods", "fast-1")) != []
    for name in (*members(world, "liars"), *members(world, "fast")):
        world.delete("pods", name)


def test_a_pod_that_has_succeeded_is_not_replaced_with_quota_that_others_use(world: World) -> None:
    queue(world, "twice", one=2)
    world.create(group("twice", "twice", seconds=0.1), group("twice", "twice", index=1))

    def reclaimed() -> list[int]:
        found = world.get("workloads", "twice").get("status", {}).get("reclaimablePods", [])
        return [each["count"] for each in found]

    world.until("the quota of the one that has ended is free", lambda: reclaimed() == [1])
    world.create(pod("other", "twice"))
    world.until("another pod uses it", lambda: phase(world, "other") == "Running")
    world.patch("pods", "twice-0", {"metadata": {"finalizers": None}})
    world.delete("pods", "twice-0")
    world.until("it is gone", lambda: gone(world, "pods", "twice-0"))
    world.create(group("twice", "twice", index=2))
    world.until("the one that replaces it is in excess", lambda: gone(world, "pods", "twice-2"))
    assert reclaimed() == [1]
    assert phase(world, "other") == "Running"
    for name in ("twice-1", "other"):
        world.delete("pods", name)


def test_a_preempted_group_keeps_its_workload_and_starts_again_with_new_pods(world: World) -> None:
    queue(world, "ninth", one=2, preemption={"withinClusterQueue": "LowerPriority"})
    low = {CLASS: "low"}
    world.create(group("victims", "ninth", labels=low), group("victims", "ninth", index=1, labels=low))
    world.until("both run", lambda: phases(world, "victims") == ["Running"] * 2)
    uid = world.get("workloads", "victims")["metadata"]["uid"]
    world.create(pod("urgent-too", "ninth", labels={CLASS: "high"}))
    world.until("the urgent pod runs", lambda: phase(world, "urgent-too") == "Running")
    waits = ("True", "Preempted")
    world.until("pods are missing", lambda: condition_of(world, "victims", "WaitingForReplacementPods")[:2] == waits)
    world.create(group("victims", "ninth", index=2, labels=low), group("victims", "ninth", index=3, labels=low))
    world.until("the new pods are all", lambda: set(members(world, "victims")) == {"victims-2", "victims-3"})
    world.until("none is missing", lambda: condition_of(world, "victims", "WaitingForReplacementPods")[0] == "False")
    world.delete("pods", "urgent-too")
    world.until("both run again", lambda: phases(world, "victims") == ["Running"] * 2)
    assert world.get("workloads", "victims")["metadata"]["uid"] == uid
    for name in ("victims-2", "victims-3"):
        world.delete("pods", name)
    world.until("the quota is free", lambda: reserving(world, "ninth") == 0)


def test_a_group_that_is_deleted_while_it_waits_is_gone_with_its_workload(world: World) -> None:
    queue(world, "tenth", one=0)
    world.create(group("early", "tenth"), group("early", "tenth", index=1))
    world.until("it waits", lambda: condition_of(world, "early", "QuotaReserved")[0] == "False")
    for name in ("early-0", "early-1"):
        world.delete("pods", name)
    world.until("its pods are gone", lambda: not members(world, "early"))
    world.until("its Workload too", lambda: gone(world, "workloads", "early"))


def test_the_pods_of_a_deployment_are_queued_one_by_one(world: World) -> None:
    queue(world, "eleventh", one=1, two=1)
    run = pod("unused", labels={"app": "web"})
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {QUEUE: "eleventh", CLASS: "low"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": run["spec"]["containers"]}},
        },
    }

    def told() -> str:
        tried = ("create", "--dry-run=server", "-n", SPACE, "-f", "-")
        return world.plane.kubectl(*tried, stdin=json.dumps(made), check=True).stderr

    world.until("kubectl says that one can never run", lambda: "at most 2 of 3 pods can run" in told())
    world.create(made)

    def mine() -> list[Raw]:
        return [each for each in world.get("pods")["items"] if each["metadata"]["labels"].get("app") == "web"]

    def states() -> list[str]:
        return sorted("gated" if gates(each) else each["status"]["phase"] for each in mine())

    world.until("two run and one waits", lambda: states() == ["Running", "Running", "gated"])
    summary = "Deployment web: 2 of 3 pods are admitted, 1 waits. The first that waits:"
    world.until("it is explained", lambda: world.explain("deployment/web").startswith(summary))
    said = world.explain("deployment/web").splitlines()
    (waits,) = (each["metadata"]["name"] for each in mine() if gates(each))
    assert said[1].startswith(f"{SPACE}/{waits} (Workload pod-{waits}-")
    assert {each["spec"].get("nodeName") for each in mine() if not gates(each)} == {"one-1", "two-1"}
    assert all(each["metadata"]["labels"][CLASS] == "low" for each in mine())
    assert all("finalizers" not in each["metadata"] for each in mine())
    world.patch("deployments", "web", {"spec": {"replicas": 1}})
    world.until("one is left", lambda: len(mine()) == 1)
    world.until("the quota of the others is free", lambda: reserving(world, "eleventh") <= 1)
    world.delete("deployments", "web")
    world.until("its pods are gone", lambda: not mine())
    world.until("the quota is free", lambda: reserving(world, "eleventh") == 0)


def test_a_statefulset_has_one_workload_is_scaled_to_zero_and_starts_again(world: World) -> None:
    queue(world, "twelfth", one=2, preemption={"withinClusterQueue": "LowerPriority"})
    run = pod("unused")
    made = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "store", "labels": {QUEUE: "twelfth", CLASS: "low"}},
        "spec": {
            "replicas": 2,
            "serviceName": "store",
            "selector": {"matchLabels": {"app": "store"}},
            "template": {"metadata": {"labels": {"app": "store"}}, "spec": {"containers": run["spec"]["containers"]}},
        },
    }
    world.create(made)

    def mine() -> list[Raw]:
        return [each for each in world.get("pods")["items"] if each["metadata"]["labels"].get("app") == "store"]

    def states() -> list[str]:
        return sorted("gated" if gates(each) else each["status"]["phase"] for each in mine())

    world.until("both run", lambda: states() == ["Running", "Running"])
    workload = world.workload("store")
    name = workload["metadata"]["name"]
    assert name.startswith("statefulset-store-")
    assert [(each["name"], each["count"]) for each in workload["spec"]["podSets"]] == [("main", 2)]
    assert {each["spec"]["nodeName"] for each in mine()} == {"one-1"}
    world.until("its quota is counted", lambda: reserving(world, "twelfth") == 1)
    more = json.dumps({"spec": {"replicas": 3}})
    scaled = world.plane.kubectl("patch", "statefulset", "store", "-n", SPACE, "--type=merge", "-p", more)
    assert scaled.returncode == 1
    assert "spec.replicas: Invalid value: 3: field is immutable" in scaled.stderr

    world.create(pod("first-come", "twelfth", labels={CLASS: "high"}))
    world.until("the urgent pod runs", lambda: phase(world, "first-come") == "Running")
    world.until(
        "the set waits", lambda: condition_of(world, name, "QuotaReserved")[0] == "False" and "gated" in states()
    )
    world.delete("pods", "first-come")
    world.until("both run again", lambda: states() == ["Running", "Running"])

    world.patch("statefulsets", "store", {"spec": {"replicas": 0}})
    world.until("its pods are gone", lambda: not mine())
    world.until("it is on hold", lambda: condition_of(world, name, "QuotaReserved")[:2] == ("False", "OnHold"))
    assert condition_of(world, name, "QuotaReserved")[2] == "StatefulSet scaled to zero; workload on hold"
    world.until("the quota is free", lambda: reserving(world, "twelfth") == 0)
    world.until("the set has none", lambda: not world.get("statefulsets", "store")["status"].get("replicas"))
    world.patch("statefulsets", "store", {"spec": {"replicas": 2}})
    world.until("both run once more", lambda: states() == ["Running", "Running"])
    world.delete("statefulsets", "store")
    world.until("its pods are gone at the end", lambda: not mine())
    world.until("its Workload too", lambda: gone(world, "workloads", name))
    world.until("all quota is free", lambda: reserving(world, "twelfth") == 0)


def stateful_set(name: str, queue: str, *, replicas: int, **spec: Any) -> Raw:
    container = {"name": "c", "image": "one", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": {QUEUE: queue, CLASS: "low"}},
        "spec": {"replicas": replicas, "serviceName": name, "selector": selector, "template": template, **spec},
    }


def pods_of(world: World, app: str) -> dict[str, Raw]:
    found = world.get("pods")["items"]
    return {each["metadata"]["name"]: each for each in found if each["metadata"]["labels"].get("app") == app}


def states_of(world: World, app: str) -> dict[str, str]:
    return {name: "gated" if gates(each) else each["status"]["phase"] for name, each in pods_of(world, app).items()}


@pytest.mark.parametrize("queued", [True, False], ids=["queued", "without queue"])
def test_a_pod_that_names_the_workload_of_a_statefulset_does_not_take_it(world: World, queued: bool) -> None:
    name = "owned" if queued else "robbed"
    queue(world, name, one=3)
    world.create(stateful_set(name, name, replicas=1))
    world.until("its pod runs", lambda: states_of(world, name) == {f"{name}-0": "Running"})
    found = {each["metadata"]["name"]: each for each in world.get("workloads")["items"]}
    (mine,) = [each for of, each in found.items() if of.startswith(f"statefulset-{name}-")]
    foreign = group(mine["metadata"]["name"], name if queued else "", total=1)
    foreign["metadata"]["name"] = f"foreign-{name}"
    foreign["metadata"]["annotations"]["kueue.x-k8s.io/pod-suspending-parent"] = "statefulset"
    world.create(foreign)
    world.until("it is told", lambda: "WorkloadNameConflict" in world.events("Pod", f"foreign-{name}"))
    world.patch("pods", f"foreign-{name}", {"metadata": {"annotations": {"then": "that"}}})
    after = world.get("workloads", mine["metadata"]["name"])
    assert after["metadata"]["uid"] == mine["metadata"]["uid"]
    assert condition(after, "Admitted")[0] == "True"
    assert gates(world.get("pods", f"foreign-{name}")) != []
    assert states_of(world, name)[f"{name}-0"] == "Running"
    world.delete("pods", f"foreign-{name}")
    world.delete("statefulsets", name)


def test_a_statefulset_that_is_scaled_up_while_it_runs_keeps_its_new_pods_waiting(world: World) -> None:
    queue(world, "scaled", one=9)
    world.create(stateful_set("cache", "scaled", replicas=2, podManagementPolicy="Parallel"))
    run = {"cache-0": "Running", "cache-1": "Running"}
    world.until("both run", lambda: states_of(world, "cache") == run)
    world.plane.kubectl("scale", "statefulset", "cache", "-n", SPACE, "--replicas=4", check=True)
    more = {**run, "cache-2": "gated", "cache-3": "gated"}
    world.until("two wait", lambda: states_of(world, "cache") == more)

    def told() -> list[Raw]:
        found = world.get("events")["items"]
        return [each for each in found if "the quota is for 2 of 4 replicas, 2 pods wait" in each.get("message", "")]

    world.until("the set says why", lambda: bool(told()))
    said = world.explain("statefulset/cache").splitlines()
    assert said[0].startswith("StatefulSet cache: the quota is for 2 of 4 replicas, 2 pods wait: scale it to 2")
    assert said[1].startswith(f"{SPACE}/cache (Workload statefulset-cache-")
    before = {name: each["metadata"]["uid"] for name, each in pods_of(world, "cache").items()}
    world.delete("pods", "cache-0")

    def replaced() -> bool:
        found = pods_of(world, "cache")
        return "cache-0" in found and found["cache-0"]["metadata"]["uid"] != before["cache-0"]

    world.until("it is replaced", replaced)
    world.until("with the quota of the one before", lambda: states_of(world, "cache") == more)
    after = {name: each["metadata"]["uid"] for name, each in pods_of(world, "cache").items()}
    assert {name for name in before if before[name] != after[name]} == {"cache-0"}, "no other pod was deleted"
    world.plane.kubectl("scale", "statefulset", "cache", "-n", SPACE, "--replicas=0", check=True)
    name = world.workload("cache")["metadata"]["name"]
    world.until("it is on hold", lambda: condition_of(world, name, "QuotaReserved")[:2] == ("False", "OnHold"))
    world.plane.kubectl("scale", "statefulset", "cache", "-n", SPACE, "--replicas=4", check=True)
    world.until("all four run", lambda: list(states_of(world, "cache").values()) == ["Running"] * 4)
    world.delete("statefulsets", "cache")
    world.until("its pods are gone", lambda: not pods_of(world, "cache"))


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_a_rolling_update_of_a_statefulset_replaces_its_pods_within_its_quota(world: World, policy: str) -> None:
    app = f"rolling-{policy.lower()}"
    queue(world, app, one=3)
    world.create(stateful_set(app, app, replicas=3, podManagementPolicy=policy))
    world.until("all run", lambda: list(states_of(world, app).values()) == ["Running"] * 3)

    def images() -> list[str]:
        return [each["spec"]["containers"][0]["image"] for _, each in sorted(pods_of(world, app).items())]

    def update(image: str, partition: int) -> None:
        container = {"name": "c", "image": image, "resources": {"requests": {"cpu": "1"}}}
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
        template = {"spec": {"containers": [container]}}
        world.patch("statefulsets", app, {"spec": {"updateStrategy": strategy, "template": template}})

    update("two", partition=2)
    world.until("the last one is replaced", lambda: images() == ["one", "one", "two"])
    world.until("it runs", lambda: list(states_of(world, app).values()) == ["Running"] * 3)
    world.delete("pods", f"{app}-0")
    world.until("one of the old revision is replaced", lambda: images() == ["one", "one", "two"])
    world.until("all run with it", lambda: list(states_of(world, app).values()) == ["Running"] * 3)
    update("two", partition=0)
    world.until("all are replaced", lambda: images() == ["two"] * 3)
    world.until("all of them run", lambda: list(states_of(world, app).values()) == ["Running"] * 3)
    world.until("all are one workload", lambda: reserving(world, app) == 1)
    world.delete("statefulsets", app)
    world.until("its pods are gone", lambda: not pods_of(world, app))


def test_a_statefulset_that_is_updated_while_it_waits_starts_with_the_new_pods(world: World) -> None:
    queue(world, "waiting", one=1)
    world.create(stateful_set("late", "waiting", replicas=2))
    world.until("its first pod waits", lambda: states_of(world, "late") == {"late-0": "gated"})
    world.patch("statefulsets", "late", {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}})
    world.until(
        "its first pod is a new one",
        lambda: [each["metadata"]["annotations"].get("version") for each in pods_of(world, "late").values()] == ["2"],
    )
    assert states_of(world, "late") == {"late-0": "gated"}
    world.patch("clusterqueues", "waiting", {"spec": {"resourceGroups": groups(2, 0)}})
    world.until("both run", lambda: list(states_of(world, "late").values()) == ["Running"] * 2)
    world.delete("statefulsets", "late")
    world.until("its pods are gone", lambda: not pods_of(world, "late"))


@pytest.fixture(scope="module")
def sets(world: World, served: Served, tmp_path_factory: pytest.TempPathFactory) -> World:
    """LeaderWorkerSet, installed after Seiretsu."""
    Operators(world, tmp_path_factory.mktemp("operators")).lws()
    served.wait_for(lambda: any(e["event"] == "served now" for e in served.events), "the sets are watched")
    return world


def leader_worker_set(name: str, queue: str, *, groups: int) -> Raw:
    """A LeaderWorkerSet of groups of a leader and a worker, each of one cpu."""

    def template(role: str) -> Raw:
        container = {"name": role, "image": "none", "resources": {"requests": {"cpu": "1"}}}
        return {"spec": {"containers": [container]}}

    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "labels": {QUEUE: queue, CLASS: "low"}},
        "spec": {
            "replicas": groups,
            "leaderWorkerTemplate": {
                "size": 2,
                "leaderTemplate": template("leader"),
                "workerTemplate": template("worker"),
            },
        },
    }


def test_each_group_of_a_leaderworkerset_is_queued_and_preempted_by_itself(sets: World) -> None:
    world = sets
    queue(world, "thirteenth", one=2, preemption={"withinClusterQueue": "LowerPriority"})
    world.create(leader_worker_set("model", "thirteenth", groups=2))

    def states() -> dict[str, list[str]]:
        """What the pods of each group are doing."""
        found: dict[str, list[str]] = {}
        for each in world.get("pods")["items"]:
            if each["metadata"]["labels"].get(OF_LWS) == "model":
                index = each["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"]
                found.setdefault(index, []).append("gated" if gates(each) else each["status"]["phase"])
        return found

    def workloads() -> dict[str, Raw]:
        items = world.get("workloads")["items"]
        mine = (each for each in items if each["metadata"]["name"].startswith("leaderworkerset-model-"))
        return {each["metadata"]["annotations"]["kueue.x-k8s.io/component-workload-index"]: each for each in mine}

    run, wait = ["Running"] * 2, ["gated"] * 2
    world.until("one group runs and one waits", lambda: sorted(states().values()) == [run, wait])
    found = workloads()
    assert sorted(found) == ["0", "1"]
    said = world.explain("leaderworkerset/model").splitlines()
    assert said[0] == "LeaderWorkerSet model: 1 of 2 groups is admitted, 1 waits. The first that waits:"
    assert said[1].startswith(f"{SPACE}/model group ")
    assert "waiting in ClusterQueue" in said[1]
    assert [(each["name"], each["count"]) for each in found["0"]["spec"]["podSets"]] == [("leader", 1), ("worker", 1)]
    world.patch("clusterqueues", "thirteenth", {"spec": {"resourceGroups": groups(4, 0)}})
    world.until("both run", lambda: states() == {"0": run, "1": run})
    world.patch("leaderworkersets", "model", {"spec": {"replicas": 1}})
    world.until("one is left", lambda: states() == {"0": run} and sorted(workloads()) == ["0"])
    world.until("the quota of the other is free", lambda: reserving(world, "thirteenth") == 1)
    world.patch("clusterqueues", "thirteenth", {"spec": {"resourceGroups": groups(2, 0)}})
    world.create(pod("first-of-all", "thirteenth", labels={CLASS: "high"}))
    world.until("the urgent pod runs", lambda: phase(world, "first-of-all") == "Running")
    world.until("the group waits", lambda: states() == {"0": wait})
    world.delete("pods", "first-of-all")
    world.until("the group runs again", lambda: states() == {"0": run})
    world.delete("leaderworkersets", "model")
    world.until("its pods are gone", lambda: not states())
    world.until("its Workloads too", lambda: not workloads())
    world.until("the quota is free", lambda: reserving(world, "thirteenth") == 0)


def test_a_rolling_update_of_a_leaderworkerset_replaces_running_and_waiting_groups(sets: World) -> None:
    world = sets
    queue(world, "rolling-groups", one=6)
    made = leader_worker_set("roll", "rolling-groups", groups=3)
    made["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": {"maxUnavailable": 2}}
    world.create(made)

    def states() -> list[tuple[str, list[str], list[str]]]:
        """Of each group what its pods do, and their images."""
        found: dict[str, list[Raw]] = {}
        for each in world.get("pods")["items"]:
            if each["metadata"]["labels"].get(OF_LWS) == "roll":
                index = each["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"]
                found.setdefault(index, []).append(each)
        return [
            (
                index,
                sorted("gated" if gates(each) else each["status"]["phase"] for each in pods),
                sorted({each["spec"]["containers"][0]["image"] for each in pods}),
            )
            for index, pods in sorted(found.items())
        ]

    def workload_of(index: str) -> str:
        names = [str(each["metadata"]["name"]) for each in world.get("workloads")["items"]]
        return next(each for each in names if each.startswith(f"leaderworkerset-roll-{index}-"))

    def does(index: str, image: str, what: str) -> bool:
        return (index, [what] * 2, [image]) in states()

    world.until("all run", lambda: all(does(index, "none", "Running") for index in "012"))
    world.patch("workloads", workload_of("0"), {"spec": {"active": False}})
    world.until("one of them waits", lambda: does("0", "none", "gated"))
    templates = made["spec"]["leaderWorkerTemplate"]
    for template in ("leaderTemplate", "workerTemplate"):
        templates[template]["spec"]["containers"][0]["image"] = "two"
    world.patch("leaderworkersets", "roll", {"spec": {"leaderWorkerTemplate": templates}})
    world.until("running groups are replaced", lambda: all(does(index, "two", "Running") for index in "12"))
    world.until("and the one that waits", lambda: does("0", "two", "gated"))
    world.until("two hold quota", lambda: reserving(world, "rolling-groups") == 2)
    world.patch("workloads", workload_of("0"), {"spec": {"active": True}})
    world.until("it runs too", lambda: does("0", "two", "Running"))
    world.delete("leaderworkersets", "roll")
    world.until("its pods are gone", lambda: not states())


PAGES = Path(__file__).parents[2] / "docs" / "kinds"


@pytest.mark.parametrize("page", ["pod", "pod-group", "deployment", "statefulset", "leaderworkerset"])
def test_the_manifest_of_a_page_works_as_written(sets: World, page: str) -> None:
    world = sets
    if not world.get("localqueues", "main"):
        quota = [{"name": "cpu", "nominalQuota": 2}, {"name": "memory", "nominalQuota": "1Gi"}]
        covered = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "one", "resources": quota}]}
        fields = {"namespaceSelector": {}, "resourceGroups": [covered]}
        world.create(ours("ClusterQueue", "main", fields), local_queue("main", "main"))
    (shown,) = re.findall(r"```yaml\n(.*?)```", (PAGES / f"{page}.md").read_text(), re.DOTALL)
    objects = list(yaml.safe_load_all(shown))
    sizes = (each["spec"].get("leaderWorkerTemplate", {}).get("size", 1) for each in objects)
    expected = sum(each["spec"].get("replicas", 1) * size for each, size in zip(objects, sizes, strict=True))
    before = {each["metadata"]["name"] for each in world.get("pods")["items"]}
    world.plane.kubectl("apply", "-n", SPACE, "-f", "-", stdin=shown, check=True)

    def mine() -> list[Raw]:
        return [each for each in world.get("pods")["items"] if each["metadata"]["name"] not in before]

    world.until("its pods run", lambda: [each["status"]["phase"] for each in mine()] == ["Running"] * expected)
    assert {each["spec"]["nodeName"] for each in mine()} == {"one-1"}
    assert not any(gates(each) for each in mine())
    world.plane.kubectl("delete", "-n", SPACE, "-f", "-", stdin=shown, check=True)
    world.until("its pods are gone", lambda: not mine())
    world.until("the quota is free", lambda: reserving(world, "main") == 0)


def test_a_tenants_pod_below_an_admitted_job_needs_its_own_quota(world: World, tmp_path: Path) -> None:
    kubeconfig = str(tenant(world.plane, SPACE, tmp_path))

    def by_tenant(*arguments: str, made: Raw | None = None) -> str:
        """What kubectl prints besides the result."""
        stdin = json.dumps(made) if made else None
        return world.plane.kubectl(*arguments, "-n", SPACE, "--kubeconfig", kubeconfig, stdin=stdin).stderr

    queue(world, "believed", one=1)
    world.create(job("above", "believed", cpu=1, pods=1, seconds=600))
    world.until("it runs", lambda: "above" in world.running())
    uid = world.jobs()["above"]["metadata"]["uid"]
    below = pod("below", "believed")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "above", "uid": uid, "controller": True}
    below["metadata"]["ownerReferences"] = [owner]
    world.until("the role is in force", lambda: "controller of Job above" in by_tenant("create", "-f", "-", made=below))
    made = world.get("pods", "below")
    assert GATE in gates(made)
    world.until("it waits for quota", lambda: world.condition("below", "QuotaReserved")[0] == "False")
    ungate = '[{"op":"remove","path":"/spec/schedulingGates"}]'
    assert "the pod waits for quota" in by_tenant("patch", "pod", "below", "--type=json", "-p", ungate)
    owned = json.dumps({"metadata": {"ownerReferences": [owner]}})
    assert "only the controller of an owner" in by_tenant("patch", "pod", "below", "--type=merge", "-p", owned)
    for change in ("role-hash=zzz", "pod-group-total-count=9", "pod-group-fast-admission=true"):
        told = by_tenant("annotate", "pod", "below", "--overwrite", f"kueue.x-k8s.io/{change}")
        assert "quota is counted by it" in told
    unheld = '{"metadata":{"finalizers":null}}'
    assert by_tenant("label", "pod", "below", "mine=yes") == ""
    assert "finalizer is removed" in by_tenant("patch", "pod", "below", "--type=merge", "-p", unheld)
    world.delete("jobs", "above")
    world.until("it goes with the Job", lambda: not world.get("pods", "below"))
