"""``make bench``: how long an admission call takes, idle and while 10,000 pending workloads are being scheduled.

Open loop: calls begin at a fixed pace whether or not earlier ones were answered, and each is timed from the moment it
was due, so that a stall costs every call that fell into it. Callers, API server and program share one machine here;
what the program itself measured, from a request's head to the end of its answer, is printed beside it.
"""

import argparse
import asyncio
import os
import re
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import aiohttp
import orjson

from bench.measure import timed
from bench.scenario import CLUSTER_QUEUES, JOBS, NAMESPACE, NAMESPACES, Size, job, setting
from bench.served import served
from controller.kube import config
from controller.kube.client import Client
from controller.kube.resource import Raw, Resource
from controller.kube.throttle import Throttle
from devcluster.controlplane import ControlPlane, Spec

HOOKS = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "", namespaced=False)
PATHS = ("/mutate-batch-v1-job", "/validate-batch-v1-job")
CREATORS = 8
_BUCKET = re.compile(r'^seiretsu_webhook_request_duration_seconds_bucket\{le="([^"]+)",path="[^"]*"\} (\S+)$', re.M)


class Quantiles(NamedTuple):
    """Milliseconds that calls took, and how many failed."""

    calls: int
    failed: int
    p50: float
    p95: float
    p99: float
    p999: float
    longest: float

    def __str__(self) -> str:
        parts = (f"p50 {self.p50:.1f}", f"p95 {self.p95:.1f}", f"p99 {self.p99:.1f}", f"p99.9 {self.p999:.1f}")
        return f"{'  '.join(parts)}  longest {self.longest:.1f} ms   ({self.calls} calls, {self.failed} failed)"


async def open_loop(call: Callable[[int], Awaitable[bool]], rate: float, seconds: float) -> Quantiles:
    """Begin ``rate`` calls a second; ``call`` returns whether its answer was right."""
    took: list[float] = []
    failed = 0
    began = time.perf_counter()

    async def one(number: int) -> None:
        nonlocal failed
        if not await call(number):
            failed += 1
        took.append(time.perf_counter() - began - number / rate)

    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(began + number / rate - time.perf_counter(), 0.0))
            group.create_task(one(number))
    ordered = sorted(each * 1e3 for each in took)

    def at(share: float) -> float:
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

    return Quantiles(len(ordered), failed, at(0.5), at(0.95), at(0.99), at(0.999), ordered[-1])


class Caller:
    """Calls the program's webhooks as the API server does: POST over connections that are kept."""

    def __init__(self, base: str, bundle: Path) -> None:
        self.base = base
        trust = ssl.create_default_context(cafile=str(bundle))
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=trust, keepalive_timeout=90))
        self._bodies = [orjson.dumps(_review(path, number)) for number, path in enumerate(PATHS)]

    async def call(self, number: int) -> bool:
        """One review, mutating and validating in turn; whether it was allowed."""
        turn = number % len(PATHS)
        headers = {"Content-Type": "application/json"}
        url = self.base + PATHS[turn]
        try:
            async with self.session.post(url, data=self._bodies[turn], headers=headers) as answer:
                return answer.status == 200 and b'"allowed":true' in await answer.read()
        except aiohttp.ClientError:
            return False

    async def buckets(self) -> Counter[float]:
        """The program's own histogram: how many calls took at most so many seconds."""
        async with self.session.get(self.base + "/metrics") as answer:
            found: Counter[float] = Counter()
            for bound, count in _BUCKET.findall(await answer.text()):
                found[float(bound)] += int(float(count))
            return found


def _review(path: str, number: int) -> Raw:
    made = job("asked", "lq-0")
    made["metadata"] |= {"namespace": NAMESPACE, "annotations": {"example.com/notes": "x" * 3000}}
    made["spec"]["suspend"] = path.startswith("/validate")
    request = {
        "uid": f"bench-{number}",
        "kind": {"group": "batch", "version": "v1", "kind": "Job"},
        "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
        "operation": "CREATE",
        "namespace": NAMESPACE,
        "name": "asked",
        "userInfo": {"username": "bench"},
        "object": made,
        "oldObject": None,
        "dryRun": False,
        "options": {},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def own(before: Counter[float], after: Counter[float]) -> str:
    """What the program measured itself, as the smallest bounds that hold 99 and 99.9 percent of its calls."""
    made = {bound: after[bound] - before[bound] for bound in sorted(after)}
    total = max(made.values(), default=0)

    def bound(share: float) -> str:
        held = next((bound for bound, count in made.items() if total and count >= total * share), float("inf"))
        return f"<= {held * 1e3:g} ms"

    return f"in the program itself: p99 {bound(0.99)}, p99.9 {bound(0.999)}"


async def measure(plane: ControlPlane, scratch: Path, rate: float, seconds: float, pending: int) -> None:
    """Take and print all the figures."""
    size = Size(pending, 30, 5)
    async with Client(config.load(plane.kubeconfig), throttle=Throttle(0)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})

        async def dry(number: int) -> bool:
            await client.create(JOBS, job(f"dry-{number}"), NAMESPACE, dry_run=True)
            return True

        alone = await open_loop(dry, rate, seconds)
        print(f"{'API server alone, dry-run create':40} {alone}", flush=True)
        serving = served(plane.kubeconfig, scratch)
        await asyncio.to_thread(serving.__enter__)
        try:
            await _with_us(client, scratch, size, rate, seconds)
        finally:
            await asyncio.to_thread(serving.__exit__, None, None, None)
            _stalls(scratch / "serve.log")


async def _with_us(client: Client, scratch: Path, size: Size, rate: float, seconds: float) -> None:
    for resource, namespace, raw in setting(size)[1:]:
        await client.create(resource, raw, namespace)
    (configuration,) = (await client.list(HOOKS))["items"]
    base = configuration["webhooks"][0]["clientConfig"]["url"].rsplit("/", 1)[0]
    caller = Caller(base, scratch / "certificates" / "ca.crt")
    try:
        await open_loop(caller.call, rate, 2)  # connections are made, code is warm
        await _report("webhook call, idle", caller, rate, seconds)
        await _hold(client, size, "HoldAndDrain")
        await timed(
            lambda number: client.create(JOBS, job(f"held-{number}", f"lq-{number % size.queues}"), NAMESPACE),
            size.jobs,
            clients=CREATORS,
        )
        await _report(f"webhook call, {size.jobs} pending at rest", caller, rate, seconds)
        releasing = asyncio.create_task(_hold(client, size, "None"))
        await _report(f"webhook call, {size.jobs} being scheduled", caller, rate, seconds)
        await releasing
    finally:
        await caller.session.close()


async def _report(title: str, caller: Caller, rate: float, seconds: float) -> None:
    before = await caller.buckets()
    quantiles = await open_loop(caller.call, rate, seconds)
    print(f"{title:40} {quantiles}", flush=True)
    print(f"{'':40} {own(before, await caller.buckets())}", flush=True)


def _stalls(log: Path) -> None:
    """Print where the program's watchdog has seen its event loop held up for more than half a second."""
    events = [orjson.loads(line) for line in log.read_bytes().splitlines() if line.startswith(b"{")]
    held = [event for event in events if event["event"] == "The event loop is held up"]
    print(f"stalls of the event loop of more than half a second: {len(held)}")
    for place, times in Counter("\n        ".join(event["stack"][-4:]) for event in held).most_common(5):
        print(f"    {times} in\n        {place}")


async def _hold(client: Client, size: Size, policy: str) -> None:
    for number in range(size.queues):
        await client.patch(CLUSTER_QUEUES, f"cq-{number}", "", {"spec": {"stopPolicy": policy}})


def main() -> None:
    """Parse the arguments, measure, print, end with 0."""
    parser = argparse.ArgumentParser(prog="bench.webhook", description=__doc__)
    parser.add_argument("--rate", type=float, default=300, help="calls a second (default 300)")
    parser.add_argument("--seconds", type=float, default=15, help="for how long each time (default 15)")
    parser.add_argument("--pending", type=int, default=10_000, help="how many workloads wait (default 10000)")
    chosen = parser.parse_args()
    print(f"{chosen.rate:g} calls a second, open loop; {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as scratch, ControlPlane.start(spec=Spec(name="bench", nodes=())) as plane:
        asyncio.run(measure(plane, Path(scratch), chosen.rate, chosen.seconds, chosen.pending))


if __name__ == "__main__":
    main()
