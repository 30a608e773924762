"""The choices of an administrator for the whole cluster that decisions depend on.

Separate so that Configuration, simulate and tests use the same values, and the cycle does not depend on their source.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Strategy(enum.StrEnum):
    """``fairSharing.preemptionStrategies``: when fairness lets a ClusterQueue preempt in another (KEP 1714)."""

    LESS_THAN_OR_EQUAL_TO_FINAL_SHARE = "LessThanOrEqualToFinalShare"
    LESS_THAN_INITIAL_SHARE = "LessThanInitialShare"


DEFAULT_STRATEGIES = (Strategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE, Strategy.LESS_THAN_INITIAL_SHARE)


@dataclass(frozen=True, slots=True)
class AdmissionFairSharing:
    """Order in a ClusterQueue by the decayed usage of its LocalQueues (KEP 4136). Times in seconds."""

    half_life: float = 0.0
    sampling_interval: float = 300.0
    resource_weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """The part of the Configuration that the cycle uses.

    ``fair_sharing`` is the list of strategies, ``None`` if fair sharing is off. ``requeue_by_eviction`` is
    ``waitForPodsReady.requeuingStrategy.timestamp: Eviction``. ``ignore_undeclared`` is ``resources.quotaCheckStrategy:
    IgnoreUndeclared``. ``block_admission`` admits one workload at a time, the next when its pods are ready.
    ``prioritize_preemptors`` (feature gate PrioritizePreemptorWorkloads) orders a workload that waits for its victims
    before all others. ``concurrent_admission`` (feature gate ConcurrentAdmission) admits the workloads of a
    ClusterQueue with a migration policy through variants.
    """

    fair_sharing: tuple[Strategy, ...] | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    priority_sorting_within_cohort: bool = True
    preempt_within_nominal: bool = True
    prioritize_non_borrowing: bool = True
    partial_admission: bool = True
    recompute_on_overlap: bool = True
    requeue_by_eviction: bool = True
    ignore_undeclared: bool = False
    block_admission: bool = False
    prioritize_preemptors: bool = False
    concurrent_admission: bool = False
