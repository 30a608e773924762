"""From a Scenario to a Timeline: every object goes through our own admission, every Job becomes its Workload.

Separate from ``cli.simulate``, which is what a person types: this is what tests and other commands call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from api import names
from cli.scenario import DEFAULT_RUN_FOR, Scenario, ScenarioError, Submission
from core import decode, priority, requests
from core.jobs import meta
from core.jobs import workload as workloads
from core.jobs.kinds import BATCH_JOB
from core.model import Key, Raw, Workload
from core.policy import Policy
from core.simulation import Arrival, Timeline, simulate
from core.state import State
from core.state_lookup import StateLookup
from core.times import stamp
from core.usage import finished
from webhook import patch
from webhook.hooks import HOOKS, Phase, Reach
from webhook.review import Request, Response
from webhook.settings import Context, Settings

RESOURCES = {
    "Job": ("batch", "v1", "jobs"),
    names.Kind.CLUSTER_QUEUE: (names.GROUP, names.V1BETA2, names.Resource.CLUSTER_QUEUES),
    names.Kind.COHORT: (names.GROUP, names.V1BETA2, names.Resource.COHORTS),
    names.Kind.RESOURCE_FLAVOR: (names.GROUP, names.V1BETA2, names.Resource.RESOURCE_FLAVORS),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A Job that admission refused, in the words kubectl would have printed."""

    at: float
    key: Key
    message: str


@dataclass(slots=True)
class Played:
    """A scenario, played."""

    state: State
    timeline: Timeline = field(default_factory=Timeline)
    refused: list[Refusal] = field(default_factory=list)
    jobs: dict[Key, Key] = field(default_factory=dict)
    """The Job that each Workload stands for."""
    warnings: dict[Key, tuple[str, ...]] = field(default_factory=dict)


class World:
    """The objects of a scenario, as State and admission know them."""

    def __init__(self, objects: tuple[Raw, ...], policy: Policy, *, trusted: bool = False) -> None:
        """``trusted`` objects come from an API server, which has had them admitted."""
        self.trusted = trusted
        self.state = State(policy)
        self.classes: dict[str, int] = {}
        self.pod_classes: dict[str, int] = {}
        self.default_class: str | None = None
        self.limit_ranges: dict[str, list[Raw]] = defaultdict(list)
        self.runtime_classes: list[Raw] = []
        self.contexts: dict[str, decode.WorkloadContext] = {}
        self.workloads: list[Workload] = []
        lookup = StateLookup(
            self.state,
            classes=lambda: priority.PriorityClasses(self.classes, self.pod_classes, self.default_class),
            rules=lambda namespace: self.context(namespace).rules,
        )
        self.admission = Context(Settings(), lookup)
        last = (names.Kind.LOCAL_QUEUE, names.Kind.WORKLOAD)
        for raw in sorted(objects, key=lambda o: o["kind"] in last):
            self.add(raw)

    def add(self, raw: Raw) -> None:
        """Take in one object; ScenarioError when our admission refuses it or its kind means nothing here."""
        kind, name = raw["kind"], raw["metadata"]["name"]
        if kind in RESOURCES and not self.trusted:
            raw, response = admitted(raw, self.admission)
            if not response.allowed:
                raise ScenarioError(f"{kind} {name}: {response.message}")
        takers: dict[str, Callable[[Raw], object]] = {
            names.Kind.CLUSTER_QUEUE: lambda r: self.state.set_cluster_queue(name, decode.cluster_queue(r)),
            names.Kind.COHORT: lambda r: self.state.set_cohort(name, decode.cohort(r)),
            names.Kind.RESOURCE_FLAVOR: lambda r: self.state.set_flavor(name, decode.resource_flavor(r)),
            names.Kind.ADMISSION_CHECK: lambda r: self.state.set_admission_check(name, decode.admission_check(r)),
            names.Kind.LOCAL_QUEUE: self._local_queue,
            names.Kind.WORKLOAD_PRIORITY_CLASS: lambda r: self.classes.update({name: r["value"]}),
            "PriorityClass": self._priority_class,
            "Namespace": lambda r: self._namespace(name, r["metadata"].get("labels") or {}),
            "LimitRange": lambda r: self.limit_ranges[r["metadata"].get("namespace", "default")].append(r),
            "RuntimeClass": self.runtime_classes.append,
            names.Kind.WORKLOAD: lambda r: self.workloads.append(self.read(r)),
        }
        if kind in takers:
            takers[kind](raw)

    def _local_queue(self, raw: Raw) -> None:
        raw = raw | {"metadata": {"namespace": "default"} | raw["metadata"]}
        queue = decode.local_queue(raw)
        self.state.set_local_queue(queue.key, queue)

    def _priority_class(self, raw: Raw) -> None:
        self.pod_classes[raw["metadata"]["name"]] = raw["value"]
        if raw.get("globalDefault"):
            self.default_class = raw["metadata"]["name"]

    def _namespace(self, name: str, labels: Raw) -> None:
        self.state.set_namespace(name, {names.NAMESPACE_NAME_LABEL: name, **labels})

    def context(self, namespace: str) -> decode.WorkloadContext:
        """What the Workloads of a namespace are read with."""
        found = self.contexts.get(namespace)
        if found is None:
            rules = requests.RequestRules(
                requests.limits(self.limit_ranges[namespace]), requests.overheads(self.runtime_classes)
            )
            found = self.contexts[namespace] = decode.WorkloadContext(rules)
        return found

    def workload(self, job: Raw) -> Workload | str:
        """The Workload that the controller would make of a Job, or why it makes none."""
        classes = priority.PriorityClasses(self.classes, self.pod_classes, self.default_class)
        asked = priority.of_job(meta.priority_class(job), BATCH_JOB.pod_sets(job), classes)
        if isinstance(asked, priority.Missing):
            return str(asked)
        raw = workloads.manifest(BATCH_JOB, job, asked)
        raw["metadata"] |= {key: job["metadata"][key] for key in ("uid", "creationTimestamp")}
        return self.read(raw)

    def read(self, raw: Raw) -> Workload:
        """A Workload object."""
        return decode.workload(raw, self.context(raw["metadata"]["namespace"]))


def admitted(raw: Raw, context: Context) -> tuple[Raw, Response]:
    """An object as our webhooks leave it on create, and their verdict: mutating hooks first, then validating ones."""
    group, version, resource = RESOURCES[raw["kind"]]
    queued = Reach.QUEUED_JOBS if meta.queue_name(raw) else Reach.UNQUEUED_JOBS
    warnings: tuple[str, ...] = ()
    for phase in (Phase.MUTATING, Phase.VALIDATING):
        for hook in HOOKS:
            here = hook.phase is phase and (hook.group, hook.version) == (group, version)
            if not here or resource not in hook.resources or hook.reach not in (queued, Reach.OUR_KINDS):
                continue
            if not hook.needed(context.settings):
                continue
            response = hook.handler(_request(raw, group, version, resource), context)
            warnings += response.warnings
            if not response.allowed:
                return raw, response
            raw = patch.apply(raw, response.patch)
    return raw, Response(allowed=True, warnings=tuple(dict.fromkeys(warnings)))


def _request(raw: Raw, group: str, version: str, resource: str) -> Request:
    metadata = raw["metadata"]
    return Request(
        uid="simulated",
        operation="CREATE",
        group=group,
        version=version,
        resource=resource,
        sub_resource="",
        kind=raw["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        object=raw,
        old_object=None,
        dry_run=False,
        username="",
        options={},
    )


def play(
    scenario: Scenario, policy: Policy | None = None, *, until: float | None = None, run_for: float = DEFAULT_RUN_FOR
) -> Played:
    """Play a scenario; ScenarioError where its queues cannot be.

    Workloads among its objects (those of a live cluster) are there from the start; each runs for ``run_for`` more.
    """
    cluster = World(scenario.objects, policy or Policy())
    played = Played(cluster.state)
    arrivals = [Arrival(0.0, workload, run_for) for workload in cluster.workloads if not finished(workload)]
    played.jobs = {a.workload.key: Key(a.workload.key.namespace, a.workload.owner) for a in arrivals}
    for number, submission in enumerate(scenario.submissions):
        namespace = submission.job["metadata"]["namespace"]
        if namespace not in cluster.state.namespaces:
            cluster.add({"kind": "Namespace", "metadata": {"name": namespace}})
        arrival = _arrive(cluster, played, submission, number)
        if arrival is not None:
            arrivals.append(arrival)
    played.timeline = simulate(cluster.state, arrivals, until=until)
    return played


def _arrive(cluster: World, played: Played, submission: Submission, number: int) -> Arrival | None:
    """A Job through admission and into its Workload."""
    given = {"uid": f"{number:08d}", "creationTimestamp": stamp(submission.at)}
    job = submission.job | {"metadata": submission.job["metadata"] | given}
    key = workloads.key(job)
    job, response = admitted(job, cluster.admission)
    if not response.allowed:
        played.refused.append(Refusal(submission.at, key, response.message))
        return None
    if response.warnings:
        played.warnings[key] = response.warnings
    if not meta.queue_name(job):
        return None  # not ours to hold back
    workload = cluster.workload(job)
    if isinstance(workload, str):
        played.refused.append(Refusal(submission.at, key, workload))
        return None
    played.jobs[workload.key] = key
    return Arrival(submission.at, workload, submission.run_for)
