"""Remembers which workload was preempted for which: victims of one preemptor return together, and no workload is
preempted without end.

Separate from ``core.state.state``, which asks when an arena may be scheduled again and when a victim may be requeued.
Two rules:

- While some victims of a preemptor have stopped and others have not, their arena is not scheduled, for at most
``MAX_PAUSE``. Which of them stops first is not defined, and the first must not be decided as if the others still held
their quota. Kueue has the same effect because it waits up to 0.1 s after a cycle that admitted nothing. If they stop
further apart, those that have stopped are decided as if the others held their quota, and again when each of the others
stops.

- Workloads that preempt each other in a cycle (Kueue's rules allow it) would do so as fast as Jobs can be stopped. A
workload that was preempted for the same workload more than ``ROUNDS_WITHOUT_DELAY`` times in a row waits before it is
requeued, twice as long each time. This changes no decision of preemption that ends without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from core.model import Key

MAX_PAUSE = 1.0
"""Seconds for which an arena is paused at most after the first of several victims has stopped."""
ROUNDS_WITHOUT_DELAY = 5
MAX_DELAY = 3600.0
"""Seconds a workload that is preempted again and again is kept from queueing, at most."""
FORGET_AFTER = 600.0
"""Seconds without another preemption, in addition to the wait itself, after which the rounds of a pair are counted from
zero.
"""


class _Round(NamedTuple):
    """How often a pair has met, and when it did last."""

    times: int
    at: float


class PreemptedWorkloads:
    """The preemptions that State remembers. They are lost with the process, which costs a few more rounds."""

    def __init__(self) -> None:
        self._preemptors: dict[Key, Key] = {}
        """Of victims that still hold quota."""
        self._holding: dict[Key, set[Key]] = {}
        """By preemptor, its victims that still hold quota."""
        self._paused: dict[Key, str] = {}
        """By preemptor whose first victim has stopped, a ClusterQueue of the arena."""
        self._since: dict[Key, float] = {}
        """When that was noticed."""
        self._rounds: dict[Key, dict[Key, _Round]] = {}
        """By victim and preemptor."""
        self._delays: dict[Key, float] = {}
        """Those that are free and have to wait before they queue again: for how many seconds."""

    def add(self, victim: Key, preemptor: Key, now: float) -> None:
        """Records that a workload is evicted for another one."""
        self.discard(victim)
        self._preemptors[victim] = preemptor
        self._holding.setdefault(preemptor, set()).add(victim)
        met = self._rounds.setdefault(victim, {})
        old = met.get(preemptor, _Round(0, now))
        met[preemptor] = _Round(old.times + 1 if now - old.at <= FORGET_AFTER + 2 * _delay(old.times) else 1, now)

    def discard(self, victim: Key) -> Key | None:
        """Records that the workload has stopped; returns the preemptor, if it was a victim."""
        preemptor = self._preemptors.pop(victim, None)
        if preemptor is not None:
            left = self._holding[preemptor]
            left.discard(victim)
            if not left:
                del self._holding[preemptor]
                self._paused.pop(preemptor, None)
                self._since.pop(preemptor, None)
        return preemptor

    def quota_released(self, victim: Key, cluster_queue: str) -> None:
        """Its quota is free, and it queues again."""
        preemptor = self.discard(victim)
        if preemptor is None:
            return
        if preemptor in self._holding:
            self._paused.setdefault(preemptor, cluster_queue)
        seconds = _delay(self._rounds[victim][preemptor].times)
        if seconds:
            self._delays[victim] = seconds

    def forget(self, workload: Key) -> None:
        """The workload is no more."""
        self.discard(workload)
        self._rounds.pop(workload, None)
        self._delays.pop(workload, None)

    def delays(self) -> dict[Key, float]:
        """Removes and returns the workloads that were preempted too often, with the seconds for which they
        must wait.
        """
        found, self._delays = self._delays, {}
        return found

    def paused(self, now: float) -> Iterator[str]:
        """Returns the ClusterQueues whose arenas are paused now."""
        for preemptor, cluster_queue in list(self._paused.items()):
            if now < self._since.setdefault(preemptor, now) + MAX_PAUSE:
                yield cluster_queue
            else:
                del self._paused[preemptor], self._since[preemptor]

    def next(self) -> float | None:
        """Returns the latest time at which the first paused arena is scheduled again."""
        return min((since + MAX_PAUSE for since in self._since.values()), default=None)


def _delay(times: int) -> float:
    return min(2.0 ** min(times - ROUNDS_WITHOUT_DELAY - 1, 64), MAX_DELAY) if times > ROUNDS_WITHOUT_DELAY else 0.0
