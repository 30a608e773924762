"""``python -m bench.latency``: how long a new Job waits until it is unsuspended, when quota is free.

A process of its own creates Jobs at a fixed rate through the admission webhooks, open loop: a Job is created when it is
due, whether or not earlier calls were answered, and its time counts from then. This process only watches the Jobs. It
measures any controller that serves Kueue's API (``--kubeconfig``), or ``seiretsu serve`` on a control plane of its own.
There the Jobs are created with the token of a service account.
"""

import argparse
import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import orjson
import uvloop

from bench import report
from bench.contention import serve_stored_versions
from bench.events import follow
from bench.floor import null_controller
from bench.measure import Latency, bare_plane, exit_on_sigterm
from bench.measured import add_options, measured, with_token
from bench.openloop import Caller, Target
from bench.scenario import JOBS, NAMESPACE, Size, job, setting
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import NotFound
from controller.kube.flow.throttle import Throttle

RATES = (10.0, 50.0, 100.0)
SIZE = Size(jobs=10_000, queues=30, cohorts=5)
WARM_UP_RATE, WARM_UP_SECONDS = 5.0, 2.0
PATIENCE_SECONDS = 120.0


class Starts:
    """Watches the Jobs: ``at`` has the moment at which each was first seen unsuspended."""

    def __init__(self, client: Client) -> None:
        self.at: dict[str, float] = {}
        self._client = client
        self._changed = asyncio.Event()

    async def run(self, version: str) -> None:
        """Follows the Jobs from this version on, until cancelled."""
        async with aclosing(follow(self._client, JOBS, version)) as events:
            async for _, found in events:
                if not found.spec.suspend and found.metadata.namespace == NAMESPACE:
                    self.at.setdefault(found.metadata.name, time.perf_counter())
                    self._changed.set()

    async def all(self, names: Collection[str]) -> None:
        """Returns when all of these are unsuspended; raises ``TimeoutError`` if none is for two minutes."""
        while waiting := set(names) - self.at.keys():
            self._changed.clear()
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                raise TimeoutError(f"{len(waiting)} Jobs wait, one of them is {min(waiting)}") from None


class Bench:
    """Creates Jobs in the cluster of a kubeconfig; ``starts`` shows when they start."""

    def __init__(self, kubeconfig: Path, pids: Mapping[str, int], starts: Starts) -> None:
        self._kubeconfig = kubeconfig
        self._connection = config.load(kubeconfig)
        self._pids = pids
        self._starts = starts

    async def at_rate(self, name: str, rate: float, seconds: float) -> dict[str, Any]:
        """Creates Jobs at this rate for so long and waits until all are unsuspended; returns the figures."""
        names = [f"{name}-{number}" for number in range(int(rate * seconds))]
        bodies = [orjson.dumps(job(each, f"lq-{number % SIZE.queues}")) for number, each in enumerate(names)]
        path = f"{JOBS.path(NAMESPACE)}?fieldManager=bench"
        requests = [(path, body) for body in bodies]
        with Caller(Target(self._connection.server, requests, b'"uid"', kubeconfig=self._kubeconfig)) as caller:
            pids = {**self._pids, "client": caller.pid}
            before = await report.moment(self._connection, pids)
            created = await asyncio.to_thread(caller.run, rate, seconds)
            if created.failed:
                raise RuntimeError(f"{created.failed} of {len(names)} Jobs were not created")
            await self._starts.all(names)
            after = await report.moment(self._connection, pids)
        due = (created.began + number / rate for number in range(len(names)))
        waited = [self._starts.at[each] - began for each, began in zip(names, due, strict=True)]
        own: report.RequestCounts = report.RequestCounts({("POST", "jobs", 201): len(names)})
        return {
            "rate": rate,
            "created": created._asdict(),
            "unsuspended ms": Latency.of(waited)._asdict(),
            **report.Cost.between(before, after).figures(len(names), own),
        }


async def measure(
    kubeconfig: Path,
    pids: Mapping[str, int],
    rates: Sequence[float],
    seconds: float,
    publish: Callable[[list[dict[str, Any]]], None],
) -> None:
    """Creates the queues, measures one rate after the other, gives ``publish`` the figures of those measured so far
    after each, and removes what it created.
    """
    async with Client(config.load(kubeconfig), throttle=Throttle(0)) as client:
        created = setting(SIZE)
        for resource, namespace, raw in created:
            await client.create(resource, raw, namespace)
        starts = Starts(client)
        watching = asyncio.create_task(starts.run((await client.list(JOBS))["metadata"]["resourceVersion"]))
        bench = Bench(kubeconfig, pids, starts)
        try:
            await bench.at_rate("warm-up", WARM_UP_RATE, WARM_UP_SECONDS)
            found: list[dict[str, Any]] = []
            for rate in rates:
                found.append(await bench.at_rate(f"rate-{rate:g}", rate, seconds))
                publish(found)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            for resource, namespace, raw in reversed(created):
                if not namespace:
                    with suppress(NotFound):
                        await client.delete(resource, raw["metadata"]["name"])


@contextlib.contextmanager
def floor(versions: str) -> Iterator[tuple[Path, dict[str, int]]]:
    """Context in which ``bench.null_jobs`` runs on a control plane: its kubeconfig, and the processes to measure."""
    with bare_plane() as (plane, scratch, note):
        token = with_token(plane, scratch)
        with null_controller(token, "bench.null_jobs", "--versions", versions) as pid:
            print(f"a null controller with its hooks on {os.cpu_count()} processors; {note}", flush=True)
            yield token, {"controller": pid} | report.pids_of(plane) | {"bench": os.getpid()}


def show(found: Sequence[Mapping[str, Any]]) -> None:
    """Prints the figures."""
    report.table(
        "milliseconds from the moment at which a create was due, by creates a second",
        ("", "answered p50", "p99", "unsuspended p50", "p99", "longest", "sent late p99"),
        [
            (
                f"{one['rate']:g}",
                *(one["created"][key] for key in ("p50", "p99")),
                *(one["unsuspended ms"][key] for key in ("p50", "p99", "longest")),
                one["created"]["late99"],
            )
            for one in found
        ],
    )
    programs = list(found[0]["cpu ms a workload"])
    report.table(
        "cost of a Job: writes, CPU ms of each program",
        ("", "writes", "events", *programs),
        [
            (
                f"{one['rate']:g}",
                one["writes a workload"],
                one["events a workload"],
                *(one["cpu ms a workload"][name] for name in programs),
            )
            for one in found
        ],
    )


def main() -> None:
    """Parses the arguments, measures, prints, ends with 0."""
    parser = argparse.ArgumentParser(prog="bench.latency", description=__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="creates a second (default 10 50 100)")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long at each rate (default 15)")
    parser.add_argument("--versions", choices=("stored", "all"), default="all", help="to serve (default all)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument(
        "--floor", action="store_true", help="measure hooks and a controller that do only what they must"
    )
    add_options(parser)
    chosen = parser.parse_args()
    exit_on_sigterm()
    print(f"Jobs in {SIZE.queues} ClusterQueues with free quota, {chosen.seconds:g} s at each rate")

    def publish(found: list[dict[str, Any]]) -> None:
        figures = {"processors": os.cpu_count(), "load average": os.getloadavg()[0], "rates": found}
        report.save(figures, chosen.json)
        if len(found) == len(chosen.rates):
            show(found)

    with floor(chosen.versions) if chosen.floor else measured(chosen, as_account=True) as (kubeconfig, pids):
        if not (chosen.kubeconfig or chosen.floor) and chosen.versions == "stored":
            uvloop.run(serve_stored_versions(kubeconfig))
        uvloop.run(measure(kubeconfig, pids, chosen.rates, chosen.seconds, publish))


if __name__ == "__main__":
    main()
