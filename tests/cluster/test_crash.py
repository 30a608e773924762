"""Nothing is lost and nothing given twice: killed in the middle of admissions, and an API server that goes away."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import NodeGroup
from tests.cluster.world import World, done, holds, job
from tests.effort import cases
from tests.serving import Served, serving

pytestmark = pytest.mark.cluster

JOBS, AT_ONCE = cases(80, 200), cases(60, 150)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of this module's own: its API server is stopped."""
    with ControlPlane.start(spec=Spec(nodes=(NodeGroup(20),))) as started:
        yield started


def world_of(plane: ControlPlane, name: str) -> World:
    plane.kubectl("create", "namespace", name, check=True)
    made = World(plane, name)
    made.flavor()
    return made


def admitted(world: World) -> list[str]:
    return [
        name for name, found in world.workloads().items() if holds(found, "Admitted") and not holds(found, "Finished")
    ]


def kill(process: Served) -> None:
    process.process.kill()
    process.wait()


def test_a_process_killed_during_many_admissions_continues_without_an_error(
    plane: ControlPlane, tmp_path: Path
) -> None:
    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()
        world = world_of(plane, "killed")
        world.queue("team", AT_ONCE, stopPolicy="Hold")
        manifests = [job(f"j{number}", "team", cpu=1, pods=1, seconds=1) for number in range(JOBS)]
        world.create({"apiVersion": "v1", "kind": "List", "items": manifests})
        world.until("all wait", lambda: len(world.workloads()) == JOBS)
        queue = f"clusterqueue.kueue.x-k8s.io/{world.full('team')}"
        plane.kubectl("patch", queue, "--type", "merge", "-p", '{"spec": {"stopPolicy": "None"}}', check=True)
        world.until("admissions are under way", lambda: len(admitted(world)) >= 5)
        kill(process)
    for _ in range(3):
        with serving(plane.kubeconfig, tmp_path) as process:
            process.ready()
            time.sleep(0.5)  # not for a state to come: so that the next kill hits another moment
            kill(process)
    held = admitted(world)
    assert len(held) <= AT_ONCE, "more was admitted than there is"
    assert world.running() <= set(held), "a Job runs that was not admitted"
    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()
        world.until("everything finishes", lambda: sum(map(done, world.jobs().values())) == JOBS, within=240)
        world.until("all quota is free", lambda: world.used("team") == ("0", "0"))
        finished = [found for found in world.workloads().values() if holds(found, "Finished")]
        assert len(finished) == JOBS, "one Workload a Job, no more and no less"


def test_usage_after_a_restart_is_the_sum_of_what_is_admitted(plane: ControlPlane, tmp_path: Path) -> None:
    world = None
    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()
        world = world_of(plane, "restarted")
        world.queue("team", 5)
        manifests = [job(f"j{number}", "team", cpu=1, pods=1, seconds=600) for number in range(12)]
        world.create({"apiVersion": "v1", "kind": "List", "items": manifests})
        world.until("some run", lambda: len(world.running()) >= 3)
        kill(process)
    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()
        world.until("the rest of the quota is given", lambda: len(world.running()) == 5)
        world.until("the status has the same usage", lambda: world.used("team") == ("5", "0"))
        assert len(admitted(world)) == 5
        world.until("all others wait", lambda: world.status("team")["pendingWorkloads"] == 7)


def test_an_api_server_that_goes_away_and_comes_back_costs_only_time(plane: ControlPlane, tmp_path: Path) -> None:
    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()
        world = world_of(plane, "away")
        world.queue("team", 2)
        for number in range(6):
            world.job(f"j{number}", "team", seconds=2)
        world.until("some run", world.running)
        plane.stop_apiserver()
        time.sleep(3)  # the outage itself
        plane.start_apiserver()
        world.until("everything finishes", lambda: sum(map(done, world.jobs().values())) == 6, within=120)
        world.until("all quota is free", lambda: world.used("team") == ("0", "0"))
        assert process.process.poll() is None, "the process ended"
