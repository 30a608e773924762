"""One queue: its workloads in the order in which they are decided, each with why it waits; and those that run.

Separate from ``core.explain.standing``, which answers about one LocalQueue in the form of the visibility API: here a
reader may see workloads of several namespaces, and those that he may not see are counted in their places.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Final

from api import quantity
from api.names import Condition
from core.explain.sight import Sight
from core.explain.standing import LONGEST_MESSAGE, lacking
from core.forecast.run_times import RunTimes, elapsed, limit
from core.model import Key, Raw, Workload
from core.model.forecast import StartForecast
from core.page.overview import is_ready
from core.queue.queue import QueueEntry
from core.quota.usage import Reservation
from core.state.queue_status import why_waiting
from core.state.state import State

STEP: Final = 4
"""So many workloads are described between two pauses."""
SORTED: Final = 500
"""So many workloads are put in order between two pauses: less than a millisecond."""
PageSteps = Generator[None, None, list[Raw]]
ForecastOf = Callable[[Key], StartForecast | None]
JobOf = Callable[[Key], str]
"""Returns the name of the job of a Workload, '' if it has none."""


def line(
    state: State,
    name: str,
    order: Sequence[tuple[int, QueueEntry]],
    sight: Sight,
    forecast: ForecastOf,
    job_of: JobOf,
    now: float,
) -> PageSteps:
    """Returns the rows of waiting workloads with their queue positions from 0; yields where the caller may pause. What
    many of them ask for, and lack, is worked out once.
    """
    node = state.reservations.node(name)
    found: list[Raw] = []
    asked = dict[int, tuple[object, Raw]]()  # by identity, which an object has as long as it is kept here
    lacks = dict[int, list[Raw]]()  # by the identity of demands, which ``order`` keeps
    for number, (position, entry) in enumerate(order):
        key = entry.workload.key
        workload = state.workloads.get(key)
        if workload is None or state.pending.where(key) != name:
            continue  # it has started or is gone since the order was computed
        if not sight.names(key):
            found.append({"position": position, "priority": workload.priority, "hidden": True})
            continue
        reason, message = why_waiting(state, workload, sight.named)
        start = forecast(key)
        pod_sets, demand = id(workload.pod_sets), id(entry.demand)
        if pod_sets not in asked:
            asked[pod_sets] = (workload.pod_sets, asks(workload))
        if demand not in lacks:
            lacks[demand] = [] if node is None else list(lacking(node, entry.demand))
        found.append(
            {
                "position": position,
                **_named(key, job_of),
                "queue": workload.queue,
                "priority": workload.priority,
                "created": workload.created,
                **asked[pod_sets][1],
                "reason": reason,
                "message": message[:LONGEST_MESSAGE],
                "lacking": lacks[demand],
                **({} if start is None else {"start": start_of(start, now)}),
            }
        )
        if number % STEP == STEP - 1:
            yield
    return found


def running(
    held: Sequence[Reservation], sight: Sight, run_times: RunTimes | None, job_of: JobOf, now: float
) -> PageSteps:
    """Returns the rows of workloads that hold quota, in the order given; yields where the caller may pause."""
    found: list[Raw] = []
    for number, each in enumerate(held):
        workload = each.workload
        if not sight.names(workload.key):
            found.append({"priority": workload.priority, "hidden": True})
            continue
        found.append(
            {
                **_named(workload.key, job_of),
                "queue": workload.queue,
                "priority": workload.priority,
                "since": since(each),
                "ready": is_ready(each),
                "evicted": each.evicted,
                "uses": [
                    {"flavor": fr.flavor, "resource": fr.resource, "amount": amount}
                    for fr, amount in sorted(each.usage.quota.items())
                ],
                **({"cluster": workload.cluster_name} if workload.cluster_name else {}),
                **_ends(workload, run_times, now),
            }
        )
        if number % STEP == STEP - 1:
            yield
    return found


def latest(held: Sequence[Reservation], count: int) -> Generator[None, None, list[Reservation]]:
    """Returns so many workloads that hold quota, the one that got it last first. Yields between two parts."""
    parts = []
    for place in range(0, len(held), SORTED):
        parts.append(sorted(held[place : place + SORTED], key=_latest_first))
        yield
    merged, found = heapq.merge(*parts, key=_latest_first), list[Reservation]()
    while part := list(islice(merged, min(SORTED, count - len(found)))):
        found += part
        yield
    return found


def _latest_first(held: Reservation) -> tuple[float, Key]:
    return -since(held), held.workload.key


def since(held: Reservation) -> float:
    """Returns when a workload got its quota, in epoch seconds."""
    reserved = held.workload.condition(Condition.QUOTA_RESERVED)
    return reserved.since if reserved is not None else 0.0


def asks(workload: Workload) -> Raw:
    """Returns what a workload asks for: the number of its pods, and their total by resource."""
    total: dict[str, int] = {}
    for pod_set in workload.pod_sets:
        for resource, amount in pod_set.requests.items():
            total[resource] = total.get(resource, 0) + amount * pod_set.count
    return {
        "pods": sum(pod_set.count for pod_set in workload.pod_sets),
        "asks": [{"resource": name, "text": quantity.text(name, total[name])} for name in sorted(total)],
    }


def start_of(start: StartForecast, now: float) -> Raw:
    """Returns a forecast as the page shows it: a clause, and the seconds from now that it stands for."""
    if not start.known:
        return {"unknown": start.unknown}
    low, middle, high = start.remaining(now) or (0.0, 0.0, 0.0)
    return {"text": start.expected(now), "p10": low, "p50": middle, "p90": high, "flavors": list(start.flavors)}


def _named(key: Key, job_of: JobOf) -> Raw:
    return {"namespace": key.namespace, "name": key.name, "job": job_of(key)}


def _ends(workload: Workload, run_times: RunTimes | None, now: float) -> Raw:
    """When it is expected to end, in seconds from now, by the run times of those like it, and its own limit."""
    if run_times is None:
        return {}
    ran = elapsed(workload, now)
    left = run_times(workload, ran).capped(limit(workload, ran))
    if not left.known:
        return {}
    return {"ends": {"p10": left.at(0.1), "p50": left.at(0.5), "p90": left.at(0.9), "restsOn": left.rests_on}}
