"""Who holds quota where, in trees that follow the specifications.

Separate from ``core.state`` because it has one invariant of its own: usage in the trees is that of the reservations.
The trees are built anew after a change of specification, when they are next needed, and kept up to date in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from api.names import Condition
from core.forest import Tree, plant
from core.model import AdmissionCheck, ClusterQueue, Cohort, Key, ResourceFlavor, Workload
from core.standing import Standing, cluster_queue_standing
from core.usage import Reservation


class Holdings:
    """Specifications, trees and reservations. Reading a tree after a change of specification costs planting all, and
    counting anew what is held in those that are not as they were.
    """

    def __init__(self) -> None:
        self.flavors: dict[str, ResourceFlavor] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self.cohorts: dict[str, Cohort] = {}
        self.cluster_queues: dict[str, ClusterQueue] = {}
        self.by_local_queue: dict[Key, set[Key]] = {}
        self.unready: set[Key] = set()
        """Admitted workloads whose pods are not all ready."""
        self.leaving: set[Key] = set()
        """Workloads that were told to stop and hold quota until they have."""
        self._held: dict[Key, Reservation] = {}
        self._trees: dict[str, Tree] = {}
        self._roots: dict[str, str] = {}
        self._standings: dict[str, Standing] = {}
        self._planted = True
        self._changed: set[str] = set()
        self._generation = 0

    @property
    def planted(self) -> bool:
        """Whether the trees are those of the specifications."""
        return self._planted

    def respecify(self, names: Iterable[str]) -> None:
        """A specification has changed, of these ClusterQueues or of what they refer to: build the trees anew."""
        self._planted = False
        self._changed.update(names)

    def grow(self) -> None:
        """Build the trees anew where a specification has changed."""
        if self._planted:
            return
        self._generation = max([self._generation, *(tree.generation for tree in self._trees.values())]) + 1
        self._standings = {name: self._stands(queue) for name, queue in self.cluster_queues.items()}
        trees = self._plant()
        for root, tree in self._trees.items():
            if root in trees and self._changed.isdisjoint(tree.queues) and tree.is_like(trees[root]):
                trees[root] = tree
        fresh = {name for root, tree in trees.items() if tree is not self._trees.get(root) for name in tree.queues}
        self._trees = trees
        self._roots = {name: root for root, tree in trees.items() for name in tree.queues}
        self._planted = True
        self._changed.clear()
        for key, held in self._held.items():
            if held.cluster_queue in fresh:
                self._trees[self._roots[held.cluster_queue]].reserve(key, held)

    def _plant(self) -> dict[str, Tree]:
        """The trees of the specifications, with no usage."""
        inactive = {name for name, standing in self._standings.items() if not standing.active}
        return plant(self.cohorts, self.cluster_queues, inactive, self._generation)

    @property
    def trees(self) -> dict[str, Tree]:
        """All trees by the name of their root, as of now."""
        self.grow()
        return self._trees

    @property
    def roots(self) -> dict[str, str]:
        """The root of every ClusterQueue, as of now."""
        self.grow()
        return self._roots

    @property
    def standings(self) -> dict[str, Standing]:
        """Whether ClusterQueues can admit workloads, as of now."""
        self.grow()
        return self._standings

    def standing(self, name: str) -> Standing:
        """Whether a ClusterQueue can admit workloads; builds no trees for it."""
        return self._standings[name] if self._planted else self._stands(self.cluster_queues[name])

    def neighbours(self, names: Iterable[str]) -> set[str]:
        """The ClusterQueues that shared a tree with any of these when the trees were last built."""
        roots = {self._roots[name] for name in names if name in self._roots}
        return {member for root in roots for member in self._trees[root].queues}

    def get(self, key: Key) -> Reservation | None:
        """The reservation of a workload."""
        return self._held.get(key)

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def hold(self, key: Key, held: Reservation) -> Reservation | None:
        """Count a reservation in the place of the one there was, which is returned."""
        old = self._held.get(key)
        if old is not None and old.usage == held.usage and old.cluster_queue == held.cluster_queue:
            self._held[key] = held
            if self._counts(held):
                self._own(held.cluster_queue).queues[held.cluster_queue].hold(key, held)
        else:
            self.release(key)
            self._held[key] = held
            if self._counts(held):
                self._own(held.cluster_queue).reserve(key, held)
        self.by_local_queue.setdefault(local_queue_of(held.workload), set()).add(key)
        if held.admitted and not held.workload.holds(Condition.PODS_READY):
            self.unready.add(key)
        else:
            self.unready.discard(key)
        if held.evicted:
            self.leaving.add(key)
        else:
            self.leaving.discard(key)
        return old

    def release(self, key: Key) -> Reservation | None:
        """Stop counting the reservation of a workload."""
        held = self._held.pop(key, None)
        self.unready.discard(key)
        self.leaving.discard(key)
        if held is not None:
            discard(self.by_local_queue, local_queue_of(held.workload), key)
            if self._counts(held):
                self._own(held.cluster_queue).release(key, held.cluster_queue)
        return held

    def check(self) -> None:
        """Assert that the trees count all reservations, and nothing else."""
        counted = {key for tree in self.trees.values() for queue in tree.queues.values() for key in queue.reserved}
        here = {key for key, held in self._held.items() if held.cluster_queue in self.cluster_queues}
        assert counted == here, f"counted {counted - here} too many, {here - counted} too few"
        planted = self._plant()
        assert planted.keys() == self._trees.keys(), "the trees are not those of the specifications"
        assert all(tree.is_like(planted[root]) for root, tree in self._trees.items()), "a tree is not as specified"
        for tree in self._trees.values():
            tree.check()

    def _stands(self, queue: ClusterQueue) -> Standing:
        return cluster_queue_standing(queue, self.flavors, self.checks, self.cohorts)

    def _counts(self, held: Reservation) -> bool:
        """Whether a tree is to show a change of the reservation at once; else it is built anew, and shows it then."""
        if not self._planted:
            self._changed.add(held.cluster_queue)
        return self._planted and held.cluster_queue in self._roots

    def _own(self, name: str) -> Tree:
        """The tree of a ClusterQueue, ours to change: copied first where a snapshot reads it."""
        root = self._roots[name]
        tree = self._trees[root]
        if tree.readers:
            tree = self._trees[root] = tree.copy()
        return tree


def local_queue_of(workload: Workload) -> Key:
    """The LocalQueue a workload names."""
    return Key(workload.key.namespace, workload.queue)


def discard(index: dict[Key, set[Key]], name: Key, key: Key) -> None:
    """Take a key out of an index, and the set with it when it was the last."""
    found = index.get(name)
    if found is not None:
        found.discard(key)
        if not found:
            del index[name]


_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


def put(table: dict[_Name, _Value], name: _Name, value: _Value | None) -> bool:
    """Set or delete an entry; whether that changed anything."""
    if value is None:
        return table.pop(name, None) is not None
    if table.get(name) == value:
        return False
    table[name] = value
    return True
