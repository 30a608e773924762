"""waitForPodsReady and retention on the real control plane, with times so short that a test can wait for them.

Pods that never come up are those of a Job that wants a node there is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from api.objects import Raw
from devcluster.controlplane import ControlPlane
from tests.cluster.world import World, condition, done, holds, job, marked_until
from tests.eventually import until
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady:
  timeout: START
  recoveryTimeout: 1s
  blockAdmission: BLOCK
  requeuingStrategy: {timestamp: TIMESTAMP, backoffLimitCount: 1, backoffBaseSeconds: 1, backoffMaxSeconds: 2}
objectRetentionPolicies:
  workloads: {afterFinished: 1s, afterDeactivatedByKueue: 1s}
"""
SHORT = {"START": "4s", "TIMESTAMP": "Eviction", "BLOCK": "true"}
ENOUGH_TO_START = {"START": "10m"}
BY_CREATION = {"TIMESTAMP": "Creation", "BLOCK": "false"}
"""A head that waits only for the pods of others keeps its place, whatever the timestamp: so it does not."""
WAITING = "waiting for all admitted workloads to be in PodsReady condition"
RESERVED = "QuotaReserved"
NODE_LABEL = "seiretsu.dev/of-the-test"


@pytest.fixture(scope="module")
def served(
    unserved: ControlPlane, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Served]:
    """`seiretsu serve` with short times that orders who was put off by the time of the eviction; the test's parameter
    changes either.
    """
    directory = tmp_path_factory.mktemp("short")
    configuration = CONFIGURATION
    for name, value in (SHORT | getattr(request, "param", {})).items():
        configuration = configuration.replace(name, value)
    (directory / "configuration.yaml").write_text(configuration)
    with serving(unserved.kubeconfig, directory, "--config", str(directory / "configuration.yaml")) as process:
        process.ready()
        nothing_else_runs(unserved)
        yield process


def nothing_else_runs(plane: ControlPlane) -> None:
    """Delete what other modules have left: until its pods are ready, nothing is admitted. Pods that have an hour to
    terminate hold the quota of their Workload that long: they are deleted by force.
    """
    everywhere = ("--all", "--all-namespaces", "--wait=false")
    plane.kubectl("delete", "deployments,statefulsets,jobs", *everywhere, check=True)
    plane.kubectl("delete", "pods", *everywhere, "--force", "--grace-period=0", check=True)

    def left() -> list[str]:
        found = plane.administrator.get("/apis/kueue.x-k8s.io/v1beta2/workloads") or {}
        living = (each for each in found.get("items", []) if not holds(each, "Finished"))
        return [_named(each) for each in living if holds(each, "QuotaReserved")]

    until(lambda: not left(), lambda: f"no Workload of another module holds quota, but these do: {left()}")


def _named(workload: Raw) -> str:
    """The Workload and its owners: which module has left it, and what did not let go."""
    meta = workload["metadata"]
    owners = [f"{each['kind']} {each['name']}" for each in meta.get("ownerReferences", [])]
    deleted = " (deleted)" if "deletionTimestamp" in meta else ""
    return f"{meta['namespace']}/{meta['name']}{deleted} of {owners}"


@pytest.fixture
def world(world: World) -> Iterator[World]:
    """Without Jobs at the end: one whose pods are not ready would hold up the next test's."""
    yield world
    world.plane.kubectl("delete", "jobs", "--all", "-n", world.namespace, check=True)
    world.until("nothing is left", lambda: not world.workloads())


def wants_a_node(name: str, queue: str, value: str) -> Raw:
    found = job(name, queue, cpu=1, pods=1, seconds=600)
    found["spec"]["template"]["spec"]["nodeSelector"] = {NODE_LABEL: value}
    return found


def warned(world: World, made: Raw) -> str:
    """What kubectl says of a Job as it is created; it is not."""
    text = json.dumps(made)
    return world.plane.kubectl("create", "-n", world.namespace, "-f", "-", "--dry-run=server", stdin=text).stderr


def requeue_state(workload: Raw) -> Raw:
    found: Raw = workload.get("status", {}).get("requeueState") or {}
    return found


def test_pods_that_do_not_come_up_cost_their_job_its_quota_then_its_activity_and_in_the_end_it_is_deleted(
    world: World,
) -> None:
    world.queue("team", 1)
    before = world.version("workloads")
    world.create(wants_a_node("stuck", "team", "nowhere"))
    world.until("it runs", lambda: world.running() == {"stuck"})

    states = world.seen("workloads", before, lambda it: requeue_state(it).get("count") == 1)
    waits = ("False", "WaitForStart", "Not all pods are ready or succeeded")
    assert waits in [condition(state, "PodsReady") for state in states]
    put_off = states[-1]
    message = f"Exceeded the PodsReady timeout {world.namespace}/{put_off['metadata']['name']}"
    assert condition(put_off, "Evicted") == ("True", "PodsReadyTimeout", message)
    assert "requeueAt" in requeue_state(put_off)
    evictions = [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1}]
    assert put_off["status"]["schedulingStats"]["evictions"] == evictions

    since = put_off["metadata"]["resourceVersion"]
    again = world.seen("workloads", since, lambda it: condition(it, "Evicted")[:2] == ("False", "QuotaReserved"))[-1]
    assert condition(again, "Requeued") == ("True", "BackoffFinished", "The workload backoff was finished")
    assert requeue_state(again) == {"count": 1}
    world.until("the limit is exceeded and the Job is deleted", lambda: not world.jobs() and not world.workloads())
    cause, message = "RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries"
    evicted = ("True", f"DeactivatedDueTo{cause}", f"The workload is deactivated due to {message}")
    assert marked_until(world, before, evicted) == (cause, message)
    world.until("an event on the Job has the reason", lambda: "Deleted" in world.events("Job", "stuck"))


def test_while_pods_are_awaited_no_workload_is_admitted_and_an_evicted_one_goes_to_the_end_of_its_queue(
    world: World,
) -> None:
    before = world.version("workloads")
    assert until_the_first_has_its_second_turn(world) == ["first", "second", "third", "first"]
    waits = ("False", "WaitingForPodsReady", WAITING)
    third = world.workload("third")["metadata"]["name"]
    world.seen("workloads", before, lambda it: it["metadata"]["name"] == third and condition(it, RESERVED) == waits)


def until_the_first_has_its_second_turn(world: World, quota: int = 3) -> list[str]:
    """The order in which three Jobs whose pods never become ready were admitted; never two at a time."""
    world.queue("team", quota, stopPolicy="Hold")
    before = world.version("jobs")
    for name in ("first", "second", "third"):
        world.create(wants_a_node(name, "team", "nowhere"))
        world.outlive_second_of(name)
    world.patch("clusterqueues", world.full("team"), {"spec": {"stopPolicy": "None"}})
    turns: list[str] = []
    running = ""

    def again(found: Raw) -> bool:
        nonlocal running
        name, suspended = found["metadata"]["name"], found["spec"]["suspend"]
        if not suspended and running != name:
            assert not running, f"{name} starts while {running} runs, and none of them is ready"
            turns.append(name)
        if not suspended or running == name:
            running = "" if suspended else name
        return turns.count("first") == 2

    world.seen("jobs", before, again)
    return turns


def test_a_new_workload_says_that_it_waits_for_the_pods_of_others(world: World) -> None:
    world.queue("team", 3)
    world.create(wants_a_node("first", "team", "nowhere"))
    text = "Warning: will wait until the pods of 1 workload are ready (waitForPodsReady.blockAdmission); see job-first-"
    world.until(
        "kubectl prints the warning",
        lambda: warned(world, job("next", "team", cpu=1, pods=1, seconds=1)).startswith(text),
    )


def test_a_finished_workload_is_deleted_after_its_retention_and_its_job_stays(world: World) -> None:
    world.queue("team", 1)
    world.job("job", "team", seconds=0.1)
    world.until("it is complete", lambda: done(world.jobs()["job"]))
    world.until("its Workload is deleted", lambda: not world.workloads())
    assert done(world.jobs()["job"])
    world.until(
        "an event has the reason", lambda: "Deleted" in {item["reason"] for item in world.get("events")["items"]}
    )


@pytest.mark.parametrize("served", [BY_CREATION], indirect=True)
def test_ordered_by_creation_an_evicted_workload_precedes_later_ones(served: Served, world: World) -> None:
    """At the end of this file: its process is another one, with another Configuration, and so is that of the next."""
    assert until_the_first_has_its_second_turn(world, quota=1) == ["first", "second", "first"]
    assert world.reason("third", RESERVED) == "False/WaitingForQuota"


@pytest.mark.parametrize("served", [ENOUGH_TO_START], indirect=True)
def test_pods_that_were_ready_have_their_own_time_to_recover(served: Served, world: World) -> None:
    world.queue("team", 1)
    world.plane.kubectl("label", "node", "node-1", f"{NODE_LABEL}={world.namespace}", "--overwrite", check=True)
    world.create(wants_a_node("job", "team", world.namespace))
    world.until("its pod is ready", lambda: world.reason("job", "PodsReady") == "True/Started")
    before = world.version("workloads")
    world.plane.kubectl("label", "node", "node-1", f"{NODE_LABEL}-", check=True)
    world.plane.kubectl("delete", "pods", "--all", "-n", world.namespace, "--wait=false", check=True)
    states = world.seen("workloads", before, lambda it: condition(it, "Requeued")[:2] == ("False", "PodsReadyTimeout"))
    put_off = next(state for state in states if requeue_state(state).get("count") == 1)
    evictions = [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForRecovery", "count": 1}]
    assert put_off["status"]["schedulingStats"]["evictions"] == evictions
