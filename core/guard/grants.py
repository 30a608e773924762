"""What the Workloads of a job grant to its pods: how many may run, and what they may request together.

Separate from the comparison with what runs (``core.guard.judge``, ``core.guard.overlap``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from api import names
from core.model import Requests, Workload

STOPS_SECONDS: Final = 10.0
"""So long after its eviction a Workload's pods may run until their controller has stopped them."""
_OF_ENDED_JOBS: Final = frozenset(
    {names.FinishedReason.SUCCEEDED, names.FinishedReason.FAILED, names.FinishedReason.OWNER_NOT_FOUND}
)
"""The reasons of Finished after which a job runs no more; with others only this Workload of it is over."""


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


def granted(workloads: Iterable[Workload], now: float) -> Grant:
    """What the Workloads of one job grant to its pods: nothing some time after their eviction."""
    return reserved(each for each in workloads if not 0 < evicted_at(each) <= now - STOPS_SECONDS)


def reserved(workloads: Iterable[Workload]) -> Grant:
    """What the Workloads of one job hold: also those that are evicted, until their last pod is gone."""
    found = NOTHING
    for each in workloads:
        found = found | admitted(each)
    return found


def admitted(workload: Workload) -> Grant:
    """The admission of a Workload, without pods that were reclaimed; nothing if it holds no quota."""
    if not holds(workload):
        return NOTHING
    assert workload.admission is not None
    asked = {each.name: each for each in workload.pod_sets}
    pods, requests = 0, Counter[str]()
    for assigned in workload.admission.pod_sets:
        pod_set = asked.get(assigned.name)
        count = min(assigned.count, pod_set.count) if pod_set is not None else assigned.count
        count = max(0, count - workload.reclaimable.get(assigned.name, 0))
        each = {name: -(-used // assigned.count) for name, used in assigned.usage.items() if assigned.count}
        for asking in (pod_set.requests, pod_set.per_pod) if pod_set is not None else ():
            for name, amount in asking.items():  # an extended resource may count as another one, but a pod requests it
                each[name] = max(amount, each.get(name, 0))
        pods += count
        requests.update({name: amount * count for name, amount in each.items()})
    return Grant(pods, dict(requests))


def holds(workload: Workload) -> bool:
    """Whether a Workload holds quota."""
    reserves = workload.admission is not None and workload.holds(names.Condition.QUOTA_RESERVED)
    return reserves and not workload.holds(names.Condition.FINISHED)


def job_ended(workloads: Collection[Workload]) -> bool:
    """Whether a job has ended, by its Workloads: none is left that may run, and not only because others replaced it."""
    done = [each.condition(names.Condition.FINISHED) for each in workloads]
    return all(each is not None and each.status for each in done) and any(
        each is not None and each.reason in _OF_ENDED_JOBS for each in done
    )


def evicted_at(workload: Workload) -> float:
    """When a Workload was evicted that still holds quota, in seconds since the epoch; 0 for others."""
    evicted = workload.condition(names.Condition.EVICTED)
    return evicted.since if evicted is not None and evicted.status and holds(workload) else 0.0


def since(workloads: Iterable[Workload], now: float) -> float:
    """Since when a job has had quota, in seconds since the epoch; ``now`` if it has had none."""
    found = (each.condition(names.Condition.QUOTA_RESERVED) for each in workloads)
    return min((each.since for each in found if each is not None and each.status), default=now)
