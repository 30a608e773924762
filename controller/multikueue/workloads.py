"""MultiKueue in the cluster of the manager: queues Workloads here and in each worker when something changes that
decides about them.

Writes in this cluster have one work queue (``here``), those in each worker another one (``there``): all decide from
stores, so that no worker is waited for. The AdmissionChecks of MultiKueue get their condition Active here, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from api import names, resources
from api.objects import Key, Raw, key_of
from controller.cache.caches import Caches
from controller.cache.checks import CheckConditions
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.workqueue import WorkQueue
from controller.metrics.counters import QueueingMetrics
from controller.multikueue.choices import Choices
from controller.multikueue.clusters import Clusters
from controller.multikueue.groups import Groups
from controller.multikueue.here import ManagerReconciler
from controller.multikueue.kinds import MirroredKinds
from controller.multikueue.orphans import AT_ONCE, Orphans
from controller.multikueue.quotas import Quotas
from controller.multikueue.remote import Remote
from controller.multikueue.siblings import SiblingIndex, job_uid
from controller.multikueue.there import WorkerReconciler
from controller.settings import ControllerSettings
from core.jobs.external import External
from core.jobs.kind import owner_of
from core.jobs.mirrored import Mirrored
from core.jobs.mirrored_owners import several_of
from core.multikueue import conditions
from core.state.lookup import Lookup
from core.wire.active import Active, is_active


class MultiKueueController:
    """Everything of MultiKueue in the cluster of the controller. ``run`` while this process leads."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        client: Client,
        recorder: Recorder,
        metrics: QueueingMetrics,
        settings: ControllerSettings,
        *,
        externals: Iterable[External] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.caches = caches
        self.settings = settings.multikueue
        self.kinds = MirroredKinds(caches, externals, clock)
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
            self.kinds.every,
            namespace=settings.namespace,
            origin=self.settings.policy.origin,
            reconcile=self.reconcile_there,
            changed=self._changed_there,
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
        self.siblings, self.choices = SiblingIndex(caches), Choices()
        self.groups = Groups(
            caches, self.clusters, self.kinds, self.siblings, self.choices, self.settings.policy, clock
        )
        self.orphans = Orphans(caches, self.clusters)
        self.here = ManagerReconciler(
            caches, self.groups, self.siblings, self.choices, writer, recorder, metrics, clock
        )
        self._there = partial(
            WorkerReconciler,
            groups=self.groups,
            orphans=self.orphans,
            recorder=recorder,
            metrics=metrics,
            requeue=self.here.queue.add,
            clock=clock,
        )

    def connect(self) -> None:
        """Connects the listeners, after State and the dispatcher."""
        stores = self.caches.stores
        self.caches.workloads.listen(self._workload)
        stores[resources.ADMISSION_CHECKS].listen(self.respecified)
        for kind in (*self.kinds.jobs, *self.kinds.externals):
            stores[kind.resource].listen(partial(self._job_changed, kind))
        for owner in self.kinds.owners:
            stores[owner.resource].listen(self._owner_changed)
        if self.settings.automates_quota:
            self.quotas.connect()

    def everything(self) -> Iterator[None]:
        """Queues all objects, because this process leads from now on."""
        self.clusters.lead()
        self.checks.everything()
        return self._each(self._found)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.here.run())
            group.create_task(self.checks.run())
            group.create_task(self.turned.run(1, self.reconcile_turned))
            if self.settings.automates_quota:
                group.create_task(self.quotas.run())
            if self.settings.gc_interval:
                group.create_task(self.orphans.collect(self.settings.gc_interval))

    async def reconcile_there(self, remote: Remote, key: Key) -> float | None:
        """Makes the next write about a Workload in one worker."""
        return await self._there(remote).reconcile(key)

    async def reconcile_turned(self, cluster: str) -> None:
        """A worker is lost or back: queues all Workloads that may run there, and what is left there of others."""
        if self.settings.automates_quota:
            self.quotas.all_changed()
        remote = self.clusters.remote(cluster)
        back = remote.queue if remote is not None and remote.connected else None
        await self.orphans.requeue(cluster)

        def requeue(key: Key) -> None:
            self.here.queue.add(key)
            if back is not None:
                back.add(key)

        for _ in self._each(requeue):
            await asyncio.sleep(0)

    def surveys(self, check: str) -> dict[str, Lookup | None]:
        """Returns the queues of the workers of an AdmissionCheck by name, None for one of which nothing is known; empty
        for a check that is not of MultiKueue.
        """
        return self.groups.surveys(check) if self.settings.enabled else {}

    def changed(self, key: Key) -> None:
        """Queues this Workload, here and in each worker."""
        self.here.queue.add(key)
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
        self.caches.in_steps("multikueue", partial(self._each, self.changed))

    def _each(self, call: Callable[[Key], None]) -> Iterator[None]:
        """Calls ``call`` with each Workload that may run in workers, yielding every few."""
        for place, key in enumerate(self.caches.workloads.keys(), start=1):
            raw = self.caches.workloads.get(key)
            if raw is not None and self.groups.concerns(raw):
                call(key)
            if not place % AT_ONCE:
                yield

    def _found(self, key: Key) -> None:
        self.choices.changed(key, self.caches.workloads.get(key))
        self.changed(key)

    def _workload(self, old: Raw | None, new: Raw | None) -> None:
        raw = new or old or {}
        key = key_of(raw)
        concerned = self.groups.concerns(raw) or (old is not None and self.groups.concerns(old))
        self.choices.changed(key, new)
        self.siblings.changed(key, old, new)
        if not concerned:
            return
        moved = _place(old) != _place(new) and several_of(raw) is not None
        if moved and not self.siblings.of(raw).placed_without(key):  # else they know their place
            for each in self.siblings.groups(job_uid(raw)):
                if each.key != key:
                    self.changed(each.key)
        if new is None:
            self.orphans.deleted(key)
        self.changed(key)

    def _job_changed(self, kind: Mirrored, old: Raw | None, new: Raw | None) -> None:
        raw = new or old or {}
        if kind.left(raw):
            self._workloads_changed(self.caches.workloads.by_index("owner", owner_of(kind, kind.key(raw))))

    def _owner_changed(self, old: Raw | None, new: Raw | None) -> None:
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            return  # its status here says nothing of its worker
        self._workloads_changed(self.caches.workloads.by_index("job-uid", (new or old or {})["metadata"]["uid"]))

    def _workloads_changed(self, workloads: Iterable[Raw]) -> None:
        for raw in workloads:
            if self.groups.concerns(raw):
                self.changed(key_of(raw))

    def _changed_there(self, remote: Remote, key: Key) -> None:
        """Something of a Workload changed in a worker."""
        self.here.queue.add(key)
        remote.queue.add(key)

    def _requoted(self) -> None:
        """A queue of a worker changed."""
        self.quotas.all_changed()

    def _condition(self, raw: Raw) -> Active:
        """The condition Active that an AdmissionCheck should have."""
        clusters = {each["metadata"]["name"]: each for each in self.clusters.store}
        return conditions.of_check(raw, self.caches.parameters(raw, resources.MULTIKUEUE_CONFIGS), clusters)


def _place(raw: Raw | None) -> tuple[str, bool]:
    """The worker that was chosen for a Workload, and whether one is looked for."""
    status = (raw or {}).get("status") or {}
    return status.get("clusterName") or "", bool(status.get("nominatedClusterNames"))
