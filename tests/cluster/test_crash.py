"""Nothing is lost and nothing given twice: killed in the middle of admissions, and an API server that goes away."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from api.names import LEADER_ELECTION_ID, NAMESPACE
from api.objects import Raw
from controller.kube import config
from core.wire.timestamps import stamp
from devcluster.controlplane import ControlPlane, Spec
from devcluster.errors import ClusterError
from devcluster.nodes import NodeGroup
from tests.cluster.world import World, done, holds, job, ours
from tests.effort import SEED, cases
from tests.faults import proxied
from tests.observing import Observer
from tests.serving import Served, serving
from tests.write_points import Killer, arm

pytestmark = pytest.mark.cluster

PRIORITY = "kueue.x-k8s.io/priority-class"


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


def release_lease(plane: ControlPlane) -> None:
    """Delete the lease: the next process need not wait until it ends."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEADER_ELECTION_ID}"
    plane.administrator.request("DELETE", path)


STARTS = ("create the Workload", "admit", "unsuspend")
GIVES_WAY = ("evict", "suspend", "release", "finish", "remove the finalizer")
"""The writes on which quota depends; ``bench.soak`` kills at all of ``POINTS``, both before and after, many times."""


async def test_killed_at_a_write_the_next_process_continues_and_nothing_is_lost_or_given_twice(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """Each time a Job of low priority runs, and one of high priority preempts it: every write is made for them.

    `make test` kills at four of the writes, `make test-long` at each.
    """
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    chosen = {*chance.sample(STARTS, cases(1, 3)), *chance.sample(GIVES_WAY, cases(3, 5))}
    at = [point for point in (*STARTS, *GIVES_WAY) if point in chosen]
    world = World(plane, "killed")
    async with proxied(config.load(plane.kubeconfig)) as proxy, AsyncExitStack() as stack:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(proxy.kubeconfig)
        processes: list[Served] = []
        killer = Killer(lambda: processes[-1].process.pid)
        proxy.draw = killer

        def play(number: int) -> None:
            low, high = f"low-{number}", f"high-{number}"
            created(low, seconds=600)
            world.until("it has its quota", lambda: ended(*range(number)) or low in admitted(world) or not alive())
            created(high, seconds=0.2, labels={PRIORITY: "high"})
            if at[number] == "remove the finalizer":
                world.delete("jobs", low)
            world.until(f"killed: {at[number]}", lambda: not alive())

        def ended(*numbers: int) -> bool:
            """Let the Jobs of low priority that these numbers have end; whether all Jobs have."""
            world.succeed(*(f"low-{number}" for number in numbers))
            return all(map(done, world.jobs().values()))

        def created(name: str, **more: Any) -> None:
            """Create a Job, unless the process has been killed: nobody answers its webhooks then."""
            try:
                world.job(name, "team", cpu=2, **more)
            except ClusterError:
                world.until("it was killed", lambda: not alive())

        def alive() -> bool:
            return processes[-1].process.poll() is None

        def set_up() -> None:
            plane.kubectl("create", "namespace", "killed", check=True)
            world.flavor()
            priority = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "value": 100}
            world.create({**priority, "metadata": {"name": "high"}})
            world.queue("team", 3, preemption={"withinClusterQueue": "LowerPriority"})

        for number in range(len(at) + 1):
            with serving(kubeconfig, tmp_path) as process:
                processes.append(process)
                await asyncio.to_thread(process.ready)
                if not number:
                    await asyncio.to_thread(set_up)
                    observer = await asyncio.to_thread(Observer, plane, "killed", drained=True)
                    stack.callback(observer.close)
                if number < len(at):
                    arm([killer], at[number], reaches=chance.random() < 0.5)
                    await asyncio.to_thread(play, number)
                    release_lease(plane)
                else:
                    await asyncio.to_thread(world.until, "all are done", lambda: ended(*range(len(at))))
                    observed = await asyncio.to_thread(observer.end)
    assert observed.broken == []
    assert {point for point, _ in killer.killed} == set(at)
    assert observed.evictions >= bool({"suspend", "release"} & chosen) and observed.admissions >= len(at)


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
        world.until("everything finishes", lambda: sum(map(done, world.jobs().values())) == 6)
        world.until("all quota is free", lambda: world.used("team") == ("0", "0"))
        assert process.process.poll() is None, "the process ended"


class CrashPoint(NamedTuple):
    """What an admission check's protocol had got to when the process ended, and what the Job of that name is later.

    ``written`` is the last write before the end, or that of others while no process ran: state and fields of the
    check, conditions, and fields of the ClusterQueue. ``then`` answers whether the protocol went on.
    """

    check: str = "Pending"
    fields: Raw | None = None
    conditions: tuple[str, ...] = ()
    queue: Raw | None = None
    then: Callable[[World, str], bool] = lambda world, name: name in world.running()


def waits(world: World, name: str) -> bool:
    (state,) = world.workload(name)["status"]["admissionChecks"]
    return state["state"] == "Pending" and world.reason(name, "QuotaReserved") == "True/QuotaReserved"


def again(world: World, name: str) -> bool:
    """It was evicted, its quota released, and it has quota again: the check is asked again."""
    return waits(world, name) and world.reason(name, "Requeued") == "True/BackoffFinished"


def deactivated(world: World, name: str) -> bool:
    return world.reason(name, "QuotaReserved") == "False/Deactivated" and not world.workload(name)["spec"]["active"]


def with_label(world: World, name: str) -> bool:
    labels = world.jobs()[name]["spec"]["template"]["metadata"].get("labels", {})
    return name in world.running() and labels.get("example.com/slot") == "7"


def asks_both(world: World, name: str) -> bool:
    checks = world.workload(name)["status"]["admissionChecks"]
    return [check["state"] for check in checks] == ["Pending", "Pending"]


ADDS = {"podSetUpdates": [{"name": "main", "labels": {"example.com/slot": "7"}}]}
CRASH_POINTS = {
    "quota-reserved": CrashPoint(then=waits),
    "ready": CrashPoint("Ready", ADDS, then=with_label),
    "admitted": CrashPoint("Ready", ADDS, ("Admitted",), then=with_label),
    "retry": CrashPoint("Retry", {"requeueAfterSeconds": 1}, then=again),
    "evicted": CrashPoint(conditions=("Evicted",), then=again),
    "rejected": CrashPoint("Rejected", then=deactivated),
    "to-be-deactivated": CrashPoint("Rejected", None, ("DeactivationTarget",), then=deactivated),
    "check-removed": CrashPoint(queue={"admissionChecksStrategy": None}),
    "check-added": CrashPoint(
        queue={"admissionChecksStrategy": {"admissionChecks": [{"name": "away-a"}, {"name": "away-b"}]}}, then=asks_both
    ),
    "job-started": CrashPoint("Ready", None, ("Admitted", "started")),
}


def test_a_process_killed_at_any_step_of_an_admission_check_continues(plane: ControlPlane, tmp_path: Path) -> None:
    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()
        world = world_of(plane, "checked")
        for check in ("away-a", "away-b"):
            world.create(ours("AdmissionCheck", check, {"controllerName": "example.com/away"}))
            world.patch("admissionchecks", check, {"status": {"conditions": [true("Active")]}}, subresource="status")
        for name in CRASH_POINTS:
            world.queue(name, 1, admissionChecksStrategy={"admissionChecks": [{"name": "away-a"}]})
            world.job(name, name, seconds=600)
        world.until("all have quota", lambda: all(waits(world, name) for name in CRASH_POINTS))
        kill(process)
    for kind in ("validating", "mutating"):  # another replica would answer; the next process installs them again
        plane.kubectl("delete", f"{kind}webhookconfigurations", "--all", check=True)
    for name, point in CRASH_POINTS.items():
        write(world, name, point)
    with serving(plane.kubeconfig, tmp_path) as process:
        process.ready()
        for name, point in CRASH_POINTS.items():
            world.until(f"{name} goes on", partial(point.then, world, name))


def true(kind: str, reason: str = "") -> Raw:
    now = stamp(time.time())
    return {"type": kind, "status": "True", "reason": reason or kind, "message": "", "lastTransitionTime": now}


def write(world: World, name: str, point: CrashPoint) -> None:
    """What was written last."""
    found = world.workload(name)
    (check,) = found["status"]["admissionChecks"]
    reasons = {"Evicted": "AdmissionCheck", "DeactivationTarget": "AdmissionCheck"}
    set_now = [true(kind, reasons.get(kind, "")) for kind in point.conditions if kind != "started"]
    kept = [each for each in found["status"]["conditions"] if each["type"] not in point.conditions]
    status: dict[str, Any] = {"admissionChecks": [{**check, "state": point.check, **(point.fields or {})}]}
    if set_now:
        status["conditions"] = [*kept, *set_now]
    world.patch("workloads", found["metadata"]["name"], {"status": status}, subresource="status")
    if point.queue:
        world.patch("clusterqueues", world.full(name), {"spec": point.queue})
    if "started" in point.conditions:
        world.patch("jobs", name, {"spec": {"suspend": False}})
