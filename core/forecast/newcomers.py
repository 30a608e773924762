"""Forecasts for jobs that do not exist yet: one for each kind of job that waits or runs in an arena, as if it were
created now.

So the warning about a new job needs no computation while its client waits. A job of another shape has no forecast until
one like it has waited; a dry run asks for its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from core.forecast.arrivals import NOBODY, ArrivalRates
from core.forecast.forecast import forecast_in_steps
from core.forecast.run_times import RunTime, RunTimes
from core.forecast.situation import Situation, with_workloads
from core.model import Key, PodSet, Workload
from core.model.forecast import StartForecast
from core.quota.demand import shape

MOST: Final = 40
"""So many kinds of jobs at most in an arena, those that were created last."""
ALONE: Final = 60
"""With no more workloads in the arena each newcomer has runs of its own; else they are all in the same runs, in which
each is in the way of the others for a second.
"""
RUNS: Final = 8
SUFFIX: Final = "?"
"""No object has such a name."""
_SHORT: Final = RunTime((1.0,), "")
"""How long a newcomer runs in the forecast: it must not be in the way of others."""


class NewcomerKind(NamedTuple):
    """What newcomers have in common: LocalQueue, priority and what decides where and when their pods may run."""

    local_queue: Key
    priority: int
    shape: tuple[Hashable, ...]


def kind_of(local_queue: Key, priority: int, pod_sets: Iterable[PodSet]) -> NewcomerKind:
    """Returns the kind of a job."""
    return NewcomerKind(local_queue, priority, tuple(shape(each) for each in pod_sets))


def _newcomers(about: Situation) -> list[Workload]:
    latest: dict[NewcomerKind, Workload] = {}
    for each in (*about.holding, *about.waiting):
        if each.replaces is None and not each.variant_of and each.key not in about.evicted:
            kind = _kind(each)
            if kind not in latest or latest[kind].created < each.created:
                latest[kind] = each
    chosen = sorted(latest.items(), key=lambda item: (-item[1].created, repr(item[0])))[:MOST]
    return [
        newcomer(about, kind.local_queue, kind.priority, each.pod_sets, each.priority_class, number)
        for number, (kind, each) in enumerate(chosen)
    ]


def _kind(workload: Workload) -> NewcomerKind:
    return kind_of(Key(workload.key.namespace, workload.queue), workload.priority, workload.pod_sets)


def newcomer(
    about: Situation,
    local_queue: Key,
    priority: int,
    pod_sets: tuple[PodSet, ...],
    priority_class: str = "",
    number: int = 0,
) -> Workload:
    """Returns a job that is created at the moment of the situation, younger than all others."""
    key = Key(local_queue.namespace, f"{number}{SUFFIX}")
    return Workload(key, f"~{key}", about.now, local_queue.name, priority, pod_sets, priority_class=priority_class)


def of_newcomers(
    about: Situation, run_times: RunTimes, seed: int = 0, rates: ArrivalRates = NOBODY
) -> Iterator[list[tuple[NewcomerKind, StartForecast]] | None]:
    """Forecasts the kinds of an arena, in steps: yields None at every moment that is played, and answers where there
    are some.
    """
    made = _newcomers(about)
    alone = len(about.waiting) + len(about.holding) <= ALONE
    for several in [[each] for each in made] if alone else [made] if made else []:
        starts: Mapping[Key, StartForecast] = {}
        for step in of_newcomer(about, several, run_times, seed, rates):
            starts = step or starts
            yield None
        yield [(_kind(each), starts[each.key]) for each in several if each.key in starts]


def of_newcomer(
    about: Situation, made: Iterable[Workload], run_times: RunTimes, seed: int = 0, rates: ArrivalRates = NOBODY
) -> Iterator[Mapping[Key, StartForecast] | None]:
    """Forecasts newcomers that are in the situation together, in steps: yields None at every moment that is played, and
    an answer whenever there is a better one.
    """
    new = tuple(made)
    asked, keys = with_workloads(about, new), {each.key for each in new}
    for step in forecast_in_steps(asked, of_others(run_times), seed, runs=RUNS, rates=rates, only=keys):
        yield step.starts if step is not None else None


def of_others(run_times: RunTimes) -> RunTimes:
    """Returns the same run times, with newcomers that end at once."""

    def remaining(workload: Workload, ran: float) -> RunTime:
        return _SHORT if workload.key.name.endswith(SUFFIX) else run_times(workload, ran)

    return remaining
