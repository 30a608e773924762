"""The choices of an administrator for the whole cluster that decisions depend on.

Separate so that Configuration, simulate and tests use the same values, and the cycle does not depend on their source.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from api.feature_gates import Gates, enabled


class Strategy(enum.StrEnum):
    """``fairSharing.preemptionStrategies``: when fairness lets a ClusterQueue preempt in another (KEP 1714)."""

    LESS_THAN_OR_EQUAL_TO_FINAL_SHARE = "LessThanOrEqualToFinalShare"
    LESS_THAN_INITIAL_SHARE = "LessThanInitialShare"


@dataclass(frozen=True, slots=True)
class AdmissionFairSharing:
    """Order in a ClusterQueue by the decayed usage of its LocalQueues (KEP 4136). Times in seconds."""

    half_life: float = 0.0
    sampling_interval: float = 300.0
    resource_weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopologyPolicy:
    """The feature gates of topology-aware scheduling that the cycle uses, with their defaults.

    ``mixed_profile`` is TASProfileMixed, ``balanced`` TASBalancedPlacement, ``preferred_affinity``
    TASRespectNodeAffinityPreferred, ``overlapping_flavors`` TASHandleOverlappingFlavors, ``recompute``
    TASRecomputeAssignmentWithinSchedulingCycle, ``fail_fast`` TASFailedNodeReplacementFailFast, ``keep_pod_owned``
    SkipReassignmentForPodOwnedWorkloads, ``elastic`` ElasticJobsViaWorkloadSlicesWithTAS and ``encoded_by_prefix``
    TASAssignmentsEncodingByHostnamePrefix, ``tolerable_nodes`` SchedulerLibraryIntegration, ``spreading``
    TASTopologySpreading.
    """

    mixed_profile: bool = True
    balanced: bool = False
    preferred_affinity: bool = False
    overlapping_flavors: bool = True
    recompute: bool = True
    fail_fast: bool = True
    keep_pod_owned: bool = True
    elastic: bool = False
    encoded_by_prefix: bool = True
    tolerable_nodes: bool = False
    spreading: bool = False

    @staticmethod
    def of(gates: Gates) -> TopologyPolicy | None:
        """Returns the policy of the gates that the operator set; None if TopologyAwareScheduling is off."""
        if not enabled("TopologyAwareScheduling", gates):
            return None
        return TopologyPolicy(
            mixed_profile=enabled("TASProfileMixed", gates),
            balanced=enabled("TASBalancedPlacement", gates),
            preferred_affinity=enabled("TASRespectNodeAffinityPreferred", gates),
            overlapping_flavors=enabled("TASHandleOverlappingFlavors", gates),
            recompute=enabled("TASRecomputeAssignmentWithinSchedulingCycle", gates),
            fail_fast=enabled("TASFailedNodeReplacementFailFast", gates),
            keep_pod_owned=enabled("SkipReassignmentForPodOwnedWorkloads", gates),
            elastic=enabled("ElasticJobsViaWorkloadSlicesWithTAS", gates),
            encoded_by_prefix=enabled("TASAssignmentsEncodingByHostnamePrefix", gates),
            tolerable_nodes=enabled("SchedulerLibraryIntegration", gates),
            spreading=enabled("TASTopologySpreading", gates),
        )


@dataclass(frozen=True, slots=True)
class SchedulingPolicy:
    """The part of the Configuration that the cycle uses.

    ``fair_sharing`` is the list of strategies, ``None`` if fair sharing is off. ``requeue_by_eviction`` is
    ``waitForPodsReady.requeuingStrategy.timestamp: Eviction``. ``ignore_undeclared`` is ``resources.quotaCheckStrategy:
    IgnoreUndeclared``. ``block_admission`` admits one workload at a time, the next when its pods are ready.
    ``prioritize_preemptors`` (feature gate PrioritizePreemptorWorkloads) orders a workload that waits for its victims
    before all others. ``concurrent_admission`` (feature gate ConcurrentAdmission) admits the workloads of a
    ClusterQueue with a migration policy through variants. ``topology`` has the gates of placement in topologies, None
    if TopologyAwareScheduling is off: then topologies have no effect. ``keeps_progress`` (feature gate
    FlavorFungibilityPreserveScanProgress) continues a search for flavors in the next cycle although quota was released,
    the workload was changed, or another one took its quota in the cycle; else it begins again.
    """

    fair_sharing: tuple[Strategy, ...] | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    priority_sorting_within_cohort: bool = True
    preempt_within_nominal: bool = True
    prioritize_non_borrowing: bool = True
    partial_admission: bool = True
    flavor_fungibility: bool = True
    keeps_progress: bool = True
    recompute_on_overlap: bool = True
    requeue_by_eviction: bool = True
    ignore_undeclared: bool = False
    block_admission: bool = False
    prioritize_preemptors: bool = False
    concurrent_admission: bool = False
    topology: TopologyPolicy | None = None
