"""Admission alone, until the controller is part of the process: no caches, so no feedback, and nothing is queued."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from core.lookup import Lookup


class _Nothing:
    """A `Lookup` that knows nothing."""

    synced = False

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class Standby:
    """`app.composition.Controller` that does nothing."""

    def __init__(self) -> None:
        self.lookup = cast(Lookup, _Nothing())
        self.synced = True

    async def run(self) -> None:
        """Wait to be cancelled."""
        await asyncio.Event().wait()
