"""Wake-ups: what is reconciled again when an object of a watched resource changed; ``controller.run.watched`` has the
method for each resource.

If a wake-up is missing here, a workload waits for ever. State requeues inadmissible workloads itself; here are the
objects whose own status or next step depends on others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from api import resources
from api.names import Annotation
from api.objects import Resource, key_of
from controller.cache.caches import Caches
from controller.cache.indexes import flavor_names, leader_worker_set_of, topology_name
from core.jobs import meta
from core.jobs.kind import JobKind, owner_of
from core.jobs.owners import MOST_LEVELS
from core.jobs.pod_owners import LEADER_WORKER_SET, PodOwner
from core.model import Key, Raw, StopPolicy
from core.model.owner import Owner, owner
from core.quota.tree import above
from core.state.queue_status import shows
from core.wire.active import check_names

if TYPE_CHECKING:  # so that who reads the table of resources alone (kubectl seiretsu explain) imports no reconciler
    from controller.cache.owners import Owners
    from controller.cache.sweeps import Begin
    from controller.multikueue.workloads import MultiKueueController
    from controller.reconcilers.jobs import JobReconciler
    from controller.reconcilers.mirror import QueueMirror
    from controller.reconcilers.pod_owners import PodOwnerReconciler
    from controller.reconcilers.provisioning import Provisioning
    from controller.reconcilers.queues import QueueStatuses
    from controller.reconcilers.workloads import WorkloadReconciler
    from controller.scheduling.scheduler import Scheduler

AT_ONCE = 200
"""So many objects are visited before other tasks may run."""

Wake = Callable[["Dispatcher", Raw | None, Raw | None], None]
"""Called with the object before and after its change."""


class Dispatcher:
    """Connects the changes of stores to the reconcilers of dependent objects."""

    def __init__(
        self,
        caches: Caches,
        scheduler: Scheduler,
        workloads: WorkloadReconciler,
        queues: QueueStatuses,
        jobs: Sequence[JobReconciler],
        mirror: QueueMirror,
        pod_owners: Sequence[PodOwnerReconciler] = (),
        owners: Owners | None = None,
        multikueue: MultiKueueController | None = None,
        provisioning: Provisioning | None = None,
    ) -> None:
        self.caches = caches
        self.scheduler = scheduler
        self.workloads = workloads
        self.queues = queues
        self.mirror = mirror
        self.owners = owners
        self.multikueue = multikueue
        self.provisioning = provisioning
        self._relabelled: set[str] = set()
        """Namespaces whose labels changed, of which jobs were not queued yet."""
        self.pod_owners = {(each.resource.group, each.resource.kind): each for each in pod_owners}
        self.jobs = {(reconciler.kind.group, reconciler.kind.kind): reconciler for reconciler in jobs}

    def connect(self, wakes: Mapping[Resource, Wake]) -> None:
        """Connects the listeners. To be called after ``Caches.start``, so that State has a change before any reconciler
        runs.

        Existing objects are handled by ``everything``: with one call for each object the same workloads would be woken
        again and again.
        """
        for resource, wake in wakes.items():
            self.caches.stores[resource].listen(partial(wake, self))

    def everything(self) -> Iterator[None]:
        """Queues all objects, because this process leads from now on; yields, so that other tasks can run.

        Jobs that were deleted while no process led are visible only in their Workloads.
        """
        yield from self._jobs()
        for owners in self.pod_owners.values():
            yield from _each(owners.changed, owners.store.keys())
        yield from _each(self._workload_and_job, self.caches.workloads.keys())
        for resource, row in self.caches.rows.items():
            if row.status is not None or row.in_use is not None:
                yield from _each(partial(self.queues.changed, resource), self.caches.stores[resource].keys())
        yield from _each(self.mirror.changed, self.caches.stores[resources.QUEUES].keys())
        self.scheduler.wake()

    def _workload_and_job(self, key: Key) -> None:
        self.workloads.changed(key)
        raw = self.caches.workloads.get(key)
        if raw is not None:
            self._job_of(raw)

    def taken_back(self, key: Key) -> None:
        """A reservation was withdrawn: the workload waits again, which no change of an object shows."""
        raw = self.caches.workloads.get(key)
        if raw is not None:
            self.workload(raw, raw)

    def workload(self, old: Raw | None, new: Raw | None) -> None:
        """A Workload changed."""
        key = key_of(new or old or {})
        self.workloads.changed(key)
        if new is None:
            self.scheduler.forget(key)
        for raw in (old, new):
            if raw is None:
                continue
            self._job_of(raw)
            value = self.caches.get(key_of(raw))
            if value is not None and value.replaces is not None:
                self.workloads.changed(value.replaces)
                self._jobs_naming(value.replaces)
            key = Key(raw["metadata"]["namespace"], (raw.get("spec") or {}).get("queueName") or "")
            self._status_of_queues(key)
            admission = (raw.get("status") or {}).get("admission")
            if admission:
                self._status_of_cluster_queue(admission["clusterQueue"])
        for name in self.caches.state.reservations.take_released():
            self._status_of_cluster_queue(name)  # no object may have shown that reservation
        self.scheduler.wake()

    def _job_of(self, raw: Raw) -> None:
        above = meta.annotations(raw).get(Annotation.JOB_OWNER_NAME)
        if above:
            for owners in self.pod_owners.values():
                owners.changed(Key(raw["metadata"]["namespace"], above))
        by = owner(raw)
        reconciler = self.jobs.get((by.group, by.kind)) if by is not None else None
        if by is not None and reconciler is not None:
            reconciler.changed(Key(by.namespace, by.name))
        if by is not None:
            self.jobs_below(by)
        self._jobs_naming(key_of(raw))

    def _jobs_naming(self, workload: Key) -> None:
        """Queues the jobs that name a Workload."""
        self._now_or_in_steps(("naming", workload), partial(self._naming, workload))

    def _naming(self, workload: Key) -> Iterator[None]:
        for each in self.jobs.values():
            yield from _each(each.changed, each.keys(each.store.keys_by_index("prebuilt", workload)))

    def jobs_below(self, by: Owner) -> None:
        """Queues the jobs below an object, which may follow it."""
        self._now_or_in_steps(("below", by), partial(self._below, by))

    def _below(self, by: Owner, levels: int = MOST_LEVELS) -> Iterator[None]:
        between = dict.fromkeys(self.owners.below(by) if self.owners is not None else ())

        def look(reconciler: JobReconciler, key: Key) -> None:
            reconciler.changed(key)
            between[owner_of(reconciler.kind, key)] = None

        for reconciler in self.jobs.values():
            yield from _each(partial(look, reconciler), reconciler.keys(reconciler.store.keys_by_index("owner", by)))
        for owners in self.pod_owners.values():
            yield from _each(owners.changed, owners.store.keys_by_index("owner", by))
        if levels > 1:
            for each_below in between:
                yield from self._below(each_below, levels - 1)

    def _now_or_in_steps(self, name: Hashable, begin: Begin) -> None:
        """Does work that is usually short: its first step now, and all of it in steps if there are more: users decide
        how many jobs they put below one object.
        """
        for _ in begin():
            self.caches.in_steps(name, begin)
            return

    def _status_of_queues(self, key: Key) -> None:
        """A workload that names this LocalQueue changed.

        As in Kueue a ClusterQueue continues to report the workloads that wait in a LocalQueue that was stopped or
        deleted, until the ClusterQueue changes, or a workload that is or was in it: stopping a LocalQueue does not
        change the demand. So nothing else may update its status, or the value would depend on unrelated events.
        """
        self.queues.changed(resources.LOCAL_QUEUES, key)
        queue = self.caches.state.pending.local_queues.get(key)
        if queue is not None and queue.stop_policy == StopPolicy.NONE:
            self._status_of_cluster_queue(queue.cluster_queue)

    def _status_of_cluster_queue(self, name: str) -> None:
        self.queues.changed(resources.CLUSTER_QUEUES, Key("", name))
        state = self.caches.state
        if state.policy.fair_sharing is not None and name in state.reservations.cluster_queues:
            for cohort in above(state.reservations.cohorts, state.reservations.cluster_queues[name].cohort):
                self.queues.changed(resources.COHORTS, Key("", cohort))

    def local_queue(self, old: Raw | None, new: Raw | None) -> None:
        """A LocalQueue changed."""
        raw = new or old or {}
        key = key_of(raw)
        self.queues.changed(resources.LOCAL_QUEUES, key)
        self.mirror.changed(key)
        if _spec_changed(old, new):
            self.caches.in_steps(("queue", key), partial(self._workloads_in, f"{key.namespace}/{key.name}"))
        self.scheduler.wake()

    def cluster_queue(self, old: Raw | None, new: Raw | None) -> None:
        """A ClusterQueue changed."""
        raw = new or old or {}
        if not _spec_changed(old, new):
            return
        self._respecified((raw["metadata"]["name"],))
        for each in (old, new):
            for flavor in flavor_names(each or {}):
                self.queues.changed(resources.RESOURCE_FLAVORS, Key("", flavor))
            for check in check_names(each or {}):
                self.queues.changed(resources.ADMISSION_CHECKS, Key("", check))

    def _respecified(self, names: Iterable[str]) -> None:
        """These ClusterQueues, or what they refer to, changed: queues them and their workloads."""
        for name in names:
            self._statuses_of(name)
            self.caches.in_steps(("workloads", name), partial(self._workloads_of, name))
        self.scheduler.edited()

    def _statuses_of(self, cluster_queue: str) -> None:
        self._status_of_cluster_queue(cluster_queue)
        for local_queue in self.caches.local_queues.by_index("cluster-queue", cluster_queue):
            self.queues.changed(resources.LOCAL_QUEUES, key_of(local_queue))

    def _workloads_of(self, cluster_queue: str) -> Iterator[None]:
        """Queues the Workloads that wait for a ClusterQueue or hold its quota: there may be tens of thousands."""
        for local_queue in self.caches.local_queues.by_index("cluster-queue", cluster_queue):
            key = key_of(local_queue)
            yield from self._workloads_in(f"{key.namespace}/{key.name}")
        held = self.caches.workloads.keys_by_index("cluster-queue", cluster_queue)
        yield from _each(self.workloads.changed_soon, held)

    def _workloads_in(self, queue: str) -> Iterator[None]:
        yield from _each(self.workloads.changed_soon, self.caches.workloads.keys_by_index("queue", queue))

    def cohort(self, old: Raw | None, new: Raw | None) -> None:
        """A Cohort changed."""
        name = (new or old or {})["metadata"]["name"]
        self.queues.changed(resources.COHORTS, Key("", name))
        if _spec_changed(old, new):
            for member in self._around(name, old):
                self._cohort_of(member)
            self.scheduler.edited()

    def _around(self, name: str, old: Raw | None) -> list[Raw]:
        """The ClusterQueues in the trees that a Cohort is in and, before it changed, was in."""
        parent = ((old or {}).get("spec") or {}).get("parentName") or name
        around = self.caches.state.reservations.hierarchy.around((name, parent))
        return [queue for cohort in sorted(around) for queue in self.caches.cluster_queues.by_index("cohort", cohort)]

    def _cohort_of(self, cluster_queue: Raw) -> None:
        """Something changed in the tree of a ClusterQueue: whether it is in a circle, or its share may have."""
        name, state = cluster_queue["metadata"]["name"], self.caches.state
        if not shows(cluster_queue.get("status") or {}, state.reservations.active_condition(name)):
            self._statuses_of(name)
        elif state.policy.fair_sharing is not None:
            self._status_of_cluster_queue(name)

    def flavor(self, old: Raw | None, new: Raw | None) -> None:
        """A ResourceFlavor changed."""
        name = (new or old or {})["metadata"]["name"]
        self.queues.changed(resources.RESOURCE_FLAVORS, Key("", name))
        if not _spec_changed(old, new):
            return
        for topology in {named for each in (old, new) if each for named in topology_name(each)}:
            self.queues.changed(resources.TOPOLOGIES, Key("", topology))
        for queue in self.caches.cluster_queues.by_index("flavor", name):
            user = queue["metadata"]["name"]
            if old is None or new is None:
                self._statuses_of(user)
            self.caches.in_steps(("workloads", user), partial(self._workloads_of, user))
            self.caches.in_steps(("jobs", user), partial(self._jobs_that_hold, user))
        self.scheduler.wake()

    def topology(self, old: Raw | None, new: Raw | None) -> None:
        """A Topology changed: ClusterQueues with a flavor that names it may be active now, or not any more."""
        name = (new or old or {})["metadata"]["name"]
        self.queues.changed(resources.TOPOLOGIES, Key("", name))
        if _spec_changed(old, new):
            flavors = self.caches.stores[resources.RESOURCE_FLAVORS].by_index("topology", name)
            users = {
                queue["metadata"]["name"]: None
                for flavor in flavors
                for queue in self.caches.cluster_queues.by_index("flavor", flavor["metadata"]["name"])
            }
            self._respecified(users)

    def _jobs_that_hold(self, cluster_queue: str) -> Iterator[None]:
        """Queues the jobs with quota of a ClusterQueue: one may not have started because its flavor was gone."""

        def look(key: Key) -> None:
            raw = self.caches.workloads.get(key)
            if raw is not None:
                self._job_of(raw)
            if self.provisioning is not None:
                self.provisioning.look_at(key)

        yield from _each(look, self.caches.workloads.keys_by_index("cluster-queue", cluster_queue))

    def admission_check(self, old: Raw | None, new: Raw | None) -> None:
        """An AdmissionCheck changed."""
        name = (new or old or {})["metadata"]["name"]
        self.queues.changed(resources.ADMISSION_CHECKS, Key("", name))
        users = self.caches.cluster_queues.by_index("check", name)
        self._respecified([raw["metadata"]["name"] for raw in users])

    def multikueue_config(self, old: Raw | None, new: Raw | None) -> None:
        """A MultiKueueConfig changed."""
        if self.multikueue is not None:
            self.multikueue.respecified(old, new)

    def multikueue_cluster(self, old: Raw | None, new: Raw | None) -> None:
        """A MultiKueueCluster changed."""
        if self.multikueue is not None:
            self.multikueue.cluster_changed(old, new)

    def provisioning_request_config(self, old: Raw | None, new: Raw | None) -> None:
        """A ProvisioningRequestConfig changed."""
        if self.provisioning is not None and _spec_changed(old, new):
            self.provisioning.reconfigured((new or old or {})["metadata"]["name"])

    def provisioning_request(self, old: Raw | None, new: Raw | None) -> None:
        """A ProvisioningRequest changed."""
        self._owning_workload(new or old or {})

    def pod_template(self, old: Raw | None, new: Raw | None) -> None:
        """A PodTemplate of a ProvisioningRequest changed; it belongs to the request, or still to the Workload."""
        raw = new or old or {}
        by = owner(raw)
        of_request = by is not None and by.kind == resources.PROVISIONING_REQUESTS.kind
        request = self.caches.stores[resources.PROVISIONING_REQUESTS].get((by.namespace, by.name)) if by else None
        self._owning_workload((request or {}) if of_request else raw)

    def _owning_workload(self, raw: Raw) -> None:
        """Queues the Workload that controls an object."""
        by = owner(raw) if raw else None
        if self.provisioning is not None and by is not None and by.kind == resources.WORKLOADS.kind:
            self.provisioning.queue.add(Key(by.namespace, by.name))

    def namespace(self, old: Raw | None, new: Raw | None) -> None:
        """A namespace changed."""
        name = (new or old or {})["metadata"]["name"]
        if new is None or (old is not None and old["metadata"].get("labels") == new["metadata"].get("labels")):
            return  # one that was created after its first jobs affects them too
        self._relabelled.add(name)
        self.caches.in_steps("namespaces", self._jobs_in_relabelled)
        self.scheduler.wake()

    def _jobs_in_relabelled(self) -> Iterator[None]:
        """Queues the jobs of the namespaces whose labels changed, and the objects whose pods form groups: one walk for
        any number of namespaces.
        """
        namespaces, self._relabelled = self._relabelled, set()

        def look(changed: Callable[[Key], None], key: Key) -> None:
            if key.namespace in namespaces:
                changed(key)

        for reconciler in self.jobs.values():
            yield from _each(partial(look, reconciler.changed), reconciler.every_key())
        for owners in self.pod_owners.values():
            yield from _each(partial(look, owners.changed), owners.store.keys())

    def priority_class(self, old: Raw | None, new: Raw | None) -> None:
        """A WorkloadPriorityClass changed."""
        raw = new or old or {}
        kind, name = raw["kind"], raw["metadata"]["name"]
        self.caches.in_steps((kind, name), partial(self._jobs_of_class, kind, name))

    def _jobs_of_class(self, kind: str, name: str) -> Iterator[None]:
        """Queues the Workloads with a class, and the jobs that name it."""
        found = self.caches.workloads.keys_by_index("priority-class", f"{kind}/{name}")
        yield from _each(self._workload_and_job, found)
        for reconciler in self.jobs.values():
            jobs = reconciler.store.keys_by_index("priority-class", name)
            yield from _each(reconciler.changed, reconciler.keys(jobs))

    def pod_priority_class(self, old: Raw | None, new: Raw | None) -> None:
        """Queues jobs that could not be read without it; a change affects no other job, as with pods."""
        if old is None:
            self.caches.in_steps("all jobs", self._jobs)

    def _jobs(self) -> Iterator[None]:
        """Queues all jobs."""
        for reconciler in self.jobs.values():
            yield from _each(reconciler.changed, reconciler.every_key())

    def rules(self, old: Raw | None, new: Raw | None) -> None:
        """Something that effective requests depend on changed."""
        self.scheduler.wake()

    def queue(self, old: Raw | None, new: Raw | None) -> None:
        """A Queue of v0.1 changed."""
        self.mirror.changed(key_of(new or old or {}))

    def pod_owner(self, kind: PodOwner, old: Raw | None, new: Raw | None) -> None:
        """An object changed whose pods form groups."""
        reconciler = self.pod_owners.get((kind.resource.group, kind.resource.kind))
        if reconciler is not None:
            reconciler.changed(key_of(new or old or {}))

    def _pod_owner_of(self, raw: Raw | None) -> None:
        """Queues the object that has marked a pod, or will."""
        if raw is None or not self.pod_owners:
            return
        by = owner(raw)
        reconciler = self.pod_owners.get((by.group, by.kind)) if by is not None else None
        if by is not None and reconciler is not None:
            reconciler.changed(Key(by.namespace, by.name))
        of_sets = self.pod_owners.get((LEADER_WORKER_SET.resource.group, LEADER_WORKER_SET.resource.kind))
        if of_sets is not None:
            for key in leader_worker_set_of(raw):
                of_sets.changed(key)

    def job(self, kind: JobKind, old: Raw | None, new: Raw | None) -> None:
        """A job of this kind changed."""
        reconciler = self.jobs[kind.group, kind.kind]
        keys = dict.fromkeys(kind.key(raw) for raw in (old, new) if raw is not None)
        for key in keys:
            reconciler.changed(key)
            self.jobs_below(owner_of(kind, key))
        self._pod_owner_of(new or old)
        self.related(kind.resource, old, new)

    def related(self, served: Resource, old: Raw | None, new: Raw | None) -> None:
        """An object changed that may belong to jobs of other kinds."""
        for reconciler in self.jobs.values():
            if served in reconciler.kind.related:
                for raw in (each for each in (old, new) if each is not None):
                    if name := reconciler.kind.belongs_to(raw):
                        reconciler.changed(Key(raw["metadata"]["namespace"], name))

    def referred(self, served: Resource, old: Raw | None, new: Raw | None) -> None:
        """An object changed to which jobs may refer."""
        key = key_of(new or old or {})
        self._now_or_in_steps(("referred", served, key), partial(self._referring, served, key))

    def _referring(self, served: Resource, key: Key) -> Iterator[None]:
        """Queues the jobs that refer to an object."""
        for reconciler in self.jobs.values():
            if served in reconciler.kind.refers:
                found = reconciler.store.keys_by_index("refers", (served, key))
                yield from _each(reconciler.changed, reconciler.keys(found))


def _each(look: Callable[[Key], None], keys: Iterable[Key]) -> Iterator[None]:
    for place, key in enumerate(keys, start=1):
        look(key)
        if not place % AT_ONCE:
            yield


def _spec_changed(old: Raw | None, new: Raw | None) -> bool:
    """Whether more than the status of an object changed: it was created, deleted, is being deleted, or has another
    specification.
    """
    if old is None or new is None:
        return True
    return (old.get("spec"), "deletionTimestamp" in old["metadata"]) != (
        new.get("spec"),
        "deletionTimestamp" in new["metadata"],
    )
