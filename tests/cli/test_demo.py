"""What the demo takes for wrong, and what it narrates, whatever the timing."""

from __future__ import annotations

import pytest

from cli.board import Row, rows
from cli.demo import Look, Story, mistake

TOLD = "insufficient unused quota"


def look(*jobs: str, notes: dict[str, str] | None = None) -> Look:
    """Jobs as ``team-a/name state``."""
    rows = []
    for each in jobs:
        name, _, state = each.partition(" ")
        namespace, _, job = name.partition("/")
        rows.append(Row(namespace, job, state, "", (notes or {}).get(name, "")))
    return Look(rows, [])


EVERYBODY = ("1", "2", "3", "4", "5", "urgent")


@pytest.mark.parametrize(
    "seen",
    [
        look(),
        look("team-a/1 running", "team-a/2 waiting"),
        look("team-a/1 running", "team-a/2 running", "team-a/3 running", "team-b/4 running"),
        look("team-a/1 finished", "team-a/2 running", "team-a/3 running", "team-a/4 running", "team-b/5 running"),
        look("team-a/1 finished", "team-a/2 finished", "team-a/urgent finished"),
    ],
    ids=["nothing yet", "one after the other", "all quota in use", "one ended between two looks", "all ended"],
)
def test_nothing_is_wrong_where_each_job_starts_in_its_turn_however_late_it_is_seen(seen: Look) -> None:
    assert mistake(seen, EVERYBODY) == ""


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [
        (
            look(*(f"team-a/{n} running" for n in range(1, 5))),
            "4 Jobs of team-a run at once: its quota and what it may borrow are enough for 3",
        ),
        (
            look(*(f"team-a/{n} running" for n in range(1, 4)), "team-b/4 running", "team-b/5 running"),
            "5 Jobs run at once: the quota of both teams is enough for 4",
        ),
        (look("team-a/late running", "team-a/urgent waiting"), "late started before its turn"),
        (look("team-a/late finished", "team-a/urgent waiting"), "late started before its turn"),
    ],
)
def test_too_many_jobs_and_one_that_starts_before_its_turn_are_wrong(seen: Look, wrong: str) -> None:
    assert mistake(seen, EVERYBODY) == wrong


def test_a_job_counts_as_waiting_once_its_reason_is_known() -> None:
    story = Story()
    fresh = ("team-a/1 waiting", "team-a/2 waiting")
    assert story.see(look(*fresh)) == [], "it may just have been created"
    assert story.see(look(*fresh, notes={"team-a/1": TOLD})) == [f"team-a/1 waits: {TOLD}"]
    assert story.see(look(*fresh, notes={"team-a/1": TOLD})) == []


def test_an_event_has_the_reason_if_the_workload_has_none() -> None:
    metadata = {"namespace": "team-a", "name": "train", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    job = {"metadata": metadata, "spec": {"suspend": True}}
    about = {"involvedObject": {"kind": "Job", "uid": "u"}}
    events = [about | {"message": f"Waits in ClusterQueue team-a: {TOLD}"}, about | {"message": "Job suspended"}]
    (row,) = rows([job], [], events)
    assert (row.state, row.note) == ("waiting", TOLD)


def test_what_began_and_ended_between_two_looks_is_narrated_in_order() -> None:
    story = Story()
    assert story.see(look("team-a/1 finished")) == ["team-a/1 starts", "team-a/1 finished"]
    assert story.see(look("team-a/1 finished")) == []
