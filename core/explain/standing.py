"""Where a LocalQueue stands: what its ClusterQueue may use and what is free now, its share, and which of its workloads
wait for what.

Separate from ``core.explain.analysis``, which decides a workload again: here every number is read as it is, so that an
answer costs what it shows. It is in the form of the visibility API, and names workloads of the LocalQueue alone.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from typing import Final

from api import quantity
from api.names import PODS_RESOURCE
from core.explain.sight import Sight
from core.model import FlavorResource, Key, LocalQueue, Raw
from core.quota.demand import Demand
from core.quota.node import QueueNode
from core.quota.placement import PlacementCapacity
from core.quota.reservations import local_queue_of
from core.quota.shares import share
from core.state.orders import Order
from core.state.queries import shown_share
from core.state.queue_status import local_queue_condition, pending_for, used, why_waiting
from core.state.state import State

LONGEST_MESSAGE: Final = 1024
"""Characters of a message: the message of a condition may be longer, and a page has many."""
STEP: Final = 25
"""So many workloads are described between two pauses."""


def standing(state: State, queue: LocalQueue) -> Raw:
    """Returns where a LocalQueue stands, without its workloads. Costs the number of its workloads that hold quota."""
    name = queue.cluster_queue
    condition = local_queue_condition(state, queue)
    waiting = state.pending.queues.get(name)
    held = [
        found
        for key in state.reservations.by_local_queue.get(queue.key, ())
        if (found := state.reservations.get(key)) is not None and found.cluster_queue == name
    ]
    node = state.reservations.node(name)
    return {
        "clusterQueue": name,
        "active": condition.active,
        "reason": condition.reason,
        "message": condition.message,
        "pendingInClusterQueue": len(waiting) if waiting is not None else 0,
        "pendingInLocalQueue": pending_for(state, queue.key),
        "reservingWorkloads": len(held),
        "admittedWorkloads": sum(each.admitted for each in held),
        "flavors": []
        if node is None
        else _flavors(state, node, used(held), used(each for each in held if each.admitted)),
        **_fair_sharing(state, node),
        **_admission_fair_sharing(state, queue),
    }


def free(node: QueueNode, fr: FlavorResource) -> tuple[int, int]:
    """Returns how much more of a flavor-resource the ClusterQueue could use now, as the scheduler decides it, and how
    much of that it would borrow.
    """
    available = max(0, node.available(fr))
    own = max(0, node.quotas[fr].nominal - node.usage.get(fr, 0))
    return available, max(0, available - own)


def _flavors(
    state: State, node: QueueNode, reserved: Mapping[FlavorResource, int], admitted: Mapping[FlavorResource, int]
) -> list[Raw]:
    return [
        {
            "name": flavor,
            "resources": [
                _limits(node, FlavorResource(flavor, resource), reserved, admitted)
                for resource in group.resources
                if FlavorResource(flavor, resource) in node.quotas
            ],
            **_topology(state, node, flavor),
        }
        for group in node.spec.groups
        for flavor in group.flavors
    ]


def _limits(
    node: QueueNode,
    fr: FlavorResource,
    reserved: Mapping[FlavorResource, int],
    admitted: Mapping[FlavorResource, int],
) -> Raw:
    quota, (available, borrowable) = node.quotas[fr], free(node, fr)
    amounts = {
        "nominal": quota.nominal,
        **({"borrowingLimit": quota.borrowing_limit} if quota.borrowing_limit is not None else {}),
        "maximum": node.potential(fr),
        "available": available,
        "borrowable": borrowable,
        "reserved": node.usage.get(fr, 0),
        "reservedInLocalQueue": reserved.get(fr, 0),
        "usedInLocalQueue": admitted.get(fr, 0),
    }
    return {"name": fr.resource, **{name: quantity.text(fr.resource, amount) for name, amount in amounts.items()}}


def _topology(state: State, node: QueueNode, flavor: str) -> Raw:
    """How many domains a flavor with a topology has, by level."""
    arena = state.reservations.arenas[state.reservations.arena_of[node.name]]
    capacity = arena.further.get("topology")
    if not isinstance(capacity, PlacementCapacity) or flavor not in capacity.domains:
        return {}
    tree = capacity.domains[flavor].tree
    levels = [{"level": level, "domains": tree.size(number)} for number, level in enumerate(tree.levels)]
    return {"topology": {"levels": levels}}


def _fair_sharing(state: State, node: QueueNode | None) -> Raw:
    if state.policy.fair_sharing is None or node is None:
        return {}
    return {"fairSharing": {"weight": node.weight, "weightedShare": shown_share(share(node).weighted)}}


def _admission_fair_sharing(state: State, queue: LocalQueue) -> Raw:
    """The usage that orders the LocalQueues of the ClusterQueue, if it does; the lowest is first."""
    pending = state.pending
    target = pending.queues.get(queue.cluster_queue)
    if state.policy.admission_fair_sharing is None or target is None or not target.by_local_queue:
        return {}
    mine = pending.local_usage.get(queue.key, 0.0)
    others = [pending.local_usage.get(key, 0.0) for key in pending.local_queues_of(queue.cluster_queue)]
    place = {"localQueuesWithLess": sum(each < mine for each in others), "localQueues": len(others)}
    shown = {"usage": round(mine, 6)} if math.isfinite(mine) else {}
    return {"admissionFairSharing": {"weight": queue.weight, **shown, **place}}


def waiting(
    state: State, queue: LocalQueue, order: Order, offset: int, limit: int, sight: Sight
) -> Generator[None, None, list[tuple[Key, Raw]]]:
    """Returns a page of the workloads of a LocalQueue that wait, in order; yields where the caller may pause."""
    positions = yield from order.positions(queue.key)
    node = state.reservations.node(queue.cluster_queue)
    known: dict[int, list[Raw]] = {}
    found: list[tuple[Key, Raw]] = []
    for number, position in enumerate(positions[offset : offset + limit], start=offset):
        entry = order.entries[position]
        workload = state.workloads.get(entry.workload.key)
        if workload is None or state.pending.where(workload.key) is None or local_queue_of(workload) != queue.key:
            continue  # it has started or is gone since the order was computed
        if id(entry.demand) not in known:
            known[id(entry.demand)] = [] if node is None else list(lacking(node, entry.demand))
        reason, message = why_waiting(state, workload, sight.named)
        shown = {
            "priority": workload.priority,
            "positionInClusterQueue": position,
            "positionInLocalQueue": number,
            "reason": reason,
            "message": message[:LONGEST_MESSAGE],
            "lacking": known[id(entry.demand)],
        }
        found.append((workload.key, shown))
        if number % STEP == STEP - 1:
            yield
    return found


def lacking(node: QueueNode, demand: Demand) -> Iterator[Raw]:
    """Yields what a demand lacks now, by flavor; nothing for a flavor in which all of it is free."""
    asked: dict[str, int] = {}
    for total in demand.totals:
        for resource, amount in total.requests.items():
            asked[resource] = asked.get(resource, 0) + amount
        if PODS_RESOURCE in node.groups:
            asked[PODS_RESOURCE] = asked.get(PODS_RESOURCE, 0) + total.count
    for group in node.spec.groups:
        for flavor in group.flavors:
            short = [
                {
                    "name": resource,
                    "requested": quantity.text(resource, asked[resource]),
                    "available": quantity.text(resource, available),
                    "missing": quantity.text(resource, asked[resource] - available),
                }
                for resource in group.resources
                if resource in asked
                and (fr := FlavorResource(flavor, resource)) in node.quotas
                and asked[resource] > (available := max(0, node.available(fr)))
            ]
            if short and demand.allows(flavor):
                yield {"name": flavor, "resources": short}
