"""Why a Job waits, where people look first: an event on the Job when it starts to wait, and when the reason changes.

Separate from the scheduler, which writes the status of those that it looked at: behind a workload that did not fit wait
others that are never looked at, and as in Kueue their status says nothing. All of it is for people and must not cost
admissions anything. So a Job that is admitted within a second gets no event, the numbers in a message alone are no
news, events go out one after the other and only while few others wait to be sent, and after a burst those that came
last are told first: somebody may be looking at them.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from api import names
from controller import events, resources
from controller.caches import Caches
from controller.events import Recorder
from controller.kube.resource import Resource
from core.jobs.kind import JobKind
from core.model import Key, Raw, Workload
from core.state.queue_status import why_waiting
from core.wire import decode

SETTLE_SECONDS = 1.0
"""A Job that is admitted within this is told nothing."""
AGAIN_SECONDS = 10.0
"""When a workload in a queue is looked at again of which nothing is known yet."""
EACH_SECONDS = 0.1
"""At most one Job in this time is told why it waits."""
REMIND_AFTER_SECONDS = 1800.0
"""Events are kept for an hour: who still waits after this is told again."""
EACH_REMINDER_SECONDS = 1.0
LOOKS_AT_ONCE = 100
"""So many workloads are looked at before others may run."""


class _Told(NamedTuple):
    """What a Job was told last, and when."""

    reason: str
    at: float


class WaitEvents:
    """``run`` for as long as we lead. ``room`` says whether few other events wait to be sent.

    ``clock`` is monotonic.
    """

    def __init__(
        self,
        caches: Caches,
        recorder: Recorder,
        kinds: Iterable[JobKind],
        *,
        room: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.caches = caches
        self.recorder = recorder
        self._resources = {(kind.kind, kind.api_version): resources.of_kind(kind) for kind in kinds}
        self._room = room
        self._clock = clock
        self._sleep = sleep
        self._later: OrderedDict[Key, float] = OrderedDict()
        """When to look at those that changed, soonest first."""
        self._again: OrderedDict[Key, float] = OrderedDict()
        """The same for those of which nothing was known."""
        self._news: dict[Key, None] = {}
        """Those to be looked at now, the last to come last."""
        self._told: OrderedDict[Key, _Told] = OrderedDict()
        """Those that were told, the longest ago first."""
        self._woken = asyncio.Event()

    def connect(self) -> None:
        """Listen to Workloads from now on."""
        self.caches.workloads.listen(self._changed)

    def everything(self) -> Iterator[None]:
        """Look at all there is, for we lead from now on; in slices, so that others may run."""
        for place, raw in enumerate(tuple(self.caches.workloads), start=1):
            self._changed(None, raw)
            if place % LOOKS_AT_ONCE == 0:
                yield

    async def run(self) -> None:
        """Tell people until cancelled."""
        looks = 0
        while True:
            pause = self.step()
            looks += 1
            if pause is None:
                await self._until_due()
            elif pause or looks % LOOKS_AT_ONCE == 0:
                await self._sleep(pause)

    def step(self) -> float | None:
        """Look at one workload, or at none while too many events wait to be sent; returns for how many seconds then to
        look at no other one, None where there is none to look at now.
        """
        now = self._clock()
        for due in (self._later, self._again):
            while due and next(iter(due.values())) <= now:
                self._news[due.popitem(last=False)[0]] = None
        reminded = next(iter(self._told), None)
        if reminded is not None and self._told[reminded].at + REMIND_AFTER_SECONDS > now:
            reminded = None
        if not self._news and reminded is None:
            return None
        if not self._room():
            return EACH_SECONDS
        if self._news:
            return EACH_SECONDS if self._tell(self._news.popitem()[0], now) else 0.0
        assert reminded is not None
        del self._told[reminded]
        return EACH_REMINDER_SECONDS if self._tell(reminded, now) else 0.0

    async def _until_due(self) -> None:
        """Wait for a change, or for the first that is due."""
        times = [at for due in (self._later, self._again) for at in islice(due.values(), 1)]
        times += [told.at + REMIND_AFTER_SECONDS for told in islice(self._told.values(), 1)]
        self._woken.clear()
        try:
            async with asyncio.timeout(max(0.0, min(times) - self._clock()) if times else None):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _changed(self, old: Raw | None, new: Raw | None) -> None:
        key = decode.key(new or old or {})
        if new is None or (new.get("status") or {}).get("admission"):
            for known in (self._later, self._again, self._news, self._told):
                known.pop(key, None)
            return
        if key not in self._later and key not in self._news:
            self._again.pop(key, None)
            self._later[key] = self._clock() + SETTLE_SECONDS
            self._woken.set()

    def _tell(self, key: Key, now: float) -> bool:
        """Tell the Job of a workload why it waits, unless that is known; whether there was something to tell."""
        workload, raw = self.caches.get(key), self.caches.workloads.get(key)
        if workload is None or raw is None or not _pending(workload):
            self._told.pop(key, None)
            return False
        state = self.caches.state
        reason, message = ("", "") if state.assumed(key) else why_waiting(state, workload)
        if not reason:
            if state.assumed(key) or state.pending.where(key) is not None:
                self._again[key] = now + AGAIN_SECONDS
            return False
        known = self._told.get(key)
        if known is not None and known.reason == reason:
            return False
        self._told[key] = _Told(reason, now)
        self._told.move_to_end(key)
        job = self._job(raw)
        if job is not None:
            resource, name, uid = job
            event = events.job_waits(state.pending.where(key) or "", reason, message)
            self.recorder.tell(resource, Key(key.namespace, name), uid, event)
        if workload.condition(names.Condition.QUOTA_RESERVED) is None:
            self.recorder.tell(resources.WORKLOADS, key, workload.uid, events.waits(reason, message))
        return True

    def _job(self, raw: Raw) -> tuple[Resource, str, str] | None:
        """The resource, name and uid of the job of ours that a Workload stands for."""
        for owner in raw["metadata"].get("ownerReferences") or ():
            resource = self._resources.get((owner.get("kind"), owner.get("apiVersion")))
            if owner.get("controller") and resource is not None:
                return resource, owner["name"], owner["uid"]
        return None


def _pending(workload: Workload) -> bool:
    """Whether a workload waits."""
    ended = workload.holds(names.Condition.FINISHED) or workload.holds(names.Condition.QUOTA_RESERVED)
    return not workload.deleting and not ended
