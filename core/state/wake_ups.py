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

from collections.abc import Iterable, Iterator, Mapping, Set

from core.quota.arena import Arena
from core.quota.demand import Demand
from core.quota.node import QueueNode, QuotaNode
from core.quota.usage import NOTHING_FREED, Freed

MAX_WAIT = 1.0
"""Seconds after which parked workloads are woken regardless of their arena."""
_WakeUps = dict[str, Freed]


class WakeUps:
    """By ClusterQueue: what became free, and since when that waits."""

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

    def add(self, name: str, freed: Freed) -> None:
        """Registers the workloads in the arena of this ClusterQueue that wait for what became free."""
        _add(self._late, name, freed)
        _add(self._early, name, freed)
        _add(self._offers, name, freed)

    def add_late(self, name: str, freed: Freed) -> None:
        """As ``add``, for workloads that would not be woken before the next cycle in Kueue either."""
        _add(self._late, name, freed)

    def late(self, now: float, arena_of: Mapping[str, str], busy: Set[str | None]) -> dict[str, _WakeUps]:
        """Removes and returns what wakes workloads late now, by arena and ClusterQueue; ``busy`` arenas have heads or
        victims that still hold quota.
        """
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

    def early(self, cycle: int, arena_of: Mapping[str, str], busy: Set[str | None]) -> dict[str, _WakeUps]:
        """Removes and returns what wakes workloads early now, by arena and ClusterQueue; in ``busy`` arenas something
        comes first.
        """
        due = [
            name
            for name in sorted(self._early)
            if (arena := arena_of.get(name)) is not None and arena not in busy and self._rested(arena, cycle)
        ]
        return _by_arena(self._early, due, arena_of)

    def offers(self, arena_of: Mapping[str, str], busy: Set[str | None]) -> dict[str, _WakeUps]:
        """Removes and returns what is offered to those that fit, by arena and ClusterQueue."""
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


def freed_for(arena: Arena, due: Mapping[str, Freed]) -> Iterator[tuple[QueueNode, Freed]]:
    """Yields the ClusterQueues of an arena with what became free for each: quota in its own tree, other room in any."""
    further = any(freed.further for freed in due.values())
    by_tree: dict[QuotaNode, Freed] = {}
    for name, freed in due.items():
        root = arena.queues[name].root()
        by_tree[root] = freed.and_also(by_tree.get(root, NOTHING_FREED))
    for node in arena.queues.values():
        found = by_tree.get(node.root(), NOTHING_FREED)
        if further or found.resources != NOTHING_FREED.resources:
            yield node, Freed(found.resources, further)


def _add(found: _WakeUps, name: str, freed: Freed) -> None:
    old = found.get(name)
    found[name] = freed if old is None else freed.and_also(old)


def _by_arena(waiting: _WakeUps, due: Iterable[str], arena_of: Mapping[str, str]) -> dict[str, _WakeUps]:
    """Removes what is due; returns it by arena."""
    found: dict[str, _WakeUps] = {}
    for name in due:
        freed, arena = waiting.pop(name), arena_of.get(name)
        if arena is not None:
            found.setdefault(arena, {})[name] = freed
    return found
