"""What follows for a workload when nodes of its topology assignment have failed, or have recovered.

One failed node is written to ``status.unhealthyNodes``, and the second pass of the cycle replaces it; a second one
evicts the workload. Source: KEP 2724, node failures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from api.names import HOSTNAME_LABEL, Condition, EvictedReason, SchedulingGate
from core.actions import Action, Wait, status
from core.model import PodSetAssignment, Raw, ResourceFlavor, Workload, events
from core.model.workload import replace
from core.topology.health import NodeHealth, Tolerations
from core.wire import decode
from core.wire.guard import guarded
from core.wire.timestamps import stamp
from core.workload import transitions
from core.workload.actions import Evict

SEVERAL: Final = "Workload eviction triggered due to multiple TAS assigned node failures, including: {}"


def assigned_nodes(workload: Workload) -> Mapping[str, tuple[PodSetAssignment, ...]]:
    """Returns the hostnames of the nodes on which the pods of an admitted workload are placed, with the pod sets; none
    where the lowest level of the topology is not the hostname, and none while the workload is evicted or has finished.
    """
    if workload.admission is None or not workload.holds(Condition.ADMITTED):
        return {}
    if workload.holds(Condition.EVICTED) or workload.holds(Condition.FINISHED):
        return {}
    found: dict[str, tuple[PodSetAssignment, ...]] = {}
    for given in workload.admission.pod_sets:
        if given.topology is None or given.topology.levels[-1:] != (HOSTNAME_LABEL,):
            continue
        for domain in given.topology.domains:
            if domain.count:
                found[domain.values[-1]] = (*found.get(domain.values[-1], ()), given)
    return found


def tolerations(
    workload: Workload, placed: Iterable[PodSetAssignment], flavors: Mapping[str, ResourceFlavor]
) -> list[Tolerations]:
    """Returns by pod set what its pods tolerate: those of the template, of its flavors and of admission checks."""
    pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    found = []
    for given in placed:
        own = pod_sets[given.name].placement.tolerations if given.name in pod_sets else ()
        used = [flavors[name].tolerations for name in dict.fromkeys(given.flavors.values()) if name in flavors]
        updates = [
            decode.placement(update).tolerations
            for check in workload.checks
            for update in check.pod_set_updates
            if update.get("name") == given.name
        ]
        found.append(own + tuple(each for several in (*used, *updates) for each in several))
    return found


def decide(workload: Workload, found: Mapping[str, NodeHealth], now: float) -> Action:
    """Returns the next write of a workload, by the health of the nodes of its assignment."""
    healthy = {name for name, health in found.items() if health.failed is False}
    failed = [name for name in sorted(found) if found[name].failed and name not in workload.unhealthy_nodes]
    known = tuple(name for name in workload.unhealthy_nodes if name not in healthy)
    if len(known) + len(failed) > 1 and failed:
        return _evict(workload, SEVERAL.format(", ".join((*known, *failed))), now)
    patch = status(workload, replace(workload, unhealthy_nodes=(*known, *failed)), "unhealthy nodes")
    waits = [health.seconds for health in found.values() if health.seconds is not None]
    return patch or Wait(max(0.0, min(waits)) if waits else None)


def waits_for(pod: Raw) -> str:
    """Returns the hostname of the node for which a pod waits that may be scheduled; '' if it waits for no certain node,
    or is on one.
    """
    spec, metadata = pod.get("spec") or {}, pod["metadata"]
    gates = [gate.get("name") for gate in spec.get("schedulingGates") or ()]
    pending = (pod.get("status") or {}).get("phase") == "Pending" and not metadata.get("deletionTimestamp")
    if spec.get("nodeName") or not pending or SchedulingGate.TOPOLOGY in gates:
        return ""
    return str((spec.get("nodeSelector") or {}).get(HOSTNAME_LABEL) or "")


def ended(pod: Raw, now: float) -> Raw:
    """Returns the patch of the status of a pod that waits for a failed node: it has failed, so that its job creates it
    again, and it is placed on another one.
    """
    condition = {
        "type": "TerminatedByKueue",
        "status": "True",
        "reason": "UnschedulableOnAssignedNode",
        "message": events.POD_TERMINATED,
        "lastTransitionTime": stamp(now),
    }
    status = {"phase": "Failed", "conditions": [*((pod.get("status") or {}).get("conditions") or ()), condition]}
    return guarded({"status": status}, pod)


def _evict(workload: Workload, message: str, now: float) -> Action:
    reason = EvictedReason.NODE_FAILURES
    after = transitions.evicted(workload, reason, message, now)
    patch = status(workload, after)
    assert patch is not None
    event = events.evicted(reason, message)
    return Evict(patch.body, "status", after=after, reason=reason, why="evict", events=(event,))
