"""``make bench``: how long an admission call takes, idle and while 10,000 pending workloads are scheduled, compared
with the time of the API server for a Job without webhooks.

Calls come open loop from their own process (``bench.openloop``). Client, API server and program share one machine here:
the program's own measurement, from a request's head to the end of its answer, is printed too.
"""

import argparse
import asyncio
import os
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import orjson

from api.objects import Raw
from bench.measure import (
    AHEAD,
    BEHIND,
    ProcessUsage,
    bare_plane,
    counts,
    exit_on_sigterm,
    timed,
    waited_seconds,
    weigh_all,
)
from bench.openloop import Caller, Target
from bench.scenario import CLUSTER_QUEUES, JOBS, NAMESPACE, NAMESPACES, WORKLOADS, Size, job, setting
from bench.served import hooks_at, metrics, served
from controller.kube import config
from controller.kube.client import Client
from controller.kube.flow.throttle import Throttle
from devcluster.controlplane import ControlPlane

PATHS = ("/mutate-batch-v1-job", "/validate-batch-v1-job")
CREATORS = 16
WARM_SECONDS = 2.0
STILL_SECONDS = 4.0
PATIENCE_SECONDS = 600.0
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.M)
_CALLS = "seiretsu_webhook_request_duration_seconds_bucket"
_ADMITTED = "kueue_admitted_workloads_total"


class Pace(NamedTuple):
    """How many calls a second, and for how long each time."""

    rate: float
    seconds: float


class Program:
    """The measured ``serve``: its address, and its counters."""

    def __init__(self, base: str, bundle: Path, pid: int) -> None:
        self.base = base
        self.bundle = bundle
        self.pid = pid

    def caller(self) -> Caller:
        """A client that asks for admission of a usual Job of 4 KB, mutating and validating in turn."""
        requests = [(path, orjson.dumps(review(path, number))) for number, path in enumerate(PATHS)]
        return Caller(Target(self.base, requests, b'"allowed":true', ca=self.bundle))

    def counted(self) -> "Counted":
        """Returns its counters and usage now."""
        calls: Counter[float] = Counter()
        admitted = 0.0
        for name, labels, value in _SAMPLE.findall(metrics(self.base, self.bundle)):
            if name == _CALLS:
                calls[float(labels.partition('le="')[2].partition('"')[0])] += int(float(value))
            admitted += float(value) if name == _ADMITTED else 0.0
        return Counted(calls, admitted, ProcessUsage.of(self.pid).cpu_seconds, waited_seconds(self.pid))


class Counted(NamedTuple):
    """How many calls took at most so many seconds; workloads admitted; seconds on a processor, and waiting for one."""

    calls: Counter[float]
    admitted: float
    cpu: float
    waited: float

    def since(self, before: "Counted", seconds: float) -> str:
        """Returns the increase in that many seconds, as a line."""
        made = {bound: self.calls[bound] - before.calls[bound] for bound in sorted(self.calls)}
        parts = (
            f"p99 {_bound(made, 0.99)}, p99.9 {_bound(made, 0.999)}",
            f"{(self.cpu - before.cpu) / seconds:.0%} on a processor",
            f"{(self.waited - before.waited) / seconds:.0%} waiting for one",
            f"{self.admitted - before.admitted:.0f} workloads admitted meanwhile",
        )
        return f"the program itself: {', '.join(parts)}"


async def measured(title: str, caller: Caller, pace: Pace, program: Program | None = None) -> None:
    """Calls for that time, and prints the latencies; for a program also its own counters."""
    before = await asyncio.to_thread(program.counted) if program else None
    found = await asyncio.to_thread(caller.run, *pace)
    print(f"{title:40} {found}", flush=True)
    if program is not None and before is not None:
        after = await asyncio.to_thread(program.counted)
        print(f"{'':40} {after.since(before, pace.seconds)}", flush=True)


def _bound(made: dict[float, int], share: float) -> str:
    """The smallest bound that holds this share of the calls."""
    total = max(made.values(), default=0)
    held = next((bound for bound, count in made.items() if total and count >= total * share), float("inf"))
    return f"<= {held * 1e3:g} ms"


def review(path: str, number: int) -> Raw:
    """Returns the review of the creation of a usual Job of 4 KB."""
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


async def measure(plane: ControlPlane, scratch: Path, pace: Pace, pending: int) -> None:
    """Measures and prints all figures."""
    size = Size(pending, 30, 5)
    async with Client(config.load(plane.kubeconfig), throttle=Throttle(0)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await _alone(plane, pace)
        # They are there before the program is: sixteen clients make them in a fraction of the time.
        queued = [job(f"pending-{number}", f"lq-{number % size.queues}") for number in range(size.jobs)]
        await timed(lambda number: client.create(JOBS, queued[number], NAMESPACE), size.jobs, clients=CREATORS)
        with served(plane.kubeconfig, scratch) as process:
            program = Program(await hooks_at(client), scratch / "certificates" / "ca.crt", process.pid)
            await _with_us(plane, client, program, size, pace)
        _stalls(scratch / "serve.log")


async def _alone(plane: ControlPlane, pace: Pace) -> None:
    """Measures the API server alone: dry-run creates of Jobs without webhooks."""
    body = orjson.dumps(job("dry"))
    at = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs?dryRun=All"
    with Caller(Target(plane.server, [(at, body)], kubeconfig=plane.kubeconfig)) as caller:
        await asyncio.to_thread(caller.run, pace.rate, WARM_SECONDS)
        await measured("API server alone, dry-run create", caller, pace)


async def _with_us(plane: ControlPlane, client: Client, program: Program, size: Size, pace: Pace) -> None:
    """Idle, with queues that hold everybody, and while they let everybody go."""
    await _until_pending(client, size.jobs)
    for resource, namespace, raw in setting(size)[1:]:
        if resource is CLUSTER_QUEUES:
            raw["spec"]["stopPolicy"] = "Hold"
        await client.create(resource, raw, namespace)
    await _until_still(plane)
    with program.caller() as caller:
        await asyncio.to_thread(caller.run, pace.rate, WARM_SECONDS)  # code is warm, caches have settled
        await _twice(plane, f"webhook call, idle, {size.jobs} pending", caller, pace, program)
        await _release(client, size)
        await _twice(plane, f"webhook call, {size.jobs} being scheduled", caller, pace, program)


async def _twice(plane: ControlPlane, title: str, caller: Caller, pace: Pace, program: Program) -> None:
    """With the API server and etcd on the program's processors, with the lowest weight, as if they had their own
    machine.
    """
    await measured(title, caller, pace, program)
    if weigh_all(plane, BEHIND):
        await measured("the same, API server and etcd behind", caller, pace, program)
        weigh_all(plane, AHEAD)


async def _until_still(plane: ControlPlane) -> None:
    """Waits until nothing more is written: every Workload has its status, and the API server has converted all of them
    for its caches of older versions, which takes much longer.
    """
    async with asyncio.timeout(PATIENCE_SECONDS):
        before = None
        while (now := await _busy(plane)) != before:
            before = now
            await asyncio.sleep(STILL_SECONDS)


async def _busy(plane: ControlPlane) -> tuple[int, int]:
    found = await counts(config.load(plane.kubeconfig))
    return sum(found.writes[verb, "workloads/status"] for verb in ("PUT", "PATCH")), found.conversions


async def _until_pending(client: Client, count: int) -> None:
    """Wait until so many Workloads are there."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if len((await client.list(WORKLOADS))["items"]) == count:
                return
            await asyncio.sleep(2)


async def _release(client: Client, size: Size) -> None:
    for number in range(size.queues):
        await client.patch(CLUSTER_QUEUES, f"cq-{number}", "", {"spec": {"stopPolicy": "None"}})


def _stalls(log: Path) -> None:
    """Print where the program's watchdog has seen its event loop held up for more than half a second."""
    events = [orjson.loads(line) for line in log.read_bytes().splitlines() if line.startswith(b"{")]
    held = [event for event in events if event["event"] == "The event loop is held up"]
    print(f"stalls of the event loop of more than half a second: {len(held)}")
    for place, times in Counter("\n        ".join(event["stack"][-4:]) for event in held).most_common(5):
        print(f"    {times} in\n        {place}")


def main() -> None:
    """Parse the arguments, measure, print, end with 0."""
    parser = argparse.ArgumentParser(prog="bench.webhook", description=__doc__)
    parser.add_argument("--rate", type=float, default=300, help="calls a second (default 300)")
    parser.add_argument("--seconds", type=float, default=15, help="for how long each time (default 15)")
    parser.add_argument("--pending", type=int, default=10_000, help="how many workloads wait (default 10000)")
    chosen = parser.parse_args()
    exit_on_sigterm()
    with bare_plane() as (plane, scratch, note):
        print(f"{chosen.rate:g} calls a second, open loop; {os.cpu_count()} processors, {note}", flush=True)
        asyncio.run(measure(plane, scratch, Pace(chosen.rate, chosen.seconds), chosen.pending))


if __name__ == "__main__":
    main()
