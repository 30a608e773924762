"""Figures of a bench, and what must always hold, from the events of all Workloads, judged after the bench.

It shares no code with the controller, so that a bug there cannot hide itself here. Events are judged in the order in
which the API server stored them, with running sums: constant cost for each.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

TRACED = 40
"""Changes that ``trace`` returns."""
VICTIM_SECONDS = 5.0
"""The decisions of one cycle are written within this time: what is evicted so soon after a reservation was its victim,
or that of a head before it.
"""


class Seen(NamedTuple):
    """One state of a Workload. ``at`` is the observer's clock, ``queue`` and ``cpu`` are its reservation.

    ``name`` is namespace and name of the object that the bench created for it.
    """

    at: float
    name: str
    uid: str
    queue: str
    cpu: float
    admitted: bool
    evicted: bool
    finished: bool
    deleted: bool

    @property
    def holds(self) -> bool:
        """Whether it uses quota."""
        return bool(self.queue) and not self.finished and not self.deleted

    @property
    def runs(self) -> bool:
        """Whether it is admitted and not finished."""
        return self.admitted and self.holds


class CpuLimits(NamedTuple):
    """The cpu that each ClusterQueue may use with borrowing, its cohort, and the cpu of each cohort."""

    queues: Mapping[str, float]
    cohort_of: Mapping[str, str]
    cohorts: Mapping[str, float]


def judge(events: Iterable[Seen], limits: CpuLimits, created: Collection[str]) -> list[str]:
    """Returns a sentence for each broken rule.

    The quota of no ClusterQueue and no cohort is exceeded at any moment, but by victims of a preemption that stop: as
    in Kueue a head may reserve what they leave. A Workload is admitted again only after it was evicted, and at most one
    Workload of a job holds quota; every workload that was created has finished at the end.
    """
    events = list(events)
    evicted_at = _evicted_at(events)
    broken: list[str] = []
    last: dict[str, Seen] = {}
    holder: dict[str, str] = {}
    evicted: set[str] = set()
    admitted: set[str] = set()
    queues: defaultdict[str, float] = defaultdict(float)
    cohorts: defaultdict[str, float] = defaultdict(float)
    for seen in events:
        before = last.get(seen.uid)
        last[seen.uid] = seen
        for state, sign in ((before, -1), (seen, 1)):
            if state is not None and state.holds:
                queues[state.queue] += sign * state.cpu
                cohorts[limits.cohort_of[state.queue]] += sign * state.cpu
        if seen.holds and (before is None or (before.queue, before.cpu) != (seen.queue, seen.cpu)):
            broken += _exceeded(seen, limits, queues, cohorts, partial(_victims, last.values(), seen.at, evicted_at))
        if seen.holds and holder.setdefault(seen.name, seen.uid) != seen.uid:
            broken.append(f"two Workloads of {seen.name} hold quota")
        elif not seen.holds and holder.get(seen.name) == seen.uid:
            del holder[seen.name]
        if seen.evicted:
            evicted.add(seen.uid)
        if seen.runs and (before is None or not before.runs):
            if seen.uid in admitted and seen.uid not in evicted:
                broken.append(f"{seen.name} was admitted again, and was not evicted before")
            admitted.add(seen.uid)
            evicted.discard(seen.uid)
        if before is not None and before.runs and seen.runs and before.queue != seen.queue:
            broken.append(f"{seen.name} moved from {before.queue} to {seen.queue} while it was admitted")
    finished = {seen.name for seen in last.values() if seen.finished}
    lost = sorted(set(created) - finished)
    if lost:
        broken.append(f"{len(lost)} of {len(created)} workloads have not finished: {', '.join(lost[:5])}")
    return broken


def trace(events: Iterable[Seen], limits: CpuLimits) -> list[str]:
    """Returns the last changes in the cohort whose quota was exceeded first (``judge``), up to then, a line each;
    none if none was.
    """
    events = list(events)
    evicted_at = _evicted_at(events)
    last: dict[str, Seen] = {}
    used: defaultdict[str, float] = defaultdict(float)
    changes: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=TRACED))
    for seen in events:
        before = last.get(seen.uid)
        last[seen.uid] = seen
        for state, sign in ((before, -1), (seen, 1)):
            if state is not None and state.holds:
                used[limits.cohort_of[state.queue]] += sign * state.cpu
        queue = seen.queue or (before.queue if before is not None else "")
        if not queue:
            continue
        cohort = limits.cohort_of[queue]
        states = {
            "evicted": seen.evicted,
            "finished": seen.finished,
            "deleted": seen.deleted,
            "admitted": seen.admitted,
        }
        words = ", ".join(name for name, holds in states.items() if holds)
        changes[cohort].append(
            f"{seen.at:.3f} {seen.name} {seen.uid}: {'holds' if seen.holds else 'does not hold'} {seen.cpu:g} cpu"
            f" ({words}); {cohort} uses {used[cohort]:g}"
        )
        victims = partial(_victims, last.values(), seen.at, evicted_at)
        if seen.holds and _exceeded(seen, limits, defaultdict(float), used, victims):
            return list(changes[cohort])
    return []


def _exceeded(
    seen: Seen,
    limits: CpuLimits,
    queues: Mapping[str, float],
    cohorts: Mapping[str, float],
    victims: Callable[[], list[Seen]],
) -> list[str]:
    """A sentence for each quota that is exceeded; ``victims`` are those that stop at present."""
    cohort = limits.cohort_of[seen.queue]
    found = []
    used, limit = queues[seen.queue], limits.queues[seen.queue]
    if used > limit and used - sum(each.cpu for each in victims() if each.queue == seen.queue) > limit:
        found.append(f"{seen.name}: ClusterQueue {seen.queue} uses {used:g} cpu of {limit:g}")
    used, limit = cohorts[cohort], limits.cohorts[cohort]
    if used > limit and used - sum(each.cpu for each in victims() if limits.cohort_of[each.queue] == cohort) > limit:
        found.append(f"{seen.name}: cohort {cohort} uses {used:g} cpu of {limit:g}")
    return found


def _evicted_at(events: Iterable[Seen]) -> dict[str, list[float]]:
    """When each Workload was evicted, by uid."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    last: dict[str, Seen] = {}
    for seen in events:
        before = last.get(seen.uid)
        last[seen.uid] = seen
        if seen.evicted and not (before is not None and before.evicted):
            found[seen.uid].append(seen.at)
    return found


def _victims(states: Iterable[Seen], at: float, evicted_at: Mapping[str, list[float]]) -> list[Seen]:
    """The Workloads that hold quota, and are evicted or soon will be."""
    return [
        each
        for each in states
        if each.holds
        and (each.evicted or any(at <= moment <= at + VICTIM_SECONDS for moment in evicted_at.get(each.uid, ())))
    ]


def evictions(events: Iterable[Seen]) -> int:
    """How often a Workload that held quota was evicted."""
    count = 0
    last: dict[str, Seen] = {}
    for seen in events:
        before = last.get(seen.uid)
        count += seen.evicted and before is not None and before.holds and not before.evicted
        last[seen.uid] = seen
    return count


def mean_use(events: Iterable[Seen], began: float, ended: float) -> float:
    """The mean cpu of admitted, unfinished Workloads between two moments."""
    total = 0.0
    last: dict[str, Seen] = {}
    for seen in events:
        before = last.get(seen.uid)
        for state, sign in ((before, -1), (seen, 1)):
            if state is not None and state.runs:
                total += sign * state.cpu * max(0.0, ended - max(seen.at, began))
        last[seen.uid] = seen
    return total / (ended - began)


def admitted_at(events: Iterable[Seen]) -> dict[str, float]:
    """When each workload was admitted for the last time, by name: an evicted one waits again."""
    found: dict[str, float] = {}
    last: dict[str, Seen] = {}
    for seen in events:
        before = last.get(seen.uid)
        if seen.runs and (before is None or not before.runs):
            found[seen.name] = seen.at
        last[seen.uid] = seen
    return found


def admission_seconds(events: Iterable[Seen], created: Mapping[str, float]) -> dict[str, float]:
    """The seconds from the creation to the last admission, by name."""
    return {name: at - created[name] for name, at in admitted_at(events).items() if name in created}


def finished_at(events: Iterable[Seen]) -> dict[str, float]:
    """When each workload was first seen finished, by name."""
    found: dict[str, float] = {}
    for seen in events:
        if seen.finished:
            found.setdefault(seen.name, seen.at)
    return found


def idle_while_waiting(
    events: Iterable[Seen], limits: CpuLimits, requested: Mapping[str, float], began: float, ended: float
) -> float:
    """The mean cpu that is free while workloads wait in the same cohort that would fit: what a faster controller could
    use.

    ``requested`` is the cpu of each workload by name. A workload waits from its first event, or its release.
    """
    free = dict(limits.cohorts)
    waiting: dict[str, defaultdict[float, int]] = {cohort: defaultdict(int) for cohort in free}
    since = dict.fromkeys(free, began)
    last: dict[str, Seen] = {}
    total = 0.0
    for seen in events:
        cohort = limits.cohort_of[seen.name.partition("/")[0]]
        before = last.get(seen.uid)
        total += _idle(free[cohort], waiting[cohort]) * (_within(seen.at, began, ended) - since[cohort])
        since[cohort] = _within(seen.at, began, ended)
        for state, sign in ((before, -1), (seen, 1)):
            if state is not None and state.holds:
                free[cohort] -= sign * state.cpu
            elif state is not None and not (state.finished or state.deleted):
                waiting[cohort][requested[seen.name]] += sign
        last[seen.uid] = seen
    total += sum(_idle(free[cohort], waiting[cohort]) * (ended - since[cohort]) for cohort in free)
    return total / (ended - began)


def _idle(free: float, waiting: Mapping[float, int]) -> float:
    """The free cpu that waiting workloads could use."""
    used = 0.0
    for cpu, count in sorted(waiting.items(), reverse=True):
        used += cpu * min(count, (free - used) // cpu)
    return used


def _within(at: float, began: float, ended: float) -> float:
    return min(max(at, began), ended)


def refill_seconds(events: Iterable[Seen], since: float) -> list[float]:
    """The seconds from each end of a workload after ``since`` to the admission that takes its place, first in first
    out: for workloads of equal size in one ClusterQueue.
    """
    found: list[float] = []
    freed: deque[float] = deque()
    last: dict[str, Seen] = {}
    for seen in events:
        before = last.get(seen.uid)
        if before is not None and before.holds and not seen.holds and seen.at > since:
            freed.append(seen.at)
        if freed and seen.runs and (before is None or not before.runs):
            found.append(seen.at - freed.popleft())
        last[seen.uid] = seen
    return found
