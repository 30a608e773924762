"""Decides what to do about a job and the Workloads that are owned by it: a chain of rules, of which the first that
answers decides.

Every rule is a function of the ``JobSituation``; the controller gathers it, applies the one action, and calls the rules
again after a change. So a restart or a lost write needs no special code. The order of the rules, the reasons and the
messages are those of Kueue's job framework; they include the rules A11 and A14 of v0.1.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final

from api import names
from api.names import FinishedReason
from api.objects import key_of
from core.actions import Action, Delete, Patch, Target, Wait, first
from core.jobs import meta, owners, workload
from core.jobs.actions import (
    AwaitPods,
    CreateWorkload,
    Problem,
    RemoveJobFinalizer,
    Start,
    Stop,
    UpdateWorkload,
    UpdateWorkloadStatus,
)
from core.jobs.elastic import REPLACED, gated_pods, replaced_slices, resized, without_gate
from core.jobs.groups import members, without_place
from core.jobs.imported import has_imported_quota, naming
from core.jobs.kinds.pod import freed, uses_node
from core.jobs.prebuilt import prebuilt
from core.jobs.release import awaits_pods, deleted, holds_quota, without_finalizer
from core.jobs.situation import JobSituation
from core.jobs.template import ConflictError, FlavorMissingError, Injection
from core.model import Raw, Workload, events
from core.model.workload import replace
from core.wire.guard import guarded
from core.workload import priority, transitions
from core.workload.actions import LifePolicy
from core.workload.priority import Missing

NOT_ADMITTED = "Not admitted by cluster queue"
_NOT_MATCHING = "NoMatchingWorkload"
_FINISHED = "The job cannot run: its workload is finished"
_NO_WORKLOAD = "Missing Workload; unable to restore pod templates"
_NO_MATCH = "No matching Workload; restoring pod templates according to existent Workload"


JobRule = Callable[[JobSituation], Action | None]


def decide(situation: JobSituation) -> Action:
    """The first action that a rule asks for."""
    return first(RULES, situation) or Wait()


BY_DEFAULT: Final = LifePolicy()


def orphan(raw: Raw, value: Workload, now: float, pods_gone: Container[str], policy: LifePolicy = BY_DEFAULT) -> Action:
    """Decides about a Workload whose job is gone: it keeps its quota until the pods are gone too, then it is finished.

    Without the feature gate FinishOrphanedWorkloads only its finalizer is removed, so that garbage collection deletes
    it with its job.
    """
    waits = awaits_pods(raw, value, pods_gone)
    if waits is not None:
        return waits
    if policy.finishes_orphans and not value.deleting and not value.holds(names.Condition.FINISHED):
        after = transitions.finished(
            value, FinishedReason.OWNER_NOT_FOUND, "The workload's owner no longer exists", now
        )
        eviction = value.condition(names.Condition.EVICTED)
        if eviction is not None and eviction.status and value.owner is not None and value.owner.is_pod:
            again = policy.requeues_pods  # no other Pod takes it; as in Kueue the condition follows the gate
            after = transitions.requeued(after, eviction.reason, eviction.message, now, status=again)
        if after.holds(names.Condition.PODS_REMAIN):
            kind, reason = names.Condition.PODS_REMAIN, names.PodsRemainReason.PODS_GONE
            text = "No pod of the deleted job is left"
            after = transitions.condition(after, kind, status=False, reason=reason, message=text, now=now)
        action = UpdateWorkloadStatus.between(value, after, "finish")
        assert action is not None
        return action
    return without_finalizer(raw) or Wait()


def imported(s: JobSituation) -> Action | None:
    """A job to which an import has given quota gets its queue name, if the import ended before that: without it the job
    would stay suspended after an eviction. An evicted job is stopped first, whoever refuses the label, and one that has
    ended does not need it.
    """
    if meta.queue_name(s.job) or meta.deleting(s.job) or s.outcome is not None:
        return None
    mine = (s.value(raw) for raw in s.workloads if s.owns(raw))
    found = next((value for value in mine if value.queue and has_imported_quota(value)), None)
    if found is None or (found.holds(names.Condition.EVICTED) and not s.suspended):
        return None
    return Patch(naming(s.kind, meta.uid(s.job), found.queue), why="imported")


def unmanaged(s: JobSituation) -> Action | None:
    """A job that is not managed is not changed; a job that is being deleted releases its Workloads when its pods are
    gone, or have ended where the job is these pods. A job that has quota is decided by its Workload in any case.
    """
    if meta.deleting(s.job):
        if s.awaits_cleanup:
            return Wait()
        if go := _finalizer_removal(s):
            return go
        left = 0.0
        if not s.kind.nested:
            pods = [pod for pod in s.kind.parts(s.job) if uses_node(pod)]
            left = max((s.terminates_for(pod) for pod in pods), default=0.0)
        if not s.kind.nested and not left:
            using = (raw for raw in s.workloads if s.owns(raw) and holds_quota(s.value(raw)))
            if (raw := next(using, None)) is not None:
                return orphan(raw, s.value(raw), s.now, s.pods_gone, s.life)
        held = (raw for raw in s.workloads if without_finalizer(raw) is not None)
        given_up = (s.awaits_pods(raw) or without_finalizer(raw) for raw in held)
        return next((action for action in given_up if action is not None), Wait(left or None))
    if s.managed or s.ancestor_admitted is not None:
        return None
    withdrawn = None if s.owner_unread else _withdrawn(s)
    return withdrawn or (None if s.has_own_quota else _orphans(s) or Wait())


def _orphans(s: JobSituation) -> Action | None:
    """The Workloads of earlier jobs with the name of one that has none of its own: nobody else releases their quota."""
    others = () if s.kind.shares_names() else (raw for raw in s.workloads if not s.owns(raw))
    actions = (orphan(raw, s.value(raw), s.now, s.pods_gone, s.life) for raw in others)
    return next((action for action in actions if not isinstance(action, Wait)), None)


def _withdrawn(s: JobSituation) -> Action | None:
    """Removing the queue name of a suspended job removes the job from its queue: the Workload that Seiretsu created for
    it is deleted, because nobody would start the job for which it gets quota. Kueue keeps the Workload. The Workload
    stays until the last pod is gone and the job's template is restored.
    """
    if meta.queue_name(s.job) or not (s.suspended or s.outcome is not None):
        return None
    brought = {meta.prebuilt_workload(s.job, annotation_first=first)[0] for first in (True, False)}
    others = (raw for raw in s.workloads if raw["metadata"]["name"] not in brought and s.may_delete(raw))
    made = [raw for raw in others if not s.value(raw).holds(names.Condition.FINISHED)]
    if made and s.outcome is None:
        return _at_rest(s, made[0], "QueueNameRemoved", "The queue name of the job was removed") or deleted(made)
    return deleted(made)


def unclear_owner(s: JobSituation) -> Action | None:
    """A job is not decided while an owner of it is not known: another object may be queued instead of it.

    Owners count only for a job that has no quota of its own, as in ``child``.
    """
    if s.has_own_quota:
        return None
    if s.nested_wrongly:
        return Problem(names.Event.JOB_NESTING_TOO_DEEP, s.nested_wrongly)
    return Wait() if s.owner_unread else None


def child(s: JobSituation) -> Action | None:
    """The child of a managed job runs while that job is admitted, and has no Workload.

    If the parent is queued here, Seiretsu starts the child; other owners have controllers that do. Every user can write
    owner references, so they change nothing about a job whose own Workload holds quota: it is evicted and finished by
    that Workload.
    """
    if s.ancestor_admitted is None or s.has_own_quota:
        return None
    if not s.kind.nested:
        return _pods_below(s)
    if not s.ancestor_admitted and not s.suspended and s.outcome is None:
        return _stop(s, [], "ChildSuspended", "Kueue managed child job suspended")
    if s.suspended and not s.active and (own := deleted(filter(s.may_give_up, s.workloads))):
        return own  # made before the job above it was queued
    if s.ancestor_admitted and s.suspended and s.outcome is None and owners.started_by_us(s.job):
        # its pods are found by the job whose Workload holds their quota
        mark = {names.Label.JOB_UID: s.ancestor_uid}
        pods = [Injection(each["name"], each["count"], mark) for each in s.pod_sets]
        return Start(s.start(pods), "of its parent job")
    return _orphans(s) or Wait()


def _pods_below(s: JobSituation) -> Action | None:
    """Pods that were gated before it was known that an object above them is queued: they run while that is admitted.

    Pods that already run with a Workload of their own keep it.
    """
    if s.workloads:
        waits = s.kind.held(s.job) and not s.active
        return deleted(s.workloads) if waits else None
    writes = [write for pod in s.kind.parts(s.job) for write in freed(pod)]
    if s.kind.held(s.job):
        return Start(writes, "of its parent job") if s.ancestor_admitted else Wait()
    return RemoveJobFinalizer(writes) if writes else Wait()


def without_match(s: JobSituation) -> Action | None:
    """No Workload matches the job: a running job is stopped, the Workload of a suspended job is changed.

    A job that was suspended in the same write that changed it (by the webhook) is stopped completely first: its pods
    use the quota of the Workload until they are gone, and then its templates are restored.
    """
    if s.match is not None:
        return None
    started = len(s.others) == 1 and s.as_started(s.others[0])
    if s.outcome is None and (started or not s.suspended):
        known = s.others[0]["spec"]["podSets"] if len(s.others) == 1 else []
        stop = _stop(s, known, _NOT_MATCHING, _NO_MATCH if known else _NO_WORKLOAD)
        if stop is not None:
            return stop
    if len(s.others) == 1 and s.suspended and _may_change(s, s.others[0]):
        return _update_to_match(s, s.others[0])
    return None


def superfluous(s: JobSituation) -> Action | None:
    """Workloads other than the matching one are deleted, one at a time; those that are being deleted are released.

    A Workload that holds quota keeps it while pods use it: pods of this job as it was before, or of an earlier job.
    """
    unused = [raw for raw in s.others if s.may_delete(raw) and s.may_give_up(raw)]
    in_use = any(s.owns(raw) and holds_quota(s.value(raw)) for raw in unused)
    if in_use and s.match is None and s.outcome is None and s.active:
        return _stopped_elsewhere(s, unused) or Wait()
    return deleted(unused)


def _stopped_elsewhere(s: JobSituation, workloads: Iterable[Raw]) -> Action | None:
    """A job that runs in another cluster is stopped there by the eviction of its Workload: that it is suspended here
    ends no pod.
    """
    for raw in workloads:
        value = s.value(raw)
        if s.owns(raw) and value.cluster_name and not value.holds(names.Condition.EVICTED):
            after = transitions.evicted(value, _NOT_MATCHING, _NO_MATCH, s.now)
            return UpdateWorkloadStatus.between(value, after, "stop")
    return None


def earlier(s: JobSituation) -> list[AwaitPods]:
    """What the Workloads of earlier jobs with that name wait for; the present job does not wait for them."""
    others = (raw for raw in s.workloads if not s.owns(raw))
    return [waits for raw in others if (waits := s.awaits_pods(raw)) is not None]


def follow_job(s: JobSituation) -> Action | None:
    """Gates and priority class of the job are copied immediately, in every state of the Workload."""
    if meta.serving(s.job):
        return None  # the owner of the pods copies its own
    followers = (_followed(s, raw) for raw in (s.match, s.replacement) if raw is not None)
    return next((action for action in followers if action is not None), None)


def _followed(s: JobSituation, raw: Raw) -> Action | None:
    mine = meta.annotations(s.job).get(names.Annotation.ADMISSION_GATED_BY) or None
    theirs = meta.annotations(raw).get(names.Annotation.ADMISSION_GATED_BY) or None
    if mine != theirs:
        return _update(raw, {"metadata": {"annotations": {names.Annotation.ADMISSION_GATED_BY: mine}}}, "gates")
    patch = priority.followed(raw, meta.priority_class(s.job), s.classes)
    return _update(raw, patch, "priority") if patch and not isinstance(patch, Missing) else None


def finished_workload(s: JobSituation) -> Action | None:
    """A finished Workload holds no quota, so its job does not run.

    A job that could not start, because its template conflicted with the flavor, is queued again when the conflict is
    removed.
    """
    done = s.match and s.found.condition(names.Condition.FINISHED)
    if s.match is None or not done or not done.status:
        return None
    if s.outcome is None:
        if not s.suspended:
            stop = _stop(s, s.match["spec"]["podSets"], "WorkloadFinished", f"{_FINISHED}: {done.message}")
            if stop is not None:
                return stop
        elif done.reason == FinishedReason.FAILED_TO_START and _could_start(s):
            return deleted((s.match,))
    return _finalizer_removal(s) or without_finalizer(s.match) or replaced_slices(s) or Wait()


def _finalizer_removal(s: JobSituation) -> RemoveJobFinalizer | None:
    writes = s.kind.finalizer_removal(s.job)
    return RemoveJobFinalizer(writes) if writes else None


def _could_start(s: JobSituation) -> bool:
    """Whether a start with the assignment that the Workload had would succeed now."""
    try:
        return s.found.admission is not None and bool(s.start(s.injections(s.found)))
    except (FlavorMissingError, ConflictError):
        return False


def deleted_workload(s: JobSituation) -> Action | None:
    """A deleted Workload stops its job first."""
    if s.match is None or not s.found.deleting:
        return None
    return _at_rest(s, s.match, "WorkloadDeleted", "Workload is deleted") or without_finalizer(s.match) or Wait()


def held_job(s: JobSituation) -> Action | None:
    """A job that cannot go on until it is changed releases its quota; after the change its Workload is queued again.

    One that has pods is stopped first: it may be its owner who changed it while it ran.
    """
    if s.match is None or s.outcome is not None or meta.serving(s.job):
        return None
    message = s.kind.on_hold(s.job)
    if message:
        reason = names.PendingReason.ON_HOLD
        if s.active:
            return _stop(s, s.match["spec"]["podSets"], reason, message) or Wait()
        held = s.found.holds(names.Condition.QUOTA_RESERVED)
        return (held and _status(s, transitions.waiting(s.found, reason, message, s.now), "hold")) or Wait()
    reserved = s.found.condition(names.Condition.QUOTA_RESERVED)
    if reserved is None or reserved.status or reserved.reason != names.PendingReason.ON_HOLD:
        return None
    text = "The job is no longer on hold"
    return _status(s, transitions.waiting(s.found, names.PendingReason.PENDING_EVALUATION, text, s.now), "pending")


def finished_job(s: JobSituation) -> Action | None:
    """When the job is done, so is its Workload."""
    if s.outcome is None:
        return None
    if s.match is None:
        return Wait()
    reason = FinishedReason.SUCCEEDED if s.outcome.success else FinishedReason.FAILED
    return _status(s, transitions.finished(s.found, reason, s.outcome.message, s.now), "finish") or Wait()


def no_workload(s: JobSituation) -> Action | None:
    """A job without Workload gets one when its pods are gone."""
    if s.match is not None:
        return None
    if s.active:
        return Wait()
    if not s.pod_sets:
        return Wait()  # the templates are those of a related object, which is not there yet
    found = s.priority
    if isinstance(found, Missing):
        return _missing(found)
    manifest = workload.manifest(s.kind, s.job, found, s.copied, related=s.related, elastic=s.elastic)
    return CreateWorkload(manifest)


def reclaim(s: JobSituation) -> Action | None:
    """Pods that will not be needed any more give their quota back while the job runs on.

    Others may use it by then, so while quota is reserved it is not taken back.
    """
    if not s.reclaimable_pods:
        return None
    sizes = {pod_set.name: pod_set.count for pod_set in s.found.pod_sets}
    more = {each["name"]: each["count"] - sizes[each["name"]] for each in s.pod_sets} if s.elastic else {}
    unused = {name: count - max(0, more.get(name, 0)) for name, count in s.kind.reclaimable(s.job, s.related).items()}
    given = s.found.reclaimable if s.found.holds(names.Condition.QUOTA_RESERVED) else {}
    most = {name: max(unused.get(name, 0), given.get(name, 0)) for name in (*given, *unused)}
    free = {name: min(count, sizes.get(name, count)) for name, count in most.items() if count > 0}
    return _status(s, replace(s.found, reclaimable=free), "reclaim")


def readiness(s: JobSituation) -> Action | None:
    """Sets PodsReady for waitForPodsReady."""
    if not s.wait_for_pods_ready or s.replacement is not None:
        return None  # the pods that a replacement adds do not start yet
    old = s.found.condition(names.Condition.PODS_READY)
    if old is None and not s.found.holds(names.Condition.ADMITTED):
        return None  # no pods are expected yet, and ten thousand waiting jobs would cost as many writes
    ready, reason, message = _readiness(s)
    if old is not None and (old.status, old.reason) == (ready, reason):
        return None
    kind = names.Condition.PODS_READY
    after = transitions.condition(s.found, kind, status=ready, reason=reason, message=message, now=s.now)
    return _status(s, after, "ready")


def eviction(s: JobSituation) -> Action | None:
    """An evicted Workload's job is stopped; when its pods are gone the quota is free."""
    evicted = s.found.condition(names.Condition.EVICTED)
    if evicted is None or not evicted.status or s.match is None:
        return None
    stop = _stop(s, s.match["spec"]["podSets"], f"WorkloadEvictedDueTo{evicted.reason}", evicted.message)
    if stop is not None:
        return stop
    if s.found.holds(names.Condition.QUOTA_RESERVED):
        if s.active or s.ends_elsewhere:
            return Wait()
        if s.replacement is not None:  # of a preempted slice, which is queued instead of it
            return _status(s, transitions.finished(s.found, *REPLACED, s.now), "finish")
        return _status(s, transitions.released(s.found, s.now), "release")
    retention = s.retention_after_deactivation
    by_us = evicted.reason.startswith(f"{names.EvictedReason.DEACTIVATED}{names.EvictedReason.DUE_TO}")
    if not s.found.active and by_us and retention is not None:
        left = evicted.since + retention - s.now
        return Wait(left) if left > 0 else _deleted(s)
    return None


def _deleted(s: JobSituation) -> Delete:
    """The retention of a job that was deactivated has passed (``objectRetentionPolicies.workloads``)."""
    at = Target(s.kind.resource, key_of(s.job))
    return Delete(meta.uid(s.job), at, why="retention", events=(events.deleted_job(),))


def suspended_job(s: JobSituation) -> Action | None:
    """A suspended job starts when its Workload is admitted, and may change its queue until then."""
    if not s.suspended or s.match is None:
        return None
    if not s.found.holds(names.Condition.QUOTA_RESERVED) and s.as_started(s.match):
        stop = _stop(s, s.match["spec"]["podSets"], "NotAdmitted", NOT_ADMITTED)  # the start is not undone yet
        if stop is not None:
            return stop
    if s.found.holds(names.Condition.EVICTED):  # it has released its quota and waits like any other
        return _queue_change(s)
    if s.found.cluster_name and s.kind.managed_by is None:
        return Wait()  # it runs in another cluster, and no field of it says so: here it keeps its gate
    if s.found.holds(names.Condition.ADMITTED) and s.found.admission is not None:
        if not s.pod_sets:
            return Wait()  # as in no_workload
        if s.stopping is not None:
            return Wait()  # it was suspended by hand: its pods and new ones would use the quota twice
        try:
            writes = s.start(s.injections(s.found))
        except FlavorMissingError as missing:
            return Problem(names.Event.ERR_WORKLOAD_COMPOSE, str(missing))
        except ConflictError as conflict:
            after = transitions.finished(s.found, FinishedReason.FAILED_TO_START, str(conflict), s.now)
            return _status(s, after, "finish")
        return Start(writes, s.found.admission.cluster_queue) if writes else None
    return _queue_change(s)


def running_job(s: JobSituation) -> Action | None:
    """A job runs only while its Workload is admitted, regardless of who unsuspended it."""
    if s.suspended or s.match is None or s.found.holds(names.Condition.ADMITTED):
        return None
    return _stop(s, s.match["spec"]["podSets"], "NotAdmitted", NOT_ADMITTED)


def missing_class(s: JobSituation) -> Action | None:
    """A priority class that does not exist is reported, and stops no other action."""
    found = priority.followed(s.match, meta.priority_class(s.job), s.classes) if s.match else None
    return _missing(found) if isinstance(found, Missing) else None


RULES: tuple[JobRule, ...] = (
    imported,
    unmanaged,
    unclear_owner,
    child,
    prebuilt,
    members,
    without_match,
    superfluous,
    follow_job,
    finished_workload,
    deleted_workload,
    held_job,
    resized,
    finished_job,
    without_gate,
    no_workload,
    reclaim,
    readiness,
    eviction,
    suspended_job,
    running_job,
    missing_class,
    gated_pods,
    replaced_slices,
    without_place,
)


def _may_change(s: JobSituation, raw: Raw) -> bool:
    """Whether the Workload may be made to match: it is of this very job, and nothing was given to it."""
    value = s.value(raw)
    fixed = value.deleting or value.holds(names.Condition.QUOTA_RESERVED) or value.holds(names.Condition.FINISHED)
    return not fixed and s.owns(raw)


def _update_to_match(s: JobSituation, raw: Raw) -> Action:
    followed = priority.followed(raw, meta.priority_class(s.job), s.classes)
    if isinstance(followed, Missing):
        return _missing(followed)
    patch = workload.matching_patch(s.kind, s.job, raw, followed, s.copied, related=s.related)
    return UpdateWorkload.of(workload.key(raw), patch, "matching")


def _queue_change(s: JobSituation) -> Action | None:
    queue = meta.queue_name(s.job)
    if meta.serving(s.job):
        return None  # the owner of the pods changes it
    if s.match is None or s.found.queue == queue or s.found.holds(names.Condition.QUOTA_RESERVED):
        return None
    return _update(s.match, {"spec": {"queueName": queue or None}}, "queue")


def _stop(s: JobSituation, pod_sets: Sequence[Raw], reason: str, message: str) -> Stop | None:
    writes = s.stop(pod_sets, reason, message)
    return Stop(writes, reason, message, was_running=not s.suspended) if writes else None


def _at_rest(s: JobSituation, raw: Raw, reason: str, message: str) -> Action | None:
    """Before a Workload is deleted, its job is stopped, its pods end, and its template is restored; None when that is
    done.
    """
    stop = _stop(s, raw["spec"]["podSets"], reason, message)
    return Wait() if stop is None and s.active else stop


def _status(s: JobSituation, after: Workload, why: str) -> UpdateWorkloadStatus | None:
    return UpdateWorkloadStatus.between(s.found, after, why)


def _update(raw: Raw, patch: Raw, why: str) -> UpdateWorkload:
    return UpdateWorkload.of(workload.key(raw), guarded(patch, raw), why)


def _missing(missing: Missing) -> Problem:
    if missing.kind == names.Kind.WORKLOAD_PRIORITY_CLASS:
        return Problem(names.Event.WORKLOAD_PRIORITY_CLASS_NOT_FOUND, str(missing))
    return Problem(names.Event.ERR_WORKLOAD_COMPOSE, str(missing))


def _readiness(s: JobSituation) -> tuple[bool, str, str]:
    reasons = names.PodsReadyReason
    not_ready = "Not all pods are ready or succeeded"
    if not s.found.holds(names.Condition.ADMITTED):
        return False, reasons.WAIT_FOR_START, not_ready
    old = s.found.condition(names.Condition.PODS_READY)
    broke = old is not None and old.reason in (reasons.WAIT_FOR_RECOVERY, reasons.RECOVERED)
    if s.kind.pods_ready(s.job, s.related):
        reason = reasons.RECOVERED if broke else reasons.STARTED
        return True, reason, "All pods reached readiness and the workload is running"
    if old is not None and (old.status or old.reason == reasons.WAIT_FOR_RECOVERY):
        return False, reasons.WAIT_FOR_RECOVERY, "At least one pod has failed, waiting for recovery"
    return False, reasons.WAIT_FOR_START, not_ready
