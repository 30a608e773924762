"""Gives the pods of admitted workloads their domains: the node selector of each, and the removal of its gate.

The pods that a start has marked are followed from the moment that a flavor has a topology. Each pod is patched once, on
the version that was decided on. How many pods have a domain is known: the answers of writes are entered at once, and a
pod whose write may or may not have been made is read again before anything else is decided about its workload.

It runs in the leader only. Which pod gets which domain is decided in ``core.workload.ungating``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
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
from core.model import Workload
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

    async def run(self, wanted: asyncio.Event) -> None:
        """From when it is wanted, follows the pods and reconciles until cancelled. Nothing is decided before all pods
        are known: domains would seem to have room that they have not.
        """
        await wanted.wait()
        reflector = Reflector(
            self._client, resources.PODS, self.pods, label_selector=Label.POD_SET, field_selector=UNFINISHED
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run(), name="reflector-pods-of-workloads")
            await reflector.synced.wait()
            for _ in self.everything():
                await asyncio.sleep(0)
            await self.queue.run(self.workers, self.reconcile)

    def everything(self) -> Iterator[None]:
        """Listens to changes, and queues all workloads that have pods, in steps."""
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
        chosen = list(ungating.given(workload, raw["spec"], self.pods.by_index("workload", key)))
        refused: list[BaseException] = []
        for place in range(0, len(chosen), AT_ONCE):
            some = chosen[place : place + AT_ONCE]
            results = await asyncio.gather(*(self._give(workload, each) for each in some), return_exceptions=True)
            for error in filter(None, results):
                if not isinstance(error, Forbidden | Invalid):
                    raise error  # after all of them: no write is in flight when the workload is decided again
                refused.append(error)  # other pods need not wait for it
            if len(refused) >= MOST_REFUSED:
                break
        if refused:
            raise refused[0]
        if chosen:
            log.info("pods have domains", workload=str(workload.key), pods=len(chosen))
        return None

    def _admitted(self, key: Key) -> Workload | None:
        """The Workload whose domains the pods get: of several slices the newest that is admitted."""
        found = (self.caches.get(each) for each in self._slices.get(key, ()))
        admitted = [each for each in found if each is not None and ungating.places(each)]
        return max(admitted, key=lambda each: (each.created, each.key.name), default=None)

    async def _give(self, workload: Workload, given: Given) -> None:
        """Patches one pod. After an error that leaves open whether it was patched, or has changed, it is unsure."""
        key, pod = ungating.of_pods(workload), given.pod.key
        self._unsure.setdefault(key, {})[pod] = given.pod.pod.uid
        try:
            async with self.writer.turn(pod.namespace, first=True):
                answer = await self.writer.patch(resources.PODS, pod, given.body)
            self.pods.put_from_write(answer)
        except NotFound:
            self.pods.remove_from_write(pod, given.pod.pod.uid)
        except (Forbidden, Invalid):
            self._sure(key, pod)
            raise
        else:
            self._count(workload, given)
        self._sure(key, pod)

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
        same = old is not None and new is not None and (old.pod, old.workload) == (new.pod, new.workload)
        for key in _workload_of(either) if either is not None and not same else ():
            if key in self._slices:
                self.queue.add_after(key, BATCH_SECONDS, first=True)


def _workload_of(pod: PodOfWorkload) -> tuple[Key, ...]:
    """The workload of a pod, as the queue has it; none for a pod that waits for its admission."""
    return (Key(pod.namespace, pod.workload),) if pod.workload else ()
