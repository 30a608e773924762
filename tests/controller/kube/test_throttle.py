import asyncio
from contextlib import suppress

from controller.kube.flow.throttle import Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now += seconds


async def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    clock = Clock()
    throttle = Throttle(10, 5, clock=clock, sleep=clock.sleep)
    for _ in range(5):
        await throttle.take()
    assert clock.slept == 0
    for _ in range(20):
        await throttle.take()
    assert round(clock.slept, 6) == 2.0


async def test_no_limit_never_waits() -> None:
    clock = Clock()
    throttle = Throttle(0, 0, clock=clock, sleep=clock.sleep)
    for _ in range(1000):
        await throttle.take()
    throttle.throttled()
    assert clock.slept == 0 and throttle.spare()


async def test_429_halves_the_rate_once_a_second_down_to_a_floor_and_calls_that_pass_raise_it() -> None:
    clock = Clock()
    throttle = Throttle(64, 10, clock=clock, sleep=clock.sleep)
    throttle.throttled()
    throttle.throttled()
    assert throttle.rate == 32
    for _ in range(20):
        clock.now += 1
        throttle.throttled()
    assert throttle.rate == 1
    for _ in range(1000):
        throttle.passed()
    assert throttle.rate == 64


async def test_only_an_unused_burst_is_spare() -> None:
    clock = Clock()
    throttle = Throttle(10, 10, clock=clock, sleep=clock.sleep)
    assert throttle.spare()
    for _ in range(6):
        await throttle.take()
    assert not throttle.spare()
    clock.now += 1
    assert throttle.spare()


async def test_a_call_that_is_given_up_while_it_waits_uses_nothing_of_the_rate() -> None:
    throttle = Throttle(1, 1, clock=lambda: 0.0)
    await throttle.take()
    for _ in range(10):
        with suppress(TimeoutError):
            await asyncio.wait_for(throttle.take(), 0.001)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    throttle._sleep = sleep
    await throttle.take()
    assert waited == [1.0]
