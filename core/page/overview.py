"""The rows of the overview: one for each ClusterQueue, Cohort and LocalQueue, with what it may use and what is in use.

Separate from ``core.state.queue_status``, which returns the status of API objects: here amounts are numbers, so that
the page can draw and add them, and a row has what is wrong first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from api.names import Condition
from core.model import ClusterQueue, FlavorResource, Key, LocalQueue, Node, Raw, ResourceFlavor
from core.quota.node import QueueNode
from core.quota.shares import share
from core.quota.usage import Reservation
from core.state.queries import cohort_share, pending, shown_share
from core.state.queue_status import holders, local_queue_condition, pending_for, used
from core.state.state import State

LONGEST_MESSAGE: Final = 512
"""Characters of a message in a row."""


def queue_row(state: State, name: str, empty: Collection[str] = ()) -> Raw | None:
    """Returns the row of a ClusterQueue; None if there is none. ``empty`` are flavors that no node belongs to. Costs
    the number of its workloads that hold quota.
    """
    queue = state.reservations.cluster_queues.get(name)
    if queue is None:
        return None
    node = state.reservations.node(name)
    held = node.reserved.values() if node is not None else ()
    late = [each for each in held if not is_ready(each)]
    condition = state.reservations.active_condition(name)
    waiting = pending(state, name)
    return {
        "name": name,
        "cohort": queue.cohort,
        "active": condition.active,
        "stopped": queue.stop_policy.value if queue.stop_policy.value != "None" else "",
        "wrong": [*_wrong(condition.active, condition.message), *_without_nodes(queue, empty)],
        "pending": waiting.active + waiting.inadmissible,
        "inadmissible": waiting.inadmissible,
        "running": len(held) - len(late),
        "notReady": len(late),
        "cells": [] if node is None else list(_cells(node, late)),
        **({} if node is None or state.policy.fair_sharing is None else {"weight": node.weight, "share": _share(node)}),
    }


def cohort_row(state: State, name: str) -> Raw | None:
    """Returns the row of a Cohort object, with its own quotas alone; None if there is none."""
    cohort = state.reservations.cohorts.get(name)
    if cohort is None:
        return None
    found = cohort_share(state, name)
    return {
        "name": name,
        "parent": cohort.parent,
        "cells": [
            {"flavor": fr.flavor, "resource": fr.resource, "nominal": quota.nominal}
            for fr, quota in sorted(cohort.quotas.items())
        ],
        **({} if found is None else {"weight": cohort.weight, "share": shown_share(found)}),
    }


def local_queue_row(state: State, key: Key) -> Raw | None:
    """Returns the row of a LocalQueue; None if there is none. Costs the number of its workloads that hold quota."""
    queue = state.pending.local_queues.get(key)
    if queue is None:
        return None
    condition = local_queue_condition(state, queue)
    held = holders(state, key) if queue.cluster_queue in state.reservations.cluster_queues else []
    late = [each for each in held if not is_ready(each)]
    return {
        "name": key.name,
        "namespace": key.namespace,
        "clusterQueue": queue.cluster_queue,
        "active": condition.active,
        "wrong": _wrong(condition.active, condition.message),
        "pending": pending_for(state, key),
        "running": len(held) - len(late),
        "notReady": len(late),
        "cells": list(_local_cells(held, late)),
    }


def local_queues_of(state: State, name: str) -> list[LocalQueue]:
    """Returns the LocalQueues of a ClusterQueue, in order."""
    return [state.pending.local_queues[key] for key in sorted(state.pending.local_queues_of(name))]


def empty_flavors(flavors: Iterable[ResourceFlavor], nodes: Iterable[Node]) -> frozenset[str]:
    """Returns the flavors with node labels that no node has. Costs the number of nodes for each different flavor."""
    known = list(nodes)
    wanted = {each.name: each.node_labels.items() for each in flavors if each.node_labels}
    return frozenset(
        name for name, labels in wanted.items() if not any(labels <= node.labels.items() for node in known)
    )


def lent(node: QueueNode, fr: FlavorResource) -> int:
    """Returns how much of its own unused quota a ClusterQueue cannot use now, because others of its cohort use it."""
    own = node.quotas[fr].nominal - node.usage.get(fr, 0)
    return max(0, own - max(0, node.available(fr)))


def is_ready(held: Reservation) -> bool:
    """Whether a workload that holds quota runs: it is admitted, and nothing is known of pods that are not ready."""
    ready = held.workload.condition(Condition.PODS_READY)
    return held.admitted and (ready is None or ready.status)


def _wrong(active: bool, message: str) -> list[str]:
    return [] if active else [message[:LONGEST_MESSAGE]]


def _without_nodes(queue: ClusterQueue, empty: Collection[str]) -> list[str]:
    named = dict.fromkeys(name for group in queue.groups for name in group.flavors if name in empty)
    return [f"no node has the labels of flavor {name}: pods that are admitted there stay Pending" for name in named]


def _cells(node: QueueNode, late: list[Reservation]) -> Iterable[Raw]:
    """Yields each flavor-resource in the order of the specification; ``late`` are those that are not ready."""
    waiting = used(late)
    for group in node.spec.groups:
        for flavor in group.flavors:
            for resource in group.resources:
                fr = FlavorResource(flavor, resource)
                if fr not in node.quotas:
                    continue
                quota, total = node.quotas[fr], node.usage.get(fr, 0)
                not_ready = min(total, waiting.get(fr, 0))
                yield {
                    "flavor": flavor,
                    "resource": resource,
                    "nominal": quota.nominal,
                    "used": total - not_ready,
                    "notReady": not_ready,
                    "borrowed": max(0, total - quota.nominal) if node.parent is not None else 0,
                    "lent": lent(node, fr),
                    "most": node.potential(fr),
                }


def _local_cells(held: list[Reservation], late: list[Reservation]) -> Iterable[Raw]:
    waiting = used(late)
    for fr, amount in sorted(used(held).items()):
        not_ready = waiting.get(fr, 0)
        yield {"flavor": fr.flavor, "resource": fr.resource, "used": amount - not_ready, "notReady": not_ready}


def _share(node: QueueNode) -> int:
    return shown_share(share(node).weighted)
