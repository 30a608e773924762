"""What a manager of MultiKueue costs and how long it takes: ``python -m bench.fleet_cost``.

A manager and two workers run side by side as real control planes, each with its own ``seiretsu serve``; a proxy between
the manager and each worker counts the requests. Four parts follow each other, each can be left out with its number 0:

1. ``--rest``: so many Jobs, one after the other, in a worker itself and through the manager: the time until a pod is
   created;
2. ``--slow``: so many Jobs of the first worker, while the second one answers every request at once and, in turns, after
   ten seconds: the time until a pod is created, and the CPU time of the manager;
3. ``--run``: so many Jobs that run and end: requests of the manager for each;
4. ``--more``: so many more worker clusters without Workloads, and ``--wait``: so many Workloads that wait in both
   workers: memory and requests.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from bench.fleet import QUOTA, at_rest, is_empty, made, patiently, pod_created
from bench.measure import Latency, ProcessUsage, counts, exit_on_sigterm
from bench.report import save, table
from controller.kube import config
from tests.cluster.fleet import Fleet, fleet
from tests.cluster.fleet_faults import between
from tests.cluster.world import World, done, job
from tests.faults import Delay, FaultProxy

ANSWER_SECONDS, ROUNDS, QUIET_SECONDS, MINUTE = 10.0, 3, 5.0, 60.0
Row = tuple[object, ...]


class Manager:
    """The manager's program, and the requests that it has made of each worker."""

    def __init__(self, clusters: Fleet, proxies: Sequence[FaultProxy]) -> None:
        self.clusters = clusters
        self.proxies = proxies

    def usage(self) -> ProcessUsage:
        """The CPU time and the memory that it uses."""
        return ProcessUsage.of(self.clusters.services[0].ready().process.pid)

    def requests(self) -> Counter[str]:
        """Its requests of the workers so far, by what they are."""
        return Counter(
            _named(each.method, each.path, each.query.get("watch", "")) for p in self.proxies for each in p.seen
        )


def _named(method: str, path: str, watch: str) -> str:
    """The verb and the resource of a request."""
    parts = [part for part in path.split("/") if part]
    after = parts[3:] if parts[0] == "apis" else parts[2:]
    after = after[2:] if after[:1] == ["namespaces"] and len(after) > 2 else after
    subresource = f"/{after[2]}" if len(after) > 2 else ""
    verb = "WATCH" if watch else "LIST" if method == "GET" and len(after) == 1 else method
    return f"{verb} {after[0] if after else path}{subresource}"


async def until(world: World, station: str, question: Callable[[], object]) -> None:
    """Waits for an answer."""
    await asyncio.to_thread(patiently, world, station, question)


def all_done(world: World, names: Iterable[str]) -> bool:
    """Whether all these Jobs have ended."""
    jobs = world.jobs()
    return all(done(jobs.get(name, {})) for name in names)


def copies(world: World) -> int:
    """How many Workloads there are."""
    return len(world.get("workloads").get("items", []))


def one_by_one(clusters: Fleet, names: Sequence[str]) -> list[float]:
    """Runs Jobs one after the other in the first worker; returns the seconds until each has a pod."""
    here, worker, took = clusters.manager, clusters.workers[0], []
    for name in names:
        began = time.monotonic()
        here.create(made(name, "slow"))
        took.append(pod_created(worker, name, began))
        patiently(here, "it has ended", lambda name=name: done(here.jobs().get(name, {})))  # type: ignore[misc]
        here.delete("jobs", name)
        patiently(here, "nothing is left", lambda: is_empty(worker))
    return took


async def slow(manager: Manager, count: int) -> list[Row]:
    """Compares the time of Jobs of one worker while the other one is slow with the time while it is not."""
    clusters, took, cpu = manager.clusters, dict[str, list[float]](), Counter[str]()
    await asyncio.to_thread(clusters.queue, "slow", there=(QUOTA, 0))
    for number in range(2 * ROUNDS):
        title = "after 10 s" if number % 2 else "at once"
        manager.proxies[1].draw = (lambda request: Delay(ANSWER_SECONDS)) if number % 2 else lambda request: None
        names = [f"slow-{number}-{place}" for place in range(max(1, count // ROUNDS))]
        before = manager.usage().cpu_seconds
        took.setdefault(title, []).extend(await asyncio.to_thread(one_by_one, clusters, names))
        cpu[title] += round((manager.usage().cpu_seconds - before) * 1e3)
    manager.proxies[1].heal()
    rows: list[Row] = [(title, *Latency.of(seconds), cpu[title] / len(seconds)) for title, seconds in took.items()]
    header = ("the other worker answers", "Jobs", "mean", "p50", "p99", "longest", "CPU ms a Job")
    table("create to pod in one worker, ms", header, rows)
    plain, late = (Latency.of(took[title]) for title in ("at once", "after 10 s"))
    print(f"ratio of p50: {late.p50 / plain.p50:.2f}, of the mean: {late.mean / plain.mean:.2f}", flush=True)
    return rows


async def run(manager: Manager, count: int) -> dict[str, float]:
    """Runs Jobs at once; returns the manager's requests for each, by cluster and kind."""
    clusters = manager.clusters
    await asyncio.to_thread(clusters.queue, "run", here=2 * QUOTA, there=(QUOTA, QUOTA))
    here = config.load(clusters.planes[0].kubeconfig)
    before, there = await counts(here), manager.requests()
    names = [f"run-{number}" for number in range(count)]
    await asyncio.to_thread(clusters.manager.create, *(made(name, "run", seconds=0.5) for name in names))
    await until(clusters.manager, "all have ended", lambda: all_done(clusters.manager, names))
    await asyncio.sleep(QUIET_SECONDS)
    own = (await counts(here)).since(before).writes
    own[("POST", "jobs")] -= count
    figures = {
        f"here: {verb} {name}": number / count for (verb, name), number in own.items() if name != "leases" and number
    }
    figures |= {f"workers: {name}": number / count for name, number in (manager.requests() - there).items()}
    table("requests a Job", ("request", "number"), [(name, round(each, 2)) for name, each in sorted(figures.items())])
    return figures


async def connect(manager: Manager, count: int) -> list[Row]:
    """Connects so many more workers without Workloads; returns what each costs. They are all the first one: where it
    matters they are removed before there are copies, which each would take for its own.
    """
    clusters = manager.clusters
    names = [f"more{number}" for number in range(count)]
    memory = manager.usage().rss
    for name in names:
        await asyncio.to_thread(clusters.connect, name, manager.proxies[0].kubeconfig)
    for name in names:
        await until(clusters.manager, f"{name} is connected", lambda name=name: clusters.active(name)[0] == "True")  # type: ignore[misc]
    await asyncio.sleep(QUIET_SECONDS)
    grown, requests = manager.usage().rss - memory, manager.requests()
    await asyncio.sleep(MINUTE)
    asked = (manager.requests() - requests).total()
    for name in names:
        await asyncio.to_thread(clusters.manager.delete, "multikueueclusters", name)
    await asyncio.sleep(QUIET_SECONDS)
    return [
        ("a worker without Workloads", count, grown / count, ""),
        ("a quiet minute with a worker", count + 2, "", asked / (count + 2)),
    ]


async def wait(manager: Manager, count: int) -> list[Row]:
    """Has Workloads wait in both workers; returns what 1,000 cost."""
    clusters = manager.clusters
    await asyncio.to_thread(clusters.queue, "wait", here=2 * count, there=(1, 1))
    for world in clusters.workers:
        await asyncio.to_thread(world.create, job("holder", "wait", cpu=1, pods=1, seconds=3600))
        await until(world, "its quota is used", world.running)
    await asyncio.sleep(QUIET_SECONDS)
    memory, requests = manager.usage().rss, manager.requests()
    names = [f"wait-{number}" for number in range(count)]
    await asyncio.to_thread(clusters.manager.create, *(made(name, "wait") for name in names))
    for world in clusters.workers:
        await until(world, "all are there", lambda world=world: copies(world) > count)  # type: ignore[misc]
    await asyncio.sleep(QUIET_SECONDS)
    grown, asked = manager.usage().rss - memory, (manager.requests() - requests).total()
    return [("1,000 Workloads that wait in two workers", count, grown / count * 1000, asked / count * 1000)]


async def measure(clusters: Fleet, chosen: argparse.Namespace) -> None:
    """Runs the parts."""
    planes = clusters.planes[1:]
    patiently(clusters.manager, "both workers are connected", lambda: all(map(clusters.is_connected, planes)))
    figures: dict[str, Any] = {}
    if chosen.rest:
        local, through = await asyncio.to_thread(at_rest, clusters, chosen.rest)
        figures["rest"] = [("in the worker itself", *local), ("through the manager", *through)]
        table("create to pod, ms", ("Job", "Jobs", "mean", "p50", "p99", "longest"), figures["rest"])
    async with between(clusters) as proxies:
        manager = Manager(clusters, proxies)
        for plane in clusters.planes[1:]:
            await until(clusters.manager, "it is connected", partial(clusters.is_connected, plane))
        if chosen.slow:
            figures["slow"] = await slow(manager, chosen.slow)
        if chosen.run:
            figures["run"] = await run(manager, chosen.run)
        costs = await connect(manager, chosen.more) if chosen.more else []
        costs += await wait(manager, chosen.wait) if chosen.wait else []
        figures["cost"] = costs
        table("memory of the manager and its requests of the workers", ("", "number", "MiB", "requests"), costs)
    save(figures, chosen.json)


def main() -> None:
    """Runs the parts and prints their tables."""
    exit_on_sigterm()
    parser = argparse.ArgumentParser(description="What a manager of MultiKueue costs, and how long it takes.")
    parser.add_argument("--rest", type=int, default=30, help="Jobs one after the other (default: 30)")
    parser.add_argument("--slow", type=int, default=30, help="Jobs with a slow worker, and without (default: 30)")
    parser.add_argument("--run", type=int, default=100, help="Jobs that run and end (default: 100)")
    parser.add_argument("--wait", type=int, default=1000, help="Workloads that wait (default: 1000)")
    parser.add_argument("--more", type=int, default=8, help="worker clusters beyond two (default: 8)")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, fleet(Path(scratch), nodes=3) as clusters:
        uvloop.run(measure(clusters, chosen))
    sys.exit(0)


if __name__ == "__main__":
    main()
