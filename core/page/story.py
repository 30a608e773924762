"""The story of a job: what happened to its Workload, in order of time, from its conditions, its checks and the events
on it; or from the history, which also has what the object has forgotten.

Separate from ``core.explain``, which says what is true now: here is how it came about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from api.names import Condition
from core.explain.preemption import ShownPreemption, read
from core.explain.sight import Sight
from core.history.record import Step
from core.model import Key, Raw
from core.page.overview import LONGEST_MESSAGE
from core.wire.timestamps import maybe_epoch

NamedOf = Callable[[str], Key | None]
"""Returns the Workload with a uid; None if it is not known any more."""
_TITLES: Final = {
    (Condition.QUOTA_RESERVED, True): ("reserved", "Quota reserved"),
    (Condition.QUOTA_RESERVED, False): ("waits", "Waits"),
    (Condition.ADMITTED, True): ("admitted", "Admitted"),
    (Condition.PODS_READY, True): ("runs", "All pods are ready"),
    (Condition.PODS_READY, False): ("waits", "Waits for its pods"),
    (Condition.PREEMPTED, True): ("stopped", "Preempted"),
    (Condition.EVICTED, True): ("stopped", "Evicted"),
    (Condition.REQUEUED, True): ("waits", "Requeued"),
    (Condition.REQUEUED, False): ("stopped", "Not requeued"),
    (Condition.FINISHED, True): ("ended", "Ended"),
    (Condition.DEACTIVATION_TARGET, True): ("stopped", "Deactivated"),
}
_OF_HISTORY: Final = {
    "Created": ("waits", "Created"),
    "Waiting": ("waits", "Waits"),
    "QuotaReserved": ("reserved", "Quota reserved"),
    "Admitted": ("admitted", "Admitted"),
    "PodsReady": ("runs", "All pods are ready"),
    "Preempted": ("stopped", "Preempted"),
    "Evicted": ("stopped", "Evicted"),
    "Requeued": ("waits", "Requeued"),
    "Finished": ("ended", "Ended"),
}


def timeline(workload: Raw, named: NamedOf, sight: Sight) -> list[Raw]:
    """Returns the entries that a Workload's own object has, the oldest first."""
    metadata, status, spec = workload["metadata"], workload.get("status") or {}, workload.get("spec") or {}
    created = maybe_epoch(metadata.get("creationTimestamp")) or 0.0
    queue = spec.get("queueName") or ""
    found = [_entry(created, "waits", "Created", f"queued in LocalQueue {queue}" if queue else "")]
    conditions = status.get("conditions") or ()
    preempted = any(each["type"] == Condition.PREEMPTED and each["status"] == "True" for each in conditions)
    for each in conditions:
        found += _of_condition(each, named, sight, preempted=preempted)
    for check in status.get("admissionChecks") or ():
        at = maybe_epoch(check.get("lastTransitionTime")) or created
        kind = "reserved" if check.get("state") == "Ready" else "waits"
        found.append(
            _entry(at, kind, f"AdmissionCheck {check.get('name')}: {check.get('state')}", check.get("message"))
        )
    return _in_order(found)


def of_history(steps: Iterable[Step], named: NamedOf, sight: Sight) -> list[Raw]:
    """Returns what the history has, the oldest first."""
    found = []
    for step in steps:
        kind, title = _OF_HISTORY.get(step.kind, ("waits", step.kind))
        preemption = read(step.message, step.at)
        text = _preempted(preemption, named, sight) if preemption is not None else step.message or step.reason
        found.append(_entry(step.since or step.at, kind, title, text))
    return _in_order(found)


def events(found: Iterable[Raw]) -> list[Raw]:
    """Returns events as rows, the newest first."""
    shown = []
    for each in found:
        at = each.get("lastTimestamp") or each.get("eventTime") or each["metadata"].get("creationTimestamp")
        shown.append(
            {
                "at": maybe_epoch(at),
                "type": each.get("type", ""),
                "reason": each.get("reason", ""),
                "on": (each.get("involvedObject") or {}).get("kind", ""),
                "message": str(each.get("message", ""))[:LONGEST_MESSAGE],
                "count": each.get("count") or 1,
            }
        )
    return sorted(shown, key=lambda row: (-(row["at"] or 0.0), row["reason"], row["message"]))


def _of_condition(each: Raw, named: NamedOf, sight: Sight, *, preempted: bool) -> Iterator[Raw]:
    holds = each["status"] == "True"
    titled = _TITLES.get((each["type"], holds))
    at = maybe_epoch(each.get("lastTransitionTime"))
    if titled is None or at is None or (each["type"] == Condition.EVICTED and preempted):
        return
    kind, title = titled
    preemption = read(str(each.get("message", "")), at)
    text = _preempted(preemption, named, sight) if preemption is not None else str(each.get("message", ""))
    yield _entry(at, kind, title, text)


def _preempted(preemption: ShownPreemption, named: NamedOf, sight: Sight) -> str:
    """Returns by whom and by which rule, with no more names than the reader may see."""
    key = named(preemption.uid)
    by = sight.named(key) if key is not None else "a workload that does not exist any more"
    return f"by {by}: {preemption.rule}"


def _entry(at: float, kind: str, title: str, text: str | None) -> Raw:
    return {"at": at, "kind": kind, "title": title, "text": (text or "")[:LONGEST_MESSAGE]}


def _in_order(found: list[Raw]) -> list[Raw]:
    order = {"Created": 0, "Waits": 1, "Quota reserved": 3, "Admitted": 4}
    return sorted(found, key=lambda each: (each["at"], order.get(each["title"], 2), each["title"]))
