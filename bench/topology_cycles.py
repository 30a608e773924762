"""Plays recorded scheduling cycles with topologies: `bench.oracle` with nodes, other pods and second passes.

Separate because two kinds of lines are expected to differ, both because Kueue may put more on a domain than it holds:
those with the tag ``overbooked``, where it did; and those that come out as recorded if, within the cycle, flavors that
share nodes know nothing of each other (docs/topology.md, Differences from Kueue).
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.oracle import outcome
from core.model import Plan, Raw
from core.model.policy import SchedulingPolicy
from core.quota.placement import PlacementCapacity
from core.scheduling.cycle import schedule
from core.scheduling.snapshot import Head, Snapshot

OVERBOOKED = "overbooked"


def cycle_of(line: Raw) -> Raw:
    """Returns what one recorded cycle decides here, in the form of its ``expected``."""
    return outcome(line["input"])


def apart_cycle_of(line: Raw) -> Raw:
    """As ``cycle_of``, with Kueue's rule that an admission, a reservation or a victim of this cycle is seen by its own
    flavor alone, and by others with the same nodes only in the next cycle.
    """
    return outcome(line["input"], schedule_apart)


def schedule_apart(snapshot: Snapshot, heads: Sequence[Head], policy: SchedulingPolicy, now: float) -> Plan:
    """Decides a cycle in which flavors know nothing of each other; what was used before is known to all of them."""
    capacities = [
        found
        for arena in snapshot.arenas.values()
        if isinstance(found := arena.further.get("topology"), PlacementCapacity)
    ]
    shared = [capacity._together for capacity in capacities]
    for capacity in capacities:
        capacity._together = {name: (name,) for name in capacity._together}
    try:
        return schedule(snapshot, heads, policy, now)
    finally:
        for capacity, together in zip(capacities, shared, strict=True):
            capacity._together = together
