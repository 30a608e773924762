"""Returns which workloads a preemptor may preempt, in which order, and which of the chosen ones are not needed.

Separate from the two algorithms that choose among candidates (``core.scheduling.preemption.classical`` and
``core.scheduling.preemption.fair``) and share these functions. The algorithms change usage while they search, and
restore it. Rules: https://kueue.sigs.k8s.io/docs/concepts/preemption/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from api.names import PreemptionPolicy
from core.model import Admission, FlavorResource, Key, Workload
from core.model.policy import SchedulingPolicy
from core.queue.admission_fair_sharing import USAGE_BASED
from core.queue.order import queue_time
from core.quota.arena import Arena
from core.quota.capacity import Shortage
from core.quota.node import CohortNode, QueueNode
from core.quota.usage import Reservation
from core.scheduling.snapshot import Head


class Candidate(Struct, frozen=True, gc=False):
    """A workload that may be preempted, and the ``reason`` of its Preempted condition; a target when it is chosen.

    ``cohort`` is the lowest cohort that it shares with the preemptor (classical preemption only).
    """

    held: Reservation
    node: QueueNode
    reason: str = ""
    cohort: CohortNode | None = None
    only_without_borrowing: bool = False

    @property
    def key(self) -> Key:
        """The workload's key."""
        return self.held.workload.key


_NOTHING: Mapping[FlavorResource, int] = {}
Borrowers = dict[FlavorResource, list[QueueNode]]
"""Cache: which nodes use more than their own quota. It must be emptied when usage changes."""


class Room(Struct, gc=False):
    """The room that a preemptor needs: quota, and an admission that every further capacity of the arena can place,
    in place of the one that is ``replaced``.
    """

    quota: Mapping[FlavorResource, int]
    admission: Admission | None = None
    replaced: Reservation | None = None


class Preemptor(Struct, gc=False):
    """A head that needs room in its arena. ``gone`` are workloads that other heads preempt and that count no longer.

    ``borrowers`` is shared by all preemptors that read the same usage of the same tree.
    """

    head: Head
    arena: Arena
    node: QueueNode
    policy: SchedulingPolicy
    local_usage: Mapping[Key, float] = field(default_factory=dict)
    gone: set[Key] = field(default_factory=set)
    borrowers: Borrowers = field(default_factory=dict)
    inside: bool | None = None
    """Cache: whether any workload of its own ClusterQueue may be preempted."""
    short: bool = False
    """Whether a further capacity had no room for it: then it depends on what others use of that, in any tree."""

    def hopeless(self, need: Iterable[FlavorResource]) -> bool:
        """Whether, at a glance, there is no candidate at all; False proves nothing."""
        node, rules = self.node, self.node.spec.preemption
        if self.inside is None:
            self.inside = self._reaches(node, rules.within_cluster_queue)
        if self.inside:
            return False
        if node.parent is None or rules.reclaim_within_cohort == PreemptionPolicy.NEVER:
            return True
        for fr in need:
            for queue in self._borrowing(fr):
                if queue is not node and self._reaches(queue, rules.reclaim_within_cohort):
                    return False
        return True

    def _reaches(self, queue: QueueNode, policy: str) -> bool:
        """Whether the policy could allow anyone there to be preempted."""
        if policy == PreemptionPolicy.LOWER_PRIORITY:
            return queue.lowest() < self.head.workload.priority
        if policy == PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY:
            return queue.lowest() <= self.head.workload.priority
        return policy != PreemptionPolicy.NEVER and bool(queue.reserved)

    def _borrowing(self, fr: FlavorResource) -> list[QueueNode]:
        found = self.borrowers.get(fr)
        if found is None:
            found = self.borrowers[fr] = [queue for queue in self.node.root().members() if queue.exceeds(fr)]
        return found

    def used_inside(self) -> Mapping[FlavorResource, int]:
        """Returns an upper bound of what the workloads of its own ClusterQueue use that it may preempt."""
        node, policy = self.node, self.node.spec.preemption.within_cluster_queue
        if policy == PreemptionPolicy.LOWER_PRIORITY:
            return node.used_below(self.head.workload.priority)
        if policy == PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY:
            return node.used_below(self.head.workload.priority + 1)
        return _NOTHING

    def satisfies(self, policy: str, candidate: Workload) -> bool:
        """Whether a preemption policy allows this workload to preempt the candidate."""
        mine, its = self.head.workload.priority, candidate.priority
        if policy == PreemptionPolicy.LOWER_PRIORITY:
            return mine > its
        if policy == PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY:
            return mine > its or (mine == its and self.head.time < queue_time(candidate, self.policy))
        return policy == PreemptionPolicy.ANY

    def candidates(self, node: QueueNode, policy: str, need: frozenset[FlavorResource]) -> Iterator[Reservation]:
        """Returns the workloads of a ClusterQueue that use what is needed and that the policy allows to preempt."""
        for key, held in node.reserved.items():
            if held.uses(need) and key not in self.gone and self.satisfies(policy, held.workload):
                yield held

    def fits(self, room: Room, *, borrowing: bool) -> bool:
        """Whether there is room as usage is now."""
        node = self.node
        for fr, amount in room.quota.items():
            if not borrowing and node.exceeds(fr, amount):
                return False
            if amount > 0 and amount > node.available(fr):
                return False
        if room.admission is None:
            return True
        found = self.arena.has_room(self.head.workload, room.admission, replaced=room.replaced)
        self.short = self.short or not found
        return found

    def place(self, admission: Admission, replaced: Reservation | None, *, empty: bool = False) -> Admission | Shortage:
        """Returns the admission with what the further capacities decide, or what the first lacks (``Arena.place``)."""
        found = self.arena.place(self.head.workload, admission, replaced=replaced, empty=empty)
        self.short = self.short or isinstance(found, Shortage)
        return found

    def remove(self, targets: Iterable[Candidate]) -> None:
        """Judges as if these were gone."""
        for target in targets:
            self.arena.remove(target.node, target.held.usage)

    def add(self, targets: Iterable[Candidate]) -> None:
        """Undoes ``remove``."""
        for target in targets:
            self.arena.add(target.node, target.held.usage)

    def rank(self, held: Reservation) -> tuple[bool, bool, float, int, float, str]:
        """Sort key of candidates: evicted, of other ClusterQueues, more usage of its LocalQueue, then as
        `Reservation`.
        """
        not_evicted, priority, since, uid = held.rank
        mine = held.cluster_queue == self.node.name
        used = 0.0
        if mine and self.local_usage and self.node.spec.admission_mode == USAGE_BASED:
            used = self.local_usage.get(Key(held.workload.key.namespace, held.workload.queue), 0.0)
        return (not_evicted, mine, -used, priority, since, uid)


def fill_back(preemptor: Preemptor, targets: list[Candidate], room: Room, *, borrowing: bool) -> list[Candidate]:
    """The targets without those that are not needed, last ones first; all of them are removed from usage before."""
    needed = targets[-1:]
    for target in reversed(targets[:-1]):
        preemptor.add((target,))
        if not preemptor.fits(room, borrowing=borrowing):
            preemptor.remove((target,))
            needed.append(target)
    return needed
