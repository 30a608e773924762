"""Keeps a forecast of every waiting workload, made by a process of its own, and judges each when the workload starts.

One arena after the other is sent to that process, those first whose forecast is oldest; one in which nothing that
matters has changed keeps its forecast, which grows older. Nothing waits for a forecast: who asks gets the latest one,
with its age, or none. Every replica has its own, because every replica answers admission calls. If the process ends
or does not answer, it is started again, and until then what is known grows old.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from api.names import Condition
from controller.cache.caches import Caches
from controller.forecasts.messages import (
    Answer,
    ArenasGone,
    Arrived,
    Ended,
    Newcomers,
    NodeRecord,
    Nodes,
    Question,
    Starts,
    Workloads,
)
from controller.forecasts.process import ANSWER_SECONDS, WorkerLostError, WorkerProcess, alone, worker_command
from controller.kube.log import get_logger
from core.forecast.accuracy import Record
from core.forecast.arrivals import NOBODY, ArrivalRates, RecentArrivals
from core.forecast.basis import Basis
from core.forecast.calibration import Calibration
from core.forecast.learned import LearnedRunTimes, ran
from core.forecast.newcomers import NewcomerKind, kind_of
from core.forecast.situation import Situation, situation
from core.model import Key, Node, PodSet, Requests, Workload
from core.model.forecast import StartForecast
from core.queue.routing import still_judged
from core.workload.actions import LifePolicy

log = get_logger(__name__)

PAUSE_SECONDS: Final = 5.0
"""Between two looks at all arenas."""
SHARE: Final = 0.25
"""The part of a core that forecasts may use on average: after one that took long, the process rests."""
OLD_SECONDS: Final = 120.0
"""A forecast is made again after this time even if nothing has changed: what runs has run longer."""
TOO_OLD_SECONDS: Final = 900.0
"""An older forecast is not shown."""
RESTART_SECONDS, LONGEST_RESTART_SECONDS = 1.0, 300.0
AT_A_TIME: Final = 500
"""So many workloads or nodes are looked at between two pauses: a fifth of a millisecond."""
ERRORS: Final = (0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 2.0, 5.0)


class _Seen(NamedTuple):
    """An arena when it was last asked about."""

    workloads: Mapping[Key, Workload]
    about: Situation
    answered: float


class Forecasts:
    """``connect`` once the caches are complete, then ``run``. ``arrivals``: others are taken to arrive as before."""

    def __init__(
        self,
        caches: Caches,
        life: LifePolicy,
        registry: CollectorRegistry,
        *,
        arrivals: bool = False,
        clock: Callable[[], float] = time.time,
        command: Iterable[str] | None = None,
    ) -> None:
        self.caches = caches
        self.life = life
        self.arrivals = arrivals
        self.clock = clock
        self.command = tuple(command) if command is not None else worker_command()
        self.run_times = LearnedRunTimes()
        self.recent = RecentArrivals(clock())
        self._starts: dict[Key, StartForecast] = {}
        self._newcomers: dict[NewcomerKind, StartForecast] = {}
        self._records: dict[Key, Record] = {}
        self._calibration = Calibration()
        self._seen: dict[str, _Seen] = {}
        self._nodes: dict[str, tuple[Node, Requests | None]] = {}
        """The nodes that the process knows."""
        self._ended: list[tuple[Workload, float]] = []
        self._arrived: list[Workload] = []
        self._process: WorkerProcess | None = None
        self._error = Histogram(
            "seiretsu_forecast_error_ratio",
            "How far the forecast of a start was from the start, as a part of the wait. moment: create (the first one),"
            " half (at half of the wait), last.",
            ["moment"],
            buckets=ERRORS,
            registry=registry,
        )
        self._judged = Counter(
            "seiretsu_forecast_starts_total",
            "Starts of which there was a forecast; inside: whether the start was between p10 and p90.",
            ["moment", "inside"],
            registry=registry,
        )
        self._seconds = Counter(
            "seiretsu_forecast_cpu_seconds_total", "CPU time of the process that makes forecasts.", registry=registry
        )
        Gauge(
            "seiretsu_forecast_age_seconds",
            "Age of the oldest forecast of an arena in which workloads wait.",
            registry=registry,
        ).set_function(self._oldest)

    def of(self, key: Key) -> StartForecast | None:
        """Returns the latest forecast of a waiting workload; None if there is none yet, or it is too old."""
        return self._fresh(self._starts.get(key))

    def of_newcomer(self, local_queue: Key, priority: int, pod_sets: tuple[PodSet, ...]) -> StartForecast | None:
        """Returns the forecast for a job that is created now; None if none like it has waited lately."""
        return self._fresh(self._newcomers.get(kind_of(local_queue, priority, pod_sets)))

    @property
    def basis(self) -> Basis:
        """What a forecast for a question of its own is made from."""
        return Basis(self.run_times.run_time, self._rates, self._calibration.corrected, self.life)

    def _rates(self, about: Situation) -> ArrivalRates:
        return self.recent.rates(about.local_queues, about.now) if self.arrivals else NOBODY

    def _fresh(self, found: StartForecast | None) -> StartForecast | None:
        return found if found is not None and self.clock() - found.at <= TOO_OLD_SECONDS else None

    def _oldest(self) -> float:
        waiting = [seen.about.now for seen in self._seen.values() if seen.about.waiting]
        return max(0.0, self.clock() - min(waiting)) if waiting else 0.0

    # What happens to workloads.

    def connect(self) -> None:
        """Learns run times, and judges forecasts, from now on."""
        self.recent = RecentArrivals(self.clock())
        self.caches.observers.append(self.changed)

    def changed(self, old: Workload | None, new: Workload | None) -> None:
        """A Workload has changed."""
        known = new or old
        assert known is not None
        key = known.key
        if old is None and new is not None and self.arrivals:
            self.recent.add(new)
            if self._process is not None:
                self._arrived.append(new)
        if new is not None and old is not None:
            if new.holds(Condition.QUOTA_RESERVED) and not old.holds(Condition.QUOTA_RESERVED):
                self._started(new)
            if new.holds(Condition.FINISHED) and not old.holds(Condition.FINISHED):
                self.learn(new)
        if new is None or not new.active or new.holds(Condition.QUOTA_RESERVED) or new.holds(Condition.FINISHED):
            self._starts.pop(key, None)
            self._records.pop(key, None)

    def _started(self, workload: Workload) -> None:
        record, reserved = self._records.get(workload.key), workload.condition(Condition.QUOTA_RESERVED)
        if record is None or reserved is None or workload.evictions:
            return  # one that was evicted has waited in several parts
        for verdict in record.verdicts(workload.created, reserved.since):
            self._error.labels(verdict.moment).observe(verdict.error)
            self._judged.labels(verdict.moment, str(verdict.inside).lower()).inc()
        for expected, took in record.multiples(reserved.since):
            self._calibration.add(expected, took)
        for expected, inside in record.outcomes(reserved.since):
            self._calibration.judge(expected, inside=inside)

    def learn(self, workload: Workload) -> None:
        """Counts the run time of a finished workload, if it has one."""
        seconds = ran(workload)
        if seconds is None:
            return
        self.run_times.add(workload, seconds)
        if self._process is not None:
            self._ended.append((workload, seconds))

    # The process.

    async def run(self) -> None:
        """Makes forecasts until cancelled."""
        wait = RESTART_SECONDS
        while True:
            began = time.monotonic()
            try:
                await self._with_process()
            except (WorkerLostError, OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                log.warning("the process that makes forecasts is started again", error=repr(error), seconds=wait)
            except Exception:  # no mistake in a forecast may end the controller
                log.exception("forecasts failed: the process that makes them is started again", seconds=wait)
            wait = (
                RESTART_SECONDS if time.monotonic() - began > ANSWER_SECONDS else min(wait * 2, LONGEST_RESTART_SECONDS)
            )
            await asyncio.sleep(wait)

    async def _with_process(self) -> None:
        process = await WorkerProcess.start(self.command)
        self._seen.clear()
        self._nodes.clear()
        self._ended.clear()
        self._arrived = list(self.recent)
        self._process = process
        try:
            await process.send_run_times(self.run_times, self.recent.since)
            while process.returncode is None:
                spent = await self.look()
                await asyncio.sleep(max(PAUSE_SECONDS, spent / SHARE - spent))
            raise WorkerLostError(f"it ended with {process.returncode}")
        finally:
            self._process = None
            await process.end()

    async def look(self) -> float:
        """Asks about every arena that has changed; returns the CPU seconds that the answers took."""
        spent = 0.0
        arenas = self.caches.state.reservations.arenas
        gone = sorted(self._seen.keys() - arenas.keys())
        for name in gone:
            del self._seen[name]
        if gone:
            await self._worker.send(ArenasGone(gone))
        for name in [each for each in sorted(arenas) if each not in self._seen]:
            if name in self.caches.state.reservations.arenas:  # first answers for all, before better ones for any
                spent += await self._ask(name, quick=True)
                await asyncio.sleep(0)
        for name in sorted(arenas, key=lambda name: self._seen[name].answered if name in self._seen else 0.0):
            if name in self.caches.state.reservations.arenas:
                spent += await self._ask(name)
                await asyncio.sleep(0)
        return spent

    async def _ask(self, name: str, *, quick: bool = False) -> float:
        """Asks about one arena, unless nothing that matters has changed."""
        now, before = self.clock(), self._seen.get(name)
        about = situation(self.caches.state, name, now, self.life)
        if not about.waiting and not about.holding:
            self._seen[name] = _Seen({}, about, now)
            return 0.0
        workloads: dict[Key, Workload] = {}
        new, alike = [], True
        known = before.workloads if before is not None else {}
        for place, each in enumerate((*about.waiting, *about.holding)):
            if place % AT_A_TIME == 0:
                await asyncio.sleep(0)
            old = known.get(each.key)
            workloads[each.key] = each
            if old is not each:
                new.append(each)
                alike = alike and old is not None and _alike(old, each)
        alike = alike and len(workloads) == len(known)
        await asyncio.sleep(0)
        if before is not None and now - before.answered < OLD_SECONDS and alike and _same(before.about, about):
            return 0.0
        await self._send_nodes(about)
        await self._worker.send_in_parts(Workloads, new)
        ended, self._ended = self._ended, []
        await self._worker.send_in_parts(Ended, ended)
        arrived, self._arrived = self._arrived, []
        await self._worker.send_in_parts(Arrived, arrived)
        await self._worker.send_names(about)
        question = Question(alone(about), int(now), placed=bool(about.nodes), quick=quick, arrivals=self.arrivals)
        await self._worker.send(question)
        spent = await self._answers(name)
        self._seen[name] = _Seen(workloads, about, 0.0 if quick else now)
        return spent

    async def _send_nodes(self, about: Situation) -> None:
        """Sends the nodes that have changed since they were sent; an arena without a topology has none."""
        if not about.nodes:
            return
        changed: list[NodeRecord] = []
        for place, name in enumerate({**self._nodes, **about.nodes}):
            if place % AT_A_TIME == 0:
                await asyncio.sleep(0)
            found = about.nodes.get(name), about.others.get(name)
            if name not in self._nodes or found[0] is not self._nodes[name][0] or found[1] != self._nodes[name][1]:
                changed.append((name, *found))
        await self._worker.send_in_parts(Nodes, changed)
        for name, node, others in changed:
            if node is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = (node, others)

    async def _answers(self, name: str) -> float:
        """Enters what is answered about an arena; returns the CPU seconds."""
        spent = 0.0
        while True:
            message = await self._worker.receive()
            await asyncio.sleep(0)  # what has arrived already is read without a pause
            match message:
                case Starts(starts):
                    for each in starts:
                        self._enter(each)
                case Newcomers(starts):
                    self._newcomers.update((kind, self._calibration.corrected(each)) for kind, each in starts)
                    self._forget_old()
                case Answer():
                    self._seconds.inc(max(0.0, message.seconds - spent))
                    spent = message.seconds
                    if message.last:
                        return spent

    def _enter(self, start: StartForecast) -> None:
        """A forecast is known, unless its workload has started or was deactivated meanwhile."""
        workload = self.caches.state.workloads.get(start.key)
        if workload is None or not workload.active or workload.holds(Condition.QUOTA_RESERVED):
            return
        corrected = self._starts[start.key] = self._calibration.corrected(start)
        if start.known and not workload.evictions:
            self._records.setdefault(start.key, Record()).add(corrected, start.p50)

    def _forget_old(self) -> None:
        now = self.clock()
        self._newcomers = {kind: each for kind, each in self._newcomers.items() if now - each.at <= TOO_OLD_SECONDS}

    @property
    def _worker(self) -> WorkerProcess:
        assert self._process is not None
        return self._process


def _same(before: Situation, now: Situation) -> bool:
    """Whether nothing has changed beside workloads and time."""
    return replace(now, waiting=(), holding=(), now=0.0) == replace(before, waiting=(), holding=(), now=0.0)


def _alike(old: Workload, new: Workload) -> bool:
    """Whether nothing that matters has changed: why a workload waits is written again and again."""
    return old is new or (
        still_judged(old, new)
        and old.admission == new.admission
        and (old.requeue_at, old.active, old.max_execution) == (new.requeue_at, new.active, new.max_execution)
        and old.holds(Condition.EVICTED) == new.holds(Condition.EVICTED)
    )
