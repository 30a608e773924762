"""Gives the pods of admitted workloads their domains: the node selector of each, and the removal of its gate.

The pods that a start has marked are followed while a flavor has a topology, or a Workload has domains. Each pod is
patched once, on the version that was decided on. How many pods have a domain is known: the answers of writes are
entered at once, and a pod whose write may or may not have been made is read again before anything else is decided about
its workload.

A process that led before may have decided otherwise, and its last writes may still be on their way. So pods that waited
when this process began to lead are fenced first: one write changes the version on which that process has decided. Then
the API server refuses its late writes, and no domain gets more pods than it is assigned.

It runs in the leader only. Which pod gets which domain is decided in ``core.workload.ungating``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Final

import structlog

from api import resources
from api.names import Condition, Label
from api.objects import Key
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.errors import Forbidden, Invalid, NotFound
from controller.kube.reflector import Reflector
from controller.kube.store import Store
from controller.kube.workqueue import WorkQueue
from controller.metrics.counters import QueueingMetrics
from controller.reconcilers.departures import UNFINISHED
from core.jobs.kinds.pod import ended
from core.model import Raw, Workload
from core.workload import ungating
from core.workload.ungating import Given, PodOfWorkload

AT_ONCE: Final = 10
"""So many pods of a workload are patched at the same time."""
MOST_REFUSED: Final = 50
"""After so many pods whose patch the API server has refused, no other one of the workload is tried for a while."""
BATCH_SECONDS: Final = 0.1
"""The pods of a job are created one after the other: it is decided so long after the first of them."""
UNWRITTEN_SECONDS: Final = 1.0
"""After this time a workload is looked at again whose domains have changed, but not its object."""

log = structlog.get_logger(__name__)


class TopologyUngater:
    """``run`` it while this process leads. Keys are those of Workloads, of elastic jobs with the name that all slices
    share.
    """

    workers = 5

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        client: Client,
        metrics: QueueingMetrics,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.metrics = metrics
        self.clock = clock
        self._client = client
        self.queue = WorkQueue[Key]("topology-ungater", longest_seconds=30.0)
        self.pods: Store[PodOfWorkload] = Store(
            "pods-of-workloads", ungating.read, {"workload": _workload_of}, selects=lambda raw: not ended(raw)
        )
        self._slices: dict[Key, dict[Key, None]] = {}
        """The Workloads with domains, by the name that their pods have."""
        self._unsure: dict[Key, dict[Key, str]] = {}
        """The pods of each workload of which it is not known whether they were patched, with their uids."""
        self._unfenced: dict[str, str] = {}
        """The versions of the pods, by uid, on which a process that led before may have decided."""

    async def run_for_placed(self) -> None:
        """Runs from when a Workload is known that has domains: while nothing is placed by topology any more (feature
        gate TopologyAwareScheduling), pods of jobs that were placed before still wait for theirs.
        """
        wanted = asyncio.Event()

        def see(_: Workload | None, new: Workload | None) -> None:
            if new is not None and ungating.places(new):
                wanted.set()

        try:
            for _ in self.caches.observe(see):
                await asyncio.sleep(0)
            await wanted.wait()
        finally:
            self.caches.leave(see)
        log.info("jobs were placed by topology before it was switched off: their pods get their domains")
        await self.run()

    async def run(self) -> None:
        """Follows the pods and reconciles until cancelled; once. Nothing is decided before all pods are known: domains
        would seem to have room that they have not.
        """
        reflector = Reflector(
            self._client, resources.PODS, self.pods, label_selector=Label.POD_SET, field_selector=UNFINISHED
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(reflector.run(), name="reflector-pods-of-workloads")
                await reflector.synced.wait()
                for _ in self.everything():
                    await asyncio.sleep(0)
                await self.queue.run(self.workers, self.reconcile)
        finally:
            self.caches.leave(self._workload)

    def everything(self) -> Iterator[None]:
        """Listens to changes, and queues all workloads that have pods, in steps."""
        self._unfenced = {each.pod.uid: each.version for each in self.pods if each.pod.waits and each.workload}
        yield from self.caches.observe(self._workload)
        yield from self.pods.catch_up(self._pod)

    async def reconcile(self, key: Key) -> float | None:
        """Gives the pods of a workload their domains. Returns when to look again, in seconds."""
        await self._make_sure(key)
        workload = self._admitted(key)
        raw = self.caches.workloads.get(workload.key) if workload is not None else None
        if workload is None or raw is None:
            return None
        if self.caches.state.assumed(workload.key) or self.caches.state.is_evicting(workload.key):
            return UNWRITTEN_SECONDS
        pods = tuple(self.pods.by_index("workload", key))
        chosen = list(ungating.given(workload, raw["spec"], pods))
        if not chosen:
            return None
        if unfenced := [each for each in pods if self._unfenced.get(each.pod.uid) == each.version]:
            await self._all(self._fence(key, each) for each in unfenced)
            return await self.reconcile(key)
        await self._all(self._give(workload, each) for each in chosen)
        log.info("pods have domains", workload=str(workload.key), pods=len(chosen))
        return None

    async def _all(self, writes: Iterable[Coroutine[None, None, None]]) -> None:
        """Makes these writes, some at the same time. Raises after all of them: no write is in flight when the workload
        is decided again. Pods whose write is refused delay no other ones, up to a number.
        """
        refused: list[BaseException] = []
        waiting = list(writes)
        try:
            while waiting and len(refused) < MOST_REFUSED:
                some, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
                for error in filter(None, await asyncio.gather(*some, return_exceptions=True)):
                    if not isinstance(error, Forbidden | Invalid):
                        raise error
                    refused.append(error)
        finally:
            for each in waiting:
                each.close()
        if refused:
            raise refused[0]

    def _admitted(self, key: Key) -> Workload | None:
        """The Workload whose domains the pods get: of several slices the newest that is admitted."""
        found = (self.caches.get(each) for each in self._slices.get(key, ()))
        admitted = [each for each in found if each is not None and ungating.places(each)]
        return max(admitted, key=lambda each: (each.created, each.key.name), default=None)

    async def _give(self, workload: Workload, given: Given) -> None:
        """Gives one pod its domain."""
        if await self._write(ungating.of_pods(workload), given.pod, given.body):
            self._count(workload, given)

    async def _fence(self, key: Key, pod: PodOfWorkload) -> None:
        """Changes the version of a pod on which another process may have decided. A write refused here is refused
        to that process, too.
        """
        with contextlib.suppress(Forbidden, Invalid):
            await self._write(key, pod, ungating.fence(pod))
        self._unfenced.pop(pod.pod.uid, None)

    async def _write(self, key: Key, pod: PodOfWorkload, body: Raw) -> bool:
        """Patches one pod; returns False if it is gone. After an error that leaves open whether it was patched, or has
        changed, it is unsure.
        """
        self._unsure.setdefault(key, {})[pod.key] = pod.pod.uid
        try:
            async with self.writer.turn(pod.namespace, first=True):
                answer = await self.writer.patch(resources.PODS, pod.key, body)
            self.pods.put_from_write(answer)
        except NotFound:
            self.pods.remove_from_write(pod.key, pod.pod.uid)
            self._sure(key, pod.key)
            return False
        except (Forbidden, Invalid):
            self._sure(key, pod.key)
            raise
        self._sure(key, pod.key)
        return True

    def _count(self, workload: Workload, given: Given) -> None:
        admitted = workload.condition(Condition.ADMITTED)
        if workload.admission is not None and admitted is not None:
            seconds = self.clock() - admitted.since
            queue, group = workload.admission.cluster_queue, given.pod.of_group
            self.metrics.gate_removed(queue, seconds, is_group=group, gate=ungating.GATE)

    async def _make_sure(self, key: Key) -> None:
        """Reads the pods again of which it is not known whether they were patched."""
        for pod, uid in tuple(self._unsure.get(key, {}).items()):
            found = await self.writer.all_of(
                resources.PODS, pod.namespace, labels=Label.POD_SET, fields=f"metadata.name={pod.name}"
            )
            for raw in found:
                self.pods.put_from_write(raw)
            if not any(raw["metadata"]["uid"] == uid and not ended(raw) for raw in found):
                self.pods.remove_from_write(pod, uid)
            self._sure(key, pod)

    def _sure(self, key: Key, pod: Key) -> None:
        unsure = self._unsure.get(key, {})
        unsure.pop(pod, None)
        if not unsure:
            self._unsure.pop(key, None)

    def _workload(self, old: Workload | None, new: Workload | None) -> None:
        """A Workload changed: queues it if its pods get domains."""
        for value in (old, new):
            if value is None:
                continue
            key = ungating.of_pods(value)
            if value is new and ungating.places(value):
                self._slices.setdefault(key, {})[value.key] = None
                self.queue.add(key, first=True)
            elif key in self._slices:
                self._slices[key].pop(value.key, None)
                if not self._slices[key]:
                    del self._slices[key]

    def _pod(self, old: PodOfWorkload | None, new: PodOfWorkload | None) -> None:
        """A pod changed: queues its workload unless nothing changed that decides."""
        either = new or old
        if old is not None and (new is None or new.version != old.version):
            self._unfenced.pop(old.pod.uid, None)
        same = old is not None and new is not None and (old.pod, old.workload) == (new.pod, new.workload)
        for key in _workload_of(either) if either is not None and not same else ():
            if key in self._slices:
                self.queue.add_after(key, BATCH_SECONDS, first=True)


def _workload_of(pod: PodOfWorkload) -> tuple[Key, ...]:
    """The workload of a pod, as the queue has it; none for a pod that waits for its admission."""
    return (Key(pod.namespace, pod.workload),) if pod.workload else ()
