"""What workloads request and what they hold: totals of pending pod sets, usage of reservations.

Separate from the search for flavors and from preemption because both, and the status of queues, use the same values.
Rules: finished pods are not requested again (https://kueue.sigs.k8s.io/docs/concepts/workload/, dynamic reclaim).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct

from api import names
from api.names import PODS_RESOURCE
from core.model import Admission, FlavorResource, Requests, Workload
from core.quota.capacity import Amounts, CapacityKind

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3


@lru_cache(maxsize=4096)
def search_order(resource: str) -> tuple[int, str]:
    """Sort key of resources: Kueue visits requests by the FNV-1a hash of their names, and messages show it."""
    digest = _FNV_OFFSET
    for byte in resource.encode():
        digest = (digest ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return digest, resource


class PodSetTotal(Struct, frozen=True, gc=False):
    """The total request of the remaining pods of a pod set; ``requests`` are in the order of the search."""

    name: str
    count: int
    requests: Requests

    def scaled_to(self, count: int) -> PodSetTotal:
        """The same for another number of pods."""
        if count == self.count or self.count == 0:
            return self
        return PodSetTotal(self.name, count, {r: v // self.count * count for r, v in self.requests.items()})


def totals(workload: Workload) -> tuple[PodSetTotal, ...]:
    """Returns the requests of the workload, by pod set, without the reclaimable pods."""
    found = []
    for pod_set in workload.pod_sets:
        count = max(0, pod_set.count - workload.reclaimable.get(pod_set.name, 0))
        ordered = sorted(pod_set.requests, key=search_order)
        found.append(PodSetTotal(pod_set.name, count, {r: pod_set.requests[r] * count for r in ordered}))
    return tuple(found)


def counted(total: PodSetTotal, covered: Container[str]) -> Requests:
    """Returns the requests of a pod set, with the number of its pods if that is among the resources that have quota."""
    if PODS_RESOURCE not in covered:
        return total.requests
    found = {**total.requests, PODS_RESOURCE: total.count}
    return {resource: found[resource] for resource in sorted(found, key=search_order)}


_NOTHING: Mapping[str, Amounts] = {}
_Place = TypeVar("_Place", bound=Hashable)


class Freed(NamedTuple):
    """What has become free for others: ``resources`` of the quota of a tree (None: anything may have changed there),
    and whether there is more room ``further``, in a capacity beside quota that all trees of the arena share.
    """

    resources: frozenset[str] | None = frozenset()
    further: bool = False

    def and_also(self, other: Freed) -> Freed:
        """Returns both together."""
        both = None if self.resources is None or other.resources is None else self.resources | other.resources
        return Freed(both, self.further or other.further)


NOTHING_FREED: Final = Freed()
ROOM_FREED: Final = Freed(further=True)
ANYTHING_FREED: Final = Freed(None, further=True)


class Usage(Struct, frozen=True, gc=False):
    """What a workload uses, or would use, of every capacity of its arena: quota, and the ``further`` ones by name."""

    quota: Mapping[FlavorResource, int] = {}
    further: Mapping[str, Amounts] = _NOTHING

    def beyond(self, other: Usage) -> Usage:
        """Returns how much more this is than another usage; negative where it is less."""
        if not self.further and not other.further:
            return Usage(_difference(self.quota, other.quota))
        further = {}
        for name in sorted({*self.further, *other.further}):
            mine, its = self.further.get(name, {}), other.further.get(name, {})
            further[name] = _difference({**dict.fromkeys(its, 0), **mine}, its)
        return Usage(_difference(self.quota, other.quota), further)

    @property
    def all_of_it(self) -> Freed:
        """What it may use some of."""
        return Freed(frozenset(fr.resource for fr in self.quota), bool(self.further))

    def freed(self, now: Usage) -> Freed:
        """Returns of what less is used than before."""
        quota = now.quota
        return Freed(
            frozenset(fr.resource for fr, amount in self.quota.items() if amount > quota.get(fr, 0)),
            any(_is_less(now.further.get(name, {}), amounts) for name, amounts in self.further.items()),
        )


NO_USAGE = Usage()


def _is_less(now: Amounts, before: Amounts) -> bool:
    return any(amount > now.get(place, 0) for place, amount in before.items())


def _difference(amounts: Mapping[_Place, int], other: Mapping[_Place, int]) -> dict[_Place, int]:
    return {place: amount - other.get(place, 0) for place, amount in amounts.items()}


class Reservation(Struct, frozen=True, gc=False):
    """A workload that holds quota in a ClusterQueue.

    ``usage`` has an entry for every flavor-resource it was assigned, zero amounts too. ``rank`` orders candidates for
    preemption within a ClusterQueue: evicted first, then lower priority, later reservation, uid.
    """

    workload: Workload
    cluster_queue: str
    usage: Usage
    admitted: bool
    evicted: bool
    rank: tuple[bool, int, float, str]

    def uses(self, frs: frozenset[FlavorResource]) -> bool:
        """Whether it was assigned any of these flavor-resources."""
        return not frs.isdisjoint(self.usage.quota)


def holds_quota(workload: Workload) -> bool:
    """Whether the workload counts as usage: quota reserved and not finished.

    One that is deactivated counts until its job has stopped and the reservation is released; in Kueue its quota is free
    at once, while pods run. Nothing releases that of a Workload without an owner.
    """
    if not (workload.active or workload.owned):
        return False
    return workload.holds(names.Condition.QUOTA_RESERVED) and not finished(workload)


def finished(workload: Workload) -> bool:
    """Whether the workload is finished."""
    return workload.holds(names.Condition.FINISHED)


def reservation(
    workload: Workload,
    kinds: Iterable[CapacityKind] = (),
    *,
    evicted: bool | None = None,
) -> Reservation:
    """The reservation that ``workload.admission`` describes, with its usage of these kinds of further capacity; its
    time is that of QuotaReserved=True.
    """
    admission = workload.admission
    usage: dict[FlavorResource, int] = {}
    counts = {pod_set.name: pod_set.count for pod_set in workload.pod_sets}
    for assigned in admission.pod_sets if admission else ():
        left = max(0, counts.get(assigned.name, 0) - workload.reclaimable.get(assigned.name, 0))
        for resource, flavor in assigned.flavors.items():
            amount = assigned.usage.get(resource, 0)
            if left < assigned.count:
                amount = amount // assigned.count * left
            fr = FlavorResource(flavor, resource)
            usage[fr] = usage.get(fr, 0) + amount
    reserved = workload.condition(names.Condition.QUOTA_RESERVED)
    since = reserved.since if reserved is not None and reserved.status else 0.0
    gone = workload.holds(names.Condition.EVICTED) or not workload.active if evicted is None else evicted
    return Reservation(
        workload=workload,
        cluster_queue=admission.cluster_queue if admission else "",
        usage=Usage(usage, further_usage(workload, admission, kinds)) if kinds and admission else Usage(usage),
        admitted=workload.holds(names.Condition.ADMITTED),
        evicted=gone,
        rank=(not gone, workload.priority, -since, workload.uid),
    )


def further_usage(workload: Workload, admission: Admission, kinds: Iterable[CapacityKind]) -> Mapping[str, Amounts]:
    """Returns what a workload uses with an admission of each of these kinds of capacity; only those it uses at all."""
    found: dict[str, Amounts] = {}
    for kind in kinds:
        amounts = kind.amounts(workload, admission)
        if amounts:
            found[kind.name] = amounts
    return found or _NOTHING
