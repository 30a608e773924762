"""Jobs that admission accepted and the scheduler has not decided yet: warnings for the next Job count them.

There is some time until the Job's Workload is created and decided. Without this module, each of six Jobs that are
created together would seem to start immediately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from core.feedback import capacity
from core.feedback.job_queue import cluster_queue_of
from core.feedback.submission import Submission
from core.feedback.waiting import priority
from core.model import ClusterQueue, PodSet, QueueingStrategy
from core.state.lookup import Lookup, WhatIf

LASTS: Final = 10.0
"""Seconds after which an accepted Job no longer counts: another webhook refused it, or it is deleted."""

MOST: Final = 100
"""The maximum number of Jobs that are kept, the latest: each costs the next request of its tree about 20 us, or 8 us if
an equal one found no room."""


@dataclass(frozen=True, slots=True)
class _AcceptedRecord:
    job: Submission
    until: float


class Accepted:
    """Accepted Jobs by uid, in the order of their admission."""

    def __init__(self) -> None:
        self._entries: dict[str, _AcceptedRecord] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, uid: str, job: Submission, now: float) -> None:
        """Count a Job until the scheduler has judged its Workload."""
        self._entries[uid] = _AcceptedRecord(job, now + LASTS)
        if len(self._entries) > MOST:
            del self._entries[next(iter(self._entries))]

    def beside(self, lookup: Lookup, now: float, *, but: str = "") -> Lookup:
        """Returns the Lookup with the expected decisions about these Jobs, without the Job with the uid ``but``, which
        is being changed.
        """
        judged = {uid: lookup.judged(uid) for uid in self._entries}
        self._entries = {uid: each for uid, each in self._entries.items() if not judged[uid] and each.until > now}
        jobs = [(each.job, judged[uid] is not None) for uid, each in self._entries.items() if uid != but]
        itself = lookup.waits_in(but) if but else None
        if not jobs and itself is None:
            return lookup
        found = lookup.what_if()
        if itself is not None:
            found.start(*itself)
        without_room: dict[str, Sequence[PodSet]] = {}
        for job, counted in jobs:
            queue = cluster_queue_of(job, lookup)
            if queue is not None:
                found.later(queue.name, partial(_judge, job, queue, found, without_room, counted=counted))
        return found


def _judge(
    job: Submission, queue: ClusterQueue, lookup: WhatIf, without_room: dict[str, Sequence[PodSet]], *, counted: bool
) -> None:
    """Have one Job hold quota, or else wait; ``counted`` is whether its Workload is among those that wait.

    ``without_room`` has for each queue the pods for which there was no room: there is none for equal ones that come
    later. A flood of equal Jobs costs a third of what it would otherwise.
    """
    condition = lookup.active_condition(queue.name)
    if condition is None:
        return
    taken = None
    if without_room.get(queue.name) != job.pod_sets:
        blocked = queue.strategy == QueueingStrategy.STRICT_FIFO and lookup.blocked(queue.name)
        able = condition.active and not blocked and capacity.covers(queue, job, lookup)
        taken = capacity.assigned(job, queue, lookup, lookup.available) if able else None
        if taken is None:
            without_room[queue.name] = job.pod_sets
    if taken is not None:
        lookup.use(queue.name, taken)
    if taken is None and not counted:
        lookup.wait(queue.name, priority(job, lookup))
    elif taken is not None and counted:
        lookup.start(queue.name, priority(job, lookup))
