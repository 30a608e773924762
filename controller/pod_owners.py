"""Reconciles the objects whose pods form groups: StatefulSets and LeaderWorkerSets.

``core.jobs.stateful_sets`` and ``core.jobs.leader_worker_sets`` decide; the groups themselves are reconciled as pods.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import assert_never

import structlog

from api.objects import key_of
from controller import events, resources
from controller.caches import Caches
from controller.events import Recorder
from controller.kube.errors import AlreadyExists, NotFound
from controller.kube.workqueue import WorkQueue
from controller.managed import Managed
from controller.owners import Owners
from controller.settings import Settings
from controller.writes import Writer
from core.jobs import leader_worker_sets, meta, stateful_sets
from core.jobs.actions import CreateWorkload, DeleteWorkload, Problem, UpdateWorkload, WorkloadStatus
from core.jobs.kind import Delete, Patch
from core.jobs.kinds import POD
from core.jobs.owners import Nesting, NestingError
from core.jobs.pod_owner_groups import Step
from core.jobs.pod_owners import STATEFUL_SET, PodOwner
from core.model import Key, Raw
from core.model.owner import Owner

log = structlog.get_logger(__name__)

WORKERS = 5


class PodOwnerReconciler:
    """Reconciles the objects of one kind. ``run`` while this process leads; call ``changed`` whenever something of one
    changed.
    """

    def __init__(
        self,
        kind: PodOwner,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        settings: Settings,
        *,
        owners: Owners | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.kind = kind
        self.caches = caches
        self.writer = writer
        self.recorder = recorder
        self.managed = Managed(caches, settings, owners or Owners(caches))
        self.clock = clock
        self.resource = kind.resource
        self.store = caches.stores[self.resource]
        self.queue = WorkQueue[Key](kind.resource.plural, longest_seconds=30.0)

    def changed(self, key: Key) -> None:
        """Queues this object."""
        self.queue.add(key)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self.queue.run(WORKERS, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        """Bring one object, its Workloads and its pods one step on."""
        owner = self.store.get(key)
        if owner is None or meta.deleting(owner) or not self._managed(owner):
            return None
        for step in self._steps(owner):
            async with self.writer.turn(first=isinstance(step, WorkloadStatus)):
                await self._apply(owner, step)
        return None

    def _steps(self, owner: Raw) -> Iterable[Step]:
        """All that is to be done, decided before the first write."""
        if self.kind is STATEFUL_SET:
            name = Key(owner["metadata"]["namespace"], stateful_sets.name(owner))
            raw, value = self.caches.workloads.get(name), self.caches.get(name)
            pods = self._controlled_pods(owner)
            situation = stateful_sets.Situation(owner, pods, raw, value, self.caches.classes, self.clock())
            return tuple(stateful_sets.steps(situation))
        made = self.caches.workloads.by_index("job-uid", owner["metadata"]["uid"])
        members = self._labelled_pods(owner)
        of_set = leader_worker_sets.Situation(owner, members, made, self.caches.decoded, self.caches.classes)
        return tuple(leader_worker_sets.steps(of_set))

    def _controlled_pods(self, owner: Raw) -> list[Raw]:
        key, uid = key_of(owner), owner["metadata"]["uid"]
        above = Owner(self.resource.group, self.resource.kind, key.namespace, key.name)
        found = self.caches.stores[POD.resource].by_index("owner", above)
        return [pod for pod in found if (meta.controller(pod) or {}).get("uid") == uid]

    def _labelled_pods(self, owner: Raw) -> tuple[Raw, ...]:
        return self.caches.stores[POD.resource].by_index("leader-worker-set", key_of(owner))

    def _managed(self, owner: Raw) -> bool:
        """Whether this object is queued, and none above it."""
        if not self.managed.selects(owner) or self.kind.of_another(owner):
            return False
        try:
            return self.managed.above(owner) == Nesting()
        except NestingError:
            return False

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
            case DeleteWorkload():
                await self.writer.delete(resources.WORKLOADS, step.workload, step.uid)
                self._tell(owner, events.deleted_workload(step.workload))
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
            case Delete():
                assert step.target is not None
                await self.writer.delete(step.target.resource, step.target.key, step.uid)
            case _:
                assert_never(step)

    def _tell(self, owner: Raw, event: events.Event) -> None:
        self.recorder.tell(self.resource, key_of(owner), owner["metadata"]["uid"], event)
