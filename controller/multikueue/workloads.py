"""Workloads with a MultiKueue check: gathers what is known of each here and in its workers for the rules of
``core.multikueue``.

Writes in this cluster have one work queue, those in each worker another one: all decide from stores, so that no worker
is waited for. The AdmissionChecks of MultiKueue get their condition Active here, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary

import structlog

from api import names, resources
from api.objects import Key, Raw, key_of
from controller.cache.caches import Caches
from controller.cache.checks import CheckConditions
from controller.cache.events import Recorder
from controller.cache.reconciler import Reconciler
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from controller.kube.workqueue import WorkQueue
from controller.metrics.counters import QueueingMetrics
from controller.multikueue.clusters import Clusters
from controller.multikueue.quotas import Quotas
from controller.multikueue.remote import CHANGED_SECONDS, Remote
from controller.settings import Settings
from core.actions import Action, Create, Patch, Wait, Write, Writes
from core.feedback.rules import plain
from core.feedback.submission import of_workload
from core.feedback.workers import why_never
from core.jobs import meta
from core.jobs.external import External
from core.jobs.kind import JobKind, owner_of
from core.jobs.kinds import kind_at
from core.jobs.mirrored import Mirrored
from core.jobs.mirrored_owners import MIRRORED_OWNERS, several_of
from core.model import Workload
from core.multikueue import conditions, here, mirror, there
from core.multikueue.group import Group, Worker
from core.multikueue.siblings import Siblings
from core.state.lookup import Lookup
from core.wire.active import Active, condition_of, is_active

log = structlog.get_logger(__name__)

AT_ONCE = 100
"""So many Workloads, which take some milliseconds, are looked at before other tasks can run."""
TAKE_OVER_SECONDS = 5.0
"""After how long it is looked again whether a slice has taken over the job of one that was deleted."""
REFUSALS = (AlreadyExists, Forbidden, Invalid, NotFound)
"""The answers of a worker that does not take an object."""


class MultiKueue(Reconciler[Group]):
    """Everything of MultiKueue in the cluster of the controller. ``run`` while this process leads."""

    workers = 20

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        client: Client,
        recorder: Recorder,
        metrics: QueueingMetrics,
        settings: Settings,
        *,
        externals: Iterable[External] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("multikueue", resources.WORKLOADS, writer, recorder, clock=clock)
        self.caches = caches
        self.metrics = metrics
        self.settings = settings.multikueue
        self.owners = tuple(each for each in MIRRORED_OWNERS if each.resource in caches.stores)
        self.jobs = tuple(kind for kind in caches.kinds if kind.elsewhere)
        self.externals = tuple(externals)
        self.kinds: tuple[Mirrored, ...] = (*self.jobs, *self.owners, *self.externals)
        self.checks = CheckConditions(
            "multikueue-checks",
            caches,
            writer,
            recorder,
            controller=names.MULTIKUEUE_CONTROLLER,
            wanted=self._condition,
            clock=clock,
        )
        self.turned = WorkQueue[str]("multikueue-turned", longest_seconds=30.0)
        self.clusters = Clusters(
            caches,
            writer,
            client,
            self.kinds,
            namespace=settings.namespace,
            origin=self.settings.policy.origin,
            reconcile=self.reconcile_there,
            heard=self._heard,
            turned=self.turned.add,
            any_path=self.settings.any_path,
            allowed=self.settings.allowed,
            profiles=self.settings.profiles,
            requoted=self._requoted if self.settings.automates_quota else None,
            clock=clock,
        )
        self.quotas = Quotas(
            caches,
            writer,
            self.clusters.remote,
            self.clusters.lost_since,
            lost_timeout=self.settings.policy.worker_lost_timeout,
            clock=clock,
        )
        self.orphans: defaultdict[str, set[Key]] = defaultdict(set)
        """Copies whose Workload here was deleted, by worker. Of a worker that is lost only those that it is known to
        have: ``_collect`` finds others when it is back.
        """
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._rounds: dict[Key, float] = {}
        self._siblings: dict[str, Siblings] = {}
        """The groups of objects that have several, by uid."""
        self._ran: dict[Key, str] = {}
        """The worker that was chosen last for a Workload with quota: an eviction removes it from the status."""

    def connect(self) -> None:
        """Connects the listeners, after State and the dispatcher."""
        stores = self.caches.stores
        self.caches.workloads.listen(self._workload)
        stores[resources.ADMISSION_CHECKS].listen(self.respecified)
        for kind in (*self.jobs, *self.externals):
            stores[kind.resource].listen(self._job_changed(kind))
        for owner in self.owners:
            stores[owner.resource].listen(self._owner_changed)
        if self.settings.automates_quota:
            self.quotas.connect()

    def everything(self) -> Iterator[None]:
        """Queues all objects, because this process leads from now on."""
        self.clusters.lead()
        self.checks.everything()
        return self._concerned_told(self._found)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            group.create_task(self.checks.run())
            group.create_task(self.turned.run(1, self.reconcile_turned))
            if self.settings.automates_quota:
                group.create_task(self.quotas.run())
            if self.settings.gc_interval:
                group.create_task(self._collect(self.settings.gc_interval))

    def changed(self, key: Key) -> None:
        """Queues this Workload, here and in each worker."""
        self.queue.add(key)
        for remote in self.clusters.remotes():
            remote.queue.add(key)

    def cluster_changed(self, old: Raw | None, new: Raw | None) -> None:
        """A MultiKueueCluster changed."""
        if old is None or new is None or is_active(old) != is_active(new):
            self.checks.everything()

    def respecified(self, old: Raw | None, new: Raw | None) -> None:
        """A MultiKueueConfig or an AdmissionCheck changed."""
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            return
        self.checks.everything()
        self.caches.in_steps("multikueue", partial(self._concerned_told, self.changed))

    def _concerned_told(self, tell: Callable[[Key], None]) -> Iterator[None]:
        """Calls ``tell`` with each Workload that may run in workers, yielding every few."""
        for place, key in enumerate(self.caches.workloads.keys(), start=1):
            raw = self.caches.workloads.get(key)
            if raw is not None and self._concerned(raw):
                tell(key)
            if not place % AT_ONCE:
                yield

    def _found(self, key: Key) -> None:
        self._remember(key, self.caches.workloads.get(key))
        self.changed(key)

    def _workload(self, old: Raw | None, new: Raw | None) -> None:
        raw = new or old or {}
        key = key_of(raw)
        concerned = self._concerned(raw) or (old is not None and self._concerned(old))
        self._remember(key, new)
        self._count_among_siblings(key, old, new)
        if not concerned:
            return
        if _place(old) != _place(new) and several_of(raw) is not None:
            uid = _job_uid(raw)
            if not self._siblings_of(uid).placed_without(key):  # else they know their place
                for each in self._groups(uid):
                    if each.key != key:
                        self.changed(each.key)
        if new is None:
            for remote in self.clusters.remotes():
                remote.forget(key)
                if remote.connected or remote.has(key):
                    self.orphans[remote.name].add(key)
        self.changed(key)

    def _job_changed(self, kind: Mirrored) -> Callable[[Raw | None, Raw | None], None]:
        def changed(old: Raw | None, new: Raw | None) -> None:
            raw = new or old or {}
            if kind.left(raw):
                for workload in self.caches.workloads.by_index("owner", owner_of(kind, kind.key(raw))):
                    if self._concerned(workload):
                        self.changed(key_of(workload))

        return changed

    def _owner_changed(self, old: Raw | None, new: Raw | None) -> None:
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            return  # its status here says nothing of its worker
        for workload in self.caches.workloads.by_index("job-uid", (new or old or {})["metadata"]["uid"]):
            if self._concerned(workload):
                self.changed(key_of(workload))

    def _heard(self, remote: Remote, key: Key) -> None:
        """Something of a Workload changed in a worker."""
        self.queue.add(key)
        remote.queue.add(key)

    def _requoted(self) -> None:
        """A queue of a worker changed."""
        self.quotas.all_changed()

    async def _collect(self, interval: float) -> None:
        """Finds copies in workers whose Workload here is gone, again and again."""
        while True:
            await asyncio.sleep(interval)
            for remote in self.clusters.remotes():
                for place, key in enumerate(remote.keys() if remote.connected else (), start=1):
                    if not place % AT_ONCE:
                        await asyncio.sleep(0)
                    if key not in self.caches.workloads:
                        self.orphans[remote.name].add(key)
                        remote.queue.add(key)

    async def reconcile_turned(self, cluster: str) -> None:
        """A worker is lost or back: queues all Workloads that may run there, and what is left there of others."""
        if self.settings.automates_quota:
            self.quotas.all_changed()
        if ("", cluster) not in self.clusters.store:
            self.orphans.pop(cluster, None)
        remote = self.clusters.remote(cluster)
        back = remote.queue if remote is not None and remote.connected else None
        if back is not None:
            for place, key in enumerate(tuple(self.orphans.get(cluster, ())), start=1):
                back.add(key)
                if not place % AT_ONCE:
                    await asyncio.sleep(0)

        def tell(key: Key) -> None:
            self.queue.add(key)
            if back is not None:
                back.add(key)

        for _ in self._concerned_told(tell):
            await asyncio.sleep(0)

    def _condition(self, raw: Raw) -> Active:
        """The condition Active that an AdmissionCheck should have."""
        clusters = {each["metadata"]["name"]: each for each in self.clusters.store}
        return conditions.of_check(raw, self.caches.parameters(raw, resources.MULTIKUEUE_CONFIGS), clusters)

    def gather(self, key: Key) -> Group | None:
        """What is known of a Workload here and in its workers; None while a reservation of it is written."""
        group = self.group(key)
        if group.local is None or self.caches.state.assumed(key):
            return None
        if group.raw is not None and group.unassigned:  # not in ``group``, which each worker calls, and it costs much
            group = replace(group, workers=self._never(group.raw, group.workers))
        return group

    def decide(self, situation: Group) -> Action:
        """The next write about a Workload in this cluster."""
        return here.decide(situation)

    def about(self, situation: Group) -> tuple[Key, str]:
        """The Workload."""
        assert situation.local is not None
        return situation.local.key, situation.local.uid

    @contextlib.asynccontextmanager
    async def turn(self, key: Key, *, first: bool) -> AsyncIterator[None]:
        """Groups of one object are decided one by one: each decision knows where the others are."""
        async with self._one_by_one(key), super().turn(key, first=first):
            yield

    def _one_by_one(self, key: Key) -> contextlib.AbstractAsyncContextManager[None]:
        """A lock for the groups of one object."""
        raw = self.caches.workloads.get(key)
        if raw is None or several_of(raw) is None:
            return contextlib.nullcontext()
        return self._locks.setdefault(str(meta.labels(raw).get(names.Label.JOB_UID)), asyncio.Lock())

    async def written(self, key: Key, situation: Group, action: Write | Writes) -> None:
        """Logs and counts what was decided about the Workload."""
        if not isinstance(action, Patch) or action.after is None or situation.local is None:
            return
        admission, worker = situation.local.admission, action.after.cluster_name if action.why == "admit" else ""
        log.info("multikueue workload", workload=str(key), why=action.why, worker=worker)
        if action.why == "nominate":
            self._rounds[key] = self.clock()
        if worker and admission is not None:
            self.metrics.admitted_by_worker(admission.cluster_queue, worker)

    async def reconcile_there(self, remote: Remote, key: Key) -> float | None:
        """Makes the next write about a Workload in one worker."""
        return await _There(self, remote).reconcile(key)

    def group(self, key: Key) -> Group:
        """Returns what is known of a Workload here and in its workers. None of these is configured while its
        MultiKueueConfig is missing.
        """
        now, policy = self.clock(), self.settings.policy
        raw, local = self.caches.workloads.get(key), self.caches.get(key)
        if raw is None or local is None:
            return Group(now, policy=policy)
        check = self._check(raw)
        config = self.caches.parameters(check, resources.MULTIKUEUE_CONFIGS) if check is not None else None
        state = next((each for each in local.checks if check and each.name == check["metadata"]["name"]), None)
        kind, owner, job, related = self._job(raw, local)
        return Group(
            now=now,
            local=local,
            raw=raw,
            check=state,
            kind=kind,
            owner=owner,
            job=job,
            related=related,
            workers=self._workers(raw, conditions.clusters_of(config), local.cluster_name or self._ran.get(key, "")),
            ran=self._ran.get(key, ""),
            policy=policy,
            replaced=self._replaced(local),
            successor=self.caches.state.kinship.replacement(local),
            siblings=self._siblings_of(_job_uid(raw)) if several_of(raw) is not None else Siblings(),
            round_began=self._rounds.get(key),
            required=tuple(self.caches.state.required_checks(local.admission) if local.admission is not None else ()),
        )

    def _replaced(self, local: Workload) -> Workload | None:
        """The slice of the same job that this one replaces."""
        found = self.caches.get(local.replaces) if local.replaces is not None else None
        return found if found is not None and found.owner == local.owner else None

    def with_former(self, key: Key, group: Group, remote: Remote) -> Worker:
        """What a worker has of a Workload; of a slice of an elastic job also the job that names an earlier one."""
        found = group.worker(remote.name) or replace(self._shared(remote.seen(key), key), configured=False)
        kind, job = group.kind, group.job
        if not group.elastic or found.jobs or kind is None or job is None or not found.connected:
            return found
        former = remote.stores[kind.resource].get(key_of(job))
        made = former is not None and meta.controller(former) is None and kind.made_for(job, former)
        return replace(found, former=former) if made else found

    def taken_over(self, remote: Raw, cluster: str) -> bool:
        """Whether a slice of the same job that was admitted in this worker will take over an object there, which still
        names a slice that was deleted here.
        """
        named = (remote["apiVersion"], remote["kind"])
        kind = next((each for each in self.jobs if (each.api_version, each.kind) == named), None)
        key = key_of(remote)
        if kind is None or not kind.made_for(self.caches.stores[kind.resource].get(key), remote):
            return False
        slices = self.caches.workloads.by_index("owner", owner_of(kind, kind.key(remote)))
        return any(self.group(key_of(each)).runs_in(cluster) for each in slices if meta.elastic(each))

    def _workers(self, raw: Raw, configured: tuple[str, ...], chosen: str) -> tuple[Worker, ...]:
        """The configured workers, then others that were chosen or have something of the Workload."""
        named = [each.name for each in self.clusters.remotes()]
        others = [self._seen(name, raw) for name in sorted({*named, chosen} - {*configured, ""})]
        return (
            *(self._seen(name, raw) for name in configured),
            *(replace(each, configured=False) for each in others if each.name == chosen or each.workload or each.jobs),
        )

    def _seen(self, name: str, raw: Raw) -> Worker:
        """What a worker has of a Workload, and whether other groups of its object need that there."""
        several = several_of(raw)
        if several is None:
            return self.clusters.seen(name, key_of(raw))
        return self._shared(self.clusters.seen(name, key_of(raw), several[1]), key_of(raw))

    def _shared(self, worker: Worker, key: Key) -> Worker:
        """The worker, with whether other Workloads run there by the same objects."""
        origins = {meta.annotations(each).get(names.Annotation.MULTIKUEUE_ORIGIN_UID) for each in worker.jobs}
        runs = any(self._siblings_of(str(uid)).runs_in(worker.name, without=key) for uid in origins if uid)
        return replace(worker, shared=True) if runs else worker

    def _siblings_of(self, uid: str) -> Siblings:
        """The groups of the object with this uid: read once, and then kept up to date."""
        found = self._siblings.get(uid)
        if found is None:
            found = Siblings(self._groups(uid))
            if found:
                self._siblings[uid] = found
        return found

    def _groups(self, uid: str) -> Iterator[Workload]:
        """The Workloads of the groups of the object with this uid."""
        for raw in self.caches.workloads.by_index("job-uid", uid):
            value = self.caches.get(key_of(raw))
            if value is not None and several_of(raw) is not None:
                yield value

    def _count_among_siblings(self, key: Key, old: Raw | None, new: Raw | None) -> None:
        """A Workload has changed: counts it among the groups of its object, if these were asked for before."""
        uids = {_job_uid(raw) for raw in (old, new) if raw is not None}
        for uid in uids & self._siblings.keys():
            mine = new is not None and _job_uid(new) == uid and several_of(new) is not None
            self._siblings[uid].set(key, self.caches.get(key) if mine else None)
            if not self._siblings[uid]:
                del self._siblings[uid]

    def _remember(self, key: Key, raw: Raw | None) -> None:
        """Keeps which worker was chosen until the quota is released."""
        held = condition_of(raw, names.Condition.QUOTA_RESERVED)
        if held is None or held["status"] != "True":
            self._ran.pop(key, None)
            self._rounds.pop(key, None)
        elif name := ((raw or {}).get("status") or {}).get("clusterName"):
            self._ran[key] = name

    def _job(self, raw: Raw, local: Workload) -> tuple[Mirrored | None, str, Raw | None, tuple[Raw, ...]]:
        """The kind of the job of a Workload if it can run elsewhere, what messages call it, the job, and the objects
        that belong to it.
        """
        by, references = local.owner, raw["metadata"].get("ownerReferences") or ()
        if made := meta.annotations(raw).get(names.Annotation.JOB_OWNER_GVK):
            return *self._owner(raw, made), ()
        if by is None or not references:
            return None, "", None, ()
        reference = meta.controller(raw) or references[0]
        version, named = reference["apiVersion"], reference["kind"]
        owner = f"{version if '/' in version else f'/{version}'}, Kind={named}"
        known = (*self.jobs, *self.externals)
        served = next((each for each in known if (each.group, each.kind) == (by.group, by.kind)), None)
        key = Key(by.namespace, by.name)
        if not isinstance(served, JobKind):
            return served, owner, self.caches.stores[served.resource].get(key) if served is not None else None, ()
        kind, found = kind_at(served, key), self.caches.job_objects(served, key)
        return kind, owner, kind.whole(found, self.clock()) if found else None, self.caches.related(kind, key)

    def _owner(self, raw: Raw, made: str) -> tuple[Mirrored | None, str, Raw | None]:
        """As ``_job``, of the object that creates the pods of a group: ``made`` is how its Workload names its kind."""
        kind = next((each for each in self.owners if f"{each.api_version}, Kind={each.kind}" == made), None)
        name = meta.annotations(raw).get(names.Annotation.JOB_OWNER_NAME)
        if kind is None or not name:
            return None, made, None
        found = self.caches.stores[kind.resource].get(Key(raw["metadata"]["namespace"], name))
        ours = found is not None and meta.uid(found) in {
            each["uid"] for each in raw["metadata"].get("ownerReferences") or ()
        }
        return kind, made, found if ours else None

    def _concerned(self, raw: Raw) -> bool:
        """Whether a Workload has a check of MultiKueue, or runs in a worker since it had one."""
        ran = key_of(raw) in self._ran or bool((raw.get("status") or {}).get("clusterName"))
        return ran or self._check(raw) is not None

    def surveys(self, check: str) -> dict[str, Lookup | None]:
        """Returns the queues of the workers of an AdmissionCheck by name, None for one of which nothing is known; empty
        for a check that is not of MultiKueue.
        """
        raw: Raw | None = self.caches.stores[resources.ADMISSION_CHECKS].get(("", check))
        if raw is None or not self.settings.enabled or not conditions.is_ours(raw):
            return {}
        config = self.caches.parameters(raw, resources.MULTIKUEUE_CONFIGS)
        remotes = {name: self.clusters.remote(name) for name in conditions.clusters_of(config)}
        return {name: remote.survey.lookup if remote is not None else None for name, remote in remotes.items()}

    def _never(self, raw: Raw, workers: tuple[Worker, ...]) -> tuple[Worker, ...]:
        """The workers with why they could never admit a Workload."""
        job = of_workload(raw, self.caches.context(key_of(raw).namespace).rules)
        remotes = ((each, self.clusters.remote(each.name)) for each in workers)
        return tuple(
            replace(each, never=plain(why_never(job, remote.survey.lookup))) if remote is not None else each
            for each, remote in remotes
        )

    def _check(self, raw: Raw) -> Raw | None:
        """The AdmissionCheck of MultiKueue that a Workload has, None if it has none."""
        store = self.caches.stores[resources.ADMISSION_CHECKS]
        for state in (raw.get("status") or {}).get("admissionChecks") or ():
            check: Raw | None = store.get(("", state["name"]))
            if check is not None and conditions.is_ours(check):
                return check
        return None


class _Copy(NamedTuple):
    """A Workload, and what one worker has of it."""

    group: Group
    worker: Worker


class _There(Reconciler[_Copy]):
    """Reconciles Workloads in one worker, where writes wait for no turn."""

    def __init__(self, multikueue: MultiKueue, remote: Remote) -> None:
        recorder, clock = multikueue.recorder, multikueue.clock
        super().__init__(remote.name, resources.WORKLOADS, remote.writer, recorder, queue=remote.queue, clock=clock)
        self.here = multikueue
        self.remote = remote

    def gather(self, key: Key) -> _Copy | None:
        """What is known of a Workload that is here, or was."""
        group = self.here.group(key)
        if group.raw is None and key not in self.here.orphans.get(self.remote.name, ()):
            return None
        return _Copy(group, self.here.with_former(key, group, self.remote))

    def decide(self, situation: _Copy) -> Action:
        """The next write in the worker."""
        group, worker = situation
        if group.raw is None and any(self.here.taken_over(job, self.remote.name) for job in worker.jobs):
            return Wait(TAKE_OVER_SECONDS)
        action = there.decide(group, worker)
        if isinstance(action, Create):
            wait = self.remote.again.get(key_of(action.manifest), 0.0) - self.clock()
            return Wait(wait) if wait > 0 else action
        return action

    def turn(self, key: Key, *, first: bool) -> contextlib.AbstractAsyncContextManager[None]:
        """No turn: admission calls have precedence over writes in this cluster only."""
        return contextlib.nullcontext()

    def is_current(self, key: Key, situation: _Copy, action: Write | Writes) -> bool:
        """Nothing was awaited since it was decided."""
        return True

    def about(self, situation: _Copy) -> tuple[Key, str]:
        """The copy of the Workload."""
        copied = situation.worker.workload
        assert copied is not None
        return key_of(copied), meta.uid(copied)

    async def idle(self, key: Key, situation: _Copy, wait: Wait) -> float | None:
        """Forgets a Workload that was deleted here, if the worker has nothing of it."""
        group, worker = situation
        if wait == Wait() and group.raw is None and worker.connected and worker.workload is None and not worker.jobs:
            self.here.orphans[self.remote.name].discard(key)
        return wait.seconds

    async def refused(self, key: Key, situation: _Copy, write: Write, error: ApiError) -> None:
        """Reports here that the worker does not take a Workload or its job, and tries again with backoff."""
        if isinstance(write, Create) and isinstance(error, REFUSALS):
            if write.resource != resources.WORKLOADS:
                since = self.remote.refused_jobs.get(key, ("", self.clock()))[1]
                self.remote.refused_jobs[key] = _why(error), since
                self.here.queue.add(key)
            elif self.remote.refuses(key, _why(error), kind=f"{error.status} {error.reason}"):
                self.here.queue.add(key)
        raise error

    def created(self, key: Key, situation: _Copy, create: Create, answer: Raw) -> None:
        """If the worker stores another spec of a Workload, the copy is withdrawn, and offered again later."""
        if create.resource != resources.WORKLOADS:
            return
        changed = sorted(mirror.differing(create.manifest["spec"], answer["spec"]) - there.IN_PLACE)
        if not changed:
            self.remote.forget(key)
        else:
            self.remote.again[key] = self.clock() + CHANGED_SECONDS
            why = f"worker changed {', '.join(f'spec.{field}' for field in changed)}"
            if self.remote.refuses(key, why, kind=why):
                self.here.queue.add(key)
        local = situation.group.local
        if local is not None and local.admission is not None:
            self.here.metrics.dispatched_to_worker(local.admission.cluster_queue, self.remote.name)

    async def written(self, key: Key, situation: _Copy, action: Write | Writes) -> None:
        """Forgets why the job was refused when it was created or withdrawn."""
        if isinstance(action, Writes):
            self.remote.refused_jobs.pop(key, None)


def _job_uid(raw: Raw) -> str:
    """The uid of the job of a Workload, or of the object of which it is one of several groups."""
    return str(meta.labels(raw).get(names.Label.JOB_UID) or "")


def _place(raw: Raw | None) -> tuple[str, bool]:
    """The worker that was chosen for a Workload, and whether one is looked for."""
    status = (raw or {}).get("status") or {}
    return status.get("clusterName") or "", bool(status.get("nominatedClusterNames"))


def _why(error: ApiError) -> str:
    return "exists without our origin label" if isinstance(error, AlreadyExists) else error.message
