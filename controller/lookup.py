"""What admission asks of the caches (``core.lookup.Lookup``). Read synchronously from stores and State, by every
replica.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.caches import Caches
from core import decode, status
from core.jobs import workload as workloads
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
from core.quota import QueueNode
from core.requests import RequestRules
from core.standing import Standing


class CacheLookup:
    """Answers from ``caches``; nothing is known until ``Caches.start`` was called."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._state = caches.state

    @property
    def synced(self) -> bool:
        """Whether every cache has been read once."""
        return self._caches.started

    def local_queue(self, key: Key) -> LocalQueue | None:
        """The LocalQueue."""
        return self._state.lines.local_queues.get(key)

    def local_queue_names(self, namespace: str) -> Iterable[str]:
        """The names of the LocalQueues of a namespace."""
        return [key.name for key in self._state.lines.local_queues if key.namespace == namespace]

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """The ClusterQueue."""
        return self._state.holdings.cluster_queues.get(name)

    def cluster_queue_names(self) -> Iterable[str]:
        """The names of all ClusterQueues."""
        return list(self._state.holdings.cluster_queues)

    def standing(self, cluster_queue: str) -> Standing | None:
        """The Active condition of a ClusterQueue."""
        known = cluster_queue in self._state.holdings.cluster_queues
        return self._state.holdings.standing(cluster_queue) if known else None

    def cohort(self, name: str) -> Cohort | None:
        """The Cohort object."""
        return self._state.holdings.cohorts.get(name)

    def cohort_names(self) -> Iterable[str]:
        """The names of all Cohort objects."""
        return list(self._state.holdings.cohorts)

    def flavor(self, name: str) -> ResourceFlavor | None:
        """The ResourceFlavor."""
        return self._state.holdings.flavors.get(name)

    def flavor_names(self) -> Iterable[str]:
        """The names of all ResourceFlavors."""
        return list(self._state.holdings.flavors)

    def admission_check(self, name: str) -> AdmissionCheck | None:
        """The AdmissionCheck."""
        return self._state.holdings.checks.get(name)

    def namespace_labels(self, namespace: str) -> Labels | None:
        """The labels of a namespace."""
        return self._state.namespaces.get(namespace)

    def priority_class(self, name: str) -> int | None:
        """The value of a WorkloadPriorityClass."""
        return self._caches.classes.workload.get(name)

    def priority_class_names(self) -> Iterable[str]:
        """The names of all WorkloadPriorityClasses."""
        return list(self._caches.classes.workload)

    def most(self, cluster_queue: str, flavor_resource: FlavorResource) -> int:
        """The most a ClusterQueue could ever give of it, were nothing in use."""
        node = self._node(cluster_queue)
        return node.potential(flavor_resource) if node is not None else 0

    def available(self, cluster_queue: str, flavor_resource: FlavorResource) -> int:
        """What a ClusterQueue could give of it now, borrowing included."""
        node = self._node(cluster_queue)
        return node.available(flavor_resource) if node is not None else 0

    def _node(self, cluster_queue: str) -> QueueNode | None:
        root = self._state.holdings.roots.get(cluster_queue)
        return self._state.holdings.trees[root].queues[cluster_queue] if root is not None else None

    def usage(self, cluster_queue: str, flavor_resource: FlavorResource) -> int:
        """What workloads hold of it now."""
        return status.used(status.reservations(self._state, cluster_queue)).get(flavor_resource, 0)

    def pending(self, cluster_queue: str) -> int:
        """How many workloads wait in a ClusterQueue."""
        return status.pending_in(self._state, cluster_queue)

    def ahead(self, cluster_queue: str, priority: int) -> int:
        """How many workloads of that priority or a higher one wait in a ClusterQueue."""
        queue = self._state.lines.queues.get(cluster_queue)
        return sum(entry.workload.priority >= priority for entry in queue) if queue is not None else 0

    def admitted(self, cluster_queue: str) -> int:
        """How many workloads hold quota of a ClusterQueue."""
        return len(status.reservations(self._state, cluster_queue))

    def queue_of(self, group: str, kind: str, key: Key) -> str | None:
        """The queue that a job of a watched kind names; None where no cache knows the job."""
        for ours in self._caches.kinds:
            if (ours.api_version.rpartition("/")[0], ours.kind) == (group, kind):
                store = self._caches.store_of(ours.api_version, kind)
                job = store.get(key) if store else None
                return workloads.queue_name(job) if job else None
        return None

    def workload_of(self, job_uid: str) -> Workload | None:
        """The Workload of a job."""
        for raw in self._caches.workloads.by_index("job-uid", job_uid):
            return self._caches.get(decode.key(raw))
        return None

    def node_labels(self) -> Iterable[Labels] | None:
        """None: nodes are not watched."""
        return None

    def request_rules(self, namespace: str) -> RequestRules:
        """What effective requests of pods in a namespace depend on."""
        return self._caches.context(namespace).rules
