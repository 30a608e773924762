"""The writer of the history: what it survives, and that queueing never waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

from api.names import Annotation
from controller.cache.caches import Caches
from controller.history import history as writing
from controller.history import queries
from controller.history.database import FILE, Sqlite
from controller.history.history import History, HistoryReader, opened
from controller.history.schema import statements
from controller.settings import HistorySettings
from core.history.record import HistoryEntry, LifeRecord, Use, UseEnd
from core.model import Key
from tests.controller.test_caches import filled, made, workload
from tests.eventually import eventually
from tests.killed import Tell, in_small_process, kill_many


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WRITE_SECONDS", "RETRY_SECONDS", "LONGEST_RETRY_SECONDS"):
        monkeypatch.setattr(writing, name, 0.01)


@contextlib.asynccontextmanager
async def recording(
    caches: Caches, directory: Path, **settings: Any
) -> AsyncIterator[tuple[History, CollectorRegistry]]:
    registry = CollectorRegistry()
    history = History(caches, HistorySettings(str(directory), **settings), registry)
    task = asyncio.create_task(history.run())
    try:
        yield history, registry
    finally:
        task.cancel()
        await asyncio.wait({task})


def started(*names: str) -> Caches:
    caches = filled()
    caches.start()
    for name in names:
        caches.workloads.observe("ADDED", workload(name))
    return caches


def known(directory: Path) -> list[str]:
    if not (directory / FILE).exists():
        return []
    with contextlib.suppress(sqlite3.Error):
        database = sqlite3.connect(directory / FILE)
        try:
            return [row[0] for row in database.execute("SELECT name FROM workloads ORDER BY name")]
        finally:
            database.close()
    return []


def has(directory: Path, *names: str) -> Callable[[], bool]:
    return lambda: set(names) <= set(known(directory))


async def test_what_is_there_and_what_changes_is_written(tmp_path: Path) -> None:
    caches = started("early")
    async with recording(caches, tmp_path):
        await eventually(has(tmp_path, "early", "w"))
        caches.workloads.observe("ADDED", workload("late"))
        await eventually(has(tmp_path, "late"))
        caches.workloads.observe("DELETED", workload("late"))
    told = await HistoryReader(HistorySettings(str(tmp_path))).ask(lambda each: queries.story(each, Key("ns", "late")))
    assert told is not None
    assert told.workload.outcome == "Deleted", "what is left is written at the end"
    assert told.workload.cluster_queue == "cq", "it waited there"


async def test_the_user_is_read_from_the_job_and_never_replaced(tmp_path: Path) -> None:
    caches = started()
    job = made("Job", "train", {"template": {}}, namespace="ns")
    job["metadata"]["annotations"] = {Annotation.QUEUED_BY: "alice"}
    by = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "Job-train", "controller": True}
    raw = workload("of-job")
    raw["metadata"]["ownerReferences"] = [by]
    (store,) = [caches.stores[each.resource] for each in caches.kinds]
    store.observe("ADDED", job)
    caches.workloads.observe("ADDED", raw)
    reader = HistoryReader(HistorySettings(str(tmp_path)))
    async with recording(caches, tmp_path):
        await eventually(has(tmp_path, "of-job"))
    job["metadata"] |= {"annotations": {Annotation.QUEUED_BY: "mallory"}, "resourceVersion": "2"}
    store.observe("MODIFIED", job)
    async with recording(caches, tmp_path):
        await eventually(has(tmp_path, "of-job"))
    told = await reader.ask(lambda each: queries.story(each, Key("ns", "train")))
    assert told is not None
    assert (told.workload.job_kind, told.workload.job, told.workload.user) == ("Job", "train", "alice")


async def test_a_new_leader_goes_on_and_closes_what_ended_meanwhile(tmp_path: Path) -> None:
    first = started("kept", "deleted")
    async with recording(first, tmp_path):
        await eventually(has(tmp_path, "kept", "deleted"))
    second = started("kept", "new")
    async with recording(second, tmp_path):
        await eventually(has(tmp_path, "new"))
    database = opened(HistorySettings(str(tmp_path)), read_only=True)
    try:
        ended = database.rows("SELECT name, outcome FROM workloads ORDER BY name", {})
        assert ended == [("deleted", "Deleted"), ("kept", ""), ("new", ""), ("w", "")]
        assert database.rows("SELECT cluster_queue, until FROM quotas", {}) == [("cq", None)], "it is the same quota"
    finally:
        database.close()


def aside(directory: Path) -> list[Path]:
    return list(directory.glob("*.corrupt-*"))


async def test_a_damaged_file_is_set_aside_with_one_line_and_a_metric(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"this is not a database, whatever its name says" * 100)
    with structlog.testing.capture_logs() as lines:
        async with recording(started("a"), tmp_path) as (_, registry):
            await eventually(has(tmp_path, "a"))
            assert registry.get_sample_value("seiretsu_history_corrupt_files_total") == 1.0
    assert [each["event"] for each in lines] == ["the history is damaged: a new file is begun"]
    assert [each.read_bytes()[:11] for each in aside(tmp_path)] == [b"this is not"]


async def fails_once_and_goes_on(directory: Path, break_it: Callable[[], None], mend: Callable[[], None]) -> list[str]:
    """Returns the lines of the log while the history cannot be written, and until it can."""
    caches = started("before")
    with structlog.testing.capture_logs() as lines:
        async with recording(caches, directory) as (history, registry):

            def failing(value: float) -> Callable[[], bool]:
                return lambda: registry.get_sample_value("seiretsu_history_failing") == value

            await eventually(has(directory, "before"))
            break_it()
            try:
                for number in range(40):
                    caches.workloads.observe("ADDED", workload(f"during-{number}"))
                await eventually(failing(1.0))
                assert caches.get(Key("ns", "during-0")) is not None, "the caches go on"
                assert history._changes or history._first
            finally:
                mend()
            await eventually(failing(0.0))
            await eventually(has(directory, "during-0", "during-39"))
    return [each["event"] for each in lines]


TOLD = ["the history cannot be written; queueing goes on", "the history is written again"]


async def test_a_full_disk_is_one_line_and_one_metric_and_nothing_is_lost(tmp_path: Path) -> None:
    """The limit of file sizes fails in the same call as a full disk does: write(2)."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        lines = await fails_once_and_goes_on(
            tmp_path,
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1])),
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits),
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert lines == TOLD


async def test_a_read_only_volume_is_one_line_and_one_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For root no file is read-only, so the file is opened as the kernel opens it on such a volume."""
    connect = sqlite3.connect

    def read_only(name: str, **options: Any) -> sqlite3.Connection:
        found: sqlite3.Connection = connect(name.replace("mode=rwc", "mode=ro"), **options)
        return found

    def break_it() -> None:
        monkeypatch.setattr(sqlite3, "connect", read_only)
        monkeypatch.setattr(Sqlite, "write", refused)

    written = Sqlite.write

    def refused(self: Sqlite, several: Any) -> None:
        self._connection.execute("PRAGMA query_only=1")
        written(self, several)

    def mend() -> None:
        monkeypatch.setattr(sqlite3, "connect", connect)
        monkeypatch.setattr(Sqlite, "write", written)

    assert await fails_once_and_goes_on(tmp_path, break_it, mend) == TOLD


async def test_changes_that_are_dropped_are_caught_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_WAITING", 5)
    caches = started("before")
    async with recording(caches, tmp_path) as (found, registry):
        await eventually(has(tmp_path, "before"))
        await eventually(lambda: not found._changes)  # what is written waits until the loop knows of it
        for number in range(20):
            caches.workloads.observe("ADDED", workload(f"many-{number}"))
        assert registry.get_sample_value("seiretsu_history_dropped_changes_total") == 15.0
        await eventually(has(tmp_path, "many-0", "many-19"))


async def test_a_change_that_cannot_be_written_loses_no_other(tmp_path: Path) -> None:
    caches = started()
    with structlog.testing.capture_logs() as lines:
        async with recording(caches, tmp_path):
            await eventually(has(tmp_path, "w"))
            for name in ("one", "odd", "two"):
                raw = workload(name)
                if name == "odd":
                    raw["metadata"]["uid"] = "\ud800"
                caches.workloads.observe("ADDED", raw)
            await eventually(has(tmp_path, "one", "two"))
    told = {each["event"] for each in lines}  # a writer that ends in the middle of a batch writes all of it again
    assert told == {"a change cannot be written to the history"}


def test_a_writer_that_is_killed_at_any_moment_loses_nothing_that_it_had_written(tmp_path: Path) -> None:
    """A writer is killed again and again in the middle of its transactions."""
    in_small_process(_kill_many, tmp_path / FILE)


def _kill_many(path: Path) -> None:
    def write(number: int, tell: Tell) -> None:
        database = Sqlite(path)
        while True:
            number += 1
            uid = f"w-{number}"
            record = LifeRecord(uid, "ns", uid, "Job", uid, "alice", "lq", "cq", 0, "", float(number))
            use = Use(uid, "default", "cpu", float(number), 1000, "ns", "alice", "lq", "cq", "")
            several: list[HistoryEntry] = [record, use, UseEnd(uid, number + 1.0)]
            database.write([each for entry in several for each in statements(entry, number)])
            tell(number)

    def check(kill: int, written: int) -> None:
        if kill % 20 == 0:
            _check_all_is_there(path, written)

    kill_many(write, check)


def _check_all_is_there(path: Path, written: int) -> None:
    database = Sqlite(path)
    try:
        ((newest,),) = database.rows("SELECT MAX(created) FROM workloads", {})
        assert newest >= written, "what was written is there"
        assert database.rows("SELECT COUNT(*) FROM workloads", {}) == [(newest,)]
        assert database.rows("SELECT COUNT(*) FROM uses WHERE until IS NULL", {}) == [(0,)], "and nothing by half"
    finally:
        database.close()
