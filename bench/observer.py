"""Figures of a bench, and what must always hold, from the events of all Workloads, judged after the bench.

It shares no code with the controller, so that a bug there cannot hide itself here. Events are judged in the order in
which the API server stored them, with running sums: constant cost for each.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
    use = _Use(events, limits)
    broken: list[str] = []
    holder: dict[str, str] = {}
    evicted: set[str] = set()
    admitted: set[str] = set()
    for before, seen in _changes(events):
        use.change(before, seen)
        if seen.holds and (before is None or (before.queue, before.cpu) != (seen.queue, seen.cpu)):
            broken += use.exceeded(seen)
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
    finished = {seen.name for seen in use.last.values() if seen.finished}
    lost = sorted(set(created) - finished)
    if lost:
        broken.append(f"{len(lost)} of {len(created)} workloads have not finished: {', '.join(lost[:5])}")
    return broken


def trace(events: Iterable[Seen], limits: CpuLimits) -> list[str]:
    """Returns the last changes in the cohort in which a quota was exceeded first (``judge``), up to then, a line each;
    none if none was.
    """
    events = list(events)
    use = _Use(events, limits)
    changes: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=TRACED))
    for before, seen in _changes(events):
        use.change(before, seen)
        queue = seen.queue or (before.queue if before is not None else "")
        if not queue:
            continue
        cohort = limits.cohort_of[queue]
        words = ", ".join(word for word in ("admitted", "evicted", "finished", "deleted") if getattr(seen, word))
        changes[cohort].append(
            f"{seen.at:.3f} {seen.name} {seen.uid}: {'holds' if seen.holds else 'does not hold'} {seen.cpu:g} cpu"
            f" ({words}); {cohort} uses {use.cohorts[cohort]:g}"
        )
        if seen.holds and use.exceeded(seen):
            return list(changes[cohort])
    return []


class _Use:
    """Running sums of the cpu in use, by ClusterQueue and by cohort; ``last`` is the last state of each Workload."""

    def __init__(self, events: Iterable[Seen], limits: CpuLimits) -> None:
        self.last: dict[str, Seen] = {}
        self.queues: defaultdict[str, float] = defaultdict(float)
        self.cohorts: defaultdict[str, float] = defaultdict(float)
        self._limits = limits
        self._evicted_at: defaultdict[str, list[float]] = defaultdict(list)
        for before, seen in _changes(events):
            if seen.evicted and not (before is not None and before.evicted):
                self._evicted_at[seen.uid].append(seen.at)

    def change(self, before: Seen | None, seen: Seen) -> None:
        """Counts a change."""
        self.last[seen.uid] = seen
        for state, sign in ((before, -1), (seen, 1)):
            if state is not None and state.holds:
                self.queues[state.queue] += sign * state.cpu
                self.cohorts[self._limits.cohort_of[state.queue]] += sign * state.cpu

    def exceeded(self, seen: Seen) -> list[str]:
        """Returns a sentence for each quota, of a Workload's ClusterQueue and cohort, that is exceeded, and not only by
        victims that stop.
        """
        cohort_of, cohort = self._limits.cohort_of, self._limits.cohort_of[seen.queue]
        found = []
        used, limit = self.queues[seen.queue], self._limits.queues[seen.queue]
        if used > limit and used - self._of_victims(seen.at, lambda each: each.queue == seen.queue) > limit:
            found.append(f"{seen.name}: ClusterQueue {seen.queue} uses {used:g} cpu of {limit:g}")
        used, limit = self.cohorts[cohort], self._limits.cohorts[cohort]
        if used > limit and used - self._of_victims(seen.at, lambda each: cohort_of[each.queue] == cohort) > limit:
            found.append(f"{seen.name}: cohort {cohort} uses {used:g} cpu of {limit:g}")
        return found

    def _of_victims(self, at: float, counts: Callable[[Seen], bool]) -> float:
        """The cpu of Workloads that hold quota, and are evicted or soon will be."""
        return sum(
            each.cpu
            for each in self.last.values()
            if each.holds
            and counts(each)
            and (each.evicted or any(at <= moment <= at + VICTIM_SECONDS for moment in self._evicted_at[each.uid]))
        )


def _changes(events: Iterable[Seen]) -> Iterator[tuple[Seen | None, Seen]]:
    """Yields each state of a Workload with the one before it, None for its first."""
    last: dict[str, Seen] = {}
    for seen in events:
        yield last.get(seen.uid), seen
        last[seen.uid] = seen


def evictions(events: Iterable[Seen]) -> int:
    """How often a Workload that held quota was evicted."""
    count = 0
    for before, seen in _changes(events):
        count += seen.evicted and before is not None and before.holds and not before.evicted
    return count


def mean_use(events: Iterable[Seen], began: float, ended: float) -> float:
    """The mean cpu of admitted, unfinished Workloads between two moments."""
    total = 0.0
    for before, seen in _changes(events):
        for state, sign in ((before, -1), (seen, 1)):
            if state is not None and state.runs:
                total += sign * state.cpu * max(0.0, ended - max(seen.at, began))
    return total / (ended - began)


def admitted_at(events: Iterable[Seen]) -> dict[str, float]:
    """When each workload was admitted for the last time, by name: an evicted one waits again."""
    found: dict[str, float] = {}
    for before, seen in _changes(events):
        if seen.runs and (before is None or not before.runs):
            found[seen.name] = seen.at
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
    total = 0.0
    for before, seen in _changes(events):
        cohort = limits.cohort_of[seen.name.partition("/")[0]]
        total += _idle(free[cohort], waiting[cohort]) * (_within(seen.at, began, ended) - since[cohort])
        since[cohort] = _within(seen.at, began, ended)
        for state, sign in ((before, -1), (seen, 1)):
            if state is not None and state.holds:
                free[cohort] -= sign * state.cpu
            elif state is not None and not (state.finished or state.deleted):
                waiting[cohort][requested[seen.name]] += sign
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
    for before, seen in _changes(events):
        if before is not None and before.holds and not seen.holds and seen.at > since:
            freed.append(seen.at)
        if freed and seen.runs and (before is None or not before.runs):
            found.append(seen.at - freed.popleft())
    return found
