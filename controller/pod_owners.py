"""Reconciles the objects whose pods form groups: StatefulSets and LeaderWorkerSets.

``core.jobs.stateful_sets`` and ``core.jobs.leader_worker_sets`` decide; the groups themselves are reconciled as pods.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Container, Iterator, Sequence
from typing import assert_never

import structlog

from api import names, resources
from api.objects import key_of
from controller.caches import Caches
from controller.churn import Churn
from controller.events import Recorder
from controller.kube.errors import AlreadyExists, NotFound
from controller.kube.store import Store
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
from core.jobs.pod_owner_groups import Step, Write, of_another_cluster
from core.jobs.pod_owners import STATEFUL_SET, PodOwner
from core.model import Key, Raw, events
from core.model.owner import Owner

log = structlog.get_logger(__name__)

WORKERS = 5
AT_ONCE = 100
"""Objects that are considered without a pause: a set may have many thousands of groups."""
LARGE, SECONDS_A_WORKLOAD, LONGEST_SECONDS = 100, 0.0002, 5.0
"""An object with more Workloads is considered only so long after the first change: each Workload that changes, perhaps
all of them one after the other, is a change of the object, and the work for it follows their number, which may be a
mistake.
"""


LOOK_AGAIN_SECONDS = 15.0
"""When it is looked again whether the name of a Workload is still that of another owner's."""


class _Basis:
    """The pods of an object and its Workloads, by which it is decided."""

    def __init__(self, pods: Sequence[Raw], workloads: Sequence[Raw]) -> None:
        self.pods = pods
        self.workloads = workloads
        self._known = {id(each) for each in (*pods, *workloads)}

    def has(self, raw: Raw | None) -> bool:
        """Whether it contains this very version of an object."""
        return id(raw) in self._known


class _Names(Container[str]):
    """The names of the Workloads of a namespace."""

    def __init__(self, workloads: Store[Raw], namespace: str) -> None:
        self._workloads = workloads
        self._namespace = namespace

    def __contains__(self, name: object) -> bool:
        return (self._namespace, str(name)) in self._workloads


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
        churn: Churn | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.kind = kind
        self.caches = caches
        self.writer = writer
        self.recorder = recorder
        self.managed = Managed(caches, settings, owners or Owners(caches))
        self.churn = churn or Churn()
        self.clock = clock
        self.resource = kind.resource
        self.store = caches.stores[self.resource]
        self._problems: dict[Key, Problem] = {}
        self.queue = WorkQueue[Key](kind.resource.plural, longest_seconds=30.0)

    def changed(self, key: Key) -> None:
        """Queues this object; one with many Workloads a moment later."""
        owner = self.store.get(key)
        workloads = self.kind.workloads(owner) if owner is not None else 0
        delay = min(workloads * SECONDS_A_WORKLOAD, LONGEST_SECONDS) if workloads > LARGE else 0.0
        self.queue.add_after(key, delay)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self.queue.run(WORKERS, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        """Brings one object, its Workloads and its pods one step on. Returns when to look again, in seconds."""
        owner = self.store.get(key)
        problem: Problem | None = None
        if owner is None or meta.deleting(owner) or not self._managed(owner):
            self._problems.pop(key, None)
            return None
        basis = self._basis(owner)
        steps, again = self._steps(owner, basis)
        for place, step in enumerate(steps, start=1):
            if not place % AT_ONCE:
                await asyncio.sleep(0)
            if isinstance(step, Problem):
                problem = step
            elif step is not None and not await self._done(key, owner, basis, step):
                self.changed(key)
                return None
        self._tell_problem(key, owner, problem)
        if problem is not None and problem.reason == names.Event.WORKLOAD_NAME_CONFLICT:
            return LOOK_AGAIN_SECONDS  # the end of the other owner's Workload does not lead here
        return again

    async def _done(self, key: Key, owner: Raw, basis: _Basis, step: Write) -> bool:
        """Applies a step in its turn; if the object or what the step changes is another one by then, instead the first
        step of what is to be done now. Returns whether the steps that follow are still right.
        """
        async with self.writer.turn(key.namespace, first=isinstance(step, WorkloadStatus)):
            now = self.store.get(key)
            if now is owner and self._is_current(basis, step):
                await self._apply(owner, step)
                return True
            if now is not None and not meta.deleting(now) and self._managed(now):
                fresh, _ = self._steps(now, self._basis(now))
                few = itertools.islice(fresh, AT_ONCE)
                first = next((each for each in few if each is not None and not isinstance(each, Problem)), None)
                if first is not None:
                    await self._apply(now, first)
        return False

    def _is_current(self, basis: _Basis, step: Write) -> bool:
        """Whether what the step changes is as it was when the step was decided."""
        if isinstance(step, Patch | Delete):
            assert step.target is not None
            return basis.has(self.caches.stores[step.target.resource].get(step.target.key))
        if isinstance(step, CreateWorkload):
            return self.caches.workloads.get(key_of(step.manifest)) is None
        return basis.has(self.caches.workloads.get(step.workload))

    def _basis(self, owner: Raw) -> _Basis:
        """The objects by which is decided what is to be done about an object."""
        if self.kind is STATEFUL_SET:
            named = [Key(owner["metadata"]["namespace"], name) for name in stateful_sets.workload_names(owner)]
            found = [raw for key in named if (raw := self.caches.workloads.get(key)) is not None]
            return _Basis(self._controlled_pods(owner), found)
        made = self.caches.workloads.by_index("job-uid", owner["metadata"]["uid"])
        if of_another_cluster(owner):
            made = (*made, *self.caches.workloads.by_index("to-adopt", key_of(owner)))
        return _Basis(self._labelled_pods(owner), made)

    def _steps(self, owner: Raw, basis: _Basis) -> tuple[Iterator[Step | None], float | None]:
        """All that is to be done by what is known now, and after how many seconds time alone changes that."""
        caches, asks = self.caches, self.managed.settings.copied.topology_requests
        pods, found = basis.pods, basis.workloads
        if self.kind is STATEFUL_SET:
            mine = (each for each in found if stateful_sets.is_workload_of(owner, each, pods))
            raw = next(mine, None)
            value = caches.get(key_of(raw)) if raw is not None else None
            taken = raw is None and any(each["metadata"]["name"] == stateful_sets.name(owner) for each in found)
            situation = stateful_sets.Situation(owner, pods, raw, value, caches.classes, self.clock(), asks, taken)
            return stateful_sets.steps(situation), stateful_sets.settles_in(situation)
        existing = _Names(caches.workloads, owner["metadata"]["namespace"])
        of_set = leader_worker_sets.Situation(owner, pods, found, caches.decoded, caches.classes, asks, existing)
        return leader_worker_sets.steps(of_set), None

    def _tell_problem(self, key: Key, owner: Raw, problem: Problem | None) -> None:
        """Emits an event about a problem, once while it exists."""
        if problem is not None and self._problems.get(key) != problem:
            self._tell(owner, events.failed(problem.reason, problem.message))
        if problem is None:
            self._problems.pop(key, None)
        else:
            self._problems[key] = problem

    def _controlled_pods(self, owner: Raw) -> Sequence[Raw]:
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

    async def _apply(self, owner: Raw, step: Write) -> None:
        match step:
            case CreateWorkload():
                if wait := self.churn.wait(key_of(step.manifest)):
                    self.queue.add_after(key_of(owner), wait)
                    return
                try:
                    created = await self.writer.create(resources.WORKLOADS, step.manifest)
                except AlreadyExists:
                    return  # the caches are behind
                self._tell(owner, events.created_workload(key_of(created)))
                if times := self.churn.created(key_of(created)):
                    again = self.churn.wait(key_of(created))
                    self._tell(owner, events.created_again(key_of(created), times, again))
            case UpdateWorkload():
                await self.writer.patch(resources.WORKLOADS, step.workload, step.patch)
            case DeleteWorkload():
                await self.writer.delete(resources.WORKLOADS, step.workload, step.uid)
                self._tell(owner, events.deleted_workload(step.workload))
            case WorkloadStatus():
                await self.writer.patch(resources.WORKLOADS, step.workload, step.patch, subresource="status")
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
