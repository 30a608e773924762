"""What a report shows, added up from sums that the store has made: use over time, fairness, idle quota.

Separate from the queries, which only add up what has the same first and last part of the window: how much of it is in
each part between is computed here, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from core.model import FlavorResource

MOST_PARTS: Final = 1_000
_NICE: Final = (60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86400.0, 7 * 86400.0)


class Window(NamedTuple):
    """A time from ``start`` to ``end``, in parts of ``step`` seconds; the last may be shorter."""

    start: float
    end: float
    step: float

    @property
    def parts(self) -> int:
        """The number of parts."""
        return max(1, math.ceil((self.end - self.start) / self.step))

    def part(self, number: int) -> tuple[float, float]:
        """Returns when a part begins and ends."""
        begins = self.start + number * self.step
        return begins, min(begins + self.step, self.end)


class Spans(NamedTuple):
    """Spans of time of one group that begin in the part ``first`` and end in the part ``last``, added up: their
    weights, and these times when they begin and end, in seconds since the start of the window.
    """

    group: str
    flavor: str
    resource: str
    first: int
    last: int
    weight: float
    begins: float
    ends: float


SeriesByGroup = Mapping[tuple[str, FlavorResource], Sequence[float]]
"""By group, flavor and resource: for each part of a window the amount times seconds."""


def window(since: float, until: float, parts: int = 60) -> Window:
    """Returns the time in parts of a round length, about as many as wanted."""
    seconds = max(until - since, 1.0)
    step = next((each for each in _NICE if seconds / each <= parts), _NICE[-1])
    return Window(since, until, max(step, seconds / MOST_PARTS))


def series(sums: Iterable[Spans], over: Window) -> dict[tuple[str, FlavorResource], list[float]]:
    """Returns how much of each part is filled."""
    found: dict[tuple[str, FlavorResource], list[float]] = {}
    most = over.parts - 1
    for each in sums:
        mine = found.setdefault((each.group, FlavorResource(each.flavor, each.resource)), [0.0] * over.parts)
        first, last = (min(max(number, 0), most) for number in (each.first, each.last))
        if first == last:
            mine[first] += each.ends - each.begins
            continue
        mine[first] += each.weight * (over.part(first)[1] - over.start) - each.begins
        for number in range(first + 1, last):
            mine[number] += each.weight * over.step
        mine[last] += each.ends - each.weight * (over.part(last)[0] - over.start)
    return found


def total(found: SeriesByGroup, group: str) -> dict[FlavorResource, float]:
    """Returns what a group used in the whole window, in amounts times hours."""
    return {fr: sum(parts) / 3600.0 for (name, fr), parts in found.items() if name == group}


def fairness(
    used: SeriesByGroup, entitled: Mapping[str, float] | None, waited: SeriesByGroup, over: Window
) -> list[float | None]:
    """Returns Jain's index of each part: 1 if all groups that used quota or waited for it had equally much of what they
    are ``entitled`` to (None: all are entitled to the same), 1/n if one of n had all. None if fewer than two did.

    What a group had is its largest share of a resource, of all that was used of it.
    """
    groups = sorted({name for name, _ in (*used, *waited) if entitled is None or entitled.get(name, 0.0) > 0})
    return [_index(_shares(used, entitled, waited, groups, number)) for number in range(over.parts)]


def _shares(
    used: SeriesByGroup, entitled: Mapping[str, float] | None, waited: SeriesByGroup, groups: Sequence[str], number: int
) -> list[float]:
    resources = sorted({fr.resource for _, fr in used})
    totals = {r: sum(parts[number] for (_, fr), parts in used.items() if fr.resource == r) for r in resources}
    mine: dict[str, dict[str, float]] = {name: {} for name in groups}
    for (name, fr), parts in used.items():
        if name in mine and totals[fr.resource] > 0:
            mine[name][fr.resource] = mine[name].get(fr.resource, 0.0) + parts[number] / totals[fr.resource]
    waiting = {name for (name, _), parts in waited.items() if parts[number] > 0}
    found = []
    for name in groups:
        share = max(mine[name].values(), default=0.0)
        if share > 0 or name in waiting:
            found.append(share / (entitled[name] if entitled is not None else 1.0))
    return found


def _index(shares: Sequence[float]) -> float | None:
    squares = sum(each * each for each in shares)
    if len(shares) < 2 or not squares:
        return None
    return sum(shares) ** 2 / (len(shares) * squares)


class Idle(NamedTuple):
    """The nominal quota of a tree of cohorts, or of a ClusterQueue without one, and what nobody used of it; in amounts
    times hours.
    """

    name: str
    flavor: str
    resource: str
    nominal: float
    idle: float


def idle(nominal: SeriesByGroup, used: SeriesByGroup) -> list[Idle]:
    """Returns the idle quota by tree; the groups of both are paths of cohorts, or ClusterQueues without one. What one
    part lacks is not made up by another: quota was idle in a part if less was used than there was.
    """
    had, took = _by_tree(nominal), _by_tree(used)
    found = []
    for (name, fr), parts in sorted(had.items()):
        other = took.get((name, fr), [0.0] * len(parts))
        left = sum(max(0.0, mine - its) for mine, its in zip(parts, other, strict=True))
        found.append(Idle(name, *fr, sum(parts) / 3600.0, left / 3600.0))
    return found


def _by_tree(found: SeriesByGroup) -> dict[tuple[str, FlavorResource], list[float]]:
    added: dict[tuple[str, FlavorResource], list[float]] = {}
    for (path, fr), parts in found.items():
        tree = path.partition("/")[0]
        before = added.get((tree, fr))
        added[tree, fr] = list(parts) if before is None else [a + b for a, b in zip(before, parts, strict=True)]
    return added
