"""Admission fair sharing from end to end: what LocalQueues used is sampled, fades, outlives us, decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from api import quantity
from devcluster.controlplane import ControlPlane
from tests.cluster.world import World, local_queue
from tests.serving import serving

pytestmark = pytest.mark.cluster

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
admissionFairSharing: {usageHalfLifeTime: 8s, usageSamplingInterval: 1s}
"""


def consumed(world: World, queue: str) -> float:
    """The cpu that a LocalQueue's status says it has consumed."""
    shown = world.get("localqueues", queue).get("status", {}).get("fairSharing", {})
    amounts = shown.get("admissionFairSharingStatus", {}).get("consumedResources", {})
    return float(quantity.exact(amounts.get("cpu", "0")))


def test_the_queue_that_used_less_goes_first_also_after_a_restart(
    unserved: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "configuration.yaml").write_text(CONFIGURATION)
    options = ("--config", str(tmp_path / "configuration.yaml"))
    world = World(unserved, namespace)
    with serving(unserved.kubeconfig, tmp_path, *options) as process:
        process.ready()
        world.flavor()
        scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        world.queue("hungry", 4, admissionScope=scope)
        world.create(local_queue("modest", world.full("hungry")))
        world.job("first", "hungry", cpu=4, seconds=600)
        world.until("it runs", lambda: world.running() == {"first"})
        entry = world.until("its admission counts", lambda: consumed(world, "hungry"))
        world.until("what runs adds to it", lambda: consumed(world, "hungry") > entry)
        assert consumed(world, "modest") == 0
        world.delete("jobs", "first")
        world.until("its quota is free", lambda: world.status("hungry").get("reservingWorkloads") == 0)
        most = consumed(world, "hungry")
        world.until("it fades", lambda: 0 < consumed(world, "hungry") < most)
        world.patch("clusterqueues", world.full("hungry"), {"spec": {"stopPolicy": "Hold"}})
        world.until("the queue is not active", lambda: world.active("hungry")[0] == "False")
    with serving(unserved.kubeconfig, tmp_path, *options) as process:
        process.ready()
        world.job("earlier", "hungry", cpu=4, seconds=600)
        world.until("it waits", lambda: world.workload("earlier"))
        world.job("later", "modest", cpu=4, seconds=600)
        world.until("so does the other", lambda: world.workload("later"))
        assert consumed(world, "hungry") > 0
        world.patch("clusterqueues", world.full("hungry"), {"spec": {"stopPolicy": "None"}})
        assert world.until("one of them runs", world.running) == {"later"}
        world.plane.kubectl("delete", "jobs", "--all", "-n", namespace, check=True)
        world.until("nothing is left", lambda: not world.workloads())
