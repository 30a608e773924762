"""Whether a job that was stopped may still have pods, and what shows that it has none.

A stop is a field of the job. Until the kind's controller has handled it, it may create pods for the start before,
although the status counts none; and a pod that is deleted uses its node until it has terminated. So the quota of a
stopped job is held, and the job is not started again, until one of these is known:

* The status says so. The condition Suspended is True when the controller of a kind that has it has handled the stop;
  the Job controller counts pods that terminate, too.
* The status may be older than a start that came shortly before: then the Job controller is asked to write its status
  again, by a write of ours that removes the condition.
* For other kinds, whose status does not count what terminates, the pods are listed by the uid of the job. A status that
  does not show the stop is waited for some time: the controller does not run, or does nothing with a job that it finds
  invalid, and its owner can make it invalid while it runs.

Pods that terminate are waited for so long as the operator allows (``seiretsu.terminatingPodsTimeout``): the owner of
the job chooses the time that they have.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from api import names
from core.actions import Wait, Writes
from core.jobs import meta, workload
from core.jobs.actions import AwaitPods
from core.jobs.job_starter import JobStarter
from core.jobs.release import holds_quota
from core.model import Raw, Workload

TERMINATING_SECONDS: Final = 300.0
"""So long pods that terminate are waited for, if the Configuration has nothing else."""
SETTLE_SECONDS: Final = 3.0
"""So long after a stop a kind's controller may create pods for a start that its status has not shown."""
SHOWN_SECONDS: Final = 30.0
"""So long after a stop of a job without pods its status is waited for, if it goes on showing some."""


@dataclass(frozen=True, slots=True)
class LastStart:
    """What is remembered of the latest start of a job, until it is known that its controller has seen it and, for a
    kind whose status does not count all pods, until these are gone.

    ``seen``: whether the status has shown all of its pods. ``held_since``: since when the job is held again, None while
    it is not. ``asked``: whether the status is newer than the stop, because its controller had to write it again.
    """

    uid: str
    seen: bool = False
    held_since: float | None = None
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Ask(Writes):
    """The writes after which the kind's controller writes its status again."""


Stopping: TypeAlias = Wait | Ask | AwaitPods
"""What is to be known or done before a stopped job counts as one without pods."""


def observed(
    kind: JobStarter, job: Raw, start: LastStart | None, now: float, related: Sequence[Raw]
) -> LastStart | None:
    """Returns what is to be remembered of the latest start of a job that holds quota, as it is now."""
    uid = meta.uid(job)
    if not kind.uid_label or meta.deleting(job) or kind.finished(job, related) is not None:
        return None
    known = start if start is not None and start.uid == uid else None
    counts = kind.terminating(job) is not None and kind.counts_all_pods(job)
    if not kind.held(job):
        seen = (known is not None and known.seen) or kind.sees_start(job, related)
        return None if seen and counts else LastStart(uid, seen=seen)
    if known is None:
        return None
    asked = known.asked or kind.sees_stop(job) is not True
    since = now if known.held_since is None else known.held_since
    return LastStart(uid, seen=known.seen, held_since=since, asked=asked)


def stopping(
    kind: JobStarter,
    job: Raw,
    raw: Raw,
    value: Workload,
    *,
    start: LastStart | None,
    now: float,
    timeout: float,
    gone: Container[str] = (),
    shown: bool = False,
) -> Stopping | None:
    """Returns what is to be known before a held job with this Workload, which has quota, counts as one without pods;
    None if nothing is.

    ``gone``: the uids of stopped jobs of which no pod was listed. ``timeout``: of pods that terminate; in seconds.
    ``shown``: whether the status shows pods.
    """
    if not _stopped_here(kind, job, value):
        return None
    age = _age(kind, job, value, start=start, now=now)
    longest = max(timeout, TERMINATING_SECONDS) if kind.counts_terminating else SHOWN_SECONDS
    if (unseen := _unseen(kind, job, start, now)) is not None and age < longest:
        return unseen if isinstance(unseen, Ask) else Wait(min(unseen.seconds or longest, longest - age))
    left = timeout - age
    if left <= 0:
        return None
    if terminating := kind.terminating(job):
        return Wait(left)
    counted = terminating is not None and kind.counts_all_pods(job)
    if counted or start is None or start.uid != meta.uid(job):
        return None
    if start.uid in gone:
        return Wait(SHOWN_SECONDS - age) if shown and age < SHOWN_SECONDS else None
    return AwaitPods(workload.key(raw), start.uid, kind.uid_label)


def unheeded(kind: JobStarter, job: Raw, start: LastStart | None, gone: Container[str]) -> bool:
    """Whether no pod of a held job was listed, for which nothing else is to be known any more: then a status that shows
    some is not that after the stop.
    """
    known = start is not None and start.uid == meta.uid(job) and start.uid in gone
    return known and kind.held(job) and not kind.counts_terminating


def _unseen(kind: JobStarter, job: Raw, start: LastStart | None, now: float) -> Wait | Ask | None:
    """What to do before the status of a held job, and its pods, are those after the stop."""
    handled = kind.sees_stop(job)
    if handled is False:
        return Wait(TERMINATING_SECONDS)
    if start is None or start.uid != meta.uid(job):
        return None
    if kind.terminating(job) is None:
        settled = (start.held_since if start.held_since is not None else now) + SETTLE_SECONDS
        return None if start.seen or now >= settled else Wait(settled - now)
    if start.asked:
        return None if handled else Wait(TERMINATING_SECONDS)
    return Ask(kind.asks(job))


def _age(kind: JobStarter, job: Raw, value: Workload, *, start: LastStart | None, now: float) -> float:
    """How many seconds ago a job was stopped: at the latest of its eviction, of when the status shows the stop since,
    and of when this process first saw it.
    """
    evicted = value.condition(names.Condition.EVICTED)
    times = [
        evicted.since if evicted is not None and evicted.status else None,
        kind.stopped_since(job),
        start.held_since if start is not None else None,
    ]
    return max(0.0, now - max((each for each in times if each is not None), default=now))


def _stopped_here(kind: JobStarter, job: Raw, value: Workload) -> bool:
    """Whether this is a stopped job of a controller of this cluster, and its pods are not the job itself."""
    ours = kind.manager(job) in (None, "", kind.own_controller) and not value.cluster_name
    return bool(kind.uid_label) and kind.held(job) and ours and holds_quota(value)
