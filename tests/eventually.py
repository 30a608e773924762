"""Waiting for what a real socket or process will bring: by condition, never by a guessed time."""

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], object], *, within: float = 10.0) -> None:
    """Return as soon as the condition holds; ``TimeoutError`` after ``within`` seconds."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - the condition is the test's, no event tells of it
            await asyncio.sleep(0.002)
