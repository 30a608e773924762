"""Workloads of equal demand: they ask for the same, may go to the same places, and so get the same decision.

Separate because queues park by it, the search for flavors reads its totals, and memory stays small by keeping one copy
for all workloads of a demand.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakValueDictionary

from msgspec.structs import replace

from core.model import Placement, PodSet, TopologyRequest, Workload
from core.model.workload import COMMON
from core.quota.usage import PodSetTotal, totals
from core.topology.flavors import asks, levels


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Demand:
    """The values that all workloads of the demand have in common. ``resources`` are the requested ones. ``least``
    has by resource the smallest amounts with which it may start: for its largest pod set, and for all together; none
    for a slice of an elastic job, which takes over quota that is in use. ``allowed_flavors`` are the only ones that may
    be assigned, if there are any. ``groups`` are the pod sets that get the same flavors, by index: each alone, or
    those of a pod set group of a topology request.
    """

    pod_sets: tuple[PodSet, ...]
    totals: tuple[PodSetTotal, ...]
    resources: frozenset[str]
    least: Mapping[str, tuple[int, int]]
    reducible: bool
    """Whether fewer pods would do (``minCount``)."""
    allowed_flavors: tuple[str, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    quota: Hashable = None
    """Equal for demands that ask for the same quota in the same flavors, and differ in where in a topology their pods
    are to be; None if it asks for no topology.
    """

    def allows(self, flavor: str) -> bool:
        """Whether a flavor may be assigned."""
        return not self.allowed_flavors or flavor in self.allowed_flavors


class Demands:
    """One copy of every demand in use; demands that no workload has any more are forgotten."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[Hashable, Demand] = WeakValueDictionary()
        self._common: WeakValueDictionary[int, Demand] = WeakValueDictionary()
        """Those of workloads with nothing rare, by the identity of their pod sets, which they keep alive."""

    def of(self, workload: Workload) -> Demand:
        """The demand of the workload."""
        if workload.rare is COMMON:
            found = self._common.get(id(workload.pod_sets))
            if found is not None:
                return found
        demand = self._equal(workload)
        if workload.rare is COMMON and workload.pod_sets is demand.pod_sets:
            self._common[id(workload.pod_sets)] = demand
        return demand

    def alike(self, pod_sets: tuple[PodSet, ...]) -> tuple[PodSet, ...]:
        """The pod sets of a plain workload that asks for the same as these; these, if there is none. What is worked out
        for pod sets is kept by their identity.
        """
        demand = self._known.get((None, None, (), *map(shape, pod_sets)))
        return pod_sets if demand is None else demand.pod_sets

    def _equal(self, workload: Workload) -> Demand:
        name = (
            workload.replaces,
            workload.owner if workload.replaces is not None else None,  # only a slice of the same job takes over quota
            workload.allowed_flavors,
            *(shape(pod_set, workload.reclaimable.get(pod_set.name, 0)) for pod_set in workload.pod_sets),
        )
        demand = self._known.get(name)
        if demand is None:
            asked = totals(workload)
            demand = self._known[name] = Demand(
                pod_sets=workload.pod_sets,
                totals=asked,
                resources=frozenset(resource for total in asked for resource in total.requests),
                least={} if workload.replaces else _least(workload.pod_sets, asked),
                reducible=any(p.min_count is not None and p.min_count < p.count for p in workload.pod_sets),
                allowed_flavors=workload.allowed_flavors,
                groups=_groups(workload.pod_sets),
                quota=_quota(workload),
            )
        return demand


def _groups(pod_sets: Iterable[PodSet]) -> tuple[tuple[int, ...], ...]:
    found: dict[Hashable, list[int]] = {}
    for index, pod_set in enumerate(pod_sets):
        named = pod_set.topology.group if pod_set.topology is not None else ""
        found.setdefault(named or index, []).append(index)
    return tuple(map(tuple, found.values()))


def _least(pod_sets: Iterable[PodSet], asked: Iterable[PodSetTotal]) -> Mapping[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for pod_set, total in zip(pod_sets, asked, strict=True):
        reduced = total if pod_set.min_count is None else total.scaled_to(pod_set.min_count)
        for resource, amount in total.requests.items():
            least = min(amount, reduced.requests[resource])
            largest, together = found.get(resource, (0, 0))
            found[resource] = max(largest, least), together + least
    return found


def shape(pod_set: PodSet, reclaimable: int = 0) -> Hashable:
    """Returns all of a pod set that decisions about it depend on."""
    return (
        pod_set.name,
        pod_set.count,
        reclaimable,
        pod_set.min_count,
        tuple(sorted(pod_set.requests.items())),
        _placement(pod_set.placement),
        pod_set.topology,
        None if pod_set.own is None else tuple(sorted(pod_set.own.items())),
        None if pod_set.with_devices is None else tuple(sorted(pod_set.with_devices.items())),
    )


def _quota(workload: Workload) -> Hashable:
    """What of a demand the search for flavors reads: of topology requests the levels alone."""
    pod_sets = workload.pod_sets
    if workload.replaces is not None or all(pod_set.topology is None for pod_set in pod_sets):
        return None
    shapes = (shape(replace(each, topology=None), workload.reclaimable.get(each.name, 0)) for each in pod_sets)
    return (workload.allowed_flavors, *shapes, *(_read(each.topology) for each in pod_sets))


def _read(topology: TopologyRequest | None) -> Hashable:
    spreading = topology.spreading.rules if topology is not None and topology.spreading is not None else ()
    return asks(topology), frozenset(levels(topology)), topology.group if topology is not None else "", spreading


def _placement(placement: Placement) -> Hashable:
    selector = tuple(sorted(placement.node_selector.items()))
    return (selector, placement.affinity, placement.tolerations, placement.preferred)
