"""Waiting for what a real socket or process will bring: by condition, never by a guessed time."""

import asyncio
import time
from collections.abc import Callable


async def eventually(condition: Callable[[], object], *, within: float = 10.0) -> None:
    """Return as soon as the condition holds; ``TimeoutError`` after ``within`` seconds.

    It is looked at less often in a long wait, and if a look takes long: others need the processor.
    """
    began = time.monotonic()
    async with asyncio.timeout(within):
        while True:
            asked = time.monotonic()
            if condition():
                return
            now = time.monotonic()
            await asyncio.sleep(max(0.002, now - asked, min(0.1, (now - began) / 20)))
