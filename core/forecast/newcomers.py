"""Forecasts for jobs that do not exist yet: one is made, with the others of the arena, for each kind of job that waits
or runs there, as if it were created now.

So the warning about a new job needs no computation while its client waits. A job of another shape has no forecast until
one like it has waited.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from core.forecast.run_times import RunTime, RunTimes
from core.forecast.situation import Situation, with_workloads
from core.model import Key, PodSet, Workload

MOST: Final = 40
"""So many kinds of jobs at most in an arena, those that were created last."""
SUFFIX: Final = "?"
"""No object has such a name."""
_SHORT: Final = RunTime((1.0,), "")
"""How long a newcomer runs in the forecast: it must not be in the way of others."""


class Kind(NamedTuple):
    """What newcomers have in common: LocalQueue, priority and what their pods request."""

    local_queue: Key
    priority: int
    shape: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]


def kind_of(local_queue: Key, priority: int, pod_sets: Iterable[PodSet]) -> Kind:
    """Returns the kind of a job."""
    return Kind(local_queue, priority, tuple((each.count, tuple(sorted(each.requests.items()))) for each in pod_sets))


def with_newcomers(about: Situation) -> tuple[Situation, dict[Key, Kind]]:
    """Returns the situation with a newcomer of each kind, and the kind of each by its key."""
    latest: dict[Kind, Workload] = {}
    for each in (*about.holding, *about.waiting):
        if each.replaces is None and not each.variant_of and each.key not in about.leaving:
            kind = kind_of(Key(each.key.namespace, each.queue), each.priority, each.pod_sets)
            if kind not in latest or latest[kind].created < each.created:
                latest[kind] = each
    chosen = sorted(latest.items(), key=lambda item: (-item[1].created, item[0]))[:MOST]
    found: dict[Key, Kind] = {}
    made = []
    for number, (kind, each) in enumerate(chosen):
        key = Key(kind.local_queue.namespace, f"{number}{SUFFIX}")
        found[key] = kind
        made.append(
            Workload(
                key, str(key), about.now, each.queue, each.priority, each.pod_sets, priority_class=each.priority_class
            )
        )
    return with_workloads(about, made), found


def of_others(run_times: RunTimes) -> RunTimes:
    """Returns the same run times, with newcomers that end at once."""

    def remaining(workload: Workload, ran: float) -> RunTime:
        return _SHORT if workload.key.name.endswith(SUFFIX) else run_times(workload, ran)

    return remaining
