"""The queries of admission, answered by State, and by a few callables for data that State does not have.

All queries are synchronous; none waits or calls the API server. ``synced`` is false until the caches have been read
once: until then there is no feedback, while enforcement (forced suspension, validation) never depends on a cache.
"""

from __future__ import annotations

import dataclasses
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields

from msgspec.structs import replace

from api import names
from api.names import CheckState, Condition
from api.objects import Resource
from core.model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    FlavorResource,
    Key,
    Labels,
    LocalQueue,
    Node,
    PodSet,
    ResourceFlavor,
    Workload,
)
from core.model.forecast import StartForecast
from core.model.owner import Level, Reference
from core.quota.active import ActiveCondition, conflicts
from core.quota.node import QueueNode, QuotaNode
from core.quota.tree import Forest, build_trees
from core.state import what_if
from core.state.node_groups import NodeGroup
from core.state.state import State
from core.wire.active import Cause
from core.wire.pod_requests import RequestRules
from core.wire.resource_quotas import NamespaceQuota
from core.workload.priority import PriorityClasses


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Lookup:
    """Answers from the current state; each costs one or two dictionary accesses unless stated otherwise.

    ``ready`` returns whether the caches were read once, ``classes`` the values of priority classes, ``rules`` the
    request rules of a namespace, ``job_workload`` the Workload of a job's uid, ``owner`` what is known of an owner in a
    namespace (None if it was not read), ``nodes`` all nodes (None if nodes are not watched), ``labelled`` those with
    certain labels (without it each node is compared), ``quotas`` the ResourceQuotas of a namespace, ``workers`` the
    queues of the worker clusters of an AdmissionCheck by name, as far as they are known; none for a check that is not
    of MultiKueue. ``cause`` returns why an AdmissionCheck is inactive. ``exists`` is whether the stores have an object
    of a resource.
    ``forecast`` returns when a waiting workload starts, ``newcomer_forecast`` when a job with this LocalQueue,
    priority and pod sets would that is created now; both as last computed, None where that is not known.
    """

    state: State
    ready: Callable[[], bool] = lambda: True
    classes: Callable[[], PriorityClasses] = PriorityClasses
    rules: Callable[[str], RequestRules] = lambda namespace: RequestRules()
    job_workload: Callable[[str], Workload | None] = _nothing
    owner: Callable[[str, Reference], Level | None] = _nothing
    nodes: Callable[[], Iterable[Node] | None] = _nothing
    labelled: Callable[[Labels], NodeGroup] | None = None
    quotas: Callable[[str], Iterable[NamespaceQuota]] = lambda namespace: ()
    workers: Callable[[str], Mapping[str, Lookup | None]] = lambda check: {}
    cause: Callable[[str], Cause] = lambda check: Cause()
    exists: Callable[[Resource, Key], bool] = lambda resource, key: False
    forecast: Callable[[Key], StartForecast | None] = _nothing
    newcomer_forecast: Callable[[Key, int, tuple[PodSet, ...]], StartForecast | None] = _nothing
    _started: dict[str, bool | None] | None = None
    """The answers of ``starts`` by ClusterQueue, for one job."""

    def for_one_job(self) -> Lookup:
        """Returns the same Lookup for one review of one job: ``starts``, which costs a cycle, is computed once for each
        ClusterQueue.
        """
        return dataclasses.replace(self, _started={})

    @property
    def synced(self) -> bool:
        """Whether every cache has been read once."""
        return self.ready()

    @property
    def ignores_undeclared(self) -> bool:
        """Whether a resource that a ClusterQueue does not name is simply not counted (``quotaCheckStrategy``)."""
        return self.state.policy.ignore_undeclared

    def local_queue(self, key: Key) -> LocalQueue | None:
        """The LocalQueue."""
        return self.state.pending.local_queues.get(key)

    def local_queue_names(self, namespace: str) -> Iterable[str]:
        """The names of the LocalQueues of a namespace, in any order. Costs their number, whatever others have."""
        return [key.name for key in self.state.pending.local_queues_in(namespace)]

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """The ClusterQueue."""
        return self.state.reservations.cluster_queues.get(name)

    def cluster_queue_names(self) -> Iterable[str]:
        """The names of all ClusterQueues, in any order."""
        return tuple(self.state.reservations.cluster_queues)

    def active_condition(self, cluster_queue: str) -> ActiveCondition | None:
        """The Active condition of a ClusterQueue."""
        known = cluster_queue in self.state.reservations.cluster_queues
        return self.state.reservations.active_condition(cluster_queue) if known else None

    def conflicts(self, queue: ClusterQueue, named: Callable[[str], str]) -> Iterable[str]:
        """Returns what the AdmissionChecks of a ClusterQueue forbid, as its condition does: it is inactive for them."""
        on = self.state.policy.concurrent_admission
        return [text for _, text in conflicts(queue, self.admission_check, concurrent_admission=on, named=named)]

    def cohort(self, name: str) -> Cohort | None:
        """The Cohort object; None for a cohort that is only named by its members."""
        return self.state.reservations.cohorts.get(name)

    def flavor(self, name: str) -> ResourceFlavor | None:
        """The ResourceFlavor."""
        return self.state.reservations.flavors.get(name)

    def flavor_names(self) -> Iterable[str]:
        """The names of all ResourceFlavors, in any order."""
        return tuple(self.state.reservations.flavors)

    def admission_check(self, name: str) -> AdmissionCheck | None:
        """The AdmissionCheck."""
        return self.state.reservations.checks.get(name)

    def admission_check_names(self) -> Iterable[str]:
        """The names of all AdmissionChecks, in any order."""
        return tuple(self.state.reservations.checks)

    def namespace_labels(self, namespace: str) -> Labels | None:
        """The labels of a namespace."""
        return self.state.namespaces.get(namespace)

    def priority_class(self, name: str) -> int | None:
        """The value of a WorkloadPriorityClass."""
        return self.classes().workload.get(name)

    def priority_class_names(self) -> Iterable[str]:
        """The names of all WorkloadPriorityClasses, in any order."""
        return tuple(self.classes().workload)

    def pod_priority_class(self, name: str) -> int | None:
        """The value of a PriorityClass of Kubernetes; '' is the cluster's default, which is 0 if there is none."""
        classes = self.classes()
        wanted = name or classes.default
        return classes.pod.get(wanted) if wanted else names.DEFAULT_PRIORITY

    def system_class_counts(self, name: str, namespace: str) -> bool:
        """Whether a PriorityClass of pods in this namespace orders the queue."""
        return self.classes().counts(name, namespace)

    def pod_priority_class_names(self) -> Iterable[str]:
        """The names of all PriorityClasses, in any order."""
        return tuple(self.classes().pod)

    def most(self, cluster_queue: str, flavor_resource: FlavorResource) -> int:
        """Returns the maximum that a ClusterQueue can use of a flavor-resource: its own quota and what it may
        borrow.
        """
        node = self._node(cluster_queue)
        return node.potential(flavor_resource) if node else 0

    def lendable(self, queue: ClusterQueue) -> Mapping[FlavorResource, int]:
        """Returns the maximum that the cohort of a ClusterQueue with this specification can lend it, for each
        flavor-resource.

        Empty if the cohort has no other member (yet) and no quota. It builds the trees that would change, so it is not
        for use in the cycle.
        """
        hierarchy = self.state.reservations.hierarchy
        if queue.cohort not in hierarchy.cohorts and hierarchy.members(queue.cohort) <= {queue.name}:
            return {}
        unlimited = {fr: replace(quota, borrowing_limit=None) for fr, quota in queue.quotas.items()}
        trees = self._trees_with(replace(queue, quotas=unlimited), queue.cohort)
        node = next(tree.queues[queue.name] for tree in trees.values() if queue.name in tree.queues)
        if node.parent is None:  # the parents of the cohort run in a circle
            return {}
        return {fr: node.potential(fr) - quota.nominal for fr, quota in queue.quotas.items()}

    def overdrawn(self, spec: ClusterQueue | Cohort, cohort: str) -> Mapping[FlavorResource, int]:
        """Returns by how much usage would exceed the quota in the tree of a cohort with ``spec``; only amounts above
        zero. It builds the trees that would change, as ``lendable`` does.
        """
        trees = self._trees_with(spec, cohort)
        tree = next((tree for tree in trees.values() if cohort in tree.cohorts), None)
        if tree is None:
            return {}
        for name in tree.queues:
            node = self._node(name)
            for key, held in node.reserved.items() if node else ():
                tree.reserve(key, held)
        root = tree.cohorts[cohort].root()
        beyond = {fr: used - root.subtree.get(fr, 0) for fr, used in root.usage.items()}
        return {fr: amount for fr, amount in beyond.items() if amount > 0}

    def _trees_with(self, spec: ClusterQueue | Cohort, cohort: str) -> dict[str, Forest]:
        """Returns the tree of a cohort, and all trees that are or would be part of it with this specification."""
        hierarchy = self.state.reservations.hierarchy
        own = (spec.name, spec.parent) if isinstance(spec, Cohort) else (spec.cohort,)
        around = hierarchy.around((cohort, *own))
        queues = hierarchy.queues_in(around)
        cohorts = {name: hierarchy.cohorts[name] for name in around if name in hierarchy.cohorts}
        if isinstance(spec, Cohort):
            return build_trees({**cohorts, spec.name: spec}, queues, ())
        return build_trees(cohorts, {**queues, spec.name: spec}, ())

    def members(self, cohort: str) -> tuple[int, int]:
        """How many ClusterQueues and how many Cohorts are directly in a cohort."""
        hierarchy = self.state.reservations.hierarchy
        return len(hierarchy.members(cohort)), len(hierarchy.children(cohort) - {cohort})

    def available(self, cluster_queue: str, flavor_resource: FlavorResource) -> int:
        """Returns what a ClusterQueue can use of a flavor-resource now, including borrowing; negative if usage exceeds
        quota.
        """
        node = self._node(cluster_queue)
        return node.available(flavor_resource) if node else 0

    def starts(self, cluster_queue: str, newcomer: Workload) -> bool | None:
        """Whether a workload that does not exist yet, and does not fit beside the others, would be admitted immediately
        by preemption; None if the computation takes too long.
        """
        if self._started is None:
            return self._starts(cluster_queue, newcomer)
        if cluster_queue not in self._started:
            self._started[cluster_queue] = self._starts(cluster_queue, newcomer)
        return self._started[cluster_queue]

    def _starts(self, cluster_queue: str, newcomer: Workload) -> bool | None:
        return what_if.starts(self.state, cluster_queue, newcomer)

    def outcome(self, cluster_queue: str, newcomer: Workload) -> what_if.NewcomerDecision | None:
        """Returns what the next cycle would decide about a workload that does not exist yet, if it were the only head;
        None if the computation takes too long.
        """
        return what_if.outcome(self.state, cluster_queue, newcomer)

    def usage(self, cluster_queue: str, flavor_resource: FlavorResource) -> int:
        """Returns what workloads of the ClusterQueue hold of a flavor-resource now."""
        node = self._node(cluster_queue)
        return node.usage.get(flavor_resource, 0) if node else 0

    def _node(self, name: str) -> QueueNode | None:
        return self.state.reservations.node(name)

    def pending(self, cluster_queue: str) -> int:
        """How many workloads wait in a ClusterQueue."""
        queue = self.state.pending.queues.get(cluster_queue)
        return len(queue) if queue is not None else 0

    def ahead(self, cluster_queue: str, priority: int) -> int:
        """Returns how many workloads of that priority or a higher one wait in a ClusterQueue. The cost depends on the
        number of different waiting demands.
        """
        queue = self.state.pending.queues.get(cluster_queue)
        return queue.at_least(priority) if queue is not None else 0

    def pods_awaited(self) -> Collection[Key]:
        """The admitted workloads whose pods must be ready before the next admission; none without blockAdmission."""
        return self.state.reservations.unready if self.state.policy.block_admission else ()

    def checked(self, cluster_queue: str, check: str) -> int:
        """How many workloads hold quota of a ClusterQueue and wait for an AdmissionCheck. Costs the number of those
        with quota.
        """
        node = self._node(cluster_queue)
        held = node.reserved.values() if node else ()
        return sum(
            any(state.name == check and state.state != CheckState.READY for state in each.workload.checks)
            for each in held
        )

    def blocked(self, cluster_queue: str) -> bool:
        """Whether the head of a ClusterQueue has been decided and did not fit."""
        pending = self.state.pending
        head = pending.head(cluster_queue) if cluster_queue in pending.queues else None
        found = head.workload.condition(Condition.QUOTA_RESERVED) if head is not None else None
        return found is not None and not found.status

    def admitted(self, cluster_queue: str) -> int:
        """How many workloads hold quota of a ClusterQueue."""
        node = self._node(cluster_queue)
        return len(node.reserved) if node else 0

    def pending_for(self, local_queue: Key) -> int:
        """How many workloads wait in a LocalQueue."""
        return len(self.state.pending.by_local_queue.get(local_queue, ()))

    def admitted_for(self, local_queue: Key) -> int:
        """How many workloads hold quota through a LocalQueue."""
        return len(self.state.reservations.by_local_queue.get(local_queue, ()))

    def workload_of(self, job_uid: str) -> Workload | None:
        """Returns the Workload of a job, or of another queued object, with that uid."""
        return self.job_workload(job_uid)

    def judged(self, job_uid: str) -> bool | None:
        """Whether the scheduler has judged the Workload of a job; None where there is no Workload yet."""
        workload = self.job_workload(job_uid)
        if workload is None:
            return None
        waits = self.state.pending.entry(workload.key)
        return waits is None or waits.workload.condition(Condition.QUOTA_RESERVED) is not None

    def waits_in(self, job_uid: str) -> tuple[str, int] | None:
        """The ClusterQueue in which the Workload of a job waits, and its priority there."""
        workload = self.job_workload(job_uid)
        name = self.state.pending.where(workload.key) if workload is not None else None
        return (name, workload.priority) if workload is not None and name is not None else None

    def what_if(self) -> WhatIf:
        """Returns a copy to which more usage and more waiting workloads can be added."""
        return WhatIf(**{each.name: getattr(self, each.name) for each in fields(Lookup)})

    def cluster_nodes(self) -> Iterable[Node]:
        """Every node; none where nodes are not watched."""
        return self.nodes() or ()

    def has_nodes(self) -> bool:
        """Whether there is any node, as far as they are watched."""
        return bool(self.nodes_with({}))

    def nodes_with(self, labels: Labels) -> NodeGroup:
        """The nodes with all these labels, in any order; none where nodes are not watched."""
        if self.labelled is not None:
            return self.labelled(labels)
        return NodeGroup(node for node in self.cluster_nodes() if labels.items() <= node.labels.items())

    def resource_quotas(self, namespace: str) -> Iterable[NamespaceQuota]:
        """The ResourceQuotas of a namespace, in any order; none where they are not watched."""
        return self.quotas(namespace)

    def request_rules(self, namespace: str) -> RequestRules:
        """Returns what effective requests of pods in a namespace depend on: LimitRanges, RuntimeClasses,
        transformations.
        """
        return self.rules(namespace)


@dataclass(frozen=True, slots=True)
class WhatIf(Lookup):
    """The same State if more were in use and more waited: for Jobs that were accepted and not judged yet.

    Nothing of the State is changed: of a tree of cohorts only the nodes from a ClusterQueue to its root are copied, so
    a question costs the depth of the tree. What is added ``later`` costs nothing until its arena is asked about.
    """

    _later: dict[str, list[Callable[[], None]]] = field(default_factory=dict)
    _copies: dict[int, QuotaNode] = field(default_factory=dict)
    _used: dict[str, dict[FlavorResource, int]] = field(default_factory=dict)
    _waiting: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    _starting: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def later(self, cluster_queue: str, add: Callable[[], None]) -> None:
        """Calls ``add``, which adds to the arena of this ClusterQueue, before the first answer about that arena."""
        self._later.setdefault(self._arena_of(cluster_queue), []).append(add)

    def _arena_of(self, cluster_queue: str) -> str:
        return self.state.reservations.arena_of.get(cluster_queue, "")

    def _added(self, cluster_queue: str) -> None:
        """Adds what was to be added later to the arena of this ClusterQueue."""
        if self._later:
            for add in self._later.pop(self._arena_of(cluster_queue), ()):
                add()

    def use(self, cluster_queue: str, amounts: Mapping[FlavorResource, int]) -> None:
        """Have more of a ClusterQueue in use."""
        node = self._node(cluster_queue)
        if node is None:
            return
        node.add(amounts)
        used = self._used.setdefault(cluster_queue, {})
        for fr, amount in amounts.items():
            used[fr] = used.get(fr, 0) + amount

    def wait(self, cluster_queue: str, priority: int) -> None:
        """Adds one waiting workload of that priority to a ClusterQueue."""
        insort(self._waiting[cluster_queue], priority)

    def start(self, cluster_queue: str, priority: int) -> None:
        """Removes one waiting workload of that priority from a ClusterQueue."""
        insort(self._starting[cluster_queue], priority)

    def _starts(self, cluster_queue: str, newcomer: Workload) -> bool | None:
        self._added(cluster_queue)
        return what_if.starts(self.state, cluster_queue, newcomer, self._used)

    def outcome(self, cluster_queue: str, newcomer: Workload) -> what_if.NewcomerDecision | None:
        """Returns what the next cycle would decide about a workload that does not exist yet."""
        self._added(cluster_queue)
        return what_if.outcome(self.state, cluster_queue, newcomer, self._used)

    def pending(self, cluster_queue: str) -> int:
        """How many workloads wait in a ClusterQueue."""
        self._added(cluster_queue)
        more = len(self._waiting[cluster_queue]) - len(self._starting[cluster_queue])
        return max(0, Lookup.pending(self, cluster_queue) + more)

    def ahead(self, cluster_queue: str, priority: int) -> int:
        """Returns how many workloads of that priority or a higher one wait there."""
        self._added(cluster_queue)
        more, less = (
            sum(each >= priority for each in listed[cluster_queue]) for listed in (self._waiting, self._starting)
        )
        return max(0, Lookup.ahead(self, cluster_queue, priority) + more - less)

    def blocked(self, cluster_queue: str) -> bool:
        """Whether the head of a ClusterQueue does not fit."""
        self._added(cluster_queue)
        return bool(self._waiting[cluster_queue]) or Lookup.blocked(self, cluster_queue)

    def _node(self, name: str) -> QueueNode | None:
        self._added(name)
        real = Lookup._node(self, name)
        if real is None:
            return None
        found = self._copied(real)
        assert isinstance(found, QueueNode)
        return found

    def _copied(self, real: QuotaNode) -> QuotaNode:
        found = self._copies.get(id(real))
        if found is None:
            found = self._copies[id(real)] = copy(real)
            found.usage = dict(real.usage)
            if real.parent is not None:
                parent = self._copied(real.parent)
                found.parent = parent  # type: ignore[assignment]  # the copy of a cohort is one
        return found
