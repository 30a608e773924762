"""Admission calls have precedence over the controller's writes.

A client that creates a Job waits for the answer; the next admission can wait a moment longer. Both need the same event
loop, and the same processors if the API server is on the same machine: a backlog of ten thousand would use all of them.
So while admission calls arrive, the number of parallel writes is adapted so that the loop runs its timers on time
(additive increase, multiplicative decrease, as for the rate of calls in ``controller.kube.throttle``). A few may
always be in flight: each is answered before the next begins, so admission goes on at the speed of the API server.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

TICK_SECONDS = 0.005
LATE_SECONDS = 0.0015
"""A loop that runs its timers later than this has too much work or no processor. Its timers have a resolution of
milliseconds, so an idle loop can be late by one.
"""
FADING = 0.8
"""A lateness still counts for so much a tick later."""
NARROWEST = 2
"""So many parallel writes are made however late the loop is: on a busy machine it is always late, and a Job needs three
writes, one after the other, until it starts.
"""
WIDENING = 0.05
"""The increase of parallel writes after each punctual tick: ten more after a second."""
WIDEST = 8.0
"""More parallel writes admit no more workloads a second, and overload an API server on the same machine."""
LONGEST_SECONDS = 1.0
"""No write waits longer than this, even if earlier ones are not answered."""
QUIET_SECONDS = 1.0
"""When no call has arrived for this time, writes are made immediately."""


class Precedence:
    """``called()`` for each admission call; each write is made inside ``turn()``. Belongs to one event loop.

    ``late`` is how many seconds the loop has lately been behind its timers, 0 without calls; ``clock`` is monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.late = 0.0
        self._clock = clock
        self._called_at = 0.0
        self._due = 0.0
        self._width = float(NARROWEST)
        self._under_way = 0
        self._watching = False
        self._first = asyncio.Lock()
        self._changed = asyncio.Event()

    @property
    def free(self) -> bool:
        """Whether no admission calls arrive at present."""
        return not self._watching

    def called(self) -> None:
        """Records an admission call."""
        self._called_at = self._clock()
        if not self._watching:
            self._watching, self.late, self._width = True, 0.0, float(NARROWEST)
            self._await_tick()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Context of a write: enters immediately while no calls arrive, else in order of arrival."""
        if self._watching:
            last = self._clock() + LONGEST_SECONDS
            async with self._first:  # the first in the queue looks after each answer and tick, the others wait for it
                while not self._may_begin() and self._clock() < last:
                    self._changed.clear()
                    await self._changed.wait()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._changed.set()

    def _may_begin(self) -> bool:
        return not self._watching or self._under_way < (NARROWEST if self.late > LATE_SECONDS else self._width)

    def _await_tick(self) -> None:
        self._due = self._clock() + TICK_SECONDS
        asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        """Measures how late the loop is, while calls arrive."""
        now = self._clock()
        self.late = max(now - self._due, self.late * FADING)
        late = self.late > LATE_SECONDS
        self._width = max(self._width / 2, NARROWEST) if late else min(self._width + WIDENING, WIDEST)
        if now - self._called_at > QUIET_SECONDS:
            self._watching, self.late = False, 0.0
        else:
            self._await_tick()
        self._changed.set()
