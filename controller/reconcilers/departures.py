"""Keeps the quota of Workloads whose job was deleted until the job's pods are gone.

``kubectl delete job --cascade=orphan`` leaves the pods running; after any other deletion they need time to terminate.
Nothing is requested for jobs that run or have ended: the pods of one job are listed by label when the job is deleted,
and again after waits that double. Everything that must survive a restart is in the Workload
(its finalizer, its reservation); a new process lists the pods again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from api import resources
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.reconciler import Reconciler
from controller.cache.writes import Writer
from controller.kube.errors import Conflict, Forbidden, Invalid, NotFound, Unauthorized
from core.actions import Action, Wait, Write, Writes
from core.jobs import meta, owners
from core.jobs.actions import AwaitPods, UpdateWorkloadStatus
from core.jobs.decide import orphan
from core.jobs.imported import has_imported_quota, naming
from core.jobs.kinds import POD
from core.jobs.release import PodsLeft, pods_left
from core.model import Key, Raw, Workload
from core.workload.actions import LifePolicy

log = structlog.get_logger(__name__)

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 15.0
REPORTED_AFTER_SECONDS = 5.0
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


class Departed(NamedTuple):
    """A Workload, whether its job is gone, and which pods of the job were found when they were listed just now."""

    raw: Raw
    workload: Workload
    orphan: bool
    left: PodsLeft | None


class Departures(Reconciler[Departed]):
    """Reconciles Workloads whose job was deleted, for the reconcilers that find them. ``is_orphan`` is whether the job
    of a Workload is gone, ``policy`` is what becomes of it. ``gone`` are the uids of jobs of which no pod is left.
    """

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        is_orphan: Callable[[Raw], bool],
        policy: LifePolicy,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("departures", resources.WORKLOADS, writer, recorder, clock=clock)
        self.caches = caches
        self.policy = policy
        self._is_orphan = is_orphan
        self._gone: set[str] = set()
        self._waiting: dict[str, _Departure] = {}
        self._left: dict[Key, PodsLeft] = {}

    @property
    def gone(self) -> Container[str]:
        """For ``core.jobs.decide``."""
        return self._gone

    def gather(self, key: Key) -> Departed | None:
        """What is known of a Workload."""
        raw, workload = self.caches.workloads.get(key), self.caches.get(key)
        if raw is None or workload is None:
            return None
        return Departed(raw, workload, self._is_orphan(raw), self._left.get(key))

    def decide(self, situation: Departed) -> Action:
        """Reports the pods that are left; else what becomes of a Workload whose job is gone."""
        raw, workload, is_orphan, left = situation
        report = pods_left(raw, workload, left, self._gone, self.clock()) if left is not None else None
        if report is None and is_orphan:
            return orphan(raw, workload, self.clock(), self._gone, self.policy)
        return report or Wait()

    def about(self, situation: Departed) -> tuple[Key, str]:
        """The Workload: its job is gone."""
        return situation.workload.key, situation.workload.uid

    def goes_first(self, situation: Departed, action: Action) -> bool:
        """The write that releases quota comes before others."""
        return isinstance(action, UpdateWorkloadStatus) and action.why == "finish"

    async def written(self, key: Key, situation: Departed, action: Write | Writes) -> None:
        """Logs what happened."""
        if isinstance(action, UpdateWorkloadStatus):
            log.info("workload status", workload=str(key), why=action.why)

    async def reconcile(self, key: Key) -> float | None:
        """Takes the next step of a Workload whose job is gone; lists the pods of the job first, if it has quota."""
        situation = self.gather(key)
        if situation is None or not situation.orphan or await self._named(situation.raw, situation.workload):
            return None
        action = self.decide(situation)
        if not isinstance(action, AwaitPods):
            return await self.act(key, situation, action)
        wait = await self.await_pods(action)
        if wait:
            return wait
        try:
            return await super().reconcile(key)
        finally:
            self.forget(action.uid)

    async def idle(self, key: Key, situation: Departed, wait: Wait) -> float | None:
        """Pods are listed once in a step."""
        return FIRST_WAIT_SECONDS if isinstance(wait, AwaitPods) else wait.seconds

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

    async def await_pods(self, action: AwaitPods) -> float:
        """Lists the pods of a job. Returns after how many seconds to decide again; 0 where no pod is left.

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
        if pods and self.clock() - waiting.since >= REPORTED_AFTER_SECONDS:
            await self._report(action.workload, PodsLeft([pod["metadata"]["name"] for pod in pods], more))
        return float(min(FIRST_WAIT_SECONDS * 2 ** min(waiting.looks - 1, 10), LONGEST_WAIT_SECONDS))

    async def _report(self, key: Key, left: PodsLeft) -> None:
        """Writes the condition about pods that are left, unless it is there, or the Workload is released meanwhile."""
        self._left[key] = left
        try:
            await super().reconcile(key)
        finally:
            self._left.pop(key, None)

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
