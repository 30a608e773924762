"""Admission calls go before our own writes.

Whoever creates a Job waits for our answer; the next admission can wait a moment longer. Both want the same event loop,
and where the API server shares our machine the same processors: a backlog of ten thousand takes all there is. So while
admission calls come, each write of ours begins when the loop is punctual, and as many are under way at once as leave
it so (additive increase, multiplicative decrease, as for the rate of calls in ``controller.kube.throttle``).
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

TICK_SECONDS = 0.005
LATE_SECONDS = 0.0015
"""A loop that comes to its timers later than this has too much to do, or no processor to do it on. Its timers count
in milliseconds, so one that has nothing else to do is up to one late."""
FADING = 0.8
"""A lateness still counts for so much a tick later."""
WIDENING = 0.05
"""So many more writes at once may be under way after each punctual tick: ten more after a second."""
WIDEST = 8.0
"""More at once admit no more workloads a second, and arrive at an API server beside us as a crowd."""
LONGEST_SECONDS = 1.0
"""No write waits longer than this, in line or for the loop: we go on, if slowly, whatever else the machine does."""
QUIET_SECONDS = 1.0
"""When no call has come for so long, writes are made as they come."""


class Precedence:
    """``called()`` for each admission call; each write is made inside ``turn()``. Belongs to one event loop.

    ``late`` is how many seconds the loop has lately been behind its timers, 0 while nobody calls; ``clock`` is
    monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.late = 0.0
        self._clock = clock
        self._called_at = 0.0
        self._due = 0.0
        self._width = 1.0
        self._under_way = 0
        self._watching = False
        self._first = asyncio.Lock()

    @property
    def free(self) -> bool:
        """Whether nobody goes before us at the moment."""
        return not self._watching

    def called(self) -> None:
        """An admission call came."""
        self._called_at = self._clock()
        if not self._watching:
            self._watching, self.late, self._width = True, 0.0, 1.0
            self._await_tick()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A write is made inside: at once while no calls come, else first come first served."""
        if self._watching:
            last = self._clock() + LONGEST_SECONDS
            async with self._first:  # the first in line looks at the loop, the others wait for it
                while not self._may_begin() and self._clock() < last:  # noqa: ASYNC110 - the loop itself is looked at
                    await asyncio.sleep(TICK_SECONDS)
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def _may_begin(self) -> bool:
        return not self._watching or (self.late <= LATE_SECONDS and self._under_way < self._width)

    def _await_tick(self) -> None:
        self._due = self._clock() + TICK_SECONDS
        asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        """See how late the loop is, for as long as calls come."""
        now = self._clock()
        self.late = max(now - self._due, self.late * FADING)
        self._width = max(self._width / 2, 1.0) if self.late > LATE_SECONDS else min(self._width + WIDENING, WIDEST)
        if now - self._called_at > QUIET_SECONDS:
            self._watching, self.late = False, 0.0
        else:
            self._await_tick()
