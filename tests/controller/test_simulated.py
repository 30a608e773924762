"""The simulation and the controller give the same admissions on the same input.

The controller is the real one, but for the wire: its caches, wake-ups, Job and Workload reconcilers and its scheduler,
writing to an in-memory stand-in for the API server (hundreds of clusters in one test are too many for real ones;
``tests/cluster/test_simulated.py`` plays one on a real control plane). Time is what the test says it is. A stand-in
for the Job controller ends Jobs, whose pods go and come at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from api.objects import Resource
from cli.manifests import Document
from cli.scenario import Scenario
from cli.simulator import Played, play
from cli.trace import TracedJob
from cli.world import ConfiguredRules, World, admitted
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import Conflict, NotFound
from controller.kube.flow.decisions import Decisions
from controller.kube.flow.precedence import Precedence
from controller.kube.workqueue import WorkQueue
from controller.metrics.counters import QueueingMetrics
from controller.reconcilers.jobs import JobReconciler
from controller.reconcilers.mirror import QueueMirror
from controller.reconcilers.queues import QueueStatuses
from controller.reconcilers.workloads import WorkloadReconciler
from controller.run.dispatch import Dispatcher
from controller.run.watched import dispatch_of, rows
from controller.scheduling.scheduler import Scheduler
from controller.settings import ControllerSettings
from core.jobs.kinds import BATCH_JOB
from core.model import Key, Raw
from core.model.events import Event
from core.model.policy import SchedulingPolicy, Strategy
from core.state.state import State
from core.wire.merge import merged
from core.wire.timestamps import stamp
from tests.effort import cases

JOBS = BATCH_JOB.resource
TABLE = rows([BATCH_JOB])
RESOURCES = {row.resource.kind: row.resource for row in TABLE}
WRITES = {row.resource: row.writes for row in TABLE}
Running = dict[str, str]
"""The flavor by Job."""


class Memory:
    """Objects of an API server that never fails and grants the rights of the table; ``tell`` hears of every change."""

    def __init__(self, tell: Callable[[Resource, Raw], None], now: Callable[[], float]) -> None:
        self.objects: dict[tuple[Resource, str, str], Raw] = {}
        self.tell = tell
        self.now = now
        self.version = 0
        self.precedence = Precedence(lambda: 0.0)

    def put(self, resource: Resource, raw: Raw) -> Raw:
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        if resource == JOBS:
            raw["status"] = _seen(raw)
        self.objects[resource, raw["metadata"].get("namespace", ""), raw["metadata"]["name"]] = raw
        self.tell(resource, raw)
        return copy.deepcopy(raw)

    async def create(self, resource: Resource, body: Raw, namespace: str = "", **_: Any) -> Raw:
        assert "create" in WRITES[resource][""]
        uid = body["metadata"]["ownerReferences"][0]["uid"]  # as in the simulation, where ties end in the uid
        given = {"uid": uid, "creationTimestamp": stamp(self.now())}
        return self.put(resource, copy.deepcopy(body) | {"metadata": {**body["metadata"], **given}})

    async def get(self, resource: Resource, name: str, namespace: str = "", **_: Any) -> Raw:
        return copy.deepcopy(self._found(resource, name, namespace))

    async def patch(
        self, resource: Resource, name: str, namespace: str, body: Raw, subresource: str = "", **_: Any
    ) -> Raw:
        assert "patch" in WRITES[resource][subresource]
        found = self._found(resource, name, namespace)
        if body["metadata"].get("resourceVersion") not in (None, found["metadata"]["resourceVersion"]):
            raise Conflict(409, "Conflict", "the object has been modified")
        metadata = {key: value for key, value in body["metadata"].items() if key not in ("uid", "resourceVersion")}
        return self.put(resource, merged(found, {**body, "metadata": metadata}))

    async def update(self, resource: Resource, body: Raw, *, subresource: str = "", **_: Any) -> Raw:
        assert "update" in WRITES[resource][subresource]
        metadata = body["metadata"]
        found = self._found(resource, metadata["name"], metadata["namespace"])
        if metadata["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        return self.put(resource, {**copy.deepcopy(found), subresource: body[subresource]})

    async def delete(self, resource: Resource, name: str, namespace: str = "", **_: Any) -> Raw:
        assert "delete" in WRITES[resource][""]
        self._found(resource, name, namespace)
        del self.objects[resource, namespace, name]
        return {"kind": "Status"}

    def _found(self, resource: Resource, name: str, namespace: str) -> Raw:
        if (resource, namespace, name) not in self.objects:
            raise NotFound(404, "NotFound", name)
        return self.objects[resource, namespace, name]


def _seen(job: Raw) -> Raw:
    """The status of a Job whose controller has seen whether it is suspended."""
    others = [each for each in (job.get("status") or {}).get("conditions") or () if each["type"] != "Suspended"]
    shown = {"type": "Suspended", "status": str(job["spec"]["suspend"])}
    return {**(job.get("status") or {}), "conditions": [*others, shown], "terminating": 0}


class Silent:
    """Nobody listens to events here."""

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        """Say nothing."""


@dataclass
class Controlled:
    """The controller at work on a scenario, on the test's own clock."""

    scenario: Scenario
    policy: SchedulingPolicy
    now: float = 0.0
    ends: dict[str, float] = field(default_factory=dict)
    history: list[tuple[float, Running]] = field(default_factory=list)
    state: State | None = None

    def __post_init__(self) -> None:
        self.caches = Caches(self.state or State(self.policy), TABLE)
        self.server = Memory(self._changed, lambda: self.now)
        writer, metrics, told = Writer(self.server, self.caches.stores), QueueingMetrics(CollectorRegistry()), Silent()  # type: ignore[arg-type]
        common = (self.caches, writer, told, metrics)
        self.scheduler = Scheduler(*common, clock=lambda: self.now)
        self.workloads = WorkloadReconciler(*common[:3], ControllerSettings(), clock=lambda: self.now)
        self.jobs = JobReconciler(BATCH_JOB, *common, ControllerSettings(), clock=lambda: self.now)
        reasons = self.scheduler.reasons
        others = [WorkQueue[Key](name, clock=lambda: self.now) for name in ("reasons", "numbers", "workloads", "jobs")]
        reasons.reasons, reasons.numbers, self.workloads.queue, self.jobs.queue = others
        self.scheduler._decided = Decisions(clock=lambda: self.now)
        self.queues = [self.scheduler._decided, *others]
        queues, mirror = QueueStatuses(self.caches, writer), QueueMirror(self.caches, writer)
        self.wakes = Dispatcher(self.caches, self.scheduler, self.workloads, queues, [self.jobs], mirror)
        self.scheduler.taken_back = self.wakes.taken_back

    async def play(self) -> None:
        """All Jobs, until the last one that can has ended."""
        self.world = World(self.scenario.objects)  # admission is the simulation's, and has its own tests
        for document in self.scenario.objects:
            self._enter(RESOURCES[document.raw["kind"]], document.raw)
        self.caches.start()
        self.wakes.connect(dispatch_of(TABLE))
        self.wakes.everything()
        waiting = list(enumerate(self.scenario.submissions))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run()) for each in (self.scheduler, self.workloads, self.jobs)]
            await self._settle()
            while (moment := self._next(waiting)) is not None:
                self.now = moment
                while waiting and waiting[0][1].at <= moment:
                    self._submit(*waiting.pop(0))
                for name in [name for name, end in self.ends.items() if end <= moment]:
                    self._finish(name)
                self.scheduler.wake()
                await self._settle()
                self._note()
            for task in tasks:
                task.cancel()
        self.caches.state.check()

    def _next(self, waiting: list[tuple[int, TracedJob]]) -> float | None:
        moments = [*self.ends.values(), *(one.at for _, one in waiting[:1])]
        wake = self.caches.state.next_wake(self.now)
        if wake is not None and wake > self.now:
            moments.append(wake)
        return min(moments, default=None)

    def _enter(self, resource: Resource, raw: Raw) -> None:
        raw = {**raw, "metadata": {"uid": raw["metadata"]["name"], **raw["metadata"]}}
        self.caches.stores[resource].observe("ADDED", self.server.put(resource, copy.deepcopy(raw)))

    def _submit(self, number: int, one: TracedJob) -> None:
        job, _ = admitted(one.job, self.world.admission)
        given = {"uid": f"{number:08d}", "creationTimestamp": stamp(self.now)}
        self._enter(JOBS, {**job, "metadata": {**job["metadata"], **given}})

    def _changed(self, resource: Resource, raw: Raw) -> None:
        """A Job that is stopped starts again from the beginning, possibly at the same time."""
        if resource == JOBS and raw["spec"]["suspend"]:
            self.ends.pop(raw["metadata"]["name"], None)

    def _finish(self, name: str) -> None:
        del self.ends[name]
        raw = self.server.objects[JOBS, "ns", name]
        done = {"type": "Complete", "status": "True", "message": "done"}
        self.caches.stores[JOBS].observe(
            "MODIFIED", self.server.put(JOBS, {**copy.deepcopy(raw), "status": {"conditions": [done]}})
        )

    async def _settle(self) -> None:
        """Runs until there is nothing to do."""
        quiet = 0
        while quiet < 20:
            before = self.server.version, self.scheduler.cycles
            await asyncio.sleep(0)
            busy = any(len(queue) or queue.in_hand for queue in self.queues)
            quiet = 0 if busy or before != (self.server.version, self.scheduler.cycles) else quiet + 1

    def _note(self) -> None:
        running: Running = {}
        for one in self.scenario.submissions:
            name = one.job["metadata"]["name"]
            raw = self.server.objects.get((JOBS, "ns", name))
            if raw is None or raw["spec"]["suspend"] or BATCH_JOB.finished(raw) is not None:
                self.ends.pop(name, None)
                continue
            self.ends.setdefault(name, self.now + one.run_for)
            running[name] = raw["spec"]["template"]["spec"].get("nodeSelector", {}).get("flavor", "")
        self.history.append((self.now, running))


def simulated(played: Played, at: float) -> Running:
    """The jobs that run at a time of a simulation."""
    running: Running = {}
    for key, course in played.timeline.courses.items():
        for attempt in course.attempts:
            if attempt.started <= at and (attempt.ended is None or at < attempt.ended):
                (pod_set,) = attempt.admission.pod_sets
                running[played.jobs[key].name] = pod_set.flavors["cpu"]
    return running


def moments(played: Played) -> set[float]:
    """When anything happened in a simulation."""
    return {level.at for level in played.timeline.levels}


# What is played.


def ours(kind: str, name: str, spec: Raw, **metadata: str) -> Document:
    raw = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    return Document(raw, f"test: {name}")


def fixed(flavors: int) -> Iterator[Document]:
    yield Document({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}, "test")
    for number in range(flavors):
        yield ours("ResourceFlavor", f"f{number}", {"nodeLabels": {"flavor": f"f{number}"}})
    for name, value in (("low", -5), ("high", 5)):
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
        yield Document({**kind, "metadata": {"name": name}, "value": value}, "test")


@st.composite
def queues(draw: st.DrawFn) -> list[Document]:
    found: list[Document] = []
    flavors = draw(st.integers(1, 2))
    for number in range(draw(st.integers(1, 3))):
        cohort = draw(st.sampled_from(["one", "one", "two", ""]))
        quotas = []
        for flavor in range(flavors):
            quota: Raw = {"name": "cpu", "nominalQuota": draw(st.integers(0, 6))}
            if cohort and draw(st.booleans()):
                quota["borrowingLimit"] = draw(st.integers(0, 4))
            quotas.append({"name": f"f{flavor}", "resources": [quota]})
        reclaim = draw(st.sampled_from(["Never", "LowerPriority", "Any"]))
        policy: Raw = {
            "withinClusterQueue": draw(st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])),
            "reclaimWithinCohort": reclaim,
        }
        if reclaim != "Never" and draw(st.booleans()):
            policy["borrowWithinCohort"] = {"policy": "LowerPriority"}
        spec: Raw = {
            "namespaceSelector": {},
            "queueingStrategy": draw(st.sampled_from(["BestEffortFIFO", "StrictFIFO"])),
            "preemption": policy,
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}],
            **({"cohortName": cohort} if cohort else {}),
        }
        found.append(ours("ClusterQueue", f"q{number}", spec))
        found.append(ours("LocalQueue", f"q{number}", {"clusterQueue": f"q{number}"}, namespace="ns"))
    return [*fixed(flavors), *found]


def submission(
    number: int, slot: int, queue: str, cpu: int, priority: str, rounds: int, least: int | None
) -> TracedJob:
    """A Job; no two sums of running times are equal, so no two things happen at one moment."""
    labels = {"kueue.x-k8s.io/queue-name": queue, **({"kueue.x-k8s.io/priority-class": priority} if priority else {})}
    annotations = {"kueue.x-k8s.io/job-min-parallelism": str(least)} if least is not None else {}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "parallelism": cpu,
        "completions": cpu,
        "suspend": False,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    metadata = {"name": f"job-{number}", "namespace": "ns", "labels": labels, "annotations": annotations}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    return TracedJob(1000.0 * slot, job, 1000.0 * rounds + 2.0**number, origin=f"job-{number}")


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    objects = draw(queues())
    names = [document.raw["metadata"]["name"] for document in objects if document.raw["kind"] == "LocalQueue"]
    jobs = []
    for number in range(draw(st.integers(2, 9))):
        cpu = draw(st.integers(1, 4))
        least = draw(st.integers(1, cpu - 1)) if cpu > 1 and draw(st.integers(0, 3)) == 0 else None
        priority = draw(st.sampled_from(["", "", "low", "high"]))
        jobs.append(
            submission(number, number, draw(st.sampled_from(names)), cpu, priority, draw(st.integers(1, 4)), least)
        )
    return Scenario(tuple(objects), tuple(jobs))


@settings(max_examples=cases(40, 400), suppress_health_check=[HealthCheck.too_slow])
@given(scenario=scenarios(), fair=st.booleans())
def test_the_controller_admits_and_preempts_whom_the_simulation_does_at_the_same_moments(
    scenario: Scenario, fair: bool
) -> None:
    policy = SchedulingPolicy(fair_sharing=tuple(Strategy)) if fair else SchedulingPolicy()
    played = play(scenario, ConfiguredRules(ControllerSettings(policy=policy)))
    controlled = Controlled(scenario, policy)
    asyncio.run(controlled.play())
    assert not played.unplayed
    for at, running in controlled.history:
        assert running == simulated(played, at), f"at {at}"
    assert moments(played) <= {at for at, _ in controlled.history} | {0.0}


def test_the_property_is_of_cases_that_matter() -> None:
    """Preemption, borrowing, both flavors and fewer pods do happen among them."""
    wanted = {"second flavor", "fewer pods", "InClusterQueue", "InCohortReclamation"}
    seen: set[str] = set()

    class Enough(Exception):  # noqa: N818 - no error: which cases are drawn depends on the text of this function
        pass

    @settings(max_examples=1_500, database=None, phases=(Phase.generate,), suppress_health_check=[HealthCheck.too_slow])
    @given(scenario=scenarios(), fair=st.booleans())
    def look(scenario: Scenario, fair: bool) -> None:
        policy = SchedulingPolicy(fair_sharing=tuple(Strategy)) if fair else SchedulingPolicy()
        for course in play(scenario, ConfiguredRules(ControllerSettings(policy=policy))).timeline.courses.values():
            seen.update({"second flavor"} if any("f1" in str(a.admission) for a in course.attempts) else ())
            seen.update({a.reason for a in course.attempts if a.reason})
            least = course.arrival.workload.pod_sets[0].count
            seen.update({"fewer pods"} if any(a.admission.pod_sets[0].count < least for a in course.attempts) else ())
        if wanted <= seen:
            raise Enough

    with contextlib.suppress(Enough):
        look()
    assert wanted <= seen
