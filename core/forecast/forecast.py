"""Runs an arena forward until all that wait have started, several times where run times spread: quantiles of starts.

Each run is a ``Simulation``: the same State, cycle and rules of the lifecycle as in the controller. A run takes one
run time of each workload's distribution. Where nothing is known of a run time, every other run takes it that the
workload never ends, and the others that it ends at once: what starts at the same time in both does not depend on it,
and the start of all others is unknown. Nobody else arrives, unless the caller adds ``arrivals``, or ``rates``: with
these each run draws who arrives.

Pure: the result follows from the arguments. The caller limits the time: ``forecast_in_steps`` pauses at every moment
at which something happens, and returns a first answer after one run, then a better one after each pair of runs. Where
all start at once in the first run, no other one is played.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from itertools import islice
from statistics import NormalDist
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from core.forecast.arrivals import NOBODY, ArrivalRates
from core.forecast.run_times import RunTime, RunTimes, quantile, rest_of
from core.forecast.situation import Situation, alone
from core.model import Admission, Key, Reserve, Workload
from core.model.forecast import StartForecast
from core.model.workload import COMMON, Rare
from core.simulation.simulation import Arrival, Simulation

FEWEST_RUNS, MOST_RUNS = 8, 32
"""Runs with different run times: at least, before the interval can be called stable, and at most."""
_NORMAL: Final = NormalDist()
HORIZON: Final = 30 * 86_400.0
"""Seconds: what starts later is said to be unknown."""
STABLE_MEDIANS, STABLE_WIDTHS = 0.03, 0.1
"""The interval is stable when two more runs change medians and widths by no more than this part, taken together."""
LONG_QUEUE: Final = 100
"""With more waiting workloads the first answer is coarse, and so are runs whose run times spread in any case."""
MOST_ARRIVALS: Final = 2_000
"""So many workloads arrive in one run at most, and no more than a few times as many as there are: whoever waits behind
all that arrive has a start in the end.
"""
NEVER: Final = "it does not start as things are"
ARRIVING: Final = "+"
"""No object has a name that ends so."""
FIRST_GRAIN, FINE_GRAIN = 1 / 8, 1 / 32
"""How coarse: the part of the time from now by which ends are rounded."""


class Forecast(Struct, frozen=True):
    """The starts of all that wait in an arena, counted from ``at``. ``runs`` is how many there were, ``final`` whether
    more would change nothing that matters.
    """

    arena: str
    at: float
    starts: Mapping[Key, StartForecast]
    runs: int
    final: bool

    def age(self, now: float) -> float:
        """Seconds since the moment that the forecast is about."""
        return max(0.0, now - self.at)


def forecast(
    about: Situation,
    run_times: RunTimes,
    seed: int = 0,
    *,
    runs: int = MOST_RUNS,
    horizon: float = HORIZON,
    budget: int | None = None,
    arrivals: Iterable[Arrival] = (),
    rates: ArrivalRates = NOBODY,
    only: Collection[Key] | None = None,
) -> Forecast:
    """Returns when the waiting workloads of a situation start. ``budget`` limits the moments that are played in all
    runs together: with none left, the last answer so far counts, or that of an unfinished first run. ``only`` are the
    workloads that are asked about: a run is over when these have started.
    """
    found: Forecast | None = None
    steps = forecast_in_steps(
        about, run_times, seed, runs=runs, horizon=horizon, budget=budget, arrivals=arrivals, rates=rates, only=only
    )
    for step in steps:
        found = step or found
    assert found is not None, "the last step is an answer"
    return found


def forecast_in_steps(
    about: Situation,
    run_times: RunTimes,
    seed: int = 0,
    *,
    runs: int = MOST_RUNS,
    horizon: float = HORIZON,
    budget: int | None = None,
    arrivals: Iterable[Arrival] = (),
    rates: ArrivalRates = NOBODY,
    only: Collection[Key] | None = None,
) -> Iterator[Forecast | None]:
    """As ``forecast``, in steps: yields None at every moment that is played, and an answer whenever there is a better
    one. The last step is an answer.
    """
    limits = _Limits(horizon, math.inf if budget is None else budget)
    yield from _Forecasting(about, run_times, seed, tuple(arrivals), rates, limits, only).run(runs)


class _Start(NamedTuple):
    """When a workload started in one run, with what, and whose end let it start."""

    at: float
    flavors: tuple[str, ...]
    after: Key | None


class _Run(Simulation):
    """One run, which is over when all that are awaited have started; ``coming`` arrive meanwhile, in order of time."""

    def __init__(
        self,
        about: Situation,
        arrivals: Iterable[Arrival],
        coming: Iterator[Arrival],
        awaited: Iterable[Key],
        grain: float,
    ) -> None:
        self.starts: dict[Key, _Start] = {}
        self.awaited = set(awaited)
        self.coming = coming
        self.arriving = next(coming, None)
        self.freed: dict[str, tuple[float, Key]] = {}
        policy = about.policy
        self.plain = not (policy.block_admission or policy.admission_fair_sharing or policy.topology)
        """Whether nothing but quota depends on what workloads hold."""
        super().__init__(
            about.state(explains=not grain), arrivals, start=float(int(about.now)), life=about.life, grain=grain
        )

    def play(self, horizon: float) -> Iterator[None]:
        """Plays one moment after the other. When nothing but arrivals would happen any more, nobody starts for them."""
        now = 0.0
        while self.awaited and (at := self.next(now)) is not None:
            while self.arriving is not None and self.arriving.at <= at:
                arrives = replace(self.arriving, at=self._rounded(self.arriving.at, now))
                self.submit(arrives)
                at = min(at, arrives.at)
                self.arriving = next(self.coming, None)
            if at > horizon:
                break
            now = at
            self.advance(now)
            self.schedule(now)
            yield
        self.timeline.end = now

    def _use(self, admission: Admission, sign: int) -> None:
        """Nobody asks for the usage over time."""

    def _line_up(self, key: Key) -> None:
        """Nobody asks how many wait."""

    def _reserve(self, decision: Reserve, now: float) -> None:
        """A workload without a history holds quota as State has assumed it, and is not counted a second time."""
        key, state = decision.workload.key, self.state
        if not (self.plain and decision.admitted and now == int(now) and _is_new(self.workloads[key])):
            super()._reserve(decision, now)
            return
        held = state.reservations.get(key)
        assert held is not None, "State has applied the decision"
        self.workloads[key] = held.workload
        self._run(decision.admission, key, now)

    def _succeed(self, key: Key, now: float) -> None:
        """Nobody reads a workload that has finished."""
        self.timeline.courses[key].finished = now
        self._end(key, now)
        del self.workloads[key]
        self.state.set_workload(key, None)

    def _run(self, admission: Admission, key: Key, now: float) -> None:
        super()._run(admission, key, now)
        if key in self.awaited:
            self.awaited.discard(key)
            flavors = tuple(dict.fromkeys(each for given in admission.pod_sets for each in given.flavors.values()))
            freed = [self.freed[name] for name in flavors if name in self.freed]
            self.starts[key] = _Start(now, flavors, next((by for at, by in freed if at == now), None))

    def _end(self, key: Key, now: float, reason: str = "", why: str = "", preemptor: Key | None = None) -> None:
        super()._end(key, now, reason, why, preemptor)
        for given in self.timeline.courses[key].attempts[-1].admission.pod_sets:
            for flavor in given.flavors.values():
                self.freed[flavor] = (now, key)


class _Draw(NamedTuple):
    """Which run times a run takes: the medians without ``pair``, else values that ``pair`` chooses, or with ``odd`` the
    opposite ones: where one run takes a long time, the other takes a short one. ``ends`` is whether workloads of which
    nothing is known end at once, instead of never.
    """

    pair: int | None = None
    odd: bool = False
    ends: bool = False


class _Played(NamedTuple):
    """What is kept of a run: the starts, why each workload waited first, and whether it was played to its end."""

    starts: Mapping[Key, _Start]
    waits: Mapping[Key, str]
    ended: bool


class _Limits(NamedTuple):
    """The seconds after which a run ends, and the moments that are played in all runs together."""

    horizon: float
    budget: float


class _Forecasting:
    """The runs of one forecast."""

    def __init__(
        self,
        about: Situation,
        run_times: RunTimes,
        seed: int,
        arrivals: tuple[Arrival, ...],
        rates: ArrivalRates,
        limits: _Limits,
        only: Collection[Key] | None,
    ) -> None:
        self.about = about = alone(about)
        self.seed = seed
        self.arrivals = arrivals
        self.rates = rates
        self.horizon, self.budget = limits
        self.asked = about.waiting if only is None else tuple(each for each in about.waiting if each.key in only)
        there = (*about.holding, *about.waiting)
        self.rests = {each.key: rest_of(each, about.now, run_times) for each in there}
        self.blind = [key for key, found in self.rests.items() if not found.known]
        lately = {each.key: each for queue in rates.queues for burst in queue.bursts for each in burst}
        self.lengths = {
            key: known
            for key, each in lately.items()
            if (known := run_times(each, 0.0).capped(each.max_execution)).known
        }
        self.most_arrivals = min(MOST_ARRIVALS, 100 + 4 * len(there)) if self.lengths else 0
        self.exact = all(found.exact for found in self.rests.values()) and not self.lengths
        self.long = len(about.waiting) > LONG_QUEUE
        sources = Counter(found.rests_on for found in self.rests.values() if found.known)
        self.rests_on = sources.most_common(1)[0][0] if sources else ""
        self.elsewhere = {name for name in about.cluster_queues if about.elsewhere(name)}
        self.waits: Mapping[Key, str] = {}

    def run(self, most: int) -> Iterator[Forecast | None]:
        """Yields the answers, the first after one run."""
        first = yield from self._play(_Draw(), FIRST_GRAIN if self.long else 0.0)
        self.waits = first.waits
        if self.exact or self._at_once(first):
            if self.long and first.ended:
                yield self._answer([first], coarse=True)
                finer = yield from self._play(_Draw(), 0.0)
                if finer.ended:
                    yield self._answer([finer], final=True)
                    return
            yield self._answer([first], coarse=self.long, final=True)
            return
        medians = [first]
        if self.blind and first.ended:
            medians.append((yield from self._play(_Draw(ends=True), FIRST_GRAIN if self.long else 0.0)))
        answer = self._answer(medians, coarse=True)
        sampled: list[_Played] = []
        while len(sampled) < most and self.budget > 0:
            yield answer
            for odd in (False, True):
                draw = _Draw(len(sampled) // 2, odd=odd, ends=odd)
                played = yield from self._play(draw, FINE_GRAIN if self.long else 0.0)
                if played.ended:
                    sampled.append(played)
            if len(sampled) % 2:
                break  # the budget is used up
            before, answer = answer, self._answer(sampled)
            if len(sampled) >= FEWEST_RUNS and _stable(before, answer):
                break
        yield Forecast(answer.arena, answer.at, answer.starts, answer.runs, final=True)

    def _play(self, draw: _Draw, grain: float) -> Generator[None, None, _Played]:
        there = (*self.about.holding, *self.about.waiting)
        arrivals = [
            Arrival(0.0, workload, self._rest(self.rests[workload.key], workload.key, draw)) for workload in there
        ]
        coming = iter(()) if grain == FIRST_GRAIN else self._coming(draw)
        run = _Run(self.about, [*arrivals, *self.arrivals], coming, (each.key for each in self.asked), grain)
        for _ in run.play(self.horizon):
            yield None
            self.budget -= 1
            if self.budget <= 0:
                break
        why = (
            {}
            if self.waits
            else {key: course.waits[0][2] for key, course in run.timeline.courses.items() if course.waits}
        )
        return _Played(run.starts, why, self.budget > 0 or not run.awaited)

    def _at_once(self, run: _Played) -> bool:
        """Whether all start before anybody can end: every run is like this one."""
        if self.long or any(each.key not in run.starts or run.starts[each.key].at for each in self.asked):
            return False
        return all(not rest.known or rest.quantiles[0] > 0 for rest in self.rests.values())

    def _coming(self, draw: _Draw) -> Iterator[Arrival]:
        """Yields who arrives in a run, as far as it is known how long such a workload runs. A long queue has a first
        answer without.
        """
        drawn = self.rates.drawn(f"{self.seed} {draw.pair}", opposite=draw.odd) if self.most_arrivals else iter(())
        for number, (at, like) in enumerate(islice(drawn, self.most_arrivals)):
            rest = self.lengths.get(like.key)
            if rest is not None:
                key = Key(like.key.namespace, f"{number}{ARRIVING}")
                yield Arrival(at, _created(like, key, self.about.now + at), self._rest(rest, key, draw))

    def _rest(self, rest: RunTime, key: Key, draw: _Draw) -> float:
        """How much longer a workload runs in a run."""
        if not rest.known:
            return 1.0 if draw.ends else math.inf
        if draw.pair is None or rest.exact:
            return rest.at(0.5)
        part = self._part(f"{draw.pair} {key.namespace}/{key.name}")
        if rest.together:
            shared = _NORMAL.inv_cdf(self._part(f"{draw.pair} {rest.like}")) * math.sqrt(rest.together)
            part = _NORMAL.cdf(shared + _NORMAL.inv_cdf(part) * math.sqrt(1.0 - rest.together))
        return rest.at(1.0 - part if draw.odd else part)

    def _part(self, name: str) -> float:
        """Returns a number between 0 and 1 that a name and the seed determine."""
        drawn = hashlib.blake2b(f"{self.seed} {name}".encode(), digest_size=4).digest()
        return (int.from_bytes(drawn) + 0.5) / 2**32

    def _answer(self, runs: list[_Played], *, coarse: bool = False, final: bool = False) -> Forecast:
        starts = {workload.key: self._start(workload, runs, coarse=coarse) for workload in self.asked}
        return Forecast(self.about.arena, self.about.now, starts, len(runs), final)

    def _start(self, workload: Workload, runs: list[_Played], *, coarse: bool) -> StartForecast:
        key, name = workload.key, self.about.queue_of(workload)
        why = self.waits.get(key) or f"others of ClusterQueue {name} come first"
        base = StartForecast(key, name, self.about.now, waits_for=why, coarse=coarse)
        if name in self.elsewhere:
            return replace(base, unknown="it starts in a worker cluster")
        found = [run.starts[key] for run in runs if key in run.starts]
        times = sorted([*(start.at for start in found), *[math.inf] * (len(runs) - len(found))])
        p10, p50, p90 = (_quantile(times, part) for part in (0.1, 0.5, 0.9)) if len(times) > 1 else times * 3
        two = coarse and len(runs) == 2  # what differs between them depends on what is not known
        if p90 == math.inf or (two and times[0] < times[1]):
            why = self._why_unknown(key, runs)
            return replace(base, unknown=why, never=why.startswith(NEVER))
        flavors, after = _most_common([(start.flavors, start.after) for start in found])
        wide = coarse and not self.exact  # one run gives no interval
        queue = self.about.cluster_queues[name]
        return replace(
            base,
            p10=None if wide else p10,
            p50=p50,
            p90=None if wide else p90,
            flavors=flavors,
            after=after,
            rests_on=self.rests_on,
            checks=tuple(rule.name for rule in queue.checks if not rule.on_flavors or {*flavors} & rule.on_flavors),
        )

    def _why_unknown(self, key: Key, runs: list[_Played]) -> str:
        if self.blind and any(key in run.starts for run in runs):
            each = "1 workload" if len(self.blind) == 1 else f"up to {len(self.blind)} workloads"
            return f"it depends on how long {each} will run, of which nothing is known"
        if not all(run.ended for run in runs):
            return "the forecast was not played to its end"
        return f"{NEVER}: {self.waits.get(key, 'its queue does not run')}"


def _is_new(workload: Workload) -> bool:
    """Whether nothing is known of a workload but what it asks for."""
    return not workload.conditions and not workload.checks and workload.rare is COMMON


def _created(like: Workload, key: Key, at: float) -> Workload:
    """Returns a workload like another one, as it is created."""
    return Workload(
        key,
        str(key),
        float(int(at)),
        like.queue,
        like.priority,
        like.pod_sets,
        owner=like.owner,
        priority_class=like.priority_class,
        rare=COMMON if like.max_execution is None else Rare(max_execution=like.max_execution),
    )


def _most_common(found: list[tuple[tuple[str, ...], Key | None]]) -> tuple[tuple[str, ...], Key | None]:
    return found[0] if len(found) == 1 else Counter(found).most_common(1)[0][0]


def _quantile(times: list[float], part: float) -> float:
    """As ``quantile``; where a time is infinite, one of them."""
    return quantile(times, part) if times[-1] < math.inf else times[round(part * (len(times) - 1))]


def _stable(before: Forecast, after: Forecast) -> bool:
    """Whether the last pair of runs has changed little."""
    medians = widths = moved = widened = 0.0
    for key, now in after.starts.items():
        old = before.starts[key]
        if (now.p50 is None) != (old.p50 is None) or old.p10 is None or old.p90 is None:
            if now.known:
                return False
            continue
        if now.p10 is None or now.p50 is None or now.p90 is None or old.p50 is None:
            continue
        medians += now.p50
        widths += now.p90 - now.p10
        moved += abs(now.p50 - old.p50)
        widened += abs((now.p90 - now.p10) - (old.p90 - old.p10))
    return moved <= STABLE_MEDIANS * medians and widened <= STABLE_WIDTHS * widths
