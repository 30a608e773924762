"""Admission calls go before our own writes, and never for long."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from controller.kube.flow.limits import DELAYS, FEWEST, MANY_CALLS, MOST, QUIET_SECONDS, RATE_SECONDS
from controller.kube.flow.precedence import Precedence
from tests.eventually import PATIENCE, eventually


@dataclass
class Clock:
    """Stands still, ``later`` seconds after it began: how long the test itself takes must not matter."""

    later: float = 0.0

    def __call__(self) -> float:
        return 1000.0 + self.later


@dataclass
class Writers:
    """Writes that are under way until they are let go."""

    precedence: Precedence
    begun: int = 0
    begun_first: int = 0
    begun_of: list[str] = field(default_factory=list)
    answers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def come(self, count: int, *, first: bool = False, namespace: str = "ns") -> None:
        """So many more writes are wanted; returns when each that may has begun."""
        self.tasks += [asyncio.create_task(self._write(first, namespace)) for _ in range(count)]
        for _ in range(count + 2):
            await asyncio.sleep(0)

    async def _write(self, first: bool, namespace: str) -> None:
        async with self.precedence.turn(namespace, first=first):
            self.begun += 1
            self.begun_of.append(namespace)
            self.begun_first += first
            await self.answers.acquire()

    async def answer(self, count: int) -> None:
        """So many writes in flight are answered; returns when each that may then has begun."""
        for _ in range(count):
            self.answers.release()
        for _ in range(6 * count):
            await asyncio.sleep(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def precedence(clock: Clock) -> Precedence:
    return Precedence(clock)


@pytest.fixture
async def writers(precedence: Precedence) -> AsyncIterator[Writers]:
    found = Writers(precedence)
    yield found
    await found.answer(len(found.tasks))
    await asyncio.gather(*found.tasks)


async def test_without_admission_calls_all_writes_begin_immediately(precedence: Precedence, writers: Writers) -> None:
    await writers.come(50)
    assert (precedence.free, writers.begun) == (True, 50)


async def test_while_calls_come_the_next_write_begins_when_an_earlier_one_is_answered(
    precedence: Precedence, writers: Writers
) -> None:
    precedence.called()
    await writers.come(MOST + 2)
    assert (precedence.free, writers.begun) == (False, MOST)
    await writers.answer(1)
    assert writers.begun == MOST + 1
    await writers.answer(1)
    assert writers.begun == MOST + 2


async def test_writes_that_use_or_release_quota_begin_before_those_that_came_earlier(
    precedence: Precedence, writers: Writers
) -> None:
    precedence.called()
    await writers.come(MOST + 2)
    await writers.come(2, first=True)
    await writers.answer(2)
    assert (writers.begun, writers.begun_first) == (MOST + 2, 2)
    await writers.answer(2)
    assert writers.begun == MOST + 4


@pytest.mark.parametrize(
    ("calls", "in_flight"),
    [
        pytest.param(10, MOST, id="few calls: a slow API server gets as many writes as it needs to keep up"),
        pytest.param(1000, FEWEST, id="many calls: each would wait for the answers of more writes"),
    ],
)
async def test_the_more_calls_arrive_the_fewer_writes_are_in_flight(
    precedence: Precedence, clock: Clock, writers: Writers, calls: int, in_flight: int
) -> None:
    for _ in range(4 * calls):
        clock.later += 1 / calls
        precedence.called()
    await writers.come(MOST + 2)
    assert writers.begun == in_flight


@pytest.mark.parametrize("calls", [110, 200])
async def test_calls_times_writes_in_flight_stay_below_a_bound(
    precedence: Precedence, clock: Clock, calls: int
) -> None:
    for _ in range(4 * calls):
        clock.later += 1 / calls
        precedence.called()
    assert FEWEST < precedence.at_once < MOST
    assert 0.75 * DELAYS < calls * precedence.at_once <= DELAYS


@pytest.mark.parametrize(("calls", "crowded"), [(MANY_CALLS / 2, False), (MANY_CALLS * 2, True)])
async def test_calls_are_many_while_more_than_so_many_arrive_in_a_second(
    precedence: Precedence, clock: Clock, calls: float, crowded: bool
) -> None:
    assert not precedence.crowded
    for _ in range(int(4 * calls)):
        clock.later += 1 / calls
        precedence.called()
    assert precedence.crowded is crowded
    clock.later += 2 * RATE_SECONDS
    assert not precedence.crowded


async def test_a_write_begins_in_the_end_even_if_no_earlier_one_is_answered(
    precedence: Precedence, writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.kube.flow.limits.LONGEST_WAIT_SECONDS", 0.05)
    precedence.called()
    await writers.come(MOST + 30)

    def all_begun() -> bool:
        precedence.called()
        return writers.begun == MOST + 30

    await eventually(all_begun)


async def test_where_no_write_is_answered_in_time_the_next_to_begin_is_the_one_whose_turn_it_is(
    precedence: Precedence, writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that is slow under one tenant's load delays another tenant by the writes in flight, not by the
    whole patience of its own.
    """
    monkeypatch.setattr("controller.kube.flow.limits.LONGEST_WAIT_SECONDS", 0.05)
    precedence.called()
    await writers.come(MOST)
    await writers.come(5, namespace="many")
    waits = precedence._waiting
    await writers.come(1, namespace="few")
    await writers.come(1, namespace="few", first=True)

    def begun() -> bool:
        precedence.called()
        return len(writers.begun_of) == MOST + 7

    await eventually(begun)
    assert writers.begun_of[MOST] == "few", "the one that goes first"
    assert sorted(writers.begun_of[MOST + 1 : MOST + 3]) == ["few", "many"]
    assert not len(waits)


async def test_writes_that_go_first_do_not_hold_up_the_others_for_ever(
    precedence: Precedence, writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.kube.flow.limits.LONGEST_WAIT_SECONDS", 0.02)
    precedence.called()
    await writers.come(MOST)
    await writers.come(1, namespace="other")

    async def more() -> None:
        while "other" not in writers.begun_of:
            precedence.called()
            await writers.come(2, first=True)
            await asyncio.sleep(0.001)

    async with asyncio.timeout(PATIENCE):
        await more()


@pytest.mark.parametrize("first", [False, True])
async def test_many_writes_for_one_namespace_delay_one_for_another_by_one(
    precedence: Precedence, writers: Writers, first: bool
) -> None:
    precedence.called()
    await writers.come(MOST)
    await writers.come(20, first=first, namespace="many")
    await writers.come(1, first=first, namespace="few")
    await writers.answer(2)
    assert writers.begun_of[MOST:] == ["many", "few"]


async def test_a_while_after_the_last_call_writes_are_free_again(
    precedence: Precedence, clock: Clock, writers: Writers
) -> None:
    precedence.called()
    await writers.come(MOST + 20)
    clock.later = 2 * QUIET_SECONDS
    assert precedence.free
    await writers.answer(1)
    assert writers.begun == MOST + 20


async def test_a_write_that_is_cancelled_while_it_waits_takes_no_turn(precedence: Precedence, writers: Writers) -> None:
    precedence.called()
    await writers.come(MOST + 2)
    cancelled = writers.tasks[MOST]
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    writers.tasks.remove(cancelled)
    await writers.answer(1)
    assert writers.begun == MOST + 1
    await writers.come(1)
    assert writers.begun == MOST + 1, "as many as before are in flight"


async def test_a_turn_that_is_cancelled_as_it_is_given_goes_to_the_next(
    precedence: Precedence, writers: Writers
) -> None:
    precedence.called()
    await writers.come(MOST + 2)
    writers.answers.release()
    while len(precedence._waiting) == 2:  # noqa: ASYNC110 - until the turn is given, before it is taken
        await asyncio.sleep(0)
    cancelled = writers.tasks[MOST]
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    writers.tasks.remove(cancelled)
    for _ in range(6):
        await asyncio.sleep(0)
    assert writers.begun == MOST + 1


async def test_a_turn_inside_a_turn_is_the_same_one(precedence: Precedence, writers: Writers) -> None:
    precedence.called()
    await writers.come(MOST - 1)
    async with precedence.turn():
        async with asyncio.timeout(PATIENCE), precedence.turn():
            pass
        await writers.come(1)
        assert writers.begun == MOST - 1, "the outer one still counts"
    await eventually(lambda: writers.begun == MOST)


async def test_while_a_write_waits_to_be_sent_again_others_begin(precedence: Precedence, writers: Writers) -> None:
    precedence.called()
    waits, sent_again = asyncio.Event(), asyncio.Event()

    async def refused() -> None:
        async with precedence.turn():
            async with precedence.paused():
                waits.set()
                await sent_again.wait()
            await writers.answers.acquire()

    writers.tasks.append(asyncio.create_task(refused()))
    await waits.wait()
    await writers.come(MOST + 1)
    assert writers.begun == MOST
    sent_again.set()
    for _ in range(4):
        await asyncio.sleep(0)
    await writers.answer(1)
    assert writers.begun == MOST, "the one that was refused is in flight again"


async def test_a_pause_outside_of_a_turn_changes_nothing(precedence: Precedence, writers: Writers) -> None:
    precedence.called()
    async with precedence.paused():
        await writers.come(MOST + 1)
    assert writers.begun == MOST
