"""Jobs of a manager that run in workers, while all of them fail: ``python -m bench.fleet [--jobs 1000]``.

A manager and two workers run side by side as real control planes, each with its own ``seiretsu serve``, and a fault
proxy between the manager and each worker. The observer reads all three etcds from the first to the last moment. Three
parts follow each other, and each can be left out with its number 0:

1. ``--rest``: so many Jobs, one after the other, in a worker itself and through the manager: the time until a pod is
   created;
2. ``--kills``: the controller of the manager ends at each of its write points (``tests.write_points``), so many times
   before the write reaches its API server and after;
3. ``--jobs``: so many Jobs at a steady rate, while the faults of ``tests.cluster.fleet_faults`` follow each other.

At the end no promise may have been broken: exit 1 otherwise. The seed that is printed repeats the same faults.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import uvloop

from api.objects import Raw
from app import logs
from bench.measure import Latency, exit_on_sigterm
from bench.report import save, table
from core.wire.timestamps import stamp
from devcluster.errors import ClusterError
from tests.cluster.fleet import Fleet, fleet
from tests.cluster.fleet_crash import crashes
from tests.cluster.fleet_faults import FAULTS, Faults, between, title
from tests.cluster.world import World, done, job
from tests.observing import Observed, Observer

AGAIN_SECONDS, LOOK_SECONDS, CALM_SECONDS, POLL_SECONDS = 0.5, 1.0, 3.0, 0.02
PATIENCE_SECONDS = 600.0
MANAGED = "kueue.x-k8s.io/multikueue"
QUOTA = 24


class Met(NamedTuple):
    """A fault, and the seconds from its end until the next Job ended in the manager."""

    name: str
    next_end: float


def made(name: str, queue: str, *, managed: bool = True, seconds: float = 1.0) -> Raw:
    """A Job of one pod."""
    found = job(name, queue, cpu=1, pods=1, seconds=seconds)
    found["metadata"]["annotations"] = {"created": stamp(time.time())}
    if managed:
        found["spec"]["managedBy"] = MANAGED
    return found


class Load:
    """Creates Jobs in the manager; a create that fails is repeated."""

    def __init__(self, clusters: Fleet, rate: float) -> None:
        self.clusters = clusters
        self.rate = rate
        self.repeated = 0
        self.names: list[str] = []

    async def run(self, count: int) -> None:
        """Creates so many Jobs at the rate, or as fast as they are answered."""
        for number in range(count):
            began, name = time.monotonic(), f"soak-{number}"
            while not await asyncio.to_thread(self._created, name):
                self.repeated += 1
                await asyncio.sleep(AGAIN_SECONDS)
            self.names.append(name)
            await asyncio.sleep(max(0.0, began + 1 / self.rate - time.monotonic()))

    def _created(self, name: str) -> bool:
        try:
            self.clusters.manager.create(made(name, "soak"))
        except (ClusterError, OSError) as error:
            return "AlreadyExists" in str(error) or "already exists" in str(error)
        return True

    def ended(self) -> int:
        """How many Jobs have ended in the manager."""
        found = self.clusters.manager.jobs().items()
        return sum(done(each) for name, each in found if name.startswith("soak-"))


def pod_created(world: World, name: str, began: float) -> float:
    """Waits until the first pod of a Job is created in a worker; returns the seconds since ``began``."""
    while True:
        pods = world.get("pods").get("items", [])
        if any(each["metadata"]["labels"].get("job-name") == name for each in pods):
            return time.monotonic() - began
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise TimeoutError(name)
        time.sleep(POLL_SECONDS)


def at_rest(clusters: Fleet, count: int) -> tuple[Latency, Latency]:
    """Returns the time until the pod of a Job is created, in a worker itself and through the manager."""
    clusters.queue("rest", there=(QUOTA, 0))
    local: list[float] = []
    through: list[float] = []
    worker = clusters.workers[0]
    for number in range(count):
        for world, kept in ((worker, local), (clusters.manager, through)):
            name = f"rest-{'local' if world is worker else 'through'}-{number}"
            began = time.monotonic()
            world.create(made(name, "rest", managed=world is not worker))
            kept.append(pod_created(worker, name, began))
            world.until("it has ended", lambda world=world, name=name: done(world.jobs()[name]))  # type: ignore[misc]
            world.delete("jobs", name)
            world.until("nothing is left", lambda: not worker.jobs() and not worker.get("workloads")["items"])
    return Latency.of(local), Latency.of(through)


async def fail(load: Load, faults: Faults, count: int, met: list[Met]) -> None:
    """Injects the faults in turn until all Jobs are created, and some more time has passed after each."""
    while len(load.names) < count:
        for fault in faults.chance.sample(FAULTS, len(FAULTS)):
            if len(load.names) >= count:
                return
            await fault(faults)
            began, before = time.monotonic(), await asyncio.to_thread(load.ended)
            await faults.revive()
            while (ended := await asyncio.to_thread(load.ended)) == before < count:
                if time.monotonic() - began > PATIENCE_SECONDS:
                    raise TimeoutError(title(fault))
                await asyncio.sleep(POLL_SECONDS)
            if ended == before:
                return  # all have ended: this fault met none
            met.append(Met(title(fault), time.monotonic() - began))
            print(f"{time.strftime('%H:%M:%S')} {met[-1].name}: next end {met[-1].next_end:.1f} s", flush=True)
            await asyncio.sleep(CALM_SECONDS)


async def all_ended(load: Load, count: int) -> None:
    """Waits until every Job has ended in the manager."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (ended := await asyncio.to_thread(load.ended)) < count:
            print(f"{time.strftime('%H:%M:%S')} {ended} of {count} have ended", flush=True)
            await asyncio.sleep(5 * LOOK_SECONDS)


async def soak(clusters: Fleet, chosen: argparse.Namespace) -> int:
    """Runs the parts; returns the exit code."""
    print(f"seed {chosen.seed}", flush=True)
    chance, met = random.Random(chosen.seed), list[Met]()
    clusters.manager.until("both workers are connected", lambda: all(map(clusters.is_connected, clusters.planes[1:])))
    rows: list[tuple[object, ...]] = []
    if chosen.rest:
        local, through = await asyncio.to_thread(at_rest, clusters, chosen.rest)
        rows = [("in the worker itself", *local), ("through the manager", *through)]
        table("create to pod, ms", ("Job", "Jobs", "mean", "p50", "p99", "longest"), rows)
    killed: dict[str, int] = {}
    if chosen.kills:
        killed = await crashes(clusters, rounds=chosen.kills)
    began, observed, load = time.monotonic(), Observed(), Load(clusters, chosen.rate)
    if chosen.jobs:
        clusters.queue("soak", here=2 * QUOTA, there=(QUOTA, QUOTA))
        observer = Observer(
            clusters.planes[0], clusters.namespace, drained=True, patience=240, workers=clusters.planes[1:]
        )
        try:
            async with between(clusters) as proxies:
                faults = Faults(clusters, proxies, chance, chosen.seconds)
                async with asyncio.TaskGroup() as group:
                    group.create_task(load.run(chosen.jobs))
                    group.create_task(fail(load, faults, chosen.jobs, met))
                await all_ended(load, chosen.jobs)
            observed = await asyncio.to_thread(observer.end)
        finally:
            observer.close()
    report = defaultdict(list)
    for each in met:
        report[each.name].append(each.next_end)
    print(f"\nseed {chosen.seed}, {(time.monotonic() - began) / 60:.1f} minutes, {chosen.rate:g} Jobs a second")
    table(
        f"faults of {chosen.seconds:g} s",
        ("fault", "times", "next end, longest s"),
        [(name, len(ends), max(ends)) for name, ends in sorted(report.items())],
    )
    table("the manager killed at", ("write", "times"), sorted(killed.items()))
    totals = [
        ("faults injected", len(met) + sum(killed.values())),
        ("Jobs created", len(load.names)),
        ("creates repeated", load.repeated),
        ("Jobs that ran in a worker", observed.ran),
        ("changes observed", observed.changes),
        ("violations", len(observed.broken)),
    ]
    table("totals", ("", "count"), totals)
    for sentence in observed.broken:
        print(f"BROKEN: {sentence}")
    save({"seed": chosen.seed, "rest": rows, "met": met, "killed": killed, "totals": dict(totals)}, chosen.json)
    return int(bool(observed.broken) or observed.ran != chosen.jobs)


def main() -> None:
    """Runs the parts and prints their tables."""
    exit_on_sigterm()
    logs.configure("error")  # of the controller that is killed in this process
    parser = argparse.ArgumentParser(description="Jobs of a manager, while it and its workers fail, with an observer.")
    parser.add_argument("--jobs", type=int, default=1000, help="through the manager (default: 1000)")
    parser.add_argument("--rate", type=float, default=5, help="Jobs created a second (default: 5)")
    parser.add_argument("--seconds", type=float, default=10, help="how long each fault lasts (default: 10)")
    parser.add_argument("--kills", type=int, default=3, help="at each write point, before and after (default: 3)")
    parser.add_argument("--rest", type=int, default=20, help="Jobs without any fault (default: 20)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="repeats a run (default: any)")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, fleet(Path(scratch), nodes=3) as clusters:
        sys.exit(uvloop.run(soak(clusters, chosen)))


if __name__ == "__main__":
    main()
