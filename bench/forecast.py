"""How good forecasts of starts are, and what they cost.

``python -m bench.forecast [--cost | --loop] [--arrivals] [TRACE...]``

Each trace is played by the simulator, which knows how long every job runs; every six minutes the State is taken as it
is then, and forecast with no more than what the jobs that have finished by then have taught. A forecast is judged when
its job starts, as in a cluster (``core.forecast.accuracy``). Beside it: the median of the waits of earlier jobs of the
same queue, which is what people do by hand. The first quarter of the jobs only teaches.

Traces: ``steady``, ``bursty``, ``preemptive`` and ``heavy-tailed`` have jobs of eight names, of which each has run
times of its own. ``lublin`` and ``downey`` are generated, because the bench has no network. ``lublin`` has the sizes
and run times of Lublin and Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid
jobs", JPDC 63(11), 2003, with the parameters of its authors' program for jobs of all types (two-stage uniform sizes,
hyper-gamma run times that depend on the size), where no job says anything about the next one of its user. ``downey``
has the log-uniform run times and sizes of Downey, "Predicting queue times on space-sharing parallel computers", IPPS
1997, between bounds of our own, and users who repeat their jobs. Arrivals are a Poisson process in both; the models
have a daily cycle besides.

``--arrivals``: others are taken to arrive as in the last hours. ``--cost``: CPU seconds until the
first answer for 10,000 waiting workloads in 50 ClusterQueues, and until the last. ``--loop``: the CPU time of each step
that forecasts of as many take on the event loop of the controller (for a whole ``serve`` see ``bench.forecasting``).
"""

from __future__ import annotations

import asyncio
import gc
import math
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from api.objects import Key
from bench.lag import Steps
from bench.measure import Latency
from controller.cache.caches import Caches
from controller.forecasts.forecasts import Forecasts
from controller.run.watched import WATCHED
from controller.settings import ControllerSettings
from core.forecast.accuracy import MOMENTS, SHORT_WAIT_SECONDS, Record
from core.forecast.arrivals import NOBODY, ArrivalRates, RecentArrivals
from core.forecast.calibration import Calibration
from core.forecast.forecast import forecast, forecast_in_steps
from core.forecast.learned import LearnedRunTimes
from core.forecast.run_times import RunTimes, known
from core.forecast.situation import situation
from core.model import (
    ClusterQueue,
    FlavorResource,
    LocalQueue,
    PodSet,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Selector,
    Workload,
)
from core.model import workload as fields
from core.model.owner import Owner
from core.simulation.simulation import Arrival, Simulation
from core.state.state import State
from core.workload.actions import LifePolicy
from seiretsu.client.estimate import estimate

START: Final = 1_700_000_000.0
EVERY_SECONDS: Final = 360.0
RUNS: Final = 8
QUEUES, CPUS = 4, 128
CPU: Final = FlavorResource("default", "cpu")


class TracedJob(NamedTuple):
    """A job of a trace: times in seconds, its name without the number, and its cpus."""

    at: float
    name: str
    cpu: int
    run_for: float
    urgent: bool = False


Draw = Callable[[random.Random], tuple[str, int, float]]
"""Returns the name, the cpus and the run time of a job."""


def named(spread: float) -> Draw:
    """Jobs of eight names; the run times of each spread by this standard deviation of their logarithm."""

    def draw(chance: random.Random) -> tuple[str, int, float]:
        kind = chance.randrange(8)
        cpu = (1, 2, 4, 8, 8, 16, 16, 32)[kind]
        return f"kind{kind}x", cpu, (300, 600, 240, 400, 1800, 600, 1200, 2400)[kind] * chance.lognormvariate(0, spread)

    return draw


def lublin(chance: random.Random) -> tuple[str, int, float]:
    """Sizes and run times of Lublin and Feitelson (2003); at most 32 cpus, so that the middle of the sizes is 2.5 below
    their logarithm, as it is there of 128, and 12 hours.
    """
    kind, exponent = chance.random(), _two_stage(chance, 0.8, 2.5, math.log2(32), 0.86)
    size = 1.0 if kind < 0.244 else 2.0 ** (round(exponent) if kind < 0.244 + 0.576 else exponent)
    short = chance.random() < -0.0054 * size + 0.78
    seconds = math.exp(chance.gammavariate(4.2, 0.94) if short else chance.gammavariate(312, 0.03))
    return f"user{chance.randrange(12)}x", max(1, round(size)), min(seconds, 43_200.0)


def _two_stage(chance: random.Random, low: float, middle: float, high: float, part: float) -> float:
    return chance.uniform(low, middle) if chance.random() < part else chance.uniform(middle, high)


def downey() -> Draw:
    """Log-uniform sizes and run times of Downey (1997), of which each of 30 users has two that he repeats."""
    fixed = random.Random(7)
    kinds = [
        (2 ** round(fixed.uniform(0, 5)), math.exp(fixed.uniform(math.log(60), math.log(14_400)))) for _ in range(60)
    ]

    def draw(chance: random.Random) -> tuple[str, int, float]:
        kind = chance.randrange(60)
        cpu, seconds = kinds[kind]
        return f"user{kind // 2}-{'ab'[kind % 2]}x", cpu, seconds * chance.lognormvariate(0, 0.3)

    return draw


def trace(draw: Draw, jobs: int, *, load: float = 1.05, burst: int = 1, urgent: float = 0.0) -> list[TracedJob]:
    """Jobs that arrive at random, ``burst`` at once, so that they ask for ``load`` times what there is."""
    chance = random.Random(3)
    drawn = [draw(chance) for _ in range(jobs)]
    length = sum(cpu * seconds for _, cpu, seconds in drawn) / (CPUS * load)
    found, at = [], 0.0
    for number, (name, cpu, seconds) in enumerate(drawn):
        if number % burst == 0:
            at += chance.expovariate(jobs / burst / length)
        found.append(TracedJob(at, name, cpu, max(1.0, round(seconds)), chance.random() < urgent))
    return found


TRACES: Final[dict[str, Callable[[], list[TracedJob]]]] = {
    "steady": lambda: trace(named(0.3), 400),
    "bursty": lambda: trace(named(0.3), 400, burst=50, load=0.8),
    "preemptive": lambda: trace(named(0.3), 400, urgent=0.1),
    "heavy-tailed": lambda: trace(named(1.2), 400),
    "lublin": lambda: trace(lublin, 400),
    "downey": lambda: trace(downey(), 400),
}


def queues(count: int, cohorts: int, cpus: int, *, preemption: bool = False) -> State:
    """ClusterQueues of this many cpus each, and a LocalQueue for each."""
    state = State()
    state.set_namespace("ns", {})
    state.set_flavor("default", ResourceFlavor("default"))
    rules = Preemption("LowerPriority", "LowerPriority") if preemption else Preemption()
    for number in range(count):
        name, groups = f"cq-{number}", (ResourceGroup(("cpu",), ("default",)),)
        quotas = {CPU: Quota(cpus * 1000)}
        cohort = f"cohort-{number % cohorts}"
        queue = ClusterQueue(
            name=name, cohort=cohort, groups=groups, quotas=quotas, namespace_selector=Selector(), preemption=rules
        )
        state.set_cluster_queue(name, queue)
        state.set_local_queue(Key("ns", f"lq-{number}"), LocalQueue(Key("ns", f"lq-{number}"), name))
    return state


def workload(number: int, job: TracedJob, queue: int) -> Workload:
    """The Workload of a job."""
    created = START + int(job.at)
    pod_sets = (PodSet("main", 1, {"cpu": job.cpu * 1000}),)
    owner = Owner("batch", "Job", "ns", f"{job.name}-{number}")
    key = Key("ns", f"job-{number:05}")
    return Workload(key, str(key), created, f"lq-{queue}", 100 * job.urgent, pod_sets, owner=owner)


class Judged(NamedTuple):
    """The errors of forecasts as a part of the wait and whether starts were inside, by moment; and the errors of the
    median of earlier waits. ``unknown`` of ``waited`` jobs had no forecast.
    """

    errors: dict[str, list[float]]
    inside: dict[str, list[bool]]
    by_hand: list[float]
    waited: int
    unknown: int


def play(jobs: list[TracedJob], *, preemption: bool = False, expects: bool = False) -> Judged:
    """Plays a trace, with a forecast every few minutes; with ``expects`` others are taken to arrive as lately."""
    chance, state = random.Random(5), queues(QUEUES, 1, CPUS // QUEUES, preemption=preemption)
    arrivals = [
        Arrival(job.at, workload(number, job, chance.randrange(QUEUES)), job.run_for) for number, job in enumerate(jobs)
    ]
    simulation = Simulation(state, arrivals, start=START)
    learned, records, done = LearnedRunTimes(), defaultdict[Key, Record](Record), set[Key]()
    recent, arrived = RecentArrivals(START), 0
    by_hand: dict[Key, float] = {}
    calibration = Calibration()
    waits: dict[str, list[float]] = defaultdict(list)
    now, due, begun = 0.0, EVERY_SECONDS, set[Key]()
    while (at := simulation.next(now)) is not None:
        while at > due:
            _learn(simulation, learned, done, due)
            while arrived < len(arrivals) and arrivals[arrived].at <= due:
                recent.add(arrivals[arrived].workload)
                arrived += 1
            rates = recent.rates(state.pending.local_queues, START + due)
            _ask(state, learned.run_time, due, rates if expects else NOBODY, records, calibration)
            due += EVERY_SECONDS
        now = at
        simulation.advance(now)
        simulation.schedule(now)
        for key in _started(simulation, begun, waits, by_hand):
            for expected, took in records[key].multiples(START + now):
                calibration.add(expected, took)
            for expected, inside in records[key].outcomes(START + now):
                calibration.judge(expected, inside=inside)
    return _judged(simulation, arrivals, records, by_hand)


def _learn(simulation: Simulation, learned: LearnedRunTimes, done: set[Key], now: float) -> None:
    for key, course in simulation.timeline.courses.items():
        if key not in done and course.finished is not None and course.finished <= now:
            done.add(key)
            learned.add(course.arrival.workload, course.finished - course.attempts[-1].started)


def _ask(
    state: State,
    run_times: RunTimes,
    now: float,
    rates: ArrivalRates,
    records: dict[Key, Record],
    calibration: Calibration,
) -> None:
    for arena in state.reservations.arenas:
        about = situation(state, arena, START + now)
        if about.waiting:
            for start in forecast(about, run_times, int(now), runs=RUNS, rates=rates).starts.values():
                records[start.key].add(calibration.corrected(start), start.p50)


def _started(
    simulation: Simulation, begun: set[Key], waits: dict[str, list[float]], by_hand: dict[Key, float]
) -> list[Key]:
    """Keeps the waits of what has started, and for what has arrived what people would expect of these; returns what has
    started.
    """
    new = []
    for key, each in simulation.workloads.items():
        course = simulation.timeline.courses[key]
        if key not in by_hand:
            guess = estimate(0.0, waits[each.queue][-50:])
            by_hand[key] = guess.median if guess is not None else math.nan
        if course.attempts and key not in begun:
            begun.add(key)
            new.append(key)
            waits[each.queue].append(course.attempts[0].started - course.arrival.at)
    return new


def _judged(
    simulation: Simulation, arrivals: list[Arrival], records: dict[Key, Record], by_hand: dict[Key, float]
) -> Judged:
    judged = Judged(defaultdict(list), defaultdict(list), [], 0, 0)
    waited = unknown = 0
    for arrival in arrivals[len(arrivals) // 4 :]:
        key, course = arrival.workload.key, simulation.timeline.courses[arrival.workload.key]
        started = course.attempts[0].started
        wait = started - arrival.at
        if wait < max(SHORT_WAIT_SECONDS, EVERY_SECONDS):
            continue  # nobody has forecast it
        waited += 1
        if not math.isnan(by_hand[key]):
            judged.by_hand.append(abs(by_hand[key] - wait) / wait)
        found = list(records[key].verdicts(arrival.workload.created, START + started))
        unknown += not found
        for verdict in found:
            judged.errors[verdict.moment].append(verdict.error)
            judged.inside[verdict.moment].append(verdict.inside)
    return judged._replace(waited=waited, unknown=unknown)


def table(names: list[str], *, expects: bool = False) -> Iterator[str]:
    """The lines of the table, one by one."""
    heads = [f"{moment}: error" for moment in MOMENTS] + [f"{moment}: inside" for moment in MOMENTS]
    yield f"| trace | jobs that waited | {' | '.join(heads)} | by hand: error | unknown |"
    yield f"|{'---|' * (len(heads) + 4)}"
    for name in names:
        judged = play(TRACES[name](), preemption=name == "preemptive", expects=expects)
        errors = [f"{statistics.median(judged.errors[each]):.0%}" for each in MOMENTS]
        inside = [f"{statistics.mean(judged.inside[each]):.0%}" for each in MOMENTS]
        hand = f"{statistics.median(judged.by_hand):.0%}"
        cells = [name, str(judged.waited), *errors, *inside, hand, str(judged.unknown)]
        yield f"| {' | '.join(cells)} |"


def cost(count: int = 10_000, number: int = 50) -> Iterator[str]:
    """CPU seconds of answers about many waiting workloads, by the number of cohorts."""
    chance = random.Random(1)
    for cohorts in (50, 10, 5, 1):
        state = queues(number, cohorts, 40)
        total: dict[Key, float] = {}
        for each in range(count):
            job = TracedJob(each / 10, "jobx", chance.choice((1, 1, 2, 4, 8)), float(chance.randrange(30, 3000)))
            made = workload(each, job, chance.randrange(number))
            total[made.key] = job.run_for
            state.set_workload(made.key, replace(made, created=START - count + each))
        gc.collect()
        longest = spent = exact = 0.0
        for arena in list(state.reservations.arenas):
            began = time.process_time()
            about = situation(state, arena, START)
            longest = max(longest, time.process_time() - began)
            first = 0.0
            gc.disable()
            began = time.process_time()
            for step in forecast_in_steps(about, known(lambda each: total[each.key])):  # noqa: B023 - used at once
                if step is not None:
                    first = first or time.process_time() - began
            exact += time.process_time() - began
            spent += first
            gc.enable()
            gc.collect()
        yield (
            f"{count} waiting, {number} ClusterQueues in {cohorts} cohorts: first answers {spent:.1f} s, exact ones"
            f" {exact:.1f} s of CPU; taking the longest situation {longest * 1000:.1f} ms"
        )


async def loop(count: int = 10_000, number: int = 50, seconds: float = 60.0) -> str:
    """The steps of the event loop while a real process forecasts one arena that changes all the time."""
    chance, state, began = random.Random(1), queues(number, 1, 40), time.time()
    made = []
    for each in range(count):
        job = TracedJob(0, f"job{each % 20}x", chance.choice((1, 1, 2, 4, 8)), 1.0)
        there = workload(each, job, chance.randrange(number))
        made.append(fields.replace(there, created=float(int(began)) - count + each, max_execution=600))
        state.set_workload(there.key, made[-1])
    forecasts = Forecasts(Caches(state, WATCHED, ControllerSettings().reading), LifePolicy(), CollectorRegistry())
    gc.collect()
    gc.freeze()

    async def run() -> None:
        await steps

    steps = Steps(forecasts.run())
    task, end = asyncio.create_task(run()), time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(0.5)
        for which in chance.sample(range(count), 20):
            made[which] = replace(made[which], priority=1 - made[which].priority)
            state.set_workload(made[which].key, made[which])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    known = sum(forecasts.of(each.key) is not None for each in made)
    return f"{count} waiting, {known} forecast; CPU of {len(steps.seconds)} steps: {Latency.of(steps.seconds)}"


def main(arguments: list[str]) -> int:
    """Prints the costs, or the table of the traces that are named."""
    wanted = [each for each in arguments if not each.startswith("--")]
    if "--loop" in arguments:
        print(asyncio.run(loop()))
        return 0
    lines = cost() if "--cost" in arguments else table(wanted or list(TRACES), expects="--arrivals" in arguments)
    for line in lines:
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
