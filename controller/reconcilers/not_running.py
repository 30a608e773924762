"""Emits an event on a job that was admitted and whose pods are not ready after a minute: why they do not run.

The sentence is that of ``seiretsu explain`` (``seiretsu.running``). Nothing is read while jobs start as they should: a
job is looked at only when the condition ``PodsReady`` of its Workload has been False for ``FIRST_SECONDS``, so only
with ``waitForPodsReady``, which is on by default. A look is one list of the job's pods by label, at most ``MOST_PODS``,
and one of events if pods are missing. It is repeated after waits that double; there are at most ``1 / EACH_SECONDS``
looks a second, and namespaces take turns.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from api import resources
from api.names import Condition
from api.objects import Resource, key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.kube.errors import ApiError
from controller.kube.log import get_logger
from controller.kube.turns import Turns
from core.jobs.kind import JobKind
from core.jobs.kinds import BATCH_JOB
from core.model import Key, Raw, events
from seiretsu import running

FIRST_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 1800.0
EACH_SECONDS: Final = 0.5
MOST_PODS: Final = 100
MOST_EVENTS: Final = 100
LOOKS_AT_ONCE: Final = 100

log = get_logger(__name__)


@dataclass(slots=True)
class _Look:
    """When to look at a Workload next, after which wait, and what was said last."""

    at: float
    wait: float = FIRST_SECONDS
    reported: str = ""


class NotRunning:
    """``run`` while this process leads. ``clock`` is monotonic, ``now`` in seconds since the epoch."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        kinds: Iterable[JobKind],
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.recorder = recorder
        self._kinds = {(kind.kind, kind.api_version): kind for kind in kinds}
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._looks: dict[Key, _Look] = {}
        """The Workloads that are not ready."""
        self._later: list[tuple[float, Key]] = []
        """A heap; entries that differ from ``_looks`` are outdated."""
        self._due: Turns[Key] = Turns()
        self._woken = asyncio.Event()

    def connect(self) -> None:
        """Listen to Workloads from now on."""
        self.caches.workloads.listen(self._changed)

    def everything(self) -> Iterator[None]:
        """Notes all Workloads, because this process leads from now on; yields, so that other tasks can run."""
        for place, raw in enumerate(tuple(self.caches.workloads), start=1):
            self._changed(None, raw)
            if place % LOOKS_AT_ONCE == 0:
                yield

    async def run(self) -> None:
        """Emits events until cancelled."""
        while True:
            self._woken.clear()
            if await self.step():
                await self._sleep(EACH_SECONDS)
            elif not self._due:
                await self._until_due()

    async def step(self) -> bool:
        """Looks at one job that is due; returns whether there was one."""
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            at, key = heapq.heappop(self._later)
            if key in self._looks and self._looks[key].at == at:
                self._due.add(key)
        if not self._due:
            return False
        key = next(iter(self._due))
        self._due.pass_turn()
        self._due.discard(key)
        look = self._looks.get(key)
        raw = self.caches.workloads.get(key)
        if look is None or raw is None:
            return False
        try:
            await self._look(key, raw, look)
        except ApiError as error:  # missing rights are reported by the writer; all else is tried again
            log.warning("pods of a job that is not ready cannot be read", workload=str(key), error=str(error))
        if self._looks.get(key) is look:
            look.wait = min(look.wait * 2, LONGEST_SECONDS)
            self._put(key, look)
        return True

    async def _until_due(self) -> None:
        pause = max(0.0, self._later[0][0] - self._clock()) if self._later else None
        try:
            async with asyncio.timeout(pause):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _changed(self, old: Raw | None, new: Raw | None) -> None:
        key = key_of(new or old or {})
        if new is None or not not_ready(new):
            self._looks.pop(key, None)
            self._due.discard(key)
        elif key not in self._looks:
            self._put(key, _Look(0.0))
            self._woken.set()

    def _put(self, key: Key, look: _Look) -> None:
        look.at = self._clock() + look.wait
        self._looks[key] = look
        heapq.heappush(self._later, (look.at, key))

    async def _look(self, key: Key, raw: Raw, look: _Look) -> None:
        """Reads the pods of a job, and emits an event if they say something else than before."""
        selector = running.pods_of(raw)
        if selector is None:
            return
        pods, more = await self.writer.first_of(
            resources.PODS, key.namespace, labels=selector.labels, fields=selector.fields, limit=MOST_PODS
        )
        resource, job = self._job(key, raw)
        found = running.running(raw, job, pods, (), self._now(), all_pods=not more)
        made = sum((pod.get("status") or {}).get("phase") != "Failed" for pod in pods)
        if found.wanted > made and not more:
            failures, _ = await self.writer.first_of(
                resources.EVENTS, key.namespace, labels="", fields="type=Warning,reason=FailedCreate", limit=MOST_EVENTS
            )
            found = running.running(raw, job, pods, self._of_job(key, job, failures), self._now())
        if not found.why or found.why == look.reported or self._looks.get(key) is not look:
            return
        look.reported = found.why
        event = events.not_running(found.running, found.wanted, found.why)
        if job is not None and resource is not None:
            self.recorder.record(resource, key_of(job), job["metadata"]["uid"], event)
        self.recorder.record(resources.WORKLOADS, key, raw["metadata"]["uid"], event)

    def _job(self, key: Key, raw: Raw) -> tuple[Resource | None, Raw | None]:
        """The job that controls a Workload, as it is in its store."""
        for owner in raw["metadata"].get("ownerReferences") or ():
            kind = self._kinds.get((owner.get("kind"), owner.get("apiVersion")))
            if owner.get("controller") and kind is not None:
                store = self.caches.stores.get(kind.resource)
                job = store.get(Key(key.namespace, owner["name"])) if store is not None else None
                found = {"apiVersion": kind.api_version, "kind": kind.kind, **job} if job is not None else None
                return kind.resource, found
        return None, None

    def _of_job(self, key: Key, job: Raw | None, failures: Iterable[Raw]) -> Iterator[Raw]:
        """Yields events; those about a Job that belongs to the job (of a JobSet) as if they were about it."""
        store = self.caches.stores.get(BATCH_JOB.resource)
        for event in failures:
            about = event.get("involvedObject") or {}
            if store is not None and job is not None and about.get("kind") == BATCH_JOB.kind:
                part = store.get(Key(key.namespace, str(about.get("name"))))
                owners = ((part or {}).get("metadata") or {}).get("ownerReferences") or ()
                if any(each.get("uid") == job["metadata"]["uid"] for each in owners):
                    about = {**about, "uid": job["metadata"]["uid"]}
            yield {**event, "involvedObject": about}


def not_ready(raw: Raw) -> bool:
    """Whether pods of an admitted Workload are expected and not all of them are ready."""
    conditions = (raw.get("status") or {}).get("conditions") or ()
    ready = next((each for each in conditions if each.get("type") == Condition.PODS_READY), None)
    return ready is not None and ready.get("status") == "False" and running.admitted(raw)
