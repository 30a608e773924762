"""The rules of groups of pods: which pods of a group count, and what its Workload shows of that.

Separate from the rules of all jobs (``core.jobs.decide``), which decide about the group when these have no action left.
The reasons and messages are those of Kueue's pod integration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from api import names, quantity
from api.names import Annotation, Condition
from core.actions import Action, Wait
from core.jobs import meta, workload
from core.jobs.actions import Problem, RemoveJobFinalizer, Stop, UpdateWorkload, UpdateWorkloadStatus
from core.jobs.job_starter import StopCause
from core.jobs.kinds.pod import POD, ended, gated, phase, without_finalizer
from core.jobs.kinds.pod_group import (
    PodGroup,
    deletion,
    exceeds,
    last_to_go,
    owner_reference,
    roles_of,
    runnable,
    serving_owners,
    sort_out,
    total_count,
)
from core.jobs.pod_shape import computed_role
from core.jobs.situation import JobSituation
from core.model import Raw
from core.wire.guard import guarded
from core.workload import transitions

MOST_ROLES: Final = 18
PODS_FAILED: Final = "PodsFailed"
_NO_PLACE: Final = "NoMatchingWorkload"


def members(s: JobSituation) -> Action | None:
    """Removes pods that the group has too many, and finalizers of pods that are replaced; reports missing pods."""
    if not isinstance(s.kind, PodGroup):
        return None
    if done := _stopped(s.job.get("strangers", ()), s.now):
        return done
    if s.prebuilt is not None and not s.owns(s.prebuilt):
        adoption = _adoption(s, s.prebuilt) if s.adopts_workloads else None
        return adoption or _released(_ended(s)) or _stopped(s.job["members"], s.now) or _taken(s, s.prebuilt)
    if s.match is not None:
        return None if s.found.holds(Condition.FINISHED) else _kept(s, s.match)
    return None if s.workloads else _composed(s)


def _adoption(s: JobSituation, raw: Raw) -> UpdateWorkload | None:
    """Makes a Workload with the name of the group that of the group, unless an object controls it or it belongs to a
    set: its quota is not that of the pods. Kueue would take that one, too.
    """
    if meta.controller(raw) is not None or serving_owners(raw) or meta.deleting(raw):
        return None
    if meta.annotations(raw).get(Annotation.IS_GROUP_WORKLOAD) == "true":
        return None
    patch = guarded({"metadata": {"annotations": {Annotation.IS_GROUP_WORKLOAD: "true"}}}, raw)
    return UpdateWorkload.of(workload.key(raw), patch, "adopted")


def _composed(s: JobSituation) -> Action | None:
    """What is to be done or is wrong before the group can have a Workload; None if it can."""
    if any(meta.prebuilt_workload(pod, annotation_first=True)[0] for pod in s.job["members"]):
        gone = [pod for pod in _ended(s) if meta.deleting(pod)]  # e.g. evicted, before the Workload was withdrawn
        return _released(gone) or Wait()  # its owner creates the Workload
    if done := _released(_ended(s)):
        return done
    if why := _incomplete(s):
        return Problem(names.Event.ERR_WORKLOAD_COMPOSE, why)
    active = [pod for pod in s.job["members"] if runnable(pod, s.job["now"])]
    if excess := sorted(active, key=last_to_go)[total_count(s.job) :]:
        return _removed(excess)
    if len(s.pod_sets) > MOST_ROLES:
        return Problem(names.Event.ERR_WORKLOAD_COMPOSE, f"The group has more than {MOST_ROLES} roles")
    return None


def _kept(s: JobSituation, match: Raw) -> Action | None:
    """Brings pods and Workload together: owners first, so that the Workload is not deleted with replaced pods.

    Excess pods of a group that serves wait with their gate: their owner would create deleted ones again without end.
    """
    found = sort_out(s.job, match["spec"]["podSets"])
    references = match["metadata"].get("ownerReferences") or []
    known = {each["uid"] for each in references}
    added = [owner_reference(pod) for pod in found.kept if pod["metadata"]["uid"] not in known]
    if added:
        patch = guarded({"metadata": {"ownerReferences": [*references, *added]}}, match)
        return UpdateWorkload.of(workload.key(match), patch, "owners", added=len(added))
    excess = [*found.excess, *(pod for pod in found.uncounted if not gated(pod))]
    if meta.serving(s.job):
        excess = [pod for pod in excess if not gated(pod) and not meta.deleting(pod)]
    return (_removed(excess) if excess else None) or _released(found.replaced) or _replacement(s, found.absent)


def without_place(s: JobSituation) -> Problem | None:
    """Reports a pod that waits although its group is admitted: it is not of the owner of the others, or the Workload
    did not count what it asks for.
    """
    if not isinstance(s.kind, PodGroup) or s.match is None or s.found.holds(Condition.FINISHED):
        return None
    if strangers := [pod for pod in s.job.get("strangers", ()) if not ended(pod) and not meta.deleting(pod)]:
        return Problem(names.Event.WORKLOAD_NAME_CONFLICT, _owned(s.match, strangers[0]), strangers[0])
    waiting = sort_out(s.job, s.match["spec"]["podSets"]).uncounted
    pod = next((pod for pod in waiting if not meta.deleting(pod)), None)
    return Problem(names.Event.ERR_WORKLOAD_COMPOSE, _not_counted(s, pod), pod) if pod is not None else None


def _not_counted(s: JobSituation, pod: Raw) -> str:
    name, counted = pod["metadata"]["name"], s.job.get("counted") or {}
    end = "it does not start; delete it, or the Workload and create the group again"
    for role in roles_of(pod):
        if beyond := exceeds(s.job, pod, counted[role]) if role in counted else []:
            resource, asked, given = beyond[0]
            amounts = f"{quantity.text(resource, asked)}, the Workload counted"
            text = f"{amounts} {quantity.text(resource, given)} for each pod of role {role}"
            return f"pod '{name}' asks for {resource} {text}: {end}"
    known = ", ".join(sorted(counted)[:3])
    return f"pod '{name}' has role {computed_role(pod)}, the Workload counted pods of role {known}: {end}"


def _replacement(s: JobSituation, absent: int) -> Action | None:
    """The condition WaitingForReplacementPods: while pods are missing the Workload is not queued."""
    kind, evicted = Condition.WAITING_FOR_REPLACEMENT_PODS, s.found.condition(Condition.EVICTED)
    old = s.found.condition(kind)
    if not absent:
        if old is None or not old.status:
            return None
        reason, message = Condition.PODS_READY, "No pods need replacement"
    elif evicted is not None and evicted.status:
        reason, message = evicted.reason, evicted.message
    elif old is not None and old.status:
        return None
    else:
        reason, message = PODS_FAILED, "Some Failed pods need replacement"
    if old is not None and (old.status, old.reason, old.message) == (bool(absent), reason, message):
        return None
    after = transitions.condition(s.found, kind, status=bool(absent), reason=reason, message=message, now=s.now)
    return UpdateWorkloadStatus.between(s.found, after, "replacement")


def _incomplete(s: JobSituation) -> str:
    """Why the pods are no complete group, '' if they are."""
    first, total, name = s.job, total_count(s.job), meta.pod_group(s.job)
    active = [pod for pod in s.job["members"] if runnable(pod, s.job["now"])]
    fast = meta.annotations(first).get(Annotation.POD_GROUP_FAST_ADMISSION) == "true"
    if not active or (not fast and len(active) < total):
        return f"'{name}' group has fewer runnable pods than expected"
    mine = first["metadata"]["name"]
    for pod in s.job["members"]:
        other, queue = pod["metadata"]["name"], meta.queue_name(pod)
        if phase(pod) == "Failed":
            continue
        if queue != meta.queue_name(first):
            return f"pods '{mine}' and '{other}' has different queue names: {meta.queue_name(first)}!={queue}"
        if total_count(pod) != total:
            counts = f"'{Annotation.POD_GROUP_TOTAL_COUNT}' values: {total}!={total_count(pod)}"
            return f"pods '{mine}' and '{other}' has different {counts}"
    return _different(s, "label", meta.labels, s.copied.labels) or _different(
        s, "annotation", meta.annotations, s.copied.annotations
    )


def _different(s: JobSituation, what: str, values: Callable[[Raw], Mapping[str, str]], keys: Iterable[str]) -> str:
    """Why the Workload cannot get a label or annotation from the pods: they have different values; '' if it can."""
    for key in sorted(keys):
        having = [pod for pod in s.job["members"] if phase(pod) != "Failed" and key in values(pod)]
        for pod in having[1:]:
            first, other = values(having[0])[key], values(pod)[key]
            if first != other:
                one, two = having[0]["metadata"]["name"], pod["metadata"]["name"]
                return f"pods '{one}' and '{two}' has different values of {what} '{key}': {first}!={other}"
    return ""


def created_before_its_pods(raw: Raw) -> bool:
    """Whether this is a Workload that a user created for a group of pods, none of which has existed yet."""
    metadata = raw["metadata"]
    for_group = meta.annotations(raw).get(Annotation.IS_GROUP_WORKLOAD) == "true"
    ours = names.Finalizer.RESOURCE_IN_USE in (metadata.get("finalizers") or ())
    return for_group and not ours and not metadata.get("ownerReferences")


def _stopped(pods: Iterable[Raw], now: float) -> Stop | None:
    """Stops pods that run without a place in a Workload."""
    running = (pod for pod in pods if runnable(pod, now))
    cause = StopCause(_NO_PLACE, "The pod has no place in the Workload of its group", now)
    writes = [write for pod in running for write in POD.stop_because(pod, (), cause)]
    return Stop(writes, cause.reason, cause.message, was_running=True) if writes else None


def _ended(s: JobSituation) -> list[Raw]:
    return [pod for pod in s.job["members"] if not runnable(pod, s.job["now"])]


def _released(pods: Sequence[Raw]) -> RemoveJobFinalizer | None:
    writes = [write for pod in pods for write in without_finalizer(pod)]
    return RemoveJobFinalizer(writes) if writes else None


def _removed(pods: Sequence[Raw]) -> RemoveJobFinalizer | None:
    writes = list(chain.from_iterable(map(deletion, pods)))
    return RemoveJobFinalizer(writes, tuple(pods)) if writes else None


def _taken(s: JobSituation, other: Raw) -> Problem:
    name = other["metadata"]["name"]
    if serving_owners(other):
        return Problem(names.Event.WORKLOAD_NAME_CONFLICT, _owned(other, s.job))
    text = (
        f'A Workload named "{name}" already exists but is not a pod group workload; this pod group cannot be admitted'
    )
    return Problem(names.Event.WORKLOAD_NAME_CONFLICT, text)


def _owned(workload: Raw, pod: Raw) -> str:
    """Says that the Workload of a group belongs to another owner than the pod."""
    by = serving_owners(workload)[0]
    return (
        f'Workload "{workload["metadata"]["name"]}" is that of {by["kind"]} "{by["name"]}": pod'
        f' "{pod["metadata"]["name"]}" is not of it and does not start; give its group another name'
    )
