"""Admission calls have precedence over the controller's writes.

A client that creates a Job waits for the answer; the next admission can wait a moment longer. Both need the same event
loop, and the same processors if the API server is on the same machine: thirty writes at once would use all of them. So
while admission calls arrive, few writes are in flight, and the next begins when one of them is answered: admission goes
on at the speed of the API server. Namespaces take turns: the writes for a tenant who creates jobs all the time delay
those for another one by one write each.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from controller.kube.flow import limits
from controller.kube.turns import Turns


class _Waiting(NamedTuple):
    """A write that waits for its turn."""

    namespace: str
    turn: asyncio.Future[None]


def _namespace(waiting: _Waiting) -> str:
    return waiting.namespace


class Precedence:
    """``called()`` for each admission call; each write is made inside ``turn()``. Belongs to one event loop.

    ``clock`` is monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._called_at = float("-inf")
        self._rate = 0.0
        self._in_flight = 0
        self._in_turn: set[asyncio.Task[object] | None] = set()
        self._waiting: Turns[_Waiting] = Turns(_namespace)
        self._waiting_first: Turns[_Waiting] = Turns(_namespace)

    @property
    def free(self) -> bool:
        """Whether no admission calls arrive at present."""
        return self._clock() - self._called_at > limits.QUIET_SECONDS

    @property
    def crowded(self) -> bool:
        """Whether many admission calls arrive at present."""
        return self._rate_now() > limits.MANY_CALLS

    @property
    def at_once(self) -> int:
        """How many writes may be in flight while calls arrive as often as at present."""
        return int(min(max(limits.DELAYS / max(self._rate_now(), 1.0), limits.FEWEST), limits.MOST))

    def called(self) -> None:
        """Records an admission call."""
        self._rate = self._rate_now() + 1.0 / limits.RATE_SECONDS
        self._called_at = self._clock()

    def _rate_now(self) -> float:
        """Admission calls a second, of which earlier ones count less."""
        return self._rate * math.exp((self._called_at - self._clock()) / limits.RATE_SECONDS)

    @contextlib.asynccontextmanager
    async def turn(self, namespace: str = "", *, first: bool = False) -> AsyncIterator[None]:
        """Context of a write for a namespace: enters immediately while no calls arrive, else namespaces take turns, but
        writes with ``first`` come before all others: they release quota, or use it.

        Inside another one of the same task it enters immediately: who decides what to write in its turn, and not before
        it waits, decides with the newest knowledge.
        """
        task = asyncio.current_task()
        if task in self._in_turn:
            yield
            return
        if self._may_begin():
            self._in_flight += 1
        else:
            await self._wait(self._waiting_first if first else self._waiting, namespace)
        self._in_turn.add(task)
        try:
            yield
        finally:
            self._in_turn.remove(task)
            self._in_flight -= 1
            self._wake()

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Context of a wait in which a write is not in flight: inside a turn, others may begin meanwhile."""
        if asyncio.current_task() not in self._in_turn:
            yield
            return
        self._in_flight -= 1
        self._wake()
        try:
            yield
        finally:
            self._in_flight += 1

    def _may_begin(self) -> bool:
        return self.free or self._in_flight < self.at_once

    async def _wait(self, waiting: Turns[_Waiting], namespace: str) -> None:
        """Returns when this write may begin, and counts it."""
        turn = asyncio.get_running_loop().create_future()
        waiting.add(_Waiting(namespace, turn))
        try:
            overdue = False
            while not turn.done():
                await asyncio.wait([turn], timeout=limits.LONGEST_WAIT_SECONDS)
                if not turn.done():
                    self._next(*([waiting] if overdue else [self._waiting_first, self._waiting]))
                    overdue = True
        except asyncio.CancelledError:
            if not turn.cancel():  # it had just been given a turn: the next one takes it
                self._in_flight -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._may_begin() and self._next(self._waiting_first, self._waiting):
            pass

    def _next(self, *lines: Turns[_Waiting]) -> bool:
        """Lets the first write of these lines begin; returns whether there was one."""
        for waiting in lines:
            while waiting:
                turn = waiting.pop().turn
                if not turn.done():  # else it was cancelled
                    self._in_flight += 1
                    turn.set_result(None)
                    return True
        return False
