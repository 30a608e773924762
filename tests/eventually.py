"""Waiting for what a real socket or process will bring: by condition, never by a guessed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")
PATIENCE = 240.0
"""Seconds until a test gives up: only a failure takes that long, whatever else the machine does."""
WAIT = ("wait", f"--timeout={PATIENCE:g}s")
"""`kubectl wait`."""


def answered(question: Callable[[], Answer]) -> tuple[Answer | None, Exception | None]:
    """The answer; none, and the error, where the question looks into something that is not there yet: a field that is
    written later, or the one item of a list.
    """
    try:
        return question(), None
    except (LookupError, ValueError) as error:
        return None, error


async def eventually(condition: Callable[[], object], *, within: float = PATIENCE) -> None:
    """Return as soon as the condition holds; ``TimeoutError`` after ``within`` seconds. What the condition looks into
    need not be there yet (``answered``).

    It is looked at less often in a long wait, and if a look takes long: others need the processor.
    """
    began = time.monotonic()
    missing = None
    try:
        async with asyncio.timeout(within) as limit:
            while True:
                asked = time.monotonic()
                holds, missing = answered(condition)
                if holds:
                    return
                now = time.monotonic()
                await asyncio.sleep(max(0.002, now - asked, min(0.1, (now - began) / 20)))
    except TimeoutError:
        if not limit.expired():  # it is the condition's own
            raise
        raise TimeoutError(f"not within {within:g} s") from missing


def until(condition: Callable[[], object], what: str | Callable[[], str] = "") -> None:
    """The same where nothing else runs in this thread; fails with what was waited for, which is asked for then if it is
    a function. What the condition looks into need not be there yet (``answered``).
    """
    end = (asked := time.monotonic()) + PATIENCE
    while True:
        holds, missing = answered(condition)
        if holds:
            return
        now = time.monotonic()
        if now > end:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {PATIENCE:g} s: {told}") from missing
        time.sleep(max(0.1, now - asked))
        asked = time.monotonic()
