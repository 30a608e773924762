"""The reservations of all workloads, in arenas that follow the specifications.

Separate from ``core.state.state`` because it has its own invariant: usage in the arenas equals the sum of the
reservations. After a change of specification the arenas concerned are built again when one is next needed; the others
stay as they are. Until then, usage is counted in the old arenas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import TypeVar

from api.names import Condition
from core.model import AdmissionCheck, ClusterQueue, Cohort, Key, ResourceFlavor, Topology, Workload
from core.quota.active import ActiveCondition, cluster_queue_active
from core.quota.arena import Arena, Sharing, shared_by, shared_flavors, trees_by_arena
from core.quota.capacity import CapacityKind, FurtherCapacity
from core.quota.hierarchy import Hierarchy
from core.quota.node import CohortNode, QueueNode
from core.quota.tree import Forest, build_trees
from core.quota.usage import Reservation, reservation

_Name = TypeVar("_Name")
_Item = TypeVar("_Item")
_Value = TypeVar("_Value")


class Reservations:
    """Specifications, arenas and reservations. The first read of an arena after a change of specification builds the
    changed arenas, counts what is held in them again, and copies the names of all ClusterQueues.
    """

    def __init__(
        self,
        *,
        concurrent_admission: bool = False,
        kinds: Iterable[CapacityKind] = (),
        topologies: Mapping[str, Topology] | None = None,
    ) -> None:
        self.concurrent_admission = concurrent_admission
        """Whether the feature gate is on."""
        self.topologies = topologies
        """The Topologies as they are now; None if topology-aware scheduling is off."""
        self.kinds = tuple(kinds)
        """The kinds of capacity beside quota."""
        self.flavors: dict[str, ResourceFlavor] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self.hierarchy = Hierarchy()
        self.by_local_queue: dict[Key, set[Key]] = {}
        self.unready: set[Key] = set()
        """Admitted workloads whose pods are not all ready."""
        self.evicted: set[Key] = set()
        """Evicted workloads that still hold quota."""
        self._released: set[str] = set()
        self._held: dict[Key, Reservation] = {}
        self._outside: dict[str, set[Key]] = {}
        """The reservations in ClusterQueues that no arena has, by ClusterQueue."""
        self._arenas: dict[str, Arena] = {}
        self._arena_of: dict[str, str] = {}
        self._arena_of_cohort: dict[str, str] = {}
        self._sharing: dict[str, set[str]] = {}
        """By shared flavor the ClusterQueues in arenas that use it."""
        self._active_conditions: dict[str, ActiveCondition] = {}
        self._stale: set[str] = set()
        """ClusterQueues whose arena differs from the specification."""
        self._stale_cohorts: set[str] = set()
        self._outdated: set[str] = set()
        """Arenas whose capacities beside quota have other totals than when they were made."""
        self._rebuilt: set[str] = set()
        self._generation = 0

    @property
    def cohorts(self) -> Mapping[str, Cohort]:
        """All Cohorts."""
        return self.hierarchy.cohorts

    @property
    def cluster_queues(self) -> Mapping[str, ClusterQueue]:
        """All ClusterQueues."""
        return self.hierarchy.cluster_queues

    def set_cohort(self, name: str, cohort: Cohort | None) -> bool:
        """Set or delete a Cohort; whether that changed anything."""
        concerned = self.hierarchy.set_cohort(name, cohort)
        self._stale_cohorts.update(concerned or ())
        return concerned is not None

    def set_cluster_queue(self, name: str, queue: ClusterQueue | None) -> bool:
        """Set or delete a ClusterQueue; whether that changed anything."""
        concerned = self.hierarchy.set_cluster_queue(name, queue)
        if concerned is None:
            return False
        self._stale_cohorts |= concerned
        self._stale.add(name)
        return True

    def mark_stale(self, names: Iterable[str]) -> None:
        """Something that these ClusterQueues refer to has changed: their arenas will be built again."""
        self._stale.update(names)

    @property
    def up_to_date(self) -> bool:
        """Whether all arenas are those of the specifications."""
        return not self._stale and not self._stale_cohorts

    def _rebuild(self) -> None:
        """Builds the arenas again whose specification has changed."""
        if not self.up_to_date:
            self._build_changed()
        if self._outdated:
            self._fill_outdated()

    def _build_changed(self) -> None:
        shared = shared_flavors(self.flavors, self.kinds)
        cohorts, queues = self._changed(shared)
        for name in self._stale:
            self._active_conditions.pop(name, None)
        self._active_conditions |= {name: self._active_condition(queue) for name, queue in queues.items()}
        self._drop(cohorts | self._stale_cohorts, queues.keys() | self._stale)
        built = self._build(cohorts, queues, shared)
        self._arenas |= built
        for arena in built.values():
            self._arena_of |= dict.fromkeys(arena.queues, arena.name)
            self._arena_of_cohort |= dict.fromkeys(arena.cohorts, arena.name)
            for name, node in arena.queues.items():
                for flavor in shared_by(node.spec, shared):
                    self._sharing.setdefault(flavor, set()).add(name)
                for key in self._outside.pop(name, ()):
                    arena.reserve(key, self._held[key])
        self._rebuilt |= built.keys()
        self._outdated -= built.keys()
        self._stale.clear()
        self._stale_cohorts.clear()

    def mark_outdated(self, flavors: Iterable[str]) -> list[str]:
        """The total of a further capacity has changed in these flavors: the capacities of their arenas are made again
        when they are next needed, the arenas stay. Returns a ClusterQueue of each.
        """
        arenas = {name for flavor in flavors for name in self._arenas_with(flavor)}
        self._outdated |= arenas
        return [next(iter(self._arenas[name].queues)) for name in sorted(arenas)]

    def _arenas_with(self, flavor: str) -> set[str]:
        """The arenas, as they are built now, with a flavor that several ClusterQueues may share."""
        return {self._arena_of[name] for name in self._sharing.get(flavor, ()) if name in self._arena_of}

    def _fill_outdated(self) -> None:
        for name in sorted(self._outdated & self._arenas.keys()):
            arena = self._writable(next(iter(self._arenas[name].queues)))
            arena.renew_further(*self._further(arena.quota))
            arena.generation += 1
            arena.totals += 1
            self._rebuilt.add(name)
        self._outdated.clear()

    def _changed(self, shared: Sharing) -> tuple[set[str], dict[str, ClusterQueue]]:
        """Returns the Cohorts and ClusterQueues of all arenas that have changed: the trees around what is stale, those
        that were in an arena with them, and those that now share a flavor with them.
        """
        cohorts, names = set(self._stale_cohorts), set(self._stale)
        while True:
            queues = {name: self.cluster_queues[name] for name in names if name in self.cluster_queues}
            cohorts = self.hierarchy.around(cohorts | {queue.cohort for queue in queues.values()})
            queues |= self.hierarchy.queues_in(cohorts)
            others = self._mates(cohorts | self._stale_cohorts, names | queues.keys(), shared) - queues.keys()
            if others <= names:
                return cohorts, queues
            names |= others

    def _mates(self, cohorts: Set[str], names: Set[str], shared: Sharing) -> set[str]:
        """Returns the ClusterQueues that are in one arena with any of these, or now share a flavor with them."""
        if not shared and not self._sharing:
            return set()
        arenas = {self._arena_of_cohort[name] for name in cohorts if name in self._arena_of_cohort}
        arenas |= {self._arena_of[name] for name in names if name in self._arena_of}
        found = {name for arena in arenas for name in self._arenas[arena].queues}
        specs = (self.cluster_queues[name] for name in names if name in self.cluster_queues)
        flavors = {other for spec in specs for flavor in shared_by(spec, shared) for other in shared[flavor]}
        return found.union(*(self._sharing.get(flavor, ()) for flavor in flavors))

    def _drop(self, cohorts: Iterable[str], queues: Iterable[str]) -> None:
        """Removes the arenas that contain any of these; what is held in them is then in no arena."""
        dropped = {self._arena_of[name] for name in queues if name in self._arena_of}
        dropped |= {self._arena_of_cohort[name] for name in cohorts if name in self._arena_of_cohort}
        self._arena_of = dict(self._arena_of)  # a snapshot may read the old one
        for gone in dropped:
            arena = self._arenas.pop(gone)
            self._generation = max(self._generation, arena.generation)
            for name, queue in arena.queues.items():
                del self._arena_of[name]
                for flavor in shared_by(queue.spec, self._sharing):
                    discard(self._sharing, flavor, name)
                if queue.reserved:
                    self._outside[name] = set(queue.reserved)
            for name in arena.cohorts:
                del self._arena_of_cohort[name]
        self._generation += 1

    def _build(self, cohorts: Iterable[str], queues: Mapping[str, ClusterQueue], shared: Sharing) -> dict[str, Arena]:
        """The arenas of these Cohorts and ClusterQueues, with no usage."""
        inactive = {name for name in queues if not self._active_conditions[name].active}
        known = {name: self.cohorts[name] for name in cohorts if name in self.cohorts}
        forests = trees_by_arena(build_trees(known, queues, inactive), shared)
        return {name: Arena(name, forest, *self._further(forest), self._generation) for name, forest in forests.items()}

    def _further(self, forest: Forest) -> tuple[tuple[CapacityKind, ...], dict[str, FurtherCapacity]]:
        """Returns the kinds of capacity that limit an arena with these trees, and the capacity of each, unused."""
        if not self.kinds:
            return (), {}
        queues = {name: node.spec for name, node in forest.queues.items()}
        used = {name for queue in queues.values() for group in queue.groups for name in group.flavors}
        flavors = {name: self.flavors[name] for name in sorted(used & self.flavors.keys())}
        found: dict[str, FurtherCapacity] = {}
        for kind in self.kinds:
            capacity = kind.capacity(queues, flavors, self.checks)
            if capacity is not None:
                found[kind.name] = capacity
        return tuple(kind for kind in self.kinds if kind.name in found), found

    @property
    def rebuilt(self) -> set[str]:
        """The arenas built since this was last cleared; some may be gone again. As of now."""
        self._rebuild()
        return self._rebuilt

    @property
    def arenas(self) -> Mapping[str, Arena]:
        """All arenas by name, as of now."""
        self._rebuild()
        return self._arenas

    @property
    def arena_of(self) -> Mapping[str, str]:
        """The arena of every ClusterQueue, as of now; never changed afterwards."""
        self._rebuild()
        return self._arena_of

    def node(self, name: str) -> QueueNode | None:
        """The ClusterQueue in its arena, as of now; None if it does not exist."""
        arena = self.arena_of.get(name)
        return self._arenas[arena].queues[name] if arena is not None else None

    def cohort_node(self, name: str) -> CohortNode | None:
        """The Cohort in its arena; None where nothing names it, or its parents run in a circle."""
        self._rebuild()
        arena = self._arena_of_cohort.get(name)
        return self._arenas[arena].cohorts[name] if arena is not None else None

    @property
    def active_conditions(self) -> Mapping[str, ActiveCondition]:
        """Whether ClusterQueues can admit workloads, as of now."""
        self._rebuild()
        return self._active_conditions

    def active_condition(self, name: str) -> ActiveCondition:
        """Whether a ClusterQueue can admit workloads; builds no arenas for it."""
        return self._active_conditions[name] if self.up_to_date else self._active_condition(self.cluster_queues[name])

    def get(self, key: Key) -> Reservation | None:
        """The reservation of a workload."""
        return self._held.get(key)

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def of(self, workload: Workload, *, evicted: bool | None = None) -> Reservation:
        """Returns the reservation that a workload's admission describes; nothing is counted."""
        return reservation(workload, self.kinds, evicted=evicted)

    def hold(self, key: Key, held: Reservation) -> Reservation | None:
        """Counts a reservation and returns the one that it replaces."""
        old = self._held.get(key)
        if old is not None and old.usage == held.usage and old.cluster_queue == held.cluster_queue:
            self._held[key] = held
            if held.cluster_queue in self._arena_of:
                self._writable(held.cluster_queue).queues[held.cluster_queue].hold(key, held)
        else:
            self.release(key)
            self._held[key] = held
            if held.cluster_queue in self._arena_of:
                self._writable(held.cluster_queue).reserve(key, held)
            else:
                self._outside.setdefault(held.cluster_queue, set()).add(key)
        self.by_local_queue.setdefault(local_queue_of(held.workload), set()).add(key)
        if held.admitted and not held.workload.holds(Condition.PODS_READY):
            self.unready.add(key)
        else:
            self.unready.discard(key)
        if held.evicted:
            self.evicted.add(key)
        else:
            self.evicted.discard(key)
        return old

    def release(self, key: Key) -> Reservation | None:
        """Stop counting the reservation of a workload."""
        held = self._held.pop(key, None)
        self.unready.discard(key)
        self.evicted.discard(key)
        if held is not None:
            self._released.add(held.cluster_queue)
            discard(self.by_local_queue, local_queue_of(held.workload), key)
            if held.cluster_queue in self._arena_of:
                self._writable(held.cluster_queue).release(key, held.cluster_queue)
            else:
                discard(self._outside, held.cluster_queue, key)
        return held

    def take_released(self) -> list[str]:
        """Returns the ClusterQueues of which a reservation was released since this was last called: their counts have
        changed, and they may not be in use any more.
        """
        found, self._released = sorted(self._released), set()
        return found

    def check(self) -> None:
        """Asserts that the arenas count all reservations, and nothing else."""
        counted = {key for arena in self.arenas.values() for queue in arena.queues.values() for key in queue.reserved}
        here = {key for key, held in self._held.items() if held.cluster_queue in self.cluster_queues}
        assert counted == here, f"counted {counted - here} too many, {here - counted} too few"
        outside = {key for keys in self._outside.values() for key in keys}
        assert outside == self._held.keys() - here, "what no arena counts is not what no arena has"
        assert self._active_conditions == {
            name: self._active_condition(queue) for name, queue in self.cluster_queues.items()
        }
        shared = shared_flavors(self.flavors, self.kinds)
        expected = self._build(self.cohorts, self.cluster_queues, shared)
        assert expected.keys() == self._arenas.keys(), "the arenas are not those of the specifications"
        assert all(arena.same_specification(expected[name]) for name, arena in self._arenas.items()), (
            "an arena is not as specified"
        )
        assert self._arena_of == {name: arena.name for arena in expected.values() for name in arena.queues}
        assert self._arena_of_cohort == {name: arena.name for arena in expected.values() for name in arena.cohorts}
        assert self._sharing == {
            flavor: users
            for flavor in shared
            if (users := {name for name, spec in self.cluster_queues.items() if flavor in shared_by(spec, shared)})
        }
        for arena in self._arenas.values():
            arena.check()
            anew = expected[arena.name]
            for queue in arena.queues.values():
                for key, held in queue.reserved.items():
                    anew.reserve(key, held)
            assert arena.further == anew.further, f"usage of {arena.name} beside quota is not that of its reservations"

    def _active_condition(self, queue: ClusterQueue) -> ActiveCondition:
        return cluster_queue_active(
            queue,
            self.flavors,
            self.checks,
            self.cohorts,
            topologies=self.topologies,
            concurrent_admission=self.concurrent_admission,
        )

    def change_total(
        self, kind: str, concerns: Callable[[FurtherCapacity], bool], change: Callable[[FurtherCapacity], None]
    ) -> list[str]:
        """Changes the total of a kind of further capacity where it ``concerns`` that of an arena. Returns a
        ClusterQueue of each of these arenas; none is built again.
        """
        arenas = [each for each in self._arenas.values() if kind in each.further and concerns(each.further[kind])]
        found = [next(iter(arena.queues)) for arena in arenas]
        for name in found:
            arena = self._writable(name)
            change(arena.further[kind])
            arena.generation += 1
            arena.totals += 1
        return found

    def _writable(self, name: str) -> Arena:
        """Returns the arena of a ClusterQueue, which may be changed: copied first if a snapshot reads it too."""
        arena = self._arenas[self._arena_of[name]]
        if arena.readers:
            arena = self._arenas[arena.name] = arena.copy()
        return arena


def local_queue_of(workload: Workload) -> Key:
    """The LocalQueue a workload names."""
    return Key(workload.key.namespace, workload.queue)


def discard(index: dict[_Name, set[_Item]], name: _Name, key: _Item) -> None:
    """Removes a key from an index, and the set with it when it was the last."""
    found = index.get(name)
    if found is not None:
        found.discard(key)
        if not found:
            del index[name]


def put(table: dict[_Name, _Value], name: _Name, value: _Value | None) -> bool:
    """Set or delete an entry; whether that changed anything."""
    if value is None:
        return table.pop(name, None) is not None
    if table.get(name) == value:
        return False
    table[name] = value
    return True
