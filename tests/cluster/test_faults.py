"""The whole controller behind a network that loses, cuts, delays and refuses: every Job gets its turn, none twice, and
never is more given than there is.

The observer reads etcd beside all this: it sees every change of every Workload, Job and pod.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from controller.kube import config
from controller.kube.client import Client
from devcluster.controlplane import ControlPlane
from tests.cluster.world import World, done, holds, job
from tests.effort import cases
from tests.faults import Delay, Fault, FaultProxy, Request, Reset, html, proxied, status, throttled
from tests.observing import observing
from tests.serving import serving

pytestmark = pytest.mark.cluster

SEED = 11
JOBS, QUOTA, WITHIN_SECONDS = cases(60, 2_000), cases(20, 60), cases(240, 1_200)
WRITES = (
    (0.10, status(409, "Conflict")),
    (0.08, status(500, "InternalError")),
    (0.05, Reset(reaches=True)),
    (0.04, Reset()),
    (0.03, html(502)),
    (0.03, Delay(0.5)),
    (0.05, throttled()),
)
READS = ((0.10, status(503, "ServiceUnavailable")), (0.05, html(502)))


class Misfortune:
    """Draws a fault for some of the requests, the same ones for the same requests; ``met`` counts them."""

    def __init__(self, seed: int) -> None:
        self.met: Counter[str] = Counter()
        self._random = random.Random(seed)

    def __call__(self, request: Request) -> Fault | None:
        if "/workloads" not in request.path and "/jobs" not in request.path:
            return None
        chance = self._random.random()
        for share, fault in READS if request.method == "GET" else WRITES:
            chance -= share
            if chance < 0:
                self.met[f"{request.method} {type(fault).__name__} {getattr(fault, 'status', '')}"] += 1
                return fault
        return None


async def cut_now_and_then(proxy: FaultProxy) -> None:
    while True:
        await asyncio.sleep(3.0)  # how often networks fail: it is no state that is waited for
        await proxy.cut()


async def test_t18_jobs_get_their_turn_once_whatever_the_network_does(
    unserved: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    misfortune, world = Misfortune(SEED), World(unserved, namespace)
    async with Client(config.load(unserved.kubeconfig)) as beside, proxied(beside.connection) as proxy:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(proxy.kubeconfig)
        with serving(kubeconfig, tmp_path) as process, observing(unserved, namespace, drained=True) as observed:
            await asyncio.to_thread(process.ready)
            await asyncio.to_thread(set_up, world)
            proxy.draw, began = misfortune, time.monotonic()
            cutting = asyncio.create_task(cut_now_and_then(proxy))
            manifests = [job(f"j{number}", "team", cpu=1, pods=1, seconds=0.2) for number in range(JOBS)]
            await asyncio.to_thread(world.create, {"apiVersion": "v1", "kind": "List", "items": manifests})
            await asyncio.to_thread(
                world.until,
                "all are done",
                lambda: sum(map(done, world.jobs().values())) == JOBS,
                within=WITHIN_SECONDS,
            )
            seconds = time.monotonic() - began
            cutting.cancel()
            proxy.heal()
            await asyncio.to_thread(world.until, "all is told", lambda: all_finished(world))
            await asyncio.to_thread(world.until, "all is free", lambda: world.used("team") == ("0", "0"))
            assert process.process.poll() is None, "the process ended"
            await asyncio.gather(cutting, return_exceptions=True)
    written = sum(each.method != "GET" and "/leases/" not in each.path for each in proxy.seen)
    print(
        f"seed {SEED}: {JOBS} Jobs in {seconds:.0f} s, {written / JOBS:.2f} writes for each, those that failed included"
    )
    assert 1 < observed.most["cpu"] <= QUOTA, "so much cpu was reserved at once"
    assert (observed.admissions, observed.admitted_again) == (JOBS, []), "each Job is admitted once"
    assert min(misfortune.met.values()) > 0 and sum(misfortune.met.values()) > JOBS / 2, misfortune.met


def set_up(world: World) -> None:
    world.flavor()
    world.queue("team", QUOTA)
    world.until("the queue is active", lambda: world.active("team")[0] == "True")


def all_finished(world: World) -> bool:
    found = world.workloads()
    return len(found) == JOBS and all(holds(each, "Finished") for each in found.values())
