"""What a Workload's life depends on, gathered from State in one place for the controller, ``simulate`` and
``explain``.
"""

from __future__ import annotations

from core.model import Key, Raw, Workload
from core.state.state import State
from core.workload.actions import LifePolicy, Surroundings
from core.workload.priority import PriorityClasses


def surroundings(
    state: State,
    workload: Workload,
    now: float,
    policy: LifePolicy | None = None,
    *,
    raw: Raw | None = None,
    classes: PriorityClasses | None = None,
) -> Surroundings:
    """The surroundings of a Workload as State knows them; without ``policy`` those of an empty Configuration. The rest
    is what the caller has.
    """
    local_queue = state.pending.local_queues.get(Key(workload.key.namespace, workload.queue))
    cluster_queue = state.reservations.cluster_queues.get(local_queue.cluster_queue) if local_queue else None
    return Surroundings(
        now=now,
        policy=policy or LifePolicy(),
        local_queue=local_queue,
        cluster_queue=cluster_queue,
        active=cluster_queue is not None and state.reservations.active_condition(cluster_queue.name).active,
        namespace=state.namespaces.get(workload.key.namespace),
        bypassed=state.pending.bypassed(workload.key),
        replacement=state.kinship.replacement(workload),
        raw=raw,
        classes=classes,
    )
