"""Reconciles the objects whose pods form a group: StatefulSets. ``core.jobs.stateful_sets`` decides."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import assert_never

import structlog

from api.objects import key_of
from controller import events, resources
from controller.caches import Caches
from controller.events import Recorder
from controller.kube.errors import AlreadyExists, NotFound
from controller.kube.workqueue import WorkQueue
from controller.settings import Settings
from controller.writes import Writer
from core.jobs import meta, stateful_sets
from core.jobs.actions import CreateWorkload, Problem, UpdateWorkload, WorkloadStatus
from core.jobs.kind import Patch
from core.jobs.kinds import POD
from core.jobs.pod_owners import STATEFUL_SET
from core.jobs.stateful_sets import Situation, Step
from core.matching.namespaces import managed
from core.model import Key, Raw
from core.model.owner import Owner

log = structlog.get_logger(__name__)

WORKERS = 5


class StatefulSetReconciler:
    """Reconciles StatefulSets. ``run`` while this process leads; call ``changed`` whenever something of one changed."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.recorder = recorder
        self.settings = settings
        self.clock = clock
        self.resource = STATEFUL_SET.resource
        self.store = caches.stores[self.resource]
        self.queue = WorkQueue[Key]("stateful-sets", longest_seconds=30.0)

    def changed(self, key: Key) -> None:
        """Queues this StatefulSet."""
        self.queue.add(key)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self.queue.run(WORKERS, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        """Bring one StatefulSet, its Workload and its pods one step on."""
        owner = self.store.get(key)
        if owner is None or meta.deleting(owner) or not self._managed(owner):
            return None
        name = Key(key.namespace, stateful_sets.name(owner))
        value = self.caches.get(name)
        situation = Situation(
            owner, self._pods(owner), self.caches.workloads.get(name), value, self.caches.classes, self.clock()
        )
        for step in stateful_sets.steps(situation):
            await self._apply(owner, step)
        return None

    def _pods(self, owner: Raw) -> list[Raw]:
        key, uid = key_of(owner), owner["metadata"]["uid"]
        above = Owner(self.resource.group, self.resource.kind, key.namespace, key.name)
        found = self.caches.stores[POD.resource].by_index("owner", above)
        return [pod for pod in found if (meta.controller(pod) or {}).get("uid") == uid]

    def _managed(self, owner: Raw) -> bool:
        name = owner["metadata"]["namespace"]
        namespace = self.caches.namespaces.get(Key("", name))
        if namespace is None:
            return False
        labels = namespace["metadata"].get("labels") or {}
        if not managed(name, labels, self.settings.managed_namespaces, own=self.settings.namespace):
            return False
        return bool(meta.queue_name(owner)) or self.settings.manage_jobs_without_queue_name

    async def _apply(self, owner: Raw, step: Step) -> None:
        match step:
            case CreateWorkload():
                try:
                    created = await self.writer.create(resources.WORKLOADS, step.manifest)
                except AlreadyExists:
                    return  # the caches are behind
                self._tell(owner, events.created_workload(key_of(created)))
            case UpdateWorkload():
                await self.writer.patch(resources.WORKLOADS, step.workload, step.patch)
            case WorkloadStatus():
                await self.writer.patch(resources.WORKLOADS, step.workload, step.patch, subresource="status")
            case Problem():
                self._tell(owner, events.failed(step.reason, step.message))
            case Patch():
                assert step.target is not None
                try:
                    await self.writer.patch(step.target.resource, step.target.key, step.body)
                except NotFound:
                    log.debug("pod is gone", pod=str(step.target.key))
            case _:
                assert_never(step)

    def _tell(self, owner: Raw, event: events.Event) -> None:
        self.recorder.tell(self.resource, key_of(owner), owner["metadata"]["uid"], event)
