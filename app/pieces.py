"""Runs what takes long in pieces, so that it delays nobody on the event loop, and admission calls least."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Final, TypeVar

PIECE_SECONDS: Final = 0.000_25
TURNS: Final = 20
"""While admission calls are answered, a piece waits for so many turns of the event loop: a call takes five."""
_Result = TypeVar("_Result")


class CallsInFlight:
    """How many admission calls are answered now; each is a context."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1


CALLS: Final = CallsInFlight()
"""Those of this process, which has one event loop."""


async def after_calls() -> None:
    """Leaves the event loop to others for a turn, and while admission calls are answered for some more."""
    await asyncio.sleep(0)
    for _ in range(TURNS):
        if not CALLS.count:
            return
        await asyncio.sleep(0)


async def in_pieces(steps: Generator[None, None, _Result]) -> _Result:
    """Runs steps to their end, and after some of them leaves the event loop to others for as long as these took: as CPU
    time, because a step that had to wait for a processor has left it to others already.
    """
    try:
        started = time.thread_time()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: _Result = end.value
                return found
            if (taken := time.thread_time() - started) > PIECE_SECONDS:
                await asyncio.sleep(taken)
                await after_calls()
                started = time.thread_time()
    finally:
        steps.close()
