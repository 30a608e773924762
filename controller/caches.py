"""Station 5's source: what the API server holds, read into ``core.state.state.State`` and kept in step with it.

Every change in a store goes to State, which parks, queues and wakes workloads by itself, and then to whoever listens
(reconcilers, the scheduler). Nothing goes to State before every kind was listed once, for a workload read before
its LimitRange or its queue would be judged by half the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from api import names
from controller import resources
from controller.kube.resource import Raw, Resource
from controller.kube.store import Index, Store, verbatim
from core.jobs import meta
from core.jobs.kind import JobKind, group_of
from core.jobs.kinds import BATCH_JOB
from core.model import Key, Workload
from core.model.owner import Owner, owner
from core.state.state import State
from core.wire import decode, pod_requests
from core.wire.decode import WorkloadContext
from core.workload.priority import PriorityClasses

Listener = Callable[[Raw | None, Raw | None], None]
Observer = Callable[[Workload | None, Workload | None], None]


@dataclass(frozen=True, slots=True)
class Reading:
    """How the Configuration has Workloads read."""

    transformations: Mapping[str, pod_requests.Transformation] = field(default_factory=dict)
    excluded_prefixes: tuple[str, ...] = ()
    priority_boost: bool = False
    admission_gates: bool = True
    reclaimable_pods: bool = True

    def context(self, rules: pod_requests.RequestRules) -> WorkloadContext:
        """What Workloads are read with under these rules of their namespace."""
        return WorkloadContext(rules, self.priority_boost, self.admission_gates, self.reclaimable_pods)


class Interned:
    """Keeps a Workload with pod templates that are equal to others' kept once: most of its size, and most are equal."""

    MOST = 20_000

    def __init__(self) -> None:
        self._templates: dict[bytes, Raw] = {}

    def __call__(self, raw: Raw) -> Raw:
        """The Workload as it is to be kept."""
        for pod_set in (raw.get("spec") or {}).get("podSets") or ():
            template = pod_set.get("template")
            if template:
                if len(self._templates) >= self.MOST:  # bounds memory; templates still met come back at once
                    self._templates.clear()
                pod_set["template"] = self._templates.setdefault(orjson.dumps(template), template)
        return verbatim(raw)


class Caches:
    """One store a kind, and State. ``start`` is to be called once all are synced; until then State stays empty."""

    def __init__(self, state: State, reading: Reading | None = None, kinds: Iterable[JobKind] = (BATCH_JOB,)) -> None:
        self.state = state
        self.kinds = tuple(kinds)
        self.started = False
        self.flavors: dict[str, Raw] = {}
        self.observers: list[Observer] = []
        """Called with each change of a Workload, the first reading included, once State knows of it."""
        self._reading = reading or Reading()
        self._read: dict[Key, Workload] = {}
        self._contexts: dict[str, WorkloadContext] = {}
        self._overheads: Mapping[str, pod_requests.Amounts] | None = None
        self._classes: PriorityClasses | None = None
        keep = {resources.WORKLOADS: Interned()}
        self.stores: dict[Resource, Store[Raw]] = {
            resource: Store(resource.plural, keep.get(resource, verbatim), INDEXES.get(resource)) for resource in ALL
        }
        for kind in self.kinds:
            self.stores[resources.of_kind(kind)] = Store(kind.plural, verbatim, JOB_INDEXES)
        self.workloads = self.stores[resources.WORKLOADS]
        self.local_queues = self.stores[resources.LOCAL_QUEUES]
        self.cluster_queues = self.stores[resources.CLUSTER_QUEUES]
        self.cohorts = self.stores[resources.COHORTS]
        self.resource_flavors = self.stores[resources.RESOURCE_FLAVORS]
        self.admission_checks = self.stores[resources.ADMISSION_CHECKS]
        self.namespaces = self.stores[resources.NAMESPACES]
        self.limit_ranges = self.stores[resources.LIMIT_RANGES]
        self.runtime_classes = self.stores[resources.RUNTIME_CLASSES]
        self.priority_classes = self.stores[resources.PRIORITY_CLASSES]
        self.workload_priority_classes = self.stores[resources.WORKLOAD_PRIORITY_CLASSES]

    @property
    def synced(self) -> bool:
        """Whether every kind was listed once."""
        return all(store.synced for store in self.stores.values())

    def start(self) -> None:
        """Read all there is into State, and from now on every change. What others refer to comes first."""
        for _ in self.starting():
            pass

    def starting(self) -> Iterator[None]:
        """``start`` in slices of two milliseconds, so that others may run; ``started`` when it has come to its end."""
        yield from self.limit_ranges.catch_up(self._limits_changed)
        yield from self.runtime_classes.catch_up(self._overheads_changed)
        yield from self.resource_flavors.catch_up(self._flavor_changed)
        yield from self.admission_checks.catch_up(_setter(self.state.set_admission_check, decode.admission_check))
        yield from self.namespaces.catch_up(_setter(self.state.set_namespace, _labels))
        yield from self.cohorts.catch_up(_setter(self.state.set_cohort, decode.cohort))
        yield from self.cluster_queues.catch_up(_setter(self.state.set_cluster_queue, decode.cluster_queue))
        yield from self.local_queues.catch_up(self._local_queue_changed)
        yield from self.workloads.catch_up(self._workload_changed)
        yield from self.priority_classes.catch_up(self._classes_changed)
        yield from self.workload_priority_classes.catch_up(self._classes_changed)
        self.started = True

    def get(self, key: Key) -> Workload | None:
        """The workload at its newest version; None where it is gone."""
        return self._read.get(key)

    def workloads_of(self, owner: Owner) -> tuple[Raw, ...]:
        """The Workloads that this object controls, or one before it of the same name, oldest first."""
        found = self.workloads.by_index("owner", owner)
        return tuple(
            sorted(found, key=lambda raw: (raw["metadata"].get("creationTimestamp", ""), raw["metadata"]["uid"]))
        )

    def controlled(self, workload: Raw) -> bool:
        """Whether a job of ours controls the Workload, and is there."""
        by = owner(workload)
        stores = (
            self.stores[resources.of_kind(kind)]
            for kind in self.kinds
            if by is not None and (group_of(kind), kind.kind) == (by.group, by.kind)
        )
        return by is not None and any(store.get((by.namespace, by.name)) is not None for store in stores)

    def workload_of(self, uid: str) -> Workload | None:
        """The Workload of the object of that uid; of several one that is not finished, and of these an admitted one."""
        found = (self.get(decode.key(raw)) for raw in self.workloads.by_index("job-uid", uid))
        known = [each for each in found if each is not None]
        finished, admitted = names.Condition.FINISHED, names.Condition.ADMITTED
        return max(known, key=lambda each: (not each.holds(finished), each.holds(admitted)), default=None)

    @property
    def classes(self) -> PriorityClasses:
        """The values of all priority classes."""
        if self._classes is None:
            pod = {raw["metadata"]["name"]: raw for raw in self.priority_classes}
            self._classes = PriorityClasses(
                workload={raw["metadata"]["name"]: raw["value"] for raw in self.workload_priority_classes},
                pod={name: raw["value"] for name, raw in pod.items()},
                default=next((name for name, raw in sorted(pod.items()) if raw.get("globalDefault")), None),
            )
        return self._classes

    def _classes_changed(self, old: Raw | None, new: Raw | None) -> None:
        self._classes = None

    def _flavor_changed(self, old: Raw | None, new: Raw | None) -> None:
        name = _either(old, new)["metadata"]["name"]
        if new is None:
            self.flavors.pop(name, None)
        else:
            self.flavors[name] = new
        self.state.set_flavor(name, decode.resource_flavor(new) if new else None)

    def _local_queue_changed(self, old: Raw | None, new: Raw | None) -> None:
        self.state.set_local_queue(decode.key(_either(old, new)), decode.local_queue(new) if new else None)

    def _workload_changed(self, old: Raw | None, new: Raw | None) -> None:
        key = decode.key(_either(old, new))
        if new is None:
            gone = self._read.pop(key, None)
            self.state.set_workload(key, None)
            self._observed(gone, None)
            return
        read = decode.workload(new, self.context(key.namespace))
        before = self._read.get(key)
        self._read[key] = read
        self.state.set_workload(key, read)
        self._observed(before, read)

    def _observed(self, old: Workload | None, new: Workload | None) -> None:
        for observer in self.observers:
            observer(old, new)

    def context(self, namespace: str) -> WorkloadContext:
        """What Workloads of a namespace are read with; one for all namespaces that have no LimitRange."""
        ranges = self.limit_ranges.by_index("namespace", namespace)
        shared = namespace if ranges else ""
        known = self._contexts.get(shared)
        if known is None:
            if self._overheads is None:
                self._overheads = pod_requests.overheads(self.runtime_classes)
            rules = pod_requests.RequestRules(
                limits=pod_requests.limits(ranges),
                overheads=self._overheads,
                transformations=self._reading.transformations,
                excluded_prefixes=self._reading.excluded_prefixes,
            )
            known = self._contexts[shared] = self._reading.context(rules)
        return known

    def _limits_changed(self, old: Raw | None, new: Raw | None) -> None:
        namespace = decode.key(_either(old, new)).namespace
        self._contexts.pop(namespace, None)
        self._read_again(self.workloads.by_index("namespace", namespace))

    def _overheads_changed(self, old: Raw | None, new: Raw | None) -> None:
        if old and new and old.get("overhead") == new.get("overhead"):
            return
        self._overheads = None
        self._contexts.clear()
        self._read_again(self.workloads)

    def _read_again(self, raws: Iterable[Raw]) -> None:
        """The rules of requests changed: what is not yet read stays so until ``start`` comes to it."""
        for raw in raws if self._read else ():
            if decode.key(raw) in self._read:
                self._workload_changed(raw, raw)


def _either(old: Raw | None, new: Raw | None) -> Raw:
    raw = new or old
    assert raw is not None, "a store tells of a change between nothing and nothing"
    return raw


def _labels(raw: Raw) -> Mapping[str, str]:
    return raw["metadata"].get("labels") or {}


def _setter(enter: Callable[[str, Any], None], read: Callable[[Raw], Any]) -> Listener:
    """A listener for objects without a namespace: enters what was read under the object's name, None where it is
    gone.
    """

    def changed(old: Raw | None, new: Raw | None) -> None:
        enter(_either(old, new)["metadata"]["name"], read(new) if new else None)

    return changed


def _namespace(raw: Raw) -> Iterable[str]:
    return (raw["metadata"].get("namespace", ""),)


def queue_of(raw: Raw) -> Iterable[str]:
    """Index of Workloads: ``namespace/queue``."""
    queue = (raw.get("spec") or {}).get("queueName")
    return (f"{raw['metadata']['namespace']}/{queue}",) if queue else ()


def _reserved_in(raw: Raw) -> Iterable[str]:
    admission = (raw.get("status") or {}).get("admission")
    return (admission["clusterQueue"],) if admission else ()


def owner_of(raw: Raw) -> Iterable[Owner]:
    """Index of Workloads and jobs: the object that controls them."""
    by = owner(raw)
    return (by,) if by is not None else ()


def _job_uid(raw: Raw) -> Iterable[str]:
    uid = (raw["metadata"].get("labels") or {}).get(names.Label.JOB_UID)
    return (uid,) if uid else ()


def _class_label(raw: Raw) -> Iterable[str]:
    name = meta.priority_class(raw)
    return (name,) if name else ()


def _priority_class(raw: Raw) -> Iterable[str]:
    reference = (raw.get("spec") or {}).get("priorityClassRef")
    return (f"{reference.get('kind')}/{reference.get('name')}",) if reference else ()


def _submits_to(raw: Raw) -> Iterable[str]:
    cluster_queue = (raw.get("spec") or {}).get("clusterQueue")
    return (cluster_queue,) if cluster_queue else ()


def _member_of(raw: Raw) -> Iterable[str]:
    cohort = (raw.get("spec") or {}).get("cohortName")
    return (cohort,) if cohort else ()


def flavor_names(raw: Raw) -> Iterable[str]:
    """The flavors that a ClusterQueue refers to."""
    groups = (raw.get("spec") or {}).get("resourceGroups") or ()
    return tuple({flavor["name"]: None for group in groups for flavor in group.get("flavors") or ()})


def check_names(raw: Raw) -> Iterable[str]:
    """The AdmissionChecks that a ClusterQueue refers to."""
    checks = ((raw.get("spec") or {}).get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return tuple(check["name"] for check in checks)


ALL = (
    resources.RESOURCE_FLAVORS,
    resources.ADMISSION_CHECKS,
    resources.COHORTS,
    resources.CLUSTER_QUEUES,
    resources.LOCAL_QUEUES,
    resources.QUEUES,
    resources.WORKLOAD_PRIORITY_CLASSES,
    resources.WORKLOADS,
    resources.NAMESPACES,
    resources.LIMIT_RANGES,
    resources.PRIORITY_CLASSES,
    resources.RUNTIME_CLASSES,
)


def _brings(raw: Raw) -> Iterable[Key]:
    """Index of jobs: the Workload that they bring along, whichever of label and annotation counts."""
    found = {meta.prebuilt_workload(raw, annotation_first=first)[0] for first in (True, False)}
    return tuple(Key(raw["metadata"]["namespace"], name) for name in sorted(found) if name)


JOB_INDEXES: Mapping[str, Index[Raw]] = {"priority-class": _class_label, "owner": owner_of, "prebuilt": _brings}

INDEXES: Mapping[Resource, Mapping[str, Index[Raw]]] = {
    resources.LIMIT_RANGES: {"namespace": _namespace},
    resources.LOCAL_QUEUES: {"cluster-queue": _submits_to},
    resources.CLUSTER_QUEUES: {"cohort": _member_of, "flavor": flavor_names, "check": check_names},
    resources.WORKLOADS: {
        "namespace": _namespace,
        "queue": queue_of,
        "cluster-queue": _reserved_in,
        "owner": owner_of,
        "job-uid": _job_uid,
        "priority-class": _priority_class,
    },
}
