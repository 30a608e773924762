"""The watched resources: one table. A row has everything about its resource, so a new resource needs one row.

The columns: where the API server serves it, what its store keeps and its indexes, how a change updates State
(``enters``), which objects it wakes, which status and finalizer the controller keeps, which rights that needs beyond
reading, and whether it may be absent. Rows for jobs follow from the kinds of jobs. Reflectors, stores, wake-ups, the
first pass of a new leader, the roles of the chart and the input of ``simulate`` and ``explain`` are all made from this
table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from api import names, resources
from api.objects import Resource, key_of
from controller.cache import indexes
from controller.cache.caches import Cached, Caches, Interned, either, lean
from controller.reconcilers import queues
from controller.run.dispatch import Dispatcher, Wake
from controller.settings import Feature
from core.devices.model import claim_template, device_class, resource_slice
from core.jobs import meta
from core.jobs.external import External
from core.jobs.kind import JobKind
from core.jobs.kinds import POD
from core.jobs.pod_owners import PodOwner
from core.model import Key, Labels, Raw
from core.state.state import State
from core.wire import decode, pod_requests, resource_quotas
from core.wire.active import check_names
from core.workload import priority

T = TypeVar("T")

READ = ("list", "watch")
STATUS, FINALIZERS = "status", "finalizers"


@dataclass(frozen=True, kw_only=True, slots=True)
class Watched(Cached):
    """A row. ``wakes`` is called with each change while this process leads; ``writes`` has the verbs beyond those of a
    watch, by subresource ('' is the object itself).

    ``read_anew``: a new leader lists it by quorum read before its first cycle, because cycles depend on it. ``played``:
    ``simulate`` reads objects of it from files. ``feature``: it is watched, and there are rights for it, only with this
    feature.
    """

    wakes: Wake | None = None
    writes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read_anew: bool = False
    played: bool = True
    feature: Feature | None = None


def labels_of(raw: Raw) -> Labels:
    """The labels of an object."""
    return raw["metadata"].get("labels") or {}


def read_as(read: Callable[[Raw], object]) -> Callable[[Raw], Raw]:
    """Returns the ``keep`` of objects of which only a value is kept."""
    return lambda raw: {"metadata": raw["metadata"], "value": read(raw)}


def by_name(
    enter: Callable[[State, str, T | None], None], read: Callable[[Raw], T]
) -> Callable[[Caches, Raw | None, Raw | None], None]:
    """Updates State with an object without a namespace: sets its value under its name, None if it was deleted."""

    def changed(caches: Caches, old: Raw | None, new: Raw | None) -> None:
        set_value = getattr(caches.state, enter.__name__)  # that of a recorded State, if it is one
        set_value(either(old, new)["metadata"]["name"], read(new) if new else None)

    return changed


def by_key(
    enter: Callable[[State, Key, T | None], None], read: Callable[[Raw], T]
) -> Callable[[Caches, Raw | None, Raw | None], None]:
    """As ``by_name``, of an object in a namespace."""

    def changed(caches: Caches, old: Raw | None, new: Raw | None) -> None:
        getattr(caches.state, enter.__name__)(key_of(either(old, new)), read(new) if new else None)

    return changed


WATCHED: tuple[Watched, ...] = (
    Watched(
        resource=resources.NAMESPACES,
        enters=by_name(State.set_namespace, labels_of),
        wakes=Dispatcher.namespace,
    ),
    Watched(
        resource=resources.LIMIT_RANGES,
        indexes={"namespace": indexes.namespace_of},
        check=lambda raw: pod_requests.limits([raw]),
        enters=Caches.limits_changed,
        wakes=Dispatcher.rules,
    ),
    Watched(
        resource=resources.PRIORITY_CLASSES,
        check=priority.value_of,
        enters=Caches.classes_changed,
        wakes=Dispatcher.pod_priority_class,
    ),
    Watched(
        resource=resources.RUNTIME_CLASSES,
        optional=True,
        check=lambda raw: pod_requests.overheads([raw]),
        enters=Caches.overheads_changed,
        wakes=Dispatcher.rules,
    ),
    Watched(
        resource=resources.DEVICE_CLASSES,
        optional=True,
        keep=lambda: read_as(device_class),
        enters=Caches.device_class_changed,
        wakes=Dispatcher.rules,
        feature=Feature.DEVICES,
    ),
    Watched(
        resource=resources.RESOURCE_SLICES,
        optional=True,
        keep=lambda: read_as(resource_slice),
        enters=Caches.resource_slice_changed,
        wakes=Dispatcher.rules,
        feature=Feature.DEVICES,
    ),
    Watched(
        resource=resources.RESOURCE_CLAIM_TEMPLATES,
        optional=True,
        keep=lambda: read_as(claim_template),
        enters=Caches.claim_template_changed,
        wakes=Dispatcher.rules,
        feature=Feature.DEVICES,
    ),
    Watched(
        resource=resources.TOPOLOGIES,
        optional=True,
        enters=by_name(State.set_topology, decode.topology_object),
        wakes=Dispatcher.topology,
        in_use=queues.topology_in_use,
        gets_finalizer=True,
        writes={"": ("patch",)},
        feature=Feature.TOPOLOGY,
    ),
    Watched(
        resource=resources.RESOURCE_FLAVORS,
        indexes={"topology": indexes.topology_name},
        enters=Caches.flavor_changed,
        wakes=Dispatcher.flavor,
        in_use=queues.flavor_in_use,
        writes={"": ("patch",)},
    ),
    Watched(
        resource=resources.ADMISSION_CHECKS,
        optional=True,
        enters=by_name(State.set_admission_check, decode.admission_check),
        wakes=Dispatcher.admission_check,
        in_use=queues.check_in_use,
        gets_finalizer=True,
        writes={"": ("patch",), STATUS: ("patch",)},
    ),
    Watched(
        resource=resources.MULTIKUEUE_CONFIGS,
        optional=True,
        wakes=Dispatcher.multikueue_config,
        feature=Feature.MULTIKUEUE,
    ),
    Watched(
        resource=resources.MULTIKUEUE_CLUSTERS,
        optional=True,
        wakes=Dispatcher.multikueue_cluster,
        feature=Feature.MULTIKUEUE,
        writes={STATUS: ("patch",)},
    ),
    Watched(
        resource=resources.PROVISIONING_REQUEST_CONFIGS,
        optional=True,
        wakes=Dispatcher.provisioning_request_config,
    ),
    Watched(
        resource=resources.PROVISIONING_REQUESTS,
        optional=True,
        played=False,
        indexes={"owner": indexes.owner_of},
        wakes=Dispatcher.provisioning_request,
        writes={"": ("create", "delete"), FINALIZERS: ("update",)},
        feature=Feature.PROVISIONING_REQUESTS,
    ),
    Watched(
        resource=resources.POD_TEMPLATES,
        selector=f"{names.Label.MANAGED}=true",
        played=False,
        indexes={"owner": indexes.owner_of},
        wakes=Dispatcher.pod_template,
        writes={"": ("create", "patch", "delete")},
        feature=Feature.PROVISIONING_REQUESTS,
    ),
    Watched(
        resource=resources.COHORTS,
        optional=True,
        enters=by_name(State.set_cohort, decode.cohort),
        wakes=Dispatcher.cohort,
        status=queues.cohort_status,
        writes={STATUS: ("patch",)},
    ),
    Watched(
        resource=resources.CLUSTER_QUEUES,
        indexes={"cohort": indexes.cohort_of, "flavor": indexes.flavor_names, "check": check_names},
        enters=by_name(State.set_cluster_queue, decode.cluster_queue),
        wakes=Dispatcher.cluster_queue,
        status=queues.cluster_queue_status,
        active=queues.cluster_queue_active,
        in_use=queues.holds_quota,
        writes={"": ("patch",), STATUS: ("patch",)},
        read_anew=True,
    ),
    Watched(
        resource=resources.LOCAL_QUEUES,
        indexes={"cluster-queue": indexes.cluster_queue_of},
        enters=by_key(State.set_local_queue, decode.local_queue),
        wakes=Dispatcher.local_queue,
        status=queues.local_queue_status,
        active=queues.local_queue_active,
        writes={"": ("patch",), STATUS: ("patch",)},
    ),
    Watched(
        resource=resources.WORKLOAD_PRIORITY_CLASSES,
        optional=True,
        check=priority.value_of,
        enters=Caches.classes_changed,
        wakes=Dispatcher.priority_class,
    ),
    Watched(
        resource=resources.WORKLOADS,
        keep=Interned,
        indexes={
            "namespace": indexes.namespace_of,
            "queue": indexes.queue_of,
            "cluster-queue": indexes.reserved_in,
            "owner": indexes.owner_of,
            "job-uid": indexes.job_uid,
            "to-adopt": indexes.to_adopt,
            "priority-class": indexes.priority_class,
            "claim-template": indexes.claim_templates,
        },
        enters=Caches.workload_changed,
        wakes=Dispatcher.workload,
        writes={
            "": ("get", "create", "patch", "delete"),
            STATUS: ("update", "patch"),
        },
        read_anew=True,
    ),
    Watched(
        resource=resources.QUEUES,
        optional=True,
        wakes=Dispatcher.queue,
        writes={STATUS: ("patch",)},
        feature=Feature.QUEUES,
    ),
    # Only warnings depend on ResourceQuotas; decisions do on Nodes where a flavor has a topology
    # (``controller.reconcilers.topology``). A kubelet writes the rest of a Node again and again.
    Watched(
        resource=resources.NODES,
        awaited=False,
        played=False,
        keep=lambda: decode.node,
    ),
    Watched(
        resource=resources.RESOURCE_QUOTAS,
        awaited=False,
        keep=lambda: resource_quotas.read,
        indexes={"namespace": indexes.quota_namespace},
    ),
)


_OF_PODS: Mapping[str, Callable[[Raw], Iterable[Key]]] = {
    "job": lambda raw: (POD.key(raw),),
    "leader-worker-set": indexes.leader_worker_set_of,
}


def of_jobs(kind: JobKind, kinds: Iterable[JobKind] = ()) -> Watched:
    """Returns the row of a kind of job; ``kinds`` are those whose jobs its jobs may belong to."""
    return Watched(
        resource=kind.resource,
        job_kind=kind,
        optional=kind.optional,
        keep=lean(kind),
        selector=kind.selector,
        indexes={
            "priority-class": indexes.priority_class_label,
            "owner": indexes.owner_of,
            "prebuilt": meta.prebuilt_workloads,
            **(_OF_PODS if kind.grouped else {}),
            **({"refers": kind.references} if kind.refers else {}),
            **_belonging(kind.resource, kinds),
        },
        wakes=_about(kind, Dispatcher.job),
        writes=_written(kind.resource, (kind, *kinds), {"": ("patch",), FINALIZERS: ("update",)}),
    )


def of_pod_owner(kind: PodOwner) -> Watched:
    """Returns the row of a kind whose pods form groups."""
    return Watched(
        resource=kind.resource,
        optional=kind.optional,
        indexes={"owner": indexes.owner_of},
        wakes=_about(kind, Dispatcher.pod_owner),
    )


def of_external(kind: External) -> Watched:
    """Returns the row of a kind of another vendor; nothing waits for it. Only MultiKueue reads it."""
    return Watched(resource=kind.resource, optional=True, awaited=False, played=False)


def of_related(served: Resource, kinds: Iterable[JobKind]) -> Watched:
    """Returns the row of a kind that is not queued itself, whose objects belong to jobs of these kinds."""
    return Watched(
        resource=served,
        optional=True,
        indexes=_belonging(served, kinds),
        wakes=_about(served, Dispatcher.related),
        writes=_written(served, kinds),
    )


def of_referred(served: Resource) -> Watched:
    """Returns the row of a kind to whose objects jobs refer by name."""
    return Watched(
        resource=served, optional=True, feature=Feature.MULTIKUEUE, wakes=_about(served, Dispatcher.referred)
    )


def rows(
    kinds: Iterable[JobKind], pod_owners: Iterable[PodOwner] = (), externals: Iterable[External] = ()
) -> tuple[Watched, ...]:
    """Returns the table with a row for each of these kinds of jobs, and for the kinds of which their jobs consist."""
    kinds = tuple(kinds)
    queued = [kind.resource for kind in kinds]
    others = dict.fromkeys(served for kind in kinds for served in kind.related if served not in queued)
    return (
        *WATCHED,
        *map(of_pod_owner, pod_owners),
        *(of_jobs(kind, kinds) for kind in kinds),
        *(of_related(served, kinds) for served in others),
        *map(of_referred, dict.fromkeys(served for kind in kinds for served in kind.refers)),
        *map(of_external, externals),
    )


def _written(
    served: Resource, kinds: Iterable[JobKind], verbs: Mapping[str, tuple[str, ...]] | None = None
) -> Mapping[str, tuple[str, ...]]:
    """Returns these verbs by subresource, with those that starts and stops of these kinds use on such objects."""
    found = dict(verbs or {})
    for right in (right for kind in kinds for right in kind.rights if right.resource == served):
        before = found.get(right.subresource, ())
        found[right.subresource] = before if right.verb in before else (*before, right.verb)
    return found


def _belonging(served: Resource, kinds: Iterable[JobKind]) -> dict[str, Callable[[Raw], Iterable[Key]]]:
    """For each kind that is made of such objects the index of the job that an object belongs to."""
    return {kind.framework: partial(indexes.belongs_to, kind) for kind in kinds if served in kind.related}


def dispatch_of(rows: Iterable[Watched]) -> dict[Resource, Wake]:
    """Returns the wake-ups of each resource that has any."""
    return {row.resource: row.wakes for row in rows if row.wakes is not None}


def _about(subject: T, wake: Callable[[Dispatcher, T, Raw | None, Raw | None], None]) -> Wake:
    """The wake-up that a change of a resource of ``subject`` causes."""

    def changed(dispatcher: Dispatcher, old: Raw | None, new: Raw | None) -> None:
        wake(dispatcher, subject, old, new)

    return changed
