"""The record of a workload's life: what is kept of it, computed from two versions of the Workload.

Separate from the store, which is SQL, so that what counts as a wait or as use is one pure function. Every entry has a
key that follows from the Workload alone (its uid and the times in its conditions): a new leader may write the entry
again that the old one wrote. Metrics count the same transitions (``core.workload.milestones``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from api.names import Condition, EvictedReason
from core.model import ClusterQueue, Cohort, FlavorResource, Quota, Workload
from core.model import Condition as StatusCondition
from core.model.messages import preemption_of
from core.quota.tree import above
from core.quota.usage import holds_quota, reservation

LONGEST_MESSAGE: Final = 1_000
"""What is longer is cut: clients choose the messages of some conditions."""
LARGEST_AMOUNT: Final = 2**63 - 1
_WORDS: Final = {
    Condition.QUOTA_RESERVED: ("QuotaReserved", "Waits"),
    Condition.ADMITTED: ("Admitted", ""),
    Condition.PODS_READY: ("PodsReady", "PodsNotReady"),
    Condition.EVICTED: ("Evicted", ""),
    Condition.PREEMPTED: ("Preempted", ""),
    Condition.REQUEUED: ("Requeued", ""),
    Condition.FINISHED: ("Finished", ""),
}
"""The kinds of steps by the type of the condition: when it is True, and when it is False."""


class JobOrigin(NamedTuple):
    """What the Workload itself does not show: its job, who queued that ('' for unknown), the ClusterQueue of its
    LocalQueue, and the cohort of each ClusterQueue: the path from the root of its tree, '' for none.
    """

    job_kind: str = ""
    job: str = ""
    user: str = ""
    cohorts: Mapping[str, str] = {}
    cluster_queue: str = ""


class LifeRecord(Struct, frozen=True, gc=False):
    """One workload. ``outcome`` is the reason of its end, empty until then; ``ran`` is how many seconds it was
    admitted.
    """

    uid: str
    namespace: str
    name: str
    job_kind: str
    job: str
    user: str
    local_queue: str
    cluster_queue: str
    priority: int
    priority_class: str
    created: float
    finished: float | None = None
    outcome: str = ""
    message: str = ""
    ran: float | None = None


class Step(Struct, frozen=True, gc=False):
    """Something that happened to a workload, seen ``at`` a time. ``by`` is the uid of its preemptor.

    ``since`` is the transition of the condition: while a workload waits, each reason is one step, with its last
    message.
    """

    uid: str
    kind: str
    reason: str
    since: float
    at: float
    message: str = ""
    by: str = ""


class QuotaAttempt(Struct, frozen=True, gc=False):
    """One reservation of quota: when the workload was queued for it, and what became of it. None: not (yet)."""

    uid: str
    reserved: float
    cluster_queue: str
    queued: float
    admitted: float | None = None
    ready: float | None = None
    ended: float | None = None
    reason: str = ""


class Use(Struct, frozen=True, gc=False):
    """An amount of a flavor's resource that a workload holds from a time on, until ``UseEnd`` or another ``Use``."""

    uid: str
    flavor: str
    resource: str
    since: float
    amount: int
    namespace: str
    user: str
    local_queue: str
    cluster_queue: str
    cohort: str


class UseEnd(Struct, frozen=True, gc=False):
    """A workload holds nothing of what it held."""

    uid: str
    until: float


class DeletedWorkload(Struct, frozen=True, gc=False):
    """A workload was deleted before it had finished: its attempt and its use end then."""

    uid: str
    at: float


class QuotaRecord(Struct, frozen=True, gc=False):
    """The nominal quota of a ClusterQueue from a time on, or of a Cohort itself (``cluster_queue`` is empty then);
    replaces what was known of it. ``cohort`` is the path from the root of the tree.
    """

    cluster_queue: str
    cohort: str
    since: float
    nominal: Mapping[FlavorResource, int]


HistoryEntry = LifeRecord | Step | QuotaAttempt | Use | UseEnd | DeletedWorkload | QuotaRecord
DELETED: Final = "Deleted"
"""The outcome of a workload that was deleted before it had finished."""


def quotas(
    cohorts: Mapping[str, Cohort], cluster_queues: Mapping[str, ClusterQueue], now: float
) -> dict[tuple[str, str], QuotaRecord]:
    """Returns the quota that there is, by ClusterQueue and, for that of a Cohort itself, by '' and Cohort."""
    found = {}
    for name, queue in sorted(cluster_queues.items()):
        path = _path(cohorts, queue.cohort)
        found[name, ""] = QuotaRecord(name, path, now, _nominal(queue.quotas))
    for name, cohort in sorted(cohorts.items()):
        if cohort.quotas:
            path = _path(cohorts, name)
            found["", path] = QuotaRecord("", path, now, _nominal(cohort.quotas))
    return found


def _path(cohorts: Mapping[str, Cohort], cohort: str | None) -> str:
    return "/".join(reversed(list(above(cohorts, cohort)))) if cohort else ""


def _nominal(given: Mapping[FlavorResource, Quota]) -> dict[FlavorResource, int]:
    return {fr: min(quota.nominal, LARGEST_AMOUNT) for fr, quota in given.items() if quota.nominal}


def entries(old: Workload | None, new: Workload | None, origin: JobOrigin, now: float) -> list[HistoryEntry]:
    """Returns what is to be kept of a change, in the order in which it is written; None: there is no Workload.

    Variants are not recorded: their parent is the workload of the job.
    """
    known = new or old
    if known is None or known.variant_of:
        return []
    if new is None or (old is not None and old.uid != new.uid):
        gone: list[HistoryEntry] = (
            [] if old is None or old.holds(Condition.FINISHED) else [DeletedWorkload(old.uid, now)]
        )
        return gone if new is None else [*gone, *entries(None, new, origin, now)]
    if old is not None and _same(old, new):
        return []
    found: list[HistoryEntry] = []
    record = recorded(new, origin)
    if old is None or record != recorded(old, origin):
        found.append(record)
    found += _steps(old, new, now)
    attempt = attempted(new)
    if attempt is not None and (old is None or attempt != attempted(old)):
        found.append(attempt)
    elif attempt is None and old is not None and (before := attempted(old)) is not None and before.ended is None:
        found.append(replace(before, ended=_release_time(new, before.reserved, now), reason=_why(new)))
    return found + _uses(old, new, origin, now)


def resumed(
    held: Mapping[FlavorResource, int], new: Workload, origin: JobOrigin, now: float, alive: float
) -> list[HistoryEntry]:
    """Returns what is to be written about a Workload when a leader begins: all that it shows, and its use if that is
    not ``held`` according to the store, which was written last at the time ``alive``.
    """
    found: list[HistoryEntry] = [each for each in entries(None, new, origin, now) if not isinstance(each, Use)]
    uses = held_by(new)
    if uses == held or (new.variant_of and not held):
        return found
    since = _reserved_at(new)
    if held and uses:
        since = max(since, alive)
    if held:
        until = since if uses else _release_time(new, 0.0, alive)
        found.append(UseEnd(new.uid, min(until, now)))
    return [*found, *_new_uses(new, origin, uses, min(since, now))]


def recorded(workload: Workload, origin: JobOrigin) -> LifeRecord:
    """Returns the record of a workload as it is now."""
    done, admission = workload.condition(Condition.FINISHED), workload.admission
    ended = done is not None and done.status
    return LifeRecord(
        uid=workload.uid,
        namespace=workload.key.namespace,
        name=workload.key.name,
        job_kind=origin.job_kind,
        job=origin.job,
        user=origin.user,
        local_queue=workload.queue,
        cluster_queue=admission.cluster_queue if admission is not None else origin.cluster_queue,
        priority=workload.priority,
        priority_class=workload.priority_class,
        created=workload.created,
        finished=done.since if done is not None and ended else None,
        outcome=done.reason if done is not None and ended else "",
        message=_cut(done.message) if done is not None and ended else "",
        ran=_ran(workload, done.since) if done is not None and ended else None,
    )


def attempted(workload: Workload) -> QuotaAttempt | None:
    """Returns the reservation that a workload has, or had when it finished; None if it has none."""
    reserved, admission = workload.condition(Condition.QUOTA_RESERVED), workload.admission
    if reserved is None or not reserved.status or admission is None:
        return None
    admitted, ready = workload.condition(Condition.ADMITTED), workload.condition(Condition.PODS_READY)
    done = workload.condition(Condition.FINISHED)
    ended = done is not None and done.status
    return QuotaAttempt(
        uid=workload.uid,
        reserved=reserved.since,
        cluster_queue=admission.cluster_queue,
        queued=queued(workload, reserved.since),
        admitted=_true_since(admitted),
        ready=_true_since(ready),
        ended=done.since if done is not None and ended else None,
        reason=done.reason if done is not None and ended else "",
    )


def queued(workload: Workload, before: float) -> float:
    """Returns since when a workload was queued when it got quota: its creation, or when it was queued again."""
    requeued = workload.condition(Condition.REQUEUED)
    if requeued is not None and workload.created <= requeued.since <= before:
        return requeued.since
    return min(workload.created, before)


def held_by(workload: Workload) -> Mapping[FlavorResource, int]:
    """Returns the quota that a workload holds, without the resources of which that is nothing."""
    if workload.variant_of or not holds_quota(workload):
        return {}
    used = reservation(workload).usage.quota
    return {fr: min(amount, LARGEST_AMOUNT) for fr, amount in used.items() if amount}


def _same(old: Workload, new: Workload) -> bool:
    """Whether nothing that is recorded has changed: most changes are of other fields."""
    return (
        old.conditions == new.conditions
        and old.admission == new.admission
        and old.reclaimable == new.reclaimable
        and (old.queue, old.priority, old.priority_class, old.active)
        == (new.queue, new.priority, new.priority_class, new.active)
        and (old.pod_sets is new.pod_sets or old.pod_sets == new.pod_sets)
    )


def _steps(old: Workload | None, new: Workload, now: float) -> Iterator[Step]:
    if old is None:
        yield Step(new.uid, "Created", "", new.created, new.created)
    for each in new.conditions:
        kind = _WORDS.get(each.type, ("", ""))[0 if each.status else 1]
        before = old.condition(each.type) if old is not None else None
        if not kind or (before is not None and _facts(before) == _facts(each)):
            continue
        seen = each.since if before is None or before.status != each.status else max(now, each.since)
        preemption = preemption_of(each.message) if kind == "Preempted" else None
        by = preemption.uid if preemption is not None else ""
        yield Step(new.uid, kind, each.reason, each.since, seen, _cut(each.message), by)


def _cut(message: str) -> str:
    """A message as it is kept: PostgreSQL takes no zero bytes."""
    return message[:LONGEST_MESSAGE].replace("\0", "")


def _facts(condition: StatusCondition) -> tuple[bool, str, str, float]:
    return condition.status, condition.reason, condition.message, condition.since


def _uses(old: Workload | None, new: Workload, origin: JobOrigin, now: float) -> list[HistoryEntry]:
    before: Mapping[FlavorResource, int] = held_by(old) if old is not None else {}
    uses = held_by(new)
    if uses == before and (old is None or not uses or _reserved_at(old) == _reserved_at(new)):
        return []
    if not uses:
        assert old is not None
        return [UseEnd(new.uid, _release_time(new, _reserved_at(old), now))]
    began = _reserved_at(new)
    changed = old is not None and before and _reserved_at(old) == began
    since = max(now, began) if changed else began
    ends: list[HistoryEntry] = [UseEnd(new.uid, since)] if before else []
    return [*ends, *_new_uses(new, origin, uses, since)]


def _new_uses(
    new: Workload, origin: JobOrigin, uses: Mapping[FlavorResource, int], since: float
) -> Iterable[HistoryEntry]:
    queue = new.admission.cluster_queue if new.admission is not None else ""
    cohort = origin.cohorts.get(queue, "")
    for fr, amount in uses.items():
        yield Use(
            new.uid, fr.flavor, fr.resource, since, amount, new.key.namespace, origin.user, new.queue, queue, cohort
        )


def _release_time(new: Workload, reserved: float, now: float) -> float:
    """When quota was released that a workload held: the time is in its conditions, if the client that released it wrote
    them.
    """
    for kind, status in ((Condition.FINISHED, True), (Condition.QUOTA_RESERVED, False)):
        found = new.condition(kind)
        if found is not None and found.status is status and found.since >= reserved:
            return found.since
    return max(now, reserved)


def _why(new: Workload) -> str:
    """The reason of the end of a reservation."""
    evicted = new.condition(Condition.EVICTED)
    if evicted is not None and evicted.status:
        return evicted.reason
    return EvictedReason.DEACTIVATED if not new.active else "Released"


def _reserved_at(workload: Workload) -> float:
    reserved = workload.condition(Condition.QUOTA_RESERVED)
    return reserved.since if reserved is not None and reserved.status else 0.0


def _true_since(condition: StatusCondition | None) -> float | None:
    return condition.since if condition is not None and condition.status else None


def _ran(workload: Workload, until: float) -> float | None:
    admitted = _true_since(workload.condition(Condition.ADMITTED))
    if admitted is None:
        return float(workload.past_execution) if workload.past_execution else None
    return (workload.past_execution or 0) + max(0.0, until - admitted)
