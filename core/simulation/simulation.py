"""The lifecycle of many workloads on a virtual clock: the same State, cycle and rules as the controller, no cluster.

Jobs stop immediately when their workload is evicted, admission checks pass immediately or as given, and a workload that
was stopped starts from the beginning; everything else is as in a cluster. Time advances from event to event (an
arrival, an end, a deadline, the end of a backoff), so a quiet year costs nothing.
"""

from __future__ import annotations

import dataclasses
import enum
import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from api import names
from core import actions
from core.model import Admission, FlavorResource, Key, Reserve, StayPending, Victim, Workload
from core.model.workload import replace
from core.state.drain import drain
from core.state.state import State
from core.state.surroundings import surroundings
from core.topology.health import FAILED
from core.workload import node_failures, transitions
from core.workload.actions import Evict, LifePolicy, Surroundings
from core.workload.lifecycle import next_step, why_not_queued

MOST_STEPS = 100
"""A workload with more steps than this at one moment is in an endless loop."""
MOST_TRIES = 20
"""After so many second passes that found no room, with nothing between them and nothing to come, none finds any."""


_GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, are spread evenly."""


class Arrival(Struct, frozen=True, gc=False):
    """A workload that is submitted at a time, and runs for that many seconds, or without end, once it is admitted.

    One that holds quota already runs from its arrival. Its pods take ``ready_after`` seconds to become ready.
    """

    at: float
    workload: Workload
    run_for: float
    ready_after: float = 0.0


class Check(Struct, frozen=True, gc=False):
    """How an admission check decides: ``takes`` seconds after a reservation it has this verdict.

    With the verdict Retry the workload releases its quota and is queued again after ``retry_after`` seconds; the second
    time the check is Ready. One that takes infinitely long is decided by what happens in worker clusters
    (``core.simulation.fleet``).
    """

    takes: float = 0.0
    verdict: str = names.CheckState.READY
    retry_after: float = 60.0

    @property
    def passes(self) -> bool:
        """Whether it is ready immediately."""
        return not self.takes and self.verdict == names.CheckState.READY

    @property
    def elsewhere(self) -> bool:
        """Whether worker clusters decide it, in which its workloads run."""
        return self.takes == math.inf


class Replacement(Struct, frozen=True, gc=False):
    """The pods on these nodes, which are gone, run on other nodes from ``at`` on."""

    at: float
    nodes: tuple[str, ...]


class PlayedAttempt(Struct, frozen=True, gc=False):
    """One admission of a workload; ``ended`` is None while it runs, ``stopped`` is the reason if it ended early.

    ``preemptor`` is the workload for which it was preempted; otherwise it was evicted for ``reason``. ``admission`` has
    the nodes after all ``replacements``.
    """

    cluster_queue: str
    admission: Admission
    started: float
    ended: float | None = None
    reason: str = ""
    stopped: str = ""
    preemptor: Key | None = None
    replacements: tuple[Replacement, ...] = ()


@dataclass(slots=True)
class Course:
    """The result for one workload. ``waits`` are its reasons to wait: since when, the reason, its latest text."""

    arrival: Arrival
    attempts: list[PlayedAttempt] = field(default_factory=list)
    waits: list[tuple[float, str, str]] = field(default_factory=list)
    finished: float | None = None

    def waited(self, end: float) -> float | None:
        """Returns the seconds that it waited in total: from its arrival to its start, and from each stop to the next
        start.

        A workload that still waits has waited until ``end``; None for one that never started.
        """
        if not self.attempts:
            return None
        since = [self.arrival.at, *(attempt.ended for attempt in self.attempts)]
        until = [attempt.started for attempt in self.attempts]
        last = self.attempts[-1].ended
        if last is not None and self.finished is None:
            until.append(max(end, last))
        return sum(b - a for a, b in zip(since, until, strict=False) if a is not None)

    def record(self, at: float, reason: str, message: str) -> None:
        """It waits for this reason; as in a condition, a text that alone is new replaces the old one."""
        if self.waits and self.waits[-1][1] == reason:
            at = self.waits.pop()[0]
        self.waits.append((at, reason, message))


class UsageLevel(Struct, frozen=True, gc=False):
    """From ``at`` on, a ClusterQueue uses so much of a flavor's resource, and ``pending`` workloads wait in it."""

    at: float
    cluster_queue: str
    used: dict[FlavorResource, int]
    pending: int


@dataclass(slots=True)
class Timeline:
    """All that happened: courses in order of arrival, levels in order of time, and when the simulation ended."""

    courses: dict[Key, Course] = field(default_factory=dict)
    levels: list[UsageLevel] = field(default_factory=list)
    end: float = 0.0


class _What(enum.IntEnum):
    """The kinds of events; the order of events at the same moment with the same number."""

    ARRIVES = 0
    ENDS = 1
    READY = 2
    CHECKED = 3
    LOOKED_AT = 4


_Event = tuple[float, int, Key, _What, int]
"""Time, serial number, workload, event, and attempt; of CHECKED the number of its reservation."""


def simulate(
    state: State,
    arrivals: Iterable[Arrival],
    *,
    until: float | None = None,
    start: float = 0.0,
    life: LifePolicy | None = None,
    checks: Mapping[str, Check] | None = None,
    gone: Collection[str] = (),
) -> Timeline:
    """Play the arrivals on a state that holds the queues, until all is done, nothing moves any more, or ``until``.

    ``start`` is the moment, in epoch seconds, that all times of the simulation count from. A check that is not among
    ``checks`` is ready immediately. ``gone`` are the hostnames of nodes that have just failed, and that the state does
    not have: pods of workloads that arrive on one of them are placed anew, or the workload is evicted.
    """
    simulation = Simulation(state, arrivals, start=start, life=life, checks=checks, gone=gone)
    now = 0.0
    while (at := simulation.next(now)) is not None and (until is None or at <= until):
        now = at
        simulation.advance(now)
        simulation.schedule(now)
        simulation.note(now)
    return simulation.close(now if until is None else until)


class Simulation:
    """One cluster on the virtual clock.

    ``next`` is when something happens, ``advance`` and ``schedule`` do it, ``note`` keeps the usage, ``close`` ends it.
    """

    def __init__(
        self,
        state: State,
        arrivals: Iterable[Arrival],
        *,
        start: float = 0.0,
        life: LifePolicy | None = None,
        checks: Mapping[str, Check] | None = None,
        gone: Collection[str] = (),
        grain: float = 0.0,
    ) -> None:
        """With a ``grain`` workloads end at rounded times, the more so the later: by up to this part of the time since
        the start. Workloads that end together are handled together, which is what a long simulation costs.
        """
        self.state = state
        self.start = start
        self.grain = grain
        self.rounded = 0.0
        self.life = life or LifePolicy()
        self.checks = {name: check for name, check in (checks or {}).items() if not check.passes}
        self.gone = frozenset(gone)
        self.fruitless = 0
        self.held: dict[Key, tuple[Admission, float]] = {}
        self.reservations: dict[Key, int] = defaultdict(int)
        self.timeline = Timeline()
        self.numbers = itertools.count()
        self.events: list[_Event] = []
        self.workloads: dict[Key, Workload] = {}
        self.used: dict[str, dict[FlavorResource, int]] = defaultdict(lambda: defaultdict(int))
        self.waiting: dict[str, int] = defaultdict(int)
        self.line: dict[Key, str] = {}
        self.touched: set[str] = set()
        self.sampled = 0.0
        for arrival in sorted(arrivals, key=lambda a: (a.at, a.workload.key)):
            self.submit(arrival)
        self._sample(0.0)

    def submit(self, arrival: Arrival) -> None:
        """One more workload arrives, not before now."""
        self.timeline.courses[arrival.workload.key] = Course(arrival)
        self._expect(arrival.at, arrival.workload.key, _What.ARRIVES)

    # Time.

    def advance(self, now: float) -> None:
        """Everything that time alone brings about until now."""
        self._sample(now)
        while self.events and self.events[0][0] <= now:
            self._happen(heapq.heappop(self.events), now)

    def close(self, end: float) -> Timeline:
        """Returns what happened until the end."""
        self.timeline.end = end
        self._explain()
        return self.timeline

    def next(self, now: float) -> float | None:
        """Returns when time alone brings about something; None if never."""
        moments = [self.events[0][0]] if self.events else []
        wake = self.state.next_wake(self.start + now)
        if wake is not None and wake > self.start + now and (self.events or self.fruitless < MOST_TRIES):
            moments.append(wake - self.start)
        return min(moments, default=None)

    def _expect(self, at: float, key: Key, what: _What, attempt: int = -1) -> None:
        heapq.heappush(self.events, (at, next(self.numbers), key, what, attempt))

    def _rounded(self, at: float, now: float) -> float:
        """The time of an end in steps that are powers of two: up or down, so that on average none is too early or too
        late, however short a run is.
        """
        if not self.grain or at * self.grain < 1:
            return at
        step = 2.0 ** math.floor(math.log2(at * self.grain))
        self.rounded = (self.rounded + _GOLDEN) % 1
        return max(math.floor(at / step + self.rounded) * step, now)

    def _second(self, now: float) -> float:
        """The moment as an API server writes it: in whole seconds."""
        return float(int(self.start + now))

    def _sample(self, now: float) -> None:
        """The usage of LocalQueues is sampled as often as in the controller, if the order depends on it."""
        rules = self.state.policy.admission_fair_sharing
        while rules is not None and self.sampled <= now:
            self.state.local_queue_usage.sample(self.start + self.sampled)
            self.sampled += max(rules.sampling_interval, 1.0)

    def _happen(self, event: _Event, now: float) -> None:
        _, _, key, what, attempt = event
        course = self.timeline.courses[key]
        if key not in self.workloads and what is not _What.ARRIVES:
            return  # it was withdrawn
        if what is _What.ARRIVES:
            self._arrive(course.arrival, now)
        elif what is _What.LOOKED_AT:
            self._live(key, now)
        elif what is _What.CHECKED:
            if attempt == self.reservations[key] and key in self.held:
                self._check(key, now)
        elif attempt == len(course.attempts) - 1 and course.attempts[-1].ended is None:
            if what is _What.READY:
                self._ready(key, now)
            else:
                self._succeed(key, now)

    def _succeed(self, key: Key, now: float) -> None:
        """Its job has ended."""
        reason = names.FinishedReason.SUCCEEDED
        self._finish(transitions.finished(self.workloads[key], reason, "", self._second(now)), now)

    def _finish(self, workload: Workload, now: float) -> None:
        self.timeline.courses[workload.key].finished = now
        self._end(workload.key, now)
        self._set(workload)

    def _arrive(self, arrival: Arrival, now: float) -> None:
        workload = arrival.workload
        if workload.holds(names.Condition.EVICTED):
            workload = transitions.released(workload, self._second(now))
        self._set(workload)
        if workload.admission is not None and workload.holds(names.Condition.QUOTA_RESERVED):
            self._hold(workload.admission, workload.key, now)
        self._live(workload.key, now)
        if self.gone:
            self._lose_nodes(workload.key, now)

    def _lose_nodes(self, key: Key, now: float) -> None:
        """As in the controller: one node that is gone is written to the status, several evict the workload."""
        workload = self.workloads[key]
        lost = {name: FAILED for name in node_failures.assigned_nodes(workload) if name in self.gone}
        match node_failures.decide(workload, lost, self._second(now)):
            case Evict() as step:
                self._stop(step.after, now, step.reason, _message(step.after, names.Condition.EVICTED))
            case actions.Patch(after=Workload() as after):
                self._set(after)

    # Decisions.

    def schedule(self, now: float) -> None:
        """Runs cycles until they change nothing; the quota of victims is free immediately."""
        more, tries, others = True, 0, 0
        while more:
            more = False
            for plan in drain(self.state, self.state.policy, self.start + now):
                for decision in plan.decisions:
                    match decision:
                        case Reserve(second_pass=True):
                            self._place(decision, now)
                        case Reserve():
                            self._reserve(decision, now)
                        case StayPending():
                            if not self._running(decision.workload.key):
                                course = self.timeline.courses[decision.workload.key]
                                course.record(now, decision.reason, decision.message)
                            if decision.gated:
                                self._gate(decision, now)
                            for victim in decision.victims:
                                self._preempt(victim, decision.workload.key, now)
                                more = True
                    failed = isinstance(decision, StayPending) and decision.second_pass and not decision.victims
                    tries, others = tries + failed, others + (not failed)
        if tries or others:
            self.fruitless = 0 if others else self.fruitless + 1

    def _gate(self, decision: StayPending, now: float) -> None:
        """It could preempt others, but its preemption gate is closed."""
        workload = self.workloads[decision.workload.key]
        if not workload.holds(names.Condition.BLOCKED_ON_PREEMPTION_GATES):
            self._set(transitions.preemption_gated(workload, decision.message, self._second(now)))

    def _reserve(self, decision: Reserve, now: float) -> None:
        key, admission = decision.workload.key, decision.admission
        asked = self._asked(admission)
        workload = transitions.reserved(self.workloads[key], admission, self._second(now), required_checks=asked)
        arrival = self.timeline.courses[key].arrival
        if self.life.pods_ready is not None and not asked:
            workload = _with_pods(workload, self._second(now), ready=not arrival.ready_after)
        self._set(workload)
        self._hold(admission, key, now)
        if _has_deadline(workload):
            self._live(key, now)

    def _place(self, decision: Reserve, now: float) -> None:
        """It has held its quota before: the domains of its pods are new."""
        key, before = decision.workload.key, self.workloads[decision.workload.key]
        after = transitions.placed(before, decision.admission, self._second(now))
        if self._running(key):
            attempts = self.timeline.courses[key].attempts
            moved = (*attempts[-1].replacements, Replacement(now, before.unhealthy_nodes))
            attempts[-1] = replace(attempts[-1], admission=decision.admission, replacements=moved)
        self._become(after, now, "admit", "")
        self._live(key, now)

    def _asked(self, admission: Admission) -> list[str]:
        """The checks that a workload with this admission waits for."""
        if not self.checks:
            return []
        return [name for name in self.state.required_checks(admission) if name in self.checks]

    def _hold(self, admission: Admission, key: Key, now: float) -> None:
        """It has quota: it runs if it is admitted, otherwise its checks decide when they have had their time."""
        if self.workloads[key].holds(names.Condition.ADMITTED) or not (asked := self._asked(admission)):
            self._run(admission, key, now)
            return
        self.held[key] = (admission, now)
        self.reservations[key] += 1
        self._use(admission, +1)
        for name in asked:
            if not self.checks[name].elsewhere:
                self._expect(now + self.checks[name].takes, key, _What.CHECKED, self.reservations[key])
        message = f"The workload has not all checks ready: {', '.join(asked)}"
        self.timeline.courses[key].record(now, names.AdmittedReason.UNSATISFIED_ADMISSION_CHECKS, message)

    def _check(self, key: Key, now: float) -> None:
        """The checks whose time has passed have their verdicts."""
        workload, (_, since) = self.workloads[key], self.held[key]
        for state in workload.checks:
            check = self.checks.get(state.name, Check())
            if state.state == names.CheckState.PENDING and since + check.takes <= now:
                retried = check.verdict == names.CheckState.RETRY and state.retry_count > 0
                verdict = names.CheckState.READY if retried else check.verdict
                after = check.retry_after if verdict == names.CheckState.RETRY else None
                second = self._second(now)
                workload = transitions.with_check_state(workload, state.name, verdict, "", second, requeue_after=after)
        self._set(workload)
        self._live(key, now)

    def _free(self, key: Key) -> None:
        """Quota that it only held is free."""
        admission, _ = self.held.pop(key)
        self._use(admission, -1)

    def _preempt(self, victim: Victim, preemptor: Key, now: float) -> None:
        key, failed = victim.workload.key, victim.reason == names.EvictedReason.NODE_FAILURES
        change = transitions.evicted if failed else transitions.preempted
        out = change(self.workloads[key], victim.reason, victim.message, self._second(now))
        self._stop(out, now, victim.reason, victim.message, None if failed else preemptor)

    # One workload.

    def _live(self, key: Key, now: float) -> None:
        """Applies the steps of ``core.workload.lifecycle`` until there are none."""
        if not _eventful(self.workloads[key]):
            return
        for _ in range(MOST_STEPS):
            step = next_step(self.workloads[key], self._around(self.workloads[key], now))
            match step:
                case Evict():
                    self._stop(step.after, now, step.reason, _message(step.after, names.Condition.EVICTED))
                case actions.Patch(after=Workload() as after):
                    self._become(after, now, step.why, _message(after, names.Condition.QUOTA_RESERVED))
                case actions.Patch(why="deactivate"):
                    self._set(replace(self.workloads[key], active=False))
                case actions.Wait(seconds) if seconds is not None:
                    self._expect(now + seconds, key, _What.LOOKED_AT)
                    return
                case _:
                    return
        raise RuntimeError(f"the life of {key} does not come to rest: {step}")

    def _around(self, workload: Workload, now: float) -> Surroundings:
        """As in the controller, but checks that pass immediately are not required."""
        around = surroundings(self.state, workload, self.start + now, self.life)
        if around.cluster_queue is None or not around.cluster_queue.checks:
            return around
        slow = tuple(rule for rule in around.cluster_queue.checks if rule.name in self.checks)
        return dataclasses.replace(around, cluster_queue=replace(around.cluster_queue, checks=slow))

    def _become(self, workload: Workload, now: float, reason: str, message: str) -> None:
        """Applies a change that may have admitted it, or removed its reservation."""
        key = workload.key
        if workload.admission is None and self._running(key):
            self._end(key, now, reason, message)
        if key in self.held and (workload.admission is None or workload.holds(names.Condition.ADMITTED)):
            self._free(key)
        started = workload.admission is not None and not self._running(key) and reason == "admit"
        if started and self.life.pods_ready is not None:
            ready = not self.timeline.courses[key].arrival.ready_after
            workload = _with_pods(workload, self._second(now), ready=ready)
        self._set(workload)
        if started and workload.admission is not None:
            self._run(workload.admission, key, now)

    def _stop(self, evicted: Workload, now: float, reason: str, message: str, preemptor: Key | None = None) -> None:
        """The job of an evicted workload stops immediately and releases its quota."""
        self._set(evicted)
        if evicted.key in self.held:
            self._free(evicted.key)
            self.timeline.courses[evicted.key].record(now, reason, message)
        elif self._running(evicted.key):
            self._end(evicted.key, now, reason, message, preemptor)
        else:
            return
        self._release(evicted, now)

    def _release(self, evicted: Workload, now: float) -> None:
        self._set(transitions.released(evicted, self._second(now)))

    def _ready(self, key: Key, now: float) -> None:
        self._set(_with_pods(self.workloads[key], self._second(now), ready=True))

    def _elsewhere(self, key: Key) -> bool:
        """Whether its job runs in a worker cluster."""
        found = (self.checks.get(check.name) for check in self.workloads[key].checks)
        return any(check is not None and check.elsewhere for check in found)

    def _running(self, key: Key) -> bool:
        attempts = self.timeline.courses[key].attempts
        return bool(attempts) and attempts[-1].ended is None

    def _run(self, admission: Admission, key: Key, now: float) -> None:
        course = self.timeline.courses[key]
        course.attempts.append(PlayedAttempt(admission.cluster_queue, admission, now))
        self._use(admission, +1)
        number, arrival = len(course.attempts) - 1, course.arrival
        if arrival.run_for < math.inf and not self._elsewhere(key):
            self._expect(self._rounded(now + arrival.ready_after + arrival.run_for, now), key, _What.ENDS, number)
        if arrival.ready_after and self.life.pods_ready is not None:
            self._expect(now + arrival.ready_after, key, _What.READY, number)

    def _end(self, key: Key, now: float, reason: str = "", why: str = "", preemptor: Key | None = None) -> None:
        attempts = self.timeline.courses[key].attempts
        last = attempts[-1]
        attempts[-1] = replace(last, ended=now, reason=reason, stopped=why, preemptor=preemptor)
        self._use(last.admission, -1)

    def _set(self, workload: Workload) -> None:
        """The workload is so from now on."""
        workload, key = _written(workload), workload.key
        self.workloads[key] = workload
        self.state.set_workload(key, workload)
        self._line_up(key)

    def _line_up(self, key: Key) -> None:
        """Counts it where it waits."""
        before, after = self.line.get(key), self.state.pending.where(key)
        if before == after:
            return
        if before is not None:
            self.waiting[before] -= 1
            self.touched.add(before)
            del self.line[key]
        if after is not None:
            self.waiting[after] += 1
            self.touched.add(after)
            self.line[key] = after

    # The message.

    def _use(self, admission: Admission, sign: int) -> None:
        used = self.used[admission.cluster_queue]
        self.touched.add(admission.cluster_queue)
        for pod_set in admission.pod_sets:
            for resource, amount in pod_set.usage.items():
                flavor = pod_set.flavors.get(resource)
                if flavor is not None:
                    used[FlavorResource(flavor, resource)] += sign * amount

    def note(self, now: float) -> None:
        """Keeps the usage of the ClusterQueues in which it changed."""
        for name in sorted(self.touched):
            used = {fr: amount for fr, amount in self.used[name].items() if amount}
            self.timeline.levels.append(UsageLevel(now, name, used, self.waiting[name]))
        self.touched.clear()

    def _explain(self) -> None:
        """Adds the reasons of workloads that wait at the end and were never decided, or are in no queue any more."""
        pending = self.state.pending
        for name in sorted({self.line[key] for key in self.line if not self.timeline.courses[key].waits}):
            for place, entry in enumerate(pending.queues[name].in_order(pending.local_usage)):
                course = self.timeline.courses[entry.workload.key]
                if not course.waits:
                    text = f"not looked at yet: {place} of ClusterQueue {name} come before it"
                    course.record(self.timeline.end, names.PendingReason.PENDING_EVALUATION, text)
        for key, course in self.timeline.courses.items():
            workload = self.workloads.get(key)
            if workload is None or course.finished is not None or key in self.line or self._running(key):
                continue
            reason, message = why_not_queued(workload, self._around(workload, self.timeline.end))
            stopped = course.attempts[-1].stopped if course.attempts else ""
            if workload.gates and not reason:
                reason = names.PendingReason.ADMISSION_GATED
                message = f"Admission is gated by: {','.join(workload.gates)}"
            if reason:
                course.record(self.timeline.end, reason, f"{message}: {stopped}" if stopped else message)


def _written(workload: Workload) -> Workload:
    """Rounds times as an API server does, which stores whole seconds: the order within a second is lost."""
    for each in workload.conditions:
        if each.since % 1:
            break
    else:
        if not (workload.requeue_at or 0.0) % 1:
            return workload
    conditions = tuple(
        c if c.since == int(c.since) else replace(c, since=float(int(c.since))) for c in workload.conditions
    )
    return replace(workload, conditions=conditions, requeue_at=workload.requeue_at and float(int(workload.requeue_at)))


def _message(workload: Workload, kind: str) -> str:
    """The message of a condition, '' without it."""
    found = workload.condition(kind)
    return found.message if found is not None else ""


def _eventful(workload: Workload) -> bool:
    """Whether a rule other than the cycle may concern the workload: not if it is new and has no limits.

    This saves the call for most workloads; its answer would be to do nothing, or what ``_explain`` returns at the end.
    """
    return bool(workload.conditions or workload.checks or workload.requeue_at or not workload.active)


def _has_deadline(workload: Workload) -> bool:
    """Whether time alone will concern a workload that runs."""
    ready = workload.condition(names.Condition.PODS_READY)
    return workload.max_execution is not None or (ready is not None and not ready.status)


def _with_pods(workload: Workload, now: float, *, ready: bool) -> Workload:
    """With the PodsReady condition, in the words of the controller."""
    reason = names.PodsReadyReason.STARTED if ready else names.PodsReadyReason.WAIT_FOR_START
    message = (
        "All pods reached readiness and the workload is running" if ready else "Not all pods are ready or succeeded"
    )
    kind = names.Condition.PODS_READY
    return transitions.condition(workload, kind, status=ready, reason=reason, message=message, now=now)
