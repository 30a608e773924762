"""Several leaders in one cluster, each with the arenas of its shard: a model of the plan in docs/scale.md.

Nothing else uses it: it shows that the hand-over of an arena is safe before anything of it is built. Objects are one
sequence of changes, as a watch sends them; each leader has read a part of it, decides with a State of its own, and its
writes arrive later, or never. What makes it safe:

- The mark of a ClusterQueue names the shard that may write admissions in it. Only the mark's holder removes it, and a
  shard takes only a ClusterQueue without a mark.
- A shard decides in an arena if, as it has read, it holds the marks of all ClusterQueues in it. It reads its own marks
  from the same sequence, so it has also read what was written before them.
- It removes a mark when it has read an edit that gives the ClusterQueue to another shard, and none of its decisions is
  unwritten: those were made before it had read the edit, and may use quota of that ClusterQueue.
- A process writes only with the latest lease of its shard, so one that was replaced writes nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from api.names import EvictedReason
from core.model import ClusterQueue, Cohort, Key, Reserve, Workload
from core.model.policy import SchedulingPolicy
from core.quota.arena import Arena
from core.scheduling.cycle import schedule
from core.state.state import State
from core.workload import transitions


@dataclass(frozen=True, slots=True)
class Mark:
    """The shard that may write admissions in a ClusterQueue; None for none."""

    cluster_queue: str
    shard: int | None


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object as it is from now on; None if it is deleted."""

    name: str | Key
    now: ClusterQueue | Cohort | Workload | None
    kind: type


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A decision that is not written yet: how a workload of a ClusterQueue is to be, and was when it was decided."""

    cluster_queue: str
    before: Workload
    after: Workload


@dataclass(slots=True)
class Cluster:
    """The objects of an API server, and the order of their changes."""

    changes: list[ObjectChange | Mark] = field(default_factory=list)
    workloads: dict[Key, Workload] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    leases: dict[int, int] = field(default_factory=dict)
    """How many processes have led each shard; the latest of them may write."""

    def enter(self, kind: type, name: str | Key, now: ClusterQueue | Cohort | Workload | None) -> None:
        """Creates, changes or deletes an object, as a user does."""
        self.changes.append(ObjectChange(name, now, kind))
        if isinstance(name, Key):
            if isinstance(now, Workload):
                self.workloads[name] = now
            else:
                self.workloads.pop(name, None)

    def mark(self, leader: Leader, cluster_queue: str) -> None:
        """Writes that a shard holds a ClusterQueue, unless another one does."""
        if self.leases[leader.shard] == leader.lease and cluster_queue not in self.marks:
            self.marks[cluster_queue] = leader.shard
            self.changes.append(Mark(cluster_queue, leader.shard))

    def unmark(self, leader: Leader, cluster_queue: str) -> None:
        """Removes the mark of a shard."""
        if self.leases[leader.shard] == leader.lease and self.marks.get(cluster_queue) == leader.shard:
            del self.marks[cluster_queue]
            self.changes.append(Mark(cluster_queue, None))

    def write(self, leader: Leader, decision: Unwritten) -> bool:
        """Writes a decision, if the leader may and the workload is as it was decided on; returns whether it did."""
        key = decision.before.key
        leads = self.leases[leader.shard] == leader.lease and self.marks.get(decision.cluster_queue) == leader.shard
        if not leads or self.workloads.get(key) != decision.before:
            return False
        self.enter(Workload, key, decision.after)
        return True


class Leader:
    """A process that leads one of so many shards, from the moment that it took the lease."""

    def __init__(self, cluster: Cluster, shard: int, shards: int, state: State) -> None:
        """``state`` has what does not change: policy, flavors, namespaces, LocalQueues."""
        self.cluster = cluster
        self.shard = shard
        self.shards = shards
        self.state = state
        self.policy: SchedulingPolicy = state.policy
        self.marks: dict[str, int] = {}
        """The marks as it has read them."""
        self.unwritten: list[Unwritten] = []
        self.lease = cluster.leases[shard] = cluster.leases.get(shard, 0) + 1
        self._read = 0
        self.read(len(cluster.changes))  # a quorum read, as a new leader does today

    def read(self, most: int) -> None:
        """Reads the next changes, so many at most."""
        changes = self.cluster.changes[self._read : self._read + most]
        self._read += len(changes)
        for change in changes:
            if isinstance(change, Mark):
                self.marks.pop(change.cluster_queue, None)
                if change.shard is not None:
                    self.marks[change.cluster_queue] = change.shard
            elif change.kind is Workload and isinstance(change.name, Key):
                self.state.set_workload(change.name, change.now if isinstance(change.now, Workload) else None)
            elif change.kind is Cohort and isinstance(change.name, str):
                self.state.set_cohort(change.name, change.now if isinstance(change.now, Cohort) else None)
            elif isinstance(change.name, str):
                queue = change.now if isinstance(change.now, ClusterQueue) else None
                self.state.set_cluster_queue(change.name, queue)

    def hand_over(self) -> None:
        """Takes the ClusterQueues of its arenas that have no mark, and removes its marks from those of others."""
        for arena in list(self.state.reservations.arenas.values()):
            mine = shard_of(arena.name, self.shards) == self.shard
            for name in arena.queues:
                if mine and name not in self.marks:
                    self.cluster.mark(self, name)
                elif not mine and self.marks.get(name) == self.shard and not self.unwritten:
                    self.cluster.unmark(self, name)

    def decide(self, now: float) -> None:
        """Makes one cycle over the arenas that it leads; the decisions are in use here, and written later."""
        arena_of = self.state.reservations.arena_of
        led = {name for name, arena in self.state.reservations.arenas.items() if self._leads(arena)}
        heads = [head for head in self.state.heads(now) if arena_of.get(head.cluster_queue) in led]
        snapshot = self.state.snapshot()
        plan = schedule(snapshot, heads, self.policy, now)
        self.state.release(snapshot)
        self.state.apply(plan)
        for decision in plan.decisions:
            if isinstance(decision, Reserve):
                after = transitions.reserved(decision.workload, decision.admission, now)
                self.unwritten.append(Unwritten(decision.admission.cluster_queue, decision.workload, after))
            else:
                for victim in decision.victims:
                    held = victim.workload.admission
                    stopped = transitions.evicted(victim.workload, EvictedReason.PREEMPTED, "", now)
                    after = transitions.released(stopped, now)
                    self.unwritten.append(Unwritten(held.cluster_queue if held else "", victim.workload, after))

    def write(self) -> Unwritten | None:
        """Writes its next decision; returns it if it was written. One that is refused is withdrawn."""
        if not self.unwritten:
            return None
        decision = self.unwritten.pop(0)
        if self.cluster.write(self, decision):
            return decision
        self.state.unassume(decision.before.key)
        return None

    def _leads(self, arena: Arena) -> bool:
        """Whether it holds all ClusterQueues of an arena, as it has read."""
        return all(self.marks.get(name) == self.shard for name in arena.queues)


def shard_of(arena: str, shards: int) -> int:
    """Returns the shard of an arena: the same in every process, so not Python's hash."""
    return int.from_bytes(blake2b(arena.encode(), digest_size=8).digest(), "big") % shards
