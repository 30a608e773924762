"""Computes the status of ClusterQueues and LocalQueues: counts, quota reserved and used, and whether they admit.

Pure answers from State, in the form of the API, so that controller, metrics and `explain` agree. A status is returned
as a whole, to be compared with that of the object and written if it differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from api import names, quantity
from api.names import Condition, PendingReason
from core.model import ClusterQueue, FlavorResource, Key, LocalQueue, Raw, StopPolicy, Workload, messages
from core.queue.admission_fair_sharing import Consumed
from core.quota.active import ActiveCondition, local_queue_active
from core.quota.usage import Reservation
from core.state.queries import cohort_share, shown_share, weighted_share
from core.state.state import State
from core.wire.timestamps import stamp

_NOT_LOOKED_AT = frozenset({PendingReason.PENDING_EVALUATION, PendingReason.PENDING})


def cluster_queue_status(state: State, name: str, old: Raw, now: float) -> Raw:
    """Returns the status of a ClusterQueue that State knows; foreign conditions of ``old``, its present status, are
    kept.
    """
    queue = state.reservations.cluster_queues[name]
    held = reservations(state, name)
    admitted = [each for each in held if each.admitted]
    return {
        "conditions": with_active(old, state.reservations.active_condition(name), queue.generation, now),
        "pendingWorkloads": pending_in(state, name),
        "reservingWorkloads": len(held),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": _flavors(queue, used(held)),
        "flavorsUsage": _flavors(queue, used(admitted)),
        **_fair_sharing(weighted_share(state, name)),
    }


def cohort_status(state: State, name: str) -> Raw:
    """The status of a Cohort: its share, where fair sharing is on."""
    return _fair_sharing(cohort_share(state, name))


def _fair_sharing(share: float | None) -> Raw:
    return {} if share is None else {"fairSharing": {"weightedShare": shown_share(share)}}


def local_queue_status(state: State, key: Key, old: Raw, now: float) -> Raw:
    """Returns the status of a LocalQueue that State knows."""
    queue = state.pending.local_queues[key]
    target = state.reservations.cluster_queues.get(queue.cluster_queue)
    held = holders(state, key) if target else []
    admitted = [each for each in held if each.admitted]
    return {
        "conditions": with_active(old, local_queue_condition(state, queue), queue.generation, now),
        "pendingWorkloads": 0 if queue.stop_policy != StopPolicy.NONE else pending_for(state, key),
        "reservingWorkloads": len(held),
        "admittedWorkloads": len(admitted),
        "flavorsReservation": _totals(target, used(held)) if target else [],
        "flavorsUsage": _totals(target, used(admitted)) if target else [],
        **_first_usage(state, key, old, now),
    }


def _first_usage(state: State, key: Key, old: Raw, now: float) -> Raw:
    """Returns the usage of a running LocalQueue whose status has none yet; later it is written with every sample."""
    queue = state.pending.local_queues[key]
    sampled = queue.stop_policy == StopPolicy.NONE and queue.cluster_queue in state.reservations.cluster_queues
    if state.policy.admission_fair_sharing is None or not sampled or old.get("fairSharing"):
        return {}
    return {"fairSharing": usage_status(state.local_queue_usage.ledger.consumed(key) or Consumed({}, now))}


def usage_status(consumed: Consumed) -> Raw:
    """``status.fairSharing`` of a LocalQueue that has used so much."""
    amounts = {name: quantity.canonical(f"{amount:.9f}") for name, amount in sorted(consumed.resources.items())}
    shown = {"consumedResources": amounts, "lastUpdate": stamp(consumed.at)}
    return {"weightedShare": 0, "admissionFairSharingStatus": shown}


def local_queue_condition(state: State, queue: LocalQueue) -> ActiveCondition:
    """Whether a LocalQueue can admit workloads."""
    exists = queue.cluster_queue in state.reservations.cluster_queues
    return local_queue_active(queue, state.reservations.active_condition(queue.cluster_queue) if exists else None)


def pending_in(state: State, name: str) -> int:
    """How many workloads wait in a ClusterQueue, those parked as inadmissible included."""
    queue = state.pending.queues.get(name)
    return len(queue) if queue is not None else 0


def pending_for(state: State, key: Key) -> int:
    """How many workloads wait in a LocalQueue."""
    return len(state.pending.by_local_queue.get(key, ()))


def reservations(state: State, name: str) -> list[Reservation]:
    """Returns the workloads that hold quota of a ClusterQueue."""
    node = state.reservations.node(name)
    return list(node.reserved.values()) if node is not None else []


def holders(state: State, key: Key) -> list[Reservation]:
    """Returns the workloads of a LocalQueue that hold quota in the ClusterQueue that it points to."""
    found = (state.reservations.get(each) for each in state.reservations.by_local_queue.get(key, ()))
    target = state.pending.local_queues[key].cluster_queue
    return [held for held in found if held is not None and held.cluster_queue == target]


def used(held: Iterable[Reservation]) -> dict[FlavorResource, int]:
    """Returns the usage that the reservations add up to."""
    total: dict[FlavorResource, int] = {}
    for each in held:
        for fr, amount in each.usage.quota.items():
            total[fr] = total.get(fr, 0) + amount
    return total


def shows(shown: Raw, active_condition: ActiveCondition) -> bool:
    """Whether the status of a queue has the condition Active with this value."""
    active = (each for each in shown.get("conditions") or () if each["type"] == names.Condition.ACTIVE)
    return any(
        (each["status"] == "True", each["reason"], each.get("message", "")) == active_condition for each in active
    )


def with_active(old: Raw, active_condition: ActiveCondition, generation: int, now: float) -> list[Raw]:
    """Returns the conditions of a queue with the current Active condition; the transition time changes only with its
    status.
    """
    new: Raw = {
        "type": names.Condition.ACTIVE,
        "status": "True" if active_condition.active else "False",
        "reason": active_condition.reason,
        "message": active_condition.message,
        "lastTransitionTime": stamp(now),
        **({"observedGeneration": generation} if generation else {}),
    }
    conditions: list[Raw] = list(old.get("conditions") or [])
    for index, condition in enumerate(conditions):
        if condition["type"] == names.Condition.ACTIVE:
            if condition["status"] == new["status"]:
                new["lastTransitionTime"] = condition.get("lastTransitionTime", new["lastTransitionTime"])
            return [*conditions[:index], new, *conditions[index + 1 :]]
    return [*conditions, new]


def _flavors(queue: ClusterQueue, amounts: Mapping[FlavorResource, int]) -> list[Raw]:
    """Returns every flavor of the ClusterQueue in order: the usage of each resource, and how much of it is borrowed."""
    return [
        {
            "name": flavor,
            "resources": [
                _with_borrowed(queue, FlavorResource(flavor, resource), amounts) for resource in sorted(group.resources)
            ],
        }
        for group in queue.groups
        for flavor in group.flavors
    ]


def _with_borrowed(queue: ClusterQueue, fr: FlavorResource, amounts: Mapping[FlavorResource, int]) -> Raw:
    total = amounts.get(fr, 0)
    quota = queue.quotas.get(fr)
    borrowed = max(0, total - (quota.nominal if quota else 0)) if queue.cohort else 0
    return {
        "name": fr.resource,
        "total": quantity.text(fr.resource, total),
        "borrowed": quantity.text(fr.resource, borrowed),
    }


def _totals(queue: ClusterQueue, amounts: Mapping[FlavorResource, int]) -> list[Raw]:
    return [
        {
            "name": flavor,
            "resources": [
                {"name": resource, "total": quantity.text(resource, amounts.get(FlavorResource(flavor, resource), 0))}
                for resource in sorted(group.resources)
            ],
        }
        for group in queue.groups
        for flavor in group.flavors
    ]


def why_waiting(state: State, workload: Workload, named: Callable[[Key], str] = str) -> tuple[str, str]:
    """Returns reason and message of a pending workload, even if it was not decided itself; ('', '') while nothing is
    known. ``named`` returns how another workload is called in it.

    As in Kueue, the status is written only for workloads that were decided: for the others the answer is that of an
    equal workload, or of the head of a queue that keeps its order.
    """
    condition = workload.condition(Condition.QUOTA_RESERVED)
    entry = state.pending.entry(workload.key)
    if entry is not None and entry.group.parked and entry.group.message:
        return entry.group.reason, entry.group.message
    if condition is not None and not condition.status and condition.reason not in _NOT_LOOKED_AT:
        return condition.reason, condition.message
    name = state.pending.where(workload.key)
    head = state.pending.head(name) if name is not None else None
    if name is None or head is None or head is entry:
        return "", ""
    queue, first = state.pending.queues[name], head.workload.key
    if not (queue.strict or queue.sticky == first):
        return "", ""
    text = messages.behind(named(first), name, strict=queue.strict, blocked=queue.blocked == first)
    return PendingReason.PENDING_EVALUATION, text
