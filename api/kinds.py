"""Seiretsu's kinds: names, scope and served versions of each. CRDs, RBAC and routes follow from this list."""

from dataclasses import dataclass
from typing import Literal

from api.names import GROUP, STORAGE_VERSION, V1ALPHA1, V1BETA1, V1BETA2, Kind, Plural
from api.v1alpha1 import cohort as v1alpha1_cohort
from api.v1alpha1 import queues as v1alpha1
from api.v1beta1 import admission_check as v1beta1_check
from api.v1beta1 import cluster_queue as v1beta1_queue
from api.v1beta1 import local_queue as v1beta1_local
from api.v1beta1 import multikueue as v1beta1_multikueue
from api.v1beta1 import workload as v1beta1_workload
from api.v1beta2.admission_check import AdmissionCheck
from api.v1beta2.base import Model
from api.v1beta2.cluster_queue import ClusterQueue
from api.v1beta2.cohort import Cohort
from api.v1beta2.local_queue import LocalQueue
from api.v1beta2.multikueue import MultiKueueCluster, MultiKueueConfig
from api.v1beta2.provisioning import ProvisioningRequestConfig
from api.v1beta2.resource_flavor import ResourceFlavor
from api.v1beta2.topology import Topology
from api.v1beta2.workload import Workload
from api.v1beta2.workload_priority_class import WorkloadPriorityClass


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; those of priority 1 appear with `-o wide`."""

    name: str
    path: str
    type: Literal["string", "integer", "date"] = "string"
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """One served version of a kind."""

    name: str
    model: type[Model]
    columns: tuple[Column, ...] = ()
    selectable: tuple[str, ...] = ()
    status: bool = True
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class KindSpec:
    """One of Seiretsu's kinds; the version named STORAGE_VERSION is the stored one, or the only one there is."""

    kind: str
    plural: str
    versions: tuple[Version, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = False

    @property
    def singular(self) -> str:
        """The kind in lower case."""
        return self.kind.lower()

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"

    @property
    def stored(self) -> Version:
        """The version that is stored, which all others are converted to and from."""
        return next((version for version in self.versions if version.name == STORAGE_VERSION), self.versions[0])

    @property
    def has_status(self) -> bool:
        """Whether status is a subresource."""
        return self.stored.status


_AGE = Column("Age", ".metadata.creationTimestamp", "date")


def _condition(name: str, condition: str) -> Column:
    return Column(name, f".status.conditions[?(@.type=='{condition}')].status")


def _status(name: str, field: str, priority: int = 0) -> Column:
    return Column(name, f".status.{field}", "integer", priority)


_PENDING, _ADMITTED = (
    _status("Pending Workloads", "pendingWorkloads"),
    _status("Admitted Workloads", "admittedWorkloads"),
)


def _cluster_queue(cohort: str) -> tuple[Column, ...]:
    strategy = Column("Strategy", ".spec.queueingStrategy", priority=1)
    admitted = _status("Admitted Workloads", "admittedWorkloads", priority=1)
    return (Column("Cohort", f".spec.{cohort}"), strategy, _PENDING, admitted)


_LOCAL_QUEUE = (Column("ClusterQueue", ".spec.clusterQueue"), _PENDING, _ADMITTED)
_WORKLOAD = (
    Column("Queue", ".spec.queueName"),
    Column("Reserved in", ".status.admission.clusterQueue"),
    _condition("Admitted", "Admitted"),
    _condition("Finished", "Finished"),
    _AGE,
)
_ADMITTED_BY = (".status.admission.clusterQueue",)
_CLUSTER = (_condition("Connected", "Active"), _AGE)
_VALUE = (Column("Value", ".value", "integer"),)


def _versions(
    stored: type[Model],
    v1beta1_model: type[Model],
    *,
    columns: tuple[Column, ...] = (),
    selectable: tuple[str, ...] = (),
    status: bool = True,
) -> tuple[Version, Version]:
    # not selectable: an API server (1.36) refuses CRDs in which all versions have the same selectable fields
    older = Version(V1BETA1, v1beta1_model, columns, status=status, deprecated=True)
    return Version(V1BETA2, stored, columns, selectable, status), older


KINDS: tuple[KindSpec, ...] = (
    KindSpec(
        Kind.RESOURCE_FLAVOR,
        Plural.RESOURCE_FLAVORS,
        (
            *_versions(ResourceFlavor, ResourceFlavor, status=False),
            Version(V1ALPHA1, v1alpha1.ResourceFlavor, status=False, deprecated=True),
        ),
        short_names=("flavor", "flavors", "rf"),
    ),
    KindSpec(
        Kind.CLUSTER_QUEUE,
        Plural.CLUSTER_QUEUES,
        (
            Version(V1BETA2, ClusterQueue, _cluster_queue("cohortName")),
            Version(V1BETA1, v1beta1_queue.ClusterQueue, _cluster_queue("cohort"), deprecated=True),
            Version(V1ALPHA1, v1alpha1.ClusterQueue, _cluster_queue("cohort"), deprecated=True),
        ),
        short_names=("cq",),
    ),
    KindSpec(
        Kind.LOCAL_QUEUE,
        Plural.LOCAL_QUEUES,
        _versions(LocalQueue, v1beta1_local.LocalQueue, columns=_LOCAL_QUEUE),
        # Kueue has `queue` and `queues` as short names. They are the names of v0.1's kind Queue, and the API server
        # refuses a second kind with the same name; a category may have the same name, and kubectl looks up categories
        # first.
        short_names=("lq",),
        categories=("queue", "queues"),
        namespaced=True,
    ),
    KindSpec(
        Kind.QUEUE,
        Plural.QUEUES,
        (Version(V1ALPHA1, v1alpha1.Queue, _LOCAL_QUEUE[:2], deprecated=True),),
        namespaced=True,
    ),
    KindSpec(
        Kind.WORKLOAD,
        Plural.WORKLOADS,
        _versions(Workload, v1beta1_workload.Workload, columns=_WORKLOAD, selectable=_ADMITTED_BY),
        short_names=("kwl", "kueueworkload", "kueueworkloads"),
        namespaced=True,
    ),
    KindSpec(
        Kind.WORKLOAD_PRIORITY_CLASS,
        Plural.WORKLOAD_PRIORITY_CLASSES,
        _versions(WorkloadPriorityClass, WorkloadPriorityClass, columns=_VALUE, status=False),
        short_names=("wpc",),
    ),
    KindSpec(
        Kind.COHORT,
        Plural.COHORTS,
        (*_versions(Cohort, Cohort), Version(V1ALPHA1, v1alpha1_cohort.Cohort, status=False, deprecated=True)),
        short_names=("co",),
    ),
    KindSpec(
        Kind.ADMISSION_CHECK,
        Plural.ADMISSION_CHECKS,
        _versions(AdmissionCheck, v1beta1_check.AdmissionCheck),
        short_names=("ac",),
    ),
    KindSpec(
        Kind.TOPOLOGY,
        Plural.TOPOLOGIES,
        (
            *_versions(Topology, Topology, status=False),
            Version(V1ALPHA1, Topology, status=False, deprecated=True),
        ),
        short_names=("topo",),
    ),
    KindSpec(
        Kind.PROVISIONING_REQUEST_CONFIG,
        Plural.PROVISIONING_REQUEST_CONFIGS,
        _versions(ProvisioningRequestConfig, ProvisioningRequestConfig, status=False),
        short_names=("prc",),
    ),
    KindSpec(
        Kind.MULTIKUEUE_CONFIG,
        Plural.MULTIKUEUE_CONFIGS,
        _versions(MultiKueueConfig, v1beta1_multikueue.MultiKueueConfig, status=False),
        short_names=("mkconf",),
    ),
    KindSpec(
        Kind.MULTIKUEUE_CLUSTER,
        Plural.MULTIKUEUE_CLUSTERS,
        _versions(MultiKueueCluster, v1beta1_multikueue.MultiKueueCluster, columns=_CLUSTER),
        short_names=("mkc",),
    ),
)
