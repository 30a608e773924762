"""How long a call waits for the event loop's turn while the page has viewers: ``python -m bench.page_turns``.

The process of ``bench.page`` on asyncio's own event loop, of which each turn is measured in CPU time: other programs of
the machine change less of that than of the latencies in ``bench.page``. A call that arrives at any moment waits for
what is left of the turn; the program prints how long at most in 99 and 99.9 of 100 cases, without viewers and with
them, which steps take most, and which is the longest.
"""

from __future__ import annotations

import argparse
import asyncio
import selectors
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from app.collector import reading, settle
from bench.page import SWITCH_SECONDS, churn, cluster, viewing
from bench.report import table

READ_SECONDS: Final = 4.0
"""After the last viewer has begun."""


class TimedSelector(selectors.DefaultSelector):
    """Notes the CPU time between two waits, a turn; and that of its steps, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[float] = []
        self.steps: list[tuple[str, float]] = []
        self._began = time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Waits, between two turns."""
        self.turns.append(time.thread_time() - self._began)
        found = super().select(timeout)
        self._began = time.thread_time()
        return found

    def clear(self) -> None:
        """Forgets what was noted."""
        self.turns.clear()
        self.steps.clear()


def waits(turns: Sequence[float], seconds: float, part: float) -> float:
    """Returns for how long a call waits at most, but for this part of all calls: what is left of the turn in which it
    arrives.
    """
    low, high = 0.0, max(turns)
    for _ in range(40):
        middle = (low + high) / 2
        if sum(turn - middle for turn in turns if turn > middle) / seconds > part:
            low = middle
        else:
            high = middle
    return low


def note_steps(selector: TimedSelector) -> None:
    """Notes each step of the event loop from now on."""
    run = asyncio.events.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        name, began = _name(handle), time.thread_time()
        run(handle)
        selector.steps.append((name, time.thread_time() - began))

    asyncio.events.Handle._run = timed  # type: ignore[method-assign, assignment]


def _name(handle: Any) -> str:
    """The coroutine of a task, and the one that it waits in; else the function."""
    owner: Any = getattr(handle._callback, "__self__", None)
    coroutine = owner.get_coro() if hasattr(owner, "get_coro") else None
    if coroutine is None:
        return str(getattr(handle._callback, "__qualname__", handle._callback))[:50]
    inner = coroutine
    while hasattr(getattr(inner, "cr_await", None), "cr_code"):
        inner = inner.cr_await
    return f"{coroutine.__qualname__}, in {inner.__qualname__}"


async def measure(given: argparse.Namespace, selector: TimedSelector) -> None:
    """Measures without viewers and with them, and prints both."""
    settle()
    with reading():
        made = cluster(given.queues, given.workloads)
    async with made.served() as page:
        assert page.listener.bound is not None
        churning = asyncio.create_task(churn(made, given.queues))
        for viewers in (0, given.viewers) * given.turns:
            looking = await viewing(page.listener.bound.port, viewers) if viewers else None
            while page.hub.viewers < 2 * viewers:  # noqa: ASYNC110 - two topics of each
                await asyncio.sleep(0.2)
            await asyncio.sleep(READ_SECONDS)
            selector.clear()
            await asyncio.sleep(given.seconds)
            show(viewers, selector, given.seconds)
            if looking is not None:
                await looking.communicate(b"")
        churning.cancel()


def show(viewers: int, selector: TimedSelector, seconds: float) -> None:
    """Prints one time of measuring."""
    turns, total, longest, count = selector.turns, dict[str, float](), dict[str, float](), Counter[str]()
    for name, took in selector.steps:
        total[name] = total.get(name, 0.0) + took
        count[name] += 1
        longest[name] = max(longest.get(name, 0.0), took)
    p99, p999 = (waits(turns, seconds, part) * 1e3 for part in (0.01, 0.001))
    print(f"\n{viewers} viewers: a call waits {p99:.2f} ms at p99, {p999:.2f} at p99.9", end="; ")
    print(f"longest turn {max(turns) * 1e3:.1f} ms, {sum(turns) / seconds:.1%} of a core")
    rows = [(name, took / seconds * 1e3, count[name] / seconds, longest[name] * 1e3) for name, took in total.items()]
    rows.sort(key=lambda row: -row[1])
    table("steps", ("", "ms a second", "a second", "longest, ms"), rows[:10])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--workloads", type=int, default=50_000)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0)
    sys.setswitchinterval(SWITCH_SECONDS)
    timed_selector = TimedSelector()
    note_steps(timed_selector)
    loop = asyncio.SelectorEventLoop(timed_selector)
    loop.run_until_complete(measure(parser.parse_args(), timed_selector))
