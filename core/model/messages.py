"""The messages that people read in kubectl, with numbers. They are Kueue's texts, because tools and people match on
them.

Separate so that every text exists once, and can be reviewed without reading the rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from api import quantity
from api.names import PreemptedReason
from core.model import FlavorResource, Workload

WAITS = "Waits"
"""The beginning of the message on a Job that has the reason why it waits."""
FAILED_CHECKS = "The workload has failed admission checks"
NAMESPACE_MISMATCH = "workload namespace doesn't match ClusterQueue selector"
NO_LONGER_FITS = "Workload no longer fits after processing another workload"
OVERLAPPING = "Workload has overlapping preemption targets with another workload"
PREEMPTION_GATED = "Workload requires preemption, but it's gated"
OVERLAPPING_FITS = f"{OVERLAPPING}, but will fit after these preemptions complete"
BETTER_VARIANT = "A more favorable variant is already admitted"
NO_MIGRATION = "Target flavor is below LastAcceptableFlavorName"
PENDING_MIGRATION = "Pending the migration of 1 workload(s)"
WAITING_FOR_PODS_READY = "waiting for all admitted workloads to be in PodsReady condition"

DUE_TO = {
    PreemptedReason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    PreemptedReason.IN_COHORT_RECLAMATION: "reclamation within the cohort",
    PreemptedReason.IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    PreemptedReason.IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}
"""The cause in the message of a preemption, by its reason."""


def beyond_maximum(fr: FlavorResource, before: int, asked: int, maximum: int) -> str:
    """More is requested than there can ever be; ``before`` is what earlier pod sets use of the flavor."""
    return (
        f"insufficient quota for {fr.resource} in flavor {fr.flavor}, previously considered podsets requests "
        f"({quantity.text(fr.resource, before)}) + current podset request ({quantity.text(fr.resource, asked)}) > "
        f"maximum capacity ({quantity.text(fr.resource, maximum)})"
    )


@lru_cache(maxsize=8192)
def more_needed(fr: FlavorResource, missing: int) -> str:
    """Too little is free at present."""
    amount = quantity.text(fr.resource, missing)
    return f"insufficient unused quota for {fr.resource} in flavor {fr.flavor}, {amount} more needed"


def not_covered(resource: str) -> str:
    """The ClusterQueue has no resource group for the resource."""
    return f"resource {resource} unavailable in ClusterQueue"


def flavor_not_found(flavor: str) -> str:
    """The ClusterQueue refers to a ResourceFlavor that does not exist."""
    return f"flavor {flavor} not found"


def of_replaced_slice(flavor: str, original: str) -> str:
    """A slice of an elastic job gets the flavors of the slice that it replaces, whose pods run in them."""
    return f"could not assign {flavor} flavor since the original workload is assigned: {original}"


def not_nominated(flavor: str, resource: str) -> str:
    """When an assignment is computed again in the same cycle, only the flavors chosen at first count."""
    return f"skipping flavor {flavor} as it is not found in the nomination mapping for resource {resource}"


def not_allowed(flavor: str) -> str:
    """A variant of a workload may have one flavor only."""
    return f"skipping flavor {flavor} due to WorkloadAllowedResourceFlavorAnnotation annotation"


def pod_set(name: str, reasons: Sequence[str]) -> str:
    """Why a pod set has not all the flavors it needs."""
    return f"couldn't assign flavors to pod set {name}: {', '.join(sorted(reasons))}"


def malformed_pod_set(name: str, mistake: str) -> str:
    """A pod set that no flavor can be judged for."""
    return f"failed to assign flavors to pod set {name}: {mistake}"


def pending_preemption(number: int) -> str:
    """The addition to a message when victims have been found."""
    return f". Pending the preemption of {number} workload(s)"


def no_replacement(nodes: Sequence[str]) -> str:
    """The message of a workload for whose failed nodes there are no others."""
    return f"Workload was evicted as there was no replacement for unhealthy node(s): {','.join(nodes)}"


def migrated(uid: str) -> str:
    """The message of a variant whose workload moves to another flavor."""
    return f"Evicted to accommodate a workload (UID: {uid}) due to migration to more favorable resource flavor"


def behind(head: str, cluster_queue: str, *, strict: bool, blocked: bool = False) -> str:
    """A workload is not decided while another one keeps the first position.

    ``blocked``: that one waits until the pods of other workloads are ready.
    """
    why = "the queue is StrictFIFO" if strict else "it waits for the workloads that it preempts"
    why = "it waits until the pods of other workloads are ready" if blocked else why
    return f"behind {head}, which is first in ClusterQueue {cluster_queue}: {why}"


def inactive(cluster_queue: str) -> str:
    """The ClusterQueue admits nothing at present."""
    return f"ClusterQueue {cluster_queue} is inactive"


def not_found(cluster_queue: str) -> str:
    """There is no such ClusterQueue."""
    return f"ClusterQueue {cluster_queue} not found"


def no_namespace(namespace: str) -> str:
    """The workload's namespace is gone."""
    return f'workload namespace "{namespace}" does not exist: namespaces "{namespace}" not found'


def preempted(preemptor: Workload, reason: str, preemptor_path: str, preemptee_path: str) -> str:
    """The message of a victim."""
    return (
        f"Preempted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'}, "
        f"JobUID: {preemptor.job_uid or 'UNKNOWN'}) due to {DUE_TO[reason]}; "
        f"preemptor path: {preemptor_path}; preemptee path: {preemptee_path}"
    )


def slice_replaced(by: Workload) -> str:
    """The message of a slice of an elastic job that another slice replaces."""
    return f"Replaced to accommodate a workload (UID: {by.uid}, JobUID: {by.job_uid}) due to workload slice aggregation"


_PREEMPTED: Final = re.compile(
    r"Preempted to accommodate a workload \(UID: (?P<uid>[\w.-]+), JobUID: (?P<job_uid>[\w.-]+)\)"
    r" due to (?P<cause>[^;]+); preemptor path: (?P<by>[^;]*); preemptee path: (?P<of>[^;]*)"
)
_UNKNOWN: Final = "UNKNOWN"


class PreemptionMessage(NamedTuple):
    """What the message of a victim says: the uids of the preemptor and of its job ('' for unknown), the reason, and the
    ClusterQueues of the preemptor and of the victim.
    """

    uid: str
    job_uid: str
    reason: str
    by: str
    of: str


def preemption_of(message: str) -> PreemptionMessage | None:
    """Returns what a message of ``preempted`` says; None for any other message."""
    found = _PREEMPTED.search(message)
    reason = next((reason for reason, cause in DUE_TO.items() if found and found["cause"] == cause), None)
    if found is None or reason is None:
        return None
    by, of = (found[name].rstrip().rpartition("/")[2] for name in ("by", "of"))
    uid, job_uid = ("" if found[name] == _UNKNOWN else found[name] for name in ("uid", "job_uid"))
    return PreemptionMessage(uid, job_uid, reason, by, of)
