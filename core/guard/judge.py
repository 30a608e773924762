"""Decides which pods run without quota: what runs of a job, compared with what its Workloads were granted.

Separate from how pods are attributed to jobs (``controller.guard``), which needs what is known of owners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from api import names, quantity
from core.guard.pods import Pod, Shape
from core.model import Key, Requests, Workload

STOPS_SECONDS: Final = 10.0
"""So long after its eviction a Workload's pods may run until their controller has stopped them."""
LEAVES_SECONDS: Final = 5.0
"""So long pods that had quota may run on without it: the controller of an ended job, or of one with fewer pods, deletes
them in this time. Pods beyond what was granted before have no such time.
"""


class Grant(NamedTuple):
    """How many pods of a job have quota, and their requests together."""

    pods: int
    requests: Requests

    def __or__(self, other: Grant) -> Grant:
        """The larger of both, in each resource: two Workloads of one job replace each other."""
        amounts = {
            name: max(self.requests.get(name, 0), other.requests.get(name, 0))
            for name in {**self.requests, **other.requests}
        }
        return Grant(max(self.pods, other.pods), amounts)


NOTHING: Final = Grant(0, {})


class Charged(NamedTuple):
    """A pod that runs, as one of a job. ``stray``: not the controller of the job has it, but only a label or what was
    known of it before.
    """

    pod: Pod
    stray: bool = False


class Excess(NamedTuple):
    """How much of something runs, and for how much there is quota."""

    resource: str
    runs: int
    granted: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be stopped: Workloads that are evicted, pods that are deleted, and pods that terminate for too long,
    whose grace period is ended. ``sentence`` is the reason.
    """

    sentence: str
    evict: tuple[Key, ...] = ()
    delete: tuple[Pod, ...] = ()
    end: tuple[Pod, ...] = ()


def granted(workloads: Iterable[Workload], now: float) -> Grant:
    """What the Workloads of one job grant to its pods."""
    found = NOTHING
    for each in workloads:
        found = found | grant(each, now)
    return found


def grant(workload: Workload, now: float) -> Grant:
    """What a Workload grants: its admission, without pods that were reclaimed; nothing when it has finished, and some
    time after its eviction.
    """
    if not holds(workload):
        return NOTHING
    if 0 < evicted_at(workload) <= now - STOPS_SECONDS:
        return NOTHING
    assert workload.admission is not None
    asked = {each.name: each for each in workload.pod_sets}
    pods, requests = 0, Counter[str]()
    for assigned in workload.admission.pod_sets:
        pod_set = asked.get(assigned.name)
        count = min(assigned.count, pod_set.count) if pod_set is not None else assigned.count
        count = max(0, count - workload.reclaimable.get(assigned.name, 0))
        each = {name: -(-used // assigned.count) for name, used in assigned.usage.items() if assigned.count}
        for name, amount in (pod_set.requests if pod_set is not None else {}).items():
            each[name] = max(amount, each.get(name, 0))
        pods += count
        requests.update({name: amount * count for name, amount in each.items()})
    return Grant(pods, dict(requests))


def holds(workload: Workload) -> bool:
    """Whether a Workload holds quota."""
    reserved = workload.admission is not None and workload.holds(names.Condition.QUOTA_RESERVED)
    return reserved and not workload.holds(names.Condition.FINISHED)


def evicted_at(workload: Workload) -> float:
    """When a Workload was evicted that still holds quota, in seconds since the epoch; 0 for others."""
    evicted = workload.condition(names.Condition.EVICTED)
    return evicted.since if evicted is not None and evicted.status and holds(workload) else 0.0


def excess(
    shapes: Mapping[Shape, int],
    has: Grant,
    *,
    injected: Requests | None = None,
    known: frozenset[str] = frozenset(),
    limited: frozenset[str] | None = None,
) -> tuple[Excess, ...]:
    """Returns what runs beyond the grant; ``shapes`` are the pods that run.

    A pod with containers that its template has not (``known`` are those that the templates have) may request
    ``injected`` more: admission of others adds such containers. Of resources only those in ``limited`` are compared,
    which have quota anywhere; None: all.
    """
    pods, requests = 0, Counter[str]()
    for shape, count in shapes.items():
        pods += count
        more = injected if injected and known and not shape.containers <= known else None
        for name, amount in shape.requests.items():
            counted = max(0, amount - more.get(name, 0)) if more else amount
            requests[name] += counted * count
    found = [Excess("pods", pods, has.pods)] if pods > has.pods else []
    compared = sorted(requests if limited is None else requests.keys() & limited)
    over = (name for name in compared if requests[name] > has.requests.get(name, 0))
    return (*found, *(Excess(name, requests[name], has.requests.get(name, 0)) for name in over))


def counts(pod: Pod, now: float, terminating_seconds: float) -> bool:
    """Whether a pod counts as one that runs: not while it terminates, for so long at most."""
    return not pod.deleted or now - pod.deleted > terminating_seconds


def shapes_of(pods: Iterable[Pod]) -> Counter[Shape]:
    """How many pods of each shape these are."""
    return Counter(each.shape for each in pods)


def judge(
    charged: Sequence[Charged],
    has: Grant,
    workloads: Sequence[Workload],
    now: float,
    *,
    terminating_seconds: float,
    injected: Requests | None = None,
    known: frozenset[str] = frozenset(),
    limited: frozenset[str] | None = None,
) -> Verdict | None:
    """Returns what to stop so that no pod of a job runs without quota; None where all have it.

    A pod that only a label makes one of the job is deleted alone if the others have quota: its owner took it away from
    the job. Else the job is stopped, by the eviction of its Workloads. Where none of them has quota, or the job does
    not stop, the pods are deleted. So whoever puts pods below a job of others can do that only in one namespace, and
    pays with that job.
    """
    living = [each for each in charged if counts(each.pod, now, terminating_seconds)]
    found = excess(shapes_of(each.pod for each in living), has, injected=injected, known=known, limited=limited)
    if not found:
        return None
    end = tuple(each.pod for each in living if each.pod.deleted)
    strays = tuple(each.pod for each in living if each.stray and not each.pod.deleted)
    own = [each.pod for each in living if not each.stray and not each.pod.deleted]
    text = sentence(found)
    if not excess(shapes_of(own), has, injected=injected, known=known, limited=limited):
        return Verdict(text, delete=strays, end=end)
    holders = [each for each in workloads if holds(each)]
    evict = tuple(each.key for each in holders if not evicted_at(each))
    if evict or any(now - evicted_at(each) < STOPS_SECONDS for each in holders):
        return Verdict(text, evict, strays, end) if evict or strays or end else None
    return Verdict(text, delete=(*strays, *own), end=end)


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
