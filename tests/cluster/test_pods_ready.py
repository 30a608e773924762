"""waitForPodsReady and retention on the real control plane, with times so short that a test can wait for them.

Pods that never come up are those of a Job that wants a node there is not.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster.controlplane import ControlPlane
from tests.cluster.world import Raw, World, done, job
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady:
  timeout: 4s
  recoveryTimeout: 1s
  blockAdmission: true
  requeuingStrategy: {timestamp: Eviction, backoffLimitCount: 1, backoffBaseSeconds: 1, backoffMaxSeconds: 2}
objectRetentionPolicies:
  workloads: {afterFinished: 1s, afterDeactivatedByKueue: 1s}
"""
WAITING = "waiting for all admitted workloads to be in PodsReady condition"
NODE_LABEL = "seiretsu.dev/of-the-test"


@pytest.fixture(scope="module")
def served(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("short")
    (directory / "configuration.yaml").write_text(CONFIGURATION)
    with serving(cluster.kubeconfig, directory, "--config", str(directory / "configuration.yaml")) as process:
        process.ready()
        yield process


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


def requeue_state(world: World, name: str) -> Raw:
    found: Raw = world.workload(name).get("status", {}).get("requeueState") or {}
    return found


def test_pods_that_do_not_come_up_cost_their_job_its_quota_then_its_activity_and_in_the_end_it_is_deleted(
    world: World,
) -> None:
    world.queue("team", 1)
    world.create(wants_a_node("stuck", "team", "nowhere"))
    world.until("it runs", lambda: world.running() == {"stuck"})
    waits = ("False", "WaitForStart", "Not all pods are ready or succeeded")
    assert world.told("stuck", "PodsReady") == waits
    world.until("it is put off", lambda: requeue_state(world, "stuck").get("count") == 1)
    key = f"{world.namespace}/{world.workload('stuck')['metadata']['name']}"
    message = f"Exceeded the PodsReady timeout {key}"
    assert world.told("stuck", "Evicted") == ("True", "PodsReadyTimeout", message)
    assert "requeueAt" in requeue_state(world, "stuck")
    evictions = [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1}]
    assert world.workload("stuck")["status"]["schedulingStats"]["evictions"] == evictions
    world.until("it has its turn again", lambda: world.reason("stuck", "Evicted") == "False/QuotaReserved")
    assert world.told("stuck", "Requeued") == ("True", "BackoffFinished", "The workload backoff was finished")
    assert requeue_state(world, "stuck") == {"count": 1}
    world.until("that was once too often", lambda: world.workload("stuck")["spec"]["active"] is False)
    cause, message = "RequeuingLimitExceeded", "exceeding the maximum number of re-queuing retries"
    world.until("it has stopped", lambda: not world.running())
    told = ("True", f"DeactivatedDueTo{cause}", f"The workload is deactivated due to {message}")
    assert world.told("stuck", "Evicted") in (told, ("", "", "")), "its retention may be over by now"
    world.until("it is deleted", lambda: not world.jobs() and not world.workloads())
    world.until("people are told", lambda: "Deleted" in world.events("Job", "stuck"))


def test_while_pods_are_awaited_nobody_else_is_let_in_and_who_was_evicted_goes_to_the_end_of_the_line(
    world: World,
) -> None:
    world.queue("team", 3)
    for name in ("first", "second", "third"):
        world.create(wants_a_node(name, "team", "nowhere"))
        world.outlive_second_of(name)
    turns: list[str] = []
    told: set[tuple[str, str, str]] = set()

    def everyone_had_a_turn() -> bool:
        running = sorted(world.running())
        assert len(running) <= 1, f"{running} run, and none of them is ready"
        if running != turns[-1:]:
            turns.extend(running)
        told.update(world.told(name, "QuotaReserved") for name in ("second", "third"))
        return "third" in turns and turns[-1] != "third"

    world.until("everyone had a turn", everyone_had_a_turn)
    assert turns[-3:] == ["second", "third", "first"]
    assert ("False", "WaitingForPodsReady", WAITING) in told
    assert requeue_state(world, "first") == {"count": 1}


def test_pods_that_were_ready_have_their_own_time_to_recover(world: World) -> None:
    world.queue("team", 1)
    world.plane.kubectl("label", "node", "node-1", f"{NODE_LABEL}={world.namespace}", "--overwrite", check=True)
    world.create(wants_a_node("job", "team", world.namespace))
    world.until("its pod is ready", lambda: world.reason("job", "PodsReady") == "True/Started")
    world.plane.kubectl("label", "node", "node-1", f"{NODE_LABEL}-", check=True)
    world.plane.kubectl("delete", "pods", "--all", "-n", world.namespace, "--wait=false", check=True)
    world.until("the time to recover is over", lambda: requeue_state(world, "job").get("count") == 1)
    evictions = [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForRecovery", "count": 1}]
    assert world.workload("job")["status"]["schedulingStats"]["evictions"] == evictions
    world.until("it was stopped", lambda: world.reason("job", "Requeued") == "False/PodsReadyTimeout")


def test_a_finished_workload_is_deleted_after_its_retention_and_its_job_stays(world: World) -> None:
    world.queue("team", 1)
    world.job("job", "team", seconds=0.1)
    world.until("it is done", lambda: done(world.jobs()["job"]))
    world.until("its Workload goes", lambda: not world.workloads())
    assert done(world.jobs()["job"])
    world.until("people are told", lambda: "Deleted" in {item["reason"] for item in world.get("events")["items"]})
