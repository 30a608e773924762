"""What runs while something is on ends with it, and begins anew."""

from __future__ import annotations

import asyncio

import pytest

from controller.cache.switch import Switch
from tests.eventually import eventually


async def test_it_runs_from_when_it_is_on_until_it_is_off() -> None:
    switch, runs, ended = Switch(), 0, 0

    async def run() -> None:
        nonlocal runs, ended
        runs += 1
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1

    first = asyncio.create_task(switch.while_on(run))
    await asyncio.sleep(0)
    assert (runs, bool(switch)) == (0, False)
    switch.turn(True)
    await eventually(lambda: runs == 1)
    switch.turn(False)
    switch.turn(True)  # a period that has begun since is another one
    await first
    assert (runs, ended) == (1, 1)
    second = asyncio.create_task(switch.while_on(run))
    await eventually(lambda: runs == 2)
    second.cancel()
    await asyncio.wait([second])
    assert ended == 2


async def test_what_fails_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("broken")

    switch = Switch()
    switch.turn(True)
    with pytest.raises(ValueError, match="broken"):
        await switch.while_on(fails)
