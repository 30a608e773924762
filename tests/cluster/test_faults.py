"""The whole controller behind a network that loses, cuts, delays and refuses: every Job gets its turn, none twice, and
never is more given than there is.

The observer reads etcd beside all this: it sees every change of every Workload, Job and pod.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import orjson
import pytest

from api.objects import Raw
from controller.kube import config
from controller.kube.client import Client
from devcluster.controlplane import ControlPlane
from tests.cluster.world import World, done, holds, job
from tests.effort import cases
from tests.faults import Delay, Fault, FaultProxy, Request, Reset, html, proxied, status, throttled
from tests.observing import observing
from tests.serving import serving
from tests.write_points import POINTS

pytestmark = pytest.mark.cluster

SEED = 11
JOBS, QUOTA = cases(60, 2_000), cases(20, 60)
CUT_SECONDS = 3.0
WRITES = (
    (0.10, status(409, "Conflict")),
    (0.08, status(500, "InternalError")),
    (0.05, Reset(reaches=True)),
    (0.04, Reset()),
    (0.03, html(502)),
    (0.03, Delay(0.5)),
    (0.05, throttled()),
)
NEEDED = ("create the Workload", "admit", "unsuspend", "finish", "remove the finalizer")
"""The writes that a Job needs (docs/architecture.md), each once."""
READS = ((0.10, status(503, "ServiceUnavailable")), (0.05, html(502)))


class Misfortune:
    """Draws a fault for some of the requests, the same ones for the same requests; ``met`` counts them, and ``spoiled``
    are the requests.
    """

    def __init__(self, seed: int) -> None:
        self.met: Counter[str] = Counter()
        self.spoiled: list[Request] = []
        self._random = random.Random(seed)

    def __call__(self, request: Request) -> Fault | None:
        if "/workloads" not in request.path and "/jobs" not in request.path:
            return None
        chance = self._random.random()
        for share, fault in READS if request.method == "GET" else WRITES:
            chance -= share
            if chance < 0:
                self.met[f"{request.method} {type(fault).__name__} {getattr(fault, 'status', '')}"] += 1
                self.spoiled.append(request)
                return fault
        return None


async def cut_now_and_then(proxy: FaultProxy, namespace: str) -> None:
    """Cuts all connections every three seconds, but not before a write that a Job needs was taken since: a network that
    fails again before a slow machine has connected lets nothing through.
    """
    cut = 0
    while True:
        await asyncio.sleep(CUT_SECONDS)  # how often networks fail: it is no state that is waited for
        if needed(namespace, (request for request, code in proxy.answered[cut:] if code < 300)):
            cut = len(proxy.answered)
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
            cutting = asyncio.create_task(cut_now_and_then(proxy, namespace))
            manifests = [job(f"j{number}", "team", cpu=1, pods=1, seconds=0.2) for number in range(JOBS)]
            await asyncio.to_thread(world.create, {"apiVersion": "v1", "kind": "List", "items": manifests})
            await asyncio.to_thread(
                world.until,
                "all are done",
                lambda: sum(map(done, world.jobs().values())) == JOBS,
                progress=lambda: steps(world),
            )
            seconds = time.monotonic() - began
            cutting.cancel()
            proxy.heal()
            await asyncio.to_thread(world.until, "all is told", lambda: all_finished(world))
            await asyncio.to_thread(world.until, "all is free", lambda: world.used("team") == ("0", "0"))
            assert process.process.poll() is None, "the process ended"
            await asyncio.gather(cutting, return_exceptions=True)
    sent, spoiled = needed(namespace, proxy.seen), needed(namespace, misfortune.spoiled)
    taken = needed(namespace, (request for request, code in proxy.answered if code < 300))
    refused = needed(namespace, (request for request, code in proxy.answered if code >= 300))
    print(f"seed {SEED}: {JOBS} Jobs in {seconds:.0f} s; writes that each needs, for each of them: ", end="")
    counts = {"sent": sent, "met a fault": spoiled, "were taken": taken, "were refused by the API server": refused}
    print(*(f"{each.total() / JOBS:.2f} {name}" for name, each in counts.items()), sep=", ")
    assert taken.total() <= len(NEEDED) * JOBS, f"what was written, and answered, is not written again: {taken}"
    assert refused.total() < spoiled.total(), f"only after a fault a write is decided on what has changed: {refused}"
    assert 1 < observed.most["cpu"] <= QUOTA, "so much cpu was reserved at once"
    assert (observed.admissions, observed.admitted_again) == (JOBS, []), "each Job is admitted once"
    assert min(misfortune.met.values()) > 0 and sum(misfortune.met.values()) > JOBS / 2, misfortune.met


def needed(namespace: str, requests: Iterable[Request]) -> Counter[str]:
    """Counts the writes that the Jobs of a namespace need by what they are for: in others the process does what the one
    before it, which a test has killed, has left to do. Between its admission and its end the status of a Workload is
    also written when the pods of its job are ready, and when the first one has ended (``reclaimablePods``): how many
    Jobs live so long that it is written depends on the speed of the machine.
    """
    found: Counter[str] = Counter()
    paths = tuple(f"/namespaces/{namespace}/{plural}" for plural in ("workloads", "jobs"))
    for each in requests:
        if each.method != "GET" and any(path in each.path for path in paths):
            body = orjson.loads(each.body) if each.body else {}
            names = {name for name in NEEDED if POINTS[name](each, body)}
            found.update(names - {"admit"} if _of_running_pods(body.get("status") or {}) else names)
    return found


def _of_running_pods(status: Raw) -> bool:
    ready = any(each["type"] == "PodsReady" and each["status"] == "True" for each in status.get("conditions") or ())
    return ready or bool(status.get("reclaimablePods"))


def steps(world: World) -> int:
    """How many steps all Jobs have taken: Workload created, admitted, started, done; none is taken twice."""
    jobs, workloads = world.jobs().values(), world.workloads().values()
    started = sum("startTime" in each.get("status", {}) for each in jobs)
    return len(workloads) + sum(holds(each, "Admitted") for each in workloads) + started + sum(map(done, jobs))


def set_up(world: World) -> None:
    world.flavor()
    world.queue("team", QUOTA)
    world.until("the queue is active", lambda: world.active("team")[0] == "True")


def all_finished(world: World) -> bool:
    found = world.workloads()
    return len(found) == JOBS and all(holds(each, "Finished") for each in found.values())
