"""Sweeps are merged by name, take turns, and always reach their last object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from controller.cache.sweeps import AT_ONCE, Begin, Sweeps
from tests.eventually import eventually


def sweep(done: list[str], name: str, steps: int) -> Begin:
    """A sweep that records each of its steps."""

    def begin() -> Iterator[None]:
        for number in range(steps):
            done.append(f"{name}{number}")
            yield

    return begin


def to_the_end(sweeps: Sweeps) -> None:
    while sweeps.step():
        pass


def test_a_sweep_that_is_added_repeatedly_before_it_begins_is_done_once_by_what_was_added_last() -> None:
    sweeps, done = Sweeps(), list[str]()
    for number in range(20):
        sweeps.add("limits", sweep(done, f"{number}:", 2))
    assert len(sweeps) == 1
    to_the_end(sweeps)
    assert done == ["19:0", "19:1"]


def test_a_sweep_that_is_added_while_it_is_in_progress_reaches_its_end_and_is_repeated_once() -> None:
    sweeps, done = Sweeps(), list[str]()
    sweeps.add("limits", sweep(done, "a", 3))
    sweeps.step()
    for _ in range(20):
        sweeps.add("limits", sweep(done, "b", 3))
    to_the_end(sweeps)
    assert done == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_an_object_that_is_edited_all_the_time_delays_no_other_sweep() -> None:
    sweeps, done = Sweeps(), list[str]()
    sweeps.add("limits", sweep(done, "limits", 1_000))
    sweeps.step()
    sweeps.add("quota", sweep(done, "quota", 10))
    while "quota9" not in done:
        sweeps.add("limits", sweep(done, "limits", 1_000))
        sweeps.step()
    assert len(done) <= 2 * 10 + 1


def test_only_some_sweeps_are_in_progress_because_each_may_hold_all_keys() -> None:
    sweeps, begun, ended = Sweeps(), set[int](), set[int]()

    def begin(number: int) -> Begin:
        def steps() -> Iterator[None]:
            begun.add(number)
            yield from (None,) * (number % 3)
            ended.add(number)

        return steps

    for number in range(10 * AT_ONCE):
        sweeps.add(number, begin(number))
    while sweeps.step():
        assert len(begun - ended) <= AT_ONCE
    assert ended == set(range(10 * AT_ONCE))


@pytest.mark.parametrize("fails", ["at once", "later"])
async def test_a_sweep_that_fails_does_not_stop_the_others(fails: str) -> None:
    sweeps, done = Sweeps(), list[str]()

    def failing() -> Iterator[None]:
        if fails == "later":
            yield
        raise ValueError

    sweeps.add("failing", failing)
    sweeps.add("following", sweep(done, "", 1))
    task = asyncio.create_task(sweeps.run())
    await eventually(lambda: done == ["0"])
    sweeps.add("failing", sweep(done, "mended", 1))
    await eventually(lambda: done == ["0", "mended0"])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_other_tasks_run_between_the_steps() -> None:
    sweeps, done, others = Sweeps(), list[str](), list[int]()
    sweeps.add("long", sweep(done, "", 50))

    async def other() -> None:
        while len(done) < 50:
            others.append(len(done))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        running = group.create_task(sweeps.run())
        await other()
        running.cancel()
    steps: Callable[[int], int] = lambda place: others[place + 1] - others[place]  # noqa: E731
    assert max(map(steps, range(len(others) - 1))) <= 1
