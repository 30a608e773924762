"""Returns what happened to a Workload between two versions of its object: reserved, admitted, ready, evicted, released,
finished.

Metrics count these transitions and not the writes of Seiretsu: a condition counts once, regardless of the client that
wrote it (an external controller, a person). Separate from ``core.workload.transitions``, which makes the changes that
are written. Times are seconds; counts and labels follow https://kueue.sigs.k8s.io/docs/reference/metrics/.
"""

from __future__ import annotations

from dataclasses import dataclass

from api import names
from api.names import EvictedReason
from core.model import Condition, Workload

_UNKNOWN_COUNT = 0


@dataclass(frozen=True, slots=True)
class QuotaReserved:
    """Quota was reserved, ``waited`` after the workload was queued."""

    cluster_queue: str
    waited: float


@dataclass(frozen=True, slots=True)
class Admitted:
    """The workload was admitted, ``waited`` after it was queued.

    ``checks`` is the time from the reservation to the admission; None where the workload has no admission checks and
    both are one step.
    """

    cluster_queue: str
    waited: float
    checks: float | None


@dataclass(frozen=True, slots=True)
class BecameReady:
    """All pods are ready for the first time in this admission, so long after it was ``queued`` and ``admitted``."""

    cluster_queue: str
    queued: float
    admitted: float


@dataclass(frozen=True, slots=True)
class Evicted:
    """The workload was evicted; ``first`` for this reason and cause in its life.

    ``ready`` is how long its pods had been ready, None if they were not.
    """

    cluster_queue: str
    reason: str
    cause: str
    first: bool
    ready: float | None


@dataclass(frozen=True, slots=True)
class Released:
    """An evicted workload gave its quota back, so long ``after`` its eviction."""

    cluster_queue: str
    reason: str
    after: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The workload is done; ``ran`` is how long it was admitted, all admissions together, None where it never was.

    ``replaced``: it is a slice of an elastic job, and a larger one holds its quota.
    """

    cluster_queue: str
    ran: float | None
    replaced: bool = False


Milestone = QuotaReserved | Admitted | BecameReady | Evicted | Released | Finished


def milestones(old: Workload, new: Workload, now: float) -> list[Milestone]:
    """Returns what ``new`` has that ``old`` does not, in the order of the lifecycle of a Workload."""
    if old.uid != new.uid:
        return []
    steps = (
        _reserved(old, new, now),
        _admitted(old, new, now),
        _ready(old, new, now),
        _evicted(old, new),
        _released(old, new, now),
        _finished(old, new),
    )
    return [step for step in steps if step is not None]


def _reserved(old: Workload, new: Workload, now: float) -> QuotaReserved | None:
    if new.admission is None or not _begins(old, new, names.Condition.QUOTA_RESERVED):
        return None
    return QuotaReserved(new.admission.cluster_queue, _since_queued(new, now))


def _admitted(old: Workload, new: Workload, now: float) -> Admitted | None:
    if new.admission is None or not _begins(old, new, names.Condition.ADMITTED):
        return None
    checks: float | None = None
    if new.checks or old.holds(names.Condition.QUOTA_RESERVED):
        reserved = new.condition(names.Condition.QUOTA_RESERVED)
        at_once = not old.holds(names.Condition.QUOTA_RESERVED)
        checks = 0.0 if reserved is None or at_once else max(0.0, now - reserved.since)
    return Admitted(new.admission.cluster_queue, _since_queued(new, now), checks)


def _ready(old: Workload, new: Workload, now: float) -> BecameReady | None:
    ready, admitted = new.condition(names.Condition.PODS_READY), new.condition(names.Condition.ADMITTED)
    if new.admission is None or ready is None or not _started(ready) or admitted is None or not admitted.status:
        return None
    before = old.condition(names.Condition.PODS_READY)
    if before is not None and _started(before):
        return None
    after = max(0.0, ready.since - admitted.since)
    return BecameReady(new.admission.cluster_queue, _since_queued(new, now), after)


def _evicted(old: Workload, new: Workload) -> Evicted | None:
    """Evicted became True, or True for another reason (evicted for another workload and then deactivated)."""
    eviction, before = new.condition(names.Condition.EVICTED), old.condition(names.Condition.EVICTED)
    admission = new.admission or old.admission
    if eviction is None or not eviction.status or admission is None:
        return None
    if before is not None and before.status and before.reason == eviction.reason:
        return None
    reason, cause, count = _counted(old, new) or (*_split(eviction.reason), _UNKNOWN_COUNT)
    ready = new.condition(names.Condition.PODS_READY)
    return Evicted(
        cluster_queue=admission.cluster_queue,
        reason=reason,
        cause=cause,
        first=count == 1 or (count == _UNKNOWN_COUNT and before is None),
        ready=max(0.0, eviction.since - ready.since) if ready is not None and ready.status else None,
    )


def _counted(old: Workload, new: Workload) -> tuple[str, str, int] | None:
    """Returns the entry of ``schedulingStats.evictions`` that increased; None if the client that evicted it writes no
    such counts.
    """
    known = {(reason, cause): count for reason, cause, count in old.evictions}
    for reason, cause, count in new.evictions:
        if count > known.get((reason, cause), 0):
            return reason, cause, count
    return None


def _split(reason: str) -> tuple[str, str]:
    """Reason and underlying cause, which the condition's reason holds together: DeactivatedDueToAdmissionCheck."""
    kind, due, cause = reason.partition(EvictedReason.DUE_TO)
    return (kind, cause) if due else (reason, "")


def _released(old: Workload, new: Workload, now: float) -> Released | None:
    eviction = new.condition(names.Condition.EVICTED)
    held, holds = (w.holds(names.Condition.QUOTA_RESERVED) for w in (old, new))
    if old.admission is None or not held or holds or new.holds(names.Condition.FINISHED):
        return None
    if eviction is None or not eviction.status:
        return None
    return Released(old.admission.cluster_queue, eviction.reason, max(0.0, now - eviction.since))


def _finished(old: Workload, new: Workload) -> Finished | None:
    done, admitted = new.condition(names.Condition.FINISHED), new.condition(names.Condition.ADMITTED)
    if done is None or not _begins(old, new, names.Condition.FINISHED):
        return None
    ran: float | None = None
    if admitted is not None and admitted.status:
        ran = (new.past_execution or 0) + max(0.0, done.since - admitted.since)
    replaced = done.reason == names.FinishedReason.WORKLOAD_SLICE_REPLACED
    return Finished(new.admission.cluster_queue if new.admission is not None else "", ran, replaced)


def _begins(old: Workload, new: Workload, kind: str) -> bool:
    return new.holds(kind) and not old.holds(kind)


def _started(ready: Condition) -> bool:
    return ready.status and ready.reason == names.PodsReadyReason.STARTED


def queued_at(workload: Workload) -> float:
    """Returns since when the workload has been queued: since its creation, or since it was queued again."""
    requeued = workload.condition(names.Condition.REQUEUED)
    return requeued.since if requeued is not None else workload.created


def _since_queued(workload: Workload, now: float) -> float:
    return max(0.0, now - queued_at(workload))
