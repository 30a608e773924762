"""Pods that run without quota are stopped, whichever way they came to run: by writes of an account that admission does
not judge, because every way that a tenant has is closed elsewhere (``test_escapes.py``), and by pods that terminate.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.model import Raw
from tests.cluster.world import World, job
from tests.serving import AS_US

pytestmark = [pytest.mark.cluster, pytest.mark.exceeds]

WITHOUT_QUOTA = "Pods run without quota"


def pods(world: World) -> list[Raw]:
    """The pods that run or wait, and are not being deleted."""
    found = world.get("pods").get("items", [])
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def on_nodes(world: World) -> list[str]:
    """The names of those on nodes that have not ended."""
    ended = ("Succeeded", "Failed")
    found = [each for each in pods(world) if each["spec"].get("nodeName") and each["status"].get("phase") not in ended]
    return sorted(each["metadata"]["name"] for each in found)


def by_us(world: World, name: str, change: Any, kind: str = "merge") -> None:
    """Changes a pod with the account of our controller, unless it is gone."""
    patch = ("patch", "pod", name, f"--type={kind}", "-p", json.dumps(change), "-n", world.namespace)
    world.plane.kubectl(*patch, *AS_US)


def told(world: World) -> list[tuple[str, str]]:
    """What the guard said: the kind of the object and the reason of the event."""
    found = world.get("events").get("items", [])
    ours = [each for each in found if each["message"].startswith(WITHOUT_QUOTA)]
    return sorted({(each["involvedObject"]["kind"], each["reason"]) for each in ours})


def test_pods_of_an_elastic_job_that_lost_their_gates_stop_their_job(world: World) -> None:
    world.queue("team", 2)
    found: Raw = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "grown",
            "labels": {"kueue.x-k8s.io/queue-name": "team"},
            "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
        },
        "spec": {
            "parallelism": 1,
            "completions": 20,
            "template": {
                "metadata": {"annotations": {"seiretsu.dev/run-for": "600s"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
                },
            },
        },
    }
    world.create(found)
    world.until("its pod runs", lambda: len(on_nodes(world)) == 1)
    world.patch("jobs", "grown", {"spec": {"parallelism": 5}})
    world.until("others wait", lambda: len(pods(world)) == 5)
    for each in pods(world):
        if each["spec"].get("schedulingGates"):
            by_us(world, each["metadata"]["name"], [{"op": "remove", "path": "/spec/schedulingGates"}], "json")

    world.until("the job is stopped", lambda: ("Workload", "EvictedDueToPodsWithoutQuota") in told(world))
    world.until("no pod runs", lambda: not on_nodes(world))


def test_a_pod_that_was_taken_from_its_job_is_deleted_and_its_job_runs_on(world: World) -> None:
    world.queue("team", 4)
    world.job("kept", "team", pods=1, seconds=600)
    world.until("its pod runs", lambda: len(on_nodes(world)) == 1)
    (first,) = on_nodes(world)
    labels = {
        "batch.kubernetes.io/controller-uid": None,
        "controller-uid": None,
        "job-name": None,
        "batch.kubernetes.io/job-name": None,
    }
    by_us(world, first, {"metadata": {"labels": labels}})

    world.until("another has its place", lambda: on_nodes(world) not in ([], [first]) and first not in on_nodes(world))
    assert len(on_nodes(world)) == 1
    world.until("it was reported", lambda: told(world) == [("Pod", "RunsWithoutQuota")])
    assert world.condition("kept", "Evicted") == ("", "", "")


def kubectl(world: World, *arguments: str) -> None:
    """Everybody with the role `edit` may do this."""
    world.plane.kubectl(*arguments, "-n", world.namespace, check=True)


def names(world: World) -> list[str]:
    """All pods, whatever their state."""
    return [each["metadata"]["name"] for each in world.get("pods").get("items", [])]


def slow(name: str) -> Raw:
    """A Job of one pod that ignores SIGTERM, with an hour to terminate."""
    found = job(name, "team", cpu=1, pods=1, seconds=600)
    template = found["spec"]["template"]
    template["metadata"]["annotations"]["seiretsu.dev/ignores-sigterm"] = "true"
    template["spec"]["terminationGracePeriodSeconds"] = 3600
    return found


def test_a_pod_that_terminates_slowly_does_not_run_beside_the_one_that_replaces_it(world: World) -> None:
    world.queue("team", 1)
    loops = slow("loops")
    loops["spec"] |= {"completionMode": "Indexed", "backoffLimitPerIndex": 100}  # it is replaced after 10 s
    world.create(loops)
    world.until("it runs", lambda: on_nodes(world))
    (first,) = on_nodes(world)
    before = world.version("pods")
    kubectl(world, "delete", "pod", first, "--wait=false")
    states = world.seen("pods", before, lambda found: "deletionTimestamp" in found["metadata"])
    assert {each["metadata"]["name"] for each in states} == {first}, "it terminates before another one is created"
    world.until("another one has its place", lambda: on_nodes(world))
    world.until("the first one is gone", lambda: first not in names(world))
    world.until("it was reported", lambda: told(world) == [("Pod", "RunsWithoutQuota")])
    assert world.condition("loops", "Evicted") == ("", "", "")


def test_pods_that_were_taken_from_a_stopped_job_hold_its_quota(world: World) -> None:
    world.queue("team", 1)
    found = slow("sly")
    found["spec"] |= {"manualSelector": True, "selector": {"matchLabels": {"mine": "yes"}}}
    found["spec"]["template"]["metadata"]["labels"] = {"mine": "yes"}
    world.create(found)
    world.until("it runs", lambda: on_nodes(world))
    (first,) = on_nodes(world)
    world.until("its quota is counted", lambda: world.used("team")[0] == "1")
    before = world.version("jobs")
    world.patch("jobs", "sly", {"spec": {"suspend": True}})
    world.until("its pod terminates", lambda: pods(world) == [])
    kubectl(world, "label", "pod", first, "mine-")
    world.until("its status counts none", lambda: world.jobs()["sly"]["status"].get("terminating") == 0)
    kubectl(world, "annotate", "job", "sly", "then=that")
    states = world.seen("jobs", before, lambda found: "then" in found["metadata"].get("annotations", {}))
    assert all(state["spec"]["suspend"] for state in states) and world.used("team")[0] == "1"
    kubectl(world, "delete", "pod", first, "--force", "--grace-period=0")
    world.until("it runs again when that is gone", lambda: on_nodes(world) not in ([], [first]))


def test_a_pod_that_is_resized_stops_its_job(world: World) -> None:
    """KubeRay gives the right to do so to the accounts of its autoscalers, in the namespaces of their clusters."""
    world.queue("team", 2)
    world.job("larger", "team", pods=1, seconds=600)
    world.until("its pod runs", lambda: len(on_nodes(world)) == 1)
    (name,) = on_nodes(world)
    (status,) = world.until("its kubelet shows it", lambda: world.get("pods", name)["status"]["containerStatuses"])
    by_kubelet = {**status, "resources": {"requests": {"cpu": "1"}}}  # which shows that it can resize the pod
    world.patch("pods", name, {"status": {"containerStatuses": [by_kubelet]}}, subresource="status")
    larger = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}
    kubectl(world, "patch", "pod", name, "--subresource=resize", "-p", json.dumps(larger))

    world.until("the job is stopped", lambda: ("Workload", "EvictedDueToPodsWithoutQuota") in told(world))
