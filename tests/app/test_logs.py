"""Logs: repeated warnings are one line with a number, and the level changes at run time."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from app import logs
from app.logs import REPEATS_SECONDS, Repeats


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    written = io.StringIO()
    logs.configure("info", written)
    yield written
    structlog.reset_defaults()
    root.handlers = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class Moment:
    now = 0.0


def passed(repeats: Repeats, method: str = "warning", **event: Any) -> dict[str, Any] | None:
    try:
        return dict(repeats(None, method, dict(event)))
    except structlog.DropEvent:
        return None


def test_a_warning_that_repeats_is_counted_and_logged_once_a_minute() -> None:
    moment = Moment()
    repeats = Repeats(lambda: moment.now)
    kept = []
    for second in range(300):
        moment.now = second
        found = passed(
            repeats, event="reconcile failed", queue="jobs", key=f"a/{second}", error=f"Conflict('{second}')"
        )
        if found is not None:
            kept.append(found)
    assert [each["key"] for each in kept] == ["a/0", "a/60", "a/120", "a/180", "a/240"]
    assert [each.get("repeated", 0) for each in kept] == [0, 59, 59, 59, 59]


def test_other_warnings_and_other_levels_are_not_left_out() -> None:
    repeats = Repeats(lambda: 0.0)
    first = {"event": "reconcile failed", "queue": "jobs", "error": "Conflict('a')"}
    assert passed(repeats, **first) == first
    for other in (
        first | {"queue": "workloads"},
        first | {"error": "Unreachable('a')"},
        first | {"event": "lease not renewed"},
    ):
        assert passed(repeats, **other) == other
    assert passed(repeats, **first) is None
    assert [passed(repeats, "error", **first) for _ in range(2)] == [first, first]


def test_the_number_of_the_last_repetitions_is_logged_too() -> None:
    moment = Moment()
    repeats = Repeats(lambda: moment.now)
    for number in range(4):
        passed(repeats, event="reconcile failed", error="Conflict('a')", key=str(number))
    assert repeats.overdue() == []
    moment.now += REPEATS_SECONDS
    assert repeats.overdue() == [
        {"event": "reconcile failed", "error": "Conflict('a')", "key": "3", "repeated": 3},
    ]
    assert repeats.overdue() == []


def test_many_different_warnings_use_no_more_memory() -> None:
    repeats = Repeats(lambda: 0.0)
    for number in range(5000):
        passed(repeats, event=f"e{number}")
    assert len(repeats._seen) == 1000


def test_the_level_changes_while_it_runs(stream: io.StringIO) -> None:
    log = structlog.get_logger("seiretsu")
    log.debug("before")
    logs.change_level("debug")
    log.debug("between")
    logs.change_level("info")
    log.debug("after")
    assert [line["event"] for line in lines(stream)] == [
        "The log level was changed",
        "between",
        "The log level was changed",
    ]


def test_a_repeated_warning_is_one_line(stream: io.StringIO) -> None:
    for number in range(1903):
        structlog.get_logger("controller").warning("reconcile failed", key=str(number), error="Conflict('a')")
    assert [line["key"] for line in lines(stream)] == ["0"]
