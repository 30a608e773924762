"""The part of the Configuration that the controller uses, as values: read once at start and passed to the code that
needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_network
from math import inf
from typing import TYPE_CHECKING

from api import names, quantity
from api.feature_gates import Gates, enabled
from api.metrics import families
from api.metrics.custom_labels import PromotedLabel
from core.devices.inventory import Inventory, RefusedClaims
from core.devices.mapping import DeviceRules, device_rules
from core.jobs.stopping import TERMINATING_SECONDS
from core.jobs.workload import LONG_NAME, NOTHING_COPIED, SHORT_NAME, Copied
from core.model import Requests, Selector
from core.model.policy import AdmissionFairSharing, SchedulingPolicy, Strategy, TopologyPolicy
from core.multikueue.group import Policy
from core.multikueue.kubeconfig import NOTHING, Allowed
from core.multikueue.profile import Provider
from core.notifications.model import NotificationKind, NotificationPolicy, Recipient
from core.queue.population import PopulationPolicy
from core.topology.health import FailureRules
from core.wire import decode, pod_requests
from core.wire.decode import WorkloadContext
from core.workload.actions import LifePolicy, PodsReadyPolicy
from core.workload.priority import KUBE_SYSTEM
from core.workload.time_sharing import TimeSharingPolicy
from core.workload.transitions import Backoff

if TYPE_CHECKING:  # the values alone do not need the models of the Configuration (pydantic)
    from api.configuration import Configuration
    from api.configuration.multikueue import ClusterProfile

EVERY = Selector()


@dataclass(frozen=True, slots=True)
class Reading:
    """How the Configuration has Workloads read."""

    transformations: Mapping[str, pod_requests.ResourceTransformation] = field(default_factory=dict)
    excluded_prefixes: tuple[str, ...] = ()
    priority_boost: bool = False
    admission_gates: bool = True
    reclaimable_pods: bool = True
    elastic_jobs: bool = True
    preemption_gates: bool = False
    concurrent_admission: bool = False
    spreading: bool = False
    coarse_reasons: bool = False
    """UnadmittedWorkloadsObservability is off."""
    devices: DeviceRules | None = field(default_factory=DeviceRules)
    """How claims of devices count; None if KueueDRAIntegration is off."""
    refuses_claims: bool = True
    """Whether workloads with claims are refused that do not count (KueueDRARejectWorkloadsWhenDRADisabled)."""
    system_priority_namespaces: frozenset[str] = frozenset({KUBE_SYSTEM})

    def device_counts(self) -> Inventory | RefusedClaims | None:
        """Returns a new inventory of devices, or what refuses claims; None if claims have no effect."""
        if self.devices is not None:
            return Inventory(self.devices)
        return RefusedClaims() if self.refuses_claims else None

    def context(self, rules: pod_requests.RequestRules) -> WorkloadContext:
        """The context in which Workloads are decoded with these rules of their namespace."""
        return WorkloadContext(
            rules,
            self.priority_boost,
            self.admission_gates,
            self.reclaimable_pods,
            self.elastic_jobs,
            self.preemption_gates,
            self.concurrent_admission,
            self.spreading,
            self.coarse_reasons,
        )


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """The settings of leader election; seconds."""

    namespace: str = names.NAMESPACE
    name: str = names.LEADER_ELECTION_ID
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class Feature(StrEnum):
    """What can be switched off, with the rights for it."""

    MULTIKUEUE = "MultiKueue"
    PROVISIONING_REQUESTS = "ProvisioningRequests"
    QUEUES = "Queues of v0.1"
    TOPOLOGY = "TopologyAwareScheduling"
    DEVICES = "KueueDRAIntegration"


@dataclass(frozen=True, slots=True)
class MultiKueueSettings:
    """The section ``multiKueue``. ``gc_interval`` is in seconds, 0 collects nothing; ``any_path`` is whether kubeconfig
    files may be anywhere; ``allowed`` is what a kubeconfig may ask for. ``externals`` are kinds of other vendors, as
    Kind.version.group.
    """

    policy: Policy = field(default_factory=Policy)
    gc_interval: float = 60.0
    any_path: bool = False
    allowed: Allowed = NOTHING
    enabled: bool = True
    profiles: tuple[Provider, ...] | None = None
    automates_quota: bool = False
    externals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """The section ``seiretsu.guard``. ``injected`` is what containers may request that admission of others adds to a
    pod, in base units; pods may terminate for ``terminating_seconds`` without being counted: the time after which a
    stopped job gives up its quota although they are there, without limit if it does so at once. Those of a whole job
    may run beside others for ``overlap_seconds`` (``core.guard.overlap``).
    """

    enabled: bool = True
    evicts: bool = True
    injected: Requests = field(default_factory=dict)
    terminating_seconds: float = 300.0
    overlap_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """The section ``seiretsu.history``: a file in ``directory``, or the server whose URL ``url_file`` has. ``max_age``
    is in seconds. ``users`` is whether it is recorded who queued a job; ``shared_volume`` whether the directory is on a
    network file system that other hosts use.
    """

    directory: str = ""
    url_file: str = ""
    max_age: float = 90 * 86400.0
    max_bytes: int = 2**30
    users: bool = True
    shared_volume: bool = False


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """The section ``seiretsu.notifications``; off without recipients."""

    recipients: tuple[Recipient, ...] = ()
    policy: NotificationPolicy = field(default_factory=NotificationPolicy)
    source: str = "/seiretsu"


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """The section ``seiretsu.recorder``: files in ``directory``, together of ``max_bytes`` at most."""

    directory: str = ""
    max_bytes: int = 2**28


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The defaults are those of Kueue. Retention is in seconds, None keeps objects without limit; without
    ``leader_election`` this process always leads. ``topologies`` is TopologyAwareScheduling; without ``node_failures``
    (TASFailedNodeReplacement) no node of an admitted workload is replaced.
    """

    policy: SchedulingPolicy = field(default_factory=lambda: SchedulingPolicy(topology=TopologyPolicy()))
    reading: Reading = field(default_factory=Reading)
    life: LifePolicy = field(default_factory=LifePolicy)
    frameworks: tuple[str, ...] = names.DEFAULT_FRAMEWORKS
    external_frameworks: tuple[str, ...] = ()
    manage_jobs_without_queue_name: bool = False
    identifier_annotations: bool = True
    managed_namespaces: Selector | None = None
    namespace: str = names.NAMESPACE
    copied: Copied = NOTHING_COPIED
    retention_after_deactivation: float | None = None
    terminating_pods_timeout: float = TERMINATING_SECONDS
    recovers_from_failures: bool = False
    """FailureRecoveryPolicy."""
    fast_release_of_pods: bool = False
    """FastQuotaReleaseInPodIntegration: pods that terminate keep no quota, whatever the timeout is."""
    validates_group_owners: bool = True
    """PodIntegrationValidateGroupOwner."""
    awaits_redis_cleanup: bool = True
    """DeferRayServiceFinalizationForRedisCleanup."""
    leader_election: ElectionSettings | None = None
    multikueue: MultiKueueSettings = field(default_factory=MultiKueueSettings)
    provisioning_requests: bool = True
    queues: bool = True
    topologies: bool = True
    node_failures: FailureRules | None = field(default_factory=FailureRules)
    cleans_up_requests: bool = True
    queue_resources: bool = False
    local_queue_metrics: Selector | None = EVERY
    hidden_metrics: frozenset[str] = frozenset()
    custom_labels: tuple[PromotedLabel, ...] = ()
    guard: GuardSettings = field(default_factory=GuardSettings)
    forecasts: bool = False
    """Whether starts are forecast, in a process of their own."""
    expects_arrivals: bool = False
    """Whether forecasts take it that others arrive as lately."""
    remembers_run_times: bool = False
    history: HistorySettings | None = None
    """What is recorded of workloads, and where; None records nothing."""
    time_sharing: TimeSharingPolicy | None = None
    """When workloads give way to others of the same priority; None: never."""
    population: PopulationPolicy | None = None
    """Which LocalQueues namespaces get by themselves; None creates none."""
    notifications: NotificationSettings = field(default_factory=NotificationSettings)
    recorder: RecorderSettings | None = None
    """Where cycles are recorded; None records none."""

    @property
    def features(self) -> frozenset[Feature]:
        """What is not switched off."""
        on = {
            Feature.MULTIKUEUE: self.multikueue.enabled,
            Feature.PROVISIONING_REQUESTS: self.provisioning_requests,
            Feature.QUEUES: self.queues,
            Feature.TOPOLOGY: self.topologies,
            Feature.DEVICES: self.reading.devices is not None,
        }
        return frozenset(each for each, used in on.items() if used)

    @property
    def wait_for_pods_ready(self) -> bool:
        """Whether the readiness of pods is followed at all."""
        return self.life.pods_ready is not None


def from_configuration(
    configuration: Configuration, *, elect: bool, namespace: str | None = None
) -> ControllerSettings:
    """Returns the settings of a Configuration; ``elect`` is whether other replicas may run."""
    kept = configuration.object_retention_policies.workloads
    resources, gates = configuration.resources, configuration.feature_gates
    return ControllerSettings(
        policy=_policy(configuration),
        reading=Reading(
            transformations=pod_requests.transformations(
                each.model_dump(by_alias=True) for each in resources.transformations
            ),
            excluded_prefixes=tuple(resources.exclude_resource_prefixes),
            priority_boost=enabled("PriorityBoost", gates),
            admission_gates=enabled("AdmissionGatedBy", gates),
            reclaimable_pods=enabled("ReclaimablePods", gates),
            coarse_reasons=not enabled("UnadmittedWorkloadsObservability", gates),
            elastic_jobs=enabled("ElasticJobsViaWorkloadSlices", gates),
            preemption_gates=enabled("ConcurrentAdmission", gates)
            or enabled("MultiKueueOrchestratedPreemption", gates),
            concurrent_admission=enabled("ConcurrentAdmission", gates),
            spreading=enabled("TASTopologySpreading", gates) and enabled("TopologyAwareScheduling", gates),
            devices=_devices(configuration),
            refuses_claims=enabled("KueueDRARejectWorkloadsWhenDRADisabled", gates),
            system_priority_namespaces=frozenset(configuration.seiretsu.system_priority_namespaces),
        ),
        life=LifePolicy(
            pods_ready=_pods_ready(configuration),
            after_finished=kept.after_finished.total_seconds() if kept.after_finished is not None else None,
            explicit_status=all(
                enabled(gate, configuration.feature_gates)
                for gate in ("UnadmittedWorkloadsObservability", "UnadmittedWorkloadsExplicitStatus")
            ),
            finishes_orphans=enabled("FinishOrphanedWorkloads", gates),
            requeues_pods=not enabled("SkipReassignmentForPodOwnedWorkloads", gates),
            guards=configuration.seiretsu.guard.action == "Evict",
        ),
        frameworks=tuple(configuration.integrations.frameworks),
        external_frameworks=tuple(configuration.integrations.external_frameworks),
        manage_jobs_without_queue_name=configuration.manage_jobs_without_queue_name,
        identifier_annotations=enabled("WorkloadIdentifierAnnotations", configuration.feature_gates),
        managed_namespaces=decode.selector(configuration.managed_namespaces),
        namespace=namespace or configuration.namespace,
        copied=_copied(configuration),
        retention_after_deactivation=(
            kept.after_deactivated_by_kueue.total_seconds() if kept.after_deactivated_by_kueue is not None else None
        ),
        terminating_pods_timeout=configuration.seiretsu.terminating_pods_timeout.total_seconds(),
        recovers_from_failures=enabled("FailureRecoveryPolicy", gates),
        fast_release_of_pods=enabled("FastQuotaReleaseInPodIntegration", gates),
        validates_group_owners=enabled("PodIntegrationValidateGroupOwner", gates),
        awaits_redis_cleanup=enabled("DeferRayServiceFinalizationForRedisCleanup", gates),
        leader_election=_leader_election(configuration) if elect else None,
        multikueue=_multikueue(configuration),
        provisioning_requests=configuration.seiretsu.provisioning_requests.enable,
        queues=configuration.seiretsu.queues.enable,
        topologies=enabled("TopologyAwareScheduling", gates),
        node_failures=_node_failures(gates),
        cleans_up_requests=enabled("CleanupProvisioningRequestsOnEviction", gates),
        queue_resources=configuration.metrics.enable_cluster_queue_resources,
        local_queue_metrics=_local_queue_metrics(configuration),
        hidden_metrics=families.hidden(configuration.feature_gates),
        custom_labels=_custom_labels(configuration),
        guard=_guard(configuration),
        forecasts=configuration.seiretsu.forecast.enable,
        expects_arrivals=configuration.seiretsu.forecast.arrivals,
        remembers_run_times=configuration.seiretsu.forecast.enable and configuration.seiretsu.forecast.remember,
        history=_history(configuration),
        notifications=_notifications(configuration),
        population=_population(configuration),
        time_sharing=_time_sharing(configuration),
        recorder=_recorder(configuration),
    )


def _time_sharing(configuration: Configuration) -> TimeSharingPolicy | None:
    section = configuration.seiretsu.time_sharing
    seconds, chosen = section.interval.total_seconds(), section.workload_selector
    if not seconds:
        return None
    return TimeSharingPolicy(
        seconds,
        section.negative_boost,
        decode.selector(chosen.model_dump(by_alias=True, exclude_none=True) if chosen is not None else None),
        section.max_workload_priority,
    )


def _population(configuration: Configuration) -> PopulationPolicy | None:
    section = configuration.seiretsu.population
    if not section.enable:
        return None
    chosen = section.namespace_selector
    selector = chosen.model_dump(by_alias=True, exclude_none=True) if chosen else configuration.managed_namespaces
    named = section.local_queue_name_mode == "Static"
    name = (section.local_queue_name or names.DEFAULT_LOCAL_QUEUE) if named else ""
    return PopulationPolicy(name, decode.selector(selector))


def _notifications(configuration: Configuration) -> NotificationSettings:
    section = configuration.seiretsu.notifications
    recipients = tuple(
        Recipient(
            name=each.name,
            url=each.url,
            kinds=frozenset(NotificationKind(kind) for kind in each.types),
            path_file=each.path_file or "",
            header=(each.header.name, each.header.file) if each.header is not None else None,
            ca_file=each.ca_file or "",
            networks=tuple(ip_network(network) for network in each.networks),
            namespaces=decode.selector(each.namespace_selector.model_dump(by_alias=True, exclude_none=True))
            if each.namespace_selector is not None
            else None,
            rate_per_minute=each.rate_per_minute,
            queue_length=each.queue_length,
            body=each.body,
        )
        for each in section.receivers
    )
    return NotificationSettings(
        recipients=recipients,
        policy=NotificationPolicy(
            wanted=frozenset(kind for each in recipients for kind in each.kinds),
            waiting_seconds=section.waiting_after.total_seconds(),
            overtaken_by=section.starving.overtaken_by,
            evictions=section.loop.evictions,
            within_seconds=section.loop.within.total_seconds(),
        ),
        source=section.source,
    )


def _devices(configuration: Configuration) -> DeviceRules | None:
    """How claims of devices count; None if they do not."""
    if not enabled("KueueDRAIntegration", configuration.feature_gates):
        return None
    mappings = (
        each.model_dump(by_alias=True, exclude_none=True) for each in configuration.resources.device_class_mappings
    )
    return device_rules(mappings, configuration.feature_gates)


def _node_failures(gates: Gates) -> FailureRules | None:
    """The rules of failed nodes; None where no node is replaced."""
    if not (enabled("TopologyAwareScheduling", gates) and enabled("TASFailedNodeReplacement", gates)):
        return None
    return FailureRules(
        on_termination=enabled("TASReplaceNodeOnPodTermination", gates),
        over_fixed_time=enabled("TASReplaceNodeDueToNotReadyOverFixedTime", gates),
        on_taints=enabled("TASReplaceNodeOnNodeTaints", gates),
    )


def _history(configuration: Configuration) -> HistorySettings | None:
    section = configuration.seiretsu.history
    if not section.enable:
        return None
    return HistorySettings(
        directory=section.directory,
        url_file=section.url_file,
        max_age=section.max_age.total_seconds(),
        max_bytes=quantity.amount("storage", section.max_size),
        users=section.users,
        shared_volume=section.shared_volume,
    )


def _recorder(configuration: Configuration) -> RecorderSettings | None:
    section = configuration.seiretsu.recorder
    if not section.enable:
        return None
    return RecorderSettings(section.directory, quantity.amount("storage", section.max_size))


def _guard(configuration: Configuration) -> GuardSettings:
    section = configuration.seiretsu.guard
    return GuardSettings(
        enabled=section.action != "Ignore",
        evicts=section.action == "Evict",
        injected={name: quantity.amount(name, value) for name, value in section.injected_requests.items()},
        terminating_seconds=configuration.seiretsu.terminating_pods_timeout.total_seconds() or inf,
        overlap_seconds=section.overlap.total_seconds(),
    )


def _multikueue(configuration: Configuration) -> MultiKueueSettings:
    section, gates = configuration.multi_kueue, configuration.feature_gates
    step = section.incremental_dispatcher_config
    sized = step is not None and enabled("MultiKueueIncrementalDispatcherConfig", gates)
    return MultiKueueSettings(
        policy=Policy(
            origin=section.origin,
            worker_lost_timeout=section.worker_lost_timeout.total_seconds(),
            dispatcher=section.dispatcher_name,
            step_size=step.step_size if step is not None and sized else Policy().step_size,
            forwards=enabled("MultiKueueRemoteSpecSync", gates),
            orchestrated=enabled("MultiKueueOrchestratedPreemption", gates),
            config_order=enabled("MultiKueueIncrementalDispatcherRespectConfigOrder", gates),
            follows_pods=configuration.wait_for_pods_ready is not None,
        ),
        gc_interval=section.gc_interval.total_seconds(),
        any_path=not enabled("MultiKueueKubeConfigPathValidation", gates),
        allowed=Allowed(http=section.kube_configs.allow_http, proxy=section.kube_configs.allow_proxy_url),
        enabled=enabled("MultiKueue", gates),
        automates_quota=enabled("MultiKueueManagerQuotaAutomation", gates),
        externals=tuple(each.name for each in section.external_frameworks)
        if enabled("MultiKueueAdaptersForCustomJobs", gates)
        else (),
        profiles=_providers(section.cluster_profile) if enabled("MultiKueueClusterProfile", gates) else None,
    )


def _providers(section: ClusterProfile | None) -> tuple[Provider, ...]:
    """The commands that print the credentials for clusters of the inventory."""
    found = (section.access_providers or section.credentials_providers) if section is not None else ()
    return tuple(
        Provider(each.name, each.exec_config.model_dump(by_alias=True, exclude_none=True, mode="json"))
        for each in found
    )


def _local_queue_metrics(configuration: Configuration) -> Selector | None:
    """Which LocalQueues have series; None for none of them."""
    wanted = configuration.metrics.local_queue_metrics
    if not wanted.enable:
        return None
    chosen = wanted.local_queue_selector
    found = decode.selector(chosen.model_dump(by_alias=True, exclude_none=True)) if chosen is not None else None
    return found if found is not None else EVERY


def _custom_labels(configuration: Configuration) -> tuple[PromotedLabel, ...]:
    if not enabled("CustomMetricLabels", configuration.feature_gates):
        return ()
    return tuple(
        PromotedLabel(
            name=each.name,
            kind=each.source_kind,
            label_key=each.source_label_key,
            annotation_key=each.source_annotation_key,
            tracked=tuple(each.tracked_values),
        )
        for each in configuration.metrics.custom_labels
    )


def _copied(configuration: Configuration) -> Copied:
    """Returns what Workloads get from their jobs: the chosen labels, and the sources of metric labels of Workloads."""
    sources = [each for each in _custom_labels(configuration) if each.kind == families.WORKLOAD]
    labels = {each.label_key or each.name for each in sources if not each.annotation_key}
    return Copied(
        labels=frozenset({*configuration.integrations.label_keys_to_copy, *labels}),
        annotations=frozenset(each.annotation_key for each in sources if each.annotation_key),
        topology_requests=enabled("TopologyAwareScheduling", configuration.feature_gates),
        queue_labels=enabled("AssignQueueLabelsForPods", configuration.feature_gates),
        longest_name=SHORT_NAME if enabled("ShortWorkloadNames", configuration.feature_gates) else LONG_NAME,
    )


def _policy(configuration: Configuration) -> SchedulingPolicy:
    gates = configuration.feature_gates
    fair, by_usage = configuration.fair_sharing, configuration.admission_fair_sharing
    waiting = configuration.wait_for_pods_ready
    return SchedulingPolicy(
        fair_sharing=tuple(Strategy(name) for name in fair.preemption_strategies) if fair is not None else None,
        admission_fair_sharing=(
            AdmissionFairSharing(
                half_life=by_usage.usage_half_life_time.total_seconds(),
                sampling_interval=by_usage.usage_sampling_interval.total_seconds(),
                resource_weights=by_usage.resource_weights,
            )
            if by_usage is not None and enabled("AdmissionFairSharing", gates)
            else None
        ),
        priority_sorting_within_cohort=enabled("PrioritySortingWithinCohort", gates),
        preempt_within_nominal=enabled("FairSharingPreemptWithinNominal", gates),
        prioritize_non_borrowing=enabled("FairSharingPrioritizeNonBorrowing", gates),
        prioritize_preemptors=enabled("PrioritizePreemptorWorkloads", gates),
        concurrent_admission=enabled("ConcurrentAdmission", gates),
        partial_admission=enabled("PartialAdmission", gates),
        flavor_fungibility=enabled("FlavorFungibility", gates),
        keeps_progress=enabled("FlavorFungibilityPreserveScanProgress", gates),
        recompute_on_overlap=enabled("RecomputeAssignmentUponPreemptionTargetsOverlap", gates),
        requeue_by_eviction=waiting is None or waiting.requeuing_strategy.timestamp == "Eviction",
        ignore_undeclared=configuration.resources.quota_check_strategy == "IgnoreUndeclared"
        and enabled("QuotaCheckStrategy", gates),
        block_admission=waiting is not None and waiting.block_admission,
        topology=TopologyPolicy.of(gates),
    )


def _pods_ready(configuration: Configuration) -> PodsReadyPolicy | None:
    waiting = configuration.wait_for_pods_ready
    if waiting is None:
        return None
    strategy, recovery = waiting.requeuing_strategy, waiting.recovery_timeout
    return PodsReadyPolicy(
        timeout=waiting.timeout.total_seconds(),
        recovery_timeout=(recovery if recovery is not None else waiting.timeout).total_seconds(),
        backoff=Backoff(base=float(strategy.backoff_base_seconds), most=float(strategy.backoff_max_seconds)),
        limit=strategy.backoff_limit_count,
    )


def _leader_election(configuration: Configuration) -> ElectionSettings | None:
    wanted = configuration.leader_election
    if not wanted.leader_elect:
        return None
    return ElectionSettings(
        namespace=wanted.resource_namespace or configuration.namespace,
        name=wanted.resource_name,
        lease_duration=wanted.lease_duration.total_seconds(),
        renew_deadline=wanted.renew_deadline.total_seconds(),
        retry_period=wanted.retry_period.total_seconds(),
    )
