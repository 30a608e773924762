"""How busy the API server is, by the latency of the process's own writes, and the budget of writes that can wait.

An admission is written immediately. What people read only later (why a workload waits, the counts of a queue, events)
must not take the API server's time from it: these writes begin at intervals that grow with the latency that all writes
of this process have at present. Nothing is configured: the same rule makes a hundred writes a second at an idle API
server and a few at a busy one.
"""

import asyncio
import contextlib
import math
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable

SMOOTHING = 0.1
"""The least share of the newest write in an average."""
REFUSED_SLOWDOWN = 50.0
"""An answer 429 counts as a write that was so many times slower than usual."""
RECOVERY_SECONDS = 0.25
"""Without writes, half of the slowdown is forgotten in this time."""
IDLE_WINDOW_SECONDS = 300.0
"""The idle latency is the lowest average of this window and the one before."""
HIGHEST_IDLE_SECONDS = 0.02
"""A process that starts while the API server is busy has not seen it idle: it assumes no higher latency than this."""
UNIT_SECONDS = 0.0025
"""The interval of deferrable writes is this, times slowdown, times slowdown - 1: 5 ms at 2, 50 ms at 5, 0.3 s at 12."""
AT_ONCE = 4
"""Deferrable writes in flight."""
BUSY_SECONDS = 0.05
"""At this interval the API server is busy."""
IN_A_ROW = 3
"""Turns in a row of lanes that come first, while others wait."""
CROWDED_SECONDS = 0.1
"""The least interval of deferrable writes while many admission calls arrive."""
URGENT_SECONDS = 1.0
"""The interval of deferrable writes while admissions wait to be written."""
LONGEST_SECONDS = 0.2
"""The longest interval while no admission waits, however slow the API server is: five writes a second cost it little,
and with fewer the counts of a cluster with many queues would come minutes late.
"""


class _Latency:
    """The latency of one kind of write: its average, and the lowest average of two windows, in seconds."""

    __slots__ = ("average", "lowest", "lowest_before", "since")

    def __init__(self, seconds: float, now: float) -> None:
        self.average = self.lowest = seconds
        self.lowest_before = float("inf")
        self.since = now

    def add(self, seconds: float, now: float) -> None:
        self.average += SMOOTHING * (seconds - self.average)
        if now - self.since > IDLE_WINDOW_SECONDS:
            self.since, self.lowest_before, self.lowest = now, self.lowest, float("inf")
        self.lowest = min(self.lowest, self.average)

    @property
    def idle(self) -> float:
        return min(self.lowest, self.lowest_before, HIGHEST_IDLE_SECONDS)


Lanes = OrderedDict[str, deque[asyncio.Future[None]]]
"""By lane, the writes that wait; the lane whose turn is next comes first."""


class Pressure:
    """``wrote`` after each write, ``refused`` for each answer 429; ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._latencies: dict[Hashable, _Latency] = {}
        self._average = 1.0
        self._at = clock()

    def wrote(self, kind: Hashable, seconds: float) -> None:
        """Records how long a write took from the call to its answer. ``kind``: writes that usually take equally long,
        for example those of one verb and resource.
        """
        now = self._clock()
        latency = self._latencies.setdefault(kind, _Latency(seconds, now))
        latency.add(seconds, now)
        self._add(seconds / max(latency.idle, 1e-4))

    def refused(self) -> None:
        """Records an answer 429."""
        self._add(REFUSED_SLOWDOWN)

    @property
    def slowdown(self) -> float:
        """How many times longer than at an idle API server a write takes at present; 1 if nothing is known."""
        return 1.0 + (self._average - 1.0) * self._kept()

    @property
    def interval(self) -> float:
        """Seconds between the starts of two deferrable writes."""
        slowdown = self.slowdown
        return min(LONGEST_SECONDS, UNIT_SECONDS * slowdown * max(0.0, slowdown - 1.0))

    def _add(self, slowdown: float) -> None:
        before, share = self.slowdown, max(SMOOTHING, 1.0 - self._kept())
        self._average = before + share * (max(1.0, slowdown) - before)
        self._at = self._clock()

    def _kept(self) -> float:
        """The share of the average that is not forgotten yet."""
        return math.exp2((self._at - self._clock()) / RECOVERY_SECONDS)


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
        return self.urgent() or self.pressure.interval >= BUSY_SECONDS

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
            if self._in_flight >= AT_ONCE:
                self._ended.clear()
                await self._ended.wait()
            elif (wait := self._begun_at + self._interval() - self._clock()) > 0:
                await self._sleep(min(wait, BUSY_SECONDS))  # the pressure may fall, or an urgent write come, meanwhile
            else:
                self._next()

    def _interval(self) -> float:
        if self._soon:
            return min(self.pressure.interval, BUSY_SECONDS)
        least = URGENT_SECONDS if self.urgent() else CROWDED_SECONDS if self.crowded() else 0.0
        return max(self.pressure.interval, least)

    def _next(self) -> None:
        lanes = self._soon if self._soon and (self._in_a_row < IN_A_ROW or not self._lanes) else self._lanes
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
