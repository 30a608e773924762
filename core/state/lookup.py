"""What admission needs to know of the cluster, as one Protocol: the controller's caches fill it, tests fill it by hand.

It is read synchronously, within a call; nothing in it waits or asks the API server. ``synced`` is false until the
caches have been read once: feedback is silent until then, while enforcement (forced suspension, validation) never
depends on a cache.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from core.model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    FlavorResource,
    Key,
    Labels,
    LocalQueue,
    ResourceFlavor,
    Workload,
)
from core.quota.active import Standing
from core.wire.pod_requests import RequestRules
from core.wire.resource_quotas import ResourceQuota


class Lookup(Protocol):
    """Answers from caches; ``None`` is "there is none". Amounts are in base units (milli for cpu)."""

    @property
    def synced(self) -> bool:
        """Whether every cache has been read once."""

    @property
    def ignores_undeclared(self) -> bool:
        """Whether a resource that a ClusterQueue does not name is simply not counted (``quotaCheckStrategy``)."""

    def local_queue(self, key: Key) -> LocalQueue | None:
        """The LocalQueue."""

    def local_queue_names(self, namespace: str) -> Iterable[str]:
        """The names of the LocalQueues of a namespace, in any order."""

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """The ClusterQueue."""

    def cluster_queue_names(self) -> Iterable[str]:
        """The names of all ClusterQueues, in any order."""

    def standing(self, cluster_queue: str) -> Standing | None:
        """The Active condition of a ClusterQueue."""

    def cohort(self, name: str) -> Cohort | None:
        """The Cohort object; None for a cohort that is only named by its members."""

    def cohort_names(self) -> Iterable[str]:
        """The names of all Cohort objects, in any order."""

    def flavor(self, name: str) -> ResourceFlavor | None:
        """The ResourceFlavor."""

    def flavor_names(self) -> Iterable[str]:
        """The names of all ResourceFlavors, in any order."""

    def admission_check(self, name: str) -> AdmissionCheck | None:
        """The AdmissionCheck."""

    def admission_check_names(self) -> Iterable[str]:
        """The names of all AdmissionChecks, in any order."""

    def namespace_labels(self, namespace: str) -> Labels | None:
        """The labels of a namespace."""

    def priority_class(self, name: str) -> int | None:
        """The value of a WorkloadPriorityClass."""

    def priority_class_names(self) -> Iterable[str]:
        """The names of all WorkloadPriorityClasses, in any order."""

    def pod_priority_class(self, name: str) -> int | None:
        """The value of a PriorityClass of Kubernetes; '' stands for the cluster's default, which is 0 where none is."""

    def pod_priority_class_names(self) -> Iterable[str]:
        """The names of all PriorityClasses, in any order."""

    def most(self, cluster_queue: str, flavor_resource: FlavorResource) -> int:
        """The most a ClusterQueue could ever give of it, were nothing in use: its own and what it may borrow."""

    def lendable(self, queue: ClusterQueue) -> Mapping[FlavorResource, int]:
        """The most the cohort of a ClusterQueue, as specified here, could lend it of each of its flavor-resources.

        Empty where nobody else is in the cohort (yet), and the cohort has no quota of its own.
        """

    def overdrawn(self, spec: ClusterQueue | Cohort, cohort: str) -> Mapping[FlavorResource, int]:
        """By how much usage would exceed all quota in the tree of a cohort, were ``spec`` in force; only what does."""

    def members(self, cohort: str) -> tuple[int, int]:
        """How many ClusterQueues and how many Cohorts are directly in a cohort."""

    def available(self, cluster_queue: str, flavor_resource: FlavorResource) -> int:
        """What a ClusterQueue could give of it now, borrowing included; negative when more is used than there is."""

    def starts(self, cluster_queue: str, newcomer: Workload) -> bool | None:
        """Whether a workload that is not there yet, and does not fit beside the others, would preempt its way in at
        once; None where finding out takes too long.
        """

    def usage(self, cluster_queue: str, flavor_resource: FlavorResource) -> int:
        """What workloads of the ClusterQueue hold of it now."""

    def pending(self, cluster_queue: str) -> int:
        """How many workloads wait in a ClusterQueue."""

    def ahead(self, cluster_queue: str, priority: int) -> int:
        """How many workloads of that priority or a higher one wait in a ClusterQueue."""

    def pods_awaited(self) -> Collection[Key]:
        """The admitted workloads whose pods must be ready before the next is admitted; none without blockAdmission."""

    def checked(self, cluster_queue: str, check: str) -> int:
        """How many workloads hold quota of a ClusterQueue and wait for an AdmissionCheck."""

    def blocked(self, cluster_queue: str) -> bool:
        """Whether the head of a ClusterQueue has been looked at and did not fit."""

    def admitted(self, cluster_queue: str) -> int:
        """How many workloads hold quota of a ClusterQueue."""

    def pending_for(self, local_queue: Key) -> int:
        """How many workloads wait in a LocalQueue."""

    def admitted_for(self, local_queue: Key) -> int:
        """How many workloads hold quota through a LocalQueue."""

    def workload_of(self, job_uid: str) -> Workload | None:
        """The Workload that stands for a job, or for what else is queued, of that uid."""

    def judged(self, job_uid: str) -> bool | None:
        """Whether the scheduler has judged the Workload of a job; None where there is no Workload yet."""

    def waits_in(self, job_uid: str) -> tuple[str, int] | None:
        """The ClusterQueue in which the Workload of a job waits, and its priority there."""

    def what_if(self) -> WhatIf:
        """The same answers, as a copy that can be told what else is in use and who else waits."""

    def node_labels(self) -> Iterable[Labels] | None:
        """The labels of every node; None where nodes are not watched."""

    def resource_quotas(self, namespace: str) -> Iterable[ResourceQuota]:
        """The ResourceQuotas of a namespace, in any order; none where they are not watched."""

    def request_rules(self, namespace: str) -> RequestRules:
        """What effective requests of pods in a namespace depend on: LimitRanges, RuntimeClasses, transformations."""


class WhatIf(Lookup, Protocol):
    """A Lookup of its own in which more is in use, and more or fewer wait, than really do."""

    def use(self, cluster_queue: str, amounts: Mapping[FlavorResource, int]) -> None:
        """Have more of a ClusterQueue in use."""

    def wait(self, cluster_queue: str, priority: int) -> None:
        """Have one more workload of that priority wait in a ClusterQueue."""

    def start(self, cluster_queue: str, priority: int) -> None:
        """Have one workload of that priority less wait in a ClusterQueue."""
