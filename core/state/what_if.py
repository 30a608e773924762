"""Predicts the decision about a workload that does not exist yet, for the warning that it has to wait.

Separate from the cycle, which decides heads only: the new workload is decided as if it were the only head, on a copy of
its arena. The cost is bounded, because an admission request waits for the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from core.model import FlavorResource, Reserve, Workload
from core.scheduling.cycle import schedule
from core.scheduling.preemption.candidates import Preemptor
from core.scheduling.snapshot import Head, Snapshot
from core.state.state import State

QUEUES: Final = 100
"""The maximum number of ClusterQueues in an arena: the arena is copied."""
HOLDERS: Final = 100
"""The maximum number of workloads in it that hold quota: a search that needs all of them as victims takes 2.5 ms."""


def starts(
    state: State,
    cluster_queue: str,
    newcomer: Workload,
    more: Mapping[str, Mapping[FlavorResource, int]] | None = None,
) -> bool | None:
    """Whether the new workload would be admitted now, if necessary by preemption; None if the computation takes too
    long. ``more`` is additional usage, by ClusterQueue. A workload that does not fit beside the others, and for which
    nobody can be preempted, costs no copy of the arena (unless its queue prefers preemption to borrowing).
    """
    reservations = state.reservations
    name = reservations.arena_of.get(cluster_queue)
    if name is None:
        return False
    arena, demand = reservations.arenas[name], state.pending.demands.of(newcomer)
    node = arena.queues[cluster_queue]
    head = Head(newcomer, cluster_queue, demand, newcomer.created)
    preemptor = Preemptor(head, arena, node, state.policy)
    if not node.spec.fungibility.prefers_preemption and preemptor.hopeless(node.spec.quotas):
        return False
    if len(arena.queues) > QUEUES or sum(len(queue.reserved) for queue in arena.queues.values()) > HOLDERS:
        return None
    if more:
        arena = arena.copy()
        for other in more.keys() & arena.queues.keys():
            arena.queues[other].add(more[other])
    snapshot = Snapshot(
        arenas={name: arena},
        arena_of={cluster_queue: name},
        flavors=reservations.flavors,
        namespaces=state.namespaces,
        local_usage=state.pending.local_usage,
    )
    (decision,) = schedule(snapshot, [head], state.policy, state.pending.now).decisions
    return isinstance(decision, Reserve) or bool(decision.victims)
