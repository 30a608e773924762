"""Which time counts: the API server's, however our own clock stands or jumps."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from controller.kube.client import Client
from controller.kube.clock import ServerClock
from controller.kube.errors import Unintelligible
from tests.faults import Answer, FaultProxy
from tests.standin import StandIn

OURS = datetime(2026, 6, 1, tzinfo=UTC)


class Time:
    """Our wall clock, and what has passed."""

    def __init__(self) -> None:
        self.wall = OURS
        self.passed = 0.0

    def clock(self) -> ServerClock:
        return ServerClock(monotonic=lambda: self.passed, own=lambda: self.wall)


def test_before_any_answer_the_local_time_is_used() -> None:
    time = Time()
    assert time.clock().now() == OURS


def test_the_time_of_an_answer_counts_and_then_what_has_passed_since() -> None:
    time = Time()
    clock = time.clock()
    clock.observed("Tue, 02 Jun 2026 10:00:00 GMT")
    time.passed += 30
    time.wall += timedelta(days=300)
    assert clock.now() == datetime(2026, 6, 2, 10, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "date",
    [
        "",
        "yesterday",
        "Tue, 99 Jun 2026 10:00:00 GMT",
        "Tue, 02 Jun 2026 10:00:00",
        "\x00",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Fri, 31 Dec 9999 23:59:59 -2359",
        "Tue, 02 Jun 2026 10:00:00 +99999999999999999999",
        "Tue, 02 Jun 99999999999999999999 10:00:00 GMT",
    ],
)
def test_a_date_that_is_none_changes_nothing(date: str) -> None:
    clock = Time().clock()
    clock.observed(date)
    assert clock.now() == OURS
    clock.observed("Tue, 02 Jun 2026 10:00:00 GMT")
    clock.observed(date)
    assert clock.now() == datetime(2026, 6, 2, 10, tzinfo=UTC)


@pytest.fixture
async def proxy() -> AsyncIterator[FaultProxy]:
    async with FaultProxy(StandIn()) as proxy:
        yield proxy


async def test_the_client_sets_the_clock_from_answers_of_the_api_server_only(proxy: FaultProxy) -> None:
    later = {"Date": "Tue, 02 Jun 2099 10:00:00 GMT"}
    async with Client(proxy.connection) as client:
        proxy.inject(Answer(502, b"<html>", "text/html", later))
        with pytest.raises(Unintelligible):
            await client.raw("/version")
        assert client.clock.now().year < 2099
        proxy.inject(Answer(200, b'{"major": "1"}', "application/json", later))
        await client.raw("/version")
        assert client.clock.now().year == 2099
