"""Conditions, and the merge patch from one state of a Workload's status to another.

Rules change values (``core.workload.transitions``); the patch is computed from the difference, in one place. A merge
patch replaces lists as a whole, so it has uid and resourceVersion: it applies to the state that was decided, or fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from api import names, quantity
from core.model import (
    Admission,
    CheckState,
    Condition,
    GateState,
    Raw,
    Requests,
    Workload,
)
from core.topology.encoding import encode
from core.wire.guard import guarded
from core.wire.timestamps import stamp


def with_condition(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Returns the conditions with ``new`` instead of the one with its type; ``since`` changes only with the status."""
    message = new.message[: names.CONDITION_MESSAGE_LIMIT]
    new = new if message == new.message else replace(new, message=message)
    for index, old in enumerate(conditions):
        if old.type == new.type:
            kept = replace(new, since=old.since) if old.status == new.status else new
            return (*conditions[:index], kept, *conditions[index + 1 :])
    return (*conditions, new)


def without_condition(conditions: tuple[Condition, ...], kind: str) -> tuple[Condition, ...]:
    """The conditions but that of the type."""
    return tuple(condition for condition in conditions if condition.type != kind)


def raw_conditions(conditions: Iterable[Condition]) -> list[Raw]:
    """Conditions as they are written."""
    return [
        {
            "type": condition.type,
            "status": "True" if condition.status else "False",
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": stamp(condition.since),
            **({"observedGeneration": condition.generation} if condition.generation else {}),
        }
        for condition in conditions
    ]


def raw_admission(admission: Admission, *, by_prefix: bool = True) -> Raw:
    """``status.admission`` as it is written, amounts in canonical text. ``by_prefix`` is how hostnames are encoded."""
    return {
        "clusterQueue": admission.cluster_queue,
        "podSetAssignments": [
            {
                "name": pod_set.name,
                **({"flavors": dict(pod_set.flavors)} if pod_set.flavors else {}),
                **({"resourceUsage": texts(pod_set.usage)} if pod_set.usage else {}),
                "count": pod_set.count,
                **({"topologyAssignment": encode(pod_set.topology, by_prefix=by_prefix)} if pod_set.topology else {}),
                **({"delayedTopologyRequest": pod_set.delayed} if pod_set.delayed else {}),
            }
            for pod_set in admission.pod_sets
        ],
    }


def raw_gates(states: Iterable[GateState]) -> list[Raw]:
    """The states of preemption gates as they are written."""
    return [_raw_gate(state) for state in states]


def texts(amounts: Requests) -> dict[str, str]:
    """Amounts by resource in canonical text."""
    return {resource: quantity.text(resource, amounts[resource]) for resource in sorted(amounts)}


def status_patch(
    before: Workload,
    after: Workload,
    requests: Mapping[str, Requests] | None = None,
    *,
    by_prefix: bool = True,
) -> Raw | None:
    """Returns the merge patch of the status subresource from one state to the other; None if nothing differs.

    ``requests``, totals by pod set that the cycle used, are written as ``resourceRequests`` if given; ``by_prefix`` is
    how hostnames of topology assignments are encoded (feature gate TASAssignmentsEncodingByHostnamePrefix).
    """
    status: Raw = {}
    if before.conditions != after.conditions:
        status["conditions"] = raw_conditions(after.conditions)
    if before.admission != after.admission:
        status["admission"] = raw_admission(after.admission, by_prefix=by_prefix) if after.admission else None
    if before.checks != after.checks:
        status["admissionChecks"] = [_raw_check(check) for check in after.checks]
    if (before.requeue_count, before.requeue_at) != (after.requeue_count, after.requeue_at):
        status["requeueState"] = _raw_requeue_state(after)
    if before.past_execution != after.past_execution:
        status["accumulatedPastExecutionTimeSeconds"] = after.past_execution
    if before.reclaimable != after.reclaimable:
        status["reclaimablePods"] = [{"name": name, "count": after.reclaimable[name]} for name in after.reclaimable]
    if before.evictions != after.evictions:
        status["schedulingStats"] = {"evictions": [_raw_eviction(*eviction) for eviction in after.evictions]}
    if before.cluster_name != after.cluster_name:
        status["clusterName"] = after.cluster_name or None
    if before.nominated != after.nominated:
        status["nominatedClusterNames"] = list(after.nominated) or None
    if before.unhealthy_nodes != after.unhealthy_nodes:
        status["unhealthyNodes"] = [{"name": name} for name in after.unhealthy_nodes] or None
    if before.gate_states != after.gate_states:
        status["preemptionGates"] = raw_gates(after.gate_states)
    if not status:
        return None
    if requests:
        status["resourceRequests"] = [{"name": name, "resources": texts(requests[name])} for name in requests]
    return guarded({"status": status}, before)


def _raw_check(check: CheckState) -> Raw:
    return {
        "name": check.name,
        "state": check.state,
        "message": check.message,
        "lastTransitionTime": stamp(check.since),
        **({"retryCount": check.retry_count} if check.retry_count else {}),
        **({"requeueAfterSeconds": int(check.requeue_after)} if check.requeue_after is not None else {}),
        **({"podSetUpdates": list(check.pod_set_updates)} if check.pod_set_updates else {}),
    }


def _raw_gate(state: GateState) -> Raw:
    position = names.GatePosition.OPEN if state.open else names.GatePosition.CLOSED
    return {"name": state.name, "position": position, "lastTransitionTime": stamp(state.since)}


def _raw_requeue_state(workload: Workload) -> Raw | None:
    if not workload.requeue_count and workload.requeue_at is None:
        return None
    at = workload.requeue_at
    return {"count": workload.requeue_count or None, "requeueAt": stamp(at) if at is not None else None}


def _raw_eviction(reason: str, cause: str, count: int) -> Raw:
    return {"reason": reason, "underlyingCause": cause, "count": count}
