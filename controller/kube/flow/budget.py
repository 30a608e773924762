"""The budget of writes that can wait.

An admission is written immediately. What people read only later (why a workload waits, the counts of a queue, events)
must not take the API server's time from it: these writes begin at intervals that grow with the latency that all writes
of this process have at present.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable

from controller.kube.flow import limits
from controller.kube.flow.pressure import Pressure

Lanes = OrderedDict[str, deque[asyncio.Future[None]]]
"""By lane, the writes that wait; the lane whose turn is next comes first."""


class Budget:
    """Deferrable writes: each is made inside ``turn``. Lanes (kinds of writes) take turns, each first in, first out.

    Writes that are few, and that the next step of a person or of an admission call depends on, are asked for with
    ``soon``: while any waits, a turn begins at least every ``BUSY_SECONDS``, and three of four turns are theirs. The
    fourth belongs to the other lanes, which may be faster then than without.

    ``urgent`` returns whether admissions wait to be written, ``crowded`` whether many admission calls arrive. Belongs
    to one event loop.
    """

    def __init__(
        self,
        pressure: Pressure,
        *,
        urgent: Callable[[], bool] = lambda: False,
        crowded: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.pressure = pressure
        self.urgent = urgent
        self.crowded = crowded
        self._clock = clock
        self._sleep = sleep
        self._soon: Lanes = OrderedDict()
        self._in_a_row = 0
        self._lanes: Lanes = OrderedDict()
        self._begun_at = float("-inf")
        self._in_flight = 0
        self._pacer: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many writes wait for their turn."""
        return sum(len(turns) for lanes in (self._soon, self._lanes) for turns in lanes.values())

    @property
    def busy(self) -> bool:
        """Whether writes that nobody misses should not be made at present."""
        return self.urgent() or self.pressure.interval >= limits.BUSY_SECONDS

    @contextlib.asynccontextmanager
    async def turn(self, lane: str, *, soon: bool = False) -> AsyncIterator[None]:
        """Context of one write; entered when its lane has its turn and the budget permits a write."""
        turn = asyncio.get_running_loop().create_future()
        (self._soon if soon else self._lanes).setdefault(lane, deque()).append(turn)
        if self._pacer is None or self._pacer.done():
            self._pacer = asyncio.create_task(self._pace(), name="budget")
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():  # else it was cancelled before its turn
                self._in_flight -= 1
                self._ended.set()

    async def _pace(self) -> None:
        """Gives turns until nobody waits for one."""
        while self._soon or self._lanes:
            if self._in_flight >= limits.DEFERRED_AT_ONCE:
                self._ended.clear()
                await self._ended.wait()
            elif (wait := self._begun_at + self._interval() - self._clock()) > 0:
                await self._sleep(min(wait, limits.BUSY_SECONDS))
            else:
                self._next()

    def _interval(self) -> float:
        if self._soon:
            return min(self.pressure.interval, limits.BUSY_SECONDS)
        least = limits.URGENT_SECONDS if self.urgent() else limits.CROWDED_SECONDS if self.crowded() else 0.0
        return max(self.pressure.interval, least)

    def _next(self) -> None:
        lanes = self._soon if self._soon and (self._in_a_row < limits.IN_A_ROW or not self._lanes) else self._lanes
        self._in_a_row = self._in_a_row + 1 if lanes is self._soon else 0
        lane, turns = lanes.popitem(last=False)
        turn = turns.popleft()
        if turns:
            lanes[lane] = turns
        if turn.cancelled():  # the waiting task was cancelled
            return
        self._begun_at = self._clock()
        self._in_flight += 1
        turn.set_result(None)
