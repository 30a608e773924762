"""Decides what a Workload needs next, regardless of its owner: a chain of rules, of which the first that answers
decides.

The cycle reserves quota, and ``core.jobs.decide`` starts and stops jobs; everything else in the life of a Workload is
decided here: retention, deactivation, backoff, stopped queues, admission checks, timeouts. One rule answers, one write
is made, and the rules are called again. Reasons, messages and order are those of Kueue's workload controller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from api import names
from api.names import CheckState, DeactivationCause, EvictedReason, PendingReason, RequeuedReason
from core.actions import Action, Delete, Patch, Wait, Writes, first, status
from core.devices.inventory import NOT_COUNTED_YET
from core.matching.placement import matches
from core.model import CheckState as State
from core.model import ClusterQueue, Condition, LocalQueue, StopPolicy, Workload, events, messages
from core.model.events import NORMAL, Event
from core.model.workload import replace
from core.quota.checks import required_checks
from core.wire.conditions import status_patch
from core.wire.finalizers import released
from core.wire.guard import guarded
from core.workload import transitions
from core.workload.actions import Evict, PodsReadyPolicy, ReleaseOrphan, Surroundings
from core.workload.priority import Missing, followed

NAMESPACE_MISMATCH = "workload namespace doesn't match ClusterQueue selector"
NO_QUEUE = f"The workload names no LocalQueue: set label {names.Label.QUEUE_NAME} on its job"
_PUT_OFF = frozenset(
    {EvictedReason.PODS_READY_TIMEOUT, EvictedReason.ADMISSION_CHECK, EvictedReason.PODS_WITHOUT_QUOTA}
)
"""Reasons of evictions after which a Workload waits until its ``requeueAt``."""
_OF_THE_CYCLE = frozenset(
    {
        PendingReason.WAITING_FOR_QUOTA,
        PendingReason.NO_MATCHING_FLAVOR,
        PendingReason.EXCEEDS_MAX_QUOTA,
        PendingReason.TOPOLOGY_PLACEMENT_FAILED,
        PendingReason.WAITING_FOR_PREEMPTED_WORKLOADS,
        PendingReason.WAITING_FOR_PODS_READY,
        PendingReason.PENDING_EVALUATION,
    }
)
"""Reasons of the cycle, which stay until its next decision; the other reasons are decided and removed by these rules.
"""
OF_A_QUEUE = _OF_THE_CYCLE - {PendingReason.PENDING_EVALUATION}
"""Reasons that only a workload has that waits in a queue: not one that is admitted through variants."""
_EVALUATED = "Workload is pending evaluation in the scheduling queue"
BYPASSED = "Bypassed scheduling evaluation because an equivalent workload recently failed"
_GATED = "Admission is gated by: "
_WITHOUT_REASON = frozenset(
    {PendingReason.DEACTIVATED, PendingReason.SUSPENDED, PendingReason.PENDING_EVALUATION, PendingReason.PENDING}
)
"""Reasons that mean that no cycle has decided the workload since it was (re)queued."""
TIME_TO_STOP = 30.0
"""Seconds in which the pods of an evicted Workload must end: the default terminationGracePeriodSeconds."""


LifecycleRule = Callable[[Workload, Surroundings], Action | None]


def next_step(workload: Workload, around: Surroundings) -> Action:
    """The first step that a rule asks for."""
    return first(RULES, workload, around) or Wait()


def follows_class(w: Workload, s: Surroundings) -> Action | None:
    """A Workload without a supported job has the priority of its WorkloadPriorityClass. A job copies its class with its
    label (``core.jobs.decide``).
    """
    patch = followed(s.raw, "", s.classes) if s.raw is not None and s.classes is not None else None
    if s.raw is None or patch is None or isinstance(patch, Missing):
        return None
    return Patch(guarded(patch, s.raw), why="priority")


def ownerless(w: Workload, s: Surroundings) -> Action | None:
    """Releases a Workload whose job is gone, or that is deleted and has no job.

    A Workload with any owner reference has a job: the pods of a group own their Workload together.
    """
    gone = w.deleting or (s.policy.finishes_orphans and bool(w.job_uid))
    return ReleaseOrphan() if not w.owned and gone and not _settled_orphan(w) else None


def preemption_gates(w: Workload, s: Surroundings) -> Action | None:
    """Each preemption gate has a state."""
    return status(w, transitions.with_gate_states(w, s.now), "gates")


def finished(w: Workload, s: Surroundings) -> Action | None:
    """A finished Workload is kept for the time in the Configuration; nothing else happens to it."""
    done = w.condition(names.Condition.FINISHED)
    if done is None or not done.status:
        return None
    if s.policy.after_finished is None or w.deleting:
        return Wait()
    left = done.since + s.policy.after_finished - s.now
    if left > 0:
        return Wait(left)
    patch = released(s.raw) if s.raw is not None else None
    release = (Patch(patch),) if patch is not None else ()
    return Writes((*release, Delete(w.uid)), why="retention", events=(events.deleted_finished(),))


def replaced(w: Workload, s: Surroundings) -> Action | None:
    """A slice of an elastic job is finished when the slice that replaces it is admitted: that one holds the quota of
    both.
    """
    by = s.replacement
    if by is None or not by.holds(names.Condition.ADMITTED) or not w.holds(names.Condition.QUOTA_RESERVED):
        return None
    text = messages.slice_replaced(by)
    after = transitions.finished(w, names.FinishedReason.WORKLOAD_SLICE_REPLACED, text, s.now)
    event = Event(NORMAL, names.FinishedReason.WORKLOAD_SLICE_REPLACED, text)
    return status(w, after, "replaced", event)


def retry_later(w: Workload, s: Surroundings) -> Action | None:
    """An admission check may ask for a retry not before some time: the longest wish counts."""
    wishes = [
        check.since + check.requeue_after
        for check in w.checks
        if check.state == CheckState.RETRY and check.requeue_after is not None
    ]
    at = max(wishes, default=0.0)
    if at <= s.now or (w.requeue_at is not None and w.requeue_at >= at):
        return None
    return status(w, replace(w, requeue_at=at), "backoff")


def to_be_deactivated(w: Workload, s: Surroundings) -> Action | None:
    """A target of deactivation is deactivated."""
    if not w.active or not w.holds(names.Condition.DEACTIVATION_TARGET):
        return None
    return Patch(guarded({"spec": {"active": False}}, w), why="deactivate")


def deactivated(w: Workload, s: Surroundings) -> Action | None:
    """A deactivated Workload is evicted, regardless of its state, and starts from the beginning when it is activated
    again.
    """
    if w.active:
        return None
    target = w.condition(names.Condition.DEACTIVATION_TARGET)
    after = transitions.deactivated(w, s.now)
    if w.holds(names.Condition.EVICTED):
        return status(w, after, "backoff")
    eviction = after.condition(names.Condition.EVICTED)
    return _evict(w, after, EvictedReason.DEACTIVATED, eviction, target.reason if target else "")


def leftover(w: Workload, s: Surroundings) -> Action | None:
    """Removes an admission that stayed when another client set QuotaReserved to False.

    Server-side apply cannot remove a field that another field manager wrote.
    """
    reservation = w.condition(names.Condition.QUOTA_RESERVED)
    if w.admission is None or reservation is None or reservation.status:
        return None
    return status(w, replace(w, admission=None), "clear")


def backoff(w: Workload, s: Surroundings) -> Action | None:
    """Queues a Workload when its ``requeueAt`` has passed.

    As in Kueue, the backoff also ends while the pods still hold quota, but only if the condition Requeued reports the
    backoff; otherwise ``requeueAt`` stays until the quota is released, or permanently if the Workload finishes first.
    """
    put_off = _kept_out(w) in _PUT_OFF
    ended = put_off and w.holds(names.Condition.EVICTED) and w.requeue_at is not None and w.requeue_at <= s.now
    if not w.active or (w.holds(names.Condition.QUOTA_RESERVED) and not ended):
        return None
    if w.requeue_at is not None and w.requeue_at > s.now:
        return Wait(w.requeue_at - s.now)
    after = replace(w, requeue_at=None)
    if put_off:
        message = "The workload backoff was finished"
        after = transitions.requeued(after, RequeuedReason.BACKOFF_FINISHED, message, s.now)
    return status(w, after, "requeue")


def requeued(w: Workload, s: Surroundings) -> Action | None:
    """The reason that kept a Workload out of the queue has ended: it was reactivated, or its queue restarted."""
    why = _kept_out(w)
    if why.startswith(EvictedReason.DEACTIVATED) and w.active:
        reason, message = RequeuedReason.REACTIVATED, "The workload was reactivated"
    elif why == EvictedReason.LOCAL_QUEUE_STOPPED and _runs(s.local_queue):
        reason = RequeuedReason.LOCAL_QUEUE_RESTARTED
        message = "The LocalQueue was restarted after being stopped"
    elif why == EvictedReason.CLUSTER_QUEUE_STOPPED and _runs(s.cluster_queue):
        reason = RequeuedReason.CLUSTER_QUEUE_RESTARTED
        message = "The ClusterQueue was restarted after being stopped"
    else:
        return None
    return status(w, transitions.requeued(w, reason, message, s.now), "requeue")


def shows_gate(w: Workload) -> bool:
    """Whether QuotaReserved reports an admission gate, which may be gone. A closed preemption gate has the same reason:
    the cycle decides that.
    """
    reserved = w.condition(names.Condition.QUOTA_RESERVED)
    return (
        reserved is not None
        and reserved.reason == PendingReason.ADMISSION_GATED
        and reserved.message.startswith(_GATED)
    )


def gates(w: Workload, s: Surroundings) -> Action | None:
    """A gate keeps a Workload out of the queue until it is removed; more severe reasons are reported first."""
    if w.holds(names.Condition.QUOTA_RESERVED) or bool(w.gates) == shows_gate(w) or why_not_queued(w, s)[0]:
        return None
    if w.gates:
        after = transitions.waiting(w, PendingReason.ADMISSION_GATED, f"{_GATED}{','.join(w.gates)}", s.now)
        text = f"Workload admission is gated by: {','.join(w.gates)}"
        return status(w, after, "gate", Event(NORMAL, names.Event.ADMISSION_GATED, text))
    text = "AdmissionGatedBy cleared, waiting for quota reservation"
    after = transitions.waiting(w, PendingReason.PENDING_EVALUATION, text, s.now)
    return status(w, after, "ungate", events.gate_cleared())


def active_condition(w: Workload, s: Surroundings) -> Action | None:
    """Until admission: which checks are required, why it cannot be queued, and whether it is admitted by now."""
    after = w
    if _kept_out(w) == RequeuedReason.INADMISSIBLE and not w.uncounted:
        after = transitions.counted(after)
    if s.cluster_queue is not None and not w.parent:
        asked = required_checks(s.cluster_queue, w.admission)
        if w.admission is None:  # those of flavors may be asked for again: what they have said and the retries count
            known = {check.name for check in w.checks}
            asked += [rule.name for rule in s.cluster_queue.checks if rule.name in known]
        after = transitions.with_checks(after, asked, s.now)
    if not w.holds(names.Condition.ADMITTED):
        if not w.holds(names.Condition.QUOTA_RESERVED):
            reason, message = _why_pending(w, s)
            if reason:
                after = transitions.waiting(after, reason, message, s.now)
            if message and message == w.uncounted:
                after = transitions.uncounted(after, message, s.now)
        after = transitions.admitted_in_step(after, s.now)
    if after.holds(names.Condition.ADMITTED) and not w.holds(names.Condition.ADMITTED):
        if s.policy.pods_ready is not None and not w.parent:
            after = transitions.pods_awaited(after, s.now)
        return status(w, after, "admit", events.admitted_by_checks(after, s.now))
    return status(w, after, "checks" if after.checks != w.checks else "pend")


def checks_failed(w: Workload, s: Surroundings) -> Action | None:
    """A rejected check deactivates the Workload; one to be retried evicts it."""
    if not _holding(w):
        return None
    rejected = [check for check in w.checks if check.state == CheckState.REJECTED]
    if rejected:
        message = _listed(rejected, CheckState.REJECTED)
        after = transitions.deactivation_target(w, DeactivationCause.ADMISSION_CHECK, message, s.now)
        event = events.failed(names.Event.ADMISSION_CHECK_REJECTED, f"Deactivated due to {message}")
        return status(w, after, "reject", event)
    retried = [check for check in w.checks if check.state == CheckState.RETRY]
    if not retried:
        return None
    message = f"Evicted due to {_listed(retried, CheckState.RETRY)}"
    return _evicted(w, EvictedReason.ADMISSION_CHECK, message, s.now)


def queue_stopped(w: Workload, s: Surroundings) -> Action | None:
    """A drained queue evicts what it admitted; a stopped or missing queue releases what is only reserved."""
    if not _holding(w):
        return None
    queues = (
        ("LocalQueue", w.queue, s.local_queue, EvictedReason.LOCAL_QUEUE_STOPPED),
        ("ClusterQueue", _cluster_queue_name(w, s), s.cluster_queue, EvictedReason.CLUSTER_QUEUE_STOPPED),
    )
    for kind, name, queue, reason in queues:
        if w.holds(names.Condition.ADMITTED):
            if queue is not None and queue.stop_policy == StopPolicy.HOLD_AND_DRAIN:
                return _evicted(w, reason, f"The {kind} is stopped", s.now)
        elif queue is None or queue.deleting:
            message = f"{kind} {name} is terminating or missing"
            return status(w, transitions.waiting(w, PendingReason.MISCONFIGURED, message, s.now), "release")
        elif queue.stop_policy != StopPolicy.NONE:
            message = f"{kind} {name} is stopped"
            return status(w, transitions.waiting(w, PendingReason.SUSPENDED, message, s.now), "release")
    return None


def outgrown(w: Workload, s: Surroundings) -> Action | None:
    """A Workload is evicted if a ResourceClaimTemplate of its pods was made again after its admission and asks for
    more: each pod that starts from then on has the larger claim.
    """
    if not w.outgrown or not s.policy.guards or not _holding(w):
        return None
    after = transitions.without_quota(w, w.outgrown, s.now)
    eviction = after.condition(names.Condition.EVICTED)
    return _evict(w, after, EvictedReason.PODS_WITHOUT_QUOTA, eviction, "")


def pods_not_ready(w: Workload, s: Surroundings) -> Action | None:
    """A Workload whose pods are not ready in time is evicted with increasing backoff, and deactivated after the last
    retry.
    """
    policy = s.policy.pods_ready
    late = _pods_ready_deadline(w, policy)
    if not _holding(w) or policy is None or late is None or late[0] > s.now:
        return None
    if w.condition(names.Condition.PODS_READY) is None:
        # Nobody has watched these pods yet, e.g. Kueue without waitForPodsReady: their time begins now, so that a job
        # that has run for hours is not evicted before its pods are looked at.
        return status(w, transitions.pods_awaited(w, s.now), "ready")
    if policy.limit is not None and w.requeue_count + 1 > policy.limit:
        message = "exceeding the maximum number of re-queuing retries"
        cause = DeactivationCause.REQUEUING_LIMIT_EXCEEDED
        return status(w, transitions.deactivation_target(w, cause, message, s.now), "tired")
    message = f"Exceeded the PodsReady timeout {w.key}"
    after = transitions.backed_off(w, policy.backoff, s.now)
    after = transitions.evicted(after, EvictedReason.PODS_READY_TIMEOUT, message, s.now, cause=late[1])
    return _evict(w, after, EvictedReason.PODS_READY_TIMEOUT, after.condition(names.Condition.EVICTED), late[1])


def overtime(w: Workload, s: Surroundings) -> Action | None:
    """A Workload that has run for its maximumExecutionTimeSeconds, summed over all runs, is deactivated."""
    deadline = _execution_deadline(w)
    if not _holding(w) or deadline is None or deadline > s.now:
        return None
    cause = DeactivationCause.MAXIMUM_EXECUTION_TIME_EXCEEDED
    after = transitions.deactivation_target(w, cause, "exceeding the maximum execution time", s.now)
    message = f"The maximum execution time ({w.max_execution}s) exceeded"
    return status(w, after, "overtime", events.failed(names.Event.MAXIMUM_EXECUTION_TIME_EXCEEDED, message))


def evicted_without_job(w: Workload, s: Surroundings) -> Action | None:
    """Releases an evicted Workload without owner, if its creator did not do so in the time in which pods end.

    Any owner reference, and Kueue's annotation with the owner's name, mean that another controller runs its pods. That
    controller stops the pods and sets QuotaReserved to False; until then they use the quota.
    """
    eviction = w.condition(names.Condition.EVICTED)
    if w.owned or w.made_for or eviction is None or not eviction.status or not w.holds(names.Condition.QUOTA_RESERVED):
        return None
    until = eviction.since + TIME_TO_STOP
    if until <= s.now:
        return status(w, transitions.released(w, s.now), "release")
    backoff_ends = w.requeue_at if w.requeue_at is not None and w.requeue_at > s.now else until
    return Wait(min(until, backoff_ends) - s.now)


def until_late(w: Workload, s: Surroundings) -> Action | None:
    """Look again when the first deadline passes."""
    if not _holding(w):
        return None
    ready, execution = _pods_ready_deadline(w, s.policy.pods_ready), _execution_deadline(w)
    deadlines = [*([ready[0]] if ready else []), *([execution] if execution is not None else [])]
    return Wait(max(min(deadlines) - s.now, 0.0)) if deadlines else None


RULES: tuple[LifecycleRule, ...] = (
    follows_class,
    ownerless,
    finished,
    preemption_gates,
    replaced,
    retry_later,
    to_be_deactivated,
    deactivated,
    leftover,
    backoff,
    requeued,
    gates,
    active_condition,
    evicted_without_job,
    checks_failed,
    queue_stopped,
    outgrown,
    pods_not_ready,
    overtime,
    until_late,
)


def why_not_queued(w: Workload, s: Surroundings) -> tuple[str, str]:
    """Returns reason and message of what keeps a Workload out of every queue; ('', '') if nothing does."""
    if not w.active:
        return PendingReason.DEACTIVATED, "The workload is deactivated"
    if w.uncounted == NOT_COUNTED_YET:
        return PendingReason.PENDING_EVALUATION, NOT_COUNTED_YET
    if w.uncounted:
        return PendingReason.MISCONFIGURED, w.uncounted
    if not w.queue:
        return PendingReason.MISCONFIGURED, NO_QUEUE
    if s.local_queue is None:
        return PendingReason.MISCONFIGURED, f"LocalQueue {w.queue} doesn't exist"
    if s.local_queue.stop_policy != StopPolicy.NONE:
        return PendingReason.SUSPENDED, f"LocalQueue {w.queue} is inactive"
    if s.cluster_queue is None:
        return PendingReason.MISCONFIGURED, f"ClusterQueue {s.local_queue.cluster_queue} doesn't exist"
    if not s.active:
        return PendingReason.SUSPENDED, f"ClusterQueue {s.cluster_queue.name} is inactive"
    selector = s.cluster_queue.namespace_selector
    if selector is None or (s.namespace is not None and not matches(selector, s.namespace)):
        return PendingReason.MISCONFIGURED, NAMESPACE_MISMATCH
    if w.invalid:
        return PendingReason.MISCONFIGURED, w.invalid[0]
    return "", ""


def _why_pending(w: Workload, s: Surroundings) -> tuple[str, str]:
    """Reason and message of QuotaReserved=False; ('', '') leaves it as it is."""
    old = w.condition(names.Condition.QUOTA_RESERVED)
    if w.active and old is not None and old.reason == PendingReason.ON_HOLD:
        return "", ""
    reason, message = why_not_queued(w, s)
    if message == NOT_COUNTED_YET:
        return "", ""  # for a moment
    if w.coarse_reasons:  # what the cycle has said stays until it says something else
        return (reason, message) if w.active else ("", "")
    if reason or w.gates or (old is None and not s.policy.explicit_status):
        return reason, message
    if s.bypassed and (old is None or old.reason in _WITHOUT_REASON):
        return s.bypassed, BYPASSED
    gated = old is not None and old.reason == PendingReason.ADMISSION_GATED and not shows_gate(w)
    if w.parent and old is not None and old.reason in OF_A_QUEUE:
        return PendingReason.PENDING_EVALUATION, _EVALUATED
    if gated or (old is not None and old.reason in _OF_THE_CYCLE):
        return "", ""
    return PendingReason.PENDING_EVALUATION, _EVALUATED


def _holding(w: Workload) -> bool:
    """Whether it holds quota and is not evicted."""
    stopping = (names.Condition.EVICTED, names.Condition.DEACTIVATION_TARGET)
    return w.active and w.holds(names.Condition.QUOTA_RESERVED) and not any(w.holds(kind) for kind in stopping)


def _kept_out(w: Workload) -> str:
    """Why Requeued is False; '' where it is not."""
    found = w.condition(names.Condition.REQUEUED)
    return found.reason if found is not None and not found.status else ""


def _runs(queue: LocalQueue | ClusterQueue | None) -> bool:
    return queue is not None and queue.stop_policy == StopPolicy.NONE


def _settled_orphan(w: Workload) -> bool:
    return w.holds(names.Condition.FINISHED) and not w.deleting


def _cluster_queue_name(w: Workload, s: Surroundings) -> str:
    if s.local_queue is not None:
        return s.local_queue.cluster_queue
    return w.admission.cluster_queue if w.admission else ""


def _pods_ready_deadline(w: Workload, policy: PodsReadyPolicy | None) -> tuple[float, str] | None:
    """Returns when the pods must be ready, and which timeout that is; None if no timeout applies. Instead of a parent
    it applies to the variant that is admitted, which has the same condition PodsReady.
    """
    if w.parent:
        return None
    admitted, ready = w.condition(names.Condition.ADMITTED), w.condition(names.Condition.PODS_READY)
    if policy is None or admitted is None or not admitted.status or (ready is not None and ready.status):
        return None
    if ready is None or ready.reason != names.PodsReadyReason.WAIT_FOR_RECOVERY:
        since = max(admitted.since, ready.since) if ready is not None else admitted.since
        return since + policy.timeout, names.PodsReadyReason.WAIT_FOR_START
    if policy.recovery_timeout is None:
        return None
    return ready.since + policy.recovery_timeout, names.PodsReadyReason.WAIT_FOR_RECOVERY


def _execution_deadline(w: Workload) -> float | None:
    admitted = w.condition(names.Condition.ADMITTED)
    if admitted is None or not admitted.status or w.max_execution is None or w.variant_of:  # it ends with its parent
        return None
    return admitted.since + w.max_execution - (w.past_execution or 0)


def _listed(checks: Iterable[State], state: str) -> str:
    found = sorted(checks, key=lambda check: check.name)
    parts = [f'"{check.name}" ({check.message})' if check.message else f'"{check.name}"' for check in found]
    return f"AdmissionCheck{'s' if len(found) > 1 else ''} in {state} state: {'; '.join(parts)}"


def _evicted(w: Workload, reason: str, message: str, now: float) -> Evict | None:
    after = transitions.evicted(w, reason, message, now)
    return _evict(w, after, reason, after.condition(names.Condition.EVICTED), "")


def _evict(w: Workload, after: Workload, reason: str, eviction: Condition | None, cause: str) -> Evict | None:
    patch, text = status_patch(w, after), eviction.message if eviction else ""
    if patch is None:
        return None
    event = events.evicted(reason, text, cause)
    return Evict(patch, "status", after=after, reason=reason, cause=cause, why="evict", events=(event,))
