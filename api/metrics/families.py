"""All metrics of Kueue: name, type, labels and description, so that dashboards and alerts for Kueue work.

One table for counters, histograms and gauges (``controller.metrics``); a test compares it with Kueue's reference.
Every series has ``replica_role`` (leader, follower or standalone) and, with the feature gate
CustomMetricLabels, the labels that ``metrics.customLabels`` copies from the objects in ``sources``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from api.feature_gates import Gates, enabled
from api.objects import Key

ROLE: Final = "replica_role"

CLUSTER_QUEUE: Final = "ClusterQueue"
COHORT: Final = "Cohort"
LOCAL_QUEUE: Final = "LocalQueue"
WORKLOAD: Final = "Workload"


class Family(NamedTuple):
    """One metric; ``labels`` are without the role and promoted ones, ``buckets`` are upper bounds in seconds."""

    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    sources: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def full_name(name: str) -> str:
    """Return the name that a family is reported with."""
    return name if name.startswith("multikueue_") else f"kueue_{name}"


Subject = tuple[str, Key]
"""The kind and key of the object that a series is about."""


def subject_of(family: Family, labels: Mapping[str, str]) -> Subject | None:
    """Return the object that a series with these labels is about; None where it is about no single one."""
    kind = family.sources[0] if family.sources else ""
    if kind == CLUSTER_QUEUE:
        return kind, Key("", labels.get("cluster_queue") or labels.get("preempting_cluster_queue", ""))
    if kind == COHORT:
        return kind, Key("", labels["cohort"])
    if kind == LOCAL_QUEUE and "namespace" in labels:
        return kind, Key(labels["namespace"], labels["name"])
    return None


def buckets(count: int) -> tuple[float, ...]:
    """Return Kueue's buckets in seconds: 1, then 2.5 doubling."""
    return (1.0, *(2.5 * 2**step for step in range(count - 1)))


_DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CREATION_BUCKETS = tuple(0.01 * 2**step for step in range(11))

_STATUS = (
    " status is 'active' (may be looked at in the next cycle) or 'inadmissible' (waits until something that could admit"
    " it changes, or for a ClusterQueue that is not active)."
)
_RESULT = " result is 'success' (at least one workload got quota) or 'inadmissible' (none did)."
_REASON = (
    " reason is that of the condition Evicted: Preempted, PodsReadyTimeout, AdmissionCheck, ClusterQueueStopped,"
    " LocalQueueStopped, NodeFailures or Deactivated."
)
_CAUSE = (
    " underlying_cause says why it was deactivated (AdmissionCheck, MaximumExecutionTimeExceeded,"
    " RequeuingLimitExceeded) or what its pods waited for (WaitForStart, WaitForRecovery); else it is empty."
)
_UNADMITTED = (
    " reason is that of the condition Admitted, underlying_cause that of QuotaReserved. Only with the feature gate"
    " UnadmittedWorkloadsObservability."
)


def _counter(labels: tuple[str, ...], text: str, *sources: str) -> Family:
    return Family("counter", labels, text, sources)


def _gauge(labels: tuple[str, ...], text: str, *sources: str) -> Family:
    return Family("gauge", labels, text, sources)


def _histogram(labels: tuple[str, ...], text: str, *sources: str, bounds: tuple[float, ...] | None = None) -> Family:
    return Family("histogram", labels, text, sources, bounds if bounds is not None else buckets(14))


_CQ = ("cluster_queue",)
_CQ_CLASS = (*_CQ, "priority_class")
_EVICTION = ("reason", "underlying_cause")
_FR = ("flavor", "resource")
_QUOTA = ("cohort", "cluster_queue", *_FR)
_LQ = ("name", "namespace")
_LQ_CLASS = (*_LQ, "priority_class")


def _of_cluster_queues() -> dict[str, Family]:
    """Metrics by ClusterQueue."""
    source = CLUSTER_QUEUE
    both = (CLUSTER_QUEUE, WORKLOAD)
    return {
        "admission_cycle_preemption_skips": _gauge(
            _CQ,
            "Workloads of the ClusterQueue that had victims to preempt in its last cycle and were passed over, for"
            " another ClusterQueue took the same victims or the room.",
            source,
        ),
        "preemption_target_recomputations_total": _counter(
            (*_CQ, "result"),
            "How often victims were chosen again, for another workload of the same cycle had chosen them too. result is"
            " 'new_targets' (other victims were found), 'deferred_fit' (it fits once the victims of others are gone) or"
            " 'skipped' (neither).",
            source,
        ),
        "pending_workloads": _gauge((*_CQ, "status"), "Workloads that wait in the ClusterQueue." + _STATUS, *both),
        "pending_scheduling_hashes": _gauge(
            (*_CQ, "status"),
            "Classes of workloads that wait in the ClusterQueue: those of a class ask for the same with the same"
            " priority and are judged together." + _STATUS,
            source,
        ),
        "finished_workloads": _gauge(_CQ, "Finished workloads of the ClusterQueue that are still stored.", source),
        "quota_reserved_workloads_total": _counter(
            _CQ_CLASS, "Workloads that got quota in the ClusterQueue, by priority class.", source
        ),
        "finished_workloads_total": _counter(
            _CQ_CLASS, "Workloads of the ClusterQueue that finished, by priority class.", source
        ),
        "execution_time_seconds": _histogram(
            _CQ_CLASS,
            "How long a finished workload of the ClusterQueue was admitted, all its admissions together.",
            source,
            bounds=buckets(16),
        ),
        "quota_reserved_wait_time_seconds": _histogram(
            _CQ_CLASS,
            "Time from the creation of a workload, or from when it was queued again, until it got quota in the"
            " ClusterQueue.",
            source,
        ),
        "pods_ready_to_evicted_time_seconds": _histogram(
            (*_CQ, *_EVICTION),
            "Time from when the pods of a workload were ready until it was evicted." + _REASON + _CAUSE,
            source,
        ),
        "admitted_workloads_total": _counter(
            _CQ_CLASS, "Workloads that the ClusterQueue admitted, by priority class.", source
        ),
        "admission_wait_time_seconds": _histogram(
            _CQ_CLASS,
            "Time from the creation of a workload, or from when it was queued again, until the ClusterQueue admitted"
            " it.",
            source,
            bounds=buckets(16),
        ),
        "admission_checks_wait_time_seconds": _histogram(
            _CQ_CLASS,
            "Time from when a workload got quota until the ClusterQueue admitted it: what its admission checks took.",
            source,
        ),
        "ready_wait_time_seconds": _histogram(
            _CQ_CLASS,
            "Time from the creation of a workload, or from when it was queued again, until all its pods were ready."
            " Only with waitForPodsReady.",
            source,
        ),
        "admitted_until_ready_wait_time_seconds": _histogram(
            _CQ_CLASS,
            "Time from the admission of a workload until all its pods were ready. Only with waitForPodsReady.",
            source,
        ),
        "evicted_workloads_total": _counter(
            (*_CQ, *_EVICTION, "priority_class"), "Evictions from the ClusterQueue." + _REASON + _CAUSE, source
        ),
        "evicted_workloads_once_total": _counter(
            (*_CQ, *_EVICTION, "priority_class"),
            "Workloads that the ClusterQueue evicted, each counted once for a reason." + _REASON + _CAUSE,
            source,
        ),
        "replaced_workload_slices_total": _counter(
            _CQ, "Workload slices of the ClusterQueue that a larger slice of the same elastic job replaced.", source
        ),
        "preempted_workloads_total": _counter(
            ("preempting_cluster_queue", "reason"),
            "Workloads that were evicted for one in preempting_cluster_queue. reason is InClusterQueue,"
            " InCohortReclamation, InCohortFairSharing or InCohortReclaimWhileBorrowing.",
            source,
        ),
        "workload_eviction_latency_seconds": _histogram(
            (*_CQ, "reason"), "Time from an eviction until the workload gave its quota back." + _REASON, source
        ),
        "reserving_active_workloads": _gauge(_CQ, "Workloads that hold quota of the ClusterQueue.", source),
        "admitted_active_workloads": _gauge(
            _CQ, "Workloads that the ClusterQueue admitted and that are not finished.", *both
        ),
        "cluster_queue_status": _gauge(
            (*_CQ, "status"),
            "1 for the status that the ClusterQueue has, 0 for the others. status is 'pending' (not active, or"
            " stopped), 'active' or 'terminating'.",
            source,
        ),
        "cluster_queue_info": _gauge(
            (*_CQ, "parent_cohort", "root_cohort"),
            "Always 1: where the ClusterQueue is in the tree of Cohorts. Both labels are empty where it has none.",
            source,
        ),
        "cluster_queue_resource_pending": _gauge(
            (*_CQ, "resource"),
            "What all workloads that wait in the ClusterQueue ask for. They have no flavor yet.",
            source,
        ),
        "unadmitted_workloads": _gauge(
            (*_CQ, *_EVICTION), "Workloads of the ClusterQueue that are not admitted." + _UNADMITTED, source
        ),
        "cluster_queue_resource_reservation": _gauge(_QUOTA, "Quota that the ClusterQueue has reserved.", source),
        "cluster_queue_resource_usage": _gauge(
            _QUOTA, "Quota that admitted workloads use in the ClusterQueue.", source
        ),
        "cluster_queue_nominal_quota": _gauge(_QUOTA, "Nominal quota of the ClusterQueue.", source),
        "cluster_queue_borrowing_limit": _gauge(
            _QUOTA, "How much the ClusterQueue may borrow above its nominal quota; +Inf without a limit.", source
        ),
        "cluster_queue_lending_limit": _gauge(
            _QUOTA, "How much of its nominal quota the ClusterQueue lends to others; +Inf without a limit.", source
        ),
        "cluster_queue_weighted_share": _gauge(
            ("cluster_queue", "cohort"),
            "The greatest part, over all resources, of what its cohort can lend that the ClusterQueue borrows, divided"
            " by its weight, in thousandths. 0 where it borrows nothing, NaN where it borrows with a weight of 0. Only"
            " with fair sharing.",
            source,
        ),
    }


def _of_local_queues() -> dict[str, Family]:
    """Metrics by LocalQueue, for those that ``metrics.localQueueMetrics`` selects."""
    source = LOCAL_QUEUE
    both = (LOCAL_QUEUE, WORKLOAD)
    return {
        "local_queue_pending_workloads": _gauge(
            (*_LQ, "status"), "Workloads that wait in the LocalQueue." + _STATUS, source
        ),
        "local_queue_finished_workloads": _gauge(
            _LQ, "Finished workloads of the LocalQueue that are still stored.", source
        ),
        "local_queue_quota_reserved_workloads_total": _counter(
            _LQ_CLASS, "Workloads of the LocalQueue that got quota, by priority class.", source
        ),
        "local_queue_finished_workloads_total": _counter(
            _LQ_CLASS, "Workloads of the LocalQueue that finished, by priority class.", source
        ),
        "local_queue_execution_time_seconds": _histogram(
            _LQ_CLASS,
            "How long a finished workload of the LocalQueue was admitted, all its admissions together.",
            source,
            bounds=buckets(16),
        ),
        "local_queue_quota_reserved_wait_time_seconds": _histogram(
            _LQ_CLASS,
            "Time from the creation of a workload of the LocalQueue, or from when it was queued again, until it got"
            " quota.",
            source,
        ),
        "local_queue_admitted_workloads_total": _counter(
            _LQ_CLASS, "Workloads of the LocalQueue that were admitted, by priority class.", *both
        ),
        "local_queue_admission_wait_time_seconds": _histogram(
            _LQ_CLASS,
            "Time from the creation of a workload of the LocalQueue, or from when it was queued again, until it was"
            " admitted.",
            *both,
        ),
        "local_queue_admission_checks_wait_time_seconds": _histogram(
            _LQ_CLASS,
            "Time from when a workload of the LocalQueue got quota until it was admitted: what its admission checks"
            " took.",
            source,
        ),
        "local_queue_ready_wait_time_seconds": _histogram(
            _LQ_CLASS,
            "Time from the creation of a workload of the LocalQueue, or from when it was queued again, until all its"
            " pods were ready. Only with waitForPodsReady.",
            source,
        ),
        "local_queue_admitted_until_ready_wait_time_seconds": _histogram(
            _LQ_CLASS,
            "Time from the admission of a workload of the LocalQueue until all its pods were ready. Only with"
            " waitForPodsReady.",
            source,
        ),
        "local_queue_evicted_workloads_total": _counter(
            (*_LQ, *_EVICTION, "priority_class"), "Evictions of workloads of the LocalQueue." + _REASON + _CAUSE, source
        ),
        "local_queue_reserving_active_workloads": _gauge(_LQ, "Workloads of the LocalQueue that hold quota.", source),
        "local_queue_admitted_active_workloads": _gauge(
            _LQ, "Workloads of the LocalQueue that are admitted and not finished.", *both
        ),
        "local_queue_status": _gauge(
            (*_LQ, "active"),
            "1 for the status that the LocalQueue's condition Active has, 0 for the others. active is 'True', 'False'"
            " or 'Unknown'.",
            source,
        ),
        "local_queue_resource_reservation": _gauge(
            (*_LQ, *_FR), "Quota that workloads of the LocalQueue have reserved.", source
        ),
        "local_queue_resource_usage": _gauge(
            (*_LQ, *_FR), "Quota that admitted workloads of the LocalQueue use.", source
        ),
        "local_queue_admission_fair_sharing_usage": _gauge(
            (*_LQ, *_CQ),
            "What the LocalQueue has used, by which admission fair sharing orders: its history and the admissions that"
            " do not show in it yet, weighted by resource and divided by the LocalQueue's weight.",
            source,
        ),
        "local_queue_unadmitted_workloads": _gauge(
            (*_LQ, *_CQ, *_EVICTION), "Workloads of the LocalQueue that are not admitted." + _UNADMITTED, source
        ),
    }


def _of_cohorts() -> dict[str, Family]:
    """Metrics by Cohort, including everything below it."""
    source = COHORT
    return {
        "cohort_info": _gauge(
            ("cohort", "parent_cohort", "root_cohort"),
            "Always 1: where the Cohort is in its tree. parent_cohort is empty for the root.",
            source,
        ),
        "cohort_weighted_share": _gauge(
            ("cohort",),
            "The greatest part, over all resources, of what its parent can lend that the Cohort borrows, divided by its"
            " weight, in thousandths. 0 where it borrows nothing, NaN where it borrows with a weight of 0. Only with"
            " fair sharing.",
            source,
        ),
        "cohort_subtree_quota": _gauge(
            ("cohort", *_FR), "Nominal quota of the Cohort and all that is below it.", source
        ),
        "cohort_subtree_resource_reservations": _gauge(
            ("cohort", *_FR), "Quota that is reserved in the Cohort and all that is below it.", source
        ),
        "cohort_subtree_admitted_workloads_total": _counter(
            ("cohort", "priority_class"), "Workloads that were admitted below the Cohort, by priority class.", source
        ),
        "cohort_subtree_admitted_active_workloads": _gauge(
            ("cohort",), "Workloads below the Cohort that are admitted and not finished.", source
        ),
    }


FAMILIES: Final[dict[str, Family]] = {
    "admission_attempts_total": _counter(("result",), "Cycles in which workloads were looked at." + _RESULT),
    "admission_attempt_duration_seconds": _histogram(
        ("result",), "How long a cycle took." + _RESULT, bounds=_DEFAULT_BUCKETS
    ),
    "pod_scheduling_gate_removal_seconds": _histogram(
        ("name", "cluster_queue", "is_group"),
        "Time from the admission of a Workload until the gate of a pod was removed: name is the gate, is_group whether"
        " the pod is one of a group.",
        CLUSTER_QUEUE,
        bounds=_DEFAULT_BUCKETS,
    ),
    "workload_creation_latency_seconds": _histogram(
        ("job_kind",),
        "Time from the creation of a job until its Workload was created, for jobs that nobody has changed since.",
        LOCAL_QUEUE,
        bounds=_CREATION_BUCKETS,
    ),
    "build_info": Family(
        "gauge",
        ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform"),
        "Always 1: the version that runs. The labels that describe a build of Go are empty.",
    ),
    "multikueue_workloads_dispatched_total": _counter(
        (*_CQ, "cluster"), "Workloads of the ClusterQueue that were created in the worker cluster.", CLUSTER_QUEUE
    ),
    "multikueue_workloads_admitted_total": _counter(
        (*_CQ, "cluster"), "Workloads of the ClusterQueue that the worker cluster admitted.", CLUSTER_QUEUE
    ),
    **_of_cluster_queues(),
    **_of_local_queues(),
    **_of_cohorts(),
}
"""By name, without the prefix ``kueue_``."""

UNROLED: Final = frozenset({"build_info"})
"""Without ``replica_role``: it describes the program, not its work."""


_BY_GATE: Final = {
    "LocalQueueMetrics": tuple(_of_local_queues()),
    "MetricsForCohorts": (*_of_cohorts(), "cluster_queue_info"),
    "MetricForWorkloadCreationLatency": ("workload_creation_latency_seconds",),
    "SchedulingEquivalenceHashing": ("pending_scheduling_hashes",),
    "UnadmittedWorkloadsObservability": ("unadmitted_workloads", "local_queue_unadmitted_workloads"),
}


def hidden(gates: Gates) -> frozenset[str]:
    """Return the families that are not reported, for the feature gate that they belong to is off."""
    return frozenset(name for gate, names in _BY_GATE.items() if not enabled(gate, gates) for name in names)
