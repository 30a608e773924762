"""Decides when a workload that has run for long gets a lower priority, so that one of the same priority can preempt it.

As Kueue's program kueue-priority-booster: a negative value of the annotation ``kueue.x-k8s.io/priority-boost`` is ours,
any other one is somebody else's and stays while the workload is not to be lowered.
"""

from __future__ import annotations

from dataclasses import dataclass

from api.names import Annotation, Condition
from core.matching.placement import matches
from core.model import Raw, Selector, Workload
from core.wire.guard import guarded


@dataclass(frozen=True, slots=True)
class TimeSharingPolicy:
    """The section ``seiretsu.timeSharing``."""

    interval_seconds: float
    negative_boost: int = 100_000
    selector: Selector | None = None
    max_priority: int | None = None


def decide(raw: Raw, workload: Workload, policy: TimeSharingPolicy, now: float) -> tuple[Raw | None, float | None]:
    """Returns the patch of a Workload, if it needs one, and after how many seconds to decide again."""
    metadata = raw["metadata"]
    value = str((metadata.get("annotations") or {}).get(Annotation.PRIORITY_BOOST) or "")
    admitted = workload.condition(Condition.ADMITTED)
    runs = admitted is not None and admitted.status and not workload.holds(Condition.FINISHED)
    if workload.deleting or workload.holds(Condition.FINISHED):
        return None, None
    if not runs or admitted is None or not _in_scope(raw, policy):
        return (_with(raw, None) if _ours(value) else None), None
    left = admitted.since + policy.interval_seconds - now
    if left > 0:
        return (_with(raw, None) if _ours(value) else None), left
    wanted = str(-policy.negative_boost)
    return (_with(raw, wanted) if value != wanted else None), None


def _ours(value: str) -> bool:
    return value.startswith("-") and value[1:].isascii() and value[1:].isdigit()


def _in_scope(raw: Raw, policy: TimeSharingPolicy) -> bool:
    labels, priority = raw["metadata"].get("labels") or {}, (raw.get("spec") or {}).get("priority") or 0
    selected = policy.selector is None or matches(policy.selector, labels)
    return selected and (policy.max_priority is None or priority <= policy.max_priority)


def _with(raw: Raw, value: str | None) -> Raw:
    return guarded({"metadata": {"annotations": {Annotation.PRIORITY_BOOST: value}}}, raw)
