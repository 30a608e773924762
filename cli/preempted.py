"""Which workload preempted a job, by which rule, and when: from the conditions of its Workload and the events on it.
Pure.

The condition has the last preemption, and keeps it after the workload was admitted again (its message then begins with
"Previously: "); events have the earlier ones, as long as the API server keeps events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from api.names import Condition, PreemptedReason
from api.objects import Key, Raw, key_of
from cli.target import document
from cli.verbs.printing import age, clean
from core.model.messages import DUE_TO, preemption_of
from core.model.owner import GROUP, owner
from core.wire.timestamps import maybe_epoch

_PRIORITIES: Final = re.compile(r"preemptor effective priority: (-?\d+).*preemptee effective priority: (-?\d+)")
_RULES: Final = {
    PreemptedReason.IN_CLUSTER_QUEUE: (
        "it was before this job in the same ClusterQueue {of}, which lets such workloads preempt others"
        " (preemption.withinClusterQueue)"
    ),
    PreemptedReason.IN_COHORT_RECLAMATION: (
        "ClusterQueue {by} took back quota of its own, which ClusterQueue {of} had borrowed"
        " (preemption.reclaimWithinCohort of {by})"
    ),
    PreemptedReason.IN_COHORT_FAIR_SHARING: (
        "ClusterQueue {by} used a smaller share of the cohort than ClusterQueue {of}"
        " (fairSharing.preemptionStrategies of the Configuration)"
    ),
    PreemptedReason.IN_COHORT_RECLAIM_WHILE_BORROWING: (
        "ClusterQueue {by} may preempt workloads of lower priority also where it borrows itself"
        " (preemption.borrowWithinCohort of {by})"
    ),
}
_WAYS: Final = {
    PreemptedReason.IN_CLUSTER_QUEUE: "a higher priority: label kueue.x-k8s.io/priority-class",
    PreemptedReason.IN_COHORT_RECLAMATION: (
        "to stay within the nominal quota of ClusterQueue {of}: what is borrowed can be taken back"
    ),
    PreemptedReason.IN_COHORT_FAIR_SHARING: (
        "to use less of the cohort in ClusterQueue {of}, or a larger fairSharing.weight for it"
    ),
    PreemptedReason.IN_COHORT_RECLAIM_WHILE_BORROWING: (
        "a priority above maxPriorityThreshold of ClusterQueue {by}, or to stay within the quota of ClusterQueue {of}"
    ),
}


@dataclass(frozen=True, slots=True)
class ShownPreemption:
    """One preemption of a workload. ``by`` and ``of`` are the ClusterQueues of the preemptor and of the workload;
    ``priorities`` are theirs, in this order, None if they are not recorded.
    """

    at: float | None
    reason: str
    uid: str
    job_uid: str
    by: str
    of: str
    priorities: tuple[int, int] | None = None

    @property
    def rule(self) -> str:
        """The sentence about the rule."""
        return _RULES[self.reason].format(by=self.by, of=self.of)

    @property
    def way(self) -> str:
        """What avoids it."""
        return _WAYS[self.reason].format(by=self.by, of=self.of)


@dataclass(frozen=True, slots=True)
class ShownPreemptor:
    """The workload that preempted: its job and its Workload, or that it is not to be seen."""

    job: str = ""
    workload: Key | None = None
    hidden: bool = False


def read(message: str, at: float | None) -> ShownPreemption | None:
    """Returns what a message of a condition or an event says; None if it is about something else."""
    found = preemption_of(message)
    if found is None:
        return None
    told = _PRIORITIES.search(message)
    priorities = (int(told[1]), int(told[2])) if told else None
    return ShownPreemption(at, found.reason, found.uid, found.job_uid, found.by, found.of, priorities)


def preemptions(workload: Raw, events: Iterable[Raw]) -> list[ShownPreemption]:
    """Returns all known preemptions of a Workload, the last one first."""
    found: list[ShownPreemption] = []
    for each in events:
        told = read(str(each.get("message", "")), maybe_epoch(each.get("lastTimestamp") or each.get("eventTime")))
        if told is not None:
            found.append(told)
    found.sort(key=lambda each: (-(each.at or 0.0), each.uid))
    last = _last(workload)
    if last is None:
        return found
    same = next((each for each in found if each.uid == last.uid), last)
    return [same, *(each for each in found if each is not same)]


def _last(workload: Raw) -> ShownPreemption | None:
    """The last preemption, as the condition says it. Its time is not known if the condition was reset since."""
    for each in (workload.get("status") or {}).get("conditions") or ():
        if each.get("type") == Condition.PREEMPTED:
            at = maybe_epoch(each.get("lastTransitionTime")) if each.get("status") == "True" else None
            return read(str(each.get("message", "")), at)
    return None


def evicted(workload: Raw) -> tuple[str, str]:
    """Returns reason and message of the last eviction for another reason; empty if there is none."""
    for each in (workload.get("status") or {}).get("conditions") or ():
        if each.get("type") == Condition.EVICTED and each.get("status") == "True":
            return str(each.get("reason", "")), str(each.get("message", ""))
    return "", ""


def preemptor(preemption: ShownPreemption, workloads: Sequence[Raw], *, complete: bool) -> ShownPreemptor:
    """Returns who preempted, among the Workloads that the user may read; ``complete``: these are all of the cluster."""
    for each in workloads:
        if each["metadata"].get("uid") == preemption.uid:
            by = owner(each)
            key = key_of(each)
            return ShownPreemptor(f"{key.namespace}/{by.name.removeprefix(GROUP)}" if by is not None else "", key)
    return ShownPreemptor(hidden=not complete)


def who(found: ShownPreemptor, preemption: ShownPreemption) -> str:
    """Returns the preemptor, for a sentence."""
    if found.workload is not None:
        return f"{found.job} (Workload {found.workload.name})" if found.job else f"Workload {found.workload}"
    if found.hidden:
        return f"a workload that your rights do not show (UID {preemption.uid or 'not recorded'})"
    return f"a workload that does not exist any more (UID {preemption.uid or 'not recorded'})"


def text(job: str, workload: Raw, told: Sequence[tuple[ShownPreemption, ShownPreemptor]], now: float) -> str:
    """Returns the answer for a terminal."""
    if not told:
        return clean(f"{job}: {_not_preempted(workload)}") + "\n"
    (last, by), *earlier = told
    lines = [
        f"{job} was preempted {_when(last.at, now)} by {who(by, last)}, which is in ClusterQueue {last.by}",
        f"  why: {last.rule}",
    ]
    if last.priorities is not None:
        lines.append(f"  priorities: {last.priorities[0]} of the preemptor, {last.priorities[1]} of this job")
    lines.append(f"  what avoids it: {last.way}")
    if earlier:
        lines += ["", "Earlier preemptions"]
        lines += [f"  {_when(each.at, now)} by {who(other, each)}, {DUE_TO[each.reason]}" for each, other in earlier]
    if any(other.hidden for _, other in told):
        lines += ["", "With the role view in the whole cluster the names are shown."]
    return "".join(f"{clean(line)}\n" for line in lines)


def _not_preempted(workload: Raw) -> str:
    reason, message = evicted(workload)
    if reason:
        return f"it was not preempted. It was evicted for another reason: {reason}: {message}"
    return "no preemption is recorded: it was not preempted, or so long ago that the event is deleted"


def _when(at: float | None, now: float) -> str:
    return f"{age(max(0.0, now - at))} ago" if at is not None else "earlier"


def plain(
    job: str, workload: Raw, told: Sequence[tuple[ShownPreemption, ShownPreemptor]], moments: Mapping[float, str]
) -> Raw:
    """Returns the answer as an object with a version; ``moments`` are the times as texts."""
    reason, message = evicted(workload)
    found = [
        {
            "at": moments.get(each.at) if each.at is not None else None,
            "reason": each.reason,
            "message": each.rule,
            "wouldHelp": each.way,
            "preemptor": {
                "job": by.job,
                "workload": str(by.workload) if by.workload is not None else "",
                "uid": each.uid,
                "jobUid": each.job_uid,
                "clusterQueue": each.by,
                "notReadable": by.hidden,
            },
            "clusterQueue": each.of,
            "priorities": {"preemptor": each.priorities[0], "job": each.priorities[1]} if each.priorities else None,
        }
        for each, by in told
    ]
    evictions = {} if told or not reason else {"evicted": {"reason": reason, "message": message}}
    return document(
        "Preemptions", {"job": job, "workload": workload["metadata"]["name"], "preemptions": found, **evictions}
    )
