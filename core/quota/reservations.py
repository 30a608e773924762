"""The reservations of all workloads, in trees that follow the specifications.

Separate from ``core.state.state`` because it has its own invariant: usage in the trees equals the sum of the
reservations. After a change of specification the trees concerned are built again when a tree is next needed; the others
stay as they are. Until then, usage is counted in the old trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from api.names import Condition
from core.model import AdmissionCheck, ClusterQueue, Cohort, Key, ResourceFlavor, Workload
from core.quota.active import ActiveCondition, cluster_queue_active
from core.quota.hierarchy import Hierarchy
from core.quota.tree import Tree, build_trees
from core.quota.usage import Reservation

_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


class Reservations:
    """Specifications, trees and reservations. The first read of a tree after a change of specification builds the
    changed trees, counts what is held in them again, and copies the names of all ClusterQueues.
    """

    def __init__(self, *, concurrent_admission: bool = False) -> None:
        self.concurrent_admission = concurrent_admission
        """Whether the feature gate is on."""
        self.flavors: dict[str, ResourceFlavor] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self.hierarchy = Hierarchy()
        self.by_local_queue: dict[Key, set[Key]] = {}
        self.unready: set[Key] = set()
        """Admitted workloads whose pods are not all ready."""
        self.leaving: set[Key] = set()
        """Evicted workloads that still hold quota."""
        self._released: set[str] = set()
        self._held: dict[Key, Reservation] = {}
        self._outside_trees: dict[str, set[Key]] = {}
        """The reservations in ClusterQueues that no tree has, by ClusterQueue."""
        self._trees: dict[str, Tree] = {}
        self._roots: dict[str, str] = {}
        self._cohort_roots: dict[str, str] = {}
        self._active_conditions: dict[str, ActiveCondition] = {}
        self._stale: set[str] = set()
        """ClusterQueues whose tree differs from the specification."""
        self._stale_cohorts: set[str] = set()
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
        """Something that these ClusterQueues refer to has changed: their trees will be built again."""
        self._stale.update(names)

    @property
    def up_to_date(self) -> bool:
        """Whether all trees are those of the specifications."""
        return not self._stale and not self._stale_cohorts

    def rebuild_trees(self) -> None:
        """Builds the trees again whose specification has changed."""
        if self.up_to_date:
            return
        queues = {name: self.cluster_queues[name] for name in self._stale if name in self.cluster_queues}
        around = self.hierarchy.around(self._stale_cohorts | {queue.cohort for queue in queues.values()})
        queues |= self.hierarchy.queues_in(around)
        for name in self._stale:
            self._active_conditions.pop(name, None)
        self._active_conditions |= {name: self._active_condition(queue) for name, queue in queues.items()}
        self._drop_trees(around | self._stale_cohorts, queues.keys() | self._stale)
        built = self._build(around, queues)
        self._trees |= built
        for root, tree in built.items():
            self._roots |= dict.fromkeys(tree.queues, root)
            self._cohort_roots |= dict.fromkeys(tree.cohorts, root)
            for name in tree.queues:
                for key in self._outside_trees.pop(name, ()):
                    tree.reserve(key, self._held[key])
        self._rebuilt |= built.keys()
        self._stale.clear()
        self._stale_cohorts.clear()

    def _drop_trees(self, cohorts: Iterable[str], queues: Iterable[str]) -> None:
        """Removes the trees that contain any of these; what is held in them is then in no tree."""
        dropped = {self._roots[name] for name in queues if name in self._roots}
        dropped |= {self._cohort_roots[name] for name in cohorts if name in self._cohort_roots}
        self._roots = dict(self._roots)  # a snapshot may read the old one
        for root in dropped:
            tree = self._trees.pop(root)
            self._generation = max(self._generation, tree.generation)
            for name, queue in tree.queues.items():
                del self._roots[name]
                if queue.reserved:
                    self._outside_trees[name] = set(queue.reserved)
            for name in tree.cohorts:
                del self._cohort_roots[name]
        self._generation += 1

    def _build(self, cohorts: Iterable[str], queues: Mapping[str, ClusterQueue]) -> dict[str, Tree]:
        """The trees of these Cohorts and ClusterQueues, with no usage."""
        inactive = {name for name in queues if not self._active_conditions[name].active}
        known = {name: self.cohorts[name] for name in cohorts if name in self.cohorts}
        return build_trees(known, queues, inactive, self._generation)

    @property
    def rebuilt(self) -> set[str]:
        """The roots of trees built since this was last cleared; some may be gone again. As of now."""
        self.rebuild_trees()
        return self._rebuilt

    @property
    def trees(self) -> Mapping[str, Tree]:
        """All trees by the name of their root, as of now."""
        self.rebuild_trees()
        return self._trees

    @property
    def roots(self) -> Mapping[str, str]:
        """The root of every ClusterQueue, as of now; never changed afterwards."""
        self.rebuild_trees()
        return self._roots

    @property
    def active_conditions(self) -> Mapping[str, ActiveCondition]:
        """Whether ClusterQueues can admit workloads, as of now."""
        self.rebuild_trees()
        return self._active_conditions

    def active_condition(self, name: str) -> ActiveCondition:
        """Whether a ClusterQueue can admit workloads; builds no trees for it."""
        return self._active_conditions[name] if self.up_to_date else self._active_condition(self.cluster_queues[name])

    def tree_of(self, cohort: str) -> Tree | None:
        """The tree that a Cohort is in; None where nothing names it, or its parents run in a circle."""
        self.rebuild_trees()
        root = self._cohort_roots.get(cohort)
        return self._trees[root] if root is not None else None

    def get(self, key: Key) -> Reservation | None:
        """The reservation of a workload."""
        return self._held.get(key)

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def hold(self, key: Key, held: Reservation) -> Reservation | None:
        """Counts a reservation and returns the one that it replaces."""
        old = self._held.get(key)
        if old is not None and old.usage == held.usage and old.cluster_queue == held.cluster_queue:
            self._held[key] = held
            if held.cluster_queue in self._roots:
                self._writable_tree(held.cluster_queue).queues[held.cluster_queue].hold(key, held)
        else:
            self.release(key)
            self._held[key] = held
            if held.cluster_queue in self._roots:
                self._writable_tree(held.cluster_queue).reserve(key, held)
            else:
                self._outside_trees.setdefault(held.cluster_queue, set()).add(key)
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
            self._released.add(held.cluster_queue)
            discard(self.by_local_queue, local_queue_of(held.workload), key)
            if held.cluster_queue in self._roots:
                self._writable_tree(held.cluster_queue).release(key, held.cluster_queue)
            else:
                discard(self._outside_trees, held.cluster_queue, key)
        return held

    def take_released(self) -> list[str]:
        """Returns the ClusterQueues of which a reservation was released since this was last called: their counts have
        changed, and they may not be in use any more.
        """
        found, self._released = sorted(self._released), set()
        return found

    def check(self) -> None:
        """Assert that the trees count all reservations, and nothing else."""
        counted = {key for tree in self.trees.values() for queue in tree.queues.values() for key in queue.reserved}
        here = {key for key, held in self._held.items() if held.cluster_queue in self.cluster_queues}
        assert counted == here, f"counted {counted - here} too many, {here - counted} too few"
        outside = {key for keys in self._outside_trees.values() for key in keys}
        assert outside == self._held.keys() - here, "what no tree counts is not what no tree has"
        assert self._active_conditions == {
            name: self._active_condition(queue) for name, queue in self.cluster_queues.items()
        }
        expected = self._build(self.cohorts, self.cluster_queues)
        assert expected.keys() == self._trees.keys(), "the trees are not those of the specifications"
        assert all(tree.same_specification(expected[root]) for root, tree in self._trees.items()), (
            "a tree is not as specified"
        )
        assert self._roots == {name: root for root, tree in expected.items() for name in tree.queues}
        assert self._cohort_roots == {name: root for root, tree in expected.items() for name in tree.cohorts}
        for tree in self._trees.values():
            tree.check()

    def _active_condition(self, queue: ClusterQueue) -> ActiveCondition:
        return cluster_queue_active(
            queue, self.flavors, self.checks, self.cohorts, concurrent_admission=self.concurrent_admission
        )

    def _writable_tree(self, name: str) -> Tree:
        """Returns the tree of a ClusterQueue, which may be changed: copied first if a snapshot reads it too."""
        root = self._roots[name]
        tree = self._trees[root]
        if tree.readers:
            tree = self._trees[root] = tree.copy()
        return tree


def local_queue_of(workload: Workload) -> Key:
    """The LocalQueue a workload names."""
    return Key(workload.key.namespace, workload.queue)


def discard(index: dict[_Name, set[Key]], name: _Name, key: Key) -> None:
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
