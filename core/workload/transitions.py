"""The transitions of a Workload: each function takes its value and returns the value after it, with Kueue's messages.

The decision to make a transition is that of the cycle, ``core.workload.lifecycle`` and ``core.jobs.decide``. What is
written is computed by ``core.wire.conditions.status_patch(before, after)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from api import names
from api.names import AdmittedReason, CheckState, DeactivationCause, DelayedTopology, EvictedReason, PendingReason
from core.devices.inventory import CLAIMS_NOT_SUPPORTED
from core.model import Admission, Condition, GateState, Raw, Workload
from core.model import CheckState as State
from core.model.workload import replace
from core.wire.conditions import with_condition, without_condition

_OVERTIME = f"{EvictedReason.DEACTIVATED}{EvictedReason.DUE_TO}{DeactivationCause.MAXIMUM_EXECUTION_TIME_EXCEEDED}"

_LONGEST_MESSAGE = 32_768
"""metav1.Condition's, in characters."""

_NO_FAULT = (
    EvictedReason.PREEMPTED,
    EvictedReason.NODE_FAILURES,
    EvictedReason.FLAVOR_MIGRATION,
    EvictedReason.VARIANT_EVICTED,
    EvictedReason.CONCURRENT_ADMISSION,
)
"""After an eviction for these reasons a workload is queued again immediately."""

_RESET_BY_RESERVATION = (
    names.Condition.EVICTED,
    names.Condition.PREEMPTED,
    names.Condition.BLOCKED_ON_PREEMPTION_GATES,
)


GUARD_SECONDS, MOST_GUARD_SECONDS = 5.0, 600.0
"""How long a workload is kept out whose pods used more than it was admitted for, the first time, and at most."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a workload stays out of the queue after its n-th eviction: base x 2^(n-1), at most ``most`` seconds."""

    base: float = 60.0
    most: float = 3600.0

    def seconds(self, count: int) -> float:
        """The wait after the ``count``-th eviction."""
        return min(self.base * 2.0 ** min(count - 1, 64), self.most)


def condition(workload: Workload, kind: str, *, status: bool, reason: str, message: str, now: float) -> Workload:
    """With that condition; its transition time is ``now`` only where the status changes.

    A message is cut where Kubernetes' conditions end: the API server would refuse the whole status for it.
    """
    if kind == names.Condition.QUOTA_RESERVED and workload.coarse_reasons and not status:
        reason = _COARSE.get(reason, PendingReason.PENDING)
    if len(message) > _LONGEST_MESSAGE:
        message = message[: _LONGEST_MESSAGE - 4] + " ..."
    new = Condition(kind, status, reason, message, now, workload.generation)
    return replace(workload, conditions=with_condition(workload.conditions, new))


_COARSE: Final = {
    PendingReason.MISCONFIGURED: PendingReason.INADMISSIBLE,
    PendingReason.SUSPENDED: PendingReason.INADMISSIBLE,
    PendingReason.WAITING_FOR_PODS_READY: PendingReason.WAITING,
    **{each: each for each in (PendingReason.ADMISSION_GATED, PendingReason.ON_HOLD, PendingReason.INADMISSIBLE)},
    PendingReason.WAITING: PendingReason.WAITING,
}
"""Kueue's reasons without UnadmittedWorkloadsObservability; all others are Pending."""


def checks_ready(workload: Workload) -> bool:
    """Whether no admission check is outstanding."""
    return all(check.state == CheckState.READY for check in workload.checks)


def awaits_topology(workload: Workload) -> bool:
    """Whether the domains of a pod set are decided later."""
    admission = workload.admission
    return admission is not None and any(given.awaits_topology for given in admission.pod_sets)


def admitted_in_step(workload: Workload, now: float) -> Workload:
    """Sets Admitted from QuotaReserved, the checks and the domains; adds the execution time when it ends.

    A Workload that has neither condition yet is not changed, nor, with coarse reasons, one that is still not admitted.
    """
    old = workload.condition(names.Condition.ADMITTED)
    if old is None and workload.condition(names.Condition.QUOTA_RESERVED) is None:
        return workload
    reason, message = _why_not_admitted(workload)
    status = not reason
    if workload.coarse_reasons and status == (old is not None and old.status):
        return workload
    if status:
        reason, message = AdmittedReason.ADMITTED, "The workload is admitted"
    if old is not None and (old.status, old.reason, old.message) == (status, reason, message):
        return workload
    if old is not None and old.status and not status:
        workload = replace(workload, past_execution=(workload.past_execution or 0) + int(now - old.since))
    return condition(workload, names.Condition.ADMITTED, status=status, reason=reason, message=message, now=now)


def _why_not_admitted(workload: Workload) -> tuple[str, str]:
    """Reason and message of Admitted=False; ('', '') where nothing is missing."""
    coarse, ready = workload.coarse_reasons, checks_ready(workload)
    if not workload.holds(names.Condition.QUOTA_RESERVED):
        if coarse and not ready:
            text = "The workload has no reservation and not all checks ready"
            return AdmittedReason.NO_RESERVATION_UNSATISFIED_CHECKS, text
        return AdmittedReason.NO_RESERVATION, "The workload has no reservation"
    if not ready:
        reason = AdmittedReason.UNSATISFIED_CHECKS if coarse else AdmittedReason.UNSATISFIED_ADMISSION_CHECKS
        return reason, "The workload has not all checks ready"
    if awaits_topology(workload):
        return AdmittedReason.PENDING_DELAYED_TOPOLOGY_REQUESTS, "There are pending delayed topology requests"
    return "", ""


def reserved(workload: Workload, admission: Admission, now: float, *, required_checks: Iterable[str] = ()) -> Workload:
    """Reserves quota; also admits if no check is required, otherwise adds the missing checks as Pending."""
    after = replace(workload, admission=admission)
    message = f"Quota reserved in ClusterQueue {admission.cluster_queue}"
    reason = names.Event.QUOTA_RESERVED
    after = condition(after, names.Condition.QUOTA_RESERVED, status=True, reason=reason, message=message, now=now)
    for kind in _RESET_BY_RESERVATION:
        old = after.condition(kind)
        if old is not None and old.status:
            text = f"Previously: {old.message}"
            after = condition(after, kind, status=False, reason=reason, message=text, now=now)
    return admitted_in_step(with_checks(after, required_checks, now), now)


def imported(workload: Workload, admission: Admission, checks: Iterable[str], now: float) -> Workload:
    """Gives the Workload of a job that runs already its quota, and admits it: the conditions are those of Kueue's
    importer. Its checks are ready: what they would ask for, nodes for example, the job has.
    """
    text = f"Imported into ClusterQueue {admission.cluster_queue}"
    after = with_checks(replace(workload, admission=admission), checks, now)
    for check in after.checks:
        after = with_check_state(after, check.name, CheckState.READY, "The job ran before it was queued", now)
    for kind in (names.Condition.QUOTA_RESERVED, names.Condition.ADMITTED):
        after = condition(after, kind, status=True, reason=AdmittedReason.IMPORTED, message=text, now=now)
    return after


def placed(workload: Workload, admission: Admission, now: float) -> Workload:
    """Gives a workload that holds quota the domains that its second pass has found; its nodes are healthy then. Also
    admits it if nothing else is missing.
    """
    return admitted_in_step(replace(workload, admission=admission, unhealthy_nodes=()), now)


def placed_elsewhere(workload: Workload) -> Workload:
    """Its pods are placed in the topology of the cluster in which they run: here nothing is pending."""
    admission = workload.admission
    if admission is None or not awaits_topology(workload):
        return workload
    pod_sets = (
        replace(given, delayed=DelayedTopology.READY) if given.awaits_topology else given
        for given in admission.pod_sets
    )
    return replace(workload, admission=replace(admission, pod_sets=tuple(pod_sets)))


def pods_awaited(workload: Workload, now: float) -> Workload:
    """PodsReady is False from the admission on, in the same write; a Workload that has the condition keeps it."""
    kind, reason = names.Condition.PODS_READY, names.PodsReadyReason.WAIT_FOR_START
    if not workload.holds(names.Condition.ADMITTED) or workload.condition(kind) is not None:
        return workload
    message = "Not all pods are ready or succeeded"
    return condition(workload, kind, status=False, reason=reason, message=message, now=now)


def waiting(workload: Workload, reason: str, message: str, now: float) -> Workload:
    """Sets the reason why it waits; releases a reservation that it held."""
    after = replace(workload, admission=None)
    kind = names.Condition.QUOTA_RESERVED
    return admitted_in_step(condition(after, kind, status=False, reason=reason, message=message, now=now), now)


def undecided(workload: Workload, reason: str, message: str, now: float) -> Workload:
    """Sets the reason for which a cycle has not admitted it. With coarse reasons that is Pending, except for a workload
    that waits for the pods of others.
    """
    coarse = workload.coarse_reasons and reason != PendingReason.WAITING_FOR_PODS_READY
    return waiting(workload, PendingReason.PENDING if coarse else reason, message, now)


def preemption_gated(workload: Workload, message: str, now: float) -> Workload:
    """Reports that it could preempt others for its quota, but a preemption gate is closed."""
    kind, reason = names.Condition.BLOCKED_ON_PREEMPTION_GATES, names.PreemptedReason.PREEMPTION_GATED
    return condition(workload, kind, status=True, reason=reason, message=message, now=now)


def with_gate_states(workload: Workload, now: float) -> Workload:
    """With the states of exactly its preemption gates; new ones begin as closed."""
    known = {state.name: state for state in workload.gate_states}
    states = tuple(known.get(name) or GateState(name, open=False, since=now) for name in workload.preemption_gates)
    return workload if known.keys() == {*workload.preemption_gates} else replace(workload, gate_states=states)


def evicted(workload: Workload, reason: str, message: str, now: float, *, cause: str = "") -> Workload:
    """Evicts it: it keeps its quota until its pods are gone. Its checks, preemption gates, worker cluster
    and failed nodes are reset, the eviction is counted.
    """
    full = _with_cause(reason, cause) if reason == EvictedReason.DEACTIVATED else reason
    after = condition(workload, names.Condition.EVICTED, status=True, reason=full, message=message, now=now)
    blocked = names.Condition.BLOCKED_ON_PREEMPTION_GATES
    if after.holds(blocked):
        after = condition(after, blocked, status=False, reason=full, message=message, now=now)
    checks = tuple(_reset(check, now) for check in after.checks)
    counted = _counted(after.evictions, reason, cause)
    closed = tuple(replace(state, open=False, since=now) for state in after.gate_states)
    after = replace(after, checks=checks, gate_states=closed, evictions=counted)
    return replace(after, cluster_name="", nominated=(), unhealthy_nodes=())


def preempted(workload: Workload, reason: str, message: str, now: float) -> Workload:
    """Evicted in favour of another workload; ``reason`` is that of the Preempted condition."""
    after = evicted(workload, EvictedReason.PREEMPTED, message, now)
    return condition(after, names.Condition.PREEMPTED, status=True, reason=reason, message=message, now=now)


def released(workload: Workload, now: float) -> Workload:
    """Releases the quota of an evicted workload whose pods are gone.

    Requeued reports whether it may be queued again immediately: after preemption, node failures and migrations to
    another flavor yes, otherwise (a backoff, a stopped queue, deactivation) when that has ended. A workload that was
    deactivated because its execution time was used up has all of it again when it is activated.
    """
    eviction = workload.condition(names.Condition.EVICTED)
    if eviction is None:
        return workload
    again = eviction.reason in _NO_FAULT
    after = requeued(workload, eviction.reason, eviction.message, now, status=again)
    after = waiting(after, PendingReason.PENDING_EVALUATION, eviction.message, now)
    return replace(after, past_execution=None) if eviction.reason == _OVERTIME else after


def requeued(workload: Workload, reason: str, message: str, now: float, *, status: bool = True) -> Workload:
    """Sets the Requeued condition: False keeps it out of the queue until the reason has passed."""
    return condition(workload, names.Condition.REQUEUED, status=status, reason=reason, message=message, now=now)


def uncounted(workload: Workload, message: str, now: float) -> Workload:
    """Sets that a workload is kept out of the queue because its devices cannot be counted."""
    text = "DRA resource claims not supported" if message == CLAIMS_NOT_SUPPORTED else message
    return requeued(workload, names.RequeuedReason.INADMISSIBLE, text, now, status=False)


def counted(workload: Workload) -> Workload:
    """Removes the condition of `uncounted`, as Kueue does."""
    return _without(workload, names.Condition.REQUEUED)


def finished(workload: Workload, reason: str, message: str, now: float) -> Workload:
    """Done, well or badly; its quota is free."""
    return condition(workload, names.Condition.FINISHED, status=True, reason=reason, message=message, now=now)


def deactivation_target(workload: Workload, cause: str, message: str, now: float) -> Workload:
    """Marks it for deactivation, with the cause; ``spec.active`` is set in a separate write."""
    kind = names.Condition.DEACTIVATION_TARGET
    return condition(workload, kind, status=True, reason=cause, message=message, now=now)


def deactivated(workload: Workload, now: float) -> Workload:
    """Returns a deactivated workload: evicted (once), and without backoff state and DeactivationTarget, which would
    deactivate it again when it is activated.

    If it was evicted before, its condition Evicted gets the cause and time of the deactivation, and nothing is counted
    again. Kueue keeps both conditions then.
    """
    target = workload.condition(names.Condition.DEACTIVATION_TARGET)
    after = replace(workload, requeue_count=0, requeue_at=None)
    gone, message = workload.holds(names.Condition.EVICTED), "The workload is deactivated"
    if target is None:
        return after if gone else evicted(after, EvictedReason.DEACTIVATED, message, now)
    after = _without(after, names.Condition.DEACTIVATION_TARGET)
    text = f"{message} due to {target.message}"
    if not gone:
        return evicted(after, EvictedReason.DEACTIVATED, text, now, cause=target.reason)
    if not target.status:
        return after
    full, kind = _with_cause(EvictedReason.DEACTIVATED, target.reason), names.Condition.EVICTED
    return condition(_without(after, kind), kind, status=True, reason=full, message=text, now=now)


def _without(workload: Workload, kind: str) -> Workload:
    return replace(workload, conditions=without_condition(workload.conditions, kind))


def _with_cause(reason: str, cause: str) -> str:
    return f"{reason}{EvictedReason.DUE_TO}{cause}" if cause else reason


def backed_off(workload: Workload, backoff: Backoff, now: float) -> Workload:
    """One more eviction counted, and the time before which it is not queued again."""
    count = workload.requeue_count + 1
    until = now + backoff.seconds(count)
    return replace(workload, requeue_count=count, requeue_at=max(until, workload.requeue_at or until))


def without_quota(workload: Workload, message: str, now: float) -> Workload:
    """Evicts it because its pods use more than it was admitted for: each time it stays out of its queue for longer."""
    reason = EvictedReason.PODS_WITHOUT_QUOTA
    before = sum(count for kind, _, count in workload.evictions if kind == reason)
    after = kept_out(workload, now + min(GUARD_SECONDS * 2.0 ** min(before, 16), MOST_GUARD_SECONDS))
    return evicted(after, reason, message, now)


def kept_out(workload: Workload, until: float) -> Workload:
    """It is not queued again before this time."""
    return replace(workload, requeue_at=max(until, workload.requeue_at or until))


def with_checks(workload: Workload, required: Iterable[str], now: float) -> Workload:
    """With exactly the required checks, by name; new ones begin as Pending."""
    known = {check.name: check for check in workload.checks}
    wanted = sorted(set(required))
    if wanted == sorted(known):
        return workload
    return replace(
        workload, checks=tuple(known.get(name) or State(name, CheckState.PENDING, since=now) for name in wanted)
    )


def with_check_state(
    workload: Workload,
    name: str,
    state: str,
    message: str,
    now: float,
    *,
    requeue_after: float | None = None,
    pod_set_updates: tuple[Raw, ...] = (),
) -> Workload:
    """With that state of a check, as its controller decides it; its time changes only with the state.

    A check that the workload does not have is not added: no ClusterQueue asks for it any more.
    """

    def decided(check: State) -> State:
        if check.name != name:
            return check
        since = check.since if check.state == state else now
        return State(name, state, message, since, check.retry_count, requeue_after, pod_set_updates)

    return replace(workload, checks=tuple(decided(check) for check in workload.checks))


def _reset(check: State, now: float) -> State:
    if check.state == CheckState.PENDING:
        return check
    return State(
        name=check.name,
        state=CheckState.PENDING,
        message=f"Reset to Pending after eviction. Previously: {check.state}",
        since=now,
        retry_count=_retries(check),
        requeue_after=check.requeue_after,
    )


def _retries(check: State) -> int:
    """The retries after an eviction: one more after Retry, as many after Rejected, otherwise none.

    Kept after Rejected so that a Workload that is activated again has no more attempts than before.
    """
    if check.state == CheckState.RETRY:
        return check.retry_count + 1
    return check.retry_count if check.state == CheckState.REJECTED else 0


def _counted(evictions: tuple[tuple[str, str, int], ...], reason: str, cause: str) -> tuple[tuple[str, str, int], ...]:
    kinds = {(kind, why): count for kind, why, count in evictions}
    kinds[reason, cause] = kinds.get((reason, cause), 0) + 1
    return tuple((*kind, count) for kind, count in kinds.items())
