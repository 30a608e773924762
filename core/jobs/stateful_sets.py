"""What becomes of a StatefulSet: one Workload for all its pods, and the marks that make its pods one group.

The Workload starts, stops and waits as that of any group of pods (``core.jobs.kinds.pod_group``); this module creates
it, follows the queue and the number of replicas, and frees the quota of a StatefulSet without replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from api import names
from api.names import Annotation, Condition
from core.actions import Patch, Write
from core.jobs import meta, template, workload
from core.jobs.actions import Problem, UpdateWorkload, UpdateWorkloadStatus
from core.jobs.fields import at
from core.jobs.kinds.pod import POD, ended, gated, target
from core.jobs.kinds.pod_group import deletion, grace_left, serving_owners
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
from core.jobs.pod_owners import STATEFUL_SET, replicas
from core.model import Raw, Workload
from core.wire.guard import guarded
from core.workload import transitions
from core.workload.priority import PriorityClasses

ON_HOLD: Final = "StatefulSet scaled to zero; workload on hold"
OFF_HOLD: Final = "Workload no longer on hold; waiting for quota reservation"
_REVISION: Final = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class StatefulSetSituation:
    """A StatefulSet that is queued, its pods, and its Workload (``workload_names``); whether its pod set has a topology
    request (feature gate TopologyAwareScheduling).
    """

    owner: Raw
    pods: Sequence[Raw]
    raw: Raw | None
    value: Workload | None
    classes: PriorityClasses
    now: float
    topology_requests: bool = False
    taken: bool = False
    """Whether the Workload with its name is that of another owner."""
    longest_name: int = workload.LONG_NAME


def workload_names(owner: Raw) -> tuple[str, ...]:
    """The names that its Workload may have: that of a new one, that which older versions of Kueue gave, and the other
    length of the first (feature gate ShortWorkloadNames).
    """
    older = workload.name_of(STATEFUL_SET.resource, owner["metadata"]["name"], "")
    return tuple(dict.fromkeys((name(owner), older, name(owner, workload.SHORT_NAME))))


def is_workload_of(owner: Raw, raw: Raw, pods: Iterable[Raw] = ()) -> bool:
    """Whether a Workload with one of these names is the StatefulSet's, or may become it: it has no owner, or is that of
    its ``pods``, made by an older version of Kueue. Its name alone says nothing: every group of pods may have it.
    """
    references = raw["metadata"].get("ownerReferences") or ()
    uids = {each["uid"] for each in references}
    if meta.uid(owner) in uids:
        return True
    if meta.annotations(raw).get(Annotation.IS_GROUP_WORKLOAD) != "true" or serving_owners(raw):
        return False
    return not uids or any(meta.uid(pod) in uids for pod in pods)


def name(owner: Raw, longest: int = workload.LONG_NAME) -> str:
    """The name of a new Workload."""
    return workload.name_of(STATEFUL_SET.resource, owner["metadata"]["name"], naming_uid(owner), longest=longest)


def steps(s: StatefulSetSituation) -> Iterator[GroupStep | None]:
    """Yields all that is to be done, at most one write for each object; None where nothing is to be done."""
    if s.taken:
        yield taken(name(s.owner, s.longest_name))
        return
    if (step := _workload(s)) is not None:
        yield step
    if (problem := _resized(s)) is not None:
        yield problem
    for pod in s.pods:
        yield None
        if not meta.deleting(pod) and not ended(pod):
            yield from _marked(s, pod)


def settles_in(s: StatefulSetSituation) -> float | None:
    """After how many seconds a pod counts as gone that keeps the quota of a StatefulSet without replicas."""
    left = [grace_left(pod, s.now) for pod in s.pods if not replicas(s.owner) and meta.deleting(pod)]
    return min((each for each in left if each > 0), default=None)


def _workload(s: StatefulSetSituation) -> GroupStep | None:
    count = replicas(s.owner)
    if s.raw is None or s.value is None:
        if of_another_cluster(s.owner):
            return None
        own = name(s.owner, s.longest_name)
        return created(STATEFUL_SET, s.owner, own, _pod_sets(s), s.classes) if count else None
    if meta.annotations(s.raw).get(Annotation.IS_GROUP_WORKLOAD) != "true" or s.value.holds(Condition.FINISHED):
        return None
    if change := followed(s.owner, s.raw, s.classes) or _followed(s, s.raw, s.value, count):
        return UpdateWorkload.of(s.value.key, guarded(change, s.raw), "follow")
    return _held(s, s.value) if not count else _continued(s.value, s.now)


def _pod_sets(s: StatefulSetSituation) -> list[Raw]:
    owner = s.owner
    spec = ((owner.get("spec") or {}).get("template") or {}).get("spec") or {}
    count, main = replicas(owner), names.DEFAULT_POD_SET
    found = [template.pod_set({"spec": spec}, name=main, count=count, drop_labels=frozenset(), min_count=None)]
    return with_topology(STATEFUL_SET, owner, found) if s.topology_requests else found


def _followed(s: StatefulSetSituation, raw: Raw, value: Workload, count: int) -> Raw:
    """The change of a Workload that follows its StatefulSet, while it has no quota: its queue and its replicas."""
    owner = s.owner
    if adoption := adopted(STATEFUL_SET, owner, raw):  # an older version of Kueue, or another cluster, made it
        return adoption
    spec: Raw = {}
    queue = meta.queue_name(owner)
    if count and queue and value.queue != queue and not value.holds(Condition.QUOTA_RESERVED):
        spec["queueName"] = queue
    pod_sets = (raw.get("spec") or {}).get("podSets") or []
    if count and not value.holds(Condition.QUOTA_RESERVED) and [each["count"] for each in pod_sets] != [count]:
        spec["podSets"] = _pod_sets(s)
    return {"spec": spec} if spec else {}


def _held(s: StatefulSetSituation, value: Workload) -> UpdateWorkloadStatus | None:
    """Without replicas the Workload is not queued, and gives its quota back when no pod uses it."""
    reserved = value.condition(Condition.QUOTA_RESERVED)
    on_hold = reserved is not None and not reserved.status and reserved.reason == names.PendingReason.ON_HOLD
    uses = value.holds(Condition.QUOTA_RESERVED) and any(_uses_quota(pod, s.now) for pod in s.pods)
    if on_hold or uses or not value.active:
        return None
    return _status(value, transitions.waiting(value, names.PendingReason.ON_HOLD, ON_HOLD, s.now))


def _uses_quota(pod: Raw, now: float) -> bool:
    """Whether a pod may run: it has a node, has not ended, and its time to terminate is not over."""
    gone = ended(pod) or (meta.deleting(pod) and grace_left(pod, now) <= 0)
    return bool(at(pod, ("spec", "nodeName"))) and not gone


def _resized(s: StatefulSetSituation) -> Problem | None:
    text = without_quota(s.owner, s.value)
    return Problem(names.Event.ERR_WORKLOAD_COMPOSE, text) if text else None


def without_quota(owner: Raw, value: Workload | None) -> str:
    """Reports replicas that have no quota: ``kubectl scale`` changes them while the pods run. '' if all have it."""
    count, granted = replicas(owner), _granted(value)
    if granted is None or count <= granted:
        return ""
    waiting = "1 pod waits" if count - granted == 1 else f"{count - granted} pods wait"
    return (
        f"the quota is for {granted} of {count} replicas, {waiting}: scale it to {granted}, or to 0 and then to {count}"
    )


def _granted(value: Workload | None) -> int | None:
    """For how many pods the Workload has quota; None while it has none."""
    if value is None or not value.holds(Condition.QUOTA_RESERVED) or value.holds(Condition.FINISHED):
        return None
    return sum(pod_set.count for pod_set in value.pod_sets)


def _continued(value: Workload, now: float) -> UpdateWorkloadStatus | None:
    reserved = value.condition(Condition.QUOTA_RESERVED)
    if reserved is None or reserved.status or reserved.reason != names.PendingReason.ON_HOLD:
        return None
    return _status(value, transitions.waiting(value, names.PendingReason.PENDING_EVALUATION, OFF_HOLD, now))


def _status(value: Workload, after: Workload) -> UpdateWorkloadStatus | None:
    return UpdateWorkloadStatus.between(value, after, "hold")


def _marked(s: StatefulSetSituation, pod: Raw) -> list[Write]:
    """Makes the pod one of the group, if there is quota for it. A pod of an old revision is let go, so that a rolling
    update can replace it; while the Workload is not admitted it is deleted instead, because it must not run.
    """
    owner, value, granted = s.owner, s.value, _granted(s.value)
    if granted is not None and _place(owner, pod) >= granted:
        return []  # it waits outside of the group, where it cannot start instead of another pod that is being replaced
    status, revision = owner.get("status") or {}, meta.labels(pod).get(_REVISION)
    if status.get("currentRevision") != status.get("updateRevision") and revision == status.get("currentRevision"):
        if not gated(pod):
            return []
        if value is not None and value.cluster_name:
            return []  # it waits here as long as the others do
        if value is not None and value.holds(Condition.ADMITTED) and not value.holds(Condition.EVICTED):
            return _ungated(pod)
        if not at(owner, ("spec", "updateStrategy", "rollingUpdate", "partition")):
            return deletion(pod)  # with a partition it would be created again with the old revision
    more = {
        Annotation.POD_GROUP_FAST_ADMISSION: "true",
        Annotation.POD_GROUP_POD_INDEX_LABEL: "apps.kubernetes.io/pod-index",
    }
    group = name(owner) if s.raw is None else s.raw["metadata"]["name"]
    total = replicas(owner) if granted is None else min(granted, replicas(owner))
    return [*marked(owner, pod, group, total=total, role=names.DEFAULT_POD_SET, **more)]


def _place(owner: Raw, pod: Raw) -> int:
    """The place of a pod among the replicas, from 0: the end of its name."""
    index = pod["metadata"]["name"].rpartition("-")[2]
    first = at(owner, ("spec", "ordinals", "start")) or 0
    return int(index) - int(first) if index.isascii() and index.isdigit() else 0


def _ungated(pod: Raw) -> list[Write]:
    body = {"spec": {"schedulingGates": POD.release(pod).value or None}}
    return [Patch(guarded(body, pod), target=target(pod))]
