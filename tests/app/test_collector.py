"""Garbage is collected, but for what was read at the start."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import weakref
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from app.collector import MANY, PATIENCE, YOUNG, reading, settle, sweep
from tests.eventually import eventually


def test_objects_read_at_the_start_are_frozen_and_the_collector_is_on_again() -> None:
    try:
        with reading():
            assert not gc.isenabled()
            read = [[number] for number in range(1000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() >= len(read)
    finally:
        gc.unfreeze()


def test_garbage_is_collected_again_where_the_start_fails() -> None:
    with pytest.raises(OSError, match="no port"), reading():
        raise OSError("no port")
    assert gc.isenabled()


class Circle:
    """Garbage: it refers to itself."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def settled() -> Iterator[None]:
    before = gc.get_threshold()
    settle()
    yield
    gc.set_threshold(*before)


@contextlib.asynccontextmanager
async def sweeping(quiet: Callable[[], bool], *, patience: float = PATIENCE) -> AsyncIterator[None]:
    task = asyncio.create_task(sweep(quiet, every_seconds=0.001, patience=patience))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.usefixtures("settled")
def test_young_garbage_is_gone_after_a_few_thousand_new_objects() -> None:
    circle = weakref.ref(Circle())
    held = [[number] for number in range(2 * YOUNG)]
    assert circle() is None, f"still there beside {len(held)} objects"


@pytest.mark.usefixtures("settled")
async def test_old_garbage_is_collected_only_when_no_calls_arrive() -> None:
    calling = True
    circle = Circle()
    gc.collect()  # it is an old one now
    left = weakref.ref(circle)
    del circle
    asked = asyncio.Event()

    def quiet() -> bool:
        asked.set()
        return not calling

    async with sweeping(quiet, patience=math.inf):
        for _ in range(3):
            asked.clear()
            await asked.wait()
        assert left() is not None
        calling = False
        await eventually(lambda: left() is None)


@pytest.mark.usefixtures("settled")
async def test_old_garbage_is_collected_in_the_end_although_calls_always_arrive() -> None:
    circle = Circle()
    gc.collect()
    left = weakref.ref(circle)
    del circle
    async with sweeping(lambda: False):
        await eventually(lambda: left() is None)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(("count", "aside"), [(10, False), (MANY, True)])
async def test_many_survivors_of_a_collection_are_not_visited_again(count: int, aside: bool) -> None:
    gc.freeze()  # what other tests left
    try:
        before = gc.get_freeze_count()
        held = [[number] for number in range(count)]
        swept = asyncio.Event()
        gc.callbacks.append(note := lambda phase, info: swept.set() if info["generation"] == 2 else None)
        try:
            async with sweeping(lambda: True):
                await swept.wait()
                await asyncio.sleep(0)
        finally:
            gc.callbacks.remove(note)
        assert (gc.get_freeze_count() - before > len(held)) is aside
    finally:
        gc.unfreeze()
