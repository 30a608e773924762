"""The domains of a level in the order of what they hold, kept while that changes.

A search needs the domains with most or with least room, and the smallest that is enough, among ten thousand: sorting
them for each search would cost more than all the rest. Domains that hold the same are one list, in order of their
paths.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

Held = tuple[int, int]
"""Units and pods."""


class Ranking:
    """Domains that hold at least one unit, by number, ordered by units, then pods, then path."""

    __slots__ = ("_held", "_members")

    def __init__(self, units: Sequence[int], pods: Sequence[int]) -> None:
        self._members: dict[Held, list[int]] = {}
        for number, held in enumerate(zip(units, pods, strict=True)):
            if held[0]:
                self._members.setdefault(held, []).append(number)
        self._held = sorted(self._members)

    def move(self, number: int, before: Held, now: Held) -> None:
        """Registers that a domain holds something else. Costs a search, and to move the references behind it."""
        if before[0]:
            members = self._members[before]
            del members[bisect_left(members, number)]
            if not members:
                del self._members[before]
                del self._held[bisect_left(self._held, before)]
        if now[0]:
            if now not in self._members:
                self._members[now] = []
                insort(self._held, now)
            insort(self._members[now], number)

    def ascending(self, units: int = 0) -> Iterator[int]:
        """Yields those with least room first, of those that hold at least so many units."""
        for held in self._held[bisect_left(self._held, (units,)) :]:
            yield from self._members[held]

    def descending(self) -> Iterator[int]:
        """Yields those with most units first; among equal ones those with the fewest pods, then by path."""
        end = len(self._held)
        while end:
            start = bisect_left(self._held, (self._held[end - 1][0],))
            for held in self._held[start:end]:
                yield from self._members[held]
            end = start

    def fullest(self) -> int | None:
        """The first by path of those with most units; None if no domain holds one. Costs a step for each number of pods
        that they hold.
        """
        if not self._held:
            return None
        start = bisect_left(self._held, (self._held[-1][0],))
        return min(self._members[held][0] for held in self._held[start:])
