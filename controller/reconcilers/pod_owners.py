"""Reconciles the objects whose pods form groups: StatefulSets and LeaderWorkerSets.

``core.jobs.stateful_sets`` and ``core.jobs.leader_worker_sets`` decide; the groups themselves are reconciled as pods.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial

import structlog

from api import names
from api.objects import key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.owners import Owners
from controller.cache.reconciler import Reconciler
from controller.cache.writes import Writer
from controller.kube.errors import AlreadyExists, ApiError
from controller.kube.store import Store
from controller.reconcilers.managed import Managed
from controller.settings import ControllerSettings
from core.actions import Action, Create, Wait, Write, Writes, steps_of
from core.jobs import leader_worker_sets, meta, stateful_sets
from core.jobs.actions import Problem, UpdateWorkloadStatus
from core.jobs.kinds import POD
from core.jobs.owners import Nesting, NestingError
from core.jobs.pod_owner_groups import GroupStep, of_another_cluster
from core.jobs.pod_owners import STATEFUL_SET, PodOwner
from core.model import Key, Raw, events
from core.model.owner import Owner

log = structlog.get_logger(__name__)

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
    """An object, its pods and its Workloads, by which it is decided."""

    def __init__(self, owner: Raw, pods: Sequence[Raw], workloads: Sequence[Raw]) -> None:
        self.owner = owner
        self.pods = pods
        self.workloads = workloads
        self.stale = False
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


class PodOwnerReconciler(Reconciler[_Basis]):
    """Reconciles the objects of one kind. ``run`` while this process leads; call ``changed`` whenever something of one
    changed.
    """

    workers = 5

    def __init__(
        self,
        kind: PodOwner,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        settings: ControllerSettings,
        *,
        owners: Owners | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(kind.resource.plural, kind.resource, writer, recorder, clock=clock)
        self.kind = kind
        self.caches = caches
        self.managed = Managed(caches, settings, owners or Owners(caches))
        self.store = caches.stores[self.resource]
        self._problems: dict[Key, Problem] = {}

    def changed(self, key: Key) -> None:
        """Queues this object; one with many Workloads a moment later."""
        owner = self.store.get(key)
        workloads = self.kind.workloads(owner) if owner is not None else 0
        delay = min(workloads * SECONDS_A_WORKLOAD, LONGEST_SECONDS) if workloads > LARGE else 0.0
        self.queue.add_after(key, delay)

    async def reconcile(self, key: Key) -> float | None:
        """Brings one object, its Workloads and its pods one step on. Returns when to look again, in seconds."""
        situation, problem = self.gather(key), None
        if situation is None:
            self._problems.pop(key, None)
            return None
        steps, again = self._steps(situation)
        for place, step in enumerate(steps, start=1):
            if not place % AT_ONCE:
                await asyncio.sleep(0)
            if isinstance(step, Problem):
                problem = step
            elif step is not None:
                if (wait := await self.act(key, situation, step)) is not None:
                    self.queue.add_after(key, wait)
                if situation.stale:
                    self.changed(key)
                    return None
        self._report_problem(key, situation, problem)
        if problem is not None and problem.reason == names.Event.WORKLOAD_NAME_CONFLICT:
            return LOOK_AGAIN_SECONDS  # the end of the other owner's Workload does not lead here
        return again

    def gather(self, key: Key) -> _Basis | None:
        """The object and what it is decided by; None if it is not queued."""
        owner = self.store.get(key)
        return self._basis(owner) if owner is not None and not meta.deleting(owner) and self._managed(owner) else None

    def decide(self, situation: _Basis) -> Action:
        """The first of the next steps."""
        steps, again = self._steps(situation)
        few = itertools.islice(steps, AT_ONCE)
        found = next((each for each in few if each is not None and not isinstance(each, Problem)), None)
        return found or Wait(again)

    def is_current(self, key: Key, situation: _Basis, action: Write | Writes) -> bool:
        """Whether the object and what the step changes are as they were when the step was decided; else the steps after
        it are stale, too.
        """
        situation.stale = self.store.get(key) is not situation.owner or not all(
            map(partial(self._is_known, situation), steps_of(action))
        )
        return not situation.stale

    def _is_known(self, situation: _Basis, write: Write) -> bool:
        """Whether what is written is as it was, or is still missing."""
        if isinstance(write, Create):
            return self.caches.workloads.get(key_of(write.manifest)) is None
        assert write.target is not None
        return situation.has(self.caches.stores[write.target.resource].get(write.target.key))

    def goes_first(self, situation: _Basis, action: Action) -> bool:
        """Quota is released before Workloads are created."""
        return isinstance(action, UpdateWorkloadStatus)

    def _basis(self, owner: Raw) -> _Basis:
        """The objects by which is decided what is to be done about an object."""
        if self.kind is STATEFUL_SET:
            named = [Key(owner["metadata"]["namespace"], name) for name in stateful_sets.workload_names(owner)]
            found = [raw for key in named if (raw := self.caches.workloads.get(key)) is not None]
            return _Basis(owner, self._controlled_pods(owner), found)
        made = self.caches.workloads.by_index("job-uid", owner["metadata"]["uid"])
        if of_another_cluster(owner):
            made = (*made, *self.caches.workloads.by_index("to-adopt", key_of(owner)))
        return _Basis(owner, self._labelled_pods(owner), made)

    def _steps(self, situation: _Basis) -> tuple[Iterator[GroupStep | None], float | None]:
        """All that is to be done by what is known now, and after how many seconds time alone changes that."""
        caches, copied = self.caches, self.managed.settings.copied
        asks, longest = copied.topology_requests, copied.longest_name
        owner, pods, found = situation.owner, situation.pods, situation.workloads
        if self.kind is STATEFUL_SET:
            mine = (each for each in found if stateful_sets.is_workload_of(owner, each, pods))
            raw = next(mine, None)
            value = caches.get(key_of(raw)) if raw is not None else None
            own = stateful_sets.name(owner, longest)
            taken = raw is None and any(each["metadata"]["name"] == own for each in found)
            now = self.clock()
            of_pods = stateful_sets.StatefulSetSituation(
                owner, pods, raw, value, caches.classes, now, asks, taken, longest
            )
            return stateful_sets.steps(of_pods), stateful_sets.settles_in(of_pods)
        existing = _Names(caches.workloads, owner["metadata"]["namespace"])
        of_set = leader_worker_sets.LeaderWorkerSetSituation(
            owner, pods, found, caches.decoded, caches.classes, asks, existing, longest
        )
        return leader_worker_sets.steps(of_set), None

    def _report_problem(self, key: Key, situation: _Basis, problem: Problem | None) -> None:
        """Emits an event about a problem, once while it exists."""
        if problem is not None and self._problems.get(key) != problem:
            self.emit(situation, events.failed(problem.reason, problem.message))
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

    def about(self, situation: _Basis) -> tuple[Key, str]:
        """The object."""
        return key_of(situation.owner), meta.uid(situation.owner)

    async def refused(self, key: Key, situation: _Basis, write: Write, error: ApiError) -> None:
        """A Workload that exists is no error: the caches are behind."""
        if not isinstance(error, AlreadyExists):
            raise error

    def created(self, key: Key, situation: _Basis, create: Create, answer: Raw) -> None:
        """Emits events about a new Workload."""
        self.emit(situation, events.created_workload(key_of(answer)))
