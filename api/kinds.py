"""Our kinds: names, scope and served versions of each. CRDs, RBAC and routes follow from this list."""

from dataclasses import dataclass
from typing import Literal

from api.names import GROUP, STORAGE_VERSION, V1BETA2, Kind, Resource
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


@dataclass(frozen=True, slots=True)
class KindSpec:
    """One kind of ours; the version named STORAGE_VERSION is the stored one."""

    kind: str
    plural: str
    versions: tuple[Version, ...]
    short_names: tuple[str, ...] = ()
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
        return next(version for version in self.versions if version.name == STORAGE_VERSION)

    @property
    def has_status(self) -> bool:
        """Whether status is a subresource of its own."""
        return self.stored.status


_AGE = Column("Age", ".metadata.creationTimestamp", "date")


def _condition(name: str, condition: str) -> Column:
    return Column(name, f".status.conditions[?(@.type=='{condition}')].status")


KINDS: tuple[KindSpec, ...] = (
    KindSpec(
        Kind.RESOURCE_FLAVOR,
        Resource.RESOURCE_FLAVORS,
        (Version(V1BETA2, ResourceFlavor, status=False),),
        short_names=("flavor", "flavors", "rf"),
    ),
    KindSpec(
        Kind.CLUSTER_QUEUE,
        Resource.CLUSTER_QUEUES,
        (
            Version(
                V1BETA2,
                ClusterQueue,
                columns=(
                    Column("Cohort", ".spec.cohortName"),
                    Column("Strategy", ".spec.queueingStrategy", priority=1),
                    Column("Pending Workloads", ".status.pendingWorkloads", "integer"),
                    Column("Admitted Workloads", ".status.admittedWorkloads", "integer", priority=1),
                ),
            ),
        ),
        short_names=("cq",),
    ),
    KindSpec(
        Kind.LOCAL_QUEUE,
        Resource.LOCAL_QUEUES,
        (
            Version(
                V1BETA2,
                LocalQueue,
                columns=(
                    Column("ClusterQueue", ".spec.clusterQueue"),
                    Column("Pending Workloads", ".status.pendingWorkloads", "integer"),
                    Column("Admitted Workloads", ".status.admittedWorkloads", "integer"),
                ),
            ),
        ),
        # Kueue also has `queue` and `queues`: those are the names of v0.1's kind Queue, and of two claims on a name
        # the API server lets the later one go unserved.
        short_names=("lq",),
        namespaced=True,
    ),
    KindSpec(
        Kind.WORKLOAD,
        Resource.WORKLOADS,
        (
            Version(
                V1BETA2,
                Workload,
                columns=(
                    Column("Queue", ".spec.queueName"),
                    Column("Reserved in", ".status.admission.clusterQueue"),
                    _condition("Admitted", "Admitted"),
                    _condition("Finished", "Finished"),
                    _AGE,
                ),
                selectable=(".status.admission.clusterQueue",),
            ),
        ),
        short_names=("kwl", "kueueworkload", "kueueworkloads"),
        namespaced=True,
    ),
    KindSpec(
        Kind.WORKLOAD_PRIORITY_CLASS,
        Resource.WORKLOAD_PRIORITY_CLASSES,
        (Version(V1BETA2, WorkloadPriorityClass, columns=(Column("Value", ".value", "integer"),), status=False),),
        short_names=("wpc",),
    ),
    KindSpec(Kind.COHORT, Resource.COHORTS, (Version(V1BETA2, Cohort),), short_names=("co",)),
    KindSpec(Kind.ADMISSION_CHECK, Resource.ADMISSION_CHECKS, (Version(V1BETA2, AdmissionCheck),), short_names=("ac",)),
    KindSpec(Kind.TOPOLOGY, Resource.TOPOLOGIES, (Version(V1BETA2, Topology, status=False),), short_names=("topo",)),
    KindSpec(
        Kind.PROVISIONING_REQUEST_CONFIG,
        Resource.PROVISIONING_REQUEST_CONFIGS,
        (Version(V1BETA2, ProvisioningRequestConfig, status=False),),
        short_names=("prc",),
    ),
    KindSpec(
        Kind.MULTIKUEUE_CONFIG,
        Resource.MULTIKUEUE_CONFIGS,
        (Version(V1BETA2, MultiKueueConfig, status=False),),
        short_names=("mkconf",),
    ),
    KindSpec(
        Kind.MULTIKUEUE_CLUSTER,
        Resource.MULTIKUEUE_CLUSTERS,
        (Version(V1BETA2, MultiKueueCluster, columns=(_condition("Connected", "Active"), _AGE)),),
        short_names=("mkc",),
    ),
)
