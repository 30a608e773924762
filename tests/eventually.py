"""Waiting for what a real socket or process will bring: by condition, never by a guessed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE = 240.0
"""Seconds until a test gives up: only a failure takes that long, whatever else the machine does."""
WAIT = ("wait", f"--timeout={PATIENCE:g}s")
"""`kubectl wait`."""


async def eventually(condition: Callable[[], object], *, within: float = PATIENCE) -> None:
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


def until(condition: Callable[[], object], what: str | Callable[[], str] = "") -> None:
    """The same where nothing else runs in this thread; fails with what was waited for, which is asked for then if it is
    a function.
    """
    end = (asked := time.monotonic()) + PATIENCE
    while not condition():
        now = time.monotonic()
        assert now < end, f"not within {PATIENCE:g} s: {what if isinstance(what, str) else what()}"
        time.sleep(max(0.1, now - asked))
        asked = time.monotonic()
