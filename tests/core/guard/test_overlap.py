"""How long pods that terminate may run beside those that replace them."""

from __future__ import annotations

from collections import Counter
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.guard.grants import NOTHING, Grant
from core.guard.overlap import MOST_AT_ONCE, SHARE, OverlapBudget, Spent, limit, overlap
from core.guard.pods import Accounting, PodShape

ONE, LARGE = PodShape({"cpu": 1000}, frozenset({"main"})), PodShape({"cpu": 4000}, frozenset({"main"}))
MESHED = PodShape({"cpu": 1500}, frozenset({"main", "proxy"}))
FOUR = Grant(4, {"cpu": 4000})


@pytest.mark.parametrize(
    ("living", "leaving", "has", "share"),
    [
        ({ONE: 4}, {}, FOUR, 0.0),
        ({ONE: 3}, {ONE: 1}, FOUR, 0.0),
        ({ONE: 4}, {ONE: 1}, FOUR, 0.25),
        ({ONE: 4}, {ONE: 8}, FOUR, 2.0),
        ({ONE: 6}, {ONE: 1}, FOUR, 0.25),
        ({ONE: 4}, {LARGE: 1}, FOUR, 1.0),
        ({}, {ONE: 2}, NOTHING, 0.5),
    ],
    ids=[
        "nothing terminates",
        "nobody took its place",
        "one of four was replaced",
        "two for each",
        "what lives in excess is another matter",
        "a large one counts by its requests",
        "the quota went to others",
    ],
)
def test_the_part_of_a_job_that_overlaps(
    living: dict[PodShape, int], leaving: dict[PodShape, int], has: Grant, share: float
) -> None:
    assert overlap(living, leaving, has, FOUR) == share


def test_a_job_that_never_had_quota_may_not_overlap() -> None:
    assert overlap({}, {ONE: 1}, NOTHING, NOTHING) == inf


def test_containers_that_others_add_do_not_overlap() -> None:
    """Three pods with a proxy each, and one that terminates and that nobody has replaced."""
    found = overlap({MESHED: 3}, {MESHED: 1}, FOUR, FOUR, accounting=Accounting({"cpu": 500}, frozenset({"main"})))
    assert found == 0.0


def test_a_new_job_has_saved_nothing_up() -> None:
    assert [limit(age, 60.0) for age in (0.0, 200.0, 1200.0, 9999.0)] == [0.0, 10.0, 60.0, 60.0]


def test_time_is_spent_by_the_part_that_overlaps_and_is_forgotten() -> None:
    assert Spent(10.0, at=100.0, share=0.5).until(110.0) == 10.0 + 10 * (0.5 - SHARE)
    assert Spent(10.0, at=100.0).until(1100.0) == 0.0


def test_a_budget_lasts_until_the_limit() -> None:
    budget = OverlapBudget(FOUR, spent=41.0, limit=60.0)
    assert (budget.lasts(1.0), budget.lasts(2.0), budget.lasts(SHARE)) == (20.0, 0.0, inf)
    assert OverlapBudget(FOUR, spent=60.0, limit=60.0).lasts(0.01) == 0.0


@given(st.lists(st.tuples(st.floats(0.1, 100.0), st.floats(0.0, MOST_AT_ONCE)), max_size=40))
def test_no_job_overlaps_for_more_than_its_limit_and_a_part_of_the_time(steps: list[tuple[float, float]]) -> None:
    """Whatever its owner does, if what exceeds the budget is ended."""
    spent, total, now = Spent(), 0.0, 0.0
    for seconds, wanted in steps:
        budget = OverlapBudget(FOUR, spent.until(now), limit(now, 60.0))
        share = min(wanted, budget.share)
        lasts = min(seconds, budget.lasts(share))
        spent = Spent(spent.until(now), now, share)
        total, now = total + share * lasts, now + lasts
        spent = Spent(spent.until(now), now)
        now += seconds - lasts
    assert total <= 60.0 + SHARE * now + 1e-6


def test_shapes_of_which_there_are_none_count_for_nothing() -> None:
    assert overlap(Counter({ONE: 4, LARGE: 0}), Counter({LARGE: 0}), FOUR, FOUR) == 0.0
