"""Whom a change of queues, quotas or flavors hits: what waits and what runs, before the change and after it.

Two situations are compared: each is entered into a State of its own, in which the cycle runs once, so nothing is said
that the scheduler would not do. Separate from ``core.forecast.forecast``, which plays on until all have started: the
effects at once need no run times, so they are known where no start is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from api.names import PreemptionPolicy
from core.forecast.forecast import Forecast
from core.forecast.situation import Situation, alone
from core.model import FlavorResource, Key, Reserve, Workload
from core.model.effects import Effects, MovedStart, StoppedWorkload
from core.model.forecast import StartForecast
from core.model.workload import replace
from core.quota.demand import Demand
from core.quota.node import QueueNode
from core.simulation.simulation import Arrival, Simulation
from core.state.drain import drain
from core.state.state import State

MOVED_SECONDS: Final = 60.0
MOVED_PART: Final = 0.1
"""A start moves if it moves by so many seconds, and by this part of the wait."""


def effects(before: Situation, after: Situation) -> Effects:
    """Returns whom a change hits at once. Both situations are of the same moment; workloads that only one of them has
    are not looked at. The cost is that of four States with all of these workloads.
    """
    was, then = _play(before), _play(after)
    could, can = _startable(before), _startable(after)
    waiting = {each.key for each in before.waiting} & {each.key for each in after.waiting}
    return Effects(
        stopped=tuple(then.stopped[key] for key in sorted(then.stopped.keys() - was.stopped.keys())),
        exposed=_ordered((was.covered - then.covered) & then.reclaimable),
        covered=_ordered((then.covered - was.covered) & was.reclaimable),
        starting=_ordered((then.started - was.started) & waiting),
        never=_ordered((could - can) & waiting),
        possible=_ordered((can - could) & waiting - then.started),
        running=len(before.holding),
        waiting=len(before.waiting),
    )


def with_forecasts(found: Effects, before: Iterable[Forecast], after: Iterable[Forecast]) -> Effects:
    """Returns the effects with the starts that move, by the forecasts of both situations. What starts at once, or
    never, is named there alone.
    """
    was, then = _starts(before), _starts(after)
    named = {*found.starting, *found.never, *found.possible}
    later: list[MovedStart] = []
    sooner: list[MovedStart] = []
    for key in sorted(was.keys() & then.keys() - named):
        old, new = was[key].p50, then[key].p50
        if old is None:
            continue
        if new is None:
            later.append(MovedStart(key, old, None))
        elif abs(new - old) >= max(MOVED_SECONDS, MOVED_PART * old):
            (later if new > old else sooner).append(MovedStart(key, old, new))
    return replace(found, later=tuple(later), sooner=tuple(sooner))


class _Moment(NamedTuple):
    """One situation after one round of the cycle. ``covered`` hold quota within the nominal quota of their
    ClusterQueue, ``reclaimable`` are all of a ClusterQueue from which others may reclaim what is beyond it.
    """

    stopped: Mapping[Key, StoppedWorkload]
    started: set[Key]
    covered: set[Key]
    reclaimable: set[Key]


def _play(about: Situation) -> _Moment:
    about = alone(about)
    state = about.state()
    arrivals = [Arrival(0.0, each, math.inf) for each in (*about.holding, *about.waiting)]
    run = Simulation(state, arrivals, start=about.now, life=about.life)
    run.advance(0.0)
    covered, reclaimable = set[Key](), set[Key]()
    for arena in state.reservations.arenas.values():
        for node in arena.queues.values():
            covered |= _covered(node)
            reclaimable |= set(node.reserved) if _lends(node) else set()
    run.schedule(0.0)
    stopped = {each.key: stop for each in about.holding if (stop := _stop(run, each)) is not None}
    courses = run.timeline.courses
    started = {each.key for each in about.waiting if (tried := courses[each.key].attempts) and tried[-1].ended is None}
    return _Moment(stopped, started, covered, reclaimable)


def _stop(run: Simulation, workload: Workload) -> StoppedWorkload | None:
    """Whether a workload with quota lost it, and why."""
    course, queue = run.timeline.courses[workload.key], workload.admission.cluster_queue if workload.admission else ""
    for attempt in course.attempts[:1]:
        if attempt.ended is not None and course.finished is None:
            return StoppedWorkload(workload.key, queue, attempt.reason, attempt.preemptor)
    if workload.key in run.state.reservations or course.attempts:
        return None
    return StoppedWorkload(workload.key, queue, course.waits[-1][1] if course.waits else "")


def _covered(node: QueueNode) -> set[Key]:
    """Returns those that fit in the nominal quota, if victims of others are chosen in the order of preemption."""
    found = set[Key]()
    used: dict[FlavorResource, int] = {}
    for key, held in sorted(node.reserved.items(), key=lambda item: item[1].rank, reverse=True):
        amounts = held.usage.quota
        if all(used.get(fr, 0) + more <= _nominal(node, fr) for fr, more in amounts.items() if more):
            found.add(key)
            for fr, more in amounts.items():
                used[fr] = used.get(fr, 0) + more
    return found


def _nominal(node: QueueNode, fr: FlavorResource) -> int:
    quota = node.spec.quotas.get(fr)
    return quota.nominal if quota is not None else 0


def _lends(node: QueueNode) -> bool:
    """Whether another ClusterQueue of the tree may reclaim its quota."""
    return any(
        other is not node and other.spec.preemption.reclaim_within_cohort != PreemptionPolicy.NEVER
        for other in node.root().members()
    )


def _startable(about: Situation) -> set[Key]:
    """Returns those of the waiting workloads that start if nothing else is in the cluster. Equal ones are decided
    once.
    """
    about = alone(about)
    state = about.state()
    found = set[Key]()
    known: dict[tuple[str, str, Demand], bool] = {}
    for each in about.waiting:
        workload = replace(each, requeue_at=None, admission=None)
        kind = (each.key.namespace, each.queue, state.pending.demands.of(workload))
        if kind not in known:
            known[kind] = _starts_alone(state, workload, about.now)
        if known[kind]:
            found.add(each.key)
    return found


def _starts_alone(state: State, workload: Workload, now: float) -> bool:
    state.set_workload(workload.key, workload)
    decided = [decision for plan in drain(state, state.policy, now) for decision in plan.decisions]
    state.set_workload(workload.key, None)
    return any(isinstance(each, Reserve) for each in decided)


def _starts(found: Iterable[Forecast]) -> Mapping[Key, StartForecast]:
    return {key: start for each in found for key, start in each.starts.items()}


def _ordered(keys: Iterable[Key]) -> tuple[Key, ...]:
    return tuple(sorted(keys))
