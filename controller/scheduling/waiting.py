"""Emits an event on a Job when it starts to wait for quota or admission checks, and when the reason changes.

Separate from the scheduler, which writes the status of workloads that it decided: behind a workload that did not fit
there are others that are never decided, and as in Kueue their status has no reason. These events are for people and
must not slow down admissions. So a Job that is admitted within a second gets no event, a change of numbers in a message
causes no new event, events are sent one after the other and only while few others of the namespace wait to be sent.
Namespaces take turns, and after a burst the newest Jobs come first, because a user may be watching them.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice

from api import names, resources
from api.objects import Resource, key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.kube.turns import Turns
from core.explain.sight import of_namespace
from core.jobs.kind import JobKind
from core.model import Key, Raw, Workload, events
from core.quota.checks import awaited
from core.state.queue_status import why_waiting

SETTLE_SECONDS = 1.0
"""A Job that is admitted within this time gets no event."""
AGAIN_SECONDS = 10.0
"""When to check a queued workload again whose reason is not known yet."""
EACH_SECONDS = 0.1
"""At most one Job in this time gets an event."""
REMIND_AFTER_SECONDS = 1800.0
"""Events are kept for an hour: a Job that still waits after this time gets another one."""
EACH_REMINDER_SECONDS = 1.0
LOOKS_AT_ONCE = 100
"""The number of workloads that are checked before other tasks can run."""
DUE_AT_ONCE = 1_000
"""The number of workloads whose time has come that are noted before one is checked: it takes a millisecond."""


class WaitEvents:
    """``run`` while this process leads. ``room`` returns whether few other events of a namespace wait to be sent.

    ``clock`` is monotonic.
    """

    def __init__(
        self,
        caches: Caches,
        recorder: Recorder,
        kinds: Iterable[JobKind],
        *,
        room: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.caches = caches
        self.recorder = recorder
        self._resources = {(kind.kind, kind.api_version): kind.resource for kind in kinds}
        self._room = room
        self._clock = clock
        self._sleep = sleep
        self._later: OrderedDict[Key, float] = OrderedDict()
        """When to check workloads that changed, soonest first."""
        self._again: OrderedDict[Key, float] = OrderedDict()
        """The same for workloads whose reason was not known."""
        self._news: Turns[Key] = Turns(newest_first=True)
        """Workloads to check now."""
        self._recorded: dict[Key, str] = {}
        """Workloads with an event, and its reason, or its message where they wait for admission checks."""
        self._remind_at: OrderedDict[Key, float] = OrderedDict()
        """When to repeat these events, soonest first."""
        self._reminders: Turns[Key] = Turns()
        """Workloads whose event is to be repeated now."""
        self._woken = asyncio.Event()

    def connect(self) -> None:
        """Listen to Workloads from now on."""
        self.caches.workloads.listen(self._changed)

    def everything(self) -> Iterator[None]:
        """Checks all workloads, because this process leads from now on; yields, so that other tasks can run."""
        for place, key in enumerate(self.caches.workloads.keys(), start=1):
            raw = self.caches.workloads.get(key)
            if raw is not None:
                self._changed(None, raw)
            if place % LOOKS_AT_ONCE == 0:
                yield

    async def run(self) -> None:
        """Emits events until cancelled."""
        looks = 0
        while True:
            pause = self.step()
            looks += 1
            if pause is None:
                await self._until_due()
            elif pause or looks % LOOKS_AT_ONCE == 0:
                await self._sleep(pause)

    def step(self) -> float | None:
        """Checks one workload, or none while too many events wait to be sent; returns the seconds to wait before the
        next check, None if there is nothing to check now.
        """
        now = self._clock()
        for times, due in ((self._later, self._news), (self._again, self._news), (self._remind_at, self._reminders)):
            for _ in range(DUE_AT_ONCE):
                if not times or next(iter(times.values())) > now:
                    break
                due.add(times.popitem(last=False)[0])
        keys, seconds = (self._news, EACH_SECONDS) if self._news else (self._reminders, EACH_REMINDER_SECONDS)
        if not keys:
            return None
        if not self._room(str(keys.next_tenant)):
            keys.pass_turn()
            return EACH_SECONDS
        key = keys.pop()
        if keys is self._reminders:
            self._recorded.pop(key, None)
        return seconds if self._record_wait(key, now) else 0.0

    async def _until_due(self) -> None:
        """Wait for a change, or for the first that is due."""
        times = [at for due in (self._later, self._again, self._remind_at) for at in islice(due.values(), 1)]
        self._woken.clear()
        try:
            async with asyncio.timeout(max(0.0, min(times) - self._clock()) if times else None):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _changed(self, old: Raw | None, new: Raw | None) -> None:
        key = key_of(new or old or {})
        status = (new or {}).get("status") or {}
        if new is None or (status.get("admission") and not status.get("admissionChecks")):
            for known in (self._later, self._again, self._recorded, self._remind_at):
                known.pop(key, None)
            self._news.discard(key)
            self._reminders.discard(key)
            return
        if key not in self._later and key not in self._news:
            self._again.pop(key, None)
            self._later[key] = self._clock() + SETTLE_SECONDS
            self._woken.set()

    def _record_wait(self, key: Key, now: float) -> bool:
        """Emits the event why the workload waits, unless the Job has it; returns whether there was a reason."""
        workload, raw = self.caches.get(key), self.caches.workloads.get(key)
        checks = awaited(workload) if workload is not None else ""
        if workload is None or raw is None or not (checks or _pending(workload)):
            self._recorded.pop(key, None)
            self._remind_at.pop(key, None)
            return False
        if checks:
            return self._news_of(key, checks, now) and self._record_event(key, raw, events.updated_checks(checks))
        state = self.caches.state
        named = of_namespace(key.namespace).named  # who may read the event is who may read the namespace
        reason, message = ("", "") if state.assumed(key) else why_waiting(state, workload, named)
        if not reason:
            if state.assumed(key) or state.pending.where(key) is not None:
                self._again[key] = now + AGAIN_SECONDS
            return False
        if not self._news_of(key, reason, now):
            return False
        self._record_event(key, raw, events.job_waits(state.pending.where(key) or "", reason, message))
        if workload.condition(names.Condition.QUOTA_RESERVED) is None:
            self.recorder.record(resources.WORKLOADS, key, workload.uid, events.waits(reason, message))
        return True

    def _news_of(self, key: Key, reason: str, now: float) -> bool:
        """Whether no event on a Job has said this yet; from now on one has."""
        if self._recorded.get(key) == reason:
            return False
        self._recorded[key] = reason
        self._remind_at[key] = now + REMIND_AFTER_SECONDS
        self._remind_at.move_to_end(key)
        self._reminders.discard(key)
        return True

    def _record_event(self, key: Key, raw: Raw, event: events.Event) -> bool:
        """Emits an event on the job of a Workload; returns whether it has one."""
        job = self._job(raw)
        if job is not None:
            resource, name, uid = job
            self.recorder.record(resource, Key(key.namespace, name), uid, event)
        return job is not None

    def _job(self, raw: Raw) -> tuple[Resource, str, str] | None:
        """Returns the resource, name and uid of the supported job that controls a Workload."""
        for owner in raw["metadata"].get("ownerReferences") or ():
            resource = self._resources.get((owner.get("kind"), owner.get("apiVersion")))
            if owner.get("controller") and resource is not None:
                return resource, owner["name"], owner["uid"]
        return None


def _pending(workload: Workload) -> bool:
    """Whether a workload waits."""
    ended = workload.holds(names.Condition.FINISHED) or workload.holds(names.Condition.QUOTA_RESERVED)
    return not workload.deleting and not ended
