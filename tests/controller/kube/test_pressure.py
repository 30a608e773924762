"""The pressure on the API server, and the turns of deferrable writes."""

import asyncio
import contextlib
from collections import Counter

import pytest

from controller.kube.flow.budget import Budget
from controller.kube.flow.limits import BUSY_SECONDS, CROWDED_SECONDS, LONGEST_SECONDS, URGENT_SECONDS
from controller.kube.flow.pressure import Pressure
from tests.eventually import PATIENCE


class Clock:
    """A clock that only a test, or a sleep of the code under test, moves on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def wrote(pressure: Pressure, seconds: float, times: int = 50, kind: str = "patch") -> None:
    for _ in range(times):
        pressure.wrote(kind, seconds)


def test_an_idle_api_server_causes_no_interval(clock: Clock) -> None:
    pressure = Pressure(clock)
    assert pressure.interval == 0
    wrote(pressure, 0.004)
    assert pressure.interval == pytest.approx(0, abs=1e-6)


def test_the_interval_grows_faster_than_the_latency(clock: Clock) -> None:
    intervals = []
    for latency in (0.004, 0.008, 0.016, 0.032):
        pressure = Pressure(clock)
        wrote(pressure, 0.004)
        wrote(pressure, latency)
        intervals.append(pressure.interval)
    assert intervals[0] < intervals[1] < intervals[2] / 3 < intervals[3] / 12


def test_kinds_of_writes_that_usually_take_long_are_no_pressure(clock: Clock) -> None:
    pressure = Pressure(clock)
    for _ in range(50):
        pressure.wrote("patch", 0.004)
        pressure.wrote("create", 0.019)
    assert pressure.slowdown == pytest.approx(1)


def test_a_process_that_starts_at_a_busy_api_server_notices(clock: Clock) -> None:
    pressure = Pressure(clock)
    wrote(pressure, 0.2)
    assert pressure.slowdown > 5


def test_an_answer_429_is_pressure(clock: Clock) -> None:
    pressure = Pressure(clock)
    wrote(pressure, 0.004)
    pressure.refused()
    assert pressure.interval > 0.05


def test_deferrable_writes_are_made_five_times_a_second_however_slow_the_api_server_is(clock: Clock) -> None:
    pressure = Pressure(clock)
    wrote(pressure, 0.004)
    wrote(pressure, 2.0)
    assert pressure.slowdown > 100 and pressure.interval == 1 / 5


def test_pressure_is_forgotten_within_a_second_or_two_without_writes(clock: Clock) -> None:
    pressure = Pressure(clock)
    wrote(pressure, 0.004)
    wrote(pressure, 0.06)
    before = pressure.interval
    clock.now += 1
    assert before == LONGEST_SECONDS and pressure.interval < before / 40


def test_few_slow_writes_are_noticed_as_well_as_many(clock: Clock) -> None:
    pressure = Pressure(clock)
    wrote(pressure, 0.004)
    for _ in range(3):
        clock.now += 1
        pressure.wrote("patch", 0.06)
    assert pressure.slowdown > 10


def test_the_idle_latency_of_a_slower_api_server_is_learned_after_two_windows(clock: Clock) -> None:
    pressure = Pressure(clock)
    wrote(pressure, 0.004)
    for _ in range(3):
        clock.now += 301
        wrote(pressure, 0.012)
    assert pressure.slowdown < 1.5


async def _turns(budget: Budget, clock: Clock, lanes: dict[str, int], soon: str = "") -> list[tuple[str, float]]:
    """Takes that many turns of each lane; returns the turns in order, with their times. The lane ``soon`` is urgent."""
    taken: list[tuple[str, float]] = []

    async def one(lane: str) -> None:
        async with budget.turn(lane, soon=lane == soon):
            taken.append((lane, clock()))

    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        for lane, count in lanes.items():
            for _ in range(count):
                group.create_task(one(lane))
    return taken


async def test_turns_are_taken_at_the_interval(clock: Clock) -> None:
    pressure = Pressure(clock)
    budget = Budget(pressure, clock=clock, sleep=clock.sleep)
    wrote(pressure, 0.004)
    quick = await _turns(budget, clock, {"a": 10})
    wrote(pressure, 0.06)
    slow = await _turns(budget, clock, {"a": 10})
    assert quick[-1][1] - quick[0][1] < 0.01
    assert slow[-1][1] - slow[0][1] > 0.2


async def test_lanes_take_turns_however_many_wait_in_one(clock: Clock) -> None:
    taken = await _turns(Budget(Pressure(clock), clock=clock, sleep=clock.sleep), clock, {"many": 20, "few": 3})
    assert Counter(lane for lane, _ in taken[:6]) == {"many": 3, "few": 3}


async def test_deferrable_writes_are_rare_but_not_stopped_while_admissions_wait(clock: Clock) -> None:
    budget = Budget(Pressure(clock), urgent=lambda: True, clock=clock, sleep=clock.sleep)
    began = clock()
    assert len(await _turns(budget, clock, {"a": 4})) == 4
    assert clock() - began == pytest.approx(3 * URGENT_SECONDS)


async def test_what_is_asked_for_soon_comes_first_and_waits_little_at_a_busy_api_server(clock: Clock) -> None:
    pressure = Pressure(clock)
    budget = Budget(pressure, urgent=lambda: True, clock=clock, sleep=clock.sleep)
    wrote(pressure, 0.004)
    wrote(pressure, 0.06)
    taken = await _turns(budget, clock, {"counts": 6, "conditions": 12}, soon="conditions")
    assert Counter(lane for lane, _ in taken[:15]) == {"conditions": 12, "counts": 3}
    assert taken[14][1] - taken[0][1] <= 20 * BUSY_SECONDS < 3 * URGENT_SECONDS
    assert taken[17][1] - taken[14][1] > 2 * URGENT_SECONDS


async def test_deferrable_writes_are_few_while_many_admission_calls_arrive_and_not_afterwards(clock: Clock) -> None:
    began, end = clock(), clock() + 10 * CROWDED_SECONDS
    budget = Budget(Pressure(clock), crowded=lambda: clock() < end, clock=clock, sleep=clock.sleep)
    taken = [at - began for _, at in await _turns(budget, clock, {"a": 60})]
    assert len([at for at in taken if at < end - began]) <= 11
    assert taken[-1] < 11 * CROWDED_SECONDS


async def test_a_cancelled_turn_keeps_no_place(clock: Clock) -> None:
    budget = Budget(Pressure(clock), clock=clock, sleep=clock.sleep)
    held = asyncio.Event()

    async def hold() -> None:
        async with budget.turn("a"):
            await held.wait()

    tasks = [asyncio.create_task(hold()) for _ in range(8)]
    for _ in range(20):
        await asyncio.sleep(0)
    for task in tasks:  # four have their turn, four wait for it
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert len(await _turns(budget, clock, {"a": 6})) == 6
