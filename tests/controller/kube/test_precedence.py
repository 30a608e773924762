"""Admission calls go before our own writes, and never for long."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from controller.kube.precedence import LATE_SECONDS, LONGEST_SECONDS, NARROWEST, QUIET_SECONDS, Precedence
from tests.eventually import eventually


@dataclass
class Clock:
    """Runs as the loop does. ``held_up`` seconds more look to the loop as if something had held it up for so long;
    ``slow`` seconds more with each look, as if something did so all the time.
    """

    held_up: float = 0.0
    slow: float = 0.0

    def __call__(self) -> float:
        self.held_up += self.slow
        return time.monotonic() + self.held_up


@dataclass
class Writers:
    """Writes that are under way until they are let go."""

    precedence: Precedence
    begun: int = 0
    answers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def come(self, count: int) -> None:
        """So many more writes are wanted; returns when each that may has begun."""
        self.tasks += [asyncio.create_task(self._write()) for _ in range(count)]
        for _ in range(count + 2):
            await asyncio.sleep(0)

    async def _write(self) -> None:
        async with self.precedence.turn():
            self.begun += 1
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


async def while_calls_come(precedence: Precedence, condition: Callable[[], bool]) -> None:
    def held() -> bool:
        precedence.called()
        return condition()

    await eventually(held)


async def test_without_admission_calls_all_writes_begin_immediately(precedence: Precedence, writers: Writers) -> None:
    await writers.come(50)
    assert (precedence.free, writers.begun) == (True, 50)


async def test_while_calls_come_few_writes_begin_and_more_as_the_loop_stays_punctual(
    precedence: Precedence, writers: Writers
) -> None:
    precedence.called()
    await writers.come(NARROWEST + 2)
    assert (precedence.free, writers.begun) == (False, NARROWEST)
    await while_calls_come(precedence, lambda: writers.begun == NARROWEST + 2)


async def test_while_the_loop_is_late_the_next_write_begins_when_an_earlier_one_is_answered(
    precedence: Precedence, clock: Clock, writers: Writers
) -> None:
    precedence.called()
    clock.slow = 2 * LATE_SECONDS
    await while_calls_come(precedence, lambda: precedence.late > LATE_SECONDS)
    await writers.come(NARROWEST + 2)
    assert writers.begun == NARROWEST
    await writers.answer(1)
    assert writers.begun == NARROWEST + 1
    await writers.answer(1)
    assert writers.begun == NARROWEST + 2


async def test_a_loop_that_is_always_late_lets_every_write_begin_in_the_end(
    precedence: Precedence, clock: Clock, writers: Writers
) -> None:
    clock.slow = 2 * LATE_SECONDS
    precedence.called()
    await writers.come(5)
    await while_calls_come(precedence, lambda: writers.begun == 5)
    assert precedence.late > LATE_SECONDS


async def test_later_writes_wait_no_longer_than_the_first(
    precedence: Precedence, clock: Clock, writers: Writers
) -> None:
    precedence.called()
    await writers.come(30)
    clock.slow = LATE_SECONDS
    clock.held_up += LONGEST_SECONDS
    await eventually(lambda: writers.begun == 30, within=LONGEST_SECONDS)


async def test_a_while_after_the_last_call_writes_are_free_again(
    precedence: Precedence, clock: Clock, writers: Writers
) -> None:
    precedence.called()
    await writers.come(20)
    clock.held_up = 2 * QUIET_SECONDS
    await eventually(lambda: precedence.free)
    await eventually(lambda: writers.begun == 20)
