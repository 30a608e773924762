"""The indexes of stores: functions that return the keys under which an object is found.

Separate from the table of watched resources because wake-ups call them also for objects that are no longer in a store.
"""

from __future__ import annotations

from collections.abc import Iterable

from api import names
from core.jobs import leader_worker_sets, meta
from core.jobs.kind import JobKind
from core.jobs.mirrored_owners import several_of
from core.model import Key, Raw
from core.model.owner import Owner, owner
from core.wire.resource_quotas import NamespaceQuota


def namespace_of(raw: Raw) -> Iterable[str]:
    """The namespace of an object."""
    return (raw["metadata"].get("namespace", ""),)


def quota_namespace(quota: NamespaceQuota) -> Iterable[str]:
    """The namespace of a ResourceQuota."""
    return (quota.namespace,)


def queue_of(raw: Raw) -> Iterable[str]:
    """The LocalQueue of a Workload, as ``namespace/queue``."""
    queue = (raw.get("spec") or {}).get("queueName")
    return (f"{raw['metadata']['namespace']}/{queue}",) if queue else ()


def reserved_in(raw: Raw) -> Iterable[str]:
    """Returns the ClusterQueue whose quota a Workload holds."""
    admission = (raw.get("status") or {}).get("admission")
    return (admission["clusterQueue"],) if admission else ()


def claim_templates(raw: Raw) -> Iterable[Key]:
    """The ResourceClaimTemplates to which the pods of a Workload refer."""
    namespace = raw["metadata"].get("namespace", "")
    return {
        Key(namespace, name): None
        for pod_set in (raw.get("spec") or {}).get("podSets") or ()
        for claim in ((pod_set.get("template") or {}).get("spec") or {}).get("resourceClaims") or ()
        if (name := claim.get("resourceClaimTemplateName"))
    }


def owner_of(raw: Raw) -> Iterable[Owner]:
    """The object that controls a Workload or a job."""
    by = owner(raw)
    return (by,) if by is not None else ()


def job_uid(raw: Raw) -> Iterable[str]:
    """The uid of the job of a Workload."""
    uid = (raw["metadata"].get("labels") or {}).get(names.Label.JOB_UID)
    return (uid,) if uid else ()


def to_adopt(raw: Raw) -> Iterable[Key]:
    """The object that is to own a Workload which another cluster made."""
    found = several_of(raw) if names.Label.MULTIKUEUE_ORIGIN in meta.labels(raw) and not job_uid(raw) else None
    return (found[1],) if found is not None else ()


def priority_class(raw: Raw) -> Iterable[str]:
    """The priority class of a Workload, as ``kind/name``."""
    reference = (raw.get("spec") or {}).get("priorityClassRef")
    return (f"{reference.get('kind')}/{reference.get('name')}",) if reference else ()


def priority_class_label(raw: Raw) -> Iterable[str]:
    """The WorkloadPriorityClass that a job names."""
    name = meta.priority_class(raw)
    return (name,) if name else ()


def cluster_queue_of(raw: Raw) -> Iterable[str]:
    """The ClusterQueue of a LocalQueue."""
    cluster_queue = (raw.get("spec") or {}).get("clusterQueue")
    return (cluster_queue,) if cluster_queue else ()


def cohort_of(raw: Raw) -> Iterable[str]:
    """The cohort of a ClusterQueue."""
    cohort = (raw.get("spec") or {}).get("cohortName")
    return (cohort,) if cohort else ()


def flavor_names(raw: Raw) -> Iterable[str]:
    """The flavors that a ClusterQueue refers to."""
    groups = (raw.get("spec") or {}).get("resourceGroups") or ()
    return tuple({flavor["name"]: None for group in groups for flavor in group.get("flavors") or ()})


def topology_name(raw: Raw) -> Iterable[str]:
    """The Topology that a ResourceFlavor names."""
    name = (raw.get("spec") or {}).get("topologyName")
    return (name,) if name else ()


def belongs_to(kind: JobKind, raw: Raw) -> Iterable[Key]:
    """The job of this kind that an object is part of."""
    name = kind.belongs_to(raw)
    return (Key(raw["metadata"]["namespace"], name),) if name else ()


def leader_worker_set_of(raw: Raw) -> Iterable[Key]:
    """The LeaderWorkerSet of a pod, by its label."""
    name = meta.labels(raw).get(leader_worker_sets.NAME)
    return (Key(raw["metadata"]["namespace"], name),) if name else ()
