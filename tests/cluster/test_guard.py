"""Pods that run without quota are stopped, whichever way they came to run: here by writes of an account that admission
does not judge, because every way that a tenant has is closed elsewhere (``test_escapes.py``).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.model import Raw
from tests.cluster.world import World
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
