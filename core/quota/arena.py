"""The unit in which State and the cycle work: cohort trees whose workloads can be in each other's way.

Quota is borrowed and reclaimed within one tree of cohorts, so a tree is an arena by itself. Nodes belong to no tree:
trees that use the same flavor with a topology (``ResourceFlavor.spec.topologyName``) place their pods on the same
nodes, and are one arena. The workloads of an arena become ready together, are woken by each other's releases, are
copied together, and are decided in one cycle; different arenas do not depend on each other.

Separate from ``core.quota.tree``, which knows quota alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from core.model import Admission, ClusterQueue, Key, ResourceFlavor, Workload
from core.quota.capacity import Amounts, CapacityKind, FurtherCapacity, Shortage
from core.quota.node import CohortNode, QueueNode
from core.quota.tree import Forest
from core.quota.usage import Reservation, Usage


@dataclass(slots=True)
class Arena:
    """Cohort trees that are decided together; only one, unless they share a flavor with a topology.

    ``name`` is that of its first tree. ``generation`` increases whenever quota has been released or a specification has
    changed: a search for flavors that was stopped starts again. ``readers`` counts the snapshots that read it: it must
    be copied before it changes.
    """

    name: str
    quota: Forest
    kinds: tuple[CapacityKind, ...] = ()
    """The kinds of ``further`` capacity, in the order in which they are asked."""
    further: dict[str, FurtherCapacity] = field(default_factory=dict)
    generation: int = 0
    totals: int = 0
    """Increases whenever there is more or less of a further capacity in total."""
    readers: int = 0
    queues: dict[str, QueueNode] = field(init=False)
    cohorts: dict[str, CohortNode] = field(init=False)

    def __post_init__(self) -> None:
        self.queues, self.cohorts = self.quota.queues, self.quota.cohorts

    def copy(self, queues: Collection[str] | None = None) -> Arena:
        """Returns the same arena with separate usage; the specifications are shared. With ``queues`` only the trees in
        which one of these ClusterQueues is, and all further capacities.
        """
        further = {name: capacity.copy() for name, capacity in self.further.items()}
        return Arena(self.name, self.quota.copy(queues), self.kinds, further, self.generation, self.totals)

    def add(self, node: QueueNode, usage: Usage) -> None:
        """Counts what a workload of a ClusterQueue uses."""
        node.add(usage.quota)
        if usage.further:
            for capacity, amounts in self._limiting(usage):
                capacity.add(node.name, amounts)

    def remove(self, node: QueueNode, usage: Usage) -> None:
        """Undoes ``add``."""
        node.remove(usage.quota)
        if usage.further:
            for capacity, amounts in self._limiting(usage):
                capacity.remove(node.name, amounts)

    def fits(self, node: QueueNode, usage: Usage) -> bool:
        """Whether a workload of a ClusterQueue could use so much more, as usage is now."""
        return self.fits_further(node, usage) and node.fits(usage.quota)

    def fits_further(self, node: QueueNode, usage: Usage) -> bool:
        """``fits`` without quota."""
        for capacity, amounts in self._limiting(usage) if usage.further else ():
            if not capacity.fits(node.name, amounts):
                return False
        return True

    def prepare(self, workload: Workload, cluster_queue: str) -> Iterable[None]:
        """Works out in steps what ``place`` needs for a workload of a ClusterQueue."""
        if len(self.kinds) == 1:
            return self.further[self.kinds[0].name].prepare(workload, cluster_queue)
        return itertools.chain.from_iterable(
            self.further[kind.name].prepare(workload, cluster_queue) for kind in self.kinds
        )

    def place(
        self, workload: Workload, admission: Admission, *, replaced: Reservation | None = None, empty: bool = False
    ) -> Admission | Shortage:
        """Returns the admission with what each further capacity decides, as usage is now, or with ``empty`` as if
        nothing were in use; or what the first lacks.
        """
        for kind in self.kinds:
            placed = self.further[kind.name].place(workload, admission, replaced=replaced, empty=empty)
            if isinstance(placed, Shortage):
                return placed
            admission = placed
        return admission

    def has_room(self, workload: Workload, admission: Admission, *, replaced: Reservation | None = None) -> bool:
        """Whether ``place`` would complete the admission, as usage is now."""
        if len(self.kinds) == 1:
            return self.further[self.kinds[0].name].has_room(workload, admission, replaced=replaced)
        return not isinstance(self.place(workload, admission, replaced=replaced), Shortage)

    def _limiting(self, usage: Usage) -> Iterator[tuple[FurtherCapacity, Amounts]]:
        for name, amounts in usage.further.items():
            capacity = self.further.get(name)
            if capacity is not None:
                yield capacity, amounts

    def reserve(self, key: Key, held: Reservation) -> None:
        """Counts a reservation."""
        self.quota.reserve(key, held)
        self.count_further(held)

    def count_further(self, held: Reservation) -> None:
        """Counts what a reservation uses beside quota."""
        if held.usage.further:
            for capacity, amounts in self._limiting(held.usage):
                capacity.add(held.cluster_queue, amounts)

    def renew_further(self, kinds: tuple[CapacityKind, ...], further: dict[str, FurtherCapacity]) -> None:
        """Has these capacities beside quota in place of those that it has, with the usage of its reservations."""
        before, self.kinds, self.further = self.further, kinds, further
        for name, capacity in further.items():
            capacity.refill(
                (
                    (held.cluster_queue, held.usage.further[name])
                    for queue in self.queues.values()
                    for held in queue.reserved.values()
                    if name in held.usage.further
                ),
                before.get(name),
            )

    def release(self, key: Key, cluster_queue: str) -> Reservation | None:
        """Stops counting a reservation."""
        held = self.quota.release(key, cluster_queue)
        if held is not None:
            self.generation += 1
            if held.usage.further:
                for capacity, amounts in self._limiting(held.usage):
                    capacity.remove(held.cluster_queue, amounts)
        return held

    def same_specification(self, other: Arena) -> bool:
        """Whether both have the same specifications, regardless of usage."""
        return self.name == other.name and self.quota.same_specification(other.quota)

    def check(self) -> None:
        """Asserts that stored usage equals usage computed from the reservations."""
        self.quota.check()


Sharing = Mapping[str, frozenset[str]]
"""By flavor those whose users are one arena with its users, with itself; only flavors with any."""


def shared_flavors(flavors: Mapping[str, ResourceFlavor], kinds: Iterable[CapacityKind]) -> Sharing:
    """Returns the flavors whose users are one arena: those with a topology, and those that a kind of capacity names."""
    kinds = tuple(kinds)
    found = {
        name: flavor
        for name, flavor in flavors.items()
        if flavor.topology_name or any(kind.shares(flavor, flavor) for kind in kinds)
    }
    return {
        name: frozenset(
            other for other in found if other == name or any(kind.shares(flavor, found[other]) for kind in kinds)
        )
        for name, flavor in found.items()
    }


def shared_by(queue: ClusterQueue, shared: Collection[str]) -> Iterator[str]:
    """Returns which of these flavors a ClusterQueue uses."""
    return (flavor for group in queue.groups for flavor in group.flavors if flavor in shared) if shared else iter(())


def trees_by_arena(trees: Mapping[str, Forest], shared: Sharing) -> dict[str, Forest]:
    """Returns the trees of each arena, by its name: those in which the same shared flavor is used are together."""
    together: dict[str, list[str]] = {root: [root] for root in trees}
    user: dict[str, str] = {}
    for root in sorted(trees) if shared else ():
        for queue in trees[root].queues.values():
            for flavor in shared_by(queue.spec, shared):
                user.setdefault(flavor, root)
                for other in shared[flavor] & user.keys():
                    _unite(together, user[other], root)
    return {root: Forest.of([trees[each] for each in roots]) for root, roots in together.items() if root == roots[0]}


def _unite(together: dict[str, list[str]], one: str, other: str) -> None:
    mine, its = together[one], together[other]
    if mine is not its:
        mine[:] = sorted((*mine, *its))
        together.update(dict.fromkeys(its, mine))
