"""The input of a forecast: one arena as it is at a moment, without the State that keeps it.

All values in it are immutable and shared with State, so taking it costs a few references for each workload; it can be
sent to another process. A State is built of it for each run, and a question "what if" changes it first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from api.names import MULTIKUEUE_CONTROLLER, Condition, EvictedReason, PodsReadyReason
from api.objects import Key
from core.model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Labels,
    LocalQueue,
    Node,
    Requests,
    ResourceFlavor,
    Topology,
    Workload,
)
from core.model.policy import SchedulingPolicy
from core.model.workload import replace
from core.queue.admission_fair_sharing import Consumed
from core.state.state import State
from core.workload import transitions
from core.workload.actions import LifePolicy

_WAITS: Final = frozenset({Condition.QUOTA_RESERVED, Condition.ADMITTED})


@dataclass(frozen=True, slots=True)
class Situation:
    """An arena at ``now`` (epoch seconds). ``waiting`` are the workloads in its queues, ``holding`` those with quota,
    as State counts them: what a cycle has decided holds, even if it is not written yet.
    """

    arena: str
    now: float
    policy: SchedulingPolicy = field(default_factory=SchedulingPolicy)
    life: LifePolicy = field(default_factory=LifePolicy)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    topologies: Mapping[str, Topology] = field(default_factory=dict)
    checks: Mapping[str, AdmissionCheck] = field(default_factory=dict)
    cohorts: Mapping[str, Cohort] = field(default_factory=dict)
    cluster_queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    local_queues: Mapping[Key, LocalQueue] = field(default_factory=dict)
    consumed: Mapping[Key, Consumed] = field(default_factory=dict)
    namespaces: Mapping[str, Labels] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    others: Mapping[str, Requests] = field(default_factory=dict)
    waiting: tuple[Workload, ...] = ()
    holding: tuple[Workload, ...] = ()
    evicted: frozenset[Key] = frozenset()
    """Those that were evicted and still hold quota, in any arena."""

    def state(self, *, explains: bool = True) -> State:
        """Returns a new State with these objects, and no workload, which ``explains`` why workloads wait."""
        made = State(dataclasses.replace(self.policy, concurrent_admission=False), explains=explains)
        for name, labels in self.namespaces.items():
            made.set_namespace(name, labels)
        for name, topology in self.topologies.items():
            made.set_topology(name, topology)
        for name, flavor in self.flavors.items():
            made.set_flavor(name, flavor)
        for name, check in self.checks.items():
            made.set_admission_check(name, check)
        for name, cohort in self.cohorts.items():
            made.set_cohort(name, cohort)
        for name, queue in self.cluster_queues.items():
            made.set_cluster_queue(name, queue)
        for key, local_queue in self.local_queues.items():
            made.set_local_queue(key, local_queue)
            if key in self.consumed:
                made.local_queue_usage.set_consumed(key, self.consumed[key])
        for name, node in self.nodes.items():
            made.set_node(name, node)
        for name, requests in self.others.items():
            made.set_other_pods(name, requests)
        return made

    def queue_of(self, workload: Workload) -> str:
        """Returns the ClusterQueue in which a workload waits or holds quota; '' if it has no LocalQueue."""
        if workload.admission is not None:
            return workload.admission.cluster_queue
        found = self.local_queues.get(Key(workload.key.namespace, workload.queue))
        return found.cluster_queue if found is not None else ""

    def elsewhere(self, cluster_queue: str) -> bool:
        """Whether the workloads of a ClusterQueue run in worker clusters."""
        queue = self.cluster_queues.get(cluster_queue)
        return queue is not None and any(
            self.checks[rule.name].controller_name == MULTIKUEUE_CONTROLLER
            for rule in queue.checks
            if rule.name in self.checks
        )


def situation(state: State, arena: str, now: float, life: LifePolicy | None = None) -> Situation:
    """Returns one arena of State as it is at ``now``, in whole seconds as the API has them; changes nothing. Costs a
    reference for each of its workloads, so that it can be taken on the event loop: 0.5 ms for 10,000.
    """
    reservations, pending = state.reservations, state.pending
    here = reservations.arenas[arena]
    queues = {name: reservations.cluster_queues[name] for name in here.queues}
    used = {flavor for queue in queues.values() for group in queue.groups for flavor in group.flavors}
    flavors = {name: reservations.flavors[name] for name in sorted(used & reservations.flavors.keys())}
    named = {rule.name for queue in queues.values() for rule in queue.checks}
    placement = state.placement if any(flavor.topology_name for flavor in flavors.values()) else None
    keys = sorted(key for name in queues for key in pending.local_queues_of(name))
    local_queues = {key: pending.local_queues[key] for key in keys}
    ledger = state.local_queue_usage.ledger
    return Situation(
        arena=arena,
        now=float(int(now)),
        policy=state.policy,
        life=life or LifePolicy(),
        flavors=flavors,
        topologies=dict(placement.topologies) if placement is not None else {},
        checks={name: reservations.checks[name] for name in sorted(named & reservations.checks.keys())},
        cohorts={name: reservations.cohorts[name] for name in here.cohorts if name in reservations.cohorts},
        cluster_queues=queues,
        local_queues=local_queues,
        consumed={key: found for key in local_queues if (found := ledger.consumed(key)) is not None},
        namespaces={key.namespace: state.namespaces.get(key.namespace, {}) for key in local_queues},
        nodes=dict(placement.nodes) if placement is not None else {},
        others=dict(placement.others) if placement is not None else {},
        waiting=tuple([entry.workload for name in queues for entry in pending.queues[name]]),
        holding=tuple([held.workload for node in here.queues.values() for held in node.reserved.values()]),
        evicted=frozenset(reservations.evicted),
    )


def around(
    state: State, arenas: Iterable[str], local_queues: Iterable[Key], now: float, life: LifePolicy | None = None
) -> Situation:
    """Returns several arenas, with what waits in some LocalQueues besides, and with all flavors, checks and Topologies:
    for a question what a change would do, which may join arenas and use others of these. Costs as ``situation``.
    """
    parts = [situation(state, name, now, life) for name in arenas]
    reservations, pending = state.reservations, state.pending
    here = {each.key for part in parts for each in part.waiting}
    named = tuple(local_queues)
    more = [key for name in named for key in sorted(pending.by_local_queue.get(name, ())) if key not in here]
    local = {name: pending.local_queues[name] for name in named if name in pending.local_queues}
    placement = state.placement if any(each.topology_name for each in reservations.flavors.values()) else None
    return Situation(
        arena=", ".join(part.arena for part in parts),
        now=float(int(now)),
        policy=state.policy,
        life=life or LifePolicy(),
        flavors=dict(reservations.flavors),
        topologies=dict(placement.topologies) if placement is not None else {},
        checks=dict(reservations.checks),
        cohorts={name: cohort for part in parts for name, cohort in part.cohorts.items()},
        cluster_queues={name: queue for part in parts for name, queue in part.cluster_queues.items()},
        local_queues={key: queue for part in parts for key, queue in part.local_queues.items()} | local,
        consumed={key: found for part in parts for key, found in part.consumed.items()},
        namespaces={name: labels for part in parts for name, labels in part.namespaces.items()}
        | {name.namespace: state.namespaces.get(name.namespace, {}) for name in named},
        nodes=dict(placement.nodes) if placement is not None else {},
        others=dict(placement.others) if placement is not None else {},
        waiting=(*(each for part in parts for each in part.waiting), *(state.workloads[key] for key in more)),
        holding=tuple(each for part in parts for each in part.holding),
        evicted=frozenset(state.reservations.evicted),
    )


def alone(about: Situation) -> Situation:
    """Returns the situation as it can be played: nobody creates variants, victims have stopped, and the pods of what
    is admitted are ready.
    """
    return dataclasses.replace(
        about,
        waiting=tuple(_as_created(each) for each in about.waiting if not each.variant_of),
        holding=tuple(_as_counted(each, about.now, evicted=each.key in about.evicted) for each in about.holding),
        evicted=frozenset(),
    )


def with_workloads(before: Situation, workloads: Iterable[Workload]) -> Situation:
    """Returns the situation with more waiting workloads: for a question about a job that does not exist yet. Their
    namespaces exist; one that has no labels there has those that every namespace has.
    """
    more = tuple(workloads)
    spaces = {each.key.namespace: {"kubernetes.io/metadata.name": each.key.namespace} for each in more}
    return dataclasses.replace(before, waiting=(*before.waiting, *more), namespaces={**spaces, **before.namespaces})


def _as_created(workload: Workload) -> Workload:
    """Returns a waiting workload without why it waits."""
    if workload.parent:
        workload = replace(workload, parent=False)
    if workload.conditions and all(not each.status and each.type in _WAITS for each in workload.conditions):
        workload = replace(workload, conditions=())
    return workload


def _as_counted(workload: Workload, now: float, *, evicted: bool) -> Workload:
    if workload.variant_of or workload.parent:
        workload = replace(workload, variant_of="", parent=False)
    if evicted and not workload.holds(Condition.EVICTED):
        return transitions.preempted(workload, EvictedReason.PREEMPTED, "", now)
    if workload.holds(Condition.ADMITTED) and not workload.holds(Condition.PODS_READY):
        text, reason = "taken to be ready at once", PodsReadyReason.STARTED
        return transitions.condition(workload, Condition.PODS_READY, status=True, reason=reason, message=text, now=now)
    return workload
