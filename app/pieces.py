"""Runs what takes long in pieces, so that it delays nobody on the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Final, TypeVar

PIECE_SECONDS: Final = 0.000_25
_Result = TypeVar("_Result")


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
                started = time.thread_time()
    finally:
        steps.close()
