"""``python -m bench.garbage [--minutes 60]``: a worker cluster that answers garbage moves neither the memory of the
manager nor its admissions.

``seiretsu serve`` manages the queues of its own cluster, and one MultiKueue queue whose only worker is a server that
lies (``bench.lies`` has the lies, another each minute). Jobs with free quota in the own cluster are created at a steady
rate; each is deleted when it has started, so that there are never more of them. Other Jobs wait for the worker all the
time. First the worker tells the truth for ``--before`` minutes, which is what the others are compared with. Exit 1 if
a Job did not start, or if the memory of the last tenth of the time is larger than before the first lie by more than a
tenth and what one worker may use: it is kept once by the allocator, and does not grow.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import uvloop

from api.names import MULTIKUEUE_CONTROLLER
from api.names import NAMESPACE as SYSTEM
from api.objects import Raw, Resource
from bench import report
from bench.measure import Latency, ProcessUsage, bare_plane, exit_on_sigterm
from bench.measured import with_token
from bench.scenario import CLUSTER_QUEUES, GROUP, JOBS, LOCAL_QUEUES, NAMESPACE, Size, job, setting
from bench.served import served, tied
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists, NotFound
from controller.kube.flow.throttle import Throttle
from controller.kube.size_limit import MEBIBYTE
from controller.multikueue.memory import shares

MINUTE = 60.0
WAITING = 20
MOST_GROWTH = 1.1
LONGEST_START_SECONDS = 120.0
_CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
multiKueue: {kubeConfigs: {allowHttp: true}}
"""


class Minute(NamedTuple):
    """What was measured in a minute."""

    number: int
    rss: float
    highest_rss: float
    cpu_seconds: float
    started: Latency


@contextlib.contextmanager
def liar() -> Iterator[str]:
    """The worker; its URL."""
    program = tied("import asyncio\nfrom bench.lies import serve\nasyncio.run(serve())")
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def _kubeconfig(url: str) -> bytes:
    return orjson.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "liar", "cluster": {"server": url}}],
            "users": [{"name": "liar", "user": {"token": "none"}}],
            "contexts": [{"name": "liar", "context": {"cluster": "liar", "user": "liar"}}],
            "current-context": "liar",
        }
    )


def worker(url: str) -> list[tuple[Resource, str, Raw]]:
    """The objects of a queue whose Jobs run in the worker at this URL."""
    data = {"kubeconfig": base64.b64encode(_kubeconfig(url)).decode()}
    secret = Resource("", "v1", "secrets", "Secret")
    clusters, configs, checks = (
        Resource(GROUP, "v1beta2", plural, kind, namespaced=False)
        for plural, kind in (
            ("multikueueclusters", "MultiKueueCluster"),
            ("multikueueconfigs", "MultiKueueConfig"),
            ("admissionchecks", "AdmissionCheck"),
        )
    )
    source = {"kubeConfig": {"location": "liar", "locationType": "Secret"}}
    parameters = {"apiGroup": GROUP, "kind": "MultiKueueConfig", "name": "liar"}
    cover = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": 1000}]}
    queue = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [cover]}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": "liar"}]},
    }
    return [
        (Resource("", "v1", "namespaces", "Namespace", namespaced=False), "", {"metadata": {"name": SYSTEM}}),
        (secret, SYSTEM, {"metadata": {"name": "liar", "namespace": SYSTEM}, "data": data}),
        (clusters, "", _object(clusters, {"clusterSource": source})),
        (configs, "", _object(configs, {"clusters": ["liar"]})),
        (checks, "", _object(checks, {"controllerName": MULTIKUEUE_CONTROLLER, "parameters": parameters})),
        (CLUSTER_QUEUES, "", _object(CLUSTER_QUEUES, queue)),
        (LOCAL_QUEUES, NAMESPACE, _object(LOCAL_QUEUES, {"clusterQueue": "liar"})),
    ]


def _object(resource: Resource, spec: Raw) -> Raw:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "liar"}, "spec": spec}


class AdmissionWaits:
    """Creates Jobs, and measures how long each waits until it is unsuspended."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._started: dict[str, asyncio.Future[float]] = {}
        self.failed: list[str] = []
        self.took: list[float] = []

    async def follow(self) -> None:
        """Watches the Jobs, until cancelled."""
        while True:
            version = (await self._client.list(JOBS, NAMESPACE))["metadata"]["resourceVersion"]
            async with aclosing(self._events(version)) as events:
                async for found in events:
                    started = self._started.get(found["metadata"]["name"])
                    if started is not None and not found["spec"].get("suspend") and not started.done():
                        started.set_result(time.perf_counter())

    async def _events(self, version: str) -> AsyncGenerator[Raw, None]:
        async with aclosing(self._client.watch(JOBS, NAMESPACE, params={"resourceVersion": version})) as lines:
            async for line in lines:
                found: Raw = orjson.loads(line)
                if found["type"] in ("ADDED", "MODIFIED"):
                    yield found["object"]

    async def one(self, name: str) -> None:
        """Creates a Job, waits until it starts, and deletes it."""
        started = self._started[name] = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        try:
            await self._client.create(JOBS, job(name, "lq-0"), NAMESPACE)
            async with asyncio.timeout(LONGEST_START_SECONDS):
                self.took.append(await started - began)
        except TimeoutError:
            self.failed.append(name)
        finally:
            del self._started[name]
            with contextlib.suppress(NotFound):
                await self._client.delete(JOBS, name, NAMESPACE)

    async def at_rate(self, rate: float, ends: float) -> None:
        """Creates so many a second until then."""
        began, number = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while (due := began + number / rate) < ends:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                group.create_task(self.one(f"own-{int(began)}-{number}"))
                number += 1


async def measured(admissions: AdmissionWaits, pid: int, minutes: float, rate: float) -> list[Minute]:
    """Creates Jobs for some time; what each minute had."""
    ends, found = time.monotonic() + minutes * MINUTE, list[Minute]()
    load = asyncio.create_task(admissions.at_rate(rate, ends))
    while time.monotonic() < ends - 1:
        before, seen, samples = ProcessUsage.of(pid), len(admissions.took), list[float]()
        until = min(ends, time.monotonic() + MINUTE)
        while time.monotonic() < until:
            samples.append(ProcessUsage.of(pid).rss)
            await asyncio.sleep(0.25)
        spent = ProcessUsage.of(pid).cpu_seconds - before.cpu_seconds
        rss = statistics.median(samples)
        found.append(Minute(len(found), rss, max(samples), spent, Latency.of(admissions.took[seen:])))
        print(
            f"{time.strftime('%H:%M:%S')} RSS {rss:.0f} MiB, highest {max(samples):.0f}; {spent:.1f} s of CPU;"
            f" started after {found[-1].started}",
            flush=True,
        )
    await load
    return found


async def run(kubeconfig: Path, url: str, pid: int, chosen: argparse.Namespace) -> dict[str, Any]:
    """Measures before and during the lies."""
    async with Client(config.load(kubeconfig), throttle=Throttle(0)) as client:
        created = [*setting(Size(jobs=1000, queues=1, cohorts=1)), *worker(url)]
        for resource, namespace, raw in created:
            with contextlib.suppress(AlreadyExists):
                await client.create(resource, raw, namespace)
        for number in range(WAITING):
            waits = job(f"waits-{number}", "liar")
            waits["spec"]["managedBy"] = MULTIKUEUE_CONTROLLER
            await client.create(JOBS, waits, NAMESPACE)
        admissions = AdmissionWaits(client)
        following = asyncio.create_task(admissions.follow())
        try:
            before = await measured(admissions, pid, chosen.before, chosen.rate)
            await asyncio.to_thread(_read, f"{url}/begin")
            print("the worker lies from now on", flush=True)
            during = await measured(admissions, pid, chosen.minutes, chosen.rate)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    lies = orjson.loads(await asyncio.to_thread(_read, f"{url}/counts"))
    return {"before": before, "during": during, "lies": lies, "failed": admissions.failed}


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return bytes(answer.read())


def summary(minutes: Sequence[Minute]) -> tuple[float, float, float, float, float]:
    """RSS, highest RSS, CPU seconds a minute, and p50 and p99 of the starts: of each minute, in the middle; the highest
    of all for RSS.
    """
    middle = statistics.median
    return (
        middle(each.rss for each in minutes),
        max(each.highest_rss for each in minutes),
        middle(each.cpu_seconds for each in minutes),
        middle(each.started.p50 for each in minutes),
        middle(each.started.p99 for each in minutes),
    )


def unkept(found: dict[str, Any]) -> list[str]:
    """The promises that were not kept."""
    before, during = found["before"], found["during"]
    last = during[-max(1, len(during) // 10) :]
    was, now = summary(before[-max(1, len(before) // 2) :])[0], summary(last)[0]
    broken = [f"{len(found['failed'])} Jobs did not start: {found['failed'][:5]}"] if found["failed"] else []
    most = was * MOST_GROWTH + shares(None)[0] / MEBIBYTE
    return [*broken, *([f"memory grew from {was:.0f} to {now:.0f} MiB"] if now > most else [])]


def main() -> int:
    """Parses the arguments, measures, prints; 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(prog="bench.garbage", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long the worker lies (default 60)")
    parser.add_argument("--before", type=float, default=5.0, help="minutes in which it tells the truth (default 5)")
    parser.add_argument("--rate", type=float, default=2.0, help="Jobs a second (default 2)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    chosen = parser.parse_args()
    exit_on_sigterm()
    with contextlib.ExitStack() as stack:
        plane, scratch, note = stack.enter_context(bare_plane())
        url = stack.enter_context(liar())
        given = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "configuration.yaml"
        given.write_text(_CONFIGURATION)
        token = with_token(plane, scratch)
        process = stack.enter_context(served(token, scratch, "--config", str(given)))
        print(f"seiretsu serve --install on {os.cpu_count()} processors; {note}", flush=True)
        found = uvloop.run(run(token, url, process.pid, chosen))
    report.save(found, chosen.json)
    during = found["during"]
    tenth = max(1, len(during) // 10)
    report.table(
        "each minute, in the middle",
        ("", "RSS, MiB", "highest", "CPU s a minute", "start p50, ms", "p99"),
        [
            (name, *summary(minutes))
            for name, minutes in (
                ("the worker tells the truth", found["before"]),
                ("it lies: first tenth", during[:tenth]),
                ("all", during),
                ("last tenth", during[-tenth:]),
            )
        ],
    )
    report.table("lies told", ("", "times"), sorted(found["lies"].items()))
    for each in (broken := unkept(found)):
        print(each)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
