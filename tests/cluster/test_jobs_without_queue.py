"""Seed 0, slide 56: `manageJobsWithoutQueueName`, as the comment on the slide describes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devcluster.controlplane import ControlPlane
from tests.cluster.world import World, job
from tests.serving import Service, serving

pytestmark = pytest.mark.cluster

MANAGED = "manageJobsWithoutQueueName: true\n"


def test_seed_0_slide_56_jobs_without_a_queue_wait_where_all_are_managed(
    unserved: ControlPlane, service: Service, namespace: str, tmp_path: Path
) -> None:
    """Suspended and never started unless they are given a queue and admitted; also those that were there before us.

    By default they are not ours, and start at once.
    """
    (tmp_path / "config.yaml").write_text(MANAGED)
    plane, world = unserved, World(unserved, namespace)
    service.ready()
    world.create(unqueued("by-default"))
    service.kill()
    world.create(unqueued("before"))
    assert {"before", "by-default"} <= world.running()
    with serving(plane.kubeconfig, tmp_path, "--config", str(tmp_path / "config.yaml")) as process:
        process.ready()
        world.create(unqueued("managed"))
        assert "managed" not in world.running()
        world.until("those from before are suspended, too", lambda: not world.running())
        world.flavor()
        world.queue("main", 1)
        world.until("its queue is counted", lambda: world.status("main"))
        again = plane.kubectl(
            "create", "-f", "-", "-n", namespace, "--dry-run=server", stdin=json.dumps(unqueued("told"))
        )
        assert again.stderr == "Warning: has no queue name and waits: set label kueue.x-k8s.io/queue-name to main\n"
        plane.kubectl("label", "job", "before", "kueue.x-k8s.io/queue-name=main", "-n", namespace, check=True)
        world.until("the one that has a queue now starts", lambda: world.running() == {"before"})
        kept = plane.kubectl("patch", "job", "managed", "-n", namespace, "-p", json.dumps({"spec": {"suspend": False}}))
        assert "names no queue (label kueue.x-k8s.io/queue-name) and starts when it is admitted" in kept.stderr
        assert "managed" not in world.running()


def unqueued(name: str) -> dict[str, object]:
    made = job(name, "", cpu=1, pods=1, seconds=3600)
    del made["metadata"]["labels"]
    return made
