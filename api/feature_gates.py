"""Kueue's feature gates, so that a Configuration written for Kueue is read with the same meaning.

A gate says what is on, not whether it is built here: the documentation lists those that change nothing yet.
"""

from collections.abc import Mapping
from typing import Final

_ON: Final = frozenset(
    {
        "AdmissionFairSharing",
        "AdmissionGatedBy",
        "AssignQueueLabelsForPods",
        "CleanupProvisioningRequestsOnEviction",
        "DeferRayServiceFinalizationForRedisCleanup",
        "ElasticJobsViaWorkloadSlices",
        "FairSharingPreemptWithinNominal",
        "FairSharingPrioritizeNonBorrowing",
        "FinishOrphanedWorkloads",
        "FlavorFungibility",
        "FlavorFungibilityPreserveScanProgress",
        "KueueDRAIntegration",
        "KueueDRAIntegrationExtendedResource",
        "KueueDRAIntegrationPartitionableDevices",
        "KueueDRARejectWorkloadsWhenDRADisabled",
        "LWSImmutableGroupSize",
        "LocalQueueMetrics",
        "MetricForWorkloadCreationLatency",
        "MetricsForCohorts",
        "MultiKueue",
        "MultiKueueAdaptersForCustomJobs",
        "MultiKueueIncrementalDispatcherConfig",
        "MultiKueueIncrementalDispatcherRespectConfigOrder",
        "MultiKueueKubeConfigPathValidation",
        "MultiKueueRemoteSpecSync",
        "PartialAdmission",
        "PodIntegrationValidateGroupOwner",
        "PrioritySortingWithinCohort",
        "QuotaCheckStrategy",
        "ReclaimablePods",
        "RecomputeAssignmentUponPreemptionTargetsOverlap",
        "RemoveFinalizersWithStrictPatch",
        "SchedulingEquivalenceHashing",
        "SkipAncestorCheckForDeletedWorkloads",
        "SkipReassignmentForPodOwnedWorkloads",
        "TASAssignmentsEncodingByHostnamePrefix",
        "TASCacheNodeMatchResults",
        "TASCacheTopologyTree",
        "TASCachingRemainingResources",
        "TASFailedNodeReplacement",
        "TASFailedNodeReplacementFailFast",
        "TASHandleOverlappingFlavors",
        "TASMultiLayerTopology",
        "TASProfileMixed",
        "TASRecomputeAssignmentWithinSchedulingCycle",
        "TASReplaceNodeOnNodeTaints",
        "TASReplaceNodeOnPodTermination",
        "TASValidateWorkloadSliceSize",
        "TopologyAwareScheduling",
        "UnadmittedWorkloadsObservability",
        "ValidateRayAndSparkJobUpdates",
        "VectorizedResourceRequests",
        "VisibilityOnDemand",
        "WorkloadIdentifierAnnotations",
        "WorkloadPriorityClassDefaulting",
        "WorkloadValidateResourcesAreNonNegative",
        "WorkloadValidationForPodSetMetadata",
    }
)
"""On unless switched off."""

_OFF: Final = frozenset(
    {
        "ConcurrentAdmission",
        "CustomMetricLabels",
        "DisableWaitForPodsReady",
        "ElasticJobsViaWorkloadSlicesWithTAS",
        "FailureRecoveryPolicy",
        "FastQuotaReleaseInPodIntegration",
        "KueueDRAIntegrationConsumableCapacity",
        "MultiKueueClusterProfile",
        "MultiKueueManagerQuotaAutomation",
        "MultiKueueOrchestratedPreemption",
        "PrioritizePreemptorWorkloads",
        "PriorityBoost",
        "RejectUpdatesToCQWithInvalidOnFlavors",
        "SchedulerLibraryIntegration",
        "ShortWorkloadNames",
        "SparkApplicationIntegration",
        "TASBalancedPlacement",
        "TASReplaceNodeDueToNotReadyOverFixedTime",
        "TASRespectNodeAffinityPreferred",
        "UnadmittedWorkloadsExplicitStatus",
        "WorkloadRequestUseMergePatch",
    }
)
"""Off unless switched on."""

_LOCKED: Final = frozenset(
    {
        "ManagedJobsNamespaceSelectorAlwaysRespected",
        "TLSOptions",
    }
)
"""On, and no longer to be switched off."""

_REMOVED: Final = frozenset(
    {
        "ConfigurableResourceTransformations",
        "HierarchicalCohorts",
        "LendingLimit",
        "LocalQueueDefaulting",
        "ManagedJobsNamespaceSelector",
        "MultiKueueBatchJobWithManagedBy",
        "MultiplePreemptions",
        "ObjectRetentionPolicies",
        "ProvisioningACC",
        "QueueVisibility",
        "SanitizePodSets",
    }
)
"""Once gates, today part of what is always there (or gone): naming them changes nothing."""


DEFAULTS: Final[Mapping[str, bool]] = {name: name not in _OFF for name in sorted(_ON | _OFF | _LOCKED)}
"""Every gate and whether it is on by itself."""


Gates = Mapping[str, bool]
"""Gates that the operator set; one that is not there has its default."""


def enabled(name: str, gates: Gates) -> bool:
    """Whether a gate is on."""
    return gates.get(name, DEFAULTS[name])


def is_locked(name: str) -> bool:
    """Whether the gate can no longer be switched."""
    return name in _LOCKED


def is_removed(name: str) -> bool:
    """Whether the gate once existed."""
    return name in _REMOVED
