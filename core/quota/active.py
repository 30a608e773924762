"""Whether a ClusterQueue or LocalQueue can admit workloads, and in Kueue's words why not.

Separate because the status of queues, the choice of heads and `explain` must give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from api.names import MULTIKUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER, ClusterQueueReason, LocalQueueReason
from core.model import AdmissionCheck, ClusterQueue, Cohort, LocalQueue, ResourceFlavor, StopPolicy, Topology
from core.quota.tree import circular

COHORT_CYCLE = "CohortCycle"
"""A reason that only Seiretsu has: Kueue calls such a ClusterQueue active, and then admits nothing."""
MULTIKUEUE_WITH_CONCURRENT_ADMISSION = "MultiKueueWithConcurrentAdmission"
"""Another one: in Kueue the check rejects each variant, because its owner is no job, and the jobs are deactivated."""


class ActiveCondition(NamedTuple):
    """An Active condition: status, reason and message."""

    active: bool
    reason: str
    message: str


READY = ActiveCondition(True, ClusterQueueReason.READY, "Can admit new workloads")


def cluster_queue_active(
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    checks: Mapping[str, AdmissionCheck],
    cohorts: Mapping[str, Cohort],
    *,
    topologies: Mapping[str, Topology] | None = None,
    concurrent_admission: bool = False,
) -> ActiveCondition:
    """Whether a ClusterQueue can admit workloads: the first reason, all messages. ``topologies`` are None where the
    feature gate TopologyAwareScheduling is off; ``concurrent_admission`` is whether that gate is on.
    """
    if queue.deleting:
        return ActiveCondition(
            False, ClusterQueueReason.TERMINATING, "Can't admit new workloads; clusterQueue is terminating"
        )
    found = [*_faults(queue, flavors, checks), *conflicts(queue, checks.get, concurrent_admission=concurrent_admission)]
    found += _without_topology(queue, flavors, checks, topologies)
    if circular(cohorts, queue.cohort):
        found.append((COHORT_CYCLE, f"the parents of cohort {queue.cohort} form a cycle"))
    if not found:
        return READY
    return ActiveCondition(
        False, found[0][0], f"Can't admit new workloads: {', '.join(message for _, message in found)}."
    )


def offers_heads(condition: ActiveCondition) -> bool:
    """Whether workloads are decided: also those in a cycle of cohorts, so that their status reports it."""
    return condition.active or condition.reason == COHORT_CYCLE


def _faults(
    queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], checks: Mapping[str, AdmissionCheck]
) -> Iterable[tuple[str, str]]:
    reason = ClusterQueueReason
    if queue.stop_policy != StopPolicy.NONE:
        yield reason.STOPPED, "is stopped"
    missing = [name for group in queue.groups for name in group.flavors if name not in flavors]
    if missing:
        yield reason.FLAVOR_NOT_FOUND, f"references missing ResourceFlavor(s): {','.join(missing)}"
    asked = sorted({rule.name for rule in queue.checks})
    absent = [name for name in asked if name not in checks]
    if absent:
        yield reason.ADMISSION_CHECK_NOT_FOUND, f"references missing AdmissionCheck(s): {','.join(absent)}"
    known = [checks[name] for name in asked if name in checks]
    idle = [check.name for check in known if not check.active]
    if idle:
        yield reason.ADMISSION_CHECK_INACTIVE, f"references inactive AdmissionCheck(s): {','.join(idle)}"


def _without_topology(
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    checks: Mapping[str, AdmissionCheck],
    topologies: Mapping[str, Topology] | None,
) -> Iterable[tuple[str, str]]:
    """Yields the flavors whose Topology is missing; none where the pods run in other clusters, which have their own."""
    known = (checks[rule.name] for rule in queue.checks if rule.name in checks)
    if topologies is None or any(check.controller_name == MULTIKUEUE_CONTROLLER for check in known):
        return
    for name in dict.fromkeys(name for group in queue.groups for name in group.flavors):
        named = flavors[name].topology_name if name in flavors else None
        if named is not None and named not in topologies:
            text = f'there is no Topology "{named}" for TAS flavor "{name}"'
            yield ClusterQueueReason.TOPOLOGY_NOT_FOUND, text


def conflicts(
    queue: ClusterQueue,
    find: Callable[[str], AdmissionCheck | None],
    *,
    concurrent_admission: bool,
    named: Callable[[str], str] = str,
) -> Iterator[tuple[str, str]]:
    """Yields reason and message of what the AdmissionChecks of a ClusterQueue forbid: each other, some flavors only, or
    concurrent admission. ``named`` is how a message writes a name.
    """
    reason = ClusterQueueReason
    known = [check for name in sorted({rule.name for rule in queue.checks}) if (check := find(name)) is not None]
    remote = [check.name for check in known if check.controller_name == MULTIKUEUE_CONTROLLER]

    def listed(names: Iterable[str]) -> str:
        return ",".join(map(named, names))

    if len(remote) > 1:
        text = "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: "
        yield reason.MULTIPLE_MULTIKUEUE_ADMISSION_CHECKS, text + listed(remote)
    every = {name for group in queue.groups for name in group.flavors}
    partial = [r.name for r in queue.checks if r.name in remote and r.on_flavors and not r.on_flavors >= every]
    if partial:
        text = "Cannot specify MultiKueue AdmissionCheck per flavor, found: "
        yield reason.MULTIKUEUE_ADMISSION_CHECK_APPLIED_PER_FLAVOR, text + listed(sorted(partial))
    provisioning = [check.name for check in known if check.controller_name == PROVISIONING_REQUEST_CONTROLLER]
    if remote and provisioning:
        text = "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: "
        yield reason.MULTIKUEUE_WITH_PROVISIONING_REQUEST, f"{text}{listed(remote)}, {listed(provisioning)}"
    if remote and concurrent_admission and queue.migration is not None:
        text = "Cannot use MultiKueue AdmissionChecks with concurrentAdmissionPolicy, found: "
        yield MULTIKUEUE_WITH_CONCURRENT_ADMISSION, text + listed(remote)


def local_queue_active(queue: LocalQueue, cluster_queue: ActiveCondition | None) -> ActiveCondition:
    """Whether a LocalQueue can admit workloads; ``cluster_queue`` is None where that does not exist."""
    if queue.stop_policy != StopPolicy.NONE:
        return ActiveCondition(False, LocalQueueReason.STOPPED, "LocalQueue is stopped")
    if cluster_queue is None:
        message = "Can't submit new workloads to clusterQueue"
        return ActiveCondition(False, LocalQueueReason.CLUSTER_QUEUE_DOES_NOT_EXIST, message)
    if not cluster_queue.active:
        message = "Can't submit new workloads to clusterQueue"
        return ActiveCondition(False, LocalQueueReason.CLUSTER_QUEUE_IS_INACTIVE, message)
    return ActiveCondition(True, LocalQueueReason.READY, "Can submit new workloads to localQueue")
