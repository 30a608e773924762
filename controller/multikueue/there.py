"""Writes about a Workload and its job in one worker, as ``core.multikueue.there`` decides."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final, NamedTuple

from api import resources
from api.objects import Key, Raw, key_of
from controller.cache.events import Recorder
from controller.cache.reconciler import Reconciler
from controller.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from controller.metrics.counters import QueueingMetrics
from controller.multikueue.groups import Groups
from controller.multikueue.orphans import Orphans
from controller.multikueue.remote import CHANGED_SECONDS, Remote
from core.actions import Action, Create, Wait, Write, Writes
from core.jobs import meta
from core.multikueue import mirror, there
from core.multikueue.group import Group, Worker

TAKE_OVER_SECONDS: Final = 5.0
"""After how long it is looked again whether a slice has taken over the job of one that was deleted."""
REFUSALS: Final = (AlreadyExists, Forbidden, Invalid, NotFound)
"""The answers of a worker that does not take an object."""


class MirroredWorkload(NamedTuple):
    """A Workload, and what one worker has of it."""

    group: Group
    worker: Worker


class WorkerReconciler(Reconciler[MirroredWorkload]):
    """Reconciles Workloads in one worker, where writes wait for no turn."""

    def __init__(
        self,
        remote: Remote,
        groups: Groups,
        orphans: Orphans,
        recorder: Recorder,
        metrics: QueueingMetrics,
        *,
        requeue: Callable[[Key], None],
        clock: Callable[[], float],
    ) -> None:
        """``requeue`` queues a Workload in this cluster."""
        super().__init__(remote.name, resources.WORKLOADS, remote.writer, recorder, queue=remote.queue, clock=clock)
        self._remote = remote
        self._groups = groups
        self._orphans = orphans
        self._metrics = metrics
        self._requeue = requeue

    def gather(self, key: Key) -> MirroredWorkload | None:
        """What is known of a Workload that is here, or was."""
        group = self._groups.group(key)
        if group.raw is None and not self._orphans.has(self._remote.name, key):
            return None
        return MirroredWorkload(group, self._groups.with_former(key, group, self._remote))

    def decide(self, situation: MirroredWorkload) -> Action:
        """The next write in the worker."""
        group, worker = situation
        if group.raw is None and any(self._groups.taken_over(job, self._remote.name) for job in worker.jobs):
            return Wait(TAKE_OVER_SECONDS)
        action = there.decide(group, worker)
        if isinstance(action, Create):
            wait = self._remote.again.get(key_of(action.manifest), 0.0) - self.clock()
            return Wait(wait) if wait > 0 else action
        return action

    def turn(self, key: Key, *, first: bool) -> contextlib.AbstractAsyncContextManager[None]:
        """No turn: admission calls have precedence over writes in this cluster only."""
        return contextlib.nullcontext()

    def is_current(self, key: Key, situation: MirroredWorkload, action: Write | Writes) -> bool:
        """Nothing was awaited since it was decided."""
        return True

    def about(self, situation: MirroredWorkload) -> tuple[Key, str]:
        """The copy of the Workload; before there is one, the Workload."""
        copied = situation.worker.workload or situation.group.raw
        assert copied is not None
        return key_of(copied), meta.uid(copied)

    async def idle(self, key: Key, situation: MirroredWorkload, wait: Wait) -> float | None:
        """Forgets a Workload that was deleted here, if the worker has nothing of it."""
        group, worker = situation
        if wait == Wait() and group.raw is None and worker.connected and worker.workload is None and not worker.jobs:
            self._orphans.removed(self._remote.name, key)
        return wait.seconds

    async def refused(self, key: Key, situation: MirroredWorkload, write: Write, error: ApiError) -> None:
        """Reports here that the worker does not take a Workload or its job, and tries again with backoff."""
        if isinstance(write, Create) and isinstance(error, REFUSALS):
            if write.resource != resources.WORKLOADS:
                since = self._remote.refused_jobs.get(key, ("", self.clock()))[1]
                self._remote.refused_jobs[key] = _why(error), since
                self._requeue(key)
            elif self._remote.refuses(key, _why(error), kind=f"{error.status} {error.reason}"):
                self._requeue(key)
        raise error

    def created(self, key: Key, situation: MirroredWorkload, create: Create, answer: Raw) -> None:
        """If the worker stores another spec of a Workload, the copy is withdrawn, and offered again later."""
        if create.resource != resources.WORKLOADS:
            return
        changed = sorted(mirror.differing(create.manifest["spec"], answer["spec"]) - there.IN_PLACE)
        if not changed:
            self._remote.forget(key)
        else:
            self._remote.again[key] = self.clock() + CHANGED_SECONDS
            why = f"worker changed {', '.join(f'spec.{field}' for field in changed)}"
            if self._remote.refuses(key, why, kind=why):
                self._requeue(key)
        local = situation.group.local
        if local is not None and local.admission is not None:
            self._metrics.dispatched_to_worker(local.admission.cluster_queue, self._remote.name)

    async def written(self, key: Key, situation: MirroredWorkload, action: Write | Writes) -> None:
        """Forgets why the job was refused when it was created or withdrawn."""
        if isinstance(action, Writes):
            self._remote.refused_jobs.pop(key, None)


def _why(error: ApiError) -> str:
    return "exists without our origin label" if isinstance(error, AlreadyExists) else error.message
