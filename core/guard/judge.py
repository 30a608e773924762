"""Decides which pods run without quota: what runs of a job, compared with what its Workloads were granted.

Separate from how pods are attributed to jobs (``controller.reconcilers.guard``), which needs what is known of owners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from api import quantity
from core.guard.domains import DomainKey, GrantedDomains, RunningInDomains
from core.guard.grants import STOPS_SECONDS, Grant, evicted_at, holds, reserved
from core.guard.overlap import OverlapBudget, over, surplus
from core.guard.pods import ALL_REQUESTS, Accounting, PodShape, RunningPod, totals
from core.model import Key, Workload

LEAVES_SECONDS: Final = 5.0
"""So long pods that had quota may run on without it: the controller of an ended job, or of one with fewer pods, deletes
them in this time. Pods beyond what was granted before, and pods that nobody controls, have no such time.
"""
ENDED: Final = "their job has ended"
"""Added to the sentence where it is so: how soon such pods are gone is up to their controller and the nodes."""
_REPLACED: Final = (
    ", again and again: pods that replace them start before these have terminated (a Job with podReplacementPolicy:"
    " Failed waits for that)"
)


class Charged(NamedTuple):
    """A pod that runs, as one of a job. ``stray``: not the controller of the job has it, but only a label or what was
    known of it before. ``domains`` are those of the job in which it may count, None if its node is not known.
    """

    pod: RunningPod
    stray: bool = False
    domains: tuple[DomainKey, ...] | None = None


class Excess(NamedTuple):
    """How much of something runs, and for how much there is quota."""

    resource: str
    runs: int
    granted: int


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """What is to be stopped: Workloads that are evicted, pods that are deleted, and pods that terminate for too long,
    whose grace period is ended. ``sentence`` is the reason.
    """

    sentence: str
    evict: tuple[Key, ...] = ()
    delete: tuple[RunningPod, ...] = ()
    end: tuple[RunningPod, ...] = ()


def excess(
    shapes: Mapping[PodShape, int],
    has: Grant,
    *,
    accounting: Accounting = ALL_REQUESTS,
) -> tuple[Excess, ...]:
    """Returns what runs beyond the grant; ``shapes`` are the pods that run. ``accounting``: what of them is counted."""
    pods, requests = totals(shapes, accounting)
    found = [Excess("pods", pods, has.pods)] if pods > has.pods else []
    over = (name for name in sorted(requests) if requests[name] > has.requests.get(name, 0))
    return (*found, *(Excess(name, requests[name], has.requests.get(name, 0)) for name in over))


def counts(pod: RunningPod, now: float, terminating_seconds: float) -> bool:
    """Whether a pod counts as one that runs: not while it terminates, for so long at most."""
    return not pod.deleted or now - pod.deleted > terminating_seconds


def shapes_of(pods: Iterable[RunningPod]) -> Counter[PodShape]:
    """How many pods of each shape these are."""
    return Counter(each.shape for each in pods)


def judge(
    charged: Sequence[Charged],
    has: Grant,
    workloads: Sequence[Workload],
    now: float,
    *,
    budget: OverlapBudget,
    terminating_seconds: float,
    current: Grant | None = None,
    accounting: Accounting = ALL_REQUESTS,
    domains: GrantedDomains | None = None,
) -> GuardVerdict | None:
    """Returns what to stop so that no pod of a job runs without quota, or outside of its ``domains``; None where all
    have both. ``current`` is what is granted now, where ``has`` has more: what was granted a moment ago, which its pods
    may still use.

    A pod that only a label makes one of the job, and nobody controls, is deleted alone if the others have quota: its
    owner took it away from the job. What another controller has is deleted at once, too, but its controller creates it
    again: with it, and in all other cases, the job is stopped, by the eviction of its Workloads. Where none of them has
    quota, or the job does not stop, the pods are deleted. So whoever puts pods below a job of others can do that only
    in one namespace, and pays with that job. What pods of the job have created is deleted at once. Pods that terminate
    while others have taken their places have their grace period ended, as far as the job has used up its ``budget``; a
    job of which that is not enough is stopped, too.
    """
    living = [each for each in charged if counts(each.pod, now, terminating_seconds)]
    shapes = shapes_of(each.pod for each in living)
    late = tuple(each.pod for each in living if each.pod.deleted)
    leaving = [each.pod for each in charged if not counts(each.pod, now, terminating_seconds)]
    leaving = [each for each in leaving if not over(each, now)]
    end = surplus(leaving, shapes, reserved(workloads), budget, now, accounting=accounting)
    found = excess(shapes, has, accounting=accounting)
    text = sentence(found) if found else outside(charged, domains)
    if not text:
        if (alone := _uncontrolled(living)) and current is not None:
            found = excess(shapes, current, accounting=accounting)
        if found:
            return GuardVerdict(sentence(found), delete=alone, end=end)
        return _overlapping(leaving, shapes, end, workloads, budget)
    end = (*late, *end) if found else end
    strays = tuple(each.pod for each in living if each.stray and not each.pod.deleted)
    alone = _uncontrolled(living)
    rest = [each for each in living if not each.pod.deleted and not _is_alone(each)]
    own = [each.pod for each in rest if not each.stray]
    if not excess(shapes_of(each.pod for each in rest), has, accounting=accounting) and not outside(rest, domains):
        return GuardVerdict(text, delete=alone, end=end)
    holders = [each for each in workloads if holds(each)]
    evict = tuple(each.key for each in holders if not evicted_at(each))
    if evict or any(now - evicted_at(each) < STOPS_SECONDS for each in holders):
        at_once = (*strays, *filter(_below_a_pod, own))
        return GuardVerdict(text, evict, at_once, end) if evict or at_once or end else None
    return GuardVerdict(text, delete=(*strays, *own), end=end)


def outside(charged: Iterable[Charged], domains: GrantedDomains | None) -> str:
    """Returns the sentence about pods that run outside of the domains of their job, or are too many in one; '' if there
    are none. Pods that terminate, or are on a node of which nothing is known, are not counted.
    """
    if domains is None:
        return ""
    running = RunningInDomains(domains)
    for each in charged:
        if each.domains is not None and not each.pod.deleted:
            running.add(each.pod.node, each.domains)
    return running.outside()


def _uncontrolled(living: Iterable[Charged]) -> tuple[RunningPod, ...]:
    """The strays that no controller will delete."""
    return tuple(each.pod for each in living if _is_alone(each) and not each.pod.deleted)


def _is_alone(charged: Charged) -> bool:
    return charged.stray and charged.pod.kin.above is None


def _below_a_pod(pod: RunningPod) -> bool:
    """Whether a pod has created this one with its own token: the controller of the job deletes only what it created."""
    above = pod.kin.above
    return above is not None and (above.group, above.kind) == ("", "Pod")


def _overlapping(
    leaving: Sequence[RunningPod],
    shapes: Counter[PodShape],
    end: tuple[RunningPod, ...],
    workloads: Sequence[Workload],
    budget: OverlapBudget,
) -> GuardVerdict | None:
    """What is to be stopped of a job of which too much terminates beside what has replaced it."""
    if not end:
        return None
    runs = shapes + shapes_of(leaving)
    evict = tuple(each.key for each in workloads if holds(each) and not evicted_at(each)) if budget.again else ()
    count = len(leaving)
    text = f"{sentence(excess(runs, reserved(workloads)))}; {count} of the pods terminate{'' if count > 1 else 's'}"
    return GuardVerdict(text + (_REPLACED if evict else ""), evict, end=end)


def sentence(found: Sequence[Excess]) -> str:
    """Returns the message: how much runs, and for how much there is quota."""
    parts = []
    for resource, runs, has in found:
        if resource == "pods":
            parts.append(f"{runs} pod{'s' if runs > 1 else ''} run{'' if runs > 1 else 's'}, {has or 'none'} admitted")
        else:
            amount, quota = quantity.text(resource, runs), quantity.text(resource, has)
            parts.append(f"the pods request {amount} {resource}, {quota} admitted")
    return f"Pods run without quota: {'; '.join(parts)}"
