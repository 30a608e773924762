"""The parts of an object whose pods are queued instead of it, each with its own Workload: the pods of a Deployment, the
groups of a LeaderWorkerSet, all pods of a StatefulSet together.

Separate from ``core.explain.analysis``, which explains one Workload: here is which one, and what becomes of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from api.names import Annotation, Condition
from api.objects import Resource
from core.jobs import leader_worker_sets, meta, stateful_sets
from core.jobs.kinds.pod import POD, ended
from core.jobs.owners import KNOWN
from core.jobs.pod_owners import DEPLOYMENT, LEADER_WORKER_SET, STATEFUL_SET, PodOwner, replicas
from core.model import Raw
from core.model.owner import GROUP
from core.model.owner import owner as owner_of
from core.wire import decode

_REPLICA_SETS = KNOWN["apps", "ReplicaSet"]


class Parts(NamedTuple):
    """``shown`` is the Workload to explain, the first that waits or else the first; ``summary`` is about all parts, ''
    where there is no more to say.
    """

    shown: Raw
    summary: str


def needed(kind: PodOwner) -> tuple[Resource, ...]:
    """The kinds of objects, beside Workloads, from which the parts are found."""
    return (kind.resource, _REPLICA_SETS, POD.resource) if kind is DEPLOYMENT else (kind.resource,)


def parts(kind: PodOwner, owner: Raw, here: Iterable[Raw]) -> Parts | None:
    """Returns what is queued of an object, found among those of its namespace; None if there is no Workload yet."""
    objects = list(here)
    workloads = [each for each in objects if each["kind"] == "Workload"]
    if kind is STATEFUL_SET:
        return _of_stateful_set(owner, {each["metadata"]["name"]: each for each in workloads})
    if kind is LEADER_WORKER_SET:
        found = list(_of_groups(owner, {each["metadata"]["name"]: each for each in workloads}))
    else:
        found = list(_of_pods(owner, objects, workloads))
    known = [each for each in found if each is not None]
    if not known:
        return None
    waiting = [each for each in known if not _admitted(each)]
    missing = max(0, replicas(owner) - len(found))
    summary = _named(kind, owner)
    summary += _counted(kind.unit, len(known) - len(waiting), len(waiting), len(found) - len(known), missing)
    shown = min(waiting or known, key=_order)
    return Parts(shown, f"{summary}. The first that waits:" if waiting else f"{summary}. The first of them:")


def called(workload: Raw) -> str:
    """The name by which users know a Workload of a group of pods: that of its owner, with the index of the group; ''
    for any other Workload.
    """
    found = meta.annotations(workload)
    name, index = found.get(Annotation.JOB_OWNER_NAME), found.get(Annotation.COMPONENT_WORKLOAD_INDEX)
    if found.get(Annotation.IS_GROUP_WORKLOAD) != "true" or not name:
        return ""
    return f"{name} group {index}" if index else str(name)


def job_name(workload: Raw | None) -> str:
    """The name of the job of a Workload, as users know it; '' if it has none."""
    by = owner_of(workload) if workload is not None else None
    return (called(workload) or by.name.removeprefix(GROUP)) if workload is not None and by is not None else ""


def _of_stateful_set(owner: Raw, workloads: dict[str, Raw]) -> Parts | None:
    named = (workloads.get(name) for name in stateful_sets.workload_names(owner))
    shown = next((raw for raw in named if raw is not None and stateful_sets.is_workload_of(owner, raw)), None)
    if shown is None:
        return None
    lacking = stateful_sets.without_quota(owner, decode.workload(shown, decode.WorkloadContext()))
    return Parts(shown, f"{_named(STATEFUL_SET, owner)}{lacking}" if lacking else "")


def _of_groups(owner: Raw, workloads: dict[str, Raw]) -> Iterator[Raw | None]:
    for index in range(leader_worker_sets.groups(owner)):
        named = (workloads.get(name) for name in leader_worker_sets.workload_names(owner, index))
        yield next((raw for raw in named if raw is not None), None)


def _of_pods(owner: Raw, objects: list[Raw], workloads: list[Raw]) -> Iterator[Raw | None]:
    """The Workload of each pod that has not ended, through the ReplicaSets of the Deployment."""
    sets = {meta.uid(each) for each in objects if each["kind"] == _REPLICA_SETS.kind and _by(each) == meta.uid(owner)}
    by_pod = {_by(each): each for each in workloads}
    for pod in objects:
        if pod["kind"] == POD.kind and _by(pod) in sets and not meta.deleting(pod) and not ended(pod):
            yield by_pod.get(meta.uid(pod))


def _named(kind: PodOwner, owner: Raw) -> str:
    return f"{kind.resource.kind} {owner['metadata']['name']}: "


def _by(raw: Raw) -> str:
    """The uid of the object that controls this one, '' where none does."""
    return str((meta.controller(raw) or {}).get("uid") or "")


def _order(workload: Raw) -> tuple[int, str, str]:
    """Returns the sort key in a ClusterQueue, for Workloads that were never evicted."""
    created = str(workload["metadata"].get("creationTimestamp") or "")
    return -int((workload.get("spec") or {}).get("priority") or 0), created, meta.uid(workload)


def _admitted(workload: Raw) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    true = {each["type"] for each in conditions if each["status"] == "True"}
    return Condition.ADMITTED in true and Condition.EVICTED not in true


def _counted(unit: str, admitted: int, waiting: int, without: int, missing: int) -> str:
    total = admitted + waiting + without + missing
    rest = (
        (waiting, "waits", "wait"),
        (without, "has no Workload yet", "have no Workload yet"),
        (missing, "does not exist yet", "do not exist yet"),
    )
    others = [f"{count} {one if count == 1 else several}" for count, one, several in rest if count]
    return ", ".join([f"{admitted} of {total} {unit}s {'is' if admitted == 1 else 'are'} admitted", *others])
