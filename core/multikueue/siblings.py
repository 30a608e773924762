"""The Workloads of the groups of one object, e.g. of a LeaderWorkerSet, which run in one worker: where those with quota
are, and which one is first. An object may have thousands of groups, so each change is counted, and nothing is searched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from api.names import Condition
from core.model import Key, Workload

_SLACK = 64
"""How many turns that are not valid any more a heap may have in addition to as many as there are groups."""


class Turn(NamedTuple):
    """The order of the groups of an object: one that is offered already stays the first."""

    unoffered: bool
    created: float
    key: Key


@dataclass(frozen=True, slots=True)
class _Sibling:
    turn: Turn
    worker: str
    runs: bool
    checks: frozenset[str]
    """Those of a group that counts for the others: it holds quota and goes on."""


class Siblings:
    """Costs the logarithm of the number of groups for each change."""

    def __init__(self, workloads: Iterable[Workload] = ()) -> None:
        self._entries: dict[Key, _Sibling] = {}
        self._placed: Counter[tuple[str, str]] = Counter()
        """How many are in a worker, by check and worker."""
        self._running: Counter[str] = Counter()
        self._turns: dict[str, list[Turn]] = {}
        """Heaps by check, with turns that are not valid any more."""
        for workload in workloads:
            self.set(workload.key, workload)

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, key: Key, workload: Workload | None) -> None:
        """Adds, changes or removes a group."""
        old = self._entries.pop(key, None)
        if old is not None:
            self._count(old, -1)
        if workload is None:
            return
        new = self._entries[key] = _entry(workload)
        self._count(new, 1)
        if old is None or (old.turn, old.checks) != (new.turn, new.checks):
            for check in new.checks:
                self._push(check, new.turn)

    def place(self, check: str) -> str:
        """The worker in which groups with this check run; '' if there is none."""
        return min((worker for (of, worker), count in self._placed.items() if of == check and count), default="")

    def placed_without(self, key: Key) -> bool:
        """Whether another group than this one is in a worker."""
        mine = self._entries.get(key)
        own = len(mine.checks) if mine is not None and mine.worker else 0
        return self._placed.total() > own

    def first(self, check: str) -> Turn | None:
        """The turn of the first group with this check."""
        turns = self._turns.get(check, [])
        while turns:
            entry = self._entries.get(turns[0].key)
            if entry is not None and entry.turn == turns[0] and check in entry.checks:
                return turns[0]
            heappop(turns)
        return None

    def runs_in(self, worker: str, *, without: Key) -> bool:
        """Whether another group than this one holds quota for its pods in a worker."""
        mine = self._entries.get(without)
        own = mine is not None and mine.runs and mine.worker == worker
        return self._running[worker] > own

    def _push(self, check: str, turn: Turn) -> None:
        """Adds a turn; removes those that are not valid any more when they are more than half."""
        turns = self._turns.setdefault(check, [])
        heappush(turns, turn)
        if len(turns) > 2 * len(self._entries) + _SLACK:
            turns[:] = [each.turn for each in self._entries.values() if check in each.checks]
            heapify(turns)

    def _count(self, entry: _Sibling, by: int) -> None:
        for check in entry.checks if entry.worker else ():
            self._placed[check, entry.worker] += by
        if entry.runs:
            self._running[entry.worker] += by


def turn(workload: Workload) -> Turn:
    """The turn of a group among those of its object."""
    return Turn(not workload.nominated, workload.created, workload.key)


def _entry(workload: Workload) -> _Sibling:
    over = workload.holds(Condition.EVICTED) or workload.holds(Condition.FINISHED)
    holds = workload.holds(Condition.QUOTA_RESERVED) and not over
    checks = frozenset(each.name for each in workload.checks) if holds and not workload.deleting else frozenset[str]()
    return _Sibling(turn(workload), workload.cluster_name, holds and bool(workload.cluster_name), checks)
