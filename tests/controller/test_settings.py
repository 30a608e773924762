"""What the controller makes of a Configuration."""

import pytest

from api.configuration import load
from api.feature_gates import DEFAULTS
from controller.settings import ControllerSettings, from_configuration
from core.jobs.kinds import BATCH_JOB
from core.jobs.workload import Copied, manifest
from core.model.policy import Strategy
from core.multikueue.kubeconfig import Allowed
from tests.core.jobs.samples import job

FULL = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
manageJobsWithoutQueueName: true
fairSharing: {preemptionStrategies: [LessThanInitialShare]}
featureGates: {PartialAdmission: false}
waitForPodsReady:
  timeout: 5m
  blockAdmission: true
  requeuingStrategy: {timestamp: Creation, backoffLimitCount: 3, backoffBaseSeconds: 10}
resources: {excludeResourcePrefixes: [example.com/]}
objectRetentionPolicies: {workloads: {afterFinished: 1h}}
leaderElection: {leaderElect: true, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 4s}
"""


def read(text: str, *, elect: bool = False) -> ControllerSettings:
    return from_configuration(load(text).configuration, elect=elect)


def test_every_section_that_queueing_depends_on_is_taken_over() -> None:
    found = read(FULL, elect=True)
    assert found.policy.fair_sharing == (Strategy.LESS_THAN_INITIAL_SHARE,)
    assert (found.policy.partial_admission, found.policy.block_admission) == (False, True)
    assert not found.policy.requeue_by_eviction
    assert found.life.pods_ready is not None
    assert (found.life.pods_ready.timeout, found.life.pods_ready.recovery_timeout) == (300, 300)
    assert (found.life.pods_ready.limit, found.life.pods_ready.backoff.base) == (3, 10)
    assert found.life.after_finished == 3600
    assert found.reading.excluded_prefixes == ("example.com/",)
    assert found.manage_jobs_without_queue_name
    assert found.leader_election is not None
    assert (found.leader_election.lease_duration, found.leader_election.namespace) == (30, "kueue-system")


def test_a_kubeconfig_of_a_worker_may_ask_for_what_the_section_allows() -> None:
    found = read("multiKueue: {kubeConfigs: {allowHttp: true, allowProxyUrl: true}}").multikueue
    assert found.allowed == Allowed(http=True, proxy=True)
    assert read("").multikueue.allowed == Allowed()


def test_the_defaults_are_kueues_without_leader_election() -> None:
    found = read("")
    assert found.leader_election is None
    assert found.policy.fair_sharing is None
    assert found.life.pods_ready is not None
    assert (found.life.pods_ready.timeout, found.life.pods_ready.limit) == (1800, None)
    assert found.multikueue.policy.follows_pods
    assert found.frameworks == ("batch/job",)


@pytest.mark.parametrize(
    ("gates", "explicit"),
    [
        ("{}", False),
        ("{UnadmittedWorkloadsExplicitStatus: true}", True),
        ("{UnadmittedWorkloadsExplicitStatus: true, UnadmittedWorkloadsObservability: false}", False),
    ],
)
def test_the_status_is_explicit_where_both_gates_are_on(gates: str, explicit: bool) -> None:
    text = f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nfeatureGates: {gates}\n"
    assert from_configuration(load(text).configuration, elect=False).life.explicit_status is explicit


BASE = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
admissionFairSharing: {usageHalfLifeTime: 1h}
resources: {quotaCheckStrategy: IgnoreUndeclared}
metrics: {customLabels: [{name: team}]}
multiKueue:
  dispatcherName: kueue.x-k8s.io/multikueue-dispatcher-incremental
  incrementalDispatcherConfig: {stepSize: 7}
  externalFrameworks: [{name: Widget.v1.example.com}]
  clusterProfile:
    accessProviders:
    - name: p
      execConfig: {command: c, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}
"""


@pytest.mark.parametrize(
    "gate",
    [
        "AdmissionFairSharing",
        "AdmissionGatedBy",
        "AssignQueueLabelsForPods",
        "CleanupProvisioningRequestsOnEviction",
        "ConcurrentAdmission",
        "CustomMetricLabels",
        "DeferRayServiceFinalizationForRedisCleanup",
        "DisableWaitForPodsReady",
        "ElasticJobsViaWorkloadSlices",
        "ElasticJobsViaWorkloadSlicesWithTAS",
        "FailureRecoveryPolicy",
        "FairSharingPreemptWithinNominal",
        "FairSharingPrioritizeNonBorrowing",
        "FastQuotaReleaseInPodIntegration",
        "FinishOrphanedWorkloads",
        "FlavorFungibility",
        "FlavorFungibilityPreserveScanProgress",
        "KueueDRAIntegration",
        "KueueDRAIntegrationConsumableCapacity",
        "KueueDRAIntegrationExtendedResource",
        "KueueDRAIntegrationPartitionableDevices",
        "KueueDRARejectWorkloadsWhenDRADisabled",
        "LocalQueueMetrics",
        "MetricForWorkloadCreationLatency",
        "MetricsForCohorts",
        "MultiKueue",
        "MultiKueueAdaptersForCustomJobs",
        "MultiKueueClusterProfile",
        "MultiKueueIncrementalDispatcherConfig",
        "MultiKueueIncrementalDispatcherRespectConfigOrder",
        "MultiKueueKubeConfigPathValidation",
        "MultiKueueManagerQuotaAutomation",
        "MultiKueueOrchestratedPreemption",
        "MultiKueueRemoteSpecSync",
        "PartialAdmission",
        "PodIntegrationValidateGroupOwner",
        "PrioritizePreemptorWorkloads",
        "PriorityBoost",
        "PrioritySortingWithinCohort",
        "QuotaCheckStrategy",
        "ReclaimablePods",
        "RecomputeAssignmentUponPreemptionTargetsOverlap",
        "SchedulerLibraryIntegration",
        "SchedulingEquivalenceHashing",
        "ShortWorkloadNames",
        "SkipReassignmentForPodOwnedWorkloads",
        "TASAssignmentsEncodingByHostnamePrefix",
        "TASBalancedPlacement",
        "TASFailedNodeReplacement",
        "TASFailedNodeReplacementFailFast",
        "TASHandleOverlappingFlavors",
        "TASProfileMixed",
        "TASRecomputeAssignmentWithinSchedulingCycle",
        "TASReplaceNodeDueToNotReadyOverFixedTime",
        "TASReplaceNodeOnNodeTaints",
        "TASReplaceNodeOnPodTermination",
        "TASRespectNodeAffinityPreferred",
        "TASTopologySpreading",
        "TopologyAwareScheduling",
        "UnadmittedWorkloadsExplicitStatus",
        "UnadmittedWorkloadsObservability",
        "WorkloadIdentifierAnnotations",
    ],
)
def test_a_feature_gate_of_the_controller_changes_its_settings(gate: str) -> None:
    on, off = (read(f"{BASE}featureGates: {{{gate}: {value}}}") for value in ("true", "false"))
    assert on != off
    assert on.multikueue.policy.follows_pods == on.wait_for_pods_ready
    assert read(BASE) == (on if DEFAULTS[gate] else off)


def test_what_metric_labels_take_from_workloads_is_copied_from_their_jobs() -> None:
    text = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations: {labelKeysToCopy: [team]}
metrics:
  customLabels:
    - {name: stage, sourceLabelKey: example.com/stage, sourceKind: Workload, trackedValues: [a]}
    - {name: own, sourceKind: Workload, trackedValues: [a]}
    - {name: cost, sourceAnnotationKey: example.com/cost, sourceKind: Workload, trackedValues: [a]}
    - {name: region}
"""
    without = Copied(labels=frozenset({"team"}), topology_requests=True)
    assert read(text).copied == without
    found = read(text + "featureGates: {CustomMetricLabels: true}\n").copied
    assert found == Copied(frozenset({"team", "example.com/stage", "own"}), frozenset({"example.com/cost"}), True)
    submitted = job()
    submitted["metadata"]["labels"] |= {"own": "a", "other": "b"}
    submitted["metadata"]["annotations"] = {"example.com/cost": "12", "example.com/other": "x"}
    made = manifest(BATCH_JOB, submitted, {"spec": {}}, found)["metadata"]
    assert (made["labels"].get("own"), made["labels"].get("other")) == ("a", None)
    assert made["annotations"] == {"example.com/cost": "12"}
