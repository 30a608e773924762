"""Groups of pods: the pods with one group name have one Workload, are admitted together, and may be replaced.

A group is no object of the API. It is put together from its pods (``PodGroup.whole``), with the first one's metadata
and all of them in the field ``members``; every write names the pod that it is for. A pod that has failed or is deleted
keeps its finalizer until another one of its role exists, so that the group can be compared with its Workload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from api.names import Annotation, Condition, Label
from core.jobs import meta, template
from core.jobs.fields import changed
from core.jobs.kind import Cause, Delete, Outcome, Slot, Write
from core.jobs.kinds.pod import (
    INDEX,
    POD,
    TERMINATION_TARGET,
    WORKLOAD_DELETED,
    Pod,
    ended,
    gated,
    has_condition,
    phase,
    ready,
    role,
    runs_elsewhere,
    stopped,
    target,
    unretriable,
    uses_node,
    without_finalizer,
)
from core.jobs.template import Injection
from core.model import Key, Raw
from core.model.owner import GROUP
from core.wire.timestamps import epoch


class Sorted(NamedTuple):
    """The pods of a group by what becomes of them: ``kept`` for comparison with the Workload, ``excess`` ones beyond
    the count of their role, ``replaced`` ones that ended and are not needed. ``absent`` is how many are missing.
    """

    kept: list[Raw]
    excess: list[Raw]
    replaced: list[Raw]
    absent: int


class PodGroup(Pod):
    """The ``pod`` framework: pods of a group."""

    def whole(self, objects: Sequence[Raw], now: float) -> Raw:
        """Returns the group of these pods. It is being deleted if a user deletes all of its pods that have not ended;
        pods that a stop has deleted may be replaced.
        """
        pods = sorted(objects, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]))
        first = next((pod for pod in pods if runnable(pod, now)), pods[0])
        metadata = {key: value for key, value in first["metadata"].items() if key != "deletionTimestamp"}
        by_user = [pod for pod in pods if meta.deleting(pod) and not has_condition(pod, TERMINATION_TARGET)]
        over = all(meta.deleting(pod) or ended(pod) for pod in pods) and not any(alive(pod, now) for pod in pods)
        if by_user and over and not meta.serving(first):
            metadata["deletionTimestamp"] = by_user[0]["metadata"]["deletionTimestamp"]
        return {**first, "metadata": metadata, "members": pods, "now": now}

    def parts(self, job: Raw) -> Sequence[Raw]:
        """Returns the pods."""
        members: Sequence[Raw] = job["members"]
        return members

    def settles_in(self, job: Raw) -> float | None:
        """After how many seconds a pod that is being deleted counts as gone although it is still there."""
        left = [grace_left(pod, job["now"]) for pod in job["members"] if meta.deleting(pod) and alive(pod, job["now"])]
        return min((each for each in left if each > 0), default=None)

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """Returns one pod set for each role, in the order of their names; with fast admission one for all pods."""
        members, now = job["members"], job["now"]
        usable = [(place, pod) for place, pod in enumerate(members) if runnable(pod, now)]
        if not usable:
            return []
        if meta.annotations(job).get(Annotation.POD_GROUP_FAST_ADMISSION) == "true":
            place, pod = usable[0]
            return [Slot(role(pod), total_count(job), ("members", place), index=INDEX)]
        counts = _counted(pod for _, pod in usable)
        first = {role(pod): place for place, pod in reversed(usable)}
        return [Slot(name, counts[name], ("members", first[name]), index=INDEX) for name in sorted(counts)]

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether a pod runs, here or in another cluster, except for pods that should have ended."""
        return any(alive(pod, job["now"]) or runs_elsewhere(pod) for pod in job["members"])

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """Finished when all pods have succeeded, or none is left of a group whose pods may not be replaced."""
        if meta.serving(job):
            return None
        members, total = job["members"], total_count(job)
        succeeded = sum(phase(pod) == "Succeeded" for pod in members)
        given_up = any(map(unretriable, members)) and all(map(ended, members))
        done = 0 < total <= succeeded and not self.active(job)  # the total count can be lowered while pods run
        return Outcome(True, f"Pods succeeded: {succeeded}/{total}.") if done or given_up else None

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether as many pods as the group has are ready or have succeeded."""
        return sum(ready(pod) or phase(pod) == "Succeeded" for pod in job["members"]) >= total_count(job)

    def reclaimable(self, job: Raw, related: Sequence[Raw] = ()) -> Mapping[str, int]:
        """The pods of each role that have succeeded."""
        if meta.serving(job):
            return {}
        return _counted(pod for pod in job["members"] if phase(pod) == "Succeeded")

    def held(self, job: Raw) -> bool:
        """Whether Seiretsu's gate is on a pod."""
        return any(map(gated, job["members"]))

    def suspended(self, job: Raw) -> bool:
        """Whether a pod waits behind Seiretsu's gate, or has ended."""
        return any(gated(pod) or ended(pod) for pod in job["members"])

    def start(self, job: Raw, injections: Sequence[Injection], related: Sequence[Raw] = ()) -> Sequence[Write]:
        """Removes the gates, with the nodes of each pod's role; pods that the Workload does not count wait on."""
        by_role = {each.name: each for each in injections}
        counted = sort_out(job, [{"name": each.name, "count": each.count} for each in injections]).kept
        writes: list[Write] = []
        for pod in counted:
            if gated(pod) and not meta.deleting(pod) and not ended(pod):
                after = changed(template.inject(pod, by_role[role(pod)]), *self.release(pod))
                writes += [replace(patch, target=target(pod)) for patch in self.difference(pod, after)]
        return writes

    def stop_because(
        self, job: Raw, pod_sets: Sequence[Raw], cause: Cause, related: Sequence[Raw] = ()
    ) -> Sequence[Write]:
        """Marks and deletes each pod that has started; if the Workload is deleted every pod, without its finalizer."""
        if cause.reason == WORKLOAD_DELETED:  # the finalizer first: its patch names the version, which a mark changes
            left = (() if meta.deleting(pod) else stopped(pod, cause) for pod in job["members"])
            return [*self.let_go(job), *chain.from_iterable(left)]
        return [write for pod in job["members"] for write in POD.stop_because(pod, (), cause)]

    def let_go(self, job: Raw) -> Sequence[Write]:
        """Removes the finalizers of all pods."""
        return [write for pod in job["members"] for write in without_finalizer(pod)]

    def for_worker(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Raw:
        """Returns the group of the pods that are to run: those that have ended are not created again."""
        waiting = [pod for pod in job["members"] if gated(pod) and not ended(pod) and not meta.deleting(pod)]
        return {**job, "members": waiting}

    def idle_there(self, remotes: Sequence[Raw], now: float) -> bool:
        """Whether no pod runs there. Pods that were stopped stay, with their finalizers, until others replace them."""
        return not any(alive(pod, now) for pod in remotes)

    def own(self, job: Raw, manifest: Raw) -> Raw:
        """Returns the Workload with the group's name, owned by all pods and controlled by none."""
        metadata = manifest["metadata"]
        labels = {key: value for key, value in metadata["labels"].items() if key != Label.JOB_UID}
        own = {
            "name": meta.pod_group(job),
            "labels": labels,
            "annotations": {**metadata.get("annotations", {}), Annotation.IS_GROUP_WORKLOAD: "true"},
            "ownerReferences": [owner_reference(pod) for pod in job["members"]],
        }
        return {**manifest, "metadata": {**metadata, **own}}

    def owns(self, job: Raw, workload: Raw) -> bool:
        """Whether a Workload is that of the group: it has its name, and was made for a group."""
        marked = meta.annotations(workload).get(Annotation.IS_GROUP_WORKLOAD) == "true"
        return marked and bool(workload["metadata"]["name"] == meta.pod_group(job))

    def matches(self, job: Raw, workload: Raw) -> bool | None:
        """Whether the Workload has every role of the group, with at least as many pods; a finished one, every role."""
        pod_sets = (workload.get("spec") or {}).get("podSets") or []
        kept = sort_out(job, pod_sets).kept
        conditions = (workload.get("status") or {}).get("conditions") or ()
        finished = any(each["type"] == Condition.FINISHED and each["status"] == "True" for each in conditions)
        most = {each["name"]: each["count"] for each in pod_sets}
        counts = _counted(pod for pod in kept if runnable(pod, job["now"]))
        return bool(kept) and (finished or all(count <= most[name] for name, count in counts.items()))


POD_GROUP: Final = PodGroup()


def sort_out(job: Raw, pod_sets: Sequence[Raw]) -> Sorted:
    """Returns what becomes of the pods of a group with a Workload of these pod sets."""
    now, found = job["now"], Sorted([], [], [], 0)
    fast, absent = meta.annotations(job).get(Annotation.POD_GROUP_FAST_ADMISSION) == "true", 0
    for pod_set in pod_sets:
        count, mine = pod_set["count"], [pod for pod in job["members"] if role(pod) == pod_set["name"]]
        usable = sorted((pod for pod in mine if runnable(pod, now)), key=last_to_go)
        others = sorted((pod for pod in mine if not runnable(pod, now)), key=_last_ended(now))
        unneeded = max(0, min(len(others), len(mine) - count))
        found.kept.extend(usable[:count] + others[: len(others) - unneeded])
        found.excess.extend(usable[count:])
        found.replaced.extend(others[len(others) - unneeded :])
        absent += int(count > 0 and not usable) if fast else max(0, count - len(usable))
    return found._replace(absent=absent)


def grouped(key: Key) -> bool:
    """Whether this is the key of a group."""
    return key.name.startswith(GROUP)


def total_count(pod: Raw) -> int:
    """The number of pods of the group, 0 if its annotation is no number."""
    text = str(meta.annotations(pod).get(Annotation.POD_GROUP_TOTAL_COUNT) or "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def runnable(pod: Raw, now: float) -> bool:
    """Whether the pod can still run, runs or has succeeded. A deleted pod cannot, if it has no node or its time to
    terminate is over.
    """
    scheduled = bool((pod.get("spec") or {}).get("nodeName"))
    going = meta.deleting(pod) and (not scheduled or grace_left(pod, now) <= 0) and phase(pod) != "Succeeded"
    return phase(pod) != "Failed" and not going


def alive(pod: Raw, now: float) -> bool:
    """Whether the pod runs, or is on a node and starts: its init containers run while it is Pending. Not when its time
    to terminate is over, as on a node that is lost.
    """
    on_node = phase(pod) == "Running" or uses_node(pod)
    return on_node and not (meta.deleting(pod) and grace_left(pod, now) <= 0)


def grace_left(pod: Raw, now: float) -> float:
    """How many seconds a pod that is being deleted has left to terminate: until its deletion timestamp."""
    return epoch(pod["metadata"]["deletionTimestamp"]) - now


def deletion(pod: Raw) -> list[Write]:
    """Returns the writes that remove a pod from its group: its finalizer, and the pod unless it is deleted already."""
    deleted = [] if meta.deleting(pod) else [Delete(pod["metadata"]["uid"], target(pod))]
    return [*without_finalizer(pod), *deleted]


def owner_reference(pod: Raw) -> Raw:
    """The owner reference by which a pod owns the Workload of its group; it does not control it."""
    metadata = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}


def _counted(pods: Iterable[Raw]) -> dict[str, int]:
    """Returns the number of pods by role."""
    return dict(Counter(map(role, pods)))


def last_to_go(pod: Raw) -> tuple[bool, bool, str, str]:
    """Pods without finalizer are removed first, then those that wait, then the newest."""
    metadata = pod["metadata"]
    kept = bool(without_finalizer(pod))
    return not kept, gated(pod), metadata.get("creationTimestamp", ""), metadata["name"]


def _last_ended(now: float) -> Callable[[Raw], tuple[bool, float, str]]:
    """Pods without finalizer lose their place first, then those that ended first."""

    def key(pod: Raw) -> tuple[bool, float, str]:
        return not without_finalizer(pod), -_ended_at(pod, now), pod["metadata"]["name"]

    return key


def _ended_at(pod: Raw, now: float) -> float:
    """When the pod was last active: when it failed, or when it was deleted."""
    times = [now]
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == "ContainersReady" and each.get("lastTransitionTime"):
            times.append(epoch(each["lastTransitionTime"]))
    if meta.deleting(pod):
        times.append(epoch(pod["metadata"]["deletionTimestamp"]))
    return min(times)
