"""The Configuration as a model: fields and defaults of Kueue's v1beta2 (0.20)."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from api.configuration.base import Duration, Int32, Section
from api.configuration.feedback import SeiretsuSection
from api.configuration.multikueue import MultiKueue
from api.configuration.resources import Resources
from api.names import DEFAULT_FRAMEWORKS, LEADER_ELECTION_ID, NAMESPACE, NAMESPACE_NAME_LABEL
from api.v1beta2.base import LabelSelector, LabelSelectorRequirement

_Port = Annotated[int, Field(ge=1, le=65535)]


class Webhook(Section):
    """Where webhooks are served."""

    port: _Port = 9443
    host: str = ""
    cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"


class LeaderElection(Section):
    """Which of several replicas schedules."""

    leader_elect: bool = True
    lease_duration: Duration = timedelta(seconds=15)
    renew_deadline: Duration = timedelta(seconds=10)
    retry_period: Duration = timedelta(seconds=2)
    resource_lock: Literal["leases"] = "leases"
    resource_name: str = LEADER_ELECTION_ID
    resource_namespace: str = ""


class CustomLabel(Section):
    """A metric label taken from a label or annotation of an object."""

    name: str
    source_label_key: str = ""
    source_annotation_key: str = ""
    source_kind: Literal["Cohort", "LocalQueue", "ClusterQueue", "Workload"] = "ClusterQueue"
    tracked_values: list[str] = Field(default_factory=list)


class LocalQueueMetrics(Section):
    """Metrics by LocalQueue."""

    enable: bool = False
    local_queue_selector: LabelSelector | None = None


class Metrics(Section):
    """The metrics server and its options."""

    bind_address: str = ":8443"
    enable_cluster_queue_resources: bool = False
    custom_labels: list[CustomLabel] = Field(default_factory=list)
    local_queue_metrics: LocalQueueMetrics = Field(default_factory=lambda: LocalQueueMetrics(enable=True))


class Health(Section):
    """Where probes are answered."""

    health_probe_bind_address: str = ":8081"
    readiness_endpoint_name: str = ""
    liveness_endpoint_name: str = ""


class Controller(Section):
    """How the controllers run."""

    group_kind_concurrency: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    cache_sync_timeout: Duration = timedelta(minutes=2)


class InternalCertManagement(Section):
    """Certificates that Seiretsu creates."""

    enable: bool = True
    webhook_service_name: str = "kueue-webhook-service"
    webhook_secret_name: str = "kueue-webhook-server-cert"


class RequeuingStrategy(Section):
    """How a workload whose pods do not become ready is requeued."""

    timestamp: Literal["Creation", "Eviction"] = "Eviction"
    backoff_limit_count: Int32 | None = None
    """`None`: no limit."""
    backoff_base_seconds: Int32 = 60
    backoff_max_seconds: Int32 = 3600


class WaitForPodsReady(Section):
    """How long admitted workloads may take until their pods are ready."""

    timeout: Duration = timedelta(minutes=30)
    block_admission: bool = False
    requeuing_strategy: RequeuingStrategy = Field(default_factory=RequeuingStrategy)
    recovery_timeout: Duration | None = None
    """How long until ready again after a pod failed; as loaded it is never absent, by default the same as timeout."""


class ClientConnection(Section):
    """Limits on calls to the API server."""

    qps: float = 300.0
    burst: Int32 = 500


class Integrations(Section):
    """The kinds of jobs that are queued."""

    frameworks: list[str] = Field(default_factory=lambda: [*DEFAULT_FRAMEWORKS])
    external_frameworks: list[str] = Field(default_factory=list)
    label_keys_to_copy: list[str] = Field(default_factory=list)


class FairSharing(Section):
    """Preemption for the sake of equal shares."""

    preemption_strategies: list[str]


class AdmissionFairSharing(Section):
    """Order among LocalQueues by their past usage."""

    usage_half_life_time: Duration = timedelta()
    usage_sampling_interval: Duration = timedelta(minutes=5)
    resource_weights: dict[str, float] = Field(default_factory=dict)


class WorkloadRetention(Section):
    """How long finished and deactivated workloads are kept; `None` means without limit."""

    after_finished: Duration | None = None
    after_deactivated_by_kueue: Duration | None = None


class ObjectRetentionPolicies(Section):
    """How long objects are kept that are no longer needed."""

    workloads: WorkloadRetention = Field(default_factory=WorkloadRetention)


class Tls(Section):
    """TLS options of the servers."""

    min_version: Literal["", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"] = ""
    cipher_suites: list[str] = Field(default_factory=list)
    curve_preferences: list[Int32] = Field(default_factory=list)


class VisibilityServer(Section):
    """Where the visibility API is served."""

    bind_address: str = "0.0.0.0"
    bind_port: _Port = 8082


def managed_by_default(namespace: str) -> LabelSelector:
    """All namespaces except those of the system and of Seiretsu."""
    excluded = LabelSelectorRequirement(
        key=NAMESPACE_NAME_LABEL, operator="NotIn", values=list(dict.fromkeys(("kube-system", namespace)))
    )
    return LabelSelector(match_expressions=[excluded])


class Configuration(Section):
    """The settings of the administrator for the whole installation. `api.configuration.load` reads one."""

    api_version: str = "config.kueue.x-k8s.io/v1beta2"
    kind: Literal["Configuration"] = "Configuration"
    namespace: str = NAMESPACE
    webhook: Webhook = Field(default_factory=Webhook)
    leader_election: LeaderElection = Field(default_factory=LeaderElection)
    metrics: Metrics = Field(default_factory=Metrics)
    health: Health = Field(default_factory=Health)
    pprof_bind_address: str = ""
    controller: Controller = Field(default_factory=Controller)
    tls: Tls | None = None
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: LabelSelector = Field(default_factory=lambda: managed_by_default(NAMESPACE))
    internal_cert_management: InternalCertManagement = Field(default_factory=InternalCertManagement)
    wait_for_pods_ready: WaitForPodsReady | None = Field(default_factory=WaitForPodsReady)
    """`None` where it is off: v1beta1 without `enable: true`, or the gate DisableWaitForPodsReady."""
    client_connection: ClientConnection = Field(default_factory=ClientConnection)
    integrations: Integrations = Field(default_factory=Integrations)
    multi_kueue: MultiKueue = Field(default_factory=MultiKueue)
    fair_sharing: FairSharing | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    resources: Resources = Field(default_factory=Resources)
    feature_gates: dict[str, bool] = Field(default_factory=dict)
    """As written; `Loaded.gates` has all of them."""
    object_retention_policies: ObjectRetentionPolicies = Field(default_factory=ObjectRetentionPolicies)
    visibility_server: VisibilityServer = Field(default_factory=VisibilityServer)
    seiretsu: SeiretsuSection = Field(default_factory=SeiretsuSection)
    """Only for Seiretsu: Kueue does not know it."""

    @property
    def managed_namespaces(self) -> dict[str, Any]:
        """`managedJobsNamespaceSelector` in the form of the wire, for `api.selector.matches`."""
        return self.managed_jobs_namespace_selector.model_dump(by_alias=True, exclude_none=True)
