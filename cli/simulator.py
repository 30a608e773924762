"""Converts a Scenario into a Timeline: every object passes Seiretsu's admission, every Job gets its Workload.

Separate from ``cli.simulate``, which is the command: tests and other commands call this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import orjson

from api.names import MULTIKUEUE_CONTROLLER, CheckState
from api.objects import Raw
from cli.learned import TimesOf, assumption
from cli.manifests import Mistakes
from cli.scenario import DEFAULT_RUN_FOR, Scenario, TracedJob
from cli.world import ConfiguredRules, World, admitted
from core.forecast.run_times import RunTimes, constant, rest_of
from core.jobs import meta
from core.jobs import workload as workloads
from core.jobs.actions import Problem
from core.jobs.fields import changed
from core.jobs.kind import JobKind, owner_of
from core.jobs.kinds import ALL, POD, kind_of
from core.jobs.mirrored import Mirrored
from core.jobs.mirrored_owners import MIRRORED_OWNERS
from core.jobs.pod_owners import DEPLOYMENT, STATEFUL_SET, PodOwner, pod_owner_of
from core.model import Key, Workload
from core.model.owner import Owner
from core.model.workload import replace
from core.quota.usage import finished
from core.simulation.fleet import Origin, WorkerChoice
from core.simulation.simulation import Arrival, Timeline, simulate
from core.state.state import State
from core.wire.timestamps import stamp
from core.workload.priority import Missing
from webhook.review import Response

MIRRORED: Final[tuple[Mirrored, ...]] = (*ALL, *MIRRORED_OWNERS)
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
    choices: Mapping[Key, list[WorkerChoice]] = field(default_factory=dict)
    """The worker clusters in which each Workload runs."""
    copies: frozenset[Key] = frozenset()
    """The Workloads that are copies from the manager."""
    workers: dict[str, Played] = field(default_factory=dict)
    """The worker clusters by name."""
    assumed: str = ""
    """How long the Workloads that are there from the start are taken to run."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """The result for the first of all Jobs that differ only in name and times."""

    response: Response
    job: Raw
    raw: Raw | None = None
    made: Workload | Missing | None = None


def short(workloads: Iterable[Workload]) -> RunTimes:
    """Every workload runs as long as a job of a file that does not say how long."""
    return constant(DEFAULT_RUN_FOR)


def play(
    scenario: Scenario,
    rules: ConfiguredRules | None = None,
    *,
    until: float | None = None,
    times: TimesOf = short,
) -> Played:
    """Play a scenario; ScenarioError where its objects cannot be.

    Workloads among its objects (those of a live cluster) are there from the start; each runs on for the median of the
    run time that ``times`` has for it, without end if that is unknown.
    """
    world = World(scenario.objects, rules)
    entered = enter(scenario, world, times)
    entered.played.remarks += [
        f"AdmissionCheck {name} of MultiKueue passes immediately: --worker NAME=FILES names its worker clusters"
        for name in world.dispatched
        if (world.checks[name].takes, world.checks[name].verdict) == (0, CheckState.READY)
    ]
    entered.played.timeline = simulate(
        world.state,
        entered.arrivals,
        until=until,
        start=scenario.start,
        life=world.rules.controller.life,
        checks=world.checks,
        gone=scenario.gone,
    )
    return entered.played


@dataclass(slots=True)
class Entered:
    """A cluster with all that will arrive in it. ``origins`` are its Workloads with their objects and jobs."""

    played: Played
    arrivals: list[Arrival]
    origins: dict[Key, Origin]


def enter(scenario: Scenario, world: World, times: TimesOf, cluster: str = "") -> Entered:
    """Takes the Workloads and Jobs of a scenario into a world; ScenarioError where they cannot be.

    ``cluster`` is the name of a worker cluster: no Job of it has the uid of a Job in another cluster.
    """
    played = Played(world.state, remarks=[*world.warnings, *scenario.remarks])
    run_times = times(world.workloads)
    rests = [(each, rest_of(each, scenario.start, run_times)) for each in world.workloads if not finished(each)]
    played.assumed = assumption(rest for _, rest in rests)
    arrivals = [Arrival(0.0, workload, rest.median) for workload, rest in rests]
    played.jobs = {a.workload.key: _job_of(a.workload) for a in arrivals}
    entrance = _Entrance(world, played, scenario.start, cluster)
    for arrival in arrivals:
        entrance.origins[arrival.workload.key] = _origin_of(arrival.workload, world.raws[arrival.workload.key])
    arrivals += [arrival for number, one in enumerate(scenario.submissions) for arrival in entrance.take(one, number)]
    entrance.mistakes.raise_any()
    return Entered(played, arrivals, entrance.origins)


def _origin_of(workload: Workload, raw: Raw) -> Origin:
    """The job of a live Workload, which is not read: it is taken to be left to the worker clusters."""
    owner = workload.owner
    kind = next((each for each in MIRRORED if owner and (each.group, each.kind) == (owner.group, owner.kind)), None)
    named = {"metadata": {"namespace": workload.key.namespace, "name": owner.name if owner else workload.key.name}}
    if kind is None:
        return Origin(raw, None, owner.kind if owner else "", named)
    path = kind.managed_by
    return _origin(kind, raw, changed(named, path, MULTIKUEUE_CONTROLLER) if path is not None else named)


def _origin(kind: Mirrored, raw: Raw, job: Raw) -> Origin:
    version = kind.api_version if "/" in kind.api_version else f"/{kind.api_version}"
    return Origin(raw, kind if kind.may_run_in_worker else None, f"{version}, Kind={kind.kind}", job)


def _origin_of_pods(owner: PodOwner, raw: Raw, job: Raw) -> Origin:
    """What is created in a worker cluster for an object whose pods are queued: the object, or each of its pods."""
    mirrored = next((each for each in MIRRORED_OWNERS if each.resource == owner.resource), None)
    if mirrored is None and owner is not DEPLOYMENT:
        return Origin(raw, None, f"{owner.resource.api_version}, Kind={owner.resource.kind}", job)
    return _origin(mirrored or POD, raw, job)


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
    cluster: str
    known: dict[bytes, _Judged] = field(default_factory=dict)
    origins: dict[Key, Origin] = field(default_factory=dict)
    mistakes: Mistakes = field(default_factory=Mistakes)

    def take(self, submission: TracedJob, number: int) -> tuple[Arrival, ...]:
        """The arrival of a Job's Workload; none where it never has one."""
        given = {"uid": f"{self.cluster}{number:08d}", "creationTimestamp": stamp(self.start + submission.at)}
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
        return self._arrive(submission, kind, owner_of(kind, key), judged, name, job)

    def _parts(self, submission: TracedJob, kind: PodOwner, key: Key, job: Raw) -> tuple[Arrival, ...]:
        """The arrivals of the Workloads of an object whose pods are queued, each named as its pod or group."""
        marked, response = admitted(job, self.world.admission)
        if not response.allowed:
            self._pass(submission, key, "refused", response.message)
            return ()
        made, count = self.world.workload_of_pods(kind, marked), kind.workloads(marked)
        if isinstance(made, Problem):
            self._pass(submission, key, "not queued", f"{made.message}: its pods wait until there is one")
            return ()
        template = self.world.read(made)
        owner = Owner(kind.resource.group, kind.resource.kind, key.namespace, key.name)
        whole, arrivals = kind.resource.kind == STATEFUL_SET.resource.kind, []
        for place in range(count):
            part = key if whole else Key(key.namespace, f"{key.name}-{place}")
            uid = f"{job['metadata']['uid']}-{place}"
            name = Key(key.namespace, f"{kind.resource.kind.lower()}-{part.name}")
            created = float(int(self.start + submission.at))
            workload = replace(template, key=name, uid=uid, created=created, job_uid=uid, owner=owner)
            self.played.jobs[name] = part
            self._came(workload, kind, made, job)
            if response.warnings and not place:
                self.played.warnings[part] = response.warnings
            arrivals.append(Arrival(submission.at, workload, submission.run_for, submission.ready_after))
        return tuple(arrivals)

    def _arrive(
        self, submission: TracedJob, kind: JobKind, owner: Owner, judged: _Judged, name: str, job: Raw
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
        assert judged.raw is not None
        self._came(workload, kind, judged.raw, judged.job)
        return (Arrival(submission.at, workload, submission.run_for, submission.ready_after),)

    def _judged(self, kind: JobKind, job: Raw) -> tuple[_Judged, str]:
        """The verdict on a job, and the name of its Workload."""
        name = workloads.name(kind, job)
        metadata = {name: value for name, value in job["metadata"].items() if name not in _OF_ONE_JOB}
        alike = orjson.dumps((kind.framework, metadata, job["spec"]))
        known = None if self.world.rules.admission.expressions else self.known.get(alike)
        if known is None:
            known = self.known[alike] = self._judge(kind, job)
        return known, name

    def _judge(self, kind: JobKind, job: Raw) -> _Judged:
        job, response = admitted(job, self.world.admission)
        mine = meta.queue_name(job) or self.world.rules.controller.manage_jobs_without_queue_name
        made = self.world.workload(kind, job) if response.allowed and mine else None
        if made is None or isinstance(made, Missing):
            return _Judged(response, job, made=made)
        return _Judged(response, job, made, self.world.read(made))

    def _came(self, workload: Workload, kind: JobKind | PodOwner, raw: Raw, job: Raw) -> None:
        """Keeps the object of a Workload that may be dispatched; equal ones share their spec."""
        if self.world.dispatched:
            metadata = raw["metadata"] | {"namespace": workload.key.namespace, "name": workload.key.name}
            found = raw | {"metadata": metadata}
            if isinstance(kind, PodOwner):
                self.origins[workload.key] = _origin_of_pods(kind, found, job)
            else:
                self.origins[workload.key] = _origin(kind, found, job)

    def _pass(self, submission: TracedJob, key: Key, fate: Fate, message: str) -> None:
        self.played.unplayed.append(Unplayed(submission.at, key, fate, message))


_OF_ONE_JOB = frozenset({"name", "generateName", "uid", "creationTimestamp"})
"""The part of a Job's metadata on which neither admission nor its Workload's requests depend (users' CEL rules may)."""
