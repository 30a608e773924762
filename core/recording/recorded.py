"""A State that keeps an entry of everything that it is given, and of every cycle: the recorder's one seam.

An entry has references to values that never change, so that a change costs a call; nothing here encodes or waits. What
State does itself is not kept: it follows from its input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from core.model import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    Key,
    Labels,
    LocalQueue,
    Node,
    Plan,
    Requests,
    ResourceFlavor,
    Topology,
    Workload,
)
from core.model.policy import SchedulingPolicy
from core.queue.admission_fair_sharing import Consumed
from core.recording import entries as form
from core.recording.entries import Opening, RecordingEntry, Taken, head_record, planned
from core.scheduling.snapshot import Head
from core.state.local_queue_usage import LocalQueueUsage
from core.state.state import State

if TYPE_CHECKING:
    from core.queue.routing import PendingWorkloads
    from core.quota.reservations import Reservations

Keep = Callable[[Callable[[], RecordingEntry]], None]
"""Takes what makes an entry; it is called later, elsewhere."""


class RecordedUsage(LocalQueueUsage):
    """The usage of LocalQueues, which keeps what it is given."""

    def __init__(self, pending: PendingWorkloads, reservations: Reservations, keep: Keep) -> None:
        super().__init__(pending, reservations)
        self._keep = keep

    def set_consumed(self, key: Key, consumed: Consumed | None) -> None:
        """As ``LocalQueueUsage``."""
        self._keep(lambda: form.ConsumedSet(key, consumed))
        super().set_consumed(key, consumed)

    def sample(self, now: float) -> dict[Key, Consumed]:
        """As ``LocalQueueUsage``."""
        self._keep(lambda: form.UsageSampled(now))
        return super().sample(now)


class RecordedState(State):
    """State; ``keep`` gets the entries in their order. ``open_again``: the next cycle begins with an ``Opening``, which
    ``begin`` gets.
    """

    def __init__(self, policy: SchedulingPolicy | None, keep: Keep, begin: Keep | None = None) -> None:
        super().__init__(policy)
        self._keep = keep
        self._begin = begin or keep
        self._inside = 0
        self._applied = self._kept = 0
        self.open_again = False
        self.local_queue_usage = RecordedUsage(self.pending, self.reservations, self._keep_in_order)
        chosen = self.policy
        keep(lambda: Opening(at=0.0, policy=chosen, complete=True))

    def _keep_in_order(self, made: Callable[[], RecordingEntry]) -> None:
        """Keeps an entry, after how far the plan was applied before it; not what State calls itself."""
        if self._inside:
            return
        if self._applied != self._kept:
            number = self._kept = self._applied
            self._keep(lambda: form.Applied(number))
        self._keep(made)

    def set_flavor(self, name: str, flavor: ResourceFlavor | None) -> None:
        """As ``State``, and so all below."""
        self._keep_in_order(lambda: form.FlavorSet(name, flavor))
        super().set_flavor(name, flavor)

    def set_topology(self, name: str, topology: Topology | None) -> None:
        """Sets a Topology."""
        self._keep_in_order(lambda: form.TopologySet(name, topology))
        super().set_topology(name, topology)

    def set_node(self, name: str, node: Node | None) -> None:
        """Sets a Node."""
        self._keep_in_order(lambda: form.NodeSet(name, node))
        super().set_node(name, node)

    def set_other_pods(self, name: str, requests: Requests) -> None:
        """Sets what other pods use."""
        self._keep_in_order(lambda: form.OthersSet(name, requests))
        super().set_other_pods(name, requests)

    def set_admission_check(self, name: str, check: AdmissionCheck | None) -> None:
        """Sets an AdmissionCheck."""
        self._keep_in_order(lambda: form.CheckSet(name, check))
        super().set_admission_check(name, check)

    def set_cohort(self, name: str, cohort: Cohort | None) -> None:
        """Sets a Cohort."""
        self._keep_in_order(lambda: form.CohortSet(name, cohort))
        super().set_cohort(name, cohort)

    def set_cluster_queue(self, name: str, queue: ClusterQueue | None) -> None:
        """Sets a ClusterQueue."""
        self._keep_in_order(lambda: form.ClusterQueueSet(name, queue))
        super().set_cluster_queue(name, queue)

    def set_local_queue(self, key: Key, queue: LocalQueue | None) -> None:
        """Sets a LocalQueue."""
        self._keep_in_order(lambda: form.LocalQueueSet(key, queue))
        super().set_local_queue(key, queue)

    def set_namespace(self, name: str, labels: Labels | None) -> None:
        """Sets the labels of a namespace."""
        kept = None if labels is None else dict(labels)
        self._keep_in_order(lambda: form.NamespaceSet(name, kept))
        super().set_namespace(name, labels)

    def set_workload(self, key: Key, workload: Workload | None) -> None:
        """Sets a Workload."""
        if workload is None:
            self._keep_in_order(lambda: form.WorkloadGone(key))
        else:
            given = workload
            self._keep_in_order(lambda: form.WorkloadSet(given))
        super().set_workload(key, workload)

    def unassume(self, key: Key, not_before: float = 0.0) -> None:
        """Withdraws a decision."""
        self._keep_in_order(lambda: form.DecisionWithdrawn(key, not_before))
        super().unassume(key, not_before)

    def stop_until_changed(self) -> None:
        """Ends a drain."""
        self._keep_in_order(form.Stopped)
        super().stop_until_changed()

    def heads(self, now: float) -> tuple[Head, ...]:
        """Takes the heads; begins another recording if that is wanted."""
        if self.open_again and not self.placed_anew:
            self.open_again = False
            self._begin(opening(self, now))
        found = super().heads(now)
        cycle, arenas, arena_of = self._cycle, self.reservations.arenas, self.reservations.arena_of
        names = dict.fromkeys(arena_of[head.cluster_queue] for head in found if head.cluster_queue in arena_of)
        generations = {name: arenas[name].generation for name in names}
        self._keep_in_order(lambda: Taken(now, cycle, tuple(map(head_record, found)), generations))
        return found

    def applying(self, plan: Plan) -> Iterator[None]:
        """Applies a plan."""
        self._keep_in_order(lambda: planned(plan))
        self._applied = self._kept = 0
        for _ in super().applying(plan):
            self._applied += 1
            yield
        self._keep(lambda: form.Applied(-1))
        self._applied = self._kept = 0


def opening(state: State, at: float) -> Callable[[], Opening]:
    """Returns what makes the Opening of a State between two cycles: references to what it holds now, a few for each
    object.
    """
    reservations, placement, ledger = state.reservations, state.placement, state.local_queue_usage.ledger
    held = [reservations.get(key) for key in sorted(state.assumed_keys)]
    parts = {
        "policy": state.policy,
        "cycle": state.cycle,
        "namespaces": dict(state.namespaces),
        "topologies": dict(placement.topologies) if placement is not None else {},
        "flavors": dict(reservations.flavors),
        "checks": dict(reservations.checks),
        "cohorts": dict(reservations.cohorts),
        "cluster_queues": dict(reservations.cluster_queues),
        "local_queues": tuple(state.pending.local_queues.values()),
        "consumed": tuple((key, used) for key in state.pending.local_queues if (used := ledger.consumed(key))),
        "nodes": tuple(placement.nodes.values()) if placement is not None else (),
        "others": dict(placement.others) if placement is not None else {},
        "workloads": tuple(state.workloads.values()),
        "holding": tuple(each.workload for each in held if each is not None),
        "evicting": tuple(sorted(state.evicting_keys)),
        "penalties": tuple(ledger.penalties()),
    }
    return lambda: Opening(at=at, **parts)  # type: ignore[arg-type]
