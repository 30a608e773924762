"""Predicts the decision about a workload that does not exist yet, for the warning that it has to wait.

Separate from the cycle, which decides heads only: the new workload is decided as if it were the only head, on a copy of
its arena. The cost is bounded, because an admission request waits for the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from core.model import Admission, Decision, FlavorResource, Reserve, Victim, Workload
from core.quota.arena import Arena
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
    newcomer = state.pending.with_shared_pod_sets(newcomer)
    arena, demand = reservations.arenas[name], state.pending.demands.of(newcomer)
    node = arena.queues[cluster_queue]
    head = Head(newcomer, cluster_queue, demand, newcomer.created)
    preemptor = Preemptor(head, arena, node, state.policy)
    if not node.spec.fungibility.prefers_preemption and preemptor.hopeless(node.spec.quotas):
        return False
    if _too_large(arena):
        return None
    if more:
        arena = _with(arena, more)
    snapshot = Snapshot(
        arenas={name: arena},
        arena_of={cluster_queue: name},
        flavors=reservations.flavors,
        namespaces=state.namespaces,
        local_usage=state.pending.local_usage,
    )
    (decision,) = schedule(snapshot, [head], state.policy, state.pending.now).decisions
    return isinstance(decision, Reserve) or bool(decision.victims)


class NewcomerDecision(NamedTuple):
    """What the next cycle would decide about a workload that does not exist yet: the admission that it gets, now or
    when the victims are gone; None if it waits.
    """

    admission: Admission | None
    victims: tuple[Victim, ...] = ()


def outcome(
    state: State,
    cluster_queue: str,
    newcomer: Workload,
    more: Mapping[str, Mapping[FlavorResource, int]] | None = None,
) -> NewcomerDecision | None:
    """Returns the outcome for a new workload as the only head, with everything else as ``starts`` has it, and with its
    place in a topology; None if the computation takes too long.
    """
    name = state.reservations.arena_of.get(cluster_queue)
    if name is None:
        return NewcomerDecision(None)
    arena = state.reservations.arenas[name]
    if _too_large(arena):
        return None
    arena = _with(arena, more) if more else arena
    decision = _decided(state, arena, cluster_queue, newcomer)
    if isinstance(decision, Reserve):
        return NewcomerDecision(decision.admission)
    if not decision.victims:
        return NewcomerDecision(None)
    after = arena.copy()
    for victim in decision.victims:
        after.release(victim.workload.key, victim.cluster_queue)
    then = _decided(state, after, cluster_queue, newcomer)
    return NewcomerDecision(then.admission if isinstance(then, Reserve) else None, decision.victims)


def _decided(state: State, arena: Arena, cluster_queue: str, newcomer: Workload) -> Decision:
    placement = state.placement
    snapshot = Snapshot(
        arenas={arena.name: arena},
        arena_of={cluster_queue: arena.name},
        flavors=state.reservations.flavors,
        namespaces=state.namespaces,
        local_usage=state.pending.local_usage,
        pods_ready=not state.reservations.unready,
        topologies=None if placement is None else placement.topologies,
    )
    newcomer = state.pending.with_shared_pod_sets(newcomer)
    head = Head(newcomer, cluster_queue, state.pending.demands.of(newcomer), newcomer.created)
    return schedule(snapshot, [head], state.policy, state.pending.now).decisions[0]


def _too_large(arena: Arena) -> bool:
    return len(arena.queues) > QUEUES or sum(len(queue.reserved) for queue in arena.queues.values()) > HOLDERS


def _with(arena: Arena, more: Mapping[str, Mapping[FlavorResource, int]]) -> Arena:
    """Returns the arena with additional usage."""
    other = arena.copy()
    for name in more.keys() & other.queues.keys():
        other.queues[name].add(more[name])
    return other
