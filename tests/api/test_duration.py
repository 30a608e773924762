"""Durations are read and printed as Go does."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("-2s", -2), ("+.5s", 0.5), ("300ms", 0.3), ("1us", 1e-6)],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert duration.parse(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "1d", "h1", "1h-5m", "1e3s", "--1s", "5m\n", "9" * 99 + "h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|longer"):
        duration.parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (5400, "1h30m0s"), (90, "1m30s"), (1.5, "1.5s"), (0.3, "300ms"), (0.0015, "1.5ms"), (-60, "-1m0s")],
)
def test_a_duration_prints(seconds: float, text: str) -> None:
    assert duration.text(timedelta(seconds=seconds)) == text


@given(st.integers(-(10**15), 10**15))
def test_what_is_printed_reads_back(microseconds: int) -> None:
    value = timedelta(microseconds=microseconds)
    assert duration.parse(duration.text(value)) == value
