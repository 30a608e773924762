"""All names of the API, in one place: groups, versions, labels, annotations, gates, finalizers, reasons, defaults.

No other module has such a name as a literal. The values are Kueue's (its reference documentation, "Labels and
annotations" and the API reference of 0.19/0.20), so that manifests and dashboards still work. Plain strings in small
namespaces rather than enums: they are written into users' objects unchanged, and `match` accepts them. A namespace has
the name of the type whose values it lists.
"""

from typing import Final

# Groups and versions.
GROUP: Final = "kueue.x-k8s.io"
V1ALPHA1: Final = "v1alpha1"
V1BETA1: Final = "v1beta1"
V1BETA2: Final = "v1beta2"
STORAGE_VERSION: Final = V1BETA2
API_VERSION: Final = f"{GROUP}/{V1BETA2}"
CONFIG_GROUP: Final = "config.kueue.x-k8s.io"
SCHEDULING_GROUP: Final = "scheduling.k8s.io"
AUTOSCALING_GROUP: Final = "autoscaling.x-k8s.io"
AUTOSCALING_API_VERSION: Final = f"{AUTOSCALING_GROUP}/v1"

# Names of this program. Field managers are Kueue's: controllers of admission checks and of other clusters recognize its
# writes by them.
NAMESPACE: Final = "kueue-system"
FIELD_MANAGER: Final = "seiretsu"  # of all writes that need not look like Kueue's
JOB_FIELD_MANAGER: Final = "kueue-job-controller"
JOB_WRITERS: Final = (FIELD_MANAGER, JOB_FIELD_MANAGER)
"""The field managers of a controller that starts and stops jobs: Seiretsu's and Kueue's."""
LEADER_ELECTION_ID: Final = "c1f6bfd2.kueue.x-k8s.io"
MULTIKUEUE_CONTROLLER: Final = "kueue.x-k8s.io/multikueue"
PROVISIONING_REQUEST_CONTROLLER: Final = "kueue.x-k8s.io/provisioning-request"
BUILT_IN_CONTROLLERS: Final = (MULTIKUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER)
"""The controllers of AdmissionChecks that are part of Seiretsu. Workloads that they check run in other clusters, or on
nodes that are added for them.
"""
DISPATCHER_ALL_AT_ONCE: Final = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
DISPATCHER_INCREMENTAL: Final = "kueue.x-k8s.io/multikueue-dispatcher-incremental"

# Well-known defaults.
BATCH_JOB: Final = "batch/job"
DEFAULT_FRAMEWORKS: Final = (BATCH_JOB,)
"""What ``integrations.frameworks`` has where it is not set."""
DEFAULT_POD_SET: Final = "main"
DEFAULT_LOCAL_QUEUE: Final = "default"
DEFAULT_WORKLOAD_PRIORITY_CLASS: Final = "default"
DEFAULT_PRIORITY: Final = 0
PODS_RESOURCE: Final = "pods"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
SYSTEM_NAMESPACES: Final = ("kube-system", NAMESPACE)
CONDITION_MESSAGE_LIMIT: Final = 32768


class Kind:
    """Seiretsu's own kinds, as in `kind`."""

    ADMISSION_CHECK: Final = "AdmissionCheck"
    CLUSTER_QUEUE: Final = "ClusterQueue"
    COHORT: Final = "Cohort"
    LOCAL_QUEUE: Final = "LocalQueue"
    MULTIKUEUE_CLUSTER: Final = "MultiKueueCluster"
    MULTIKUEUE_CONFIG: Final = "MultiKueueConfig"
    PROVISIONING_REQUEST: Final = "ProvisioningRequest"  # cluster-autoscaler's
    PROVISIONING_REQUEST_CONFIG: Final = "ProvisioningRequestConfig"
    QUEUE: Final = "Queue"  # v0.1's name of LocalQueue
    RESOURCE_FLAVOR: Final = "ResourceFlavor"
    TOPOLOGY: Final = "Topology"
    WORKLOAD: Final = "Workload"
    WORKLOAD_PRIORITY_CLASS: Final = "WorkloadPriorityClass"


class Plural:
    """Seiretsu's own kinds, as in URLs."""

    ADMISSION_CHECKS: Final = "admissionchecks"
    CLUSTER_QUEUES: Final = "clusterqueues"
    COHORTS: Final = "cohorts"
    LOCAL_QUEUES: Final = "localqueues"
    MULTIKUEUE_CLUSTERS: Final = "multikueueclusters"
    MULTIKUEUE_CONFIGS: Final = "multikueueconfigs"
    PROVISIONING_REQUEST_CONFIGS: Final = "provisioningrequestconfigs"
    QUEUES: Final = "queues"
    RESOURCE_FLAVORS: Final = "resourceflavors"
    TOPOLOGIES: Final = "topologies"
    WORKLOADS: Final = "workloads"
    WORKLOAD_PRIORITY_CLASSES: Final = "workloadpriorityclasses"


class Label:
    """Label keys, on jobs unless stated otherwise."""

    QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"  # v0.1 read an annotation of this name
    PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
    MAX_EXEC_TIME_SECONDS: Final = "kueue.x-k8s.io/max-exec-time-seconds"
    MANAGED: Final = "kueue.x-k8s.io/managed"  # "true" on plain pods
    PREBUILT_WORKLOAD: Final = "kueue.x-k8s.io/prebuilt-workload-name"
    JOB_UID: Final = (
        "kueue.x-k8s.io/job-uid"  # on Workloads, and on pods whose controller sets no label with the job's uid
    )
    POD_SET: Final = "kueue.x-k8s.io/podset"  # on pods
    CLUSTER_QUEUE: Final = "kueue.x-k8s.io/cluster-queue-name"  # on pods
    LOCAL_QUEUE: Final = "kueue.x-k8s.io/local-queue-name"  # on pods
    POD_GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
    POD_GROUP_POD_INDEX: Final = "kueue.x-k8s.io/pod-group-pod-index"
    MULTIKUEUE_ORIGIN: Final = "kueue.x-k8s.io/multikueue-origin"
    MULTIKUEUE_WORKER_WORKLOAD_POD: Final = "kueue.x-k8s.io/multikueue-worker-workload-pod"
    CONCURRENT_ADMISSION_PARENT: Final = "kueue.x-k8s.io/concurrent-admission-parent"


class JobControllerLabel:
    """Labels that Kubernetes' Job controller puts on pods."""

    COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
    CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
    LEGACY_CONTROLLER_UID: Final = "controller-uid"


class TrainingOperatorLabel:
    """Labels that Kubeflow's operators put on pods."""

    REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"


class Annotation:
    """Annotation keys, on jobs or their pod templates unless stated otherwise."""

    QUEUE_NAME: Final = Label.QUEUE_NAME  # v0.1's form, read where the label is absent
    ADMISSION_GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"
    MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
    COMPLETIONS_EQUAL_PARALLELISM: Final = "kueue.x-k8s.io/job-completions-equal-parallelism"
    STOPPING: Final = "kueue.x-k8s.io/stopping"
    ELASTIC_JOB: Final = "kueue.x-k8s.io/elastic-job"
    PREBUILT_WORKLOAD: Final = "kueue.x-k8s.io/prebuilt-workload-name"
    COMPONENT_WORKLOAD_INDEX: Final = "kueue.x-k8s.io/component-workload-index"
    IS_GROUP_WORKLOAD: Final = "kueue.x-k8s.io/is-group-workload"
    JOB_OWNER_GVK: Final = "kueue.x-k8s.io/job-owner-gvk"
    JOB_OWNER_NAME: Final = "kueue.x-k8s.io/job-owner-name"
    MULTIKUEUE_ORIGIN_UID: Final = "kueue.x-k8s.io/multikueue-origin-uid"
    POD_GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
    POD_GROUP_TOTAL_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
    POD_GROUP_FAST_ADMISSION: Final = "kueue.x-k8s.io/pod-group-fast-admission"
    POD_GROUP_SERVING: Final = "kueue.x-k8s.io/pod-group-serving"
    POD_GROUP_POD_INDEX_LABEL: Final = "kueue.x-k8s.io/pod-group-pod-index-label"
    POD_INDEX_OFFSET: Final = "kueue.x-k8s.io/pod-index-offset"
    POD_SUSPENDING_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"
    POD_SET_GROUP_NAME: Final = "kueue.x-k8s.io/podset-group-name"
    REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
    PREFERRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-preferred-topology"
    UNCONSTRAINED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
    SLICE_REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-slice-required-topology"
    SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
    SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
    TOPOLOGY_SPREADING: Final = "kueue.x-k8s.io/podset-topology-spreading"
    PRIORITY_BOOST: Final = "kueue.x-k8s.io/priority-boost"  # on Workloads
    CLASS_PRIORITY: Final = "seiretsu.kueue.x-k8s.io/class-priority"  # on Workloads: the last value of the class
    QUEUED_BY: Final = "seiretsu.kueue.x-k8s.io/queued-by"  # who queued the job; only admission sets it
    RETRIABLE_IN_GROUP: Final = "kueue.x-k8s.io/retriable-in-group"
    ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"
    SAFE_TO_FORCEFULLY_DELETE: Final = "kueue.x-k8s.io/safe-to-forcefully-delete"
    WORKLOAD: Final = "kueue.x-k8s.io/workload"
    WORKLOAD_SLICE_NAME: Final = "kueue.x-k8s.io/workload-slice-name"
    WORKLOAD_SLICE_REPLACEMENT_FOR: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
    ALLOWED_RESOURCE_FLAVORS: Final = "kueue.x-k8s.io/workload-allowed-resource-flavors"
    PROVISIONING_PARAMETER_PREFIX: Final = "provreq.kueue.x-k8s.io/"


class ProvisioningAnnotation:
    """Annotations of cluster-autoscaler on pods whose nodes were asked for."""

    REQUEST: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
    CLASS: Final = "autoscaling.x-k8s.io/provisioning-class-name"


class SchedulingGate:
    """Gates on pods."""

    ADMISSION: Final = "kueue.x-k8s.io/admission"
    TOPOLOGY: Final = "kueue.x-k8s.io/topology"
    ELASTIC_JOB: Final = "kueue.x-k8s.io/elastic-job"


class GatePosition:
    """Positions of preemption gates."""

    OPEN: Final = "Open"
    CLOSED: Final = "Closed"


class PreemptionGate:
    """Gates on Workloads that hold their preemptions back."""

    MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
    CONCURRENT_ADMISSION: Final = "kueue.x-k8s.io/concurrent-admission"


class Finalizer:
    """Finalizers."""

    RESOURCE_IN_USE: Final = "kueue.x-k8s.io/resource-in-use"  # ClusterQueue, ResourceFlavor, AdmissionCheck, Workload
    MANAGED: Final = "kueue.x-k8s.io/managed"  # pods


class Condition:
    """Condition types."""

    ACTIVE: Final = "Active"  # ClusterQueue, LocalQueue, AdmissionCheck, MultiKueueCluster
    QUOTA_RESERVED: Final = "QuotaReserved"
    ADMITTED: Final = "Admitted"
    EVICTED: Final = "Evicted"
    PREEMPTED: Final = "Preempted"
    REQUEUED: Final = "Requeued"
    FINISHED: Final = "Finished"
    PODS_READY: Final = "PodsReady"
    DEACTIVATION_TARGET: Final = "DeactivationTarget"
    WAITING_FOR_REPLACEMENT_PODS: Final = "WaitingForReplacementPods"
    BLOCKED_ON_PREEMPTION_GATES: Final = "BlockedOnPreemptionGates"
    MANAGER_QUOTA_AUTOMATION: Final = "MultiKueueManagerQuotaAutomation"  # of a ClusterQueue
    PODS_REMAIN: Final = "PodsRemain"  # not Kueue's, which does not look


class ProvisioningCondition:
    """Condition types of a ProvisioningRequest, which cluster-autoscaler sets."""

    ACCEPTED: Final = "Accepted"
    PROVISIONED: Final = "Provisioned"
    FAILED: Final = "Failed"
    BOOKING_EXPIRED: Final = "BookingExpired"
    CAPACITY_REVOKED: Final = "CapacityRevoked"


class DelayedTopology:
    """States of ``delayedTopologyRequest`` in ``status.admission.podSetAssignments``."""

    PENDING: Final = "Pending"
    READY: Final = "Ready"


class PendingReason:
    """Reasons of QuotaReserved=False, in order of precedence (KEP-10852). The last three are used without the feature
    gate UnadmittedWorkloadsObservability.
    """

    DEACTIVATED: Final = "Deactivated"
    ON_HOLD: Final = "OnHold"
    MISCONFIGURED: Final = "Misconfigured"
    NO_MATCHING_FLAVOR: Final = "NoMatchingFlavor"
    SUSPENDED: Final = "Suspended"
    ADMISSION_GATED: Final = "AdmissionGated"
    WAITING_FOR_PODS_READY: Final = "WaitingForPodsReady"
    EXCEEDS_MAX_QUOTA: Final = "ExceedsMaxQuota"
    WAITING_FOR_QUOTA: Final = "WaitingForQuota"
    TOPOLOGY_PLACEMENT_FAILED: Final = "TopologyPlacementFailed"
    WAITING_FOR_PREEMPTED_WORKLOADS: Final = "WaitingForPreemptedWorkloads"
    PENDING_EVALUATION: Final = "PendingEvaluation"
    PENDING: Final = "Pending"
    WAITING: Final = "Waiting"
    INADMISSIBLE: Final = "Inadmissible"


class AdmittedReason:
    """Reasons of Admitted (False unless ADMITTED)."""

    ADMITTED: Final = "Admitted"
    NO_RESERVATION: Final = "NoReservation"
    UNSATISFIED_ADMISSION_CHECKS: Final = "UnsatisfiedAdmissionChecks"
    PENDING_DELAYED_TOPOLOGY_REQUESTS: Final = "PendingDelayedTopologyRequests"
    UNSATISFIED_CHECKS: Final = "UnsatisfiedChecks"  # this and the next without UnadmittedWorkloadsObservability
    NO_RESERVATION_UNSATISFIED_CHECKS: Final = "NoReservationUnsatisfiedChecks"
    IMPORTED: Final = "Imported"  # as Kueue's importer sets it, also for QuotaReserved


class EvictedReason:
    """Reasons of Evicted; DEACTIVATED may be followed by DUE_TO and a cause."""

    PREEMPTED: Final = "Preempted"
    PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
    ADMISSION_CHECK: Final = "AdmissionCheck"
    CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
    NODE_FAILURES: Final = "NodeFailures"
    DEACTIVATED: Final = "Deactivated"
    FLAVOR_MIGRATION: Final = "FlavorMigration"
    EVICTED_ON_MANAGER_CLUSTER: Final = "EvictedOnManagerCluster"
    VARIANT_EVICTED: Final = "VariantEvicted"
    CONCURRENT_ADMISSION: Final = "ConcurrentAdmission"
    PODS_WITHOUT_QUOTA: Final = "PodsWithoutQuota"  # not Kueue's, which does not look
    DUE_TO: Final = "DueTo"


class DeactivationCause:
    """The causes of a deactivation; also the reasons of DeactivationTarget."""

    REQUEUING_LIMIT_EXCEEDED: Final = "RequeuingLimitExceeded"
    MAXIMUM_EXECUTION_TIME_EXCEEDED: Final = "MaximumExecutionTimeExceeded"
    ADMISSION_CHECK: Final = "AdmissionCheck"


class PreemptedReason:
    """Reasons of Preempted."""

    IN_CLUSTER_QUEUE: Final = "InClusterQueue"
    IN_COHORT_RECLAMATION: Final = "InCohortReclamation"
    IN_COHORT_FAIR_SHARING: Final = "InCohortFairSharing"
    IN_COHORT_RECLAIM_WHILE_BORROWING: Final = "InCohortReclaimWhileBorrowing"
    PREEMPTION_GATED: Final = "PreemptionGated"  # of BlockedOnPreemptionGates


class RequeuedReason:
    """Reasons of Requeued."""

    REACTIVATED: Final = "Reactivated"
    BACKOFF_FINISHED: Final = "BackoffFinished"
    CLUSTER_QUEUE_RESTARTED: Final = "ClusterQueueRestarted"
    LOCAL_QUEUE_RESTARTED: Final = "LocalQueueRestarted"
    INADMISSIBLE: Final = "Inadmissible"


class FinishedReason:
    """Reasons of Finished."""

    SUCCEEDED: Final = "Succeeded"
    FAILED: Final = "Failed"
    OUT_OF_SYNC: Final = "OutOfSync"
    OWNER_NOT_FOUND: Final = "OwnerNotFound"
    WORKLOAD_SLICE_REPLACED: Final = "WorkloadSliceReplaced"
    FAILED_TO_START: Final = "FailedToStart"


class PodsReadyReason:
    """Reasons of PodsReady."""

    WAIT_FOR_START: Final = "WaitForStart"
    WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
    STARTED: Final = "Started"
    RECOVERED: Final = "Recovered"


class PodsRemainReason:
    """Reasons of PodsRemain, the condition of a Workload whose job was deleted while pods ran."""

    JOB_DELETED: Final = "JobDeleted"
    PODS_GONE: Final = "PodsGone"


class ClusterQueueReason:
    """Reasons of a ClusterQueue's Active."""

    READY: Final = "Ready"
    TERMINATING: Final = "Terminating"
    STOPPED: Final = "Stopped"
    FLAVOR_NOT_FOUND: Final = "FlavorNotFound"
    ADMISSION_CHECK_NOT_FOUND: Final = "AdmissionCheckNotFound"
    ADMISSION_CHECK_INACTIVE: Final = "AdmissionCheckInactive"
    MULTIPLE_MULTIKUEUE_ADMISSION_CHECKS: Final = "MultipleMultiKueueAdmissionChecks"
    MULTIKUEUE_ADMISSION_CHECK_APPLIED_PER_FLAVOR: Final = "MultiKueueAdmissionCheckAppliedPerFlavor"
    MULTIKUEUE_WITH_PROVISIONING_REQUEST: Final = "MultiKueueWithProvisioningRequest"
    TOPOLOGY_NOT_FOUND: Final = "TopologyNotFound"
    UNKNOWN: Final = "Unknown"


class LocalQueueReason:
    """Reasons of a LocalQueue's Active."""

    READY: Final = "Ready"
    STOPPED: Final = "Stopped"
    CLUSTER_QUEUE_DOES_NOT_EXIST: Final = "ClusterQueueDoesNotExist"
    CLUSTER_QUEUE_IS_INACTIVE: Final = "ClusterQueueIsInactive"


class Event:
    """Reasons of events, on the job, the Workload or the pod."""

    STARTED: Final = "Started"
    RUNS_WITHOUT_QUOTA: Final = "RunsWithoutQuota"
    STOPPED: Final = "Stopped"
    CREATED_WORKLOAD: Final = "CreatedWorkload"
    UPDATED_WORKLOAD: Final = "UpdatedWorkload"
    DELETED_WORKLOAD: Final = "DeletedWorkload"
    FINISHED_WORKLOAD: Final = "FinishedWorkload"
    ERR_WORKLOAD_COMPOSE: Final = "ErrWorkloadCompose"
    UPDATED_ADMISSION_CHECK: Final = "UpdatedAdmissionCheck"
    JOB_NESTING_TOO_DEEP: Final = "JobNestingTooDeep"
    WORKLOAD_PRIORITY_CLASS_NOT_FOUND: Final = "WorkloadPriorityClassNotFound"
    QUOTA_RESERVED: Final = "QuotaReserved"
    ADMITTED: Final = "Admitted"
    PREEMPTED: Final = "Preempted"
    PREEMPTED_WORKLOAD: Final = "PreemptedWorkload"
    EVICTED_DUE_TO: Final = "EvictedDueTo"  # followed by the reason of Evicted
    ADMISSION_CHECK_REJECTED: Final = "AdmissionCheckRejected"
    ADMISSION_CHECK_UPDATED: Final = "AdmissionCheckUpdated"
    ADMISSION_GATED: Final = "AdmissionGated"
    ADMISSION_GATE_CLEARED: Final = "AdmissionGateCleared"
    SECOND_PASS_FAILED: Final = "SecondPassFailed"
    MAXIMUM_EXECUTION_TIME_EXCEEDED: Final = "MaximumExecutionTimeExceeded"
    PROVISIONING_REQUEST_CREATED: Final = "ProvisioningRequestCreated"
    FAILED_CREATE: Final = "FailedCreate"
    MULTIKUEUE: Final = "MultiKueue"
    OWNER_REFERENCES_ADDED: Final = "OwnerReferencesAdded"
    WORKLOAD_NAME_CONFLICT: Final = "WorkloadNameConflict"
    WORKLOAD_CREATED_AGAIN: Final = "WorkloadCreatedAgain"
    DELETED: Final = "Deleted"
    PODS_NOT_RUNNING: Final = "PodsNotRunning"
    EXCESS_POD_DELETED: Final = "ExcessPodDeleted"
    POD_TERMINATED: Final = "PodTerminatedByKueue"
    CREATED_VARIANT: Final = "CreatedVariant"
    DELETED_VARIANT: Final = "DeletedVariant"
    ACTIVATED_VARIANT: Final = "ActivatedVariant"
    DEACTIVATED_VARIANT: Final = "DeactivatedVariant"
    PREEMPTION_UNGATED_VARIANT: Final = "PreemptionUngatedVariant"


class MigrationMode:
    """What becomes of variants for other flavors when one is admitted (concurrent admission)."""

    TRY_PREFERRED_FLAVORS: Final = "TryPreferredFlavors"
    RETAIN_FIRST_ADMISSION: Final = "RetainFirstAdmission"


class QueueingStrategy:
    """How a ClusterQueue treats a head that does not fit."""

    STRICT_FIFO: Final = "StrictFIFO"
    BEST_EFFORT_FIFO: Final = "BestEffortFIFO"


class StopPolicy:
    """The effect of a stopped queue on workloads that it admitted."""

    NONE: Final = "None"
    HOLD: Final = "Hold"
    HOLD_AND_DRAIN: Final = "HoldAndDrain"


class PreemptionPolicy:
    """The workloads that a ClusterQueue may preempt."""

    NEVER: Final = "Never"
    ANY: Final = "Any"
    LOWER_PRIORITY: Final = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY: Final = "LowerOrNewerEqualPriority"


class Fungibility:
    """When the search for a flavor continues; BORROW and PREEMPT are v1beta1's names of MAY_STOP_SEARCH."""

    MAY_STOP_SEARCH: Final = "MayStopSearch"
    TRY_NEXT_FLAVOR: Final = "TryNextFlavor"
    BORROW: Final = "Borrow"
    PREEMPT: Final = "Preempt"
    PREEMPTION_OVER_BORROWING: Final = "PreemptionOverBorrowing"


class CheckState:
    """State of an admission check on a Workload."""

    PENDING: Final = "Pending"
    READY: Final = "Ready"
    RETRY: Final = "Retry"
    REJECTED: Final = "Rejected"


class PriorityClassSource:
    """v1beta1's `priorityClassSource`; v1beta2 spells the same as group and kind."""

    WORKLOAD_PRIORITY_CLASS: Final = "kueue.x-k8s.io/workloadpriorityclass"
    POD_PRIORITY_CLASS: Final = "scheduling.k8s.io/priorityclass"
