"""Kueue's feature gates, so that a Configuration written for Kueue has the same meaning.

Every gate works, is locked, or is listed in ``LIMITED`` with its fixed behaviour and the reason. A Configuration that
sets such a gate to another value causes a warning at start (``api.configuration.load``).
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
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
        "KueueDRADeviceFeasibility",
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
        "TASTopologySpreading",
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
        "AdmissionCheckValidationRules",
        "ConfigurableResourceTransformations",
        "DRAExtendedResources",
        "DynamicResourceAllocation",
        "ExposeFlavorsInLocalQueue",
        "FlavorFungibilityImplicitPreferenceDefault",
        "HierarchicalCohorts",
        "KeepQuotaForProvReqRetry",
        "LendingLimit",
        "LocalQueueDefaulting",
        "ManagedJobsNamespaceSelector",
        "MultiKueueAllowInsecureKubeconfigs",
        "MultiKueueBatchJobWithManagedBy",
        "MultiKueueRedoAdmissionOnEvictionInWorker",
        "MultiKueueWaitForWorkloadAdmitted",
        "MultiplePreemptions",
        "ObjectRetentionPolicies",
        "PropagateBatchJobLabelsToWorkload",
        "ProvisioningACC",
        "QueueVisibility",
        "SanitizePodSets",
        "SchedulerLongRequeueInterval",
        "SchedulerTimestampPreemptionBuffer",
        "SkipFinalizersForPodsSuspendedByParent",
        "TASProfileLeastFreeCapacity",
        "TASProfileMostFreeCapacity",
        "WorkloadResourceRequestsSummary",
    }
)
"""Gates of earlier releases of Kueue: naming them causes a warning and has no effect."""

_NEWER: Final = frozenset(
    {
        "AdmissionFairSharingAnchorAtQuotaReservation",
        "KueueDRAIntegrationPrioritizedList",
        "TASGroupedPodSetSlicing",
        "TASNodeFeasibilityForAllLevels",
        "TASReplaceMultipleFailedNodes",
    }
)
"""Gates of newer releases of Kueue, which are not built: an error names them, so that nobody takes them for typos."""
NEWER: Final = "is a feature gate of a newer release of Kueue, which Seiretsu does not have: remove it"


LIMITED: Final[Mapping[str, tuple[bool, str]]] = {
    "RemoveFinalizersWithStrictPatch": (
        True,
        "has no effect: finalizers are always removed by a guarded patch",
    ),
    "SchedulingEquivalenceHashing": (
        True,
        "only removes the metric kueue_pending_scheduling_hashes: workloads that ask for the same are always judged"
        " together",
    ),
    "TASCacheNodeMatchResults": (True, "has no effect: it is about how Kueue computes, not about what"),
    "TASCacheTopologyTree": (True, "has no effect: it is about how Kueue computes, not about what"),
    "TASCachingRemainingResources": (True, "has no effect: it is about how Kueue computes, not about what"),
    "VectorizedResourceRequests": (True, "has no effect: it is about how Kueue computes, not about what"),
    "WorkloadRequestUseMergePatch": (True, "has no effect: statuses are always written by merge patch"),
}
"""Gates about how Kueue computes, not about what: the value that describes the fixed behaviour, and the warning for
another value.
"""

DEFAULTS: Final[Mapping[str, bool]] = {name: name not in _OFF for name in sorted(_ON | _OFF | _LOCKED)}
"""Every gate and whether it is on by itself."""


Enabled = Callable[[str], bool]
"""Whether a gate is on."""

Gates = Mapping[str, bool]
"""Gates that the operator set; one that is not there has its default."""


def enabled(name: str, gates: Gates) -> bool:
    """Whether a gate is on."""
    return gates.get(name, DEFAULTS[name])


def is_locked(name: str) -> bool:
    """Whether the gate can no longer be switched."""
    return name in _LOCKED


def is_newer(name: str) -> bool:
    """Whether the gate exists only in a release of Kueue that is newer than what is followed here."""
    return name in _NEWER


def is_removed(name: str) -> bool:
    """Whether the gate existed in the past."""
    return name in _REMOVED


def template() -> str:
    """Returns the chart's template of the gates: helm refuses what `api.configuration.load` refuses at the start."""
    kinds = {"known": DEFAULTS, "locked": _LOCKED, "newer": _NEWER, "removed": _REMOVED}
    lines = "".join(f"{kind}: [{', '.join(sorted(names))}]\n" for kind, names in kinds.items())
    return f"""{{{{- /* Made by `make generate` from api/feature_gates.py. */ -}}}}
{{{{- define "seiretsu.featureGates" -}}}}
{lines}{{{{- end -}}}}
"""


def main(arguments: list[str]) -> int:
    """Write the template to the file that is named."""
    Path(arguments[0]).write_text(template())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
