"""Jobs of a manager that run in workers, while all of them fail: ``python -m bench.fleet [--jobs 1000]``.

A manager and two workers run side by side as real control planes, each with its own ``seiretsu serve``, and a fault
proxy between the manager and each worker. The observer reads all three etcds from the first to the last moment. Three
parts follow each other, and each can be left out with its number 0:

1. ``--rest``: so many Jobs, one after the other, in a worker itself and through the manager: the time until a pod is
   created;
2. ``--kills``: the controller of the manager ends at each of its write points (``tests.write_points``), so many times
   before the write reaches its API server and after;
3. ``--jobs``: so many Jobs at a steady rate, while the faults of ``tests.cluster.fleet_faults`` follow each other.

At the end no promise may have been broken: exit 1 otherwise. The seed that is printed repeats the same faults. It gives
up only when no Job has ended for ten minutes, and prints then what it waits for.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import uvloop

from api.objects import Raw
from app import logs
from bench.measure import Latency, exit_on_sigterm
from bench.report import save, table
from core.wire.timestamps import stamp
from devcluster.errors import ClusterError
from tests.cluster.fleet import Fleet, fleet, pods_of
from tests.cluster.fleet_crash import crashes, ends_at
from tests.cluster.fleet_faults import FAULTS, Faults, between, title
from tests.cluster.world import World, done, job
from tests.observing import Observed, Observer

AGAIN_SECONDS, REPORT_SECONDS, CALM_SECONDS, POLL_SECONDS = 0.5, 30.0, 3.0, 0.1
POD_SECONDS = 0.02
"""How often it is looked whether a pod exists, whose time is measured."""
PATIENCE_SECONDS = 600.0
MOST_WAITING = 20
"""How many of the Jobs that have not ended are printed."""
MANAGED = "kueue.x-k8s.io/multikueue"
QUOTA = 24


class FleetFault(NamedTuple):
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


class FleetLoad:
    """Creates Jobs in the manager; a create that fails is repeated. The observer counts those that have ended: a list
    of all Jobs would be the largest part of the work of the API server.
    """

    def __init__(self, clusters: Fleet, observer: Observer, rate: float) -> None:
        self.clusters = clusters
        self.observer = observer
        self.rate = rate
        self.repeated = 0
        self.names: list[str] = []
        self._before = observer.look().finished

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

    async def revive(self) -> None:
        """Starts again what has ended by itself, as a kubelet does: on a busy machine a program may lose its lease."""
        for service in self.clusters.services:
            await asyncio.to_thread(service.revive)

    async def ended(self) -> int:
        """How many Workloads have finished in the manager since this was made."""
        return (await asyncio.to_thread(self.observer.look)).finished - self._before

    def waiting(self) -> list[str]:
        """A sentence for each of the first Jobs that have not ended."""
        workloads, jobs = self.clusters.manager.workloads(), self.clusters.manager.jobs()
        left = [name for name in self.names if not done(jobs.get(name, {}))]
        return [
            f"{name} is in {self.clusters.where(name) or 'no worker'}, its Workload has {_summary(workloads.get(name))}"
            for name in left[:MOST_WAITING]
        ]


def _summary(workload: Raw | None) -> str:
    """The conditions of a Workload, its worker and the messages of its checks."""
    status: Raw = (workload or {}).get("status") or {}
    conditions = [f"{each['type']}={each['status']} ({each['reason']})" for each in status.get("conditions") or ()]
    checks = [f"{each['state']}: {each.get('message', '')}" for each in status.get("admissionChecks") or ()]
    places = status.get("clusterName") or status.get("nominatedClusterNames") or "no worker"
    return "; ".join((*conditions, *checks, str(places)))


async def reach(
    load: FleetLoad,
    count: int,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Waits until so many Jobs have ended; fails when none has ended for ``PATIENCE_SECONDS``."""
    most, since, reported = -1, clock(), clock()
    while (ended := await load.ended()) < count:
        now = clock()
        if ended > most:
            most, since = ended, now
        elif now > since + PATIENCE_SECONDS:
            raise TimeoutError("\n".join([f"{ended} have ended, {count} are awaited", *load.waiting()]))
        if now > reported + REPORT_SECONDS:
            reported = now
            await load.revive()
            print(f"{time.strftime('%H:%M:%S')} {ended} of {count} have ended", flush=True)
        await sleep(POLL_SECONDS)


def pod_created(world: World, name: str, began: float) -> float:
    """Waits until the first pod of a Job is created in a worker; returns the seconds since ``began``."""
    while True:
        pods = world.get("pods").get("items", [])
        if any(each["metadata"]["labels"].get("job-name") == name for each in pods):
            return time.monotonic() - began
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise TimeoutError(name)
        time.sleep(POD_SECONDS)


def patiently(world: World, station: str, question: Callable[[], object]) -> None:
    """As ``World.until``, with more patience."""
    world.until(station, question, within=PATIENCE_SECONDS)


def is_empty(world: World) -> bool:
    """Whether a cluster answers that it has neither Jobs nor Workloads."""
    return all(world.get(resource).get("items") == [] for resource in ("jobs", "workloads"))


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
            patiently(world, "it has ended", lambda world=world, name=name: done(world.jobs().get(name, {})))  # type: ignore[misc]
            world.delete("jobs", name)
            patiently(world, "nothing is left", lambda: is_empty(worker))
    return Latency.of(local), Latency.of(through)


async def fail(load: FleetLoad, faults: Faults, count: int, met: list[FleetFault]) -> None:
    """Injects the faults in turn, with some time after each, while there are more Jobs than run at once."""
    while True:
        for fault in faults.chance.sample(FAULTS, len(FAULTS)):
            if await load.ended() >= count - 2 * QUOTA and len(load.names) == count:
                return
            await load.revive()
            await fault(faults)
            began, before = time.monotonic(), await load.ended()
            await load.revive()
            if before == count:
                return  # all have ended: this fault met none
            await reach(load, before + 1)
            met.append(FleetFault(title(fault), time.monotonic() - began))
            line = f"{met[-1].name}: next end {met[-1].next_end:.1f} s, {before} of {count} had ended"
            print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)
            await asyncio.sleep(CALM_SECONDS)


def unkept(killed: Mapping[str, int], kills: int, pods: Mapping[str, Collection[str]]) -> list[str]:
    """Returns what the part with the kills did not keep: each write is met, and a Job that ends has had one pod."""
    wanted = Counter(point for point, _ in ends_at(random.Random(), sides=2) for _ in range(kills))
    found = [
        f"the manager was killed {killed.get(point, 0)} times, not {times}, at: {point}"
        for point, times in wanted.items()
        if killed.get(point, 0) < times
    ]
    several = [(name, len(each)) for name, each in pods.items() if name.startswith("ends-") and len(each) != 1]
    return [*found, *(f"Job {name} had {count} pods" for name, count in several)]


async def soak(clusters: Fleet, chosen: argparse.Namespace) -> int:
    """Runs the parts; returns the exit code."""
    print(f"seed {chosen.seed}", flush=True)
    for service in clusters.services:
        service.within = PATIENCE_SECONDS  # a slow machine breaks no promise
    chance, met, began = random.Random(chosen.seed), list[FleetFault](), time.monotonic()
    planes = clusters.planes[1:]
    patiently(clusters.manager, "both workers are connected", lambda: all(map(clusters.is_connected, planes)))
    rows: list[tuple[object, ...]] = []
    if chosen.rest:
        local, through = await asyncio.to_thread(at_rest, clusters, chosen.rest)
        rows = [("in the worker itself", *local), ("through the manager", *through)]
        table("create to pod, ms", ("Job", "Jobs", "mean", "p50", "p99", "longest"), rows)
    killed: dict[str, int] = {}
    broken: list[str] = []
    if chosen.kills:
        with pods_of(clusters) as pods:
            killed = await crashes(clusters, rounds=chosen.kills, report=lambda text: print(text, flush=True))
        broken += unkept(killed, chosen.kills, pods)
    observed, created, repeated = Observed(), 0, 0
    if chosen.jobs:
        clusters.queue("soak", here=2 * QUOTA, there=(QUOTA, QUOTA))
        observer = Observer(
            clusters.planes[0],
            clusters.namespace,
            drained=True,
            patience=PATIENCE_SECONDS,
            workers=clusters.planes[1:],
        )
        try:
            async with between(clusters) as proxies:
                faults, load = (
                    Faults(clusters, proxies, chance, chosen.seconds),
                    FleetLoad(clusters, observer, chosen.rate),
                )
                async with asyncio.TaskGroup() as group:
                    group.create_task(load.run(chosen.jobs))
                    group.create_task(fail(load, faults, chosen.jobs, met))
                await reach(load, chosen.jobs)
            created, repeated = len(load.names), load.repeated
            observed = await asyncio.to_thread(observer.end)
        except BaseException:
            for sentence in observer.look().broken:
                print(f"BROKEN: {sentence}")
            raise
        finally:
            observer.close()
    broken += observed.broken
    broken += [f"{observed.ran} of {chosen.jobs} Jobs ran in a worker"] if observed.ran != chosen.jobs else []
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
        ("Jobs created", created),
        ("creates repeated", repeated),
        ("Jobs that ran in a worker", observed.ran),
        ("changes observed", observed.changes),
        ("violations", len(broken)),
    ]
    table("totals", ("", "count"), totals)
    for sentence in broken:
        print(f"BROKEN: {sentence}")
    save({"seed": chosen.seed, "rest": rows, "met": met, "killed": killed, "totals": dict(totals)}, chosen.json)
    return int(bool(broken))


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
