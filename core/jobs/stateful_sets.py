"""What becomes of a StatefulSet: one Workload for all its pods, and the marks that make its pods one group.

The Workload starts, stops and waits as that of any group of pods (``core.jobs.kinds.pod_group``); this module creates
it, follows the queue and the number of replicas, and frees the quota of a StatefulSet without replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from api import names
from api.names import Annotation, Condition
from core.jobs import meta, template, workload
from core.jobs.actions import UpdateWorkload, WorkloadStatus
from core.jobs.fields import at
from core.jobs.kind import Delete, Patch
from core.jobs.kinds.pod import POD, ended, gated, target
from core.jobs.kinds.pod_group import deletion
from core.jobs.pod_owner_groups import Step, created, followed, marked
from core.jobs.pod_owners import STATEFUL_SET, replicas
from core.model import Raw, Workload
from core.wire.conditions import status_patch
from core.wire.guard import guarded
from core.workload import transitions
from core.workload.priority import PriorityClasses

ON_HOLD: Final = "StatefulSet scaled to zero; workload on hold"
OFF_HOLD: Final = "Workload no longer on hold; waiting for quota reservation"
_REVISION: Final = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class Situation:
    """A StatefulSet that is queued, its pods, and the Workload with its name."""

    owner: Raw
    pods: Sequence[Raw]
    raw: Raw | None
    value: Workload | None
    classes: PriorityClasses
    now: float


def name(owner: Raw) -> str:
    """The name of the Workload, and of the group of the pods."""
    metadata = owner["metadata"]
    return workload.name_of(STATEFUL_SET.resource, metadata["name"], metadata["uid"])


def steps(s: Situation) -> Iterator[Step]:
    """Yields all that is to be done: at most one write for each object."""
    if (step := _workload(s)) is not None:
        yield step
    for pod in s.pods:
        if not meta.deleting(pod) and not ended(pod):
            yield from _marked(s, pod)


def _workload(s: Situation) -> Step | None:
    count = replicas(s.owner)
    if s.raw is None or s.value is None:
        return created(STATEFUL_SET, s.owner, name(s.owner), _pod_sets(s.owner), s.classes) if count else None
    if meta.annotations(s.raw).get(Annotation.IS_GROUP_WORKLOAD) != "true" or s.value.holds(Condition.FINISHED):
        return None
    if change := followed(s.owner, s.raw, s.classes) or _followed(s.owner, s.raw, s.value, count):
        return UpdateWorkload(s.value.key, guarded(change, s.raw), "matching")
    return _held(s.value, s.now) if not count else _continued(s.value, s.now)


def _pod_sets(owner: Raw) -> list[Raw]:
    spec = ((owner.get("spec") or {}).get("template") or {}).get("spec") or {}
    count, main = replicas(owner), names.DEFAULT_POD_SET
    return [template.pod_set({"spec": spec}, name=main, count=count, drop_labels=frozenset(), min_count=None)]


def _followed(owner: Raw, raw: Raw, value: Workload, count: int) -> Raw:
    """The change of a Workload that follows its StatefulSet: queue at any time, replicas while it has no quota."""
    spec: Raw = {}
    queue = meta.queue_name(owner)
    if count and queue and value.queue != queue and not value.holds(Condition.QUOTA_RESERVED):
        spec["queueName"] = queue
    pod_sets = (raw.get("spec") or {}).get("podSets") or []
    if count and not value.holds(Condition.QUOTA_RESERVED) and [each["count"] for each in pod_sets] != [count]:
        spec["podSets"] = _pod_sets(owner)
    return {"spec": spec} if spec else {}


def _held(value: Workload, now: float) -> WorkloadStatus | None:
    if not value.holds(Condition.QUOTA_RESERVED) or not value.active:
        return None
    return _status(value, transitions.waiting(value, names.PendingReason.ON_HOLD, ON_HOLD, now))


def _continued(value: Workload, now: float) -> WorkloadStatus | None:
    reserved = value.condition(Condition.QUOTA_RESERVED)
    if reserved is None or reserved.status or reserved.reason != names.PendingReason.ON_HOLD:
        return None
    return _status(value, transitions.waiting(value, names.PendingReason.PENDING_EVALUATION, OFF_HOLD, now))


def _status(value: Workload, after: Workload) -> WorkloadStatus | None:
    patch = status_patch(value, after)
    return WorkloadStatus(value.key, patch, after, "hold") if patch else None


def _marked(s: Situation, pod: Raw) -> list[Patch | Delete]:
    """Makes the pod one of the group. A pod of an old revision is let go, so that a rolling update can replace it;
    while the Workload is not admitted it is deleted instead, because it must not run.
    """
    owner, value = s.owner, s.value
    status, revision = owner.get("status") or {}, meta.labels(pod).get(_REVISION)
    if status.get("currentRevision") != status.get("updateRevision") and revision == status.get("currentRevision"):
        if not gated(pod):
            return []
        if value is not None and value.holds(Condition.ADMITTED) and not value.holds(Condition.EVICTED):
            return _ungated(pod)
        if not at(owner, ("spec", "updateStrategy", "rollingUpdate", "partition")):
            return deletion(pod)  # with a partition it would be created again with the old revision
    more = {
        Annotation.POD_GROUP_FAST_ADMISSION: "true",
        Annotation.POD_GROUP_POD_INDEX_LABEL: "apps.kubernetes.io/pod-index",
    }
    return [*marked(owner, pod, name(owner), total=replicas(owner), role=names.DEFAULT_POD_SET, **more)]


def _ungated(pod: Raw) -> list[Patch | Delete]:
    body = {"spec": {"schedulingGates": POD.release(pod).value or None}}
    return [Patch(guarded(body, pod), target=target(pod))]
