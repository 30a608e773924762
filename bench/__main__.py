"""``make bench``: the cost of creating a Job with and without Seiretsu, how fast Jobs are admitted, and the number of
writes.

On a real control plane without nodes, so that no pod is created and only queueing is measured. ``--json FILE`` stores
the figures.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from api.objects import Raw
from bench.measure import Counts, Latency, ProcessUsage, counts, exit_on_sigterm, timed
from bench.scenario import CLUSTER_QUEUES, JOBS, NAMESPACE, NAMESPACES, Size, job, setting
from bench.served import served
from controller.kube import config
from controller.kube.client import Client
from controller.kube.flow.throttle import Throttle
from controller.kube.reflector import Reflector
from controller.kube.store import Store
from devcluster import processes
from devcluster.controlplane import ControlPlane, Spec

PATIENCE_SECONDS = 300.0
CREATORS = 8
OURS = ("workloads", "localqueues", "clusterqueues", "cohorts", "resourceflavors")


class Admissions:
    """Watches Jobs and records when each is unsuspended."""

    def __init__(self, client: Client) -> None:
        self.at: dict[str, float] = {}
        self._wanted = ""
        self._count = 0
        self._done = asyncio.Event()
        store: Store[bool] = Store("jobs", self._look)
        self.reflector = Reflector(client, JOBS, store, namespace=NAMESPACE)

    def expect(self, prefix: str, count: int) -> None:
        """Waits for that number of Jobs whose names have the prefix."""
        self._wanted, self._count = prefix, count
        self._done.clear()
        self.at.clear()

    async def all(self) -> None:
        """Returns when every one of them is unsuspended; raises ``TimeoutError`` after five minutes."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._done.wait()
        except TimeoutError:
            raise TimeoutError(f"{len(self.at)} of {self._count} Jobs let go in {PATIENCE_SECONDS:.0f} s") from None

    def _look(self, raw: Raw) -> bool:
        name, suspended = raw["metadata"]["name"], bool(raw["spec"].get("suspend"))
        if not suspended and name.startswith(self._wanted) and name not in self.at:
            self.at[name] = time.perf_counter()
            if len(self.at) == self._count:
                self._done.set()
        return suspended


async def creation_latency(client: Client, prefix: str, queue: str, count: int) -> dict[str, Latency]:
    """The latency of creating Jobs, from one client and from eight."""

    async def create(name: str) -> None:
        await client.create(JOBS, job(name, queue), NAMESPACE)

    alone = await timed(lambda number: create(f"{prefix}-one-{number}"), count, clients=1)
    together = await timed(lambda number: create(f"{prefix}-eight-{number}"), count, clients=CREATORS)
    return {"one client": alone, f"{CREATORS} clients": together}


async def as_they_come(client: Client, admissions: Admissions, size: Size) -> tuple[float, Latency]:
    """Creates all Jobs as fast as eight clients can; returns the seconds until the last is unsuspended, and the latency
    of the creates.
    """
    admissions.expect("come-", size.jobs)
    began = time.perf_counter()

    async def create(number: int) -> None:
        await client.create(JOBS, job(f"come-{number}", f"lq-{number % size.queues}"), NAMESPACE)

    latency = await timed(create, size.jobs, clients=CREATORS)
    await admissions.all()
    return max(admissions.at.values()) - began, latency


async def from_full_queues(client: Client, admissions: Admissions, size: Size) -> float:
    """Create all Jobs while the ClusterQueues are held, then let them go; seconds from then until the last is let
    go.
    """
    await _hold(client, size, "Hold")
    admissions.expect("held-", size.jobs)

    async def create(number: int) -> None:
        await client.create(JOBS, job(f"held-{number}", f"lq-{number % size.queues}"), NAMESPACE)

    await timed(create, size.jobs, clients=CREATORS)
    await asyncio.sleep(2)  # wait for the Workloads of the last Jobs, which are not measured here
    began = time.perf_counter()
    await _hold(client, size, "None")
    await admissions.all()
    return max(admissions.at.values()) - began


async def _hold(client: Client, size: Size, policy: str) -> None:
    for number in range(size.queues):
        await client.patch(CLUSTER_QUEUES, f"cq-{number}", "", {"spec": {"stopPolicy": policy}})


def per_job(made: Counter[tuple[str, str]], jobs: int) -> dict[str, float]:
    """Returns the writes for a Job by verb and resource, without the creation of the Job."""
    made["POST", "jobs"] -= jobs
    counted = {f"{verb} {name}": count / jobs for (verb, name), count in sorted(made.items()) if count > 0}
    wanted = ("jobs", "events", *OURS)
    return {name: share for name, share in counted.items() if name.split()[1].split("/")[0] in wanted}


def cpu_seconds(plane: ControlPlane, pid: int) -> dict[str, float]:
    """Returns the usage of serve and each part of the control plane: a busy machine changes these figures least."""
    parts = {record.name: record.pid for record in processes.recorded(plane.layout.records) if record.alive()}
    return {name: ProcessUsage.of(each).cpu_seconds for name, each in {"serve": pid, **parts}.items()}


def account(made: Counts, size: Size) -> dict[str, Any]:
    """Prints the work of the API server for each Job, and returns it for the record."""
    writes = per_job(made.writes, size.jobs)
    total = sum(share for name, share in writes.items() if not name.endswith(" events"))
    print(f"writes a Job: {total:.2f}, events {sum(writes.values()) - total:.2f}")
    for name, share in writes.items():
        print(f"    {name:32} {share:5.2f}")
    hooks = {name: seconds / calls * 1e3 for name, (calls, seconds) in made.hooks.items() if calls}
    for name, mean in hooks.items():
        print(
            f"    webhook {name:24} {made.hooks[name][0] / size.jobs:5.2f}   mean {mean:.1f} ms, seen by the API server"
        )
    print(f"    conversions to older versions    {made.conversions / size.jobs:5.2f}")
    return {"writes": writes, "webhook mean ms": hooks, "conversions": made.conversions / size.jobs}


async def measure(plane: ControlPlane, scratch: Path, size: Size, calls: int) -> dict[str, Any]:
    """All the figures, in the order they are printed."""
    report: dict[str, Any] = {"size": size._asdict(), "processors": os.cpu_count(), "load": os.getloadavg()[0]}
    async with Client(config.load(plane.kubeconfig), throttle=Throttle(0)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        report["without"] = show("create a Job, without us", await creation_latency(client, "without", "", calls))
        # The program starts and stops in its own thread: this loop continues to serve the watch meanwhile.
        serving = served(plane.kubeconfig, scratch)
        process = await asyncio.to_thread(serving.__enter__)
        failed: BaseException | None = None
        try:
            await _with_us(plane, client, size, calls, report, process.pid)
        except BaseException as error:
            failed = error
            raise
        finally:
            ending = (type(failed), failed, failed.__traceback__) if failed else (None, None, None)
            await asyncio.to_thread(serving.__exit__, *ending)
    return report


async def _with_us(
    plane: ControlPlane, client: Client, size: Size, calls: int, report: dict[str, Any], pid: int
) -> None:
    for resource, namespace, raw in setting(size)[1:]:
        await client.create(resource, raw, namespace)
    report["unlabelled"] = show("create a Job that is not ours", await creation_latency(client, "other", "", calls))
    report["with"] = show("create a Job in a queue", await creation_latency(client, "with", "lq-0", calls))
    admissions = Admissions(client)
    watching = asyncio.create_task(admissions.reflector.run())
    await admissions.reflector.synced.wait()
    before, used = await counts(config.load(plane.kubeconfig)), cpu_seconds(plane, pid)
    seconds, latency = await as_they_come(client, admissions, size)
    report["come"] = {"seconds": seconds, "per second": size.jobs / seconds}
    print(f"{size.jobs} Jobs as they come: {seconds:.1f} s, {size.jobs / seconds:.0f} admissions a second")
    report["busy"] = show("create a Job, while admitting", {f"{CREATORS} clients": latency})
    await asyncio.sleep(3)  # coalesced status writes of queues and late events belong to the account
    report |= account((await counts(config.load(plane.kubeconfig))).since(before), size)
    cpu = {name: (now - used[name]) / size.jobs * 1e3 for name, now in cpu_seconds(plane, pid).items()}
    print("CPU a Job: " + ", ".join(f"{name} {spent:.1f} ms" for name, spent in cpu.items()))
    seconds = await from_full_queues(client, admissions, size)
    report["held"] = {"seconds": seconds, "per second": size.jobs / seconds}
    print(f"{size.jobs} Jobs from full queues: {seconds:.1f} s, {size.jobs / seconds:.0f} admissions a second")
    usage = ProcessUsage.of(pid)
    report["usage"] = {"cpu ms a job": cpu, "rss": usage.rss, "peak": usage.peak}
    print(f"memory of serve: {usage.rss:.0f} MiB, {usage.peak:.0f} at its peak")
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def show(title: str, latencies: dict[str, Latency]) -> dict[str, Any]:
    """Print latencies and return them for the record."""
    for who, latency in latencies.items():
        print(f"{title + ', ' + who:44} {latency}", flush=True)
    return {who: latency._asdict() for who, latency in latencies.items()}


def main() -> None:
    """Parse the arguments, measure, print, end with 0."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000, help="how many Jobs (default 2000)")
    parser.add_argument("--queues", type=int, default=30, help="how many ClusterQueues (default 30)")
    parser.add_argument("--cohorts", type=int, default=5, help="how many cohorts (default 5)")
    parser.add_argument("--calls", type=int, default=400, help="how many creates a latency is taken of (default 400)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    chosen = parser.parse_args()
    exit_on_sigterm()
    size = Size(chosen.jobs, chosen.queues, chosen.cohorts)
    print(f"{size.jobs} Jobs over {size.queues} ClusterQueues in {size.cohorts} cohorts; load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as scratch, ControlPlane.start(spec=Spec(name="bench", nodes=())) as plane:
        report = asyncio.run(measure(plane, Path(scratch), size, chosen.calls))
    times = report["with"]["one client"]["p50"] / report["without"]["one client"]["p50"]
    print(f"a Job's creation takes {times:.1f} times as long with us, at the median; load {os.getloadavg()[0]:.1f}")
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
