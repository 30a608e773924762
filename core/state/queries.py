"""Queries about queues in addition to their status: queue positions, counts, shares.

Separate from ``core.state.queue_status``, which returns API objects. The visibility API, metrics, webhooks that warn
and `explain` use these queries, so their numbers agree. Read only.
"""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from api.names import AdmittedReason, Condition, PendingReason
from core.model import Key, Workload
from core.queue.queue import QueueEntry
from core.quota.reservations import local_queue_of
from core.quota.shares import share
from core.state.state import State

MAX_SHARE = 2**63 - 1
"""How the API shows an infinite share."""


STEP = 2_000
"""So many are counted in a millisecond or two."""


@dataclass(frozen=True, slots=True)
class PendingCounts:
    """Counts of pending workloads: active ones, and inadmissible ones, which need a change first."""

    active: int
    inadmissible: int


def pending(state: State, name: str) -> PendingCounts:
    """Returns the counts for a ClusterQueue. If it is not active, all its workloads are inadmissible."""
    queue = state.pending.queues.get(name)
    if queue is None:
        return PendingCounts(0, 0)
    active = queue.active if state.reservations.active_condition(name).active else 0
    return PendingCounts(active, len(queue) - active)


def pending_groups(state: State, name: str) -> PendingCounts:
    """How many groups of workloads that are judged together wait for a ClusterQueue. Costs their number."""
    queue = state.pending.queues.get(name)
    if queue is None:
        return PendingCounts(0, 0)
    active, inadmissible = queue.groups()
    if state.reservations.active_condition(name).active:
        return PendingCounts(len(active), len(inadmissible))
    return PendingCounts(0, len(active | inadmissible))


def why_unadmitted(workload: Workload) -> tuple[str, str] | None:
    """Reason and underlying cause for which a workload is not admitted; None where it is, is finished or is deleted,
    and for a variant, whose parent counts.
    """
    over = workload.deleting or workload.holds(Condition.FINISHED)
    if over or workload.variant_of or workload.holds(Condition.ADMITTED):
        return None
    admitted, reserved = workload.condition(Condition.ADMITTED), workload.condition(Condition.QUOTA_RESERVED)
    reason = admitted.reason if admitted is not None else AdmittedReason.NO_RESERVATION
    if reserved is None:
        return reason, PendingReason.PENDING_EVALUATION
    return reason, "" if reserved.status else reserved.reason


def pending_locally(state: State, key: Key) -> Generator[None, None, PendingCounts]:
    """Counts the workloads that wait in a LocalQueue. The cost depends on their number; the function yields after every
    ``STEP`` of them, and workloads that arrive or leave meanwhile may be counted or not.
    """
    local_queue = state.pending.local_queues.get(key)
    waiting = state.pending.by_local_queue.get(key, {})
    queue = state.pending.queues.get(local_queue.cluster_queue) if local_queue is not None else None
    if queue is None:
        return PendingCounts(0, len(waiting))
    looked_at = local_queue is not None and state.reservations.active_condition(local_queue.cluster_queue).active
    active = inadmissible = 0
    for number, each in enumerate(tuple(waiting), start=1):
        entry = queue.get(each)
        if looked_at and entry is not None and queue.is_active(entry):
            active += 1
        else:
            inadmissible += 1
        if number % STEP == 0:
            yield
    return PendingCounts(active, inadmissible)


def asked(state: State, name: str) -> dict[str, int]:
    """Returns what all workloads that wait for a ClusterQueue request, by resource. The cost depends on the number of
    different requests.
    """
    queue = state.pending.queues.get(name)
    found: dict[str, int] = {}
    for demand, count in queue.demands() if queue is not None else ():
        for total in demand.totals:
            for resource, amount in total.requests.items():
                found[resource] = found.get(resource, 0) + amount * count
    return found


def weighted_share(state: State, name: str) -> float | None:
    """Returns the weighted share of a ClusterQueue; None without fair sharing, or if the ClusterQueue does not
    exist.
    """
    node = state.reservations.node(name) if state.policy.fair_sharing is not None else None
    return share(node).weighted if node is not None else None


def cohort_share(state: State, name: str) -> float | None:
    """The weighted share of a Cohort; None without fair sharing, or where its parents run in a circle."""
    if state.policy.fair_sharing is None:
        return None
    node = state.reservations.cohort_node(name)
    return share(node).weighted if node is not None else None


def shown_share(value: float) -> int:
    """A weighted share as the API shows it: rounded up, the greatest number for infinity."""
    return MAX_SHARE if math.isinf(value) else math.ceil(value)


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The queue position of a pending workload, counted from 0."""

    workload: Workload
    in_cluster_queue: int
    in_local_queue: int
    active: bool


PIECE: Final = 500
"""So many workloads are sorted, or listed, between two pauses: half a millisecond. Each has a new key meanwhile: some
thousands of these at once would start a collection of garbage, which takes milliseconds.
"""
_LISTED: Final = 4 * PIECE
"""So many are looked up between two pauses."""


def order_in_steps(
    state: State, name: str, before: Sequence[QueueEntry] = ()
) -> Generator[None, None, list[QueueEntry]]:
    """Returns all that wait for a ClusterQueue, in the order in which they are decided; yields where the caller may
    pause. Costs n log n, and much less with the order ``before``, if most of it is still true.

    The workloads are those of the first step. One that is removed during a pause is still returned.
    """
    queue = state.pending.queues.get(name)
    if queue is None:
        return []
    usage = dict(state.pending.local_usage) if queue.by_local_queue else {}
    first = queue.get(queue.sticky) if queue.sticky is not None and not queue.by_local_queue else None
    rank = queue.rank(usage) if queue.by_local_queue else attrgetter("key")
    waiting, known = list(queue), list[QueueEntry]()
    if before:
        known, waiting = yield from _known_and_new(before, waiting)
    pieces: list[list[QueueEntry]] = []
    for entries in (known, waiting):
        for start in range(0, len(entries), PIECE):
            piece = sorted(entries[start : start + PIECE], key=rank)
            if pieces and rank(pieces[-1][-1]) <= rank(piece[0]):
                pieces[-1] += piece
            else:
                pieces.append(piece)
            yield
    found = yield from _merged(pieces, rank)
    if first is not None:
        found.remove(first)
        found.insert(0, first)
    return found


def _known_and_new(
    before: Sequence[QueueEntry], waiting: Sequence[QueueEntry]
) -> Generator[None, None, tuple[list[QueueEntry], list[QueueEntry]]]:
    """Returns those of an earlier order that still wait, in that order, and the others that wait."""
    new, known, others = set[QueueEntry](), list[QueueEntry](), list[QueueEntry]()
    for start in range(0, len(waiting), _LISTED):
        new.update(waiting[start : start + _LISTED])
        yield
    for start in range(0, len(before), _LISTED):
        piece = before[start : start + _LISTED]
        known += [entry for entry in piece if entry in new]
        new.difference_update(piece)
        yield
    for start in range(0, len(waiting), _LISTED):
        if new:
            others += [entry for entry in waiting[start : start + _LISTED] if entry in new]
            yield
    return known, others


def _merged(
    pieces: list[list[QueueEntry]], rank: Callable[[QueueEntry], Any]
) -> Generator[None, None, list[QueueEntry]]:
    """Returns the entries of sorted lists in one: some are inserted into a long list, many are merged."""
    if not pieces:
        return []
    found, *others = pieces
    if sum(map(len, others)) <= PIECE // 5:
        for entry in chain.from_iterable(others):
            insort(found, entry, key=rank)
        return found
    merged: list[QueueEntry] = []
    for entry in heapq.merge(*pieces, key=rank):
        merged.append(entry)
        if len(merged) % PIECE == 0:
            yield
    return merged


def places_in_steps(state: State, name: str) -> Iterator[QueuePlace | None]:
    """Yields all that wait for a ClusterQueue, in order, and None where the caller may pause. Costs n log n.

    The workloads are those of the first step. One that is removed during a pause is still yielded.
    """
    queue = state.pending.queues.get(name)
    if queue is None:
        return
    order = yield from order_in_steps(state, name)
    seen: dict[Key, int] = {}
    for position, entry in enumerate(order):
        if position % PIECE == PIECE - 1:
            yield None
        local_queue = local_queue_of(entry.workload)
        before = seen.get(local_queue, 0)
        seen[local_queue] = before + 1
        yield QueuePlace(entry.workload, position, before, queue.is_active(entry))


def places(state: State, name: str) -> list[QueuePlace]:
    """All that wait for a ClusterQueue, in order. Costs n log n."""
    return [each for each in places_in_steps(state, name) if each is not None]


def place(state: State, key: Key) -> QueuePlace | None:
    """Returns the queue position of one workload; None if it is not queued."""
    name = state.pending.where(key)
    return next((each for each in places(state, name) if each.workload.key == key), None) if name else None
