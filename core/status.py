"""What people and other programs ask about the queues: counts, usage, shares, places in line, what could ever fit.

Separate from ``core.state`` because it only reads: the status of objects, metrics, the visibility API, webhooks that
warn and `explain` all get their figures here, and so they agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.holdings import local_queue_of
from core.model import FlavorResource, Key, Workload
from core.quota import Node
from core.shares import share
from core.standing import Standing, cluster_queue_standing, local_queue_standing
from core.state import State
from core.usage import Reservation

MAX_SHARE = 2**63 - 1
"""How the API shows an infinite share."""


@dataclass(frozen=True, slots=True)
class Amount:
    """So much of a flavor-resource, and how much of it is beyond the queue's own quota."""

    total: int
    borrowed: int = 0


Usage = dict[FlavorResource, Amount]


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """How a ClusterQueue or LocalQueue stands. Pending ones are active or, for now, inadmissible.

    ``reservation`` and ``usage`` (the admitted part of it) have an entry for each flavor-resource of the ClusterQueue,
    in the order of its specification. ``weighted_share`` is None without fair sharing, and infinite for one of weight
    0 that borrows.
    """

    standing: Standing
    active: int
    inadmissible: int
    reserving: int
    admitted: int
    reservation: Usage
    usage: Usage
    weighted_share: float | None = None

    @property
    def pending(self) -> int:
        """All that wait."""
        return self.active + self.inadmissible


def cluster_queue_status(state: State, name: str) -> QueueStatus | None:
    """The status of a ClusterQueue; None where there is none. Costs the number of its reservations."""
    holdings = state.holdings
    if name not in holdings.cluster_queues:
        return None
    node = holdings.trees[holdings.roots[name]].queues[name]
    held = list(node.reserved.values())
    queue = state.lines.queues[name]
    return QueueStatus(
        standing=holdings.standing(name),
        active=queue.active,
        inadmissible=len(queue) - queue.active,
        reserving=len(held),
        admitted=sum(1 for each in held if each.admitted),
        reservation=_usage(node, node.usage),
        usage=_usage(node, _sum(each for each in held if each.admitted)),
        weighted_share=share(node).weighted if state.policy.fair_sharing is not None else None,
    )


def local_queue_status(state: State, key: Key) -> QueueStatus | None:
    """The status of a LocalQueue; None where there is none. Costs the number of workloads it names."""
    local_queue = state.lines.local_queues.get(key)
    if local_queue is None:
        return None
    holdings, name = state.holdings, local_queue.cluster_queue
    known = name in holdings.cluster_queues
    found = (holdings.get(each) for each in holdings.by_local_queue.get(key, ()))
    held = [each for each in found if each is not None and each.cluster_queue == name]
    waiting = state.lines.by_local_queue.get(key, set())
    queue = state.lines.queues.get(name)
    entries = (queue.get(each) for each in waiting) if queue is not None else ()
    active = sum(1 for entry in entries if entry is not None and queue is not None and queue.is_active(entry))
    node = holdings.trees[holdings.roots[name]].queues[name] if known else None
    return QueueStatus(
        standing=local_queue_standing(local_queue, holdings.standing(name) if known else None),
        active=active,
        inadmissible=len(waiting) - active,
        reserving=len(held),
        admitted=sum(1 for each in held if each.admitted),
        reservation=_usage(node, _sum(held)) if node else {},
        usage=_usage(node, _sum(each for each in held if each.admitted)) if node else {},
    )


def cohort_share(state: State, name: str) -> float | None:
    """The weighted share of a Cohort; None without fair sharing, or where its parents run in a circle."""
    if state.policy.fair_sharing is None:
        return None
    for tree in state.holdings.trees.values():
        if name in tree.cohorts:
            return share(tree.cohorts[name]).weighted
    return None


def shown_share(value: float) -> int:
    """A weighted share as the API shows it: rounded up, the greatest number for infinity."""
    return MAX_SHARE if math.isinf(value) else math.ceil(value)


def _sum(held: Iterable[Reservation]) -> dict[FlavorResource, int]:
    found: dict[FlavorResource, int] = {}
    for each in held:
        for fr, amount in each.usage.items():
            found[fr] = found.get(fr, 0) + amount
    return found


def _usage(node: Node, amounts: Mapping[FlavorResource, int]) -> Usage:
    found: Usage = {}
    for fr, quota in node.quotas.items():
        total = amounts.get(fr, 0)
        found[fr] = Amount(total, max(0, total - quota.nominal) if node.parent is not None else 0)
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pending workload stands, counted from 0."""

    workload: Workload
    in_cluster_queue: int
    in_local_queue: int
    active: bool


def places(state: State, name: str) -> list[Place]:
    """All that wait for a ClusterQueue, in order. Costs n log n."""
    queue = state.lines.queues.get(name)
    if queue is None:
        return []
    found: list[Place] = []
    seen: dict[Key, int] = {}
    for position, entry in enumerate(queue.in_order(state.lines.local_usage)):
        local_queue = local_queue_of(entry.workload)
        before = seen.get(local_queue, 0)
        seen[local_queue] = before + 1
        found.append(Place(entry.workload, position, before, queue.is_active(entry)))
    return found


def place(state: State, key: Key) -> Place | None:
    """Where one workload stands; None where it is not queued."""
    name = state.lines.where(key)
    return next((each for each in places(state, name) if each.workload.key == key), None) if name else None


@dataclass(frozen=True, slots=True)
class Capacity:
    """A ClusterQueue's quota of a flavor-resource: its own, in use, free now, and the most it could ever have.

    ``free`` and ``most`` include what may be borrowed.
    """

    nominal: int
    used: int
    free: int
    most: int


def capacity(state: State, name: str) -> dict[FlavorResource, Capacity]:
    """By flavor-resource, what a ClusterQueue has; empty where there is none."""
    holdings = state.holdings
    if name not in holdings.cluster_queues:
        return {}
    node = holdings.trees[holdings.roots[name]].queues[name]
    return {
        fr: Capacity(quota.nominal, node.usage.get(fr, 0), max(0, node.available(fr)), node.potential(fr))
        for fr, quota in node.quotas.items()
    }


def most(state: State, name: str, resource: str) -> int | None:
    """The most of a resource that one pod set could ever get, in the best flavor; None where it is not covered."""
    return max((c.most for fr, c in capacity(state, name).items() if fr.resource == resource), default=None)


def why_inactive(state: State, name: str) -> Standing | None:
    """The Active condition of a ClusterQueue, or None where there is none; does not build trees."""
    holdings = state.holdings
    queue = holdings.cluster_queues.get(name)
    if queue is None:
        return None
    return cluster_queue_standing(queue, holdings.flavors, holdings.checks, holdings.cohorts)
