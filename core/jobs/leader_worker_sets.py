"""What becomes of a LeaderWorkerSet: one Workload for each group of a leader and its workers.

The groups start, stop and wait as any group of pods (``core.jobs.kinds.pod_group``). The number of groups may change:
a new one gets a Workload, and that of one which is no longer wanted is deleted. If the set runs here for another
cluster, that one creates and deletes them, and they get the set as an owner.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from api import names
from api.names import Annotation, Condition
from core.jobs import meta, template, workload
from core.jobs.actions import DeleteWorkload, Problem, UpdateWorkload
from core.jobs.fields import Path, at
from core.jobs.kinds.pod import ended
from core.jobs.pod_owner_groups import (
    GroupStep,
    adopted,
    created,
    followed,
    marked,
    naming_uid,
    of_another_cluster,
    taken,
    with_topology,
)
from core.jobs.pod_owners import LEADER, LEADER_WORKER_SET, LWS_NAME, WORKER, group_size, replicas
from core.model import Key, Raw, Workload
from core.wire.guard import guarded
from core.workload.priority import PriorityClasses

PREFIX: Final = "leaderworkerset.sigs.k8s.io/"
NAME: Final = LWS_NAME
GROUP_INDEX: Final = f"{PREFIX}group-index"
LEADER_NAME: Final = f"{PREFIX}leader-name"
MOST_CREATED: Final = 100
"""Workloads that are created before the set is considered anew."""


@dataclass(frozen=True, slots=True)
class LeaderWorkerSetSituation:
    """A LeaderWorkerSet that is queued, its pods, and the Workloads that were made for it; whether their pod sets have
    topology requests (feature gate TopologyAwareScheduling). ``existing``: the names of all Workloads of its namespace.
    """

    owner: Raw
    pods: Sequence[Raw]
    workloads: Sequence[Raw]
    values: Mapping[Key, Workload]
    classes: PriorityClasses
    topology_requests: bool = False
    existing: Container[str] = frozenset()
    longest_name: int = workload.LONG_NAME

    def name(self, index: int | str, mine: Container[str]) -> str:
        """The name of the Workload of a group, and of the group of its pods: one of ``mine`` keeps the name that it has
        when the feature gate ShortWorkloadNames is switched.
        """
        both = workload_names(self.owner, index)
        return next((each for each in both if each in mine), name(self.owner, index, self.longest_name))


def name(owner: Raw, index: int | str, longest: int = workload.LONG_NAME) -> str:
    """The name of a new Workload of a group."""
    of = f"{owner['metadata']['name']}-{index}"
    return workload.name_of(LEADER_WORKER_SET.resource, of, naming_uid(owner), longest=longest)


def workload_names(owner: Raw, index: int | str) -> tuple[str, ...]:
    """The names that the Workload of a group may have."""
    return tuple(dict.fromkeys((name(owner, index), name(owner, index, workload.SHORT_NAME))))


def steps(s: LeaderWorkerSetSituation) -> Iterator[GroupStep | None]:
    """Yields all that is to be done, at most one write for each object; None where nothing is to be done.

    Nothing is computed ahead, because a set may have many thousands of groups: at most ``MOST_CREATED`` Workloads are
    created, and each of them causes another call.
    """
    yield from _of_groups(s)
    mine = {raw["metadata"]["name"] for raw in s.workloads}
    for pod in s.pods:
        yield None
        index_of = meta.labels(pod).get(GROUP_INDEX)
        if index_of is None or meta.deleting(pod) or ended(pod):
            continue
        group, size = s.name(index_of, mine), group_size(s.owner)
        if group in mine or group not in s.existing:
            yield from marked(s.owner, pod, group, total=size, role=_role(s.owner, pod))


def _of_groups(s: LeaderWorkerSetSituation) -> Iterator[GroupStep | None]:
    unwanted, created_now = {raw["metadata"]["name"]: raw for raw in s.workloads}, 0
    made_there = of_another_cluster(s.owner)
    for index in range(groups(s.owner)):
        group = s.name(index, unwanted)
        known = unwanted.pop(group, None)
        if known is not None:
            yield _followed(s, known)
            continue
        if group in s.existing:
            yield taken(group)
            continue
        if made_there:
            yield None
            continue
        annotations = {Annotation.COMPONENT_WORKLOAD_INDEX: str(index)}
        step = created(LEADER_WORKER_SET, s.owner, group, _pod_sets(s), s.classes, **annotations)
        yield step
        created_now += 1
        if isinstance(step, Problem) or created_now == MOST_CREATED:
            return
    for raw in () if made_there else unwanted.values():
        yield None if meta.deleting(raw) else DeleteWorkload.of(workload.key(raw), meta.uid(raw), None)


def _pod_sets(s: LeaderWorkerSetSituation) -> list[Raw]:
    """The leader and the workers, or all pods of the group if they have one template."""
    found = [_pod_set(s.owner, each.path, each.name, each.count) for each in LEADER_WORKER_SET.slots(s.owner)]
    return with_topology(LEADER_WORKER_SET, s.owner, found) if s.topology_requests else found


def _pod_set(owner: Raw, path: Path, role: str, count: int) -> Raw:
    found: Raw = at(owner, path) or {}
    kept = {
        holder: {key: value for key, value in values.items() if key == NAME or not key.startswith(PREFIX)}
        for holder, values in (("labels", meta.labels(found)), ("annotations", meta.annotations(found)))
        if values
    }
    cleaned = {**found, "metadata": {**(found.get("metadata") or {}), **kept}}
    return template.pod_set(cleaned, name=role, count=count, drop_labels=frozenset(), min_count=None)


def _role(owner: Raw, pod: Raw) -> str:
    if at(owner, LEADER_WORKER_SET.templates[0]) is None:
        return names.DEFAULT_POD_SET
    return WORKER if LEADER_NAME in meta.annotations(pod) else LEADER


def groups(owner: Raw) -> int:
    """How many groups there are to be; during an update that adds groups for a time, also these."""
    status, wanted = owner.get("status") or {}, replicas(owner)
    rolling = at(owner, ("spec", "rolloutStrategy", "rollingUpdateConfiguration")) or {}
    surges = rolling.get("maxSurge") not in (None, 0, "0", "0%")
    updating = int(status.get("updatedReplicas") or 0) < wanted
    return max(wanted, int(status.get("replicas") or 0)) if surges and updating else wanted


def _followed(s: LeaderWorkerSetSituation, raw: Raw) -> UpdateWorkload | None:
    """The change of a Workload that follows its set: gates and priority in every state, the queue without quota. One
    that another cluster made gets its set as an owner first.
    """
    value, queue = s.values.get(workload.key(raw)), meta.queue_name(s.owner)
    if value is not None and (adoption := adopted(LEADER_WORKER_SET, s.owner, raw)):
        return UpdateWorkload.of(value.key, guarded(adoption, raw), "adopted")
    if value is not None and not value.holds(Condition.FINISHED) and (change := followed(s.owner, raw, s.classes)):
        return UpdateWorkload.of(value.key, guarded(change, raw), "gates" if "spec" not in change else "priority")
    if value is None or not queue or value.queue == queue or value.holds(Condition.QUOTA_RESERVED):
        return None
    return UpdateWorkload.of(value.key, guarded({"spec": {"queueName": queue}}, raw), "queue")
