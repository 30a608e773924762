"""Predicts the decision about a workload that does not exist yet, for the warning that it has to wait.

Separate from the cycle, which decides heads only: the new workload is decided as if it were the only head, on a copy of
its tree. The cost is bounded, because an admission request waits for the answer.
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
"""The maximum number of ClusterQueues in a tree: the tree is copied."""
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
    nobody can be preempted, costs no copy of the tree (unless its queue prefers preemption to borrowing).
    """
    reservations = state.reservations
    root = reservations.roots.get(cluster_queue)
    if root is None:
        return False
    tree, demand = reservations.trees[root], state.pending.demands.of(newcomer)
    node = tree.queues[cluster_queue]
    head = Head(newcomer, cluster_queue, demand, newcomer.created)
    if not node.spec.fungibility.prefers_preemption and Preemptor(head, node, state.policy).hopeless(node.spec.quotas):
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
