"""Converts a Scenario into a Timeline: every object passes Seiretsu's admission, every Job gets its Workload.

Separate from ``cli.simulate``, which is the command: tests and other commands call this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import orjson
from msgspec.structs import replace

from api.objects import Raw
from cli.manifests import Mistakes
from cli.scenario import DEFAULT_RUN_FOR, Scenario, Submission
from cli.world import Rules, World, admitted
from core.jobs import meta
from core.jobs import workload as workloads
from core.jobs.actions import Problem
from core.jobs.kind import JobKind, owner_of
from core.jobs.kinds import kind_of
from core.jobs.pod_owners import STATEFUL_SET, PodOwner, pod_owner_of
from core.model import Key, Workload
from core.model.owner import Owner
from core.quota.usage import finished
from core.simulation.simulation import Arrival, Timeline, simulate
from core.state.state import State
from core.wire.timestamps import stamp
from core.workload.priority import Missing
from webhook.review import Response

Fate = Literal["refused", "not queued", "not managed"]


@dataclass(frozen=True, slots=True)
class Unplayed:
    """A Job that never waits: admission refused it, it has no Workload, or it is not managed."""

    at: float
    key: Key
    fate: Fate
    message: str


@dataclass(slots=True)
class Played:
    """A scenario, played."""

    state: State
    timeline: Timeline = field(default_factory=Timeline)
    unplayed: list[Unplayed] = field(default_factory=list)
    jobs: dict[Key, Key] = field(default_factory=dict)
    """The Job of each Workload."""
    warnings: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    """The warnings of kubectl when the Job is created."""
    remarks: list[str] = field(default_factory=list)
    """Other remarks: warnings about queues, and objects that are not simulated."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """The result for the first of all Jobs that differ only in name and times."""

    response: Response
    made: Workload | Missing | None


def play(
    scenario: Scenario, rules: Rules | None = None, *, until: float | None = None, run_for: float = DEFAULT_RUN_FOR
) -> Played:
    """Play a scenario; ScenarioError where its objects cannot be.

    Workloads among its objects (those of a live cluster) are there from the start; each runs for ``run_for`` more.
    """
    world = World(scenario.objects, rules)
    played = Played(world.state, remarks=[*world.warnings, *scenario.remarks])
    arrivals = [Arrival(0.0, workload, run_for) for workload in world.workloads if not finished(workload)]
    played.jobs = {a.workload.key: _job_of(a.workload) for a in arrivals}
    entrance = _Entrance(world, played, scenario.start)
    arrivals += [arrival for number, one in enumerate(scenario.submissions) for arrival in entrance.take(one, number)]
    entrance.mistakes.raise_any()
    life = world.rules.controller.life
    played.timeline = simulate(world.state, arrivals, until=until, start=scenario.start, life=life, checks=world.checks)
    return played


def _job_of(workload: Workload) -> Key:
    """The job of a live Workload; itself where it has none."""
    return Key(workload.key.namespace, workload.owner.name if workload.owner else workload.key.name)


@dataclass(slots=True)
class _Entrance:
    """The submission of Jobs: through admission, and into their Workloads.

    Nothing that admission depends on changes during the submission, so Jobs that differ only in name and times are
    checked once.
    """

    world: World
    played: Played
    start: float
    known: dict[bytes, _Judged] = field(default_factory=dict)
    mistakes: Mistakes = field(default_factory=Mistakes)

    def take(self, submission: Submission, number: int) -> tuple[Arrival, ...]:
        """The arrival of a Job's Workload; none where it never has one."""
        given = {"uid": f"{number:08d}", "creationTimestamp": stamp(self.start + submission.at)}
        job = submission.job | {"metadata": submission.job["metadata"] | given}
        key = workloads.key(job)
        if key.namespace not in self.world.state.namespaces:
            self.world.namespace(key.namespace)
        if not self.world.manages(key.namespace):
            self._pass(submission, key, "not managed", f"starts immediately: namespace {key.namespace} is not managed")
            return ()
        kind, frameworks = kind_of(job) or pod_owner_of(job), self.world.rules.admission.frameworks
        assert kind is not None, "only jobs are submitted, and objects whose pods are queued"
        if not (kind.framework in frameworks if isinstance(kind, PodOwner) else kind.enabled(frameworks)):
            text = f"starts immediately: integrations.frameworks does not list {kind.framework}"
            self._pass(submission, key, "not managed", text)
            return ()
        if isinstance(kind, PodOwner):
            return self._parts(submission, kind, key, job)
        try:
            judged, name = self._judged(kind, job)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            self.mistakes.add(submission.origin, f"{kind.kind} {key}: cannot be read: {type(error).__name__}: {error}")
            return ()
        return self._arrive(submission, owner_of(kind, key), judged, name, job)

    def _parts(self, submission: Submission, kind: PodOwner, key: Key, job: Raw) -> tuple[Arrival, ...]:
        """The arrivals of the Workloads of an object whose pods are queued, each named as its pod or group."""
        marked, response = admitted(job, self.world.admission)
        if not response.allowed:
            self._pass(submission, key, "refused", response.message)
            return ()
        made, count = self.world.workload_of_pods(kind, marked), kind.workloads(marked)
        if isinstance(made, Problem):
            self._pass(submission, key, "not queued", f"{made.message}: its pods wait until there is one")
            return ()
        owner = Owner(kind.resource.group, kind.resource.kind, key.namespace, key.name)
        whole, arrivals = kind.resource.kind == STATEFUL_SET.resource.kind, []
        for place in range(count):
            part = key if whole else Key(key.namespace, f"{key.name}-{place}")
            uid = f"{job['metadata']['uid']}-{place}"
            name = Key(key.namespace, f"{kind.resource.kind.lower()}-{part.name}")
            created = float(int(self.start + submission.at))
            workload = replace(made, key=name, uid=uid, created=created, job_uid=uid, owner=owner)
            self.played.jobs[name] = part
            if response.warnings and not place:
                self.played.warnings[part] = response.warnings
            arrivals.append(Arrival(submission.at, workload, submission.run_for, submission.ready_after))
        return tuple(arrivals)

    def _arrive(
        self, submission: Submission, owner: Owner, judged: _Judged, name: str, job: Raw
    ) -> tuple[Arrival, ...]:
        key = Key(owner.namespace, owner.name)
        if not judged.response.allowed:
            self._pass(submission, key, "refused", judged.response.message)
            return ()
        if judged.response.warnings:
            self.played.warnings[key] = judged.response.warnings
        if judged.made is None:
            self._pass(submission, key, "not managed", "starts immediately: it has no queue name")
            return ()
        if isinstance(judged.made, Missing):
            self._pass(
                submission, key, "not queued", f"{judged.made}: the {owner.kind} stays suspended until there is one"
            )
            return ()
        if not judged.made.pod_sets:
            text = f"not simulated: the pod templates of a {owner.kind} are in an object that its controller creates"
            self._pass(submission, key, "not queued", text)
            return ()
        uid = job["metadata"]["uid"]
        workload = replace(
            judged.made,
            key=Key(key.namespace, name),
            uid=uid,
            created=float(int(self.start + submission.at)),
            job_uid=uid,
            owner=owner,
        )
        self.played.jobs[workload.key] = key
        return (Arrival(submission.at, workload, submission.run_for, submission.ready_after),)

    def _judged(self, kind: JobKind, job: Raw) -> tuple[_Judged, str]:
        """The verdict on a job, and the name of its Workload."""
        name = workloads.name(kind, job)
        told = {name: value for name, value in job["metadata"].items() if name not in _OF_ONE_JOB}
        alike = orjson.dumps((kind.framework, told, job["spec"]))
        known = None if self.world.rules.admission.expressions else self.known.get(alike)
        if known is None:
            known = self.known[alike] = self._judge(kind, job)
        return known, name

    def _judge(self, kind: JobKind, job: Raw) -> _Judged:
        job, response = admitted(job, self.world.admission)
        mine = meta.queue_name(job) or self.world.rules.controller.manage_jobs_without_queue_name
        return _Judged(response, self.world.workload(kind, job) if response.allowed and mine else None)

    def _pass(self, submission: Submission, key: Key, fate: Fate, message: str) -> None:
        self.played.unplayed.append(Unplayed(submission.at, key, fate, message))


_OF_ONE_JOB = frozenset({"name", "generateName", "uid", "creationTimestamp"})
"""The part of a Job's metadata on which neither admission nor its Workload's requests depend (users' CEL rules may)."""
