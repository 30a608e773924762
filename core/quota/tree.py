"""The trees of cohorts with their ClusterQueues and the workloads that hold quota in them.

A root cohort, or a ClusterQueue without one, is a separate tree: quota is never borrowed or reclaimed across trees. A
tree is built from the specifications whenever one of them changes, and then updated by ``reserve`` and ``release``.
Cohorts whose parents form a cycle are in no tree: each of their ClusterQueues is alone and inactive.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from core.model import ClusterQueue, Cohort, FlavorResource, Key
from core.quota.node import CohortNode, QueueNode, QuotaNode
from core.quota.usage import Reservation


@dataclass(slots=True)
class Forest:
    """Trees of cohorts, root by root with everything below: the quota of an arena (``core.quota.arena``)."""

    queues: dict[str, QueueNode] = field(default_factory=dict)
    cohorts: dict[str, CohortNode] = field(default_factory=dict)
    trees: tuple[Forest, ...] = ()
    """Each tree by itself, if there are several."""

    @classmethod
    def of(cls, trees: Sequence[Forest]) -> Forest:
        """Returns all these trees as one value; they are not copied."""
        if len(trees) == 1:
            return trees[0]
        queues = {name: node for tree in trees for name, node in tree.queues.items()}
        cohorts = {name: node for tree in trees for name, node in tree.cohorts.items()}
        return cls(dict(sorted(queues.items())), cohorts, tuple(trees))

    def copy(self, queues: Collection[str] | None = None) -> Forest:
        """Returns the same trees with separate usage; the specifications are shared. With ``queues`` only the trees in
        which one of these ClusterQueues is.
        """
        if self.trees:
            wanted = (each for each in self.trees if queues is None or not each.queues.keys().isdisjoint(queues))
            return Forest.of([each.copy() for each in wanted])
        cohorts: dict[str, CohortNode] = {}
        for name, old in self.cohorts.items():
            cohort = cohorts[name] = CohortNode.__new__(CohortNode)
            _copy_node(old, cohort)
            cohort.height = old.height
            cohort._lendable = old.lendable() if old._queues else None
        members: dict[str, QueueNode] = {}
        for name, member in self.queues.items():
            queue = members[name] = QueueNode.__new__(QueueNode)
            _copy_node(member, queue)
            queue.spec, queue.active = member.spec, member.active
            queue.groups, queue.flavor_resources, queue.known = member.groups, member.flavor_resources, member.known
            queue.share(member)
        for name, old in self.cohorts.items():
            cohorts[name].parent = cohorts[old.parent.name] if old.parent else None
            cohorts[name].adopt(
                (cohorts[child.name] for child in old.cohorts), (members[child.name] for child in old.queues)
            )
        for name, member in self.queues.items():
            members[name].parent = cohorts[member.parent.name] if member.parent else None
        return Forest(members, cohorts)

    def same_specification(self, other: Forest) -> bool:
        """Whether both have the same specifications, regardless of usage."""
        return (
            self.queues.keys() == other.queues.keys()
            and self.cohorts.keys() == other.cohorts.keys()
            and all(_alike(node, other.queues[name]) for name, node in self.queues.items())
            and all(_alike(node, other.cohorts[name]) for name, node in self.cohorts.items())
        )

    def add(self, cluster_queue: str, amounts: Mapping[FlavorResource, int]) -> None:
        """Counts what a workload of a ClusterQueue uses."""
        self.queues[cluster_queue].add(amounts)

    def remove(self, cluster_queue: str, amounts: Mapping[FlavorResource, int]) -> None:
        """Undoes ``add``."""
        self.queues[cluster_queue].remove(amounts)

    def fits(self, cluster_queue: str, amounts: Mapping[FlavorResource, int]) -> bool:
        """Whether a ClusterQueue has all the amounts available, as usage is now."""
        return self.queues[cluster_queue].fits(amounts)

    def reserve(self, key: Key, held: Reservation) -> None:
        """Counts a reservation in its ClusterQueue."""
        self.queues[held.cluster_queue].hold(key, held)
        self.add(held.cluster_queue, held.usage.quota)

    def release(self, key: Key, cluster_queue: str) -> Reservation | None:
        """Stops counting a reservation."""
        node = self.queues[cluster_queue]
        held = node.reserved.get(key)
        if held is not None:
            node.drop(key)
            self.remove(cluster_queue, held.usage.quota)
        return held

    def check(self) -> None:
        """Asserts that stored usage equals usage computed from the reservations."""
        fresh = self.copy()
        for node in (*fresh.queues.values(), *fresh.cohorts.values()):
            node.usage = {}
        for queue in fresh.queues.values():
            for held in queue.reserved.values():
                queue.add(held.usage.quota)
            lowest = min((held.workload.priority for held in queue.reserved.values()), default=math.inf)
            assert queue.lowest() == lowest, f"the lowest priority in {queue.name} is {lowest}"
        for mine, theirs in ((self.queues, fresh.queues), (self.cohorts, fresh.cohorts)):
            for name, node in mine.items():
                kept = {fr: amount for fr, amount in node.usage.items() if amount}
                anew = {fr: amount for fr, amount in theirs[name].usage.items() if amount}
                assert kept == anew, f"usage of {name}: {kept} is kept, {anew} is used"


def _alike(one: QuotaNode, other: QuotaNode) -> bool:
    if isinstance(one, QueueNode) and isinstance(other, QueueNode):
        if one.spec is not other.spec or one.active != other.active:
            return False
    elif one.quotas != other.quotas or one.weight != other.weight:
        return False
    return (one.parent and one.parent.name) == (other.parent and other.parent.name)


def _copy_node(old: QuotaNode, new: QuotaNode) -> None:
    new.name, new.quotas, new.weight = old.name, old.quotas, old.weight
    new.subtree, new.kept, new.limited, new._potential = old.subtree, old.kept, old.limited, old._potential
    new.usage = old.usage.copy()


def circular(cohorts: Mapping[str, Cohort], name: str) -> bool:
    """Whether the parents of this cohort form a cycle."""
    seen: set[str] = set()
    while name:
        if name in seen:
            return True
        seen.add(name)
        cohort = cohorts.get(name)
        name = cohort.parent if cohort else ""
    return False


def above(cohorts: Mapping[str, Cohort], name: str) -> list[str]:
    """Yields this cohort, its parent, and so on; each once, also if they form a cycle."""
    found: list[str] = []
    while name and name not in found:
        found.append(name)
        cohort = cohorts.get(name)
        name = cohort.parent if cohort else ""
    return found


def root_name(node: QuotaNode) -> str:
    """The name of the tree that a node is in: `cohort/NAME` or `queue/NAME` of its root."""
    root = node.root()
    return f"cohort/{root.name}" if isinstance(root, CohortNode) else f"queue/{root.name}"


def build_trees(
    cohorts: Mapping[str, Cohort], queues: Mapping[str, ClusterQueue], inactive: Collection[str]
) -> dict[str, Forest]:
    """Builds the trees of these specifications, each by its name (``root_name``), with no usage yet. Trees are whole
    only where all that belongs to them is given (``core.quota.hierarchy.Hierarchy.around``)."""
    mentioned = {cohort.parent for cohort in cohorts.values()} | {queue.cohort for queue in queues.values()}
    every = sorted((mentioned | set(cohorts)) - {""})
    sound = {name: cohorts.get(name) or Cohort(name) for name in every if not circular(cohorts, name)}
    trees: dict[str, Forest] = {}
    nodes: dict[str, CohortNode] = {name: CohortNode(name, spec.quotas, spec.weight) for name, spec in sound.items()}
    for name, spec in sound.items():
        if spec.parent:
            nodes[name].parent = nodes[spec.parent]
    for name, node in nodes.items():
        trees.setdefault(root_name(node), Forest()).cohorts[name] = node
    for name in sorted(queues):
        member = QueueNode(queues[name], active=name not in inactive)
        member.parent = nodes.get(member.spec.cohort)
        trees.setdefault(root_name(member), Forest()).queues[name] = member
    for tree in trees.values():
        _settle(tree)
    return trees


def _settle(tree: Forest) -> None:
    queues: dict[str, list[QueueNode]] = {}
    for queue in tree.queues.values():
        queue.settle()
        if queue.parent is not None:
            queues.setdefault(queue.parent.name, []).append(queue)
    cohorts: dict[str, list[CohortNode]] = {}
    for cohort in tree.cohorts.values():
        if cohort.parent is not None:
            cohorts.setdefault(cohort.parent.name, []).append(cohort)
    for cohort in sorted(tree.cohorts.values(), key=_depth, reverse=True):
        children, members = cohorts.get(cohort.name, []), queues.get(cohort.name, [])
        cohort.adopt(children, (queue for queue in members if queue.active))
        cohort.settle([*children, *members])
    for cohort in tree.cohorts.values():
        if cohort.parent is None:
            cohort.measure()


def _depth(node: CohortNode) -> int:
    return sum(1 for _ in node.ancestors())
