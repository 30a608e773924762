"""Searches for flavors that came to the same end before: the same figures, the same assignment.

Whenever quota becomes free, one of each demand that waits is looked at, and nine looks in ten end as the last one did.
Of usage a search reads, in each flavor-resource, whether enough is available, how much where it is not, and how far
away it comes from; the rest is specified. Where nobody can be preempted, either, these figures decide. Separate from
``core.scheduling.flavors``, which searches. Kept with the node of the ClusterQueue, and so for as long as nothing is
specified anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from core.model import FlavorResource
from core.model.policy import Policy
from core.quota.node import QueueNode, borrowing_level
from core.scheduling.flavors import Assignment, Search
from core.scheduling.preemption.algorithm import impossible
from core.scheduling.preemption.candidates import Preemptor

MAX_DEMANDS = 16
MAX_RESULTS = 8
"""Of one demand in one ClusterQueue; one takes some 2 KB."""

_Figure = int | tuple[int, int, bool]
"""The level where enough is available; else what is, the level, and whether that is less than the whole tree."""
_BEYOND = -1
"""More is asked for than there could ever be."""


class Memory(Struct, gc=False):
    """What is remembered of a demand in a ClusterQueue, under one policy. ``groups`` are the flavor-resources that a
    search may look at, with the amounts asked for, by resource group and flavor.
    """

    policy: Policy
    groups: tuple[tuple[tuple[tuple[FlavorResource, int], ...], ...], ...]
    ends: dict[tuple[_Figure, ...], Assignment] = field(default_factory=dict)


def assign(search: Search, preemptor: Preemptor) -> tuple[Assignment, bool]:
    """What ``search.assign`` says for the whole demand, and whether it is clear that nobody can be preempted for it."""
    demand = search.demand
    if search.pinned is not None or len(demand.totals) != 1 or (search.resume is not None and search.resume.unfinished):
        return search.assign(demand.totals), False
    memory = _memory(search)
    figures = _figures(search.node, memory, preemptor) if memory is not None else None
    if memory is None or figures is None:
        return search.assign(demand.totals), False
    found = memory.ends.get(figures)
    if found is None:
        if len(memory.ends) >= MAX_RESULTS:
            memory.ends.clear()
        found = memory.ends[figures] = search.assign(demand.totals)
    return found, True


def _figures(node: QueueNode, memory: Memory, preemptor: Preemptor) -> tuple[_Figure, ...] | None:
    """All that a search would read of usage; None where somebody might be preempted."""
    found: list[_Figure] = []
    for flavors in memory.groups:
        for amounts in flavors:
            simply = True
            for fr, amount in amounts:
                available = max(0, node.available(fr))
                if amount <= available:
                    level, _ = borrowing_level(node, fr, amount)
                    found.append(level)
                    simply = simply and not level
                    continue
                simply = False
                if amount > node.potential(fr):
                    found.append(_BEYOND)
                elif impossible(preemptor, fr, amount):
                    found.append((available, *borrowing_level(node, fr, amount)))
                else:
                    return None
            if simply:
                break  # no search goes on behind a flavor that simply fits
    return tuple(found)


def _memory(search: Search) -> Memory | None:
    """What is remembered of the demand; None at the first look: what comes once is not worth it."""
    known, demand = search.node.known, search.demand
    if demand not in known:
        if len(known) >= MAX_DEMANDS:
            known.clear()
        known[demand] = None
        return None
    memory = known[demand]
    if not isinstance(memory, Memory) or memory.policy is not search.policy:
        memory = known[demand] = Memory(search.policy, tuple(_groups(search)))
    return memory


def _groups(search: Search) -> list[tuple[tuple[tuple[FlavorResource, int], ...], ...]]:
    """The flavor-resources by resource group and flavor, without flavors where the pods cannot run."""
    node, (total,) = search.node, search.demand.totals
    requests: Mapping[str, int] = search.counted(total)
    placement = search.demand.pod_sets[0].placement
    return [
        tuple(
            tuple((node.flavor_resources[name][r], amount) for r, amount in requests.items() if r in group.resources)
            for name in group.flavors
            if search.mismatch(placement, name) is None
        )
        for group in node.spec.groups
        if not requests.keys().isdisjoint(group.resources)
    ]
