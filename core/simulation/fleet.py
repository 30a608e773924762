"""The lifecycle of workloads that run in worker clusters, on one virtual clock: in which cluster, when, and why not in
the others.

Each cluster is a ``Simulation`` of its own; between them decide the rules of ``core.multikueue`` that the controller
calls, on the Workloads of both sides. Jobs are not simulated in the workers apart from their Workloads: one runs as
soon as its copy is admitted there and its cluster is chosen, and ends with it. Every answer arrives immediately.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Struct

from api.names import Condition
from api.objects import key_of
from core.actions import Create, Patch, Wait, Writes
from core.feedback.rules import plain
from core.feedback.submission import of_workload
from core.feedback.workers import why_never
from core.jobs.mirrored import Mirrored
from core.model import CheckState, Key, Raw, Workload
from core.model.workload import replace
from core.multikueue import here, there
from core.multikueue.group import Group, Policy, Worker
from core.multikueue.siblings import Siblings
from core.simulation.simulation import MOST_STEPS, Arrival, Check, Course, Simulation, Timeline
from core.state.lookup import Lookup
from core.state.state import State
from core.wire import decode
from core.wire.conditions import raw_conditions, raw_gates
from core.wire.decode import WorkloadContext, gate_states
from core.wire.merge import merged
from core.wire.pod_requests import RequestRules
from core.wire.timestamps import stamp
from core.workload.actions import LifePolicy
from core.workload.lifecycle import why_not_queued

WITHDRAWN = "Withdrawn"
"""The reason with which an attempt in a worker ends that the manager does not want any more."""


class Origin(NamedTuple):
    """The object of a Workload of the manager, and its job: the kind, None if that cannot run in another cluster, and
    how messages call it.
    """

    raw: Raw
    kind: Mirrored | None
    called: str
    job: Raw


@dataclass(frozen=True, slots=True)
class PlayedCluster:
    """``read`` makes a Workload of its object. ``copies`` are the objects of those that are copies from the manager,
    among the ``arrivals`` of a worker. ``gone`` is as in ``simulate``.
    """

    state: State
    arrivals: tuple[Arrival, ...] = ()
    checks: Mapping[str, Check] = field(default_factory=dict)
    copies: Mapping[Key, Raw] = field(default_factory=dict)
    read: Callable[[Raw], Workload] = lambda raw: decode.workload(raw, WorkloadContext())
    rules: Callable[[str], RequestRules] = lambda namespace: RequestRules()
    gone: frozenset[str] = frozenset()


class WorkerChoice(Struct, frozen=True, gc=False):
    """The worker cluster in which a Workload runs from ``at`` on; '' if it waits at the end.

    ``others`` has the reason why it does not run in each of the others.
    """

    at: float
    worker: str
    others: dict[str, str]


@dataclass(frozen=True, slots=True)
class FleetTimeline:
    """What happened in each cluster, and which clusters were chosen for each Workload of the manager, one by one."""

    manager: Timeline
    workers: Mapping[str, Timeline]
    choices: Mapping[Key, list[WorkerChoice]]


def simulate_fleet(
    manager: PlayedCluster,
    workers: Mapping[str, PlayedCluster],
    origins: Mapping[Key, Origin],
    checks: Mapping[str, tuple[str, ...]],
    policy: Policy | None = None,
    *,
    until: float | None = None,
    start: float = 0.0,
    life: LifePolicy | None = None,
) -> FleetTimeline:
    """Plays all clusters until all is done, nothing moves any more, or ``until``.

    ``checks`` has the worker clusters of each MultiKueue check, in the order of its MultiKueueConfig; one that is not
    among ``workers`` is lost since the start. Times are as in ``simulate``.
    """
    return _Fleet(manager, workers, origins, checks, policy or Policy(), start, life).run(until)


class _Member(Simulation):
    """A cluster that keeps which of its workloads have changed."""

    def __init__(
        self, cluster: PlayedCluster, checks: Mapping[str, Check], *, start: float, life: LifePolicy | None
    ) -> None:
        self.changed: dict[Key, None] = {}
        gone = cluster.gone
        super().__init__(cluster.state, cluster.arrivals, start=start, life=life, checks=checks, gone=gone)

    def _set(self, workload: Workload) -> None:
        super()._set(workload)
        self.changed[workload.key] = None


class _Manager(_Member):
    def update(self, workload: Workload, now: float) -> None:
        """The status of a workload is so from now on, with what follows from it."""
        if workload.holds(Condition.FINISHED):
            self._finish(workload, now)
        else:
            self._become(workload, now, "admit" if workload.holds(Condition.ADMITTED) else "", "")
            self._live(workload.key, now)


class _WorkerCluster(_Member):
    """A worker. A copy that it evicts does not queue again: the manager takes it away."""

    def __init__(self, cluster: PlayedCluster, *, start: float, life: LifePolicy | None) -> None:
        self.copies = dict(cluster.copies)
        self.offered = set(cluster.copies)
        self.released: set[Key] = set()
        self.read = cluster.read
        self.lookup = Lookup(cluster.state)
        super().__init__(cluster, cluster.checks, start=start, life=life)

    def offer(self, manifest: Raw, run_for: float, ready_after: float, uid: str, now: float) -> None:
        """A copy is created; ``uid`` orders those of the same second."""
        metadata = manifest["metadata"] | {"uid": uid, "creationTimestamp": stamp(self._second(now))}
        raw = {**manifest, "metadata": metadata}
        arrival = Arrival(now, self.read(raw), run_for, ready_after)
        self.copies[arrival.workload.key] = raw
        self.offered.add(arrival.workload.key)
        course = self.timeline.courses.setdefault(arrival.workload.key, Course(arrival))
        course.waits.clear()
        self._arrive(arrival, now)

    def has_another(self, key: Key) -> bool:
        """Whether there is a workload of that name that is no copy."""
        return key in self.timeline.courses and key not in self.offered

    def withdraw(self, key: Key, now: float) -> None:
        """A copy is deleted."""
        if key in self.held:
            self._free(key)
        elif self._running(key):
            self._end(key, now, WITHDRAWN, "the manager has withdrawn it")
        self._leave(key)
        self.released.discard(key)
        del self.workloads[key], self.copies[key]
        self.changed[key] = None

    def change(self, key: Key, patch: Raw, now: float) -> None:
        """A patch of a copy: of its priority, or of its preemption gates."""
        raw = self.copies[key] = merged(self.copies[key], {name: patch[name] for name in patch if name == "spec"})
        after, gates = self.workloads[key], (patch.get("status") or {}).get("preemptionGates")
        if "spec" in patch:
            after = replace(after, priority=self.read(raw).priority)
        if gates is not None:
            after = replace(after, gate_states=gate_states(gates))
        self._set(after)

    def seen(self, key: Key) -> Raw | None:
        """The object of a copy, as the manager sees it; None if there is none."""
        copy, workload = self.copies.get(key), self.workloads.get(key)
        if copy is None or workload is None:
            return None
        conditions = raw_conditions(workload.conditions)
        waits = self.timeline.courses[key].waits
        if waits and workload.condition(Condition.QUOTA_RESERVED) is None:
            since, reason, message = waits[-1]
            written = {"reason": reason, "message": message, "lastTransitionTime": stamp(self._second(since))}
            conditions.append({"type": Condition.QUOTA_RESERVED, "status": "False", **written})
        return {**copy, "status": {"conditions": conditions, "preemptionGates": raw_gates(workload.gate_states)}}

    def why_waiting(self, key: Key, now: float) -> str:
        """Why a copy does not run here."""
        if waits := self.timeline.courses[key].waits:
            return waits[-1][2]
        _, message = why_not_queued(self.workloads[key], self._around(self.workloads[key], now))
        return message or f"others of ClusterQueue {self.line.get(key, '')} come before it"

    def _set(self, workload: Workload) -> None:
        if workload.key not in self.released:
            super()._set(workload)
            return
        self.workloads[workload.key] = workload
        self.changed[workload.key] = None

    def _release(self, evicted: Workload, now: float) -> None:
        if evicted.key not in self.copies:
            super()._release(evicted, now)
            return
        self.released.add(evicted.key)
        self._leave(evicted.key)

    def _leave(self, key: Key) -> None:
        self.state.set_workload(key, None)
        self._line_up(key)


class _Fleet:
    def __init__(
        self,
        manager: PlayedCluster,
        workers: Mapping[str, PlayedCluster],
        origins: Mapping[Key, Origin],
        checks: Mapping[str, tuple[str, ...]],
        policy: Policy,
        start: float,
        life: LifePolicy | None,
    ) -> None:
        self.start = start
        self.policy = policy
        self.origins = origins
        self.configs = checks
        self.rules = manager.rules
        elsewhere = {name: Check(takes=float("inf")) for name in checks}
        self.manager = _Manager(manager, {**manager.checks, **elsewhere}, start=start, life=life)
        self.workers = {name: _WorkerCluster(each, start=start, life=life) for name, each in workers.items()}
        self.members: tuple[_Member, ...] = (self.manager, *self.workers.values())
        self.choices: dict[Key, list[WorkerChoice]] = defaultdict(list)
        self.rounds: dict[Key, float] = {}
        """When the incremental dispatcher has nominated last."""
        self.ran: dict[Key, str] = {}
        self.groups: dict[tuple[str, Key], list[Key]] = defaultdict(list)
        """The workloads of each object."""
        for key, origin in origins.items():
            if origin.kind is not None and origin.kind.several:
                self.groups[_job(origin)].append(key)
        for arrival in manager.arrivals:
            if arrival.workload.cluster_name:
                chosen = WorkerChoice(arrival.at, arrival.workload.cluster_name, {})
                self.choices[arrival.workload.key].append(chosen)
        self.due: list[tuple[float, int, Key]] = []
        self.numbers = itertools.count()
        self.never: dict[tuple[str, str, int], str] = {}

    def run(self, until: float | None) -> FleetTimeline:
        now = 0.0
        while (at := self._next(now)) is not None and (until is None or at <= until):
            now = at
            for each in self.members:
                each.advance(now)
            self._settle(self._awaited(now), now)
        end = now if until is None else until
        self._add_reasons(end)
        timelines = {name: worker.close(end) for name, worker in self.workers.items()}
        for timeline in timelines.values():
            _forget_moments(timeline)
        return FleetTimeline(self.manager.close(end), timelines, dict(self.choices))

    def _next(self, now: float) -> float | None:
        moments = [at for each in self.members if (at := each.next(now)) is not None]
        return min([*moments, *(at for at, _, _ in self.due[:1])], default=None)

    def _awaited(self, now: float) -> dict[Key, None]:
        """The workloads for which somebody waited until now."""
        found: dict[Key, None] = {}
        while self.due and self.due[0][0] <= now:
            found[heapq.heappop(self.due)[2]] = None
        return found

    def _settle(self, changed: dict[Key, None], now: float) -> None:
        """Runs the cycles of all clusters, and makes what the manager wants of them, until nothing changes."""
        steps: dict[Key, int] = defaultdict(int)
        while True:
            changed |= self._changed()
            if not changed:  # quota that ends at this moment is free before the cycles
                for each in self.members:
                    each.schedule(now)
                changed = self._changed()
            if not changed:
                break
            for key in changed:
                steps[key] += 1
                if steps[key] > MOST_STEPS:
                    raise RuntimeError(f"the dispatch of {key} does not come to rest")
                self._reconcile(key, now)
            changed = {}
        for each in self.members:
            each.note(now)

    def _changed(self) -> dict[Key, None]:
        """The workloads that have changed in a cluster since the last call."""
        found: dict[Key, None] = {}
        for each in self.members:
            found |= each.changed
            each.changed.clear()
        return found

    def _reconcile(self, key: Key, now: float) -> None:
        """Makes what the rules want of a workload in the manager, then in each worker."""
        if key not in self.origins or not self._concerned(key):
            return
        for _ in range(MOST_STEPS):
            group = self._group(key, now)
            action = here.decide(group)
            if not isinstance(action, Patch) or action.after is None:
                break
            if action.why == "nominate":
                self.rounds[key] = group.now
            if action.why == "admit":
                worker = action.after.cluster_name
                self.choices[key].append(WorkerChoice(now, worker, self._others(group, worker, now)))
            self.manager.update(action.after, now)
        if isinstance(action, Wait) and action.seconds is not None:
            self._expect(now + action.seconds, key)
        wanted = dataclasses.replace(group, job=None)  # the jobs of workers are not simulated
        for each in group.workers:
            if each.name in self.workers:
                self._reconcile_there(wanted, each, key, now)

    def _reconcile_there(self, group: Group, worker: Worker, key: Key, now: float) -> None:
        cluster = self.workers[worker.name]
        match there.decide(group, worker):
            case Create() if cluster.has_another(key):
                pass
            case Create(manifest):
                course = self.manager.timeline.courses[key]
                run_for, ready_after = course.arrival.run_for, course.arrival.ready_after
                cluster.offer(manifest, run_for, ready_after, course.arrival.workload.uid, now)
            case Writes(why="withdraw"):
                if key in cluster.copies:
                    cluster.withdraw(key, now)
            case Patch(patch, target=None):
                cluster.change(key, patch, now)
            case Wait(seconds) if seconds is not None:
                self._expect(now + seconds, key)

    def _expect(self, at: float, key: Key) -> None:
        heapq.heappush(self.due, (at, next(self.numbers), key))

    # What is known of a workload.

    def _concerned(self, key: Key) -> bool:
        local = self.manager.workloads.get(key)
        if local is None:
            return False
        return self._check(local) is not None or bool(local.cluster_name) or key in self.ran

    def _check(self, local: Workload) -> CheckState | None:
        return next((each for each in local.checks if each.name in self.configs), None)

    def _group(self, key: Key, now: float) -> Group:
        local, origin = self.manager.workloads[key], self.origins[key]
        if not local.holds(Condition.QUOTA_RESERVED):
            self.rounds.pop(key, None)
            self.ran.pop(key, None)
        elif local.cluster_name:
            self.ran[key] = local.cluster_name
        check, ran = self._check(local), self.ran.get(key, "")
        configured = self.configs[check.name] if check is not None else ()
        others = (
            name for name in sorted({*self.workers, ran} - {*configured, ""}) if name == ran or self._has(name, key)
        )
        found = Group(
            now=float(int(self.start + now)),
            local=local,
            raw=origin.raw,
            check=check,
            kind=origin.kind,
            owner=origin.called,
            job=origin.job,
            replaced=self.manager.workloads.get(local.replaces) if local.replaces is not None else None,
            successor=self.manager.state.kinship.replacement(local),
            siblings=Siblings(self._of_same_object(key) if origin.kind is not None and origin.kind.several else ()),
            ran=ran,
            policy=self.policy,
            round_began=self.rounds.get(key),
        )
        known = *((name, True) for name in configured), *((name, False) for name in others)
        workers = tuple(self._worker(name, key, found.raw, configured=wanted) for name, wanted in known)
        return dataclasses.replace(found, workers=workers)

    def _of_same_object(self, key: Key) -> tuple[Workload, ...]:
        """The workloads of the other groups of an object, as far as they exist."""
        others = (self.manager.workloads.get(each) for each in self.groups[_job(self.origins[key])] if each != key)
        return tuple(each for each in others if each is not None)

    def _has(self, name: str, key: Key) -> bool:
        return name in self.workers and key in self.workers[name].copies

    def _worker(self, name: str, key: Key, raw: Raw | None, *, configured: bool) -> Worker:
        cluster = self.workers.get(name)
        if cluster is None or raw is None:
            return Worker(name, connected=False, lost_since=self.start, configured=configured)
        asked = name, key.namespace, id(raw["spec"])
        if asked not in self.never:
            self.never[asked] = plain(why_never(of_workload(raw, self.rules(key.namespace)), cluster.lookup))
        refused = "has another Workload of that name" if cluster.has_another(key) else ""
        never = self.never[asked]
        return Worker(name, workload=cluster.seen(key), refused=refused, configured=configured, never=never)

    # Why not in the others.

    def _others(self, group: Group, chosen: str, now: float) -> dict[str, str]:
        return {each.name: self._why_not(group, each, chosen, now) for each in group.configured if each.name != chosen}

    def _why_not(self, group: Group, worker: Worker, chosen: str, now: float) -> str:
        assert group.local is not None
        key = group.local.key
        if not worker.connected:
            return "not connected"
        if worker.hopeless:
            return worker.hopeless
        if worker.workload is None:
            return "not offered yet" if worker.name not in group.local.nominated else "withdrawn"
        if worker.since(Condition.ADMITTED) is not None:
            return f"can admit it, too: {chosen} is first"
        return self.workers[worker.name].why_waiting(key, now)

    def _add_reasons(self, now: float) -> None:
        """Adds why no worker has admitted what is offered at the end."""
        for key in self.origins:
            if self._concerned(key):
                group = self._group(key, now)
                if group.unassigned:
                    self.choices[key].append(WorkerChoice(now, "", self._others(group, "", now)))


def _job(origin: Origin) -> tuple[str, Key]:
    return origin.called, key_of(origin.job)


def _forget_moments(timeline: Timeline) -> None:
    """Removes the attempts that were withdrawn in the moment in which they began: another cluster was chosen."""
    for course in timeline.courses.values():
        course.attempts = [each for each in course.attempts if each.reason != WITHDRAWN or each.started != each.ended]
