"""Background tasks: the first task to end is reported by name."""

import asyncio

import pytest

from app.tasks import Tasks


async def forever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ConnectionError("the API server is gone")


async def end() -> None:
    return


async def fail_in_parts() -> None:
    async with asyncio.TaskGroup() as parts:
        parts.create_task(forever())
        parts.create_task(fail())


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (fail, "the task 'scheduler' failed: ConnectionError: the API server is gone"),
        (fail_in_parts, "the task 'scheduler' failed: ConnectionError: the API server is gone"),
        (end, "the task 'scheduler' returned"),
    ],
    ids=["by an error", "by an error of a part", "by returning"],
)
async def test_the_first_task_to_end_is_reported_with_its_name_and_reason(work: object, told: str) -> None:
    tasks = Tasks()
    tasks.start("certificates", forever())
    assert callable(work)
    tasks.start("scheduler", work())
    ended = await tasks.ended()
    assert (ended.name, str(ended)) == ("scheduler", told)
    assert await tasks.stop() == []


async def test_tasks_that_are_stopped_have_not_ended_by_themselves() -> None:
    tasks = Tasks()
    tasks.start("certificates", forever())
    waiting = asyncio.create_task(tasks.ended())
    assert await tasks.stop() == []
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_a_task_that_will_not_stop_is_named() -> None:
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    tasks = Tasks()
    tasks.start("stubborn", stubborn())
    await asyncio.sleep(0)
    assert await tasks.stop(seconds=0.01) == ["stubborn"]
    released.set()


async def test_a_name_is_given_once() -> None:
    tasks = Tasks()
    tasks.start("certificates", forever())
    with pytest.raises(ValueError, match="there is a task 'certificates' already"):
        tasks.start("certificates", forever())
    await tasks.stop()
