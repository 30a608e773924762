"""The work queue: keys to reconcile, each at most once in the queue and never in two workers, retried with increasing
waits.

Level-triggered work needs no payload: a key that changes ten times while it waits is reconciled once. Namespaces take
turns, so that thousands of changes in one of them do not delay a job in another one.
"""

import asyncio
import heapq
import itertools
import random
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Generic, TypeVar

from controller.kube.log import get_logger
from controller.kube.turns import Turns, namespace_of

K = TypeVar("K", bound=Hashable)

Reconcile = Callable[[K], Awaitable[float | None]]
"""Reconciles one key; returns after how many seconds to repeat it without a change, or None."""

MOST_IN_A_ROW = 16
"""After so many keys that go first, one of the others is taken, if it may be: none waits for ever."""

log = get_logger(__name__)


class WorkQueue(Generic[K]):
    """The namespaces of the keys take turns, or what ``tenant`` returns for a key; within each keys are taken first in,
    first out, or mostly the newest first. Keys that are added again while a worker has them are queued again when it is
    done. Keys that are added with ``first`` are taken before all others, but at most MOST_IN_A_ROW while others wait.

    ``first_seconds`` doubles with each failure of a key up to ``longest_seconds``; each wait is random between half and
    the whole of it. Every operation is O(1), with a delay O(log delayed).
    """

    def __init__(
        self,
        name: str,
        *,
        first_seconds: float = 0.005,
        longest_seconds: float = 960.0,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
        newest_first: bool = False,
        tenant: Callable[[K], Hashable] = namespace_of,
    ) -> None:
        self.name = name
        self.added = 0
        self.retried = 0
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._clock = clock
        self._draw = draw
        self._queued: dict[K, bool] = {}
        """The keys in the queue, with whether they go first."""
        self._first = Turns(tenant, newest_first=newest_first)
        self._ready = Turns(tenant, newest_first=newest_first)
        self._in_hand: dict[K, bool] = {}
        self._again: dict[K, bool] = {}
        self._others_in_hand = 0
        self._in_a_row = 0
        self._most_others = sys.maxsize
        self._failures: dict[K, int] = {}
        self._due: dict[K, float] = {}
        self._due_first: set[K] = set()
        self._heap: list[tuple[float, int, K]] = []
        self._ticket = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._idle: deque[asyncio.Future[None]] = deque()
        self._done = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        """How many keys are in the queue, without those in workers or delayed."""
        return len(self._queued)

    def __contains__(self, key: K) -> bool:
        """Whether a key is in the queue, and not in a worker or delayed."""
        return key in self._queued

    def __iter__(self) -> Iterator[K]:
        """Yields the keys in the queue."""
        return iter(self._queued)

    @property
    def delayed(self) -> int:
        """How many keys wait for their time."""
        return len(self._due)

    @property
    def in_hand(self) -> int:
        """How many keys are being reconciled."""
        return len(self._in_hand)

    def add(self, key: K, *, first: bool = False) -> None:
        """Adds a key unless it is in the queue; a key that a worker has is added again when it is done.

        ``first``: it is taken before the keys that were added without it, also if it is in the queue already.
        """
        queued = self._queued.get(key)
        if self._closed or queued or (queued is not None and not first):
            return
        if queued is None:
            self.added += 1
            if key in self._in_hand:
                self._again[key] = first or self._again.get(key, False)
                return
        else:
            self._ready.discard(key)
        self._queued[key] = first
        (self._first if first else self._ready).add(key)
        self._wake()

    def add_after(self, key: K, seconds: float, *, first: bool = False) -> None:
        """Adds a key after a delay. Of several delays for one key the shortest counts, and ``first`` if one has it."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key, first=first)
            return
        if first:
            self._due_first.add(key)
        due = self._clock() + seconds
        if due >= self._due.get(key, float("inf")):
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._ticket), key))
        self._set_timer()

    def retry(self, key: K, *, first: bool = False) -> float:
        """Adds a key after its backoff, which doubles each time until ``forget``; returns the wait in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.retried += 1
        longest: float = min(self._first_seconds * 2.0 ** min(failures, 40), self._longest_seconds)
        wait = longest * (0.5 + 0.5 * self._draw())
        self.add_after(key, wait, first=first)
        return wait

    def forget(self, key: K) -> None:
        """The key is well: its next failure waits shortest again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often in a row the key has failed."""
        return self._failures.get(key, 0)

    def release_due(self) -> None:
        """Adds every delayed key that is due.

        The timer does this; a test with its own clock calls it.
        """
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                first = key in self._due_first
                self._due_first.discard(key)
                self.add(key, first=first)
        self._set_timer()

    @property
    def outstanding(self) -> int:
        """How many keys are in the queue and in workers, without delayed ones."""
        return len(self) + len(self._in_hand)

    async def at_most(self, count: int) -> None:
        """Returns when no more than ``count`` keys are outstanding."""
        while self.outstanding > count:
            self._done.clear()
            await self._done.wait()

    async def run(self, workers: int, reconcile: Reconcile[K], *, kept: int = 0) -> None:
        """Reconciles keys with that many workers until ``close``, and then the rest of the queue.

        ``kept`` of the workers only take keys that were added with ``first``.
        An exception of ``reconcile`` is logged and retried with backoff; cancellation ends every worker at its next
        await.
        """
        self._most_others = workers - kept
        self._set_timer()
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(self._work(reconcile), name=f"{self.name}-{number}")

    def close(self) -> None:
        """Accepts no more keys, drops delayed ones, and ends ``run`` when the queue is empty."""
        self._closed = True
        self._due.clear()
        self._due_first.clear()
        self._heap.clear()
        self._again.clear()
        if self._timer:
            self._timer.cancel()
            self._timer = None
        for idle in self._idle:
            if not idle.done():
                idle.set_result(None)
        self._idle.clear()

    def drop(self) -> None:
        """Empties the queue, the delays and every backoff: earlier requests are void (leadership was lost)."""
        self._queued.clear()
        self._first.clear()
        self._ready.clear()
        self._due.clear()
        self._due_first.clear()
        self._heap.clear()
        self._again.clear()
        self._failures.clear()
        self._done.set()

    async def _work(self, reconcile: Reconcile[K]) -> None:
        while True:
            while not self._takes():
                if self._closed:  # what is left is taken by the workers that have other keys now
                    return
                idle = asyncio.get_running_loop().create_future()
                self._idle.append(idle)
                await idle
            await self._look(self._take(), reconcile)

    async def _look(self, key: K, reconcile: Reconcile[K]) -> None:
        first = self._in_hand[key]
        try:
            again_in = await reconcile(key)
        except asyncio.CancelledError:
            self._again[key] = True  # interrupted keys come first when work continues
            raise
        except Exception as error:
            wait = self.retry(key, first=first)
            log.warning(
                "reconcile failed", queue=self.name, key=str(key), error=repr(error), retry_seconds=round(wait, 3)
            )
        else:
            self.forget(key)
            if again_in is not None:
                self.add_after(key, again_in, first=first)
        finally:
            self._finalizer_removal(key)

    def _takes(self) -> bool:
        """Whether a worker may take a key now."""
        return bool(self._first) or self._takes_others()

    def _takes_others(self) -> bool:
        return bool(self._ready) and self._others_in_hand < self._most_others

    def _take(self) -> K:
        others = self._takes_others()
        first = bool(self._first) and not (others and self._in_a_row >= MOST_IN_A_ROW)
        self._in_a_row = self._in_a_row + others if first else 0
        key = (self._first if first else self._ready).pop()
        del self._queued[key]
        self._in_hand[key] = first
        self._others_in_hand += not first
        return key

    def _finalizer_removal(self, key: K) -> None:
        self._others_in_hand -= not self._in_hand.pop(key)
        self._done.set()
        first = self._again.pop(key, None)
        if first is not None:
            self.add(key, first=first)

    def _wake(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():  # a cancelled worker's future is done and takes no key
                idle.set_result(None)
                return

    def _set_timer(self) -> None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if not self._heap or self._closed:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # filled before the loop runs: ``run`` sets the timer
            return
        self._timer = loop.call_later(max(0.0, self._heap[0][0] - self._clock()), self.release_due)

    def _check(self) -> None:
        """Asserts that no key is in the queue twice, nor in the queue and in a worker, and that every delay is in the
        heap.
        """
        queued = self._queued.keys()
        assert set(self._first) == {key for key, first in self._queued.items() if first}
        assert set(self._ready) == {key for key, first in self._queued.items() if not first}
        assert len(self._first) + len(self._ready) == len(self), "a key is in the queue twice"
        self._first._check()
        self._ready._check()
        assert not queued & self._in_hand.keys(), "a key in hand is in line"
        assert self._again.keys() <= self._in_hand.keys(), "a key is to come again that nobody holds"
        assert self._others_in_hand == sum(not first for first in self._in_hand.values()) <= self._most_others
        assert self._due_first <= self._due.keys()
        assert {(due, key) for key, due in self._due.items()} <= {(due, key) for due, _, key in self._heap}
