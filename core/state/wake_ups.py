"""Parked workloads that will be decided again, because quota or anything else that they wait for has changed.

They are woken twice. Late, when their arena has no heads left and no victim in it is still stopping, at the latest
after a second, which is when Kueue wakes them: what was parked in the meantime is decided once more, and a search for
flavors that continues where it stopped may then have another reason. And early, before the next cycle: otherwise
workloads that have just arrived, or are behind them in their queue, would get the released quota first, and those of
lower priority would be preempted immediately afterwards. If quota is released in every cycle, the heads that come after
the woken ones would never be decided: so between two early times there is one cycle more each time, until the arena has
no heads. Those that fit in the free quota are woken before every cycle: they start, and so delay nobody without end. As
in Kueue, three things still come first: a preemptor whose victims have just stopped, a head that waited only for pods
to become ready, and the head of a StrictFIFO queue.
Separate from ``core.state.state``, which knows these times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from core.quota.demand import Demand
from core.quota.node import QueueNode

MAX_WAIT = 1.0
"""Seconds after which parked workloads are woken regardless of their arena."""
_WakeUps = dict[str, set[str] | None]


class WakeUps:
    """By ClusterQueue: the resources that became free (None: anything may have changed), and since when that waits."""

    def __init__(self) -> None:
        self._late: _WakeUps = {}
        self._early: _WakeUps = {}
        self._offers: _WakeUps = {}
        self._since: dict[str, float] = {}
        self._woken: dict[str, tuple[int, int]] = {}
        """By arena: the cycle for which it was last woken early, and how often since it had no heads."""

    def __bool__(self) -> bool:
        """Whether any workload will be woken, now or later."""
        return bool(self._late)

    def add(self, name: str, resources: set[str] | None) -> None:
        """Registers the workloads in the arena of this ClusterQueue that wait for one of the resources."""
        _add(self._late, name, resources)
        _add(self._early, name, resources)
        _add(self._offers, name, resources)

    def add_late(self, name: str, resources: set[str]) -> None:
        """As ``add``, for workloads that would not be woken before the next cycle in Kueue either."""
        _add(self._late, name, resources)

    def late(self, now: float, arena_of: Mapping[str, str], busy: Set[str | None]) -> _WakeUps:
        """Removes and returns what must be woken late now, by arena; ``busy`` arenas have heads or leaving victims."""
        due = [
            name
            for name in sorted(self._late)
            if arena_of.get(name) not in busy or now >= self._since.setdefault(name, now) + MAX_WAIT
        ]
        for name in due:
            self._since.pop(name, None)
            self._early.pop(name, None)
            self._offers.pop(name, None)
        found = _by_arena(self._late, due, arena_of)
        for arena in found.keys() - busy:
            self._woken.pop(arena, None)
        return found

    def early(self, cycle: int, arena_of: Mapping[str, str], busy: Set[str | None]) -> _WakeUps:
        """Removes and returns what must be woken early now, by arena; in ``busy`` arenas something comes first."""
        due = [
            name
            for name in sorted(self._early)
            if (arena := arena_of.get(name)) is not None and arena not in busy and self._rested(arena, cycle)
        ]
        return _by_arena(self._early, due, arena_of)

    def offers(self, arena_of: Mapping[str, str], busy: Set[str | None]) -> _WakeUps:
        """Removes and returns the resources that are offered to those that fit, by arena."""
        due = [name for name in sorted(self._offers) if (arena := arena_of.get(name)) is not None and arena not in busy]
        return _by_arena(self._offers, due, arena_of)

    def woke(self, arena: str, cycle: int) -> None:
        """Records that workloads of the arena were woken early for this cycle."""
        _, times = self._woken.get(arena, (0, 0))
        self._woken[arena] = cycle, times + 1

    def _rested(self, arena: str, cycle: int) -> bool:
        """Whether enough cycles have passed since the arena was last woken early: one more each time."""
        last, times = self._woken.get(arena, (cycle, -1))
        return cycle - last > times

    def next(self) -> float | None:
        """Returns the latest time at which the first must be woken; None if there is none."""
        return min(self._since.values()) + MAX_WAIT if self._since else None


def fits(node: QueueNode, demand: Demand) -> bool:
    """Whether the free quota of a ClusterQueue may be enough: for each resource in one flavor for the largest pod set,
    and in all flavors for all pod sets, regardless of which flavors the pods may use. Never false for a workload that
    fits: what does not count as fitting waits for an early or late time.
    """
    for resource, (largest, together) in demand.least.items():
        free = [max(0, node.available(fr)) for fr in node.quotas if fr.resource == resource]
        if free and (max(free) < largest or sum(free) < together):  # a resource without quota may be ignored
            return False
    return True


def _add(found: _WakeUps, name: str, resources: set[str] | None) -> None:
    old = found.get(name, set())
    found[name] = None if old is None or resources is None else old | resources


def _by_arena(waiting: _WakeUps, due: Iterable[str], arena_of: Mapping[str, str]) -> _WakeUps:
    """Removes what is due; returns it by arena."""
    found: _WakeUps = {}
    for name in due:
        resources, arena = waiting.pop(name), arena_of.get(name)
        if arena is not None:
            _add(found, arena, resources)
    return found
