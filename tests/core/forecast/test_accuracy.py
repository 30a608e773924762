"""Forecasts are judged when a workload starts, and the next ones corrected by how the last ones turned out."""

from __future__ import annotations

import pytest

from api.objects import Key
from core.forecast.accuracy import KEPT, Record
from core.forecast.calibration import FEWEST, Calibration
from core.forecast.newcomers import kind_of, of_newcomers
from core.forecast.run_times import constant
from core.forecast.situation import situation
from core.model.forecast import StartForecast, interval, span
from tests.builders import cluster_queue, put, reserved, state, workload

START = 1_000_000.0


def told(at: float, p10: float, p50: float, p90: float) -> StartForecast:
    return StartForecast(Key("ns", "a"), "q", START + at, p10, p50, p90)


def test_the_first_forecast_that_at_half_of_the_wait_and_the_last_are_judged() -> None:
    record = Record()
    record.add(told(0, 50, 80, 120))
    record.add(told(45, 40, 50, 60))
    record.add(told(90, 20, 25, 30))
    found = list(record.verdicts(START, START + 100))
    assert [(each.moment, each.inside) for each in found] == [("create", True), ("half", True), ("last", False)]
    assert [each.error for each in found] == pytest.approx([0.2, 0.05, 0.15])


def test_a_short_wait_and_one_without_forecast_are_not_judged() -> None:
    record = Record()
    assert list(record.verdicts(START, START + 100)) == []
    record.add(told(0, 1, 2, 3))
    assert list(record.verdicts(START, START + 5)) == []


def test_a_forecast_that_was_late_is_none_of_the_creation() -> None:
    record = Record()
    record.add(told(90, 5, 10, 15))
    assert [each.moment for each in record.verdicts(START, START + 100)] == ["last"]


def test_of_many_forecasts_the_first_and_the_last_are_kept() -> None:
    record = Record()
    for number in range(100):
        record.add(told(number, 10, 20, 30))
    assert len(record._forecasts) <= KEPT
    assert [record._forecasts[0].at, record._forecasts[-1].at] == [START, START + 99]


def test_forecasts_of_other_lengths_are_not_corrected() -> None:
    known = Calibration()
    for _ in range(FEWEST):
        known.add(60.0, 600.0)
    assert known.corrected(told(0, 300, 720, 2400)) == told(0, 300, 720, 2400)


def test_forecasts_that_were_right_are_not_corrected() -> None:
    known = Calibration()
    for _ in range(FEWEST):
        known.add(600.0, 600.0)
    start = told(0, 300, 720, 2400)
    assert known.corrected(start) == start


def test_few_starts_and_short_forecasts_correct_nothing() -> None:
    known = Calibration()
    for _ in range(FEWEST - 1):
        known.add(600.0, 1200.0)
    assert known.corrected(told(0, 300, 720, 2400)) == told(0, 300, 720, 2400)
    known.add(600.0, 1200.0)
    assert known.corrected(told(0, 1, 2, 3)) == told(0, 1, 2, 3)


def test_starts_that_took_twice_as_long_shift_the_next_forecasts_and_spread_widens_them() -> None:
    known = Calibration()
    for number in range(100):
        known.add(500.0, 500.0 + 10 * number)
    corrected = known.corrected(told(0, 500, 500, 500))
    assert corrected.p10 == pytest.approx(600, rel=0.01)
    assert corrected.p50 == pytest.approx(995, rel=0.01)
    assert corrected.p90 == pytest.approx(1391, rel=0.01)


def test_intervals_grow_until_eight_of_ten_starts_are_inside() -> None:
    known = Calibration()
    for _ in range(FEWEST):
        known.add(600.0, 600.0)
    start = told(0, 500, 600, 720)
    for _ in range(20):
        known.judge(600.0, inside=False)
    wider = known.corrected(start)
    assert wider.p10 is not None and wider.p90 is not None and wider.p50 == 600
    assert wider.p10 < 450 and wider.p90 > 850
    for _ in range(10):
        known.judge(600.0, inside=False)
        for _ in range(4):
            known.judge(600.0, inside=True)
    assert known.corrected(start).p90 == pytest.approx(wider.p90)
    for _ in range(200):
        known.judge(600.0, inside=True)
    assert known.corrected(start) == start


def test_a_newcomer_of_each_kind_is_asked_about() -> None:
    found = put(state(cluster_queue("q", 2)), reserved("runs", 2, "q"), workload("a", 1))
    (arena,) = found.reservations.arenas
    asked = of_newcomers(situation(found, arena, START), constant(60.0))
    told = {kind: start.p50 for step in asked if step for kind, start in step}
    large, small = (kind_of(Key("ns", "lq"), 0, found.workloads[Key("ns", name)].pod_sets) for name in ("runs", "a"))
    assert told == {large: 120.0, small: 60.0}, "after the one that waits; beside it"


@pytest.mark.parametrize(
    ("ends", "text"),
    [((300, 720, 2400), "(5 to 40)"), ((30, 720, 2400), "(30 s to 40 min)"), ((5, 10, 90), "(5 to 90)")],
)
def test_an_interval_has_units_where_they_differ(ends: tuple[float, float, float], text: str) -> None:
    assert interval(*ends) == text
    assert span(200_000) == "2 d"
