"""How long the event loop leaves others waiting: a timer that should ring every two milliseconds, and how late it
is. And how late the machine is itself: the timer of a process that does nothing else.
"""

import asyncio
import multiprocessing
import time
from abc import ABC, abstractmethod
from collections.abc import Generator
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

INTERVAL_SECONDS = 0.002
IDLE_SECONDS = 0.25
"""As often as ``app.probes.Heartbeat`` looks."""


class _Beside(ABC):
    """Measures in a task of its own while the block runs."""

    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._measure())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task
        self._task.cancel()

    @abstractmethod
    async def _measure(self) -> None:
        """Measures until it is cancelled."""


class Lag(_Beside):
    """Measures while the block runs; latenesses in milliseconds."""

    def __init__(self) -> None:
        self._late: list[float] = []

    @property
    def longest_ms(self) -> float:
        """The longest stall so far."""
        return max(self._late, default=0.0)

    def quantile_ms(self, share: float) -> float:
        """The lateness that this share of the rings stayed within."""
        return _quantile(self._late, share)

    async def _measure(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(INTERVAL_SECONDS)
            self._late.append((time.perf_counter() - began - INTERVAL_SECONDS) * 1e3)


class LoopTurns(_Beside):
    """Measures the CPU time of each turn of the event loop while the block runs: how long it keeps every other task
    waiting, whatever else the machine does. The loop never sleeps meanwhile.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def _measure(self) -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            self.seconds.append(time.thread_time() - began)


class Steps:
    """Awaits something, and keeps the CPU seconds of each of its steps on the event loop."""

    def __init__(self, awaited: Any) -> None:
        self.seconds: list[float] = []
        self._awaited = awaited

    def __await__(self) -> Generator[Any, None, Any]:
        error: BaseException | None = None
        while True:
            began = time.thread_time()
            try:
                waits = self._awaited.send(None) if error is None else self._awaited.throw(error)
            except StopIteration as stop:
                return stop.value
            finally:
                self.seconds.append(time.thread_time() - began)
            error = None
            try:
                yield waits
            except BaseException as thrown:
                error = thrown


class Idle:
    """A process beside that does nothing but measure how late it wakes up; latenesses in milliseconds."""

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_wake_up, args=(theirs,), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.join()

    def forget(self) -> None:
        """Measures anew from now on."""
        self._pipe.send(True)
        self._pipe.recv()

    def quantile_ms(self, share: float) -> float:
        """The lateness that this share of the wake-ups stayed within."""
        self._pipe.send(False)
        late: list[float] = self._pipe.recv()
        return _quantile(late, share)


def _wake_up(pipe: Connection) -> None:
    late: list[float] = []
    while True:
        began = time.perf_counter()
        if pipe.poll(IDLE_SECONDS):
            anew = pipe.recv()
            pipe.send(late)
            if anew:
                late = []
        else:
            late.append((time.perf_counter() - began - IDLE_SECONDS) * 1e3)


def _quantile(late: list[float], share: float) -> float:
    ordered = sorted(late)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
