"""Steps 2 and 9 of docs/architecture.md: creates the Workload of a job, and starts, stops and finishes the job with it.

Gathers what is known of each job (from stores only) for the rules of ``core.jobs.decide``. The answer of each write
enters the caches, whose change queues the job again; so the next rule is applied without waiting for the watch, and a
restart continues from the state of the API.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import structlog

from api import names, resources
from api.objects import key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.owners import Owners
from controller.cache.reconciler import Reconciler
from controller.cache.refusals import Refusals
from controller.cache.writes import Writer
from controller.kube.errors import AlreadyExists, ApiError, Conflict, TooManyRequests
from controller.kube.flow.budget import Budget
from controller.kube.flow.limits import DEFERRED_AT_ONCE
from controller.kube.flow.pressure import Pressure
from controller.kube.workqueue import WorkQueue
from controller.metrics.counters import QueueingMetrics
from controller.reconcilers.departures import Departures
from controller.reconcilers.elastic import ungate
from controller.reconcilers.managed import Managed
from controller.reconcilers.stops import Stops
from controller.settings import ControllerSettings
from core.actions import Action, Create, Deferred, Wait, Write, Writes
from core.jobs import meta
from core.jobs.actions import (
    AwaitPods,
    CreateWorkload,
    DeleteWorkload,
    Problem,
    RemoveFinalizer,
    RemoveJobFinalizer,
    Start,
    Stop,
    Ungate,
    UpdateWorkload,
    UpdateWorkloadStatus,
)
from core.jobs.decide import decide, earlier
from core.jobs.groups import created_before_its_pods
from core.jobs.imported import being_imported
from core.jobs.kind import JobKind, owner_of
from core.jobs.kinds import POD, POD_GROUP, kind_at
from core.jobs.kinds.pod_group import PodGroup
from core.jobs.owners import Nesting, NestingError
from core.jobs.pod_owners import GROUP_OWNERS
from core.jobs.release import uid_of
from core.jobs.situation import JobSituation
from core.jobs.stopping import Ask, Stopping
from core.model import Key, Raw, Workload, events
from core.model.owner import GROUP
from core.multikueue.conditions import is_ours
from core.quota.usage import holds_quota
from core.variants.rules import running
from core.wire.timestamps import epoch

log = structlog.get_logger(__name__)

KEPT_WORKERS = 10
"""Workers for jobs whose Workload has quota, if many others wait for their writes."""


LARGE, SECONDS_A_POD = 100, 0.0001
"""A group of more pods is decided in another thread, and only so long after its first change: ten times as long as that
takes.
"""


class _Decided(NamedTuple):
    """What the rules decide about a job: the action, what Workloads of earlier jobs wait for, whether its own stop is
    complete, and after how many seconds time alone changes something.
    """

    situation: JobSituation
    action: Action
    waits: list[AwaitPods]
    stopping: Stopping | None
    overdue: bool
    settles_in: float | None


def _decided(situation: JobSituation) -> _Decided:
    waits = earlier(situation)  # before the action, which may discard what is known of pods
    stopping, overdue = situation.stopping, situation.overdue
    return _Decided(situation, decide(situation), waits, stopping, overdue, situation.kind.settles_in(situation.job))


class JobReconciler(Reconciler[_Decided]):
    """Reconciles the jobs of one kind. ``run`` while this process leads; call ``changed`` whenever something of a job
    changed.
    """

    workers = 30

    def __init__(
        self,
        kind: JobKind,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        metrics: QueueingMetrics,
        settings: ControllerSettings,
        *,
        budget: Budget | None = None,
        owners: Owners | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(f"jobs-{kind.kind.lower()}", kind.resource, writer, recorder, clock=clock)
        self.kind = kind
        self.caches = caches
        self.metrics = metrics
        self.settings = settings
        self.managed = Managed(caches, settings, owners or Owners(caches))
        self.departures = Departures(caches, writer, recorder, self._is_orphan, settings.life, clock=clock)
        self.stops = Stops(kind, caches, writer, clock)
        self.store = caches.stores[self.resource]
        self.budget = budget or Budget(Pressure())
        self.finished = WorkQueue[Key](f"finished-{kind.kind.lower()}", longest_seconds=30.0)
        self._refusals = Refusals(clock)
        self._problems: dict[Key, tuple[str, str]] = {}

    def changed(self, key: Key) -> None:
        """Queues this job; before others if its Workload has quota, which it uses or releases next. A large group of
        pods a moment later: each of its pods is a change of it, and the work follows their number.
        """
        pods = self.store.count("job", key) if self.kind.grouped else 0
        self.queue.add_after(key, pods * SECONDS_A_POD if pods > LARGE else 0.0, first=self._has_quota(key))

    def _is_orphan(self, raw: Raw) -> bool:
        return not self.caches.controlled(raw) and not self._made_ahead(raw)

    def _made_ahead(self, raw: Raw) -> bool:
        """Whether a Workload has no pods at present, and will have: a user created it first, or an object will have
        pods; or its pod runs, and an import has not marked it yet.
        """
        if created_before_its_pods(raw) or being_imported(raw):
            return True
        name = meta.annotations(raw).get(names.Annotation.JOB_OWNER_NAME)
        if not name or meta.deleting(raw):
            return False
        key, owners = Key(raw["metadata"]["namespace"], name), raw["metadata"].get("ownerReferences") or ()
        stores = (self.caches.stores[each.resource] for each in GROUP_OWNERS if each.resource in self.caches.stores)
        there = {meta.uid(found) for store in stores if (found := store.get(key)) is not None}
        return any(each["uid"] in there for each in owners)

    def every_key(self) -> Iterable[Key]:
        """Yields the keys of all jobs; of a job that consists of several objects several times."""
        return self.keys(self.store.keys())

    def keys(self, objects: Iterable[Key]) -> Iterable[Key]:
        """Yields the keys of the jobs that consist of these objects, looked up one by one."""
        if not self.kind.grouped:
            return objects
        return (self.kind.key(raw) for key in objects if (raw := self.store.get(key)) is not None)

    async def _decided(self, key: Key) -> _Decided | None:
        """What the rules decide about the job with this key; None if no object of it is there.

        A large group of pods is decided in another thread: the work follows the number of its pods, which users choose,
        and admission calls wait for the event loop meanwhile.
        """
        found, kind = self.caches.job_objects(self.kind, key), kind_at(self.kind, key)
        if not found:
            return None
        job: Raw
        if not isinstance(kind, PodGroup):
            return _decided(self._situation(key, kind.whole(found, self.clock())))
        of_group = Key(key.namespace, key.name.removeprefix(GROUP))
        beside = (
            self.caches.workloads.get(of_group),
            self.caches.get(of_group),
            self.caches.context(key.namespace).rules,
            self._terminating_timeout,
            self.settings.guard.injected,
        )
        if len(found) <= LARGE:
            return _decided(self._situation(key, kind.beside(kind.whole(found, self.clock()), *beside)))
        now = self.clock()
        job = await asyncio.to_thread(lambda: kind.beside(kind.whole(found, now), *beside))
        situation = self._situation(key, job)
        read = (*situation.workloads, *(each for each in (situation.prebuilt,) if each is not None))
        fixed = {each: self.caches.decoded[each] for each in map(key_of, read)}
        return await asyncio.to_thread(_decided, replace(situation, decoded=fixed, flavors={**situation.flavors}))

    def _has_quota(self, key: Key) -> bool:
        found = self.caches.workloads.by_index("owner", owner_of(self.kind, key))
        known = (self.caches.get(key_of(raw)) for raw in found)
        return any(each is not None and holds_quota(each) for each in known)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self.stops.begin(tuple(self.store), self._has_quota)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.queue.run(self.workers, self.reconcile, kept=KEPT_WORKERS))
            group.create_task(self.finished.run(DEFERRED_AT_ONCE, self.release))

    async def reconcile(self, key: Key) -> float | None:
        """Bring one job and its Workload one step on. Returns when to look again, in seconds."""
        found = await self.look(key)
        if found is None:
            self._refusals.forget(key)
            self._problems.pop(key, None)
            self.stops.forget(key)
            left = map(key_of, self.caches.workloads_of(owner_of(self.kind, key)))
            return _soonest([await self.departures.reconcile(workload) for workload in left])
        decided, action = found
        again = await self.act(key, decided, action)
        waits = [await self._await_pods(key, each) for each in decided.waits]
        return _soonest([again, decided.settles_in, *waits])

    def about(self, situation: _Decided) -> tuple[Key, str]:
        """The job."""
        job = situation.situation.job
        return key_of(job), meta.uid(job)

    async def look(self, key: Key) -> tuple[_Decided, Action] | None:
        """Returns what the rules decide."""
        decided = await self._decided(key)
        return (decided, decided.action) if decided is not None else None

    def goes_first(self, situation: _Decided, action: Action) -> bool:
        """Writes that release or use quota come before those of jobs that wait for it."""
        if isinstance(action, UpdateWorkloadStatus):
            return action.why in ("finish", "release")
        return isinstance(action, Start | Stop | RemoveFinalizer)

    async def act(self, key: Key, situation: _Decided, action: Action) -> float | None:
        """Applies an action; the finalizer of a Workload that nobody deletes holds up nothing, and is removed later."""
        if isinstance(action, RemoveFinalizer) and not self._is_deleting(action.workload):
            self.finished.add(key)
            return None
        return await super().act(key, situation, action)

    async def idle(self, key: Key, situation: _Decided, wait: Wait) -> float | None:
        """Lists the pods that are waited for, or reports a problem. Returns when to decide again, in seconds."""
        match wait:
            case AwaitPods():
                return await self._await_pods(key, wait)
            case Problem():
                self._report_problem(key, situation.situation.job, wait)
        return _soonest([wait.seconds, await self._await_stop(key, situation)])

    async def deferred(self, key: Key, situation: _Decided, action: Deferred) -> float | None:
        """Ungates pods of an elastic job."""
        assert isinstance(action, Ungate)

        async def granted() -> Mapping[str, int]:
            found = await self.look(key)
            return found[1].granted if found is not None and isinstance(found[1], Ungate) else {}

        await ungate(self.writer, key.namespace, action, granted)
        return None

    def _report_overdue(self, situation: _Decided) -> None:
        log.warning("quota released, pods of the stopped job remain", job=str(key_of(situation.situation.job)))
        self.emit(situation, events.pods_overdue(self.settings.terminating_pods_timeout))

    async def _await_stop(self, key: Key, situation: _Decided) -> float | None:
        """Does what shows that a stopped job has no pods; returns when to decide again, in seconds."""
        match situation.stopping:
            case None:
                return None
            case Ask() as ask:
                async with self.turn(key, first=True):
                    await self.apply(key, situation, ask)
                self.stops.asked(key)
                self.changed(key)
                return None
            case AwaitPods() as listed:
                seconds = await self.stops.look(listed)
                if not seconds:
                    self.changed(key)
                return seconds or None
            case Wait() as wait:
                return wait.seconds

    def is_current(self, key: Key, situation: _Decided, action: Write | Writes) -> bool:
        """Whether the job and its Workloads are still those of the situation."""
        job, kind = situation.situation.job, situation.situation.kind
        before, now = kind.parts(job), self.caches.job_objects(self.kind, key)
        same = len(before) == len(now) and set(map(id, before)) == set(map(id, now))
        return same and self._workloads(key, job) == situation.situation.workloads

    def _workloads(self, key: Key, job: Raw) -> tuple[Raw, ...]:
        """The Workloads of this job, or of one before it of the same name: not that of another owner."""
        found, kind = self.caches.workloads_of(owner_of(self.kind, key)), kind_at(self.kind, key)
        return tuple(raw for raw in found if kind.owns(job, raw)) if kind.shares_names() else found

    async def release(self, key: Key) -> None:
        """Removes the finalizer of a job's finished Workload when the budget of writes that can wait has a turn."""
        async with self.budget.turn("finalizers"):
            decided = await self._decided(key)
            if decided is not None and isinstance(decided.action, RemoveFinalizer):
                await self.apply(key, decided, decided.action)

    def _situation(self, key: Key, job: Raw) -> JobSituation:
        kind = kind_at(self.kind, key)
        brought, _ = meta.prebuilt_workload(job, annotation_first=self.settings.identifier_annotations)
        named = brought
        if kind is POD_GROUP:  # its Workload has its name, whoever creates it
            brought, named = "", meta.pod_group(job)
        above, nested_wrongly = Nesting(), ""
        try:
            above = self.managed.above(job)
        except NestingError as error:
            nested_wrongly = str(error)
        workloads, related = self._workloads(key, job), self.caches.related(self.kind, key)
        return JobSituation(
            kind=kind,
            job=job,
            now=self.clock(),
            workloads=workloads,
            variants=self._variants(workloads) if self.settings.policy.concurrent_admission else {},
            decoded=self.caches.decoded,
            managed=self.managed.selects(job) and kind.covers(job, self.settings.frameworks) and not kind.skip(job),
            ancestor_admitted=self.managed.admitted(above.ancestor, key.namespace),
            ancestor_uid=above.ancestor.uid if above.ancestor is not None else "",
            elastic_jobs=self.settings.reading.elastic_jobs,
            owner_unread=above.unread is not None,
            nested_wrongly=nested_wrongly,
            flavors=self.caches.flavors,
            classes=self.caches.classes,
            wait_for_pods_ready=self.settings.wait_for_pods_ready,
            retention_after_deactivation=self.settings.retention_after_deactivation,
            copied=self.settings.copied,
            reclaimable_pods=self.settings.reading.reclaimable_pods,
            pods_gone=self.departures.gone,
            related=related,
            last_start=self.stops.observe(key, job, related, workloads),
            stopped_pods_gone=self.stops.gone,
            terminating_timeout=self._terminating_timeout,
            awaits_cleanup=self.settings.awaits_redis_cleanup and kind.awaits_cleanup(job),
            adopts_workloads=not self.settings.validates_group_owners,
            life=self.settings.life,
            prebuilt_name=brought,
            prebuilt=self.caches.workloads.get(Key(key.namespace, named)) if named else None,
            successor=self._successor(Key(key.namespace, brought)) if brought else None,
            worker_checks=self._worker_checks() if kind is POD_GROUP else (),
        )

    @property
    def _terminating_timeout(self) -> float:
        """How long pods keep the quota of a stopped job; not at all with FastQuotaReleaseInPodIntegration."""
        fast = self.settings.fast_release_of_pods and self.kind is POD
        return 0.0 if fast else self.settings.terminating_pods_timeout

    def _worker_checks(self) -> tuple[str, ...]:
        """The names of the AdmissionChecks of MultiKueue, if this controller decides them."""
        checks = self.caches.stores[resources.ADMISSION_CHECKS] if self.settings.multikueue.enabled else ()
        return tuple(raw["metadata"]["name"] for raw in checks if is_ours(raw))

    def _successor(self, workload: Key) -> Raw | None:
        """The slice without owner that is to replace this one."""
        found = self.caches.state.kinship.successor(workload)
        return self.caches.workloads.get(found) if found is not None else None

    def _variants(self, workloads: Iterable[Raw]) -> dict[Key, Workload]:
        """The variants with which these Workloads run, by the key of their parent."""
        values = (self.caches.get(key_of(raw)) for raw in workloads)
        parents = [each for each in values if each is not None and each.parent]
        found = ((each.key, running(each, self.caches.variants_of(each))) for each in parents)
        return {key: variant for key, variant in found if variant is not None}

    async def _await_pods(self, key: Key, action: AwaitPods) -> float | None:
        """Lists the pods of a deleted job; the rules are called again immediately if there are none."""
        wait = await self.departures.await_pods(action)
        if wait:
            return wait
        self.changed(key)
        return None

    def _forget_pods_of(self, workload: Key) -> None:
        """The Workload of this job, or of an earlier one, is released: the pods of that job are no longer listed."""
        raw = self.caches.workloads.get(workload)
        if raw is not None:
            self.departures.forget(uid_of(raw))

    async def apply(self, key: Key, situation: _Decided, action: Write | Writes) -> None:
        """Makes the writes of an action. A start is remembered before it is written."""
        if isinstance(action, DeleteWorkload | RemoveFinalizer):
            self._forget_pods_of(action.workload)
        if isinstance(action, Start):
            self.stops.started(key, situation.situation.job)
        try:
            await super().apply(key, situation, action)
        except Conflict:
            if isinstance(action, Start):
                self.stops.forget(key)  # it has not started
            raise

    async def written(self, key: Key, situation: _Decided, action: Write | Writes) -> None:
        """Logs and counts what happened to the job, and emits the events of many pods."""
        job = situation.situation.job
        match action:
            case UpdateWorkload():
                self._refusals.forget(key)
            case UpdateWorkloadStatus():
                log.info("workload status", workload=str(action.after.key), why=action.why)
            case Start():
                log.info("job started", job=str(key), cluster_queue=action.cluster_queue)
                await self._started(key, job, action)
            case Stop() if action.was_running:
                log.info("job stopped", job=str(key), reason=action.reason)
                await self._record_on_each(kind_at(self.kind, key).parts(job), events.stopped(action.message))
            case RemoveJobFinalizer():
                await self._record_on_each(action.excess, events.excess_deleted())
        if situation.overdue and isinstance(action, UpdateWorkloadStatus | DeleteWorkload | RemoveFinalizer | Start):
            self._report_overdue(situation)

    def _is_deleting(self, workload: Key) -> bool:
        raw = self.caches.workloads.get(workload)
        return raw is not None and "deletionTimestamp" in raw["metadata"]

    def created(self, key: Key, situation: _Decided, create: Create, answer: Raw) -> None:
        """Emits events about a new Workload, and counts it."""
        made, job = key_of(answer), situation.situation.job
        self._refusals.forget(key)
        log.info("workload created", workload=str(made), job=job["metadata"]["name"])
        self.emit(situation, events.created_workload(made))
        since = epoch(job["metadata"]["creationTimestamp"])
        if job["metadata"].get("generation", 1) == 1:  # one that was changed since may have had no queue before
            queue = Key(made.namespace, meta.queue_name(job))
            self.metrics.workload_created(f"{self.kind.api_version}/{self.kind.kind}", self.clock() - since, queue)

    async def refused(self, key: Key, situation: _Decided, write: Write, error: ApiError) -> None:
        """Emits an event on the job when the API server refuses its Workload: one for each kind of refusal, not one for
        each retry, whose message may differ each time (a port, an id, what a quota has now).

        It is tried again with backoff: what refused it (a quota, a policy, a webhook, missing rights) may be fixed
        without any change of the job.
        """
        workload = key_of(write.manifest) if isinstance(write, Create) else write.target and write.target.key
        ours = isinstance(write, CreateWorkload | UpdateWorkload) and not isinstance(error, Conflict | TooManyRequests)
        if ours and workload is not None:  # else the caches are behind, or the API server is busy
            behind = isinstance(error, AlreadyExists) and self.caches.workloads.get(workload) is None
            uid = meta.uid(situation.situation.job)
            if error.status and not behind and self._refusals.due(key, (uid, error.status, error.reason)):
                self.emit(situation, events.workload_refused(workload, error.message))
        raise error

    async def _started(self, key: Key, job: Raw, action: Start) -> None:
        """Emits the event on the objects that were started, and counts how long pods kept their gate."""
        targets = {each.target.key for each in action.steps if not isinstance(each, Create) and each.target is not None}
        parts = kind_at(self.kind, key).parts(job)
        started = [part for part in parts if key_of(part) in targets] if self.kind.grouped and targets else parts
        await self._record_on_each(started, events.started(action.cluster_queue))
        if not self.kind.grouped:
            return
        known = (self.caches.get(key_of(raw)) for raw in self.caches.workloads_of(owner_of(self.kind, key)))
        conditions = (value.condition(names.Condition.ADMITTED) for value in known if value is not None)
        since = next((each.since for each in conditions if each is not None and each.status), None)
        if since is None:
            return
        for _ in started:
            group = kind_at(self.kind, key) is POD_GROUP
            self.metrics.gate_removed(action.cluster_queue, self.clock() - since, is_group=group)

    def _report_problem(self, key: Key, job: Raw, problem: Problem) -> None:
        """Emits an event about a problem; about a group only one for each sentence, not one for each of its pods."""
        failure = (problem.reason, problem.message)
        if not self.kind.grouped or self._problems.get(key) != failure:
            self._record(problem.about or job, events.failed(*failure))
        self._problems[key] = failure

    async def _record_on_each(self, jobs: Sequence[Raw], event: events.Event) -> None:
        """Emits an event on each of many objects, with pauses for other tasks."""
        for place, each in enumerate(jobs, start=1):
            self._record(each, event)
            if not place % LARGE:
                await asyncio.sleep(0)

    def _record(self, job: Raw, event: events.Event) -> None:
        self.recorder.record(self.resource, key_of(job), job["metadata"]["uid"], event)


def _soonest(waits: Iterable[float | None]) -> float | None:
    return min((each for each in waits if each is not None), default=None)
