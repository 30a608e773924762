"""The unit in which State and the cycle work: cohort trees whose workloads can be in each other's way.

Quota is borrowed and reclaimed within one tree of cohorts, so a tree is an arena by itself. Nodes belong to no tree:
trees that use the same flavor with a topology (``ResourceFlavor.spec.topologyName``) place their pods on the same
nodes, and are one arena. The workloads of an arena become ready together, are woken by each other's releases, are
copied together, and are decided in one cycle; different arenas do not depend on each other.

Separate from ``core.quota.tree``, which knows quota alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from core.model import ClusterQueue, Key, ResourceFlavor
from core.quota.node import CohortNode, QueueNode
from core.quota.tree import Forest
from core.quota.usage import Reservation


@dataclass(slots=True)
class Arena:
    """Cohort trees that are decided together; only one, unless they share a flavor with a topology.

    ``name`` is that of its first tree. ``generation`` increases whenever quota has been released or a specification has
    changed: a search for flavors that was stopped starts again. ``readers`` counts the snapshots that read it: it must
    be copied before it changes.
    """

    name: str
    quota: Forest
    generation: int = 0
    readers: int = 0

    @property
    def queues(self) -> dict[str, QueueNode]:
        """Its ClusterQueues."""
        return self.quota.queues

    @property
    def cohorts(self) -> dict[str, CohortNode]:
        """Its Cohorts."""
        return self.quota.cohorts

    def copy(self) -> Arena:
        """Returns the same arena with separate usage; the specifications are shared."""
        return Arena(self.name, self.quota.copy(), self.generation)

    def reserve(self, key: Key, held: Reservation) -> None:
        """Counts a reservation."""
        self.quota.reserve(key, held)

    def release(self, key: Key, cluster_queue: str) -> Reservation | None:
        """Stops counting a reservation."""
        held = self.quota.release(key, cluster_queue)
        if held is not None:
            self.generation += 1
        return held

    def same_specification(self, other: Arena) -> bool:
        """Whether both have the same specifications, regardless of usage."""
        return self.name == other.name and self.quota.same_specification(other.quota)

    def check(self) -> None:
        """Asserts that stored usage equals usage computed from the reservations."""
        self.quota.check()


def shared_flavors(flavors: Mapping[str, ResourceFlavor]) -> set[str]:
    """Returns the flavors whose nodes several cohort trees use: those with a topology."""
    return {name for name, flavor in flavors.items() if flavor.topology_name is not None}


def shared_by(queue: ClusterQueue, shared: Collection[str]) -> Iterator[str]:
    """Returns which of these flavors a ClusterQueue uses."""
    return (flavor for group in queue.groups for flavor in group.flavors if flavor in shared) if shared else iter(())


def arenas_of(trees: Mapping[str, Forest], shared: Collection[str], generation: int) -> dict[str, Arena]:
    """Returns the arenas of these trees, by name: trees in which the same shared flavor is used are one arena."""
    together: dict[str, list[str]] = {root: [root] for root in trees}
    user: dict[str, str] = {}
    for root in sorted(trees) if shared else ():
        for queue in trees[root].queues.values():
            for flavor in shared_by(queue.spec, shared):
                _unite(together, user.setdefault(flavor, root), root)
    return {
        roots[0]: Arena(roots[0], Forest.of([trees[each] for each in roots]), generation)
        for root, roots in together.items()
        if root == roots[0]
    }


def _unite(together: dict[str, list[str]], one: str, other: str) -> None:
    mine, its = together[one], together[other]
    if mine is not its:
        mine[:] = sorted((*mine, *its))
        together.update(dict.fromkeys(its, mine))
