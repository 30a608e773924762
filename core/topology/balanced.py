"""Balanced placement: pods spread evenly over as few domains as possible, for all-to-all communication.

Two levels are looked at: that of the request, and the one below it if slices are still whole there. Separate from
``place`` because it chooses sets of domains, not one after the other. Source: KEP 2724 (balanced placement).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from core.topology.counts import Counts
from core.topology.request import Goal

MOST_STEPS: Final = 50_000
"""Domains to choose from, times those to be chosen: more are not compared with each other."""


class BalancedRoom(NamedTuple):
    """What one domain holds: units, and units beside the leader; None if it cannot hold the leader."""

    domain: int
    units: int
    led: int | None
    pods: int
    entropy: float = 0.0


class Greedy(NamedTuple):
    """The fewest domains that hold everything: those with most room; ``least`` is what the smallest of them holds."""

    domains: int
    least: int


@dataclass(frozen=True, slots=True)
class BalancedChoice:
    """Sibling domains with room, after those that hold less than ``least`` were dropped."""

    least: int
    domains: int
    rooms: Sequence[BalancedRoom]
    below: dict[int, list[BalancedRoom]]


class Share(NamedTuple):
    """A domain that takes so many units, and the leader or not."""

    domain: int
    units: int
    leader: bool


def balanced(counted: Counts, wanted: Goal, need: int, *, leader: bool) -> tuple[int, list[Share]] | None:
    """Returns a level and the shares of its domains; None if the standard rules are to be used."""
    level = wanted.level
    lower = min(level + 1, counted.tree.lowest)
    if lower > wanted.slice_level:  # no slices are whole there
        return None
    best: BalancedChoice | None = None
    for siblings in counted.tree.children[level - 1] if level else (range(counted.tree.size(0)),):
        choice = _choice(counted, level, lower, siblings, need, leader)
        if choice and (best is None or (-choice.least, choice.domains) < (-best.least, best.domains)):
            best = choice
    if best is None:
        return None
    rooms: Sequence[BalancedRoom] = best.rooms
    if lower > level:
        chosen = _subset(sorted(_ordered(rooms), key=lambda room: -room.entropy), best.domains, need, leader)
        rooms = [below for room in chosen for below in best.below[room.domain]]
    again = _greedy(rooms, need, leader)
    if again is None or best.least * again.domains > need:
        return None
    return lower, _shares(_subset(_ordered(rooms), again.domains, need, leader), best.least, need, leader)


def _choice(counted: Counts, level: int, lower: int, siblings: range, need: int, leader: bool) -> BalancedChoice | None:
    """What the siblings offer; None if not everything fits."""
    pool = [below for number in siblings for below in counted.tree.below(level, number, lower)]
    first = _greedy([_room(counted, lower, number) for number in pool], need, leader)
    if first is None:
        return None
    least = min(need // first.domains, first.least)
    if least <= 0:
        return None
    below: dict[int, list[BalancedRoom]] = {}
    rooms: list[BalancedRoom] = []
    for number in siblings:
        kept = [_room(counted, lower, each) for each in counted.tree.below(level, number, lower)]
        kept = [_bounded(room, least) for room in kept if room.units >= least]
        if kept:
            below[number] = kept
            rooms.append(_summed(number, kept) if lower > level else kept[0])
    second = _greedy(rooms, need, leader)
    return BalancedChoice(least, second.domains, rooms, below) if second else None


def _room(counted: Counts, level: int, number: int) -> BalancedRoom:
    led = counted.led.units[level][number] if counted.leads and counted.leads[level][number] else None
    return BalancedRoom(number, counted.plain.units[level][number], led, counted.plain.pods[level][number])


def _bounded(room: BalancedRoom, least: int) -> BalancedRoom:
    """A domain that holds too little beside the leader does not take it."""
    return room if room.led is None or room.led >= least else room._replace(led=None)


def _summed(number: int, rooms: Sequence[BalancedRoom]) -> BalancedRoom:
    units = sum(room.units for room in rooms)
    losses = [room.units - room.led for room in rooms if room.led is not None]
    shares = [room.units / units for room in rooms if room.units]
    entropy = -sum(share * math.log2(share) for share in shares)
    led = units - min(losses) if losses else None
    return BalancedRoom(number, units, led, sum(room.pods for room in rooms), entropy)


def _greedy(rooms: Sequence[BalancedRoom], need: int, leader: bool) -> Greedy | None:
    """Takes the domains with most room first, one of them with the leader; None if not everything fits."""
    taken, least, left = 0, need, need
    pool = list(rooms)
    if leader:
        able = [room for room in pool if room.led is not None]
        if not able:
            return None
        first = _for_leader(able)
        pool.remove(first)
        taken, least, left = 1, first.led or 0, left - (first.led or 0)
    for room in _ordered(pool):
        if left <= 0:
            break
        taken, least, left = taken + 1, min(least, room.units), left - room.units
    return None if left > 0 or not taken else Greedy(taken, least)


def _ordered(rooms: Sequence[BalancedRoom]) -> list[BalancedRoom]:
    """Domains with most room first."""
    return sorted(rooms, key=lambda room: (-room.units, room.pods, room.domain))


def _for_leader(rooms: Sequence[BalancedRoom]) -> BalancedRoom:
    """Of domains that can hold the leader, the one with most room beside it."""
    return min(rooms, key=lambda room: (-(room.led or 0), room.pods, room.domain))


def _subset(rooms: Sequence[BalancedRoom], size: int, need: int, leader: bool) -> list[BalancedRoom]:
    """Exactly so many domains, with the least room that is enough; among equal ones the first that are found.

    Sums of room are built up domain by domain. Of domains that hold the same no more than ``size`` are looked at, and
    only sums that can still be enough. Where that is too much work, the last of the domains with most room is exchanged
    for the smallest that is enough.
    """
    rooms = _few(rooms, size)
    if len(rooms) * size > MOST_STEPS:
        return _exchanged(rooms, size, need, leader)
    largest = list(accumulate((room.units for room in reversed(rooms)), max))[::-1]
    sets: list[dict[tuple[bool, int, int], tuple[BalancedRoom, ...]]] = [{} for _ in range(size + 1)]
    sets[0][not leader, 0, 0] = ()
    for room, most in zip(rooms, largest, strict=True):
        for number in range(size, 0, -1):
            least = need - (size - number) * most
            for (led, held, total), chosen in list(sets[number - 1].items()):
                if held + room.units >= least:
                    sets[number].setdefault((led, held + room.units, total + room.units), (*chosen, room))
                if not led and room.led is not None and held + room.led >= least:
                    sets[number].setdefault((True, held + room.led, total + room.units), (*chosen, room))
    enough = {total: chosen for (led, held, total), chosen in reversed(sets[size].items()) if led and held >= need}
    return list(enough[min(enough)])


def _few(rooms: Sequence[BalancedRoom], size: int) -> list[BalancedRoom]:
    """At most ``size`` of those that hold the same."""
    seen: Counter[tuple[int, int | None]] = Counter()
    found: list[BalancedRoom] = []
    for room in rooms:
        seen[room.units, room.led] += 1
        if seen[room.units, room.led] <= size:
            found.append(room)
    return found


def _exchanged(rooms: Sequence[BalancedRoom], size: int, need: int, leader: bool) -> list[BalancedRoom]:
    first = [_for_leader([room for room in rooms if room.led is not None])] if leader else []
    rest = [room for room in _ordered(rooms) if room not in first]
    chosen = [*first, *rest[: size - len(first)]]
    if leader and size == 1:
        return chosen
    left = need - sum((room.led or 0) if room in first else room.units for room in chosen[:-1])
    last = min((room for room in rest[size - len(first) - 1 :] if room.units >= left), key=lambda room: room.units)
    return [*chosen[:-1], last]


def _shares(rooms: Sequence[BalancedRoom], least: int, need: int, leader: bool) -> list[Share]:
    """Gives each domain the least share, and the rest in order."""
    able = [room for room in rooms if room.led is not None]
    first = _for_leader(able) if leader else None
    left = need - least * len(rooms)
    found: list[Share] = []
    for room in _ordered(rooms):
        leads = room is first
        more = max(0, min(left, (room.led if leads and room.led is not None else room.units) - least))
        left -= more
        found.append(Share(room.domain, least + more, leads))
    return found
