"""`seiretsu.client` and the programs of examples/python, with the official client's configuration."""

from __future__ import annotations

import json

import pytest
from kubernetes import client, config

from devcluster.controlplane import ControlPlane
from seiretsu.client import ApiError, Phase, Queue, State, WaitTimeoutError
from tests.cluster.world import World, job
from tests.eventually import PATIENCE

pytestmark = pytest.mark.cluster


def queue(plane: ControlPlane, world: World, name: str) -> Queue:
    configuration = client.Configuration()
    config.load_kube_config(str(plane.kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
    return Queue.of(configuration, name, world.namespace)


def test_a_job_is_submitted_waits_with_its_reason_starts_and_ends(cluster: ControlPlane, world: World) -> None:
    world.queue("team", 1)
    mine = queue(cluster, world, "team")
    first = mine.submit(job("first", "", cpu=1, pods=1, seconds=600))
    assert first.wait(Phase.RUNNING, timeout=PATIENCE).cluster_queue == world.full("team")
    second = mine.submit(job("second", "", cpu=1, pods=1, seconds=600))
    world.until("it waits", lambda: world.reason("second", "QuotaReserved") == "False/WaitingForQuota")
    told: list[State] = []
    with pytest.raises(WaitTimeoutError, match="waiting: couldn't assign flavors to pod set main") as late:
        second.wait(Phase.RUNNING, timeout=5, progress=told.append)
    assert late.value.state == told[-1]
    assert "insufficient unused quota for cpu" in second.why()
    first.delete()
    second.wait(Phase.RUNNING, timeout=PATIENCE, progress=told.append)
    world.complete("second")
    ended = second.wait(timeout=PATIENCE, progress=told.append)
    assert ended.phase is Phase.SUCCEEDED
    phases = [state.phase for state in told]
    assert phases[-2:] == [Phase.RUNNING, Phase.SUCCEEDED]
    assert len(set(told)) >= 3
    assert mine.find("second").state() == ended


def test_what_cannot_work_is_told_at_once(cluster: ControlPlane, world: World) -> None:
    world.queue("team", 2)
    big = queue(cluster, world, "team").submit(job("big", "", cpu=20, pods=1, seconds=1))
    assert any("never starts: asks for 20 cpu" in warning for warning in big.warnings)
    lost = queue(cluster, world, "taem").submit(job("lost", "", cpu=1, pods=1, seconds=1))
    assert any('did you mean "team"?' in warning for warning in lost.warnings)
    world.until("it is said later, too", lambda: 'did you mean "team"?' in lost.why())
    with pytest.raises(ApiError) as refused:
        queue(cluster, world, "team").submit(job("big", "", cpu=1, pods=1, seconds=1))
    assert (refused.value.status, refused.value.reason) == (409, "AlreadyExists")
    with pytest.raises(ApiError, match="the cluster has no kind Jib in batch/v1"):
        queue(cluster, world, "team").submit({"apiVersion": "batch/v1", "kind": "Jib", "metadata": {"name": "a"}})


def test_why_pods_of_an_admitted_job_are_not_made_is_told(cluster: ControlPlane, world: World) -> None:
    small = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "1"}},
    }
    world.plane.kubectl("apply", "-n", world.namespace, "-f", "-", stdin=json.dumps(small), check=True)
    world.queue("team", 2)
    found = queue(cluster, world, "team").submit(job("pair", "", cpu=1, pods=2, seconds=600))
    refused = "FailedCreate: 1 of 2 pods exist, and the next is refused: a pod is forbidden: exceeded quota: small"
    world.until("it is told, and the first pod counts", lambda: refused in found.why())
    running = found.running()
    assert running is not None
    assert running.wanted == 2


def test_the_wait_is_estimated_from_others_of_the_queue(cluster: ControlPlane, world: World) -> None:
    world.queue("team", 1)
    mine = queue(cluster, world, "team")
    earlier = [mine.submit(job(f"earlier-{number}", "", cpu=1, pods=1, seconds=1)) for number in range(8)]
    assert earlier[0].estimate() is None, "nothing is known yet"
    for each in earlier:
        each.wait(timeout=PATIENCE)
    holds = mine.submit(job("holds", "", cpu=1, pods=1, seconds=600))
    holds.wait(Phase.RUNNING, timeout=PATIENCE)
    assert holds.estimate() is None, "it does not wait"
    waits = mine.submit(job("waits", "", cpu=1, pods=1, seconds=1))
    waits.wait(Phase.WAITING, timeout=PATIENCE)
    found = waits.estimate()
    assert found is not None
    assert found.median >= 0
    assert found.p90 is None or found.median <= found.p90


@pytest.mark.parametrize("program", ["submit.py", "official_client.py"])
def test_the_examples_run_as_they_are(world: World, program: str) -> None:
    world.queue("main", 4)
    assert "succeeded" in world.example(program)
