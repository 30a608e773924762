"""Writes the history while this process leads: changes are taken on the event loop, and written in a thread.

A change costs the loop a few microseconds: it is put into a queue. Once a second a thread computes what is to be kept
(``core.history.record``) and writes all of it in one transaction, so that a process that is killed loses at most the
last second. What cannot be written is kept and tried again; if that lasts, the oldest changes are dropped, and what
the Workloads still show is caught up later. Nothing waits for the history, and no error of it ends the controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge

from api.names import Annotation, Condition
from api.objects import Key
from controller.cache.caches import Caches
from controller.history import queries
from controller.history.database import (
    FILE,
    PRUNED_AT_ONCE,
    CorruptError,
    Database,
    DatabaseFailedError,
    Postgres,
    Sqlite,
    alive,
    prune,
    set_aside,
    written_at,
)
from controller.history.schema import Statement, statements
from controller.kube.log import get_logger
from controller.kube.store import NOTIFIED_AT_ONCE
from controller.settings import HistorySettings
from core.history.record import DeletedWorkload, HistoryEntry, JobOrigin, QuotaRecord, entries, quotas, resumed
from core.model import FlavorResource, Workload

log = get_logger(__name__)

WRITE_SECONDS: Final = 1.0
ALIVE_SECONDS: Final = 10.0
PRUNE_SECONDS: Final = 60.0
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 30.0
MOST_WAITING: Final = 20_000
"""So many changes wait to be written; each refers to two versions of a Workload."""
AT_ONCE: Final = 2_000
END_SECONDS: Final = 2.0
"""So long a process that ends waits for its last write."""
READ_SECONDS: Final = 10.0
"""After this time a query of a reader ends."""
_Result = TypeVar("_Result")


class WorkloadChange(NamedTuple):
    """A Workload changed. ``known``: what the history knew that it held, where it is caught up."""

    old: Workload | None
    new: Workload | None
    origin: JobOrigin
    at: float
    known: dict[FlavorResource, int] | None = None

    @property
    def uid(self) -> str:
        """The uid of the Workload."""
        workload = self.new or self.old
        return workload.uid if workload is not None else ""


class History:
    """``run`` it while this process leads. ``clock`` is wall time."""

    def __init__(
        self,
        caches: Caches,
        settings: HistorySettings,
        registry: CollectorRegistry,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.caches = caches
        self.settings = settings
        self.clock = clock
        self._first: deque[WorkloadChange | HistoryEntry] = deque()
        self._changes: deque[WorkloadChange | HistoryEntry] = deque()
        self._quotas: dict[tuple[str, str], QuotaRecord] = {}
        self._cohorts: dict[str, str] = {}
        self._quotas_changed = True
        self._alive = self._pruned = 0.0
        self._failing = ""
        self._thread = ThreadPoolExecutor(1, "history")
        self._database: Database | None = None
        self._connected = False
        self._dropping = False
        """Changes were dropped: what is there must be caught up."""
        self._dropped = Counter(
            "seiretsu_history_dropped_changes_total",
            "Changes of Workloads that are missing in the history, because it could not be written.",
            registry=registry,
        )
        self._set_aside = Counter(
            "seiretsu_history_corrupt_files_total",
            "Files of the history that were damaged, and were renamed.",
            registry=registry,
        )
        Gauge(
            "seiretsu_history_failing",
            "1 while the history cannot be written; the log has the reason. Queueing goes on.",
            registry=registry,
        ).set_function(lambda: bool(self._failing))
        Gauge(
            "seiretsu_history_waiting_changes", "Changes that wait to be written to the history.", registry=registry
        ).set_function(lambda: len(self._changes))

    async def run(self) -> None:
        """Records until cancelled."""
        wait = RETRY_SECONDS
        try:
            while True:
                try:
                    if self._database is None:
                        await self._open()
                    await self._write()
                    self._working()
                    wait = RETRY_SECONDS
                    await asyncio.sleep(WRITE_SECONDS)
                except CorruptError as error:
                    await self._start_anew(error)
                    await asyncio.sleep(RETRY_SECONDS)
                except DatabaseFailedError as error:
                    self._fails(error)
                    await self._close()  # a connection may be gone
                    await asyncio.sleep(wait)
                    wait = min(2 * wait, LONGEST_RETRY_SECONDS)
        finally:
            await self._end()

    def changed(self, old: Workload | None, new: Workload | None) -> None:
        """A Workload has changed."""
        if len(self._changes) >= MOST_WAITING:
            self._changes.popleft()
            self._dropped.inc()
            self._dropping = True
        self._changes.append(WorkloadChange(old, new, self._origin(new or old), self.clock()))

    def requoted(self, old: object, new: object) -> None:
        """A ClusterQueue or Cohort has changed."""
        self._quotas_changed = True

    # The database.

    async def _open(self) -> None:
        """Opens the database, and catches up with what happened while nobody wrote."""
        self._database = database = await self._in_thread(lambda: opened(self.settings))
        held, known, quotas, self._alive = await self._in_thread(
            lambda: (
                queries.open_uses(database),
                queries.unfinished(database),
                queries.open_quotas(database),
                alive(database),
            )
        )
        self._quotas = {key: QuotaRecord(key[0], cohort, 0.0, nominal) for key, (cohort, nominal) in quotas.items()}
        self._take_quotas()
        if not self._connected:
            self._connected = True
            self.caches.observers.append(self.changed)
            self.caches.cluster_queues.listen(self.requoted)
            self.caches.cohorts.listen(self.requoted)
        if self._dropping:
            self._changes.clear()
            self._dropping = False
        self._first.clear()
        for _ in self._catching_up(held, known):
            await asyncio.sleep(0)

    def _catching_up(self, held: dict[str, dict[FlavorResource, int]], unfinished: set[str]) -> Iterator[None]:
        """Queues what the present Workloads show, before all changes since; and that others are gone."""
        now, last = self.clock(), self._alive or self.clock()
        gone = held.keys() | unfinished
        for place, workload in enumerate(list(self.caches.decoded.values()), start=1):
            gone.discard(workload.uid)
            self._first.append(WorkloadChange(None, workload, self._origin(workload), now, held.get(workload.uid, {})))
            if not place % NOTIFIED_AT_ONCE:
                yield
        changed = {each.uid for each in self._changes if isinstance(each, WorkloadChange)}
        self._first.extend(DeletedWorkload(uid, last) for uid in sorted(gone - changed))

    async def _write(self) -> None:
        """Writes everything that waits, in transactions of a limited size."""
        assert self._database is not None
        if self._dropping:
            await self._close()
            await self._open()
        if self._quotas_changed:
            self._take_quotas()
        now = self.clock()
        while self._first or self._changes or now - self._alive >= ALIVE_SECONDS:
            await self._write_some(self._database, self._first or self._changes, now)
        if now - self._pruned >= PRUNE_SECONDS:
            database, self._pruned = self._database, now
            await self._in_thread(lambda: self._prune(database, now))

    async def _write_some(self, database: Database, waiting: deque[WorkloadChange | HistoryEntry], now: float) -> None:
        batch = [waiting.popleft() for _ in range(min(AT_ONCE, len(waiting)))]
        last = self._alive
        try:
            self._dropped.inc(await self._in_thread(lambda: _write(database, batch, now, last)))
        except BaseException:
            waiting.extendleft(reversed(batch))
            raise
        self._alive = now

    async def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            await self._in_thread(database.close)

    def _prune(self, database: Database, now: float) -> None:
        while prune(database, now - self.settings.max_age, self.settings.max_bytes) == PRUNED_AT_ONCE:
            pass
        if isinstance(database, Sqlite):
            database.shrink()

    async def _start_anew(self, error: CorruptError) -> None:
        """Renames a damaged file; the next one begins empty."""
        await self._close()
        self._set_aside.inc()
        path, now = Path(self.settings.directory) / FILE, self.clock()
        try:
            aside = await self._in_thread(lambda: set_aside(path, now))
        except OSError as failed:
            self._fails(DatabaseFailedError(f"{error}; the file cannot be renamed: {failed}"))
            return
        log.error("the history is damaged: a new file is begun", error=str(error), renamed_to=str(aside))

    async def _end(self) -> None:
        """Writes what is left, if that works."""
        database, batch, now, last = self._database, [*self._first, *self._changes], self.clock(), self._alive
        if database is not None and not self._failing:
            await end(self._thread, lambda: _write_and_close(database, batch, now, last))
        else:
            self._thread.shutdown(wait=False)

    async def _in_thread(self, call: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _fails(self, error: DatabaseFailedError) -> None:
        if not self._failing:
            log.error("the history cannot be written; queueing goes on", error=str(error))
        self._failing = str(error)

    def _working(self) -> None:
        if self._failing:
            log.info("the history is written again")
        self._failing = ""

    # What the Workload itself does not show.

    def _take_quotas(self) -> None:
        """Queues the quota that has changed."""
        self._quotas_changed = False
        reservations = self.caches.state.reservations
        now = self.clock()
        found = quotas(reservations.cohorts, reservations.cluster_queues, now)
        for key, each in found.items():
            before = self._quotas.get(key)
            if before is None or (before.cohort, before.nominal) != (each.cohort, each.nominal):
                self._changes.append(each)
        for key in self._quotas.keys() - found.keys():
            self._changes.append(QuotaRecord(key[0], self._quotas[key].cohort, now, {}))
        self._quotas = found
        self._cohorts = {queue: each.cohort for (queue, _), each in found.items() if queue}

    def _origin(self, workload: Workload | None) -> JobOrigin:
        if workload is None:
            return JobOrigin()
        by = workload.owner
        local = self.caches.state.pending.local_queues.get(Key(workload.key.namespace, workload.queue))
        queue = local.cluster_queue if local is not None else ""
        if by is None:
            return JobOrigin(cohorts=self._cohorts, cluster_queue=queue)
        user = self._user(by.group, by.kind, Key(by.namespace, by.name)) if self.settings.users else ""
        return JobOrigin(by.kind, by.name.removeprefix("group/"), user, self._cohorts, queue)

    def _user(self, group: str, kind: str, key: Key) -> str:
        """Who queued a job, as admission saw it."""
        for each in self.caches.kinds:
            if (each.group, each.kind) == (group, kind):
                for raw in self.caches.job_objects(each, key):
                    if user := (raw["metadata"].get("annotations") or {}).get(Annotation.QUEUED_BY):
                        return str(user)
        return ""


class HistoryReader:
    """Answers questions, one at a time, each on a connection that only reads."""

    def __init__(self, settings: HistorySettings) -> None:
        self.settings = settings
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, question: Callable[[Database], _Result]) -> _Result:
        """Returns the answer. Raises ``DatabaseFailedError`` with a sentence."""

        def answered() -> _Result:
            database = opened(self.settings, read_only=True)
            try:
                return question(database)
            finally:
                database.close()

        async with self._one_at_a_time:
            return await asyncio.to_thread(answered)


async def end(thread: ThreadPoolExecutor, call: Callable[[], None]) -> None:
    """Makes the last call in a thread, and waits for it, but not long: the process ends."""
    ended = thread.submit(call)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            await asyncio.wrap_future(ended)
    thread.shutdown(wait=False)


def opened(settings: HistorySettings, *, read_only: bool = False) -> Database:
    """Returns the database of these settings. Raises ``DatabaseFailedError``."""
    seconds = READ_SECONDS if read_only else 0.0
    try:
        if settings.url_file:
            url = Path(settings.url_file).read_text().strip()
            return Postgres(url, read_only=read_only, seconds=seconds)
        directory = Path(settings.directory)
        if not read_only:
            directory.mkdir(parents=True, exist_ok=True)
        return Sqlite(directory / FILE, shared=settings.shared_volume, read_only=read_only, seconds=seconds)
    except OSError as error:
        raise DatabaseFailedError(f"the history: {error}") from error


def _write(database: Database, batch: list[WorkloadChange | HistoryEntry], now: float, last: float) -> int:
    """Writes changes in one transaction; returns how many could not be written, because they are odd in themselves."""
    try:
        database.write([*_statements(database, batch, now, last), written_at(now)])
    except DatabaseFailedError:
        raise
    except Exception as error:
        if len(batch) == 1:
            log.exception("a change cannot be written to the history", change=repr(batch[0])[:500], error=repr(error))
            return 1
        return sum(_write(database, [each], now, last) for each in batch)
    return 0


def _statements(
    database: Database, batch: list[WorkloadChange | HistoryEntry], now: float, last: float
) -> Iterator[Statement]:
    for change in batch:
        if not (isinstance(change, WorkloadChange) and change.known == {} and _is_complete(database, change.new)):
            for entry in _entries(change, now, last):
                yield from statements(entry, now)


def _is_complete(database: Database, workload: Workload | None) -> bool:
    """Whether the history has the end of a finished workload, and so needs nothing more of it."""
    return (
        workload is not None
        and workload.holds(Condition.FINISHED)
        and bool(database.rows(_COMPLETE, {"uid": workload.uid}))
    )


_COMPLETE: Final = "SELECT 1 FROM workloads WHERE uid = :uid AND finished IS NOT NULL"


def _write_and_close(database: Database, batch: list[WorkloadChange | HistoryEntry], now: float, last: float) -> None:
    try:
        _write(database, batch, now, last)
    except DatabaseFailedError as error:
        log.warning("the last changes are not in the history", error=str(error))
    database.close()


def _entries(change: WorkloadChange | HistoryEntry, now: float, last: float) -> list[HistoryEntry]:
    if not isinstance(change, WorkloadChange):
        return [change]
    if change.known is None:
        return entries(change.old, change.new, change.origin, change.at)
    assert change.new is not None
    return resumed(change.known, change.new, change.origin, now, last or now)
