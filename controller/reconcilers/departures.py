"""Keeps the quota of Workloads whose job was deleted until the job's pods are gone.

``kubectl delete job --cascade=orphan`` leaves the pods running; after any other deletion they need time to terminate.
Nothing is requested for jobs that run or have ended: the pods of one job are listed by label when the job is deleted,
and again after waits that double. Everything that must survive a restart is in the Workload
(its finalizer, its reservation); a new process lists the pods again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, field

import structlog

from api import names, resources
from api.objects import key_of
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import Conflict, Forbidden, Invalid, NotFound, Unauthorized
from core.jobs import meta, owners
from core.jobs.actions import AwaitPods, RemoveFinalizer, UpdateWorkloadStatus
from core.jobs.decide import orphan
from core.jobs.imported import has_imported_quota, naming
from core.jobs.kinds import POD
from core.jobs.release import remain, uid_of
from core.model import Key, Raw, Workload
from core.wire.conditions import status_patch
from core.workload import transitions
from core.workload.actions import LifePolicy

log = structlog.get_logger(__name__)

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 15.0
TOLD_AFTER_SECONDS = 5.0
"""Pods that are deleted with their job are mostly gone by then, and no write is made about them."""
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
MOST_PODS = 100
"""So many pods of a job are read at most: one is enough to hold its quota."""
FORGOTTEN_AFTER_SECONDS = 300.0


@dataclass(slots=True)
class _Departure:
    since: float
    last: float
    looks: int = 0


@dataclass(slots=True)
class Departures:
    """Lists the pods of deleted jobs. ``gone`` are the uids of jobs of which no pod is left; ``policy`` is what becomes
    of their Workloads.
    """

    caches: Caches
    writer: Writer
    clock: Callable[[], float] = time.time
    policy: LifePolicy = field(default_factory=LifePolicy)
    _gone: set[str] = field(default_factory=set)
    _waiting: dict[str, _Departure] = field(default_factory=dict)

    @property
    def gone(self) -> Container[str]:
        """For ``core.jobs.decide``."""
        return self._gone

    async def release(self, raw: Raw) -> float | None:
        """Reconciles a Workload whose job is gone. Returns when to check again, in seconds."""
        value = self.caches.get(key_of(raw))
        if value is None or await self._named(raw, value):
            return None
        action = orphan(raw, value, self.clock(), self._gone, self.policy)
        if isinstance(action, AwaitPods):
            wait = await self.look(action)
            if wait:
                return wait
            action = orphan(raw, value, self.clock(), self._gone, self.policy)
            self.forget(uid_of(raw))
        ends = isinstance(action, UpdateWorkloadStatus)
        if isinstance(action, UpdateWorkloadStatus | RemoveFinalizer):
            body, subresource = (
                (action.body, "status") if isinstance(action, UpdateWorkloadStatus) else (action.patch, "")
            )
            with contextlib.suppress(NotFound):  # it is deleted, as intended; the watch will report it
                async with self.writer.turn(value.key.namespace, first=ends):
                    await self.writer.patch(resources.WORKLOADS, value.key, body, subresource=subresource)
        return None

    async def _named(self, raw: Raw, value: Workload) -> bool:
        """Whether a Workload is that of a pod that exists: an import has given it quota, and has not given the pod the
        labels by which pods are watched. They are written now.
        """
        pod = meta.controller(raw)
        if pod is None or owners.kind_above(raw) is not POD or not has_imported_quota(value):
            return False
        key, labels = Key(value.key.namespace, pod["name"]), naming(POD, pod["uid"], value.queue)
        try:
            async with self.writer.turn(key.namespace, first=True):
                await self.writer.patch(POD.resource, key, labels)
        except (NotFound, Conflict):
            return False
        except Invalid:  # another uid, or a policy
            if await self._exists(key, pod["uid"]):
                raise
            return False
        return True

    async def _exists(self, key: Key, uid: str) -> bool:
        """Whether there is this pod, and not another one with its name."""
        try:
            return meta.uid(await self.writer.client.get(POD.resource, key.name, key.namespace)) == uid
        except NotFound:
            return False

    async def look(self, action: AwaitPods) -> float:
        """Ask for the pods of a job. Returns after how many seconds to decide again; 0 where no pod is left.

        If listing pods is denied, the quota stays held, and nothing else that is done in the same step fails for it.
        """
        waiting = self._asked(action.uid)
        try:
            pods, more = await self._pods(action)
        except (Unauthorized, Forbidden):  # the writer has logged it and reports it as a missing right
            pods, more = [], True
        if not pods and not more:
            self._gone.add(action.uid)
            self._waiting.pop(action.uid, None)
            return 0.0
        if pods and self.clock() - waiting.since >= TOLD_AFTER_SECONDS:
            await self._write_condition(action, pods, more=more)
        return float(min(FIRST_WAIT_SECONDS * 2 ** min(waiting.looks - 1, 10), LONGEST_WAIT_SECONDS))

    def forget(self, uid: str) -> None:
        """The Workload of that job has released its quota: its pods are no longer listed."""
        self._gone.discard(uid)
        self._waiting.pop(uid, None)

    async def _pods(self, action: AwaitPods) -> tuple[list[Raw], bool]:
        selector = f"{action.label}={action.uid}"
        return await self.writer.first_of(
            resources.PODS, action.workload.namespace, labels=selector, fields=UNFINISHED, limit=MOST_PODS
        )

    def _asked(self, uid: str) -> _Departure:
        """Returns the state of a job whose pods are listed. Jobs that were not checked for a long time are removed:
        their Workload was deleted by another client.
        """
        now = self.clock()
        waiting = self._waiting.pop(uid, None) or _Departure(since=now, last=now)
        waiting.last = now
        waiting.looks += 1
        self._waiting[uid] = waiting  # the one that was asked about last is the last in order
        while now - self._waiting[oldest := next(iter(self._waiting))].last > FORGOTTEN_AFTER_SECONDS:
            del self._waiting[oldest]
        return waiting

    async def _write_condition(self, action: AwaitPods, pods: list[Raw], *, more: bool) -> None:
        workload = self.caches.get(action.workload)
        if workload is None:
            return
        kind, reason = names.Condition.PODS_REMAIN, names.PodsRemainReason.JOB_DELETED
        text = remain(action, [pod["metadata"]["name"] for pod in pods], more=more)
        old = workload.condition(kind)
        if old is not None and old.status:
            return  # the numbers change with every pod that ends, and are not worth a write
        after = transitions.condition(workload, kind, status=True, reason=reason, message=text, now=self.clock())
        patch = status_patch(workload, after)
        if patch is not None:
            log.info("job deleted, its pods still run", workload=str(action.workload), pods=len(pods))
            with contextlib.suppress(NotFound):
                await self.writer.patch(resources.WORKLOADS, action.workload, patch, subresource="status")
