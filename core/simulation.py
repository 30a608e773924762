"""The life of many workloads on a virtual clock: the same State, cycle and transitions as the controller, no cluster.

Pods need no time to start or to go, and a preempted workload begins anew; everything else is as it would be. Time is
advanced from event to event (an arrival, an end, the end of a backoff), so a quiet year costs nothing.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from api import names
from core import transitions
from core.cycle import drain
from core.model import Admission, FlavorResource, Key, Reserve, Victim, Wait, Workload
from core.state import State


@dataclass(frozen=True, slots=True)
class Arrival:
    """A workload that is submitted at a time, and runs for so many seconds once it is admitted.

    One that holds quota already runs from its arrival on.
    """

    at: float
    workload: Workload
    run_for: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """One admission of a workload; ``ended`` is None while it runs, ``preempted`` says why it ended before its time."""

    cluster_queue: str
    admission: Admission
    started: float
    ended: float | None = None
    preempted: str = ""
    preemptor: Key | None = None


@dataclass(slots=True)
class Course:
    """What became of one workload. ``waits`` are the reasons it was told, each when it was told first."""

    arrival: Arrival
    attempts: list[Attempt] = field(default_factory=list)
    waits: list[tuple[float, str, str]] = field(default_factory=list)
    finished: float | None = None

    @property
    def waited(self) -> float | None:
        """Seconds from arrival to the first admission; None where that has not come."""
        return self.attempts[0].started - self.arrival.at if self.attempts else None


@dataclass(frozen=True, slots=True)
class Level:
    """From ``at`` on, a ClusterQueue uses so much of a flavor's resource, and ``pending`` workloads wait in it."""

    at: float
    cluster_queue: str
    used: dict[FlavorResource, int]
    pending: int


@dataclass(slots=True)
class Timeline:
    """All that happened: courses in order of arrival, levels in order of time, and when the simulation ended."""

    courses: dict[Key, Course] = field(default_factory=dict)
    levels: list[Level] = field(default_factory=list)
    end: float = 0.0


@dataclass(frozen=True, slots=True, order=True)
class _Event:
    at: float
    number: int
    key: Key
    attempt: int = -1  # -1: the workload arrives; else: this attempt of it ends


def simulate(state: State, arrivals: Iterable[Arrival], *, until: float | None = None) -> Timeline:
    """Play the arrivals on a state that holds the queues, until all is done, nothing moves any more, or ``until``."""
    return _Simulation(state, arrivals).run(until)


class _Simulation:
    def __init__(self, state: State, arrivals: Iterable[Arrival]) -> None:
        self.state = state
        self.timeline = Timeline()
        self.numbers = itertools.count()
        self.events: list[_Event] = []
        self.workloads: dict[Key, Workload] = {}
        self.used: dict[str, dict[FlavorResource, int]] = defaultdict(lambda: defaultdict(int))
        self.waiting: dict[str, set[Key]] = defaultdict(set)
        self.touched: set[str] = set()
        for arrival in sorted(arrivals, key=lambda a: (a.at, a.workload.key)):
            self.timeline.courses[arrival.workload.key] = Course(arrival)
            self._expect(arrival.at, arrival.workload.key)

    def run(self, until: float | None) -> Timeline:
        now = 0.0
        while (at := self._next(now)) is not None and (until is None or at <= until):
            now = at
            while self.events and self.events[0].at <= now:
                self._happen(heapq.heappop(self.events), now)
            self._schedule(now)
            self._note(now)
        self.timeline.end = now if until is None else until
        return self.timeline

    def _next(self, now: float) -> float | None:
        moments = [self.events[0].at] if self.events else []
        backoff = self.state.next_wake(now)
        if backoff is not None and backoff > now:
            moments.append(backoff)
        return min(moments, default=None)

    def _expect(self, at: float, key: Key, attempt: int = -1) -> None:
        heapq.heappush(self.events, _Event(at, next(self.numbers), key, attempt))

    def _happen(self, event: _Event, now: float) -> None:
        course = self.timeline.courses[event.key]
        if event.attempt < 0:
            workload = course.arrival.workload
            self._set(workload)
            if workload.admission is not None and workload.holds(names.Condition.QUOTA_RESERVED):
                self._run(workload.admission, event.key, now)
            else:
                self._wait(event.key)
        elif event.attempt == len(course.attempts) - 1 and course.attempts[-1].ended is None:
            course.finished = now
            self._end(event.key, now)
            done = transitions.finished(self.workloads[event.key], names.FinishedReason.SUCCEEDED, "", now)
            self._set(done)

    def _schedule(self, now: float) -> None:
        """Cycles until nothing more comes of them; the quota of victims is free at once."""
        more = True
        while more:
            more = False
            for plan in drain(self.state, self.state.policy, now):
                for decision in plan.decisions:
                    match decision:
                        case Reserve():
                            self._reserve(decision, now)
                        case Wait():
                            self._tell(decision, now)
                            for victim in decision.victims:
                                self._preempt(victim, decision.workload.key, now)
                                more = True

    def _reserve(self, decision: Reserve, now: float) -> None:
        key, admission = decision.workload.key, decision.admission
        self._set(transitions.reserved(self.workloads[key], admission, now))
        for waiting in self.waiting.values():
            waiting.discard(key)
        self._run(admission, key, now)

    def _run(self, admission: Admission, key: Key, now: float) -> None:
        course = self.timeline.courses[key]
        course.attempts.append(Attempt(admission.cluster_queue, admission, now))
        self._use(admission, +1)
        self._expect(now + course.arrival.run_for, key, len(course.attempts) - 1)

    def _tell(self, decision: Wait, now: float) -> None:
        course = self.timeline.courses[decision.workload.key]
        if not course.waits or course.waits[-1][1:] != (decision.reason, decision.message):
            course.waits.append((now, decision.reason, decision.message))

    def _preempt(self, victim: Victim, preemptor: Key, now: float) -> None:
        key = victim.workload.key
        self._end(key, now, victim.message, preemptor)
        out = transitions.preempted(self.workloads[key], victim.reason, victim.message, now)
        free = transitions.released(out, now)
        self._set(out)
        self._set(free)
        self._wait(key)

    def _end(self, key: Key, now: float, why: str = "", preemptor: Key | None = None) -> None:
        attempts = self.timeline.courses[key].attempts
        last = attempts[-1]
        attempts[-1] = Attempt(last.cluster_queue, last.admission, last.started, now, why, preemptor)
        self._use(last.admission, -1)

    def _set(self, workload: Workload) -> None:
        self.workloads[workload.key] = workload
        self.state.set_workload(workload.key, workload)

    def _wait(self, key: Key) -> None:
        name = self.state.lines.where(key)
        if name is not None:
            self.waiting[name].add(key)
            self.touched.add(name)

    def _use(self, admission: Admission, sign: int) -> None:
        used = self.used[admission.cluster_queue]
        self.touched.add(admission.cluster_queue)
        for pod_set in admission.pod_sets:
            for resource, amount in pod_set.usage.items():
                flavor = pod_set.flavors.get(resource)
                if flavor is not None:
                    used[FlavorResource(flavor, resource)] += sign * amount

    def _note(self, now: float) -> None:
        for name in sorted(self.touched):
            used = {fr: amount for fr, amount in self.used[name].items() if amount}
            self.timeline.levels.append(Level(now, name, used, len(self.waiting[name])))
        self.touched.clear()
