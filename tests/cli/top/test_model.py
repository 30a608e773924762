"""The records of the page, and that they follow the changes of a watch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.objects import Key, Raw
from cli.top.model import Board, QuotaUse, RecordChange, WorkloadRecord, by_line, line, queue
from tests.cli.top.objects import cluster_queue, condition, local_queue, running, waiting, workload


def test_a_queue_has_its_use_and_why_it_is_inactive() -> None:
    found = queue(cluster_queue("cq", waiting=3, running=2, stopPolicy="Hold", active=True))
    assert found.cells == (QuotaUse("default", "cpu", "6", "8", "2"),)
    assert (found.waiting, found.running, found.cohort, found.stopped, found.active) == (3, 2, "all", "Hold", True)
    broken = queue(cluster_queue("cq", active=False))
    assert (broken.active, broken.why) == (False, "FlavorNotFound: no flavor x")


@pytest.mark.parametrize(
    ("raw", "state", "why"),
    [
        (running("a"), "running", ""),
        (waiting("a", "2 cpu more needed"), "waiting", "2 cpu more needed"),
        (workload("a"), "waiting", ""),
        (workload("a", condition("Finished", message="done")), "finished", "done"),
        (workload("a", condition("QuotaReserved")), "reserved", ""),
        (waiting("a") | {"spec": {"queueName": "main", "active": False}}, "held", "stopped: it is not active"),
    ],
    ids=["running", "waiting", "new", "finished", "reserved", "held"],
)
def test_the_state_of_a_workload(raw: Raw, state: str, why: str) -> None:
    found = line(raw)
    assert (found.state, found.why, found.job) == (state, why, "a")


def test_what_others_write_cannot_control_the_terminal() -> None:
    assert line(waiting("a", "\x1b]0;owned\x07")).why == " ]0;owned "
    assert line(waiting("a\x1b[2J")).job == "a [2J"


def changes(*found: tuple[Callable[[Raw], object], Raw]) -> list[RecordChange]:
    kinds = {queue: "queue", line: "line"}
    return [
        RecordChange(kinds[make], made.key, made)  # type: ignore[index,attr-defined,arg-type]
        for make, made in ((make, make(raw)) for make, raw in found)
    ]


def board(*found: tuple[Callable[[Raw], object], Raw]) -> Board:
    made = Board()
    made.apply(changes(*found))
    return made


def test_the_workloads_of_a_queue() -> None:
    made = board(
        (queue, cluster_queue("cq")),
        (queue, local_queue("main", "cq")),
        (queue, local_queue("other", "cq2")),
        (line, running("r")),
        (line, waiting("w")),
        (line, waiting("x", queue="other")),
        (line, running("moved", queue="gone")),
    )
    assert {each.job for each in made.of_queue(Key("", "cq"))} == {"r", "w", "moved"}
    assert {each.job for each in made.of_queue(Key("team-a", "main"))} == {"r", "w"}
    assert [each.key.name for each in made.shown_queues()] == ["cq"]
    made.apply([RecordChange("queue", Key("", "cq"), None)])
    assert [each.key.name for each in made.shown_queues()] == ["main", "other"]


def test_a_line_is_in_the_order_of_the_queue() -> None:
    lines = [line(each) for each in (waiting("b"), waiting("a", priority=5), running("r"), waiting("c"))]
    in_order = sorted(lines, key=by_line({}))
    assert [each.job for each in in_order] == ["r", "a", "b", "c"]
    positions = {Key("team-a", "job-c"): 1, Key("team-a", "job-b"): 2, Key("team-a", "job-a"): 3}
    assert [each.job for each in sorted(lines, key=by_line(positions))] == ["r", "c", "b", "a"]


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from(["main", "other", ""]), st.booleans())))
def test_the_index_follows_every_change(steps: list[tuple[str, str, bool]]) -> None:
    made = Board()
    made.apply(changes((queue, local_queue("main", "cq")), (queue, local_queue("other", "cq"))))
    for name, place, gone in steps:
        record = line(waiting(name, queue=place))
        made.apply([RecordChange("line", record.key, None if gone else record)])
        made._check()
    of_cq = {each.key for each in made.of_queue(Key("", "cq"))}
    assert of_cq == {each.key for each in made.lines.values() if each.queue}
    assert all(isinstance(each, WorkloadRecord) for each in made.lines.values())
