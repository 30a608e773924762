"""The LocalQueues that a rule recommends if the job's own queue is not suitable."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Final

from core.feedback.rules import shortened
from core.feedback.submission import Submission
from core.matching import placement
from core.model import ClusterQueue, Key, StopPolicy
from core.state.lookup import Lookup

MOST: Final = 8
"""The maximum number of LocalQueues that are checked for one finding, because a request waits for it."""


def elsewhere(job: Submission, lookup: Lookup, suits: Callable[[ClusterQueue], bool], could: str) -> str:
    """``LocalQueue "other" {could}`` for the first other queue of the namespace that admits jobs and suits, else ''."""
    return next((f'LocalQueue "{shortened(name)}" {could}' for name in _suiting(job, lookup, suits)), "")


def taking(job: Submission, lookup: Lookup, suits: Callable[[ClusterQueue], bool]) -> list[str]:
    """The names of the other queues of the namespace that admit jobs and suit, one for each ClusterQueue."""
    return list(_suiting(job, lookup, suits))


def _suiting(job: Submission, lookup: Lookup, suits: Callable[[ClusterQueue], bool]) -> Iterator[str]:
    """Yields queues that admit jobs of the namespace now: neither they nor their ClusterQueues are stopped or
    inactive.
    """
    seen: set[str] = set()
    for name in heapq.nsmallest(MOST, (each for each in lookup.local_queue_names(job.namespace) if each != job.queue)):
        queue = _admitting(Key(job.namespace, name), lookup)
        if queue is not None and queue.name not in seen and suits(queue):
            yield name
        seen.add(queue.name if queue is not None else "")


def _admitting(key: Key, lookup: Lookup) -> ClusterQueue | None:
    local = lookup.local_queue(key)
    if local is None or local.deleting or local.stop_policy != StopPolicy.NONE:
        return None
    queue, condition = lookup.cluster_queue(local.cluster_queue), lookup.active_condition(local.cluster_queue)
    labels = lookup.namespace_labels(key.namespace)
    if queue is None or condition is None or not condition.active or queue.namespace_selector is None or labels is None:
        return None
    return queue if placement.matches(queue.namespace_selector, labels) else None
