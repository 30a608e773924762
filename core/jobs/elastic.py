"""Elastic jobs: a job is resized while it runs, by slices (annotation ``kueue.x-k8s.io/elastic-job``).

A job that grows gets a second Workload, its replacement, which takes over the quota of the first one and adds the
difference; until that is admitted the job keeps what it has, and additional pods wait with a scheduling gate. A job
that shrinks keeps its Workload, whose counts are lowered. Names of annotations and reasons are Kueue's (KEP 77).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from api import names
from core.actions import Action
from core.jobs import meta, workload
from core.jobs.actions import CreateWorkload, Prepare, Ungate, UpdateWorkload, UpdateWorkloadStatus
from core.jobs.fields import at, changed
from core.jobs.release import deleted, without_finalizer
from core.jobs.situation import JobSituation
from core.jobs.template import is_gated
from core.model import Raw
from core.wire.guard import guarded
from core.workload import transitions
from core.workload.priority import Missing

GATE: Final = names.SchedulingGate.ELASTIC_JOB
REPLACED: Final = (names.FinishedReason.WORKLOAD_SLICE_REPLACED, "Replaced to accommodate a new workload slice")
"""Reason and message of a slice that was preempted while its replacement waited."""


def replaced_slices(s: JobSituation) -> Action | None:
    """The finalizers of slices that were replaced are removed; the slices are kept like other finished Workloads."""
    return next(filter(None, map(without_finalizer, s.replaced)), None)


def without_gate(s: JobSituation) -> Action | None:
    """An elastic job gets the scheduling gate in its pod templates before it gets a Workload, if admission has not set
    it: the webhook was not called, or the job had no queue name yet. One that has started keeps its templates.
    """
    if s.match is not None or s.active or not s.suspended or s.elastic or not s.asks_to_be_elastic:
        return None
    if at(s.job, ("status", "startTime")) is not None:
        return None
    after = s.job
    for slot in s.kind.slots(s.job, s.related):
        if at(s.job, slot.path):
            path = (*slot.path, "spec", "schedulingGates")
            after = changed(after, path, with_gate(at(s.job, path)))
    writes = s.kind.difference(s.job, after)
    return Prepare(writes) if writes else None


def resized(s: JobSituation) -> Action | None:
    """The slices of the job follow its size.

    Without quota, and for fewer pods, the counts of the Workload are changed. For more pods there is a replacement,
    unless the job has ended or is evicted. The replacement of a preempted slice stays: it is queued instead. The slices
    of a job that runs here for another cluster follow the job that is there.
    """
    if not s.elastic or s.prebuilt_name or not s.pod_sets or s.match is None or s.found.holds(names.Condition.FINISHED):
        return None
    wanted, mine = _counts(s.pod_sets), _counts(s.match["spec"]["podSets"])
    reserved, evicted = s.found.holds(names.Condition.QUOTA_RESERVED), s.found.holds(names.Condition.EVICTED)
    grows = any(count > mine[name] for name, count in wanted.items())
    if reserved and s.replacement is not None and _was_preempted(s):
        return None
    if s.outcome is not None or evicted or not reserved or not grows:
        if s.replacement is not None:
            return deleted((s.replacement,))
        kept = s.outcome is not None or (evicted and reserved) or wanted == mine
        return None if kept else _with_counts(s.match, wanted)
    return _create_replacement(s, s.match) if s.replacement is None else _follow(s, s.replacement, wanted)


def _was_preempted(s: JobSituation) -> bool:
    evicted = s.found.condition(names.Condition.EVICTED)
    preempted = evicted is not None and evicted.status and evicted.reason == names.EvictedReason.PREEMPTED
    return preempted and s.found.active and s.outcome is None


def _follow(s: JobSituation, replacement: Raw, wanted: Mapping[str, int]) -> Action | None:
    """The replacement gets the size of the job; one with quota may only shrink, and is made anew to grow. One that is
    evicted releases its quota at once: it has no pods yet.
    """
    value = s.value(replacement)
    if value.holds(names.Condition.EVICTED) and value.holds(names.Condition.QUOTA_RESERVED):
        return UpdateWorkloadStatus.between(value, transitions.released(value, s.now), "release")
    its = _counts(replacement["spec"]["podSets"])
    if its == wanted:
        return None
    grows = any(count > its[name] for name, count in wanted.items())
    if grows and value.holds(names.Condition.QUOTA_RESERVED):
        return deleted((replacement,))
    return _with_counts(replacement, wanted)


def _create_replacement(s: JobSituation, old: Raw) -> Action | None:
    found = s.priority
    if isinstance(found, Missing):  # the job runs on; the last rule reports the class
        return None
    return CreateWorkload(
        workload.manifest(s.kind, s.job, found, s.copied, related=s.related, elastic=True, replaces=old)
    )


def _with_counts(raw: Raw, wanted: Mapping[str, int]) -> UpdateWorkload:
    pod_sets = [{**each, "count": wanted[each["name"]]} for each in raw["spec"]["podSets"]]
    return UpdateWorkload.of(workload.key(raw), guarded({"spec": {"podSets": pod_sets}}, raw), "resize")


def _counts(pod_sets: Iterable[Raw]) -> dict[str, int]:
    return {each["name"]: each["count"] for each in pod_sets}


def gated_pods(s: JobSituation) -> Action | None:
    """The pods of an admitted job are released from their gate, as many as are admitted."""
    admitted = s.elastic and s.match is not None and s.found.holds(names.Condition.ADMITTED)
    if s.match is not None and s.found.cluster_name:
        return None  # they are in another cluster
    if not admitted or s.suspended or s.outcome is not None or not s.kind.awaits_pods(s.job, s.related):
        return None
    granted = granted_pods(s)
    return Ungate(s.job["metadata"]["uid"], s.kind.uid_label, granted) if granted else None


def granted_pods(s: JobSituation) -> dict[str, int]:
    """The number of pods of each pod set that have quota."""
    given = s.found.admission.pod_sets if s.found.admission is not None else ()
    asked = {pod_set.name: pod_set.count for pod_set in s.found.pod_sets}
    return {each.name: min(each.count, asked.get(each.name, 0)) for each in given}


def to_ungate(pods: Sequence[Raw], granted: Mapping[str, int]) -> list[Raw]:
    """Returns the gated pods to release, by name: so many that no pod set has more pods without gate than granted."""
    left = dict(granted)
    gated = []
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        pod_set = _pod_set(pod)
        if is_gated(pod["spec"].get("schedulingGates") or ()):
            gated.append((pod_set, pod))
        elif pod_set in left:
            left[pod_set] -= 1
    chosen = []
    for pod_set, pod in gated:
        if "deletionTimestamp" not in pod["metadata"] and left.get(pod_set, 0) > 0:
            left[pod_set] -= 1
            chosen.append(pod)
    return chosen


def ungated(pod: Raw) -> Raw:
    """Returns the patch that removes the gate from a pod."""
    gates = [gate for gate in pod["spec"].get("schedulingGates") or () if gate.get("name") != GATE]
    return guarded({"spec": {"schedulingGates": gates or None}}, pod)


def with_gate(gates: Sequence[Raw] | None) -> list[Raw]:
    """Returns the scheduling gates of a pod template with that of elastic jobs."""
    kept = [gate for gate in gates or () if gate.get("name") != GATE]
    return [*kept, {"name": GATE}]


def _pod_set(pod: Raw) -> str:
    return str(meta.labels(pod).get(names.Label.POD_SET) or names.DEFAULT_POD_SET)
