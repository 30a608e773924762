"""Which workload preempted another one, by which rule, and when: read from the conditions of its Workload and the
events on it.

The condition has the last preemption, and keeps it after the workload was admitted again (its message then begins with
"Previously: "); events have the earlier ones, as long as the API server keeps events. The command line and the page
show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from api.names import Condition, PreemptedReason
from core.model import Raw
from core.model.messages import preemption_of
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


def read(message: str, at: float | None) -> ShownPreemption | None:
    """Returns what a message of a condition or an event says; None if it is about something else."""
    found = preemption_of(message)
    if found is None:
        return None
    numbers = _PRIORITIES.search(message)
    priorities = (int(numbers[1]), int(numbers[2])) if numbers else None
    return ShownPreemption(at, found.reason, found.uid, found.job_uid, found.by, found.of, priorities)


def preemptions(workload: Raw, events: Iterable[Raw]) -> list[ShownPreemption]:
    """Returns all known preemptions of a Workload, the last one first."""
    found: list[ShownPreemption] = []
    for each in events:
        shown = read(str(each.get("message", "")), maybe_epoch(each.get("lastTimestamp") or each.get("eventTime")))
        if shown is not None:
            found.append(shown)
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
