"""How long a job will probably wait, from the waits of others."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from seiretsu.client.estimate import FEWEST, Estimate, Forecast, estimate, forecast, waits

Raw = dict[str, Any]
WAITED = st.floats(0, 1e6)


def test_it_is_the_median_and_the_ninth_tenth_of_what_is_left() -> None:
    assert estimate(0, range(1, 12)) == Estimate(median=6, p90=10, samples=11)
    assert estimate(5, range(1, 12)) == Estimate(median=3, p90=6, samples=7)


def test_too_few_jobs_that_waited_as_long_give_none() -> None:
    assert estimate(0, [1.0] * (FEWEST - 1)) is None
    assert estimate(9, [1.0] * 100) is None


@given(WAITED, st.lists(WAITED))
def test_it_is_never_negative_and_its_half_is_below_its_nine_tenths(waited: float, others: list[float]) -> None:
    found = estimate(waited, others)
    assert found is None or 0 <= found.median <= found.p90 <= max(others) - waited


def admitted(name: str, *, created: str, since: str, queue: str = "main", **more: Any) -> Raw:
    status = {
        "conditions": [{"type": "Admitted", "status": "True", "lastTransitionTime": since}, *more.get("and_", ())]
    }
    return {
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": {"queueName": queue},
        "status": status,
    }


def test_the_waits_are_those_of_the_queue_that_ended_in_an_admission() -> None:
    evicted = {"type": "Evicted", "status": "False"}
    found = [
        admitted("a", created="2026-01-01T00:00:00Z", since="2026-01-01T00:01:00Z"),
        admitted("other queue", created="2026-01-01T00:00:00Z", since="2026-01-01T00:02:00Z", queue="other"),
        admitted("evicted", created="2026-01-01T00:00:00Z", since="2026-01-01T00:09:00Z", and_=(evicted,)),
        {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"queueName": "main"}},
    ]
    assert waits(found, "main") == [60.0]


def test_it_reads_as_a_sentence_with_its_certainty() -> None:
    assert str(Estimate(90, 3000, 12)) == (
        "about 90 s, with 90 % certainty within 50 min (from 12 jobs of this queue that waited at least as long)"
    )


def test_a_forecast_of_the_server_is_shown_with_its_interval() -> None:
    found = forecast({"ageSeconds": 5, "p10Seconds": 300, "p50Seconds": 720, "p90Seconds": 2400})
    assert found == Forecast(720, 300, 2400, 5)
    assert str(found) == "about 12 min (5 min to 40 min)"
    assert str(Forecast(60, None, None, 0)) == "about 60 s"


def test_an_unknown_start_is_no_forecast() -> None:
    assert forecast({"ageSeconds": 5, "unknown": "nothing is known"}) is None
    assert forecast(None) is None
