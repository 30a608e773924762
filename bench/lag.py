"""How long the event loop leaves others waiting: a timer that should ring every two milliseconds, and how late it
is.
"""

import asyncio
import time
from types import TracebackType
from typing import Self

INTERVAL_SECONDS = 0.002


class Lag:
    """Measures while the block runs; latenesses in milliseconds."""

    def __init__(self) -> None:
        self._late: list[float] = []
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._ring())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task
        self._task.cancel()

    @property
    def longest_ms(self) -> float:
        """The longest stall so far."""
        return max(self._late, default=0.0)

    def quantile_ms(self, share: float) -> float:
        """The lateness that this share of the rings stayed within."""
        late = sorted(self._late)
        return late[min(len(late) - 1, int(len(late) * share))] if late else 0.0

    async def _ring(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(INTERVAL_SECONDS)
            self._late.append((time.perf_counter() - began - INTERVAL_SECONDS) * 1e3)
