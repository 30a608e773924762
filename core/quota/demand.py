"""Workloads of equal demand: they ask for the same, may go to the same places, and so are judged alike.

Separate because queues park by it, the search for flavors reads its totals, and memory stays small by keeping one copy
for all workloads of a demand.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from core.model import Placement, PodSet, Requests, Workload
from core.quota.usage import PodSetTotal, totals


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Demand:
    """The values that all workloads of the demand have in common. ``resources`` are the requested ones, ``requests``
    the amounts for all pod sets together.
    """

    pod_sets: tuple[PodSet, ...]
    totals: tuple[PodSetTotal, ...]
    resources: frozenset[str]
    requests: Requests
    reducible: bool
    """Whether fewer pods would do (``minCount``)."""


class Demands:
    """One copy of every demand in use; demands that no workload has any more are forgotten."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[Hashable, Demand] = WeakValueDictionary()

    def of(self, workload: Workload) -> Demand:
        """The demand of the workload."""
        name = (
            workload.replaces,
            *(_name(pod_set, workload.reclaimable.get(pod_set.name, 0)) for pod_set in workload.pod_sets),
        )
        demand = self._known.get(name)
        if demand is None:
            asked = totals(workload)
            demand = self._known[name] = Demand(
                pod_sets=workload.pod_sets,
                totals=asked,
                resources=frozenset(resource for total in asked for resource in total.requests),
                requests=_together(asked),
                reducible=any(p.min_count is not None and p.min_count < p.count for p in workload.pod_sets),
            )
        return demand


def _together(asked: Iterable[PodSetTotal]) -> Requests:
    found: dict[str, int] = {}
    for total in asked:
        for resource, amount in total.requests.items():
            found[resource] = found.get(resource, 0) + amount
    return found


def _name(pod_set: PodSet, reclaimable: int) -> Hashable:
    return (
        pod_set.name,
        pod_set.count,
        reclaimable,
        pod_set.min_count,
        tuple(sorted(pod_set.requests.items())),
        _placement(pod_set.placement),
    )


def _placement(placement: Placement) -> Hashable:
    return (tuple(sorted(placement.node_selector.items())), placement.affinity, placement.tolerations)
