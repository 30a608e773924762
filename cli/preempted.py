"""Which workload preempted a job, by which rule, and when, as text and as an object. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from api.names import Condition
from api.objects import Key, Raw, key_of
from cli.target import document
from cli.verbs.printing import age, clean
from core.explain.preemption import ShownPreemption
from core.model.messages import DUE_TO
from core.model.owner import GROUP, owner


@dataclass(frozen=True, slots=True)
class ShownPreemptor:
    """The workload that preempted: its job and its Workload, or that it is not to be seen."""

    job: str = ""
    workload: Key | None = None
    hidden: bool = False


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


def text(job: str, workload: Raw, shown: Sequence[tuple[ShownPreemption, ShownPreemptor]], now: float) -> str:
    """Returns the answer for a terminal."""
    if not shown:
        return clean(f"{job}: {_not_preempted(workload)}") + "\n"
    (last, by), *earlier = shown
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
    if any(other.hidden for _, other in shown):
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
    job: str, workload: Raw, shown: Sequence[tuple[ShownPreemption, ShownPreemptor]], moments: Mapping[float, str]
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
        for each, by in shown
    ]
    evictions = {} if shown or not reason else {"evicted": {"reason": reason, "message": message}}
    return document(
        "Preemptions", {"job": job, "workload": workload["metadata"]["name"], "preemptions": found, **evictions}
    )
