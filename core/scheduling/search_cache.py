"""Cache of searches for flavors: with the same amounts a search gives the same assignment.

Whenever quota becomes free, one workload of each waiting demand is decided, and nine in ten get the same result as
before. A search reads this from usage, for each flavor-resource: whether enough is available, how much is available if
not, and from which level; everything else is specified. If no workload can be preempted, these amounts determine the
result. Separate from ``core.scheduling.flavors``, which searches. Stored with the node of the ClusterQueue, so that a
change of specification discards it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from core.model import FlavorResource
from core.model.policy import SchedulingPolicy
from core.quota.node import QueueNode, borrowing_level
from core.quota.usage import counted
from core.scheduling.flavors import Assignment, Search
from core.scheduling.preemption.algorithm import impossible
from core.scheduling.preemption.candidates import Preemptor

MAX_DEMANDS = 16
MAX_RESULTS = 8
"""Entries for one demand in one ClusterQueue; an entry takes about 2 KB."""

_Figure = int | tuple[int, int, bool]
"""The level if enough is available; otherwise the available amount, the level, and whether that is less than the whole
tree.
"""
_BEYOND = -1
"""More is asked for than there could ever be."""


class Memory(Struct, gc=False):
    """The cached results for a demand in a ClusterQueue with one policy. ``groups`` are the flavor-resources that a
    search may read, with the requested amounts, by resource group and flavor.
    """

    policy: SchedulingPolicy
    groups: tuple[tuple[tuple[tuple[FlavorResource, int], ...], ...], ...]
    ends: dict[tuple[_Figure, ...], Assignment] = field(default_factory=dict)


def assign(search: Search, preemptor: Preemptor) -> tuple[Assignment, bool]:
    """Returns the result of ``search.assign`` for the whole demand, and whether it is certain that no workload can be
    preempted for it.
    """
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
    """Returns everything that a search would read from usage; None if a workload might be preempted."""
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
                break  # a search does not continue after a flavor that fits
    return tuple(found)


def _memory(search: Search) -> Memory | None:
    """Returns the cache of the demand; None on the first call, because a demand that occurs once need not be cached."""
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
    requests: Mapping[str, int] = counted(total, search.node.groups)
    pod_set = search.demand.pod_sets[0]
    return [
        tuple(
            tuple((node.flavor_resources[name][r], amount) for r, amount in requests.items() if r in group.resources)
            for name in group.flavors
            if search.demand.allows(name) and search.mismatch(pod_set, group, name) is None
        )
        for group in node.spec.groups
        if not requests.keys().isdisjoint(group.resources)
    ]
