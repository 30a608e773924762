"""The order of workloads: the timestamp with which a workload is queued, and the order inside a ClusterQueue.

Separate because queues, the cycle and preemption (LowerOrNewerEqualPriority) must use the same time. Rule:
https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#queueing-strategy.
"""

from __future__ import annotations

from collections.abc import Sequence

from api.names import Condition, EvictedReason, PreemptedReason
from core.model import Workload
from core.model.policy import SchedulingPolicy

_EPSILON = 0.001
"""A workload that was preempted while the preemptor borrowed is queued directly after its preemptor."""


def queue_time(workload: Workload, policy: SchedulingPolicy) -> float:
    """The time a workload queues from: its creation, or its eviction where that was not another workload's doing."""
    evicted = workload.condition(Condition.EVICTED)
    if evicted is not None and evicted.status:
        if evicted.reason == EvictedReason.PODS_READY_TIMEOUT and policy.requeue_by_eviction:
            return evicted.since
        if evicted.reason == EvictedReason.ADMISSION_CHECK:
            return evicted.since
    if not policy.priority_sorting_within_cohort:
        preempted = workload.condition(Condition.PREEMPTED)
        if (
            preempted is not None
            and preempted.status
            and preempted.reason == PreemptedReason.IN_COHORT_RECLAIM_WHILE_BORROWING
        ):
            return preempted.since + _EPSILON
    return workload.created


QueueKey = tuple[int, float, str]
"""Sort key inside a ClusterQueue: higher priority, earlier time, uid."""


def queue_key(workload: Workload, policy: SchedulingPolicy, flavors: Sequence[str] = ()) -> QueueKey:
    """Returns the sort key of the workload in its ClusterQueue. The variants of one workload, often created in the same
    second, come in the order of their ``flavors``: else the workload would start in a less preferred one, and move.
    """
    if workload.variant_of:
        mine = workload.allowed_flavors[:1]
        place = next((at for at, flavor in enumerate(flavors) if (flavor,) == mine), len(flavors))
        return (-workload.priority, queue_time(workload, policy), f"{workload.variant_of} {place:04} {workload.uid}")
    return (-workload.priority, queue_time(workload, policy), workload.uid)
