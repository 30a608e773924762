"""The history in its databases: what is written, what can be asked, and who sees what of it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.history import queries
from controller.history.database import CorruptError, Database, DatabaseFailedError, Sqlite, prune
from controller.history.queries import Ends, GroupedBy, Waits
from core.explain.sight import of_namespace
from core.history.report import Window
from core.model import Key
from tests.controller.history import CPU, HOUR, short_history, write

OVER = Window(0.0, 4 * HOUR, HOUR)
ALL = Window(0.0, 5 * HOUR, HOUR)
ONE = of_namespace("one")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    opened = Sqlite(tmp_path_factory.mktemp("history") / "history.sqlite")
    try:
        write(opened, short_history())
        write(opened, short_history())  # a new leader may write what the old one wrote
        yield opened
    finally:
        opened.close()


def test_the_story_of_a_workload_has_every_attempt_and_who_preempted_it(database: Database) -> None:
    told = queries.story(database, Key("one", "job-low"))
    assert told is not None
    assert (told.workload.name, told.workload.user, told.workload.outcome) == ("low", "alice", "Failed")
    assert [(each.reserved, each.ended, each.reason) for each in told.attempts] == [
        (600.0, 4_200.0, "Preempted"),
        (7_800.0, 14_400.0, "Failed"),
    ]
    assert [(each.amount, each.since, each.until) for each in told.uses] == [
        (6000, 600.0, 4_200.0),
        (6000, 7_800.0, 14_400.0),
    ]
    (by,) = [told.preemptors[step.by] for step in told.steps if step.by]
    assert (by.key, by.user) == (Key("two", "high"), "bob")
    assert [step.kind for step in told.steps if step.at <= 600.0] == ["Created", "Admitted", "QuotaReserved"]


def test_a_reader_of_one_namespace_sees_no_name_of_another(database: Database) -> None:
    told = queries.story(database, Key("one", "low"), ONE)
    assert told is not None
    assert told.preemptors == {}
    assert queries.story(database, Key("two", "high"), ONE) is None
    (preempted,) = queries.preemptions(database, OVER, ONE)
    assert (preempted.victim.key, preempted.by, preempted.message) == (Key("one", "low"), None, "")
    assert queries.preemptions(database, OVER, of_namespace("two")) == []
    shown = queries.report(database, OVER, GroupedBy.USER, ONE)
    assert [line.group for line in shown.lines] == ["alice"]
    assert (shown.nominal, shown.idle) == ({}, ())


@pytest.mark.parametrize(
    ("by", "wanted"),
    [
        (GroupedBy.QUEUE, {"cq-a": [5.0, 1.0, 5.0, 6.0], "cq-b": [0.0, 3.333, 0.667, 0.0]}),
        (GroupedBy.COHORT, {"team": [5.0, 4.333, 5.667, 6.0]}),
        (GroupedBy.NAMESPACE, {"one": [5.0, 1.0, 5.0, 6.0], "two": [0.0, 3.333, 0.667, 0.0]}),
        (GroupedBy.USER, {"alice": [5.0, 1.0, 5.0, 6.0], "bob": [0.0, 3.333, 0.667, 0.0]}),
        (GroupedBy.LOCAL_QUEUE, {"one/lq": [5.0, 1.0, 5.0, 6.0], "two/lq": [0.0, 3.333, 0.667, 0.0]}),
    ],
)
def test_use_over_time_is_exact_in_each_hour(database: Database, by: GroupedBy, wanted: dict[str, list[float]]) -> None:
    found = queries.use_over_time(database, OVER, by)
    hours = {group: [each / HOUR / 1000 for each in parts] for (group, fr), parts in found.items() if fr == CPU}
    assert hours == {group: pytest.approx(parts, abs=0.001) for group, parts in wanted.items()}


def test_use_of_a_part_of_the_time_begins_and_ends_with_it(database: Database) -> None:
    found = queries.use_over_time(database, Window(1_200.0, 1_800.0, 600.0), GroupedBy.QUEUE)
    assert found == {("cq-a", CPU): [6000 * 600.0]}


def test_waits_and_ends_are_those_of_the_attempts_of_each_group(database: Database) -> None:
    assert queries.waits(database, OVER, GroupedBy.USER) == {
        "alice": Waits("alice", 2, 600.0, 3_600.0, 3_600.0),
        "bob": Waits("bob", 1, 2_400.0, 2_400.0, 2_400.0),
    }
    assert queries.ends(database, ALL, GroupedBy.QUEUE) == {
        "cq-a": Ends("cq-a", 1, 1, 1, 1),
        "cq-b": Ends("cq-b", 1, 0, 0, 0),
    }


def test_a_report_has_fairness_and_the_quota_that_nobody_used(database: Database) -> None:
    shown = queries.report(database, OVER, GroupedBy.USER)
    (idle,) = shown.idle
    assert (idle.name, idle.nominal, round(idle.idle)) == ("team", 32_000.0, 11_000)
    assert [None if each is None else round(each, 2) for each in shown.fairness] == [0.5, 0.78, 0.63, None]
    assert [each.group for each in shown.lines] == ["alice", "bob"]
    assert len(shown.preemptions) == 1


def test_a_workload_that_waits_is_counted_from_its_creation(database: Database) -> None:
    found = queries.waiting_over_time(database, OVER, GroupedBy.USER)
    ((_, cell),) = {key for key in found if key[0] == "alice"}
    assert found["alice", cell][3] == HOUR, "next, which never ran"


def test_finished_workloads_are_listed_newest_first(database: Database) -> None:
    assert [each.name for each in queries.finished(database, ALL)] == ["low", "high"]
    assert [each.name for each in queries.finished(database, ALL, ONE)] == ["low"]


def test_the_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    opened = Sqlite(tmp_path / "history.sqlite")
    opened.write([("UPDATE meta SET value = 99 WHERE name = :name", {"name": "version"})])
    opened.close()
    with pytest.raises(DatabaseFailedError, match="newer Seiretsu"):
        Sqlite(tmp_path / "history.sqlite")


@pytest.mark.parametrize("damage", [b"", b"no database at all, and long enough to be read as one" * 40])
def test_a_file_that_is_no_database_is_found_when_it_is_opened(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "history.sqlite"
    path.write_bytes(damage)
    if damage:
        with pytest.raises(CorruptError):
            Sqlite(path)
    else:
        Sqlite(path).close()


def test_a_python_without_sqlite_serves_without_a_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image may leave it out: `serve` imports this module whether the history is on or not."""
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    found = importlib.util.find_spec("controller.history.database")
    assert found is not None
    assert found.loader is not None
    anew = importlib.util.module_from_spec(found)
    found.loader.exec_module(anew)
    with pytest.raises(anew.DatabaseFailedError, match="this Python has no SQLite"):
        anew.Sqlite(tmp_path / "history.sqlite")


def test_old_workloads_are_deleted_and_then_the_oldest_while_the_file_is_too_large(tmp_path: Path) -> None:
    opened = Sqlite(tmp_path / "history.sqlite")
    try:
        write(opened, short_history())
        assert prune(opened, before=0.0, most_bytes=2**40) == 0
        assert prune(opened, before=20_000.0, most_bytes=2**40) == 3
        assert opened.rows("SELECT COUNT(*) FROM uses", {}) == [(0,)]
        write(opened, short_history())
        assert prune(opened, before=0.0, most_bytes=1) == 3
    finally:
        opened.close()
