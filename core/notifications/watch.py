"""Decides which changes and waits of Workloads cause notifications.

Changes come from the milestones of a Workload. A wait is noticed by time: each workload that waits has one moment at
which it is looked at again, ``waiting_seconds`` after it was queued and then each time that its wait has doubled. So a
workload that waits for a month causes ten notifications, and a controller that starts again goes on at the next one.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from api.names import Condition, EvictedReason, FinishedReason
from core.model import Key, Workload
from core.notifications.model import Notification, NotificationKind, NotificationPolicy
from core.workload.milestones import Admitted, Evicted, Finished, milestones, queued_at

REMEMBERED_RESERVATIONS: Final = 1000
"""The last reservations of each ClusterQueue, which are compared with a workload that waits."""
REMEMBERED_EVICTIONS: Final = 10_000
"""So many workloads have their evictions remembered; the one that was evicted the longest ago is forgotten first."""
RESTART_SECONDS: Final = 120.0
"""A moment that passed before a controller began to lead is made up for if it was not longer ago than this."""
_FAILED: Final = (FinishedReason.FAILED, FinishedReason.FAILED_TO_START)

WhyOf = Callable[[Workload], tuple[str, str]]
"""Returns the ClusterQueue in which a workload waits, and why."""


class _Reserved(NamedTuple):
    at: float
    key: Key
    created: float
    priority: int


class Watch:
    """``changed`` with each change of a Workload, ``due`` now and then."""

    def __init__(self, policy: NotificationPolicy) -> None:
        self.policy = policy
        self._looks: dict[Key, float] = {}
        """The workloads that wait, and when to look at each."""
        self._heap: list[tuple[float, Key]] = []
        """The same; entries that differ from ``_looks`` are outdated."""
        self._reserved: dict[str, deque[_Reserved]] = {}
        self._evicted: OrderedDict[Key, tuple[str, deque[float]]] = OrderedDict()

    def changed(self, old: Workload | None, new: Workload | None, now: float) -> list[Notification]:
        """Returns the notifications of a change. Without ``old`` the workload was created, or was there before."""
        known = new or old
        assert known is not None
        if new is None or not _waits(new):
            self._looks.pop(known.key, None)
        elif new.key not in self._looks or (old is not None and queued_at(old) != queued_at(new)):
            self._look(new.key, self._next(queued_at(new), now - RESTART_SECONDS))
        if new is None:
            self._evicted.pop(known.key, None)
            return []
        if new.variant_of:
            return []  # its parent has the same milestones
        if new.admission is not None and (old is None or old.admission is None):
            self._remember(new)
        if old is None:
            return []
        found = [self._of_milestone(old, new, each, now) for each in milestones(old, new, now)]
        return [each for several in found for each in several if each.kind in self.policy.wanted]

    def due(self, now: float, find: Callable[[Key], Workload | None], why: WhyOf, most: int) -> list[Notification]:
        """Returns the notifications of waits; looks at no more than ``most`` workloads."""
        found: list[Notification] = []
        for _ in range(most):
            if not self._heap or self._heap[0][0] > now:
                break
            at, key = heapq.heappop(self._heap)
            workload = find(key)
            if self._looks.get(key) != at or workload is None:
                continue
            self._look(key, self._next(queued_at(workload), at))
            found += self._waiting(workload, at, why)
        if len(self._heap) > 2 * len(self._looks) + REMEMBERED_RESERVATIONS:
            self._heap = [(at, key) for key, at in self._looks.items()]
            heapq.heapify(self._heap)
        return [each for each in found if each.kind in self.policy.wanted]

    @property
    def next_due(self) -> float | None:
        """When ``due`` may have something; None while nothing waits."""
        return self._heap[0][0] if self._heap else None

    def _look(self, key: Key, at: float) -> None:
        self._looks[key] = at
        heapq.heappush(self._heap, (at, key))

    def _next(self, since: float, after: float) -> float:
        """The first moment later than ``after``: the wait, twice, four times as long."""
        wait = self.policy.waiting_seconds
        while since + wait <= after:
            wait *= 2
        return since + wait

    def _waiting(self, workload: Workload, at: float, why: WhyOf) -> list[Notification]:
        since = queued_at(workload)
        queue, message = why(workload)
        seconds = int(at - since)
        waits = _notification(NotificationKind.WAITING, workload, at, queue, message=message, seconds=seconds)
        overtakers = {
            each.key
            for each in self._reserved.get(queue, ())
            if each.at >= since and each.created > workload.created and each.priority <= workload.priority
        }
        if len(overtakers) < self.policy.overtaken_by:
            return [waits]
        count = len(overtakers)
        starves = _notification(
            NotificationKind.STARVING, workload, at, queue, message=message, seconds=seconds, times=count
        )
        return [waits, starves]

    def _remember(self, workload: Workload) -> None:
        reserved = workload.condition(Condition.QUOTA_RESERVED)
        if workload.admission is None or reserved is None:
            return
        known = self._reserved.setdefault(workload.admission.cluster_queue, deque(maxlen=REMEMBERED_RESERVATIONS))
        known.append(_Reserved(reserved.since, workload.key, workload.created, workload.priority))

    def _of_milestone(self, old: Workload, new: Workload, milestone: object, now: float) -> list[Notification]:
        match milestone:
            case Admitted():
                admitted = new.condition(Condition.ADMITTED)
                at = admitted.since if admitted is not None else now
                waited = int(milestone.waited)
                return [
                    _notification(NotificationKind.ADMITTED, new, at, milestone.cluster_queue, seconds=waited),
                ]
            case Evicted():
                return self._of_eviction(new, milestone)
            case Finished():
                done = new.condition(Condition.FINISHED)
                if done is None or done.reason not in _FAILED:
                    return []
                queue = milestone.cluster_queue or (old.admission.cluster_queue if old.admission is not None else "")
                return [
                    _notification(
                        NotificationKind.FAILED, new, done.since, queue, reason=done.reason, message=done.message
                    )
                ]
        return []

    def _of_eviction(self, workload: Workload, eviction: Evicted) -> list[Notification]:
        condition = workload.condition(Condition.EVICTED)
        assert condition is not None
        found = []
        reason, message, at = condition.reason, condition.message, condition.since
        queue = eviction.cluster_queue
        if eviction.reason == EvictedReason.PREEMPTED:
            found.append(_notification(NotificationKind.PREEMPTED, workload, at, queue, reason=reason, message=message))
        elif eviction.reason == EvictedReason.DEACTIVATED and eviction.cause:
            found.append(_notification(NotificationKind.FAILED, workload, at, queue, reason=reason, message=message))
        times = self._times(workload.key, reason, at)
        if times >= self.policy.evictions:
            self._evicted.pop(workload.key, None)
            found.append(
                _notification(NotificationKind.LOOP, workload, at, queue, reason=reason, message=message, times=times)
            )
        return found

    def _times(self, key: Key, reason: str, at: float) -> int:
        """How often it was evicted for this reason lately; another reason begins anew."""
        before, times = self._evicted.pop(key, ("", deque()))
        if before != reason:
            times = deque()
        times.append(at)
        while times[0] <= at - self.policy.within_seconds:
            times.popleft()
        self._evicted[key] = (reason, times)
        if len(self._evicted) > REMEMBERED_EVICTIONS:
            self._evicted.popitem(last=False)
        return len(times)

    def _check(self) -> None:
        """Asserts that every workload that waits is looked at again, and that what is remembered is bounded."""
        assert {(at, key) for key, at in self._looks.items()} <= set(self._heap)
        assert len(self._evicted) <= REMEMBERED_EVICTIONS
        assert all(len(times) < self.policy.evictions for _, times in self._evicted.values())


def _waits(workload: Workload) -> bool:
    ended = workload.holds(Condition.FINISHED) or workload.holds(Condition.QUOTA_RESERVED)
    return workload.active and not workload.deleting and not ended and not workload.variant_of


def _notification(
    kind: NotificationKind,
    workload: Workload,
    at: float,
    cluster_queue: str,
    *,
    reason: str = "",
    message: str = "",
    seconds: int | None = None,
    times: int | None = None,
) -> Notification:
    return Notification(
        kind=kind,
        at=at,
        key=workload.key,
        uid=workload.uid,
        job=workload.owner,
        local_queue=workload.queue,
        cluster_queue=cluster_queue,
        priority=workload.priority,
        reason=reason,
        message=message,
        seconds=seconds,
        times=times,
    )
