"""Seed 0, slide 56: `manageJobsWithoutQueueName`, as the comment on the slide describes it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from devcluster.controlplane import ControlPlane, Spec
from tests.cluster.world import World, job
from tests.eventually import eventually
from tests.serving import serving

pytestmark = pytest.mark.cluster

MANAGED = "manageJobsWithoutQueueName: true\n"


def test_seed_0_slide_56_jobs_without_a_queue_wait_where_all_are_managed(tmp_path: Path) -> None:
    """Suspended and never started unless they are given a queue and admitted; also those that were there before us.

    By default they are not ours, and start at once.
    """
    (tmp_path / "config.yaml").write_text(MANAGED)
    with ControlPlane.start(spec=Spec(nodes=())) as plane:
        world = World(plane, "default")
        world.create(unqueued("before"))
        assert "before" in world.running()
        with serving(plane.kubeconfig, tmp_path) as process:
            process.ready()
            world.create(unqueued("by-default"))
            assert {"before", "by-default"} <= world.running()
            process.stop()
        with serving(plane.kubeconfig, tmp_path, "--config", str(tmp_path / "config.yaml")) as process:
            process.ready()
            world.create(unqueued("managed"))
            assert "managed" not in world.running()
            world.until("those from before are suspended, too", lambda: not world.running())
            world.flavor()
            world.queue("main", 1)
            asyncio.run(eventually(lambda: bool(world.status("main"))))
            again = plane.kubectl("create", "-f", "-", "--dry-run=server", stdin=json.dumps(unqueued("told")))
            assert again.stderr == (
                "Warning: has no queue name and waits: set label kueue.x-k8s.io/queue-name to main\n"
            )
            label = ("label", "job", "before", "kueue.x-k8s.io/queue-name=main", "-n", "default")
            plane.kubectl(*label, check=True)
            world.until("the one that has a queue now starts", lambda: world.running() == {"before"})
            kept = plane.kubectl("patch", "job", "managed", "-p", json.dumps({"spec": {"suspend": False}}))
            assert "names no queue (label kueue.x-k8s.io/queue-name) and starts when it is admitted" in kept.stderr
            assert "managed" not in world.running()


def unqueued(name: str) -> dict[str, object]:
    made = job(name, "", cpu=1, pods=1, seconds=3600)
    del made["metadata"]["labels"]
    return made
