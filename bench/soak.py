"""Faults of the leader at full size, and then hours of quiet work: ``python -m bench.soak [--minutes 120]``.

Replicas of ``seiretsu serve``, usually two, run behind a balancer that stands for a Service, each behind a fault proxy
of its own, on a control plane with nodes. ``bench.traffic`` creates Jobs of every sort; the observer reads etcd from
the first to the last moment. Four parts follow each other, and each can be left out with its number 0:

1. ``--handovers``: SIGTERM and kill -9 of the leader with the lease of the default Configuration;
2. ``--kills``: kill -9 at each write point (``tests.write_points``), before the write reaches the API server and after;
   the lease is deleted then, so that the next leader need not wait for its end; there are three replicas, so that
   the next kill need not wait for the start of the one that was killed, and each is a fork of a process that has
   imported the program; ``bench.traffic`` creates what makes the write necessary;
3. ``--faults``: API server and leader stopped (SIGSTOP), API server killed, lease faults, a bad network;
4. ``--minutes``: no faults: memory, tasks and the delay of the event loop of both replicas.

At the end no promise may have been broken: exit 1 otherwise. The seed that is printed repeats the same faults.
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import uvloop

from bench.lag import Idle
from bench.measure import ahead, exit_on_sigterm
from bench.report import save, table
from bench.traffic import Traffic
from controller.kube import config
from controller.kube.client import Client
from devcluster.controlplane import ControlPlane, Spec
from devcluster.nodes import NodeGroup
from tests.cluster.test_faults import Misfortune
from tests.eventually import eventually
from tests.faults import Request, Reset, html, status
from tests.observing import Observer
from tests.replicas import Candidate, balanced, candidates, define, holder, of_the_leader, release, settings
from tests.write_points import POINTS, arm

PATIENCE_SECONDS, UNMET_SECONDS, POLL_SECONDS, SAMPLE_SECONDS, REPORT_SECONDS = 600.0, 300.0, 0.05, 5.0, 300.0
HANGS_SECONDS, LEASE_FAULT_SECONDS, NETWORK_SECONDS = 60.0, 8.0, 10.0
RENEW_DEADLINE_SECONDS = 10.0
"""As in the default Configuration: after this time without an answer the leader writes no more."""
KILLED = 3
"""The number of replicas while they are killed: one leads, one is ready to follow, one starts."""
WARM_UP_SHARE = 0.25
LONGEST_LAG = 10.0
MOST_GROWTH, MOST_LAG_MS = 5.0, 20.0
"""What memory and tasks may grow by without faults, in percent, and how long the event loop may delay its timers."""
TAKEOVER_SECONDS = {signal.SIGTERM: 3.0, signal.SIGKILL: 17.0}
"""Within this time another replica has the lease when the leader gets one of these signals."""
PREEMPTION = ("low",) * 6 + ("high",)
LEADS_TO: Mapping[str, Sequence[str]] = {
    "reserve": ("checked",),
    "say why it waits": ("withdrawn",),
    **dict.fromkeys(("evict", "release", "suspend", "reset the status of the Job"), PREEMPTION),
    "delete the Workload": ("withdrawn",),
    "finalizer of a ClusterQueue": ("queue",),
}
"""What is created so that the leader makes a write that is seldom otherwise."""
LAG, TASKS, RSS = "seiretsu_event_loop_lag_seconds_bucket", "seiretsu_event_loop_tasks", "process_resident_memory_bytes"


class SoakFault(NamedTuple):
    """A fault that was injected. Seconds until another replica led (``lease``), and until the next admission."""

    name: str
    admission: float
    lease: float = 0.0
    failed: int = 0


class Steady(NamedTuple):
    """A replica without faults: MiB and tasks in the first and the last tenth of the time, 99% of the loop's delays."""

    name: str
    memory: float
    memory_then: float
    growth: float
    tasks: float
    tasks_then: float
    lag_ms: float


def unkept(steady: list[Steady], met: list[SoakFault], unmet: list[str], failed: int) -> list[str]:
    """Returns the promises that a run did not keep, except those that the observer knows. ``failed`` creates are those
    without any fault.
    """
    found = [f"no write was met at which to kill the leader: {point}" for point in unmet]
    for how, seconds in TAKEOVER_SECONDS.items():
        slow = [each.lease for each in met if each.name.startswith(how.name) and each.lease > seconds]
        found += [f"{how.name}: another one led after {lease:.1f} s, not within {seconds:g}" for lease in slow]
    found += [f"{failed} creates failed without any fault"] if failed else []
    for each in steady:
        if each.growth >= MOST_GROWTH:
            found.append(f"the memory of the {each.name} grew by {each.growth:.1f}%")
        if each.tasks_then >= each.tasks * (1 + MOST_GROWTH / 100):
            found.append(f"the {each.name} had {each.tasks:.0f} tasks at first and {each.tasks_then:.0f} at the end")
        if each.lag_ms >= MOST_LAG_MS:
            found.append(f"the event loop of the {each.name} was late by {each.lag_ms:.1f} ms (p99)")
    return found


class Soak:
    """One run on one control plane."""

    def __init__(self, plane: ControlPlane, client: Client, traffic: Traffic, observer: Observer, seed: int) -> None:
        self.plane = plane
        self.client = client
        self.traffic = traffic
        self.observer = observer
        self.met: list[SoakFault] = []
        self.unmet: list[str] = []
        self.wrong: list[str] = []
        self.random = random.Random(seed)

    async def admissions(self) -> int:
        """How many there were until now."""
        return (await asyncio.to_thread(self.observer.look)).admissions

    async def progress(self, name: str, began: float, *, hands_over: str = "") -> None:
        """Waits for the next admission after a fault, and with a holder also for the lease of another one."""
        lease, failed = 0.0, len(self.traffic.failures)
        before = await self.admissions()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while hands_over and await holder(self.client) in ("", hands_over):  # noqa: ASYNC110 - it is in etcd
                await asyncio.sleep(POLL_SECONDS)
            lease = time.monotonic() - began if hands_over else 0.0
            while await self.admissions() == before:  # noqa: ASYNC110 - it is in etcd
                await asyncio.sleep(POLL_SECONDS)
        self.met.append(SoakFault(name, time.monotonic() - began, lease, len(self.traffic.failures) - failed))
        line = f"{name}: lease {lease:.1f} s, admission {self.met[-1].admission:.1f} s"
        print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)

    async def hand_over(self, both: list[Candidate], how: signal.Signals) -> None:
        """Ends the leader with a signal, and starts its next process."""
        leader = await leading(both)
        held, began = await holder(self.client), time.monotonic()
        os.kill(leader.served.process.pid, how)
        await self.progress(f"{how.name} of the leader, default lease", began, hands_over=held)
        await leader.restart()
        await all_ready(both)

    async def kill_at(self, group: list[Candidate], point: str, *, reaches: bool) -> None:
        """Kills the leader when it makes this write. The next process of the one that was killed starts while the
        others go on: a kill needs a leader and one follower that is ready.
        """
        await leading(group)
        await eventually(lambda: sum(each.warm for each in group) > 1, within=PATIENCE_SECONDS)
        provoking = asyncio.create_task(self.traffic.provoke(LEADS_TO.get(point, ("short",))))
        arm([each.killer for each in group], point, reaches=reaches)
        try:
            await eventually(lambda: not all(each.alive for each in group), within=UNMET_SECONDS)
        except TimeoutError:
            group[0].killer.armed.clear()
            self.unmet.append(point)
            return
        finally:
            provoking.cancel()
        began = time.monotonic()
        await release(self.client)
        await self.progress(f"kill -9 {'after' if reaches else 'before'}: {point}", began)
        for each in group:
            if not each.alive:
                await each.restart()
            each.proxy.forget()

    async def hang_api_server(self, both: list[Candidate]) -> None:
        """Stops the API server longer than the lease lasts; no replica may try a write after its end (T12)."""
        await leading(both)
        await asyncio.to_thread(self.plane.pause)
        await asyncio.sleep(RENEW_DEADLINE_SECONDS)
        sent = [len(each.proxy.seen) for each in both]
        await asyncio.sleep(HANGS_SECONDS - RENEW_DEADLINE_SECONDS)
        for each, before in zip(both, sent, strict=True):
            self.late_writes(each, before)
        await asyncio.to_thread(self.plane.resume)
        await self.progress(f"API server stopped for {HANGS_SECONDS:.0f} s", time.monotonic())
        await self.revive(both)

    async def kill_api_server(self, both: list[Candidate]) -> None:
        """Kills the API server and starts it again."""
        await asyncio.to_thread(self.plane.kill_apiserver)
        await asyncio.to_thread(self.plane.start_apiserver)
        await self.progress("API server killed and started", time.monotonic())
        await self.revive(both)

    async def hang_leader(self, both: list[Candidate]) -> None:
        """Stops the leader until another one leads; it may write nothing when it continues."""
        leader = await leading(both)
        held, began = await holder(self.client), time.monotonic()
        os.kill(leader.served.process.pid, signal.SIGSTOP)
        await self.progress("leader stopped until another one leads", began, hands_over=held)
        sent = len(leader.proxy.seen)
        os.kill(leader.served.process.pid, signal.SIGCONT)
        await asyncio.to_thread(leader.served.wait)
        self.late_writes(leader, sent)
        await self.revive(both)

    def late_writes(self, replica: Candidate, before: int) -> None:
        """Notes the leader's writes among the requests of a replica that came after so many others."""
        late = [each.path for each in replica.proxy.seen[before:] if of_the_leader(each)]
        if late:
            self.wrong.append(f"the old leader wrote after its lease had ended: {late}")

    async def spoil_leases(self, both: list[Candidate]) -> None:
        """Answers renewals with errors for almost as long as a leader may go without one."""
        leader, held = await leading(both), await holder(self.client)
        faults = (html(), status(409, "Conflict"), status(500, "InternalError"), Reset())
        began = time.monotonic()

        def draw(request: Request) -> object:
            return self.random.choice(faults) if "/leases/" in request.path else None

        leader.proxy.draw = draw  # type: ignore[assignment]
        await asyncio.sleep(LEASE_FAULT_SECONDS)
        leader.proxy.draw = leader.killer
        await self.progress(f"renewals fail for {LEASE_FAULT_SECONDS:.0f} s", began)
        if await holder(self.client) != held:
            self.wrong.append("the lease went to another replica although its time had not passed")

    async def spoil_network(self, both: list[Candidate]) -> None:
        """Loses, refuses, delays and cuts calls of both replicas."""
        for each in both:
            each.proxy.draw = Misfortune(self.random.randrange(1000))
        await asyncio.sleep(NETWORK_SECONDS)
        for each in both:
            each.proxy.draw = each.killer
            await each.proxy.cut()
        await self.progress(f"bad network for {NETWORK_SECONDS:.0f} s", time.monotonic())
        await self.revive(both)

    async def revive(self, both: list[Candidate]) -> None:
        """Starts again what ended because its lease had ended."""
        await asyncio.sleep(1.0)
        for each in both:
            if not each.alive:
                await each.restart()
        await all_ready(both)


async def leading(both: list[Candidate]) -> Candidate:
    """Waits until one of them leads, and returns it."""
    await eventually(lambda: sum(each.leads for each in both) == 1, within=PATIENCE_SECONDS)
    return next(each for each in both if each.leads)


async def all_ready(both: list[Candidate]) -> None:
    """Waits until each is ready."""
    for each in both:
        await each.ready()


def scraped(port: int) -> dict[str, float]:
    """The series of a replica that are read here."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return series(answer.read().decode())


def series(page: str) -> dict[str, float]:
    """Returns those series of a page of metrics that are read here: a sample of all of them, kept every five seconds
    for two hours, would take hundreds of MiB.
    """
    lines = (line.rpartition(" ") for line in page.splitlines() if line.startswith((LAG, TASKS, RSS)))
    return {sys.intern(name): float(value) for name, _, value in lines}


def quantile(before: dict[str, float], after: dict[str, float], share: float) -> float:
    """The delay of the event loop that this share of its timers stayed within, in milliseconds; interpolated."""
    counts: list[tuple[float, float]] = []
    for name, value in after.items():
        if name.startswith(LAG):
            ends = float(name.partition('le="')[2].rstrip('"}'))
            counts.append((ends, value - before.get(name, 0.0)))
    counts.sort()
    wanted, low, below = share * counts[-1][1], 0.0, 0.0
    for bound, count in counts:
        if count >= wanted:
            return 1e3 * (low + (min(bound, LONGEST_LAG) - low) * (wanted - below) / max(count - below, 1e-9))
        low, below = bound, count
    return 1e3 * low


async def steady(both: list[Candidate], ports: list[int], minutes: float) -> tuple[list[Steady], float]:
    """Samples both replicas without any fault, and prints a line for each from time to time; returns what became of
    them, and the delay of the loop of a process that does nothing, in milliseconds.
    """
    await leading(both)
    names = ["leader" if each.leads else "follower" for each in both]
    ends, warm = time.monotonic() + 60 * minutes, time.monotonic() + 60 * minutes * WARM_UP_SHARE
    samples: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    reported = time.monotonic()
    with Idle() as idle:
        while time.monotonic() < ends:
            await asyncio.sleep(SAMPLE_SECONDS)
            for name, port in zip(names, ports, strict=True):
                samples[name].append(await asyncio.to_thread(scraped, port))
            if warm and time.monotonic() > warm:
                warm = 0.0
                idle.forget()
                samples = defaultdict(list, {name: found[-1:] for name, found in samples.items()})
            if time.monotonic() > reported + REPORT_SECONDS:
                reported = time.monotonic()
                for name, found in samples.items():
                    print_replica(name, found[-1 - round(REPORT_SECONDS / SAMPLE_SECONDS) :])
                for each in both:  # two hours of requests and logs are not needed, and would fill this process
                    each.proxy.forget()
                    each.served.log.clear()
        return [row(name, found) for name, found in samples.items()], idle.quantile_ms(0.99)


def print_replica(name: str, samples: list[dict[str, float]]) -> None:
    """Prints what a replica has now, and the delay of its event loop in these samples."""
    last, lag = samples[-1], quantile(samples[0], samples[-1], 0.99)
    words = f"{last[RSS] / 2**20:.1f} MiB, {last[TASKS]:.0f} tasks, loop lag p99 {lag:.1f} ms"
    print(f"{time.strftime('%H:%M:%S')} {name}: {words}", flush=True)


def row(name: str, samples: list[dict[str, float]]) -> Steady:
    """What became of a replica between the first and the last tenth of its samples."""
    tenth = max(1, len(samples) // 10)

    def means(series: str) -> tuple[float, float]:
        ends = (samples[:tenth], samples[-tenth:])
        first, last = (sum(each[series] for each in some) / tenth for some in ends)
        return first, last

    first, last = (each / 2**20 for each in means(RSS))
    lag = quantile(samples[0], samples[-1], 0.99)
    return Steady(name, first, last, 100 * (last / first - 1), *means(TASKS), lag)


def mean_and_longest(seconds: list[float]) -> tuple[float, float]:
    """Both."""
    return sum(seconds) / len(seconds), max(seconds)


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def soak(plane: ControlPlane, chosen: argparse.Namespace, scratch: Path) -> int:
    """Runs the parts; returns the exit code."""
    seed = chosen.seed
    print(f"seed {seed}", flush=True)
    connection = config.load(plane.kubeconfig)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(connection, field_manager="soak", deadline_seconds=20))
        balancer, port = await stack.enter_async_context(balanced())
        await define(client, port)
        observer = Observer(plane, "soak", drained=True, patience=120)
        stack.callback(observer.close)
        traffic = Traffic(client, chosen.rate, seed)
        run = Soak(plane, client, traffic, observer, seed)

        @contextlib.asynccontextmanager
        async def replicas(
            name: str, count: int = 2, *, forked: bool = False
        ) -> AsyncIterator[tuple[list[Candidate], list[int]]]:
            ports = [free_port() for _ in range(count)]
            files = [
                settings(scratch / f"{name}-{number}.yaml", metrics=f"127.0.0.1:{each}")
                for number, each in enumerate(ports)
            ]
            async with candidates(connection, scratch, files, balancer, forked=forked) as both:
                try:
                    yield both, ports
                finally:
                    for each in both:
                        each.proxy.draw = lambda request: None
                        if each.alive:
                            await asyncio.to_thread(each.served.stop)
                    balancer.replicas.clear()

        began = time.monotonic()
        running: asyncio.Task[None] | None = None
        rows: list[Steady] = []
        idle = 0.0
        async with replicas("first") as (both, _):
            await traffic.prepare()
            running = asyncio.create_task(traffic.run())
            for number in range(2 * chosen.handovers):
                await run.hand_over(both, (signal.SIGTERM, signal.SIGKILL)[number % 2])
        if chosen.kills:
            async with replicas("killed", KILLED, forked=True) as (group, _):
                for number in range(chosen.kills):
                    for place, point in run.random.sample(list(enumerate(POINTS)), len(POINTS)):
                        await run.kill_at(group, point, reaches=bool((number + place) % 2))
        if chosen.faults:
            async with replicas("faulty") as (both, _):
                kinds: list[Callable[[list[Candidate]], Awaitable[None]]] = [
                    *(run.hang_leader, run.spoil_leases, run.spoil_network, run.hang_api_server, run.kill_api_server)
                ]
                for _ in range(chosen.faults):
                    for fault in run.random.sample(kinds, len(kinds)):
                        await fault(both)
        async with replicas("steady") as (both, ports):
            failed = len(traffic.failures)
            if chosen.minutes:
                with ahead(plane) as note:
                    print(note, flush=True)
                    rows, idle = await steady(both, ports, chosen.minutes)
            failed = len(traffic.failures) - failed
            await traffic.drained(within=600)
            observed = await asyncio.to_thread(observer.end)
            broken = [*observed.broken, *run.wrong, *unkept(rows, run.met, run.unmet, failed)]
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    report = defaultdict(list)
    for each in run.met:
        report[each.name].append(each)
    print(f"\nseed {seed}, {(time.monotonic() - began) / 60:.0f} minutes, {chosen.rate:g} Jobs a second")
    table(
        "faults",
        ("fault", "times", "lease, longest s", "admission, mean s", "longest s"),
        [
            (name, len(met), max(each.lease for each in met), *mean_and_longest([each.admission for each in met]))
            for name, met in sorted(report.items())
        ],
    )
    table(
        f"{chosen.minutes:g} minutes without faults, {failed} failed creates",
        ("replica", "MiB at first", "at the end", "growth %", "tasks at first", "at the end", "loop lag p99 ms"),
        [*rows, ("a process that does nothing", *[0.0] * 5, idle)],
    )
    totals: list[tuple[str, float]] = [
        ("faults injected", len(run.met)),
        ("write points not met", len(run.unmet)),
        ("Jobs created", traffic.created.total()),
        ("changes observed", observed.changes),
        ("admissions", observed.admissions),
        ("evictions", observed.evictions),
        ("longest time that a pod ran without quota, s", round(observed.without_quota, 1)),
        ("violations", len(observed.broken) + len(run.wrong)),
        ("promises not kept", len(broken)),
    ]
    table("totals", ("", "count"), totals)
    for sentence in broken:
        print(f"BROKEN: {sentence}")
    save({"seed": seed, "met": run.met, "unmet": run.unmet, "steady": rows, "totals": dict(totals)}, chosen.json)
    return int(bool(broken))


def main() -> None:
    """Runs the soak and prints its tables."""
    exit_on_sigterm()
    parser = argparse.ArgumentParser(description="Faults of the leader, then hours of quiet work, with an observer.")
    parser.add_argument("--minutes", type=float, default=120, help="without faults, at the end (default: 120)")
    parser.add_argument("--kills", type=int, default=50, help="of each write point (default: 50)")
    parser.add_argument("--handovers", type=int, default=5, help="by SIGTERM, and as many by kill -9 (default: 5)")
    parser.add_argument("--faults", type=int, default=10, help="times of each other fault (default: 10)")
    parser.add_argument("--rate", type=float, default=5, help="Jobs created a second (default: 5)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="repeats a run (default: any)")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        ControlPlane.start(spec=Spec(nodes=(NodeGroup(4),))) as plane,
    ):
        sys.exit(uvloop.run(soak(plane, chosen, Path(scratch))))


if __name__ == "__main__":
    main()
