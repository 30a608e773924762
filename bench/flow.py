"""``python -m bench.flow``: what each figure of ``controller.kube.flow.limits`` does, with half of it and twice.

The classes of ``controller.kube.flow`` themselves, on a virtual clock, before a model of an API server: two processors
that serve one call after the other, in the order of their arrival. No cluster and no time of a machine is in the
result, so the same code gives the same table everywhere. The model has no watch, no etcd and no other controllers: it
shows which way a figure works and how strongly, not how many writes a second a cluster makes (``bench.contention``).
With a file name it writes the page docs/flow.md.
"""

import asyncio
import heapq
import itertools
import random
import statistics
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from api.objects import Key, Raw
from controller.kube.client import Client
from controller.kube.events import EventSender, ObjectReference
from controller.kube.flow import limits
from controller.kube.flow.budget import Budget
from controller.kube.flow.decisions import Decisions
from controller.kube.flow.precedence import Precedence
from controller.kube.flow.pressure import Pressure
from controller.kube.flow.throttle import Throttle
from controller.kube.workqueue import WorkQueue

WRITE, CREATE, STATUS = 0.007, 0.010, 0.005
"""Seconds of one processor for a write of the controller, for a client's create, and for the status of a queue."""
ON_THE_WAY, FAR = 0.003, 0.1
"""Seconds of a call that take no processor of the server, near and far away."""
Figures = dict[str, float]
Play = Callable[[], Coroutine[Any, Any, Figures]]


class VirtualLoop(asyncio.SelectorEventLoop):
    """Never waits: as soon as nothing else is left to do, its time is that of the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self.now

    def _run_once(self) -> None:
        if not self._ready:  # type: ignore[attr-defined]
            timers = [each.when() for each in self._scheduled if not each.cancelled()]  # type: ignore[attr-defined]
            if timers:
                self.now = max(self.now, min(timers))
        super()._run_once()  # type: ignore[misc]


class Server:
    """Two processors; each call takes its seconds of one of them, times ``slow``."""

    def __init__(self, on_the_way: float = ON_THE_WAY) -> None:
        self.slow = 1.0
        self._on_the_way = on_the_way
        self._free = [0.0, 0.0]

    async def call(self, seconds: float) -> float:
        """Returns after how long the call is answered."""
        now = _now()
        begins = max(now, self._free[0])
        ends = begins + seconds * self.slow
        heapq.heapreplace(self._free, ends)
        await asyncio.sleep(ends - now + self._on_the_way)
        return _now() - now

    def stall(self, seconds: float) -> None:
        """Answers nothing for this time."""
        self._free = [max(each, _now()) + seconds for each in self._free]


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _every(seconds: float, until: float, make: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Begins calls at random moments, at this interval on average, whether or not earlier ones are answered; returns
    when all are.
    """
    moments = random.Random(7)
    async with asyncio.TaskGroup() as group:
        for number in itertools.count():
            await asyncio.sleep(moments.expovariate(1 / seconds))
            if _now() >= until:
                return
            group.create_task(make(number))


async def _again(until: float, make: Callable[[], Awaitable[object]]) -> int:
    """Makes one call after the other; returns how many."""
    calls = 0
    while _now() < until:
        await make()
        calls += 1
    return calls


def _p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[-1]


class _Creates:
    """Clients create jobs; the controller makes three writes for each, and for those that waited before."""

    def __init__(self, waited: int = 0) -> None:
        self.server = Server()
        self.precedence = Precedence(_now)
        self.creates: list[float] = []
        self.writes: list[float] = []
        self._decided = asyncio.Semaphore(limits.DECIDED_WRITES)
        self._controller: set[asyncio.Task[None]] = set()
        self._waited = waited

    async def create(self, number: int = 0) -> None:
        """One job: two admission calls, the create, and the start after it, for which the client does not wait."""
        began = _now()
        self.precedence.called()
        self.precedence.called()
        await self.server.call(CREATE)
        self.creates.append(_now() - began)
        self._start(number)

    async def over(self, clients: Coroutine[Any, Any, object]) -> None:
        """Returns when the clients have ended; writes that are left then are not made."""
        self.precedence.called()
        for number in range(self._waited):
            self._start(number)
        await clients
        for task in self._controller:
            task.cancel()
        await asyncio.gather(*self._controller, return_exceptions=True)

    def _start(self, number: int) -> None:
        task = asyncio.create_task(self._written(f"tenant-{number % 5}"))
        self._controller.add(task)
        task.add_done_callback(self._controller.discard)

    async def _written(self, namespace: str) -> None:
        for _ in range(3):
            async with self._decided:
                asked = _now()
                async with self.precedence.turn(namespace):
                    await self.server.call(WRITE)
                self.writes.append(_now() - asked)


async def _steady(rate: float) -> Figures:
    """Jobs at a fixed rate for ten seconds, while 500 start that waited before."""
    world = _Creates(waited=500)
    await world.over(_every(1 / rate, 10.0, world.create))
    return {"create p99 ms": 1000 * _p99(world.creates), "writes a second": len(world.writes) / 10.0}


async def _pauses() -> Figures:
    """One client that creates a job, waits 0.7 s and creates the next, while 1,000 start that waited before."""
    world = _Creates(waited=1000)

    async def create() -> None:
        await world.create()
        await asyncio.sleep(0.7)

    await world.over(_again(10.0, create))
    return {"create p99 ms": 1000 * _p99(world.creates), "writes a second": len(world.writes) / 10.0}


async def _burst() -> Figures:
    """100 jobs in half a second every four seconds, while 1,000 start that waited before."""
    world = _Creates(waited=1000)

    async def bursts() -> None:
        for number in range(5):
            await _every(0.005, 4.0 * number + 0.5, world.create)
            await asyncio.sleep(4.0 * (number + 1) - _now())

    await world.over(bursts())
    return {"create p99 ms": 1000 * _p99(world.creates), "writes a second": len(world.writes) / 20.0}


async def _hangs() -> Figures:
    """30 jobs a second; the API server answers nothing for ten seconds, while 500 start that waited before."""
    world = _Creates(waited=500)
    in_flight: list[int] = []

    async def stalls() -> None:
        await asyncio.sleep(1.0)
        world.server.stall(10.0)
        await asyncio.sleep(1.4)
        in_flight.append(world.precedence._in_flight)

    async def clients() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(stalls())
            group.create_task(_every(1 / 30, 20.0, world.create))

    await world.over(clients())
    return {"writes in flight after 1.4 s": in_flight[0], "longest write s": max(world.writes)}


async def _storm() -> Figures:
    """30 writers; for 20 seconds the server answers 429 to all but 60 calls a second."""
    throttle = Throttle(clock=_now)
    counts = {"refused": 0, "passed": 0}
    allowed, at, busy_until = 0.0, 0.0, 20.0
    whole_at = float("inf")

    async def call() -> None:
        nonlocal allowed, at, whole_at
        await throttle.take()
        now = _now()
        if now < busy_until:
            allowed, at = min(60.0, allowed + (now - at) * 60.0), now
            if allowed < 1.0:
                counts["refused"] += 1
                throttle.throttled()
                await asyncio.sleep(1.0)  # Retry-After
                return
            allowed -= 1.0
            counts["passed"] += 1
        throttle.passed()
        if now >= busy_until and throttle.rate == throttle.qps:
            whole_at = min(whole_at, now)
        await asyncio.sleep(WRITE)

    async with asyncio.TaskGroup() as group:
        for _ in range(30):
            group.create_task(_again(50.0, call))
    return {
        "refused a second": counts["refused"] / busy_until,
        "passed a second": counts["passed"] / busy_until,
        "whole rate after s": whole_at - busy_until,
    }


async def _refuses_all() -> Figures:
    """30 writers; for a minute the server answers 429 to all, then to none."""
    throttle = Throttle(clock=_now)
    asked, whole_at = 0, float("inf")

    async def call() -> None:
        nonlocal asked, whole_at
        await throttle.take()
        if _now() < 60.0:
            asked += _now() >= 30.0
            throttle.throttled()
            await asyncio.sleep(1.0)  # Retry-After
            return
        throttle.passed()
        if throttle.rate == throttle.qps:
            whole_at = min(whole_at, _now())
        await asyncio.sleep(WRITE)

    async with asyncio.TaskGroup() as group:
        for _ in range(30):
            group.create_task(_again(110.0, call))
    return {"asked a second": asked / 30.0, "whole rate after s": whole_at - 60.0}


async def _events() -> Figures:
    """A burst of 300 writes every two seconds, and events without end between them."""
    throttle = Throttle(clock=_now)
    waits: list[float] = []
    sent = 0

    async def write(_number: int) -> None:
        asked = _now()
        await throttle.take()
        waits.append(_now() - asked)

    async def events() -> None:
        nonlocal sent
        while _now() < 20.0:
            if throttle.spare():
                await throttle.take()
                sent += 1
            await asyncio.sleep(0.002)

    async def bursts() -> None:
        for _ in range(10):
            await asyncio.gather(*map(write, range(300)))
            await asyncio.sleep(2.0)

    async with asyncio.TaskGroup() as group:
        group.create_task(events())
        group.create_task(bursts())
    return {"write p99 s": _p99(waits), "events a second": sent / 20.0}


class _Statuses:
    """Statuses of thirty queues, each due again as soon as it is written, in two lanes; and admissions beside them."""

    def __init__(self, on_the_way: float = ON_THE_WAY) -> None:
        self.server = Server(on_the_way)
        self.pressure = Pressure(_now)
        self.waiting = 0
        self.calls = False
        self.budget = Budget(self.pressure, urgent=lambda: self.waiting > 0, crowded=lambda: self.calls, clock=_now)
        self.written: list[float] = []
        self.soon: list[float] = []
        self.admitted: list[float] = []
        self.waits: list[float] = []

    async def write(self, kind: str, seconds: float) -> None:
        self.pressure.wrote(kind, await self.server.call(seconds))

    async def status(self, number: int, *, soon: bool = False) -> None:
        asked = _now()
        async with self.budget.turn(f"lane-{number % 2}", soon=soon):
            await self.write("status", STATUS)
        (self.soon if soon else self.written).append(_now())
        if soon:
            self.waits.append(_now() - asked)

    async def admit(self) -> None:
        self.waiting += 1
        await self.write("admission", WRITE)
        self.waiting -= 1
        self.admitted.append(_now())

    async def others(self, calls: int, until: float) -> None:
        """Other clients, of whom each makes one call after the other."""
        async with asyncio.TaskGroup() as group:
            for _ in range(calls):
                group.create_task(_again(until, lambda: self.server.call(WRITE)))


def _rate(times: list[float], since: float, until: float) -> float:
    return sum(since <= each < until for each in times) / (until - since)


async def _admissions() -> Figures:
    """Ten idle seconds, then for twenty seconds admissions by thirty writers, then idle again."""
    world = _Statuses()
    async with asyncio.TaskGroup() as group:
        for number in range(30):
            group.create_task(_again(40.0, lambda number=number: world.status(number)))  # type: ignore[misc]
        await asyncio.sleep(10.0)
        for _ in range(30):
            group.create_task(_again(30.0, world.admit))
    idle = _rate(world.written, 0, 10)
    again = next((at - 30.0 for at in range(30, 40) if _rate(world.written, at, at + 1) > 0.8 * idle), 10.0)
    return {
        "idle: statuses a second": idle,
        "busy: statuses a second": _rate(world.written, 12, 30),
        "busy: admissions a second": _rate(world.admitted, 12, 30),
        "statuses in the first second": _rate(world.written, 10, 11),
        "idle rate again after s": again,
    }


async def _beside_others(clients: int) -> Figures:
    """Other clients take all of the API server for ten seconds, each with one call at a time; no admission waits."""
    world = _Statuses()
    async with asyncio.TaskGroup() as group:
        for number in range(30):
            group.create_task(_again(20.0, lambda number=number: world.status(number)))  # type: ignore[misc]
        await asyncio.sleep(5.0)
        group.create_task(world.others(clients, 15.0))
    return {
        "idle: statuses a second": _rate(world.written, 0, 5),
        "busy: statuses a second": _rate(world.written, 7, 15),
    }


async def _seldom() -> Figures:
    """Writes that take ten times as long as usual, one in half a second; then none."""
    pressure = Pressure(_now)
    for _ in range(50):
        pressure.wrote("write", WRITE)
    before = []
    for _ in range(40):
        pressure.wrote("write", 10 * WRITE)
        await asyncio.sleep(0.4)
        before.append(pressure.interval)
        await asyncio.sleep(0.1)
    pressure.wrote("write", 10 * WRITE)
    ended = _now()
    while pressure.interval > 0.01:  # noqa: ASYNC110 - the clock is virtual
        await asyncio.sleep(0.01)
    return {"interval ms while it is busy": 1000 * before[-1], "counts as idle after s": _now() - ended}


async def _soon() -> Figures:
    """Beside admissions: statuses for which somebody waits (`soon`), ten at a time, and the others."""
    world = _Statuses()
    async with asyncio.TaskGroup() as group:
        for number in range(30):
            group.create_task(_again(30.0, lambda number=number: world.status(number)))  # type: ignore[misc]
            group.create_task(_again(30.0, world.admit))
        for number in range(10):
            group.create_task(_again(30.0, lambda number=number: world.status(number, soon=True)))  # type: ignore[misc]
    return {
        "with soon a second": _rate(world.soon, 2, 30),
        "others a second": _rate(world.written, 2, 30),
        "admissions a second": _rate(world.admitted, 2, 30),
    }


async def _crowded() -> Figures:
    """Many admission calls arrive: 50 creates a second, and one admission for each."""
    world = _Statuses()
    world.calls = True
    creates: list[float] = []

    async def create(_number: int) -> None:
        asked = _now()
        await world.server.call(CREATE)
        creates.append(_now() - asked)
        await world.write("admission", WRITE)
        world.admitted.append(_now())

    async with asyncio.TaskGroup() as group:
        for number in range(30):
            group.create_task(_again(30.0, lambda number=number: world.status(number)))  # type: ignore[misc]
        group.create_task(_every(1 / 50, 30.0, create))
    return {"statuses a second": _rate(world.written, 2, 30), "create p99 ms": 1000 * _p99(creates)}


async def _calls_begin() -> Figures:
    """20 creates a second (40 admission calls), 50 of them a second, then none: whether they count as many."""
    precedence = Precedence(_now)
    found: dict[float, float] = {}
    for rate in (20.0, 50.0):
        crowded = 0
        for _ in range(int(5 * rate)):
            precedence.called()
            precedence.called()
            crowded += precedence.crowded
            await asyncio.sleep(1 / rate)
        found[rate] = crowded / (5 * rate)
        await asyncio.sleep(5.0)
    return {"20 jobs a second count as many, %": 100 * found[20.0], "50, %": 100 * found[50.0]}


async def _slow_for_good() -> Figures:
    """An API server that becomes four times slower after five minutes, and stays so."""
    world = _Statuses()

    async def own() -> None:
        await world.write("admission", WRITE)
        await asyncio.sleep(0.5)

    intervals: list[tuple[float, float]] = []
    task = asyncio.create_task(_again(2400.0, own))
    await asyncio.sleep(300.0)
    world.server.slow = 4.0
    while not task.done():
        await asyncio.sleep(5.0)
        intervals.append((_now() - 300.0, world.pressure._average))
    idle_at = next((at for at, slowdown in intervals if at > 60.0 and slowdown < 2.0), 2100.0)
    return {"counts as idle after s": idle_at}


async def _starts_busy(slow: float) -> Figures:
    """A process that starts while a write takes so many times longer, and makes 200 of them."""
    world = _Statuses()
    world.server.slow = slow
    for _ in range(200):
        await world.write("admission", WRITE)
    return {f"interval ms where a write takes {1000 * WRITE * slow:.0f} ms": 1000 * world.pressure.interval}


async def _one_slow_write() -> Figures:
    """Fifty quick writes, one that takes twenty times as long; and a server that becomes five times slower."""
    pressure = Pressure(_now)
    for _ in range(50):
        pressure.wrote("write", WRITE)
    pressure.wrote("write", 20 * WRITE)
    after_one = pressure.interval
    await asyncio.sleep(10.0)
    for _ in range(50):
        pressure.wrote("write", WRITE)
    writes = 0
    while pressure.interval < limits.BUSY_SECONDS * 0.8 and writes < 100:
        pressure.wrote("write", 5 * WRITE)
        writes += 1
    return {"interval ms after one slow write": 1000 * after_one, "writes until it counts as busy": writes}


async def _refused_once() -> Figures:
    """One answer 429 among quick writes, then a second one."""
    pressure = Pressure(_now)
    pressure.wrote("write", WRITE)
    pressure.refused()
    first = pressure.interval
    pressure.refused()
    return {"interval ms after one 429": 1000 * first, "after two": 1000 * pressure.interval}


async def _far_away() -> Figures:
    """An idle API server whose answers need 100 ms on the way, and the statuses of thirty queues."""
    world = _Statuses(FAR)
    async with asyncio.TaskGroup() as group:
        for _ in range(30):
            group.create_task(_again(10.0, lambda: world.status(0)))
    return {"statuses a second": len(world.written) / 10.0}


class _Cycles:
    """Cycles of decisions, one for each of forty ClusterQueues, without admission calls. ``ages`` are the seconds from
    each decision to its answer, ``unwritten`` how many decisions each cycle found that were not written.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.decisions = Decisions(clock=_now)
        self.ages: list[float] = []
        self.unwritten: list[int] = []
        self.began: list[float] = []
        self.lost: set[Key] = set()
        """The decisions whose writes are answered after ten seconds."""
        self._at: dict[Key, float] = {}

    async def over(self, until: float, *, contended: bool) -> None:
        """Begins cycles, each of which takes 20 ms, until a time; decisions that are not written then are not."""
        writers = asyncio.create_task(self.decisions.run(limits.DECIDED_WRITES, self._write))
        for number in itertools.count():
            self.unwritten.append(self.decisions.outstanding)
            self.began.append(_now())
            await asyncio.sleep(0.02)
            for queue in range(40):
                key = Key(f"tenant-{queue}", str(number))
                self._at[key] = _now()
                self.decisions.add(key)
            await self.decisions.written(contended=contended)
            if _now() >= until:
                break
        writers.cancel()
        await asyncio.gather(writers, return_exceptions=True)

    async def _write(self, key: Key) -> None:
        await self.server.call(WRITE)
        if key in self.lost:
            await asyncio.sleep(10.0)
        self.ages.append(_now() - self._at[key])


async def _decides(on_the_way: float) -> Figures:
    """Ten seconds of cycles with forty decisions each, beside 40 calls a second of clients that create no jobs; the
    answers of the API server need so many seconds on the way.
    """
    world = _Cycles(Server(on_the_way))
    others: list[float] = []

    async def call(_number: int) -> None:
        others.append(await world.server.call(CREATE))

    async with asyncio.TaskGroup() as group:
        group.create_task(_every(1 / 40, 10.0, call))
        group.create_task(world.over(10.0, contended=False))
    return {
        "decisions a second": len(world.ages) / 10.0,
        "age of a decision ms": 1000 * statistics.mean(world.ages),
        "others' calls p99 ms": 1000 * _p99(others),
    }


async def _waits_for_writes() -> Figures:
    """Forty decisions in each cycle while others wait for quota: an API server takes 1.4 s for them; then a quick one
    does not answer one write for ten seconds.
    """
    slow = _Cycles(Server())
    slow.server.slow = 10.0
    await slow.over(20.0, contended=True)
    hangs = _Cycles(Server())
    hangs.lost.add(Key("tenant-7", "3"))
    await hangs.over(_now() + 10.0, contended=True)
    pauses = [later - sooner for sooner, later in itertools.pairwise(hangs.began)]
    return {"decisions that a cycle finds unwritten": max(slow.unwritten), "longest pause s": max(pauses)}


async def _reasons() -> Figures:
    """300 workloads begin to wait, at an idle API server whose answers need 100 ms on the way."""
    world = _Statuses(FAR)
    reasons, ended = WorkQueue[Key]("reasons", clock=_now), 0.0

    async def write(key: Key) -> None:
        nonlocal ended
        async with world.budget.turn("wait-reasons"):
            await world.write("reason", WRITE)
        ended = _now()

    for number in range(300):
        reasons.add(Key("tenant", str(number)))
    reasons.close()
    await reasons.run(limits.REASONS_AT_ONCE, write)
    return {"reasons a second": 300 / ended}


class _EventServer:
    """What the sender of events calls: the API server behind throttle and precedence."""

    def __init__(self, world: _Creates) -> None:
        self.throttle, self.precedence = Throttle(clock=_now), world.precedence
        self._server = world.server

    async def create(self, _resource: object, body: Raw, namespace: str) -> Raw:
        """One event."""
        await self.throttle.take()
        async with self.precedence.turn(namespace):
            await self._server.call(WRITE)
        return body


async def _events_give_way() -> Figures:
    """50 jobs a second for ten seconds, and 500 events that wait to be sent."""
    world = _Creates()
    server = _EventServer(world)
    throttle = Throttle(50.0, 100, clock=_now)
    budget = Budget(Pressure(_now), crowded=lambda: world.precedence.crowded, clock=_now)
    sender = EventSender(cast(Client, server), throttle=throttle, budget=budget, clock=_now)
    for number in range(500):
        about = ObjectReference("batch/v1", "Job", f"tenant-{number % 5}", f"job-{number}", str(number))
        sender.record(about, "Normal", "Started", "Admitted", component="seiretsu")
    sending = asyncio.create_task(sender.run())
    await world.over(_every(1 / 50, 10.0, world.create))
    sent = sender.sent
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    return {"events a second": sent / 10.0, "create p99 ms": 1000 * _p99(world.creates)}


class Question(NamedTuple):
    """Which figures of a play show what a figure of ``limits`` does. The play's docstring says what is played."""

    name: str
    play: Play
    shown: tuple[str, ...]


QUESTIONS = (
    Question("DECIDED_WRITES", partial(_decides, FAR), ("decisions a second", "others' calls p99 ms")),
    Question("UNWRITTEN", partial(_decides, ON_THE_WAY), ("decisions a second", "age of a decision ms")),
    Question("CONTENDED_SECONDS", _waits_for_writes, ("decisions that a cycle finds unwritten", "longest pause s")),
    Question("SLOWEST_SHARE", _refuses_all, ("asked a second", "whole rate after s")),
    Question("SPARE_SHARE", _events, ("events a second", "write p99 s")),
    Question("HALVED_ONCE_SECONDS", _storm, ("refused a second", "passed a second")),
    Question("CLIMB", _storm, ("refused a second", "whole rate after s")),
    Question("FEWEST", partial(_steady, 160.0), ("create p99 ms", "writes a second")),
    Question("MOST", partial(_steady, 20.0), ("create p99 ms", "writes a second")),
    Question("DELAYS", partial(_steady, 100.0), ("create p99 ms", "writes a second")),
    Question("LONGEST_WAIT_SECONDS", _hangs, ("writes in flight after 1.4 s", "longest write s")),
    Question("QUIET_SECONDS", _pauses, ("create p99 ms", "writes a second")),
    Question("RATE_SECONDS", _burst, ("create p99 ms", "writes a second")),
    Question("SMOOTHING", _one_slow_write, ("interval ms after one slow write", "writes until it counts as busy")),
    Question("REFUSED_SLOWDOWN", _refused_once, ("interval ms after one 429", "after two")),
    Question("RECOVERY_SECONDS", _seldom, ("interval ms while it is busy", "counts as idle after s")),
    Question("IDLE_WINDOW_SECONDS", _slow_for_good, ("counts as idle after s",)),
    Question("HIGHEST_IDLE_SECONDS", partial(_starts_busy, 5.0), ("interval ms where a write takes 35 ms",)),
    Question("UNIT_SECONDS", partial(_beside_others, 10), ("idle: statuses a second", "busy: statuses a second")),
    Question("DEFERRED_AT_ONCE", _far_away, ("statuses a second",)),
    Question("REASONS_AT_ONCE", _reasons, ("reasons a second",)),
    Question("BUSY_SECONDS", _soon, ("with soon a second", "admissions a second")),
    Question("IN_A_ROW", _soon, ("with soon a second", "others a second")),
    Question("MANY_CALLS", _calls_begin, ("20 jobs a second count as many, %", "50, %")),
    Question("CROWDED_SECONDS", _crowded, ("statuses a second", "create p99 ms")),
    Question("URGENT_SECONDS", _admissions, ("busy: statuses a second", "busy: admissions a second")),
    Question("GIVE_WAY_SECONDS", _events_give_way, ("events a second", "create p99 ms")),
    Question("LONGEST_SECONDS", partial(_beside_others, 60), ("busy: statuses a second",)),
)


@contextmanager
def changed(name: str, factor: float) -> Iterator[None]:
    """Context in which a figure of ``limits`` has another value."""
    value = getattr(limits, name)
    setattr(limits, name, type(value)(value * factor))
    try:
        yield
    finally:
        setattr(limits, name, value)


def play(each: Play) -> Figures:
    """Plays one world on a clock of its own."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(each())
    finally:
        loop.close()


def answers(question: Question) -> list[tuple[float, ...]]:
    """Returns the shown figures with half of the value, as it is, and with twice as much."""
    found = []
    for factor in (0.5, 1.0, 2.0):
        with changed(question.name, factor):
            figures = play(question.play)
        found.append(tuple(figures[each] for each in question.shown))
    return found


def rows(question: Question) -> list[str]:
    """Returns the rows of the table for one figure of ``limits``."""
    of, given = question.play, ""
    if isinstance(of, partial):
        given = f" ({of.args[0]:g})"
        of = of.func
    played = " ".join(str(of.__doc__).split()).rstrip(".") + given
    head = f"`{question.name}` {getattr(limits, question.name):.4g} | {played}"
    found = []
    for shown, measured in zip(question.shown, zip(*answers(question), strict=True), strict=True):
        half, now, twice = (f"{round(each, 2):.3g}" for each in measured)
        found.append(f"| {head} | {shown} | {half} | {now} | {twice} |")
        head = " |"
    return found


def page() -> str:
    """Returns the page docs/flow.md."""
    return HEAD + "".join(f"{row}\n" for question in QUESTIONS for row in rows(question))


HEAD = f"""# Flow control: what each figure does

Made by `python -m bench.flow docs/flow.md` (part of `make generate`). It plays the classes of `controller/kube/flow` on
a virtual clock before a model of an API server: two processors, one line, {1000 * WRITE:g} ms of a processor for a
write of Seiretsu, {1000 * CREATE:g} ms for a client's create, {1000 * STATUS:g} ms for the status of a queue, \
{1000 * ON_THE_WAY:g} ms on the way.
The same code gives the same table on every machine. It shows which way a figure works and how strongly. What a real API
server does with an eighth and with eight times as much of most of them is in [flow-measured.md](flow-measured.md), what
it does with the values as they are in [performance.md](performance.md); `controller/kube/flow/limits.py` has what was
measured of each.

Each figure is played with half of its value, as it is, and with twice as much. A number in brackets is what the play
was given: jobs a second, other clients, how many times longer a write takes, or seconds on the way.

| figure | played | measured | half | as it is | twice |
|---|---|---|---|---|---|
"""


if __name__ == "__main__":
    written = page()
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(written, encoding="utf-8")
    else:
        print(written, end="")
