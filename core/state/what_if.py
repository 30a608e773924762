"""What the scheduler would make of a workload that is not there yet, for those who are told so while they wait.

Separate from the cycle, which looks at heads only: the newcomer is judged as if it were the only head, on a copy of its
tree. Bounded, because an admission request waits for it.
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
"""ClusterQueues in a tree that is still looked at: it is copied."""
HOLDERS: Final = 100
"""Workloads in it that hold quota: a search that needs all of them as victims takes 2.5 ms."""


def starts(
    state: State,
    cluster_queue: str,
    newcomer: Workload,
    more: Mapping[str, Mapping[FlavorResource, int]] | None = None,
) -> bool | None:
    """Whether the newcomer would be admitted as things are, if need be by preemption; None where finding out takes too
    long. ``more`` is what counts as in use on top, by ClusterQueue.
    """
    reservations = state.reservations
    root = reservations.roots.get(cluster_queue)
    if root is None:
        return False
    tree, demand = reservations.trees[root], state.pending.demands.of(newcomer)
    node = tree.queues[cluster_queue]
    head = Head(newcomer, cluster_queue, demand, newcomer.created)
    if Preemptor(head, node, state.policy).hopeless(node.spec.quotas):
        return False
    if len(tree.queues) > QUEUES or sum(len(queue.reserved) for queue in tree.queues.values()) > HOLDERS:
        return None
    if more:
        tree = tree.copy()
        for name in more.keys() & tree.queues.keys():
            tree.queues[name].add_all(more[name])
    snapshot = Snapshot(
        trees={root: tree},
        roots={cluster_queue: root},
        flavors=reservations.flavors,
        namespaces=state.namespaces,
        local_usage=state.pending.local_usage,
    )
    (decision,) = schedule(snapshot, [head], state.policy, state.pending.now).decisions
    return isinstance(decision, Reserve) or bool(decision.victims)
