"""Something that is on or off, and what runs only while it is on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Switch:
    """Is off at first. ``turn`` it in the event loop; any number of tasks may wait for it."""

    def __init__(self) -> None:
        self._on = asyncio.Event()
        self._over = asyncio.Event()
        """Set at the end of this period, or of the last one; a period that begins has another."""

    def __bool__(self) -> bool:
        """Whether it is on."""
        return self._on.is_set()

    def turn(self, on: bool) -> None:
        """Turns it on, or off."""
        if on and not self:
            self._over = asyncio.Event()
            self._on.set()
        elif not on:
            self._on.clear()
            self._over.set()

    async def is_on(self) -> None:
        """Returns when it is on."""
        while not self:
            await self._on.wait()

    async def while_on(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs something from when it is on until it is turned off, even if it is on again at once, and returns when
        that was cancelled and has ended. If it ends or fails before, so does this.
        """
        await self.is_on()
        running, over = asyncio.create_task(run()), asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait((running, over), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
        finally:
            running.cancel()
            over.cancel()
            await asyncio.wait((running, over))
            if not running.cancelled() and (error := running.exception()) is not None:
                raise error
