"""Creates the workloads of a load and plays the job controller: ends what has run, releases what was evicted.

It works with any controller that serves Kueue's API. One watch of all Workloads (and one of Jobs, where they are
created) shows when a workload is admitted; after its runtime it gets the condition Finished by server-side apply, or
its Job becomes complete. An evicted Workload without a job releases its quota at once, as if its pods had ended.
"""

import asyncio
import functools
import itertools
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from api.objects import Raw, Resource
from bench.events import Condition, Object, follow, reserved
from bench.load import Class, Load, LoadQueue, created, setting
from bench.measure import timed
from bench.observer import Seen
from bench.scenario import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from controller.kube.flow.throttle import Throttle

FIELD_MANAGER = "bench"
AGAIN_SECONDS = 0.5
ATTEMPTS = 60
STATUS_SECONDS, STATUS_POLL_SECONDS = 10.0, 0.2
FIRST_STATUS_SECONDS, FIRST_STATUS_POLL_SECONDS = 300.0, 2.0
QUEUE_COUNTS = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
TRANSIENT = (0, 429, 500, 503, 504)
PATIENCE_SECONDS = 180
PREPARED_AT_ONCE = 8
QUIET_SECONDS, LONGEST_QUIETING_SECONDS = 2.0, 60.0
"""No event for so long: the controller has nothing left to write; it is not waited for longer than the latter."""
SILENT_SECONDS = 60.0
"""No event for so long: nothing will happen any more."""


CallToMake = Callable[[], Coroutine[Any, Any, object]]


class Outcome(NamedTuple):
    """What happened. ``created`` is when the creation of each workload began, by namespace and name.

    ``answered`` are the seconds until a create was answered; ``started`` is when a Job was last seen unsuspended,
    ``completed`` when its completion was answered. ``requests`` are those of the bench by verb, resource and HTTP
    status, as the API server counts them; ``why`` is empty, or why the run ended before all had finished.
    """

    began: float
    ended: float
    created: dict[str, float]
    answered: list[float]
    started: dict[str, float]
    completed: dict[str, float]
    class_of: dict[str, Class]
    events: list[Seen]
    requests: Counter[tuple[str, str, int]]
    why: str


class Driver:
    """One run of a load. Use as ``async with``."""

    def __init__(self, connection: Connection, load: Load) -> None:
        self._load = load
        self._queues = {queue.name for queue in load.all_queues}
        # Each has its own connections: workloads that end do not wait for those that are created.
        self._creates, self._ends = _client(connection), _client(connection)
        self._created: dict[str, float] = {}
        self._answered: list[float] = []
        self._started: dict[str, float] = {}
        self._completed: dict[str, float] = {}
        self._class: dict[str, Class] = {}
        self._events: list[Seen] = []
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._ending: set[str] = set()
        """Jobs whose end is written: one that is suspended and admitted again meanwhile ends once."""
        self._held: dict[str, CallToMake] | None = None
        """Ends of admitted workloads that do not run yet."""
        self._finished: dict[str, float] = {}
        self._done = asyncio.Event()
        self._heard_at = 0.0
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> "Driver":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._creates.close()
        await self._ends.close()

    async def prepare(self) -> None:
        """Creates the flavor, the namespaces and the queues, a few at a time."""
        objects = setting(self._load)
        await timed(lambda number: self._prepared(*objects[number]), len(objects), clients=PREPARED_AT_ONCE)

    async def _prepared(self, resource: Resource, namespace: str, raw: Raw) -> None:
        """Creates an object when its namespace exists, and that of an earlier run is removed."""
        for left in reversed(range(PATIENCE_SECONDS)):
            try:
                await self._creates.create(resource, raw, namespace)
                return
            except (AlreadyExists, Forbidden, NotFound):
                if not left:
                    raise
                await asyncio.sleep(1)

    async def remove(self) -> None:
        """Deletes what was created; the API server removes it after a while."""
        for resource, namespace, raw in reversed(setting(self._load)):
            if not namespace:
                with suppress(NotFound):
                    await self._creates.delete(resource, raw["metadata"]["name"])

    async def run(self, limit_seconds: float, ready: CallToMake | None = None) -> Outcome:
        """Creates all workloads; returns when all have finished, or the limit has passed, or nothing happens any
        more.

        With ``ready`` no workload begins to run before all are created and the controller makes no more writes; then
        it is called first.
        """
        versions = {one: await self._version(one) for one in ((WORKLOADS, JOBS) if self._load.jobs else (WORKLOADS,))}
        began = self._heard_at = time.perf_counter()
        async with self._group as group:
            tasks = [group.create_task(self._watch(one, version)) for one, version in versions.items()]
            streams = [
                group.create_task(self._stream(queue, one))
                for queue in self._load.all_queues
                for one in self._load.classes
            ]
            tasks += streams
            if ready is not None:
                self._held = {}
                tasks.append(group.create_task(self._let_run(streams, ready)))
            why = await self._until_done(began + limit_seconds)
            for task in tasks:
                task.cancel()
            for timer in self._timers.values():
                timer.cancel()
        return Outcome(
            began=min(self._created.values(), default=began),
            ended=time.perf_counter() if why else max(self._finished.values()),
            created=self._created,
            answered=self._answered,
            started=self._started,
            completed=self._completed,
            class_of=self._class,
            events=self._events,
            requests=self._requests,
            why=why,
        )

    async def _let_run(self, streams: list[asyncio.Task[None]], ready: CallToMake) -> None:
        await asyncio.gather(*streams)
        last = time.perf_counter() + LONGEST_QUIETING_SECONDS
        while time.perf_counter() < min(self._heard_at + QUIET_SECONDS, last):  # noqa: ASYNC110 - each event is later
            await asyncio.sleep(0.1)
        await ready()
        held, self._held = self._held or {}, None
        for name, end in held.items():
            self._end_after_runtime(name, end)

    async def statuses_exist(self) -> None:
        """Waits until the controller has written a status of every queue; raises ``TimeoutError`` if it does not."""
        async with asyncio.timeout(FIRST_STATUS_SECONDS):
            while not all(await self._statuses()):  # noqa: ASYNC110 - the API server is asked
                await asyncio.sleep(FIRST_STATUS_POLL_SECONDS)

    async def statuses_right(self) -> float | None:
        """Waits until the statuses of all queues report no workload; returns the seconds, or None if they do not within
        ten seconds.
        """
        began = time.perf_counter()
        while time.perf_counter() < began + STATUS_SECONDS:
            statuses = await self._statuses()
            if all(status and not any(status.get(count) for count in QUEUE_COUNTS) for status in statuses):
                return time.perf_counter() - began
            await asyncio.sleep(STATUS_POLL_SECONDS)
        return None

    async def _statuses(self) -> list[Raw]:
        """Returns the statuses of all queues; that of a queue without one is empty."""
        lists = [await self._list(one) for one in (CLUSTER_QUEUES, LOCAL_QUEUES)]
        return [raw.get("status") or {} for raw in itertools.chain(*lists) if raw["metadata"]["name"] in self._queues]

    async def _list(self, resource: Resource) -> list[Raw]:
        self._requests["LIST", resource.plural, 200] += 1
        items: list[Raw] = (await self._ends.list(resource))["items"]
        return items

    async def _until_done(self, limit: float) -> str:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._done.wait()
                    return ""
            now, done = time.perf_counter(), f"{len(self._finished)} of {self._load.workloads} workloads have finished"
            if now > limit:
                return f"stopped at the limit: {done}"
            if now > self._heard_at + SILENT_SECONDS:
                return f"no event for {SILENT_SECONDS:.0f} s: {done}"

    async def _stream(self, queue: LoadQueue, one: Class) -> None:
        for number in range(one.workloads):
            await asyncio.sleep(one.every_seconds)
            resource, body = created(self._load, queue, one, number)
            name = f"{queue.name}/{body['metadata']['name']}"
            self._class[name] = one
            self._created[name] = time.perf_counter()
            with suppress(AlreadyExists):  # the answer to an earlier attempt was lost
                create = functools.partial(self._creates.create, resource, body, queue.name)
                await self._write("POST", resource, "", create)
            self._answered.append(time.perf_counter() - self._created[name])

    async def _version(self, resource: Resource) -> str:
        version: str = (await self._ends.list(resource))["metadata"]["resourceVersion"]
        return version

    async def _watch(self, resource: Resource, version: str) -> None:
        hear = self._heard_job if resource is JOBS else self._heard_workload
        async with aclosing(follow(self._ends, resource, version)) as events:
            async for kind, found in events:
                self._heard_at = time.perf_counter()
                hear(kind, found)

    def _heard_workload(self, kind: str, found: Object) -> None:
        metadata, status = found.metadata, found.status
        owner = metadata.ownerReferences[0].name if metadata.ownerReferences else metadata.name
        name = f"{metadata.namespace}/{owner}"
        if name not in self._class:  # left from an earlier run
            return
        seen = Seen(
            at=self._heard_at,
            name=name,
            uid=metadata.uid,
            queue=status.admission.clusterQueue if status.admission and status.holds("QuotaReserved") else "",
            cpu=reserved(status),
            admitted=status.holds("Admitted"),
            evicted=status.holds("Evicted"),
            finished=status.holds("Finished"),
            deleted=kind == "DELETED",
        )
        self._events.append(seen)
        if seen.finished:
            self._finished.setdefault(name, seen.at)
            if len(self._finished) == self._load.workloads:
                self._done.set()
        if self._load.jobs:
            return
        if seen.runs and not seen.evicted:
            self._end_after_runtime(name, lambda: self._finish(found))
            return
        self._cancel_end(name)
        if seen.holds and seen.evicted:
            self._group.create_task(self._release(found))

    def _heard_job(self, kind: str, found: Object) -> None:
        name = f"{found.metadata.namespace}/{found.metadata.name}"
        if name not in self._class:
            return
        if kind == "DELETED" or found.spec.suspend or found.status.holds("Complete"):
            self._cancel_end(name)
        elif name not in self._timers:
            self._started[name] = self._heard_at
            self._end_after_runtime(name, lambda: self._complete(name, found))

    def _end_after_runtime(self, name: str, end: CallToMake) -> None:
        """Begins the runtime when a workload is first seen admitted; later events do not change it."""
        if self._held is not None:
            self._held.setdefault(name, end)
        elif name not in self._timers:
            delay = self._load.runtime(self._class[name], name)
            loop = asyncio.get_running_loop()
            self._timers[name] = loop.call_later(delay, lambda: self._group.create_task(end()))

    def _cancel_end(self, name: str) -> None:
        if self._held is not None:
            self._held.pop(name, None)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    async def _finish(self, found: Object) -> None:
        condition = _condition("Finished", "True", "ByTest", "By the bench", found)
        body: Raw = {
            "apiVersion": WORKLOADS.api_version,
            "kind": WORKLOADS.kind,
            "metadata": {"name": found.metadata.name, "namespace": found.metadata.namespace},
            "status": {"conditions": [msgspec.to_builtins(condition)]},
        }
        await self._patch("APPLY", WORKLOADS, found, body)

    async def _release(self, found: Object) -> None:
        """Removes the reservation of an evicted Workload; if the Workload has changed meanwhile, its next event decides
        again.
        """
        changed = {
            one.type: one
            for one in (
                _condition("QuotaReserved", "False", "Pending", "Evicted by the bench", found),
                _condition("Admitted", "False", "NoReservation", "The workload has no reservation", found),
            )
        }
        conditions = [changed.get(one.type, one) for one in found.status.conditions]
        body: Raw = {
            "metadata": {"resourceVersion": found.metadata.resourceVersion},
            "status": {"admission": None, "conditions": [msgspec.to_builtins(one) for one in conditions]},
        }
        with suppress(Conflict):
            await self._patch("PATCH", WORKLOADS, found, body)

    async def _complete(self, name: str, found: Object) -> None:
        if name in self._ending:
            return
        self._ending.add(name)
        now = _now()
        conditions = [
            {"type": kind, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": now}
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
        await self._patch("PATCH", JOBS, found, {"status": status})
        self._completed[name] = time.perf_counter()

    async def _patch(self, verb: str, resource: Resource, found: Object, body: Raw) -> None:
        apply = verb == "APPLY"

        async def patch() -> Raw:
            return await self._ends.patch(
                resource,
                found.metadata.name,
                found.metadata.namespace,
                body,
                type="apply" if apply else "merge",
                subresource="status",
                force=apply,
            )

        with suppress(NotFound):
            await self._write(verb, resource, "/status", patch)

    async def _write(self, verb: str, resource: Resource, subresource: str, call: CallToMake) -> None:
        """Makes a call, again if the API server is busy or away, and counts each attempt."""
        for left in reversed(range(ATTEMPTS)):
            status = 201 if verb == "POST" else 200
            try:
                await call()
            except ApiError as error:
                status = error.status
                if status not in TRANSIENT or not left:
                    raise
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return
            finally:
                self._requests[verb, resource.plural + subresource, status] += 1


def _client(connection: Connection) -> Client:
    return Client(connection, throttle=Throttle(0), field_manager=FIELD_MANAGER, throttle_retries=0)


def _condition(kind: str, status: str, reason: str, message: str, found: Object) -> Condition:
    return Condition(kind, status, reason, message, _now(), found.metadata.generation)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
