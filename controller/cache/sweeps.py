"""Sweeps: what one edit means for many objects, done in steps of the event loop.

A LimitRange, a flavor or a ClusterQueue that is edited concerns tens of thousands of Workloads. Each such edit begins a
sweep with a name. However often the same object is edited, its sweep waits at most once, and the sweeps in progress
take turns with each step: an object that is edited every second delays no sweep of another one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator

from controller.kube.log import get_logger

Begin = Callable[[], Iterator[None]]
"""Begins a sweep: it looks up its objects only then, and yields before a step takes a millisecond."""

AT_ONCE = 8
"""Sweeps in progress: each may hold the keys of all objects, so their number is limited."""

log = get_logger(__name__)


class Sweeps:
    """``add`` sweeps by name; ``run`` in one task."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, Begin] = OrderedDict()
        self._running: OrderedDict[Hashable, Iterator[None]] = OrderedDict()
        """The sweeps in progress; the one whose turn is next comes first."""
        self._again: dict[Hashable, Begin] = {}
        """The sweeps in progress that were added meanwhile: the rest is done by the newest rules, and then all again.
        Were they begun anew at once, the last objects would never be reached.
        """
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        """How many sweeps are in progress or wait."""
        return len(self._running) + len(self._waiting) + len(self._again)

    def add(self, name: Hashable, begin: Begin) -> None:
        """Adds a sweep; one of this name that waits is replaced in its place, one in progress is repeated at its
        end.
        """
        (self._again if name in self._running else self._waiting)[name] = begin
        self._woken.set()

    async def run(self) -> None:
        """Takes steps until cancelled; admission calls and watches come between them."""
        while True:
            if self.step():
                await asyncio.sleep(0)
            else:
                self._woken.clear()
                await self._woken.wait()

    def step(self) -> bool:
        """Takes one step of the sweep whose turn it is; returns whether there was one."""
        while self._waiting and len(self._running) < AT_ONCE:
            name, begin = self._waiting.popitem(last=False)
            self._running[name] = begin()
        if not self._running:
            return False
        name, sweep = self._running.popitem(last=False)
        if _goes_on(name, sweep):
            self._running[name] = sweep
        elif name in self._again:
            self._waiting[name] = self._again.pop(name)
        return True


def _goes_on(name: Hashable, sweep: Iterator[None]) -> bool:
    """Takes one step of a sweep; returns whether it has more."""
    try:
        next(sweep)
    except StopIteration:
        return False
    except Exception:  # an object that cannot be read must not end the process
        log.exception("a sweep failed", sweep=str(name))
        return False
    return True
