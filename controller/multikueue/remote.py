"""One worker cluster while its connection settings do not change: a client, stores, and writes, as for the cluster in
which the controller runs. It has its own work queue, so that a slow one delays no other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from api import resources
from api.names import GROUP, Kind, Label
from api.objects import Key, Raw, Resource, key_of
from controller.cache.caches import Cached
from controller.cache.refusals import Refusals
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.errors import ApiError
from controller.kube.flow.throttle import Throttle
from controller.kube.reflector import Reflector
from controller.kube.size_limit import MEBIBYTE, Pool, SizeLimit, cost
from controller.kube.store import Store
from controller.kube.workqueue import WorkQueue
from controller.multikueue.memory import shares
from controller.multikueue.survey import Survey
from core.jobs.mirrored import Mirrored
from core.jobs.mirrored_owners import several_of
from core.model.owner import reference
from core.multikueue import shape
from core.multikueue.group import Worker

WORKERS = 10
CHANGED_SECONDS = 30.0
"""After how long a Workload whose copy the worker changed is offered again."""
DEADLINE_SECONDS = 15.0
"""How long a write in a worker cluster may take."""
LARGEST_ANSWER = 4 * MEBIBYTE
"""An answer of a worker cluster in bytes: a page of 25 objects of 160 KB."""
LARGEST_EVENT = 3 * MEBIBYTE
"""An event of a worker cluster in bytes: an API server takes no larger objects."""
HEAVIEST = 32 * MEBIBYTE
"""The memory that an answer or an event may need when it is decoded: usual JSON of 3 MiB needs less."""
CHANGES_A_SECOND, CHANGES_AT_ONCE = 500.0, 5000
"""So many changes are read of a worker cluster: one that never stops to report some would take all of the CPU. Each Job
causes a dozen, so that more than forty Jobs a second in one worker would be slowed down.
"""


class Remote:
    """Follows the Workloads and jobs with the label ``origin`` in a worker cluster. ``run`` in its own task.

    ``changed`` is called with the key of a Workload of which something changed there, ``turned`` when the connection is
    lost or back, ``requoted`` when a queue changes there (None: nobody asks). ``lost_since`` is None while
    it is connected. ``trouble`` is why it is not.
    """

    def __init__(
        self,
        name: str,
        connection: Connection,
        kinds: Iterable[Mirrored],
        origin: str,
        *,
        rows: Iterable[Cached],
        may_write: Callable[[], bool],
        changed: Callable[[Remote, Key], None],
        turned: Callable[[Remote], None],
        requoted: Callable[[], None] | None = None,
        leading: asyncio.Event | None = None,
        local: Callable[[Key], Raw | None] = lambda key: None,
        most: int = shares(None)[0],
        pool: Pool | None = None,
        lost_since: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``leading`` is set when this process leads: before, only the queues of the worker are followed. ``local``
        returns the Workload here. ``most`` is the memory for what is kept of the worker, ``pool`` that for all workers.
        """
        self.name = name
        self._clock = clock
        self.client = Client(
            connection,
            may_write=may_write,
            deadline_seconds=DEADLINE_SECONDS,
            largest_answer=LARGEST_ANSWER,
            largest_line=LARGEST_EVENT,
            heaviest=HEAVIEST,
        )
        self._local = local
        self._pace = Throttle(CHANGES_A_SECOND, CHANGES_AT_ONCE)
        self.stores: dict[Resource, Store[Any]] = {
            resources.WORKLOADS: Store(resources.WORKLOADS.plural, self._copy, {"one-of-several": _one_of_several})
        }
        self._kinds = {kind.resource: kind for kind in kinds}
        self._served = tuple(self._kinds)
        costs = {resource.plural: self._cost_of(kind) for resource, kind in self._kinds.items()}
        costs[resources.WORKLOADS.plural] = self._cost_of_copy
        self._size_limit = SizeLimit(most, pool=pool, costs=costs)
        for resource, kind in self._kinds.items():
            self.stores[resource] = Store(resource.plural, self._reader(kind), {"workloads": kind.workloads_of})
        # A status here is a part of that in the worker, so it is never sent as a whole.
        self.writer = Writer(self.client, self.stores, replaced=frozenset(), counted=self._count)
        self.queue = WorkQueue[Key](f"multikueue-{name}", longest_seconds=30.0)
        self.lost_since: float | None = clock() if lost_since is None else lost_since
        self.trouble = ""
        self.attempts = 0
        self.refused: dict[Key, str] = {}
        """Why the worker's API server does not take these Workloads."""
        self._refusals = Refusals(clock)
        self.again: dict[Key, float] = {}
        """When Workloads are offered again whose copy the worker changed."""
        self.refused_jobs: dict[Key, tuple[str, float]] = {}
        """Why the worker's API server does not take the jobs of these Workloads, and since when."""
        self._malformed_since: dict[Key, float] = {}
        """Since when the worker serves a malformed job of these Workloads."""
        self.survey = Survey(self.client, rows, requoted, size_limit=self._size_limit, pace=self._pace)
        self._leading = leading
        self._changed_there = changed
        self._turned = turned
        self._followed: dict[Resource, bool] = dict.fromkeys(self.stores, False)
        self.reflectors = [self._reflector(resource, store, origin) for resource, store in self.stores.items()]

    @property
    def connected(self) -> bool:
        """Whether all Workloads and jobs in the worker are followed; its queues do not matter."""
        return self.lost_since is None

    async def run(self, reconcile: Callable[[Remote, Key], Awaitable[float | None]]) -> None:
        """Follows the worker, and reconciles its keys, until cancelled. Never ends because of the worker."""
        try:
            await self._follow(reconcile)
        finally:
            self._size_limit.release()

    async def _follow(self, reconcile: Callable[[Remote, Key], Awaitable[float | None]]) -> None:
        async with self.client, asyncio.TaskGroup() as group:
            group.create_task(self.survey.run(), name=f"multikueue-{self.name}-survey")
            if self._leading is not None:
                await self._leading.wait()
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"multikueue-{self.name}-{reflector.resource.plural}")
            group.create_task(self.queue.run(WORKERS, lambda key: reconcile(self, key)))

    def seen(self, key: Key, of: Key | None = None) -> Worker:
        """Returns what is seen of a Workload in the worker; ``of`` is the object of which it is one of several."""
        if not self.connected:
            return Worker(self.name, connected=False, lost_since=self.lost_since)
        found, jobs = self.stores[resources.WORKLOADS].get(key), self.jobs(key, of)
        why, since = self.refused_jobs.get(key, ("", 0.0))
        wrong = found.get(shape.MALFORMED) if found is not None else None
        refused = self.refused.get(key, "") if found is None or key in self.again else ""
        seen = Worker(
            self.name,
            workload=found,
            jobs=jobs,
            refused=f"serves a malformed Workload: {wrong}" if wrong else refused,
            job_refused=why,
            job_refused_since=since,
            served=self._served,
        )
        if not seen.malformed:
            self._malformed_since.pop(key, None)
            return seen
        since = self._malformed_since.setdefault(key, self._clock())
        return replace(seen, job_refused=seen.malformed, job_refused_since=since)

    def refuses(self, key: Key, why: str, *, kind: str) -> bool:
        """Keeps why the Workload is not taken, unless a refusal of the same kind was kept shortly before: its message
        may differ each time. Returns whether another text is kept.
        """
        before = self.refused.get(key)
        if self._refusals.due(key, kind):
            self.refused[key] = why
        return self.refused.get(key) != before

    def forget(self, key: Key) -> None:
        """Forgets why a Workload and its job were not taken."""
        self.refused.pop(key, None)
        self._refusals.forget(key)
        self.again.pop(key, None)
        self.refused_jobs.pop(key, None)
        self._malformed_since.pop(key, None)

    def has(self, key: Key) -> bool:
        """Whether the worker has, or had when it was lost, a copy of a Workload or an object of its job."""
        stored = (self.stores[resource].by_index("workloads", key) for resource in self._kinds)
        return key in self.stores[resources.WORKLOADS] or any(stored)

    def jobs(self, key: Key, of: Key | None = None) -> tuple[Raw, ...]:
        """The objects in the worker that were made for the job of a Workload, by name. That of which it is one of
        several has the name ``of``, or else that in its copy.
        """
        found = [raw for resource in self._kinds for raw in self.stores[resource].by_index("workloads", key)]
        copied = self.stores[resources.WORKLOADS].get(key)
        for name in (of,) if of is not None else _one_of_several(copied or {}):
            several = (resource for resource, kind in self._kinds.items() if kind.several)
            whole = (self.stores[resource].get(name) for resource in several)
            found += [raw for raw in whole if raw is not None and raw not in found]
        return tuple(sorted(found, key=lambda raw: str(raw["metadata"]["name"])))

    def keys(self) -> Iterator[Key]:
        """Yields the keys of all Workloads that the worker has, or has a job of, some more than once. The worker makes
        those that belong to another Workload (concurrent admission); Kueue gives them the label ``origin``, too.
        """
        copies = (raw for raw in self.stores[resources.WORKLOADS] if not _made_there(raw))
        yield from map(key_of, copies)
        for resource, kind in self._kinds.items():
            for raw in self.stores[resource]:
                yield from kind.workloads_of(raw)

    def _reader(self, kind: Mirrored) -> Callable[[Raw], Raw]:
        """Returns the function that converts what the worker serves of a kind into what is kept."""
        return lambda raw: shape.checked_job(kind, shape.kept(raw, kind.unread), self._clock())

    def _copy(self, raw: Raw) -> Raw:
        """Converts what the worker serves of a Workload into what is kept."""
        return shape.checked(shape.kept_workload(raw, self._local(key_of(raw)))[0])

    def _cost_of_copy(self, raw: Raw) -> int:
        """The memory that a copy takes in addition to the Workload here."""
        try:
            return cost(shape.kept_workload(raw, self._local(key_of(raw)))[1])
        except Exception:  # it has no key, and is not kept
            return cost(raw)

    @staticmethod
    def _cost_of(kind: Mirrored) -> Callable[[Raw], int]:
        return lambda raw: cost(shape.kept(raw, kind.unread))

    def _count(self, resource: Resource, answer: Raw) -> None:
        """Counts the answer to a write. Raises ``TooLarge`` if it may not be kept: the watch shows it later."""
        size = self._size_limit.cost(resource.plural, answer)
        self._size_limit.observe(resource.plural, "MODIFIED", answer, size)

    def _reflector(self, resource: Resource, store: Store[Any], origin: str) -> Reflector[Any]:
        def changed(old: Raw | None, new: Raw | None) -> None:
            raw = new or old or {}
            kind = self._kinds.get(resource)
            if kind is not None and kind.several and old is not None and new is not None and _like(old, new):
                return
            for key in (key_of(raw),) if kind is None else kind.workloads_of(raw):
                self._changed_there(self, key)
            if kind is not None and kind.several:
                for copied in self.stores[resources.WORKLOADS].by_index("one-of-several", key_of(raw)):
                    self._changed_there(self, key_of(copied))

        store.listen(changed)
        return Reflector(
            self.client,
            resource,
            store,
            label_selector=f"{Label.MULTIKUEUE_ORIGIN}={origin}",
            optional=resource in self._kinds,
            size_limit=self._size_limit,
            pace=self._pace,
            on_connection=lambda error: self._connection(resource, error),
        )

    def _connection(self, resource: Resource, error: ApiError | None) -> None:
        self._followed[resource] = error is None
        if error is not None:
            self.attempts += 1
            news = self.connected or not self.trouble
            self.trouble = self.trouble or str(error)  # the next errors differ only in what was asked for
            if self.lost_since is None:
                self.lost_since = self._clock()
            if news:
                self._turned(self)
        elif all(self._followed.values()) and not self.connected:
            self.lost_since, self.trouble, self.attempts = None, "", 0
            self._turned(self)


def _like(old: Raw, new: Raw) -> bool:
    """Whether objects differ in nothing but their status. One with thousands of groups reports each that is ready, and
    each report would be a change for all of them.
    """
    same = ({**each, "status": None, "metadata": {**each["metadata"], "resourceVersion": ""}} for each in (old, new))
    return next(same) == next(same)


def _one_of_several(workload: Raw) -> tuple[Key, ...]:
    """The object of which a Workload is one of several."""
    found = several_of(workload)
    return (found[1],) if found is not None else ()


def _made_there(workload: Raw) -> bool:
    """Whether another Workload controls this one."""
    by = reference(workload)
    return by is not None and (by.group, by.kind) == (GROUP, Kind.WORKLOAD)
