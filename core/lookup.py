"""What admission needs to know of the cluster, as one Protocol: the controller's caches fill it, tests fill it by hand.

It is read synchronously, within a call; nothing in it waits or asks the API server. ``synced`` is false until the
caches have been read once: feedback is silent until then, while enforcement (forced suspension, validation) never
depends on a cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from core.model import ClusterQueue, Cohort, FlavorResource, Key, Labels, LocalQueue, Raw, ResourceFlavor, Workload


class Lookup(Protocol):
    """Answers from caches; ``None`` is "there is none"."""

    @property
    def synced(self) -> bool:
        """Whether every cache has been read once."""

    def local_queue(self, key: Key) -> LocalQueue | None:
        """The LocalQueue."""

    def local_queue_names(self, namespace: str) -> Iterable[str]:
        """The names of the LocalQueues of a namespace, in any order."""

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """The ClusterQueue."""

    def cluster_queue_names(self) -> Iterable[str]:
        """The names of all ClusterQueues, in any order."""

    def inactive(self, cluster_queue: str) -> str:
        """Why a ClusterQueue admits nothing, in the words of its Active condition; '' where it is active."""

    def cohort(self, name: str) -> Cohort | None:
        """The Cohort object; None for a cohort that is only named by its members."""

    def cohort_members(self, name: str) -> Iterable[ClusterQueue]:
        """The ClusterQueues directly in a cohort, in any order."""

    def flavor(self, name: str) -> ResourceFlavor | None:
        """The ResourceFlavor."""

    def flavor_names(self) -> Iterable[str]:
        """The names of all ResourceFlavors, in any order."""

    def namespace_labels(self, namespace: str) -> Labels | None:
        """The labels of a namespace."""

    def priority_class(self, name: str) -> int | None:
        """The value of a WorkloadPriorityClass."""

    def priority_class_names(self) -> Iterable[str]:
        """The names of all WorkloadPriorityClasses, in any order."""

    def most(self, cluster_queue: str, flavor_resource: FlavorResource) -> int | None:
        """The most a ClusterQueue could ever give of it: all its own and all it may borrow. None where unlimited."""

    def usage(self, cluster_queue: str, flavor_resource: FlavorResource) -> int:
        """What admitted workloads hold of it now."""

    def pending(self, cluster_queue: str) -> int:
        """How many workloads wait in a ClusterQueue."""

    def admitted(self, cluster_queue: str) -> int:
        """How many workloads hold quota of a ClusterQueue."""

    def queue_of(self, group: str, kind: str, key: Key) -> str | None:
        """The queue that a job of any managed kind names ('' for none); None where no cache knows the job."""

    def workload_of(self, job_uid: str) -> Workload | None:
        """The Workload of a job."""

    def node_labels(self) -> Iterable[Labels] | None:
        """The labels of every node; None where nodes are not watched."""

    def limit_ranges(self, namespace: str) -> Iterable[Raw]:
        """The LimitRange objects of a namespace."""
