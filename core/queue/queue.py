"""The workloads that wait for one ClusterQueue: which is the head, and which are parked.

Workloads of equal demand and priority form a group: if one of them fits in no flavor, none does, so a group is parked
and woken as a whole. Therefore the cost of parking and waking does not depend on the number of waiting workloads. Where
quota alone decided, groups that differ only in where in a topology their pods are to be are parked together.

The states of a workload, in Kueue's words (active, inadmissible), with the methods that change them:

      push                     park(group=True)
    --------> ACTIVE -------------------------------> INADMISSIBLE with its group (``group.parked``)
              ^ ^ |                                        |
              | | |      wake, offer: if the group ``hopes_for`` what became free
              | +-|----------------------------------------+
              |   | park(group=False), or the queue is strict
              |   +---------------------------------> INADMISSIBLE alone (``asleep``)
              |                                            |
              |          wake_one; wake, if it is ``gated`` (it may not preempt)
              +--------------------------------------------+

A workload that is pushed while its group is parked is inadmissible with it (``bypassed``: not decided itself), and so
is one of that group that was alone; a push with ``asleep`` is inadmissible alone. A parked group that is ``hopeless``
hopes for no quota, one that is ``short`` hopes for room in other capacities. A queue marks at most one workload as
``preemptor`` (it waits for its victims to stop), ``blocked`` (for the pods of others to be ready), and ``sticky`` (one
of these that is the head while it is active, whatever the order). ``remove`` leaves from every state, without marks.

Separate from ``core.state.state``, which decides when to wake. Rules:
https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#queueing-strategy.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import count

from msgspec import Struct

from core.model import Key, Tried, Workload
from core.queue.order import QueueKey
from core.quota.demand import Demand
from core.quota.usage import ANYTHING_FREED, Freed

_Stop = tuple[tuple[tuple[str, int], ...], ...]
"""Where a search for flavors stopped: the last flavor tried by resource, for each pod set."""
_SLACK = 64
"""How many removed entries a heap may have in addition to as many as its valid ones."""


class SearchProgress:
    """The search for flavors of a workload that was decided. ``repeats``: it stopped at the same flavor as before, and
    so always will. ``short``: in a flavor that it has left behind, room in another capacity than quota was missing.
    """

    __slots__ = ("repeats", "short", "stops", "tried")

    def __init__(self, tried: Tried) -> None:
        self.tried = tried
        self.repeats = self.short = False
        self.stops: frozenset[_Stop] = frozenset()


class QueueEntry(Struct, eq=False):
    """A workload in its queue. ``asleep`` ones are parked alone, not with their group, or have left; ``bypassed`` ones
    arrived while the group was parked; ``listed`` ones are in the heap of the group.

    There may be a million, so the entry is its own sort key inside a group: ``time``, then ``tie``, which differs from
    that of every other workload. One that has left may still be in the heap beside one that replaces it.
    """

    time: float
    tie: str
    workload: Workload
    demand: Demand
    group: _Group
    asleep: bool
    bypassed: bool
    listed: bool = False
    search: SearchProgress | None = None

    def __lt__(self, other: QueueEntry) -> bool:
        return (self.time, self.tie) < (other.time, other.tie)

    @property
    def key(self) -> QueueKey:
        """The sort key in the ClusterQueue."""
        return -self.workload.priority, self.time, self.tie

    @property
    def tried(self) -> Tried | None:
        """What its search for flavors has tried."""
        return self.search.tried if self.search is not None else None

    @property
    def repeats(self) -> bool:
        """Whether its search for flavors stopped at the same flavor as before, and so always will."""
        return self.search is not None and self.search.repeats

    @property
    def short(self) -> bool:
        """Whether it lacked room in another capacity than quota, in any flavor of its search."""
        return self.search is not None and self.search.short

    def continue_search(self, tried: Tried | None, *, short: bool = False) -> bool:
        """Continues the search for flavors after the point where it stopped; returns whether that point is new.

        Searches of several pod sets that affect each other could otherwise repeat without end while nothing is
        released.
        """
        if tried is None:
            self.search = None
            return False
        search = self.search
        short = short or (search is not None and search.short and search.tried.unfinished)
        if search is None or tried.generation != search.tried.generation:
            search = self.search = SearchProgress(tried)
        search.tried, search.repeats, search.short = tried, False, short
        if not tried.unfinished:
            return False
        stop = tuple(tuple(sorted(pod_set.items())) for pod_set in tried.flavors)
        search.repeats = stop in search.stops
        search.stops |= {stop}
        return not search.repeats


class _Group:
    """The workloads of one demand and priority (and LocalQueue, where that matters)."""

    __slots__ = (
        "awake",
        "cluster_queue",
        "demand",
        "heap",
        "hopeless",
        "local_queue",
        "members",
        "message",
        "offered",
        "parked",
        "priority",
        "reason",
        "short",
    )

    def __init__(self, cluster_queue: str, demand: Demand, priority: int, local_queue: Key | None) -> None:
        self.cluster_queue = cluster_queue
        self.demand = demand
        self.priority = priority
        self.local_queue = local_queue
        self.heap: list[QueueEntry] = []
        """The members that are awake, and some that were."""
        self.parked = False
        self.reason = ""
        self.message = ""
        """Why the group is parked, from the decision about its head: the reason is the same for all, whose status does
        not have it.
        """
        self.hopeless = False
        """Parked, and no quota that becomes free helps."""
        self.short = False
        """Parked, and there was no room in a capacity beside quota."""
        self.offered = False
        """Woken because it fits in the free quota, and no member has left since."""
        self.members = 0
        self.awake = 0
        """Members that are not asleep."""

    @property
    def name(self) -> tuple[int, int, Key | None]:
        """The identity of the group, as long as it exists."""
        return (id(self.demand), self.priority, self.local_queue)

    @property
    def twins(self) -> Hashable:
        """What it has in common with groups that differ only in where in a topology their pods are to be."""
        return (self.demand.quota, self.priority, self.local_queue)

    def hopes_for(self, freed: Freed) -> bool:
        """Whether it may start because of what became free. Quota is that of its own tree."""
        resources = freed.resources
        if resources is None:
            return True
        asks = not self.demand.resources.isdisjoint(resources) or (freed.further and self.short)
        return asks and not self.hopeless

    def top(self) -> QueueEntry | None:
        """The first member that is awake."""
        heap = self.heap
        while heap:
            if not heap[0].asleep:
                return heap[0]
            heapq.heappop(heap).listed = False
        return None

    def compact(self) -> None:
        """Removes members that are not awake, when these are more than half."""
        if len(self.heap) > 2 * self.awake + _SLACK:
            for entry in self.heap:
                entry.listed = not entry.asleep
            self.heap = [entry for entry in self.heap if entry.listed]
            heapq.heapify(self.heap)


class Queue:
    """The pending workloads of one ClusterQueue. All operations cost the logarithm of the number of workloads, or of
    groups.
    """

    def __init__(self, name: str, *, strict: bool, by_local_queue: bool = False) -> None:
        self.name = name
        self.strict = strict
        self.by_local_queue = by_local_queue
        self.sticky: Key | None = None
        self.preemptor: Key | None = None
        """The workload that waits for its victims to stop; in a queue that is not strict it is ``sticky`` as well."""
        self.blocked: Key | None = None
        """The head that would have been admitted if the pods of others had been ready; it is ``sticky`` as well."""
        self._entries: dict[Key, QueueEntry] = {}
        self._alone: dict[Key, QueueEntry] = {}
        self._gated: dict[Key, QueueEntry] = {}
        """Of those the ones that wait for quota, because they may not preempt."""
        self._groups: dict[tuple[int, int, Key | None], _Group] = {}
        self._twins: dict[Hashable, dict[_Group, None]] = {}
        """Those that differ only in where in a topology their pods are to be, by what they have in common."""
        self._short = 0
        """Groups that are parked and had no room in a capacity beside quota."""
        self._orders: dict[Key | None, list[tuple[QueueKey, int, _Group]]] = {}
        self._serials = count()
        self._priorities: Counter[int] = Counter()
        self._active = 0
        self.changes = 0
        """How often workloads came or left."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[QueueEntry]:
        return iter(self._entries.values())

    @property
    def alone(self) -> tuple[QueueEntry, ...]:
        """The workloads that are parked alone."""
        return tuple(self._alone.values())

    def get(self, key: Key) -> QueueEntry | None:
        """The entry of a workload, if it waits here."""
        return self._entries.get(key)

    @property
    def order(self) -> tuple[bool, bool]:
        """What the order depends on, in addition to the workloads themselves."""
        return self.strict, self.by_local_queue

    @property
    def active(self) -> int:
        """The number of active workloads; the others are inadmissible at present."""
        return self._active

    def at_least(self, priority: int) -> int:
        """Returns how many workloads of that priority or a higher one wait here. The cost depends on the number of
        different priorities.
        """
        return sum(count for each, count in self._priorities.items() if each >= priority)

    def demands(self) -> Iterator[tuple[Demand, int]]:
        """The demands of the workloads that wait here, and how many have each. Costs the number of groups."""
        return ((group.demand, group.members) for group in self._groups.values() if group.members)

    def groups(self) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """Demand and priority of the groups with active members, and of those with inadmissible ones; a group may be
        in both. Costs the number of groups.
        """
        active: set[tuple[int, int]] = set()
        inadmissible: set[tuple[int, int]] = set()
        for group in self._groups.values():
            name = (id(group.demand), group.priority)
            if group.awake and not group.parked:
                active.add(name)
            if group.members and (group.parked or group.awake < group.members):
                inadmissible.add(name)
        return active, inadmissible

    def is_active(self, entry: QueueEntry) -> bool:
        """Whether the entry may become the head."""
        return not entry.asleep and not entry.group.parked

    def push(self, workload: Workload, key: QueueKey, demand: Demand, *, asleep: bool = False) -> QueueEntry:
        """Adds a workload, or replaces its entry; returns its new entry."""
        self.changes += 1
        if workload.key in self._entries:
            self._drop(workload.key)
        local_queue = workload.key._replace(name=workload.queue) if self.by_local_queue else None
        name = (id(demand), workload.priority, local_queue)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(self.name, demand, workload.priority, local_queue)
            if demand.quota is not None:
                self._twins.setdefault(group.twins, {})[group] = None
        entry = QueueEntry(key[1], key[2], workload, demand, group, asleep, group.parked)
        group.members += 1
        self._priorities[group.priority] += 1
        self._entries[workload.key] = entry
        if asleep:
            self._alone[workload.key] = entry
        else:
            self._enqueue(entry)
        return entry

    def remove(self, key: Key) -> QueueEntry | None:
        """Removes a workload; it does not keep the first position either."""
        if self.sticky == key:
            self.sticky = None
        if self.blocked == key:
            self.blocked = None
        if self.preemptor == key:
            self.preemptor = None
        return self._drop(key) if key in self._entries else None

    def clear(self) -> list[QueueEntry]:
        """Let all workloads leave; those that were here."""
        left = list(self._entries.values())
        for entry in left:
            self.remove(entry.workload.key)
        self.wake()  # a group that is parked is kept, even without members
        return left

    def head(self, usage: Mapping[Key, float] | None = None) -> QueueEntry | None:
        """Returns the head; with ``usage`` by LocalQueue, the head of the LocalQueue with the least usage."""
        best: QueueEntry | None = None
        best_rank: tuple[float, bool, QueueKey] | None = None
        for local_queue in tuple(self._orders):
            top = self._first_of(local_queue)
            if top is None:
                del self._orders[local_queue]
                continue
            if local_queue is None:
                return top
            rank = ((usage or {}).get(local_queue, 0.0), top.workload.key != self.sticky, top.key)
            if best_rank is None or rank < best_rank:
                best, best_rank = top, rank
        return best

    def park(
        self,
        key: Key,
        *,
        group: bool,
        hopeless: bool = False,
        short: bool = False,
        gated: bool = False,
        reason: str = "",
        message: str = "",
    ) -> None:
        """Parks the workload (with ``group``: and all equal ones) until it is woken.

        If ``hopeless``, released quota does not wake them; if ``short``, room in another capacity does. Without it
        quota alone decided: those are parked too that ask for the same quota, and their pods elsewhere in a topology. A
        workload that is parked alone is woken by both if ``gated``.
        """
        entry = self._entries[key]
        if group and not self.strict:
            twins = self._twins.get(entry.group.twins, ()) if entry.demand.quota is not None and not short else ()
            for each in twins or (entry.group,):
                if each.parked and each is not entry.group:
                    continue
                each.hopeless, each.reason, each.message = hopeless, reason, message
                self._short += short - each.short
                each.short = short
                if not each.parked:
                    each.parked = True
                    self._active -= each.awake
        elif not entry.asleep:
            self._park_alone(entry)
            if gated:
                self._gated[key] = entry

    def wake(self, freed: Freed = ANYTHING_FREED) -> bool:
        """Look again at parked groups and gated workloads that may start because of what became free. Whether any was
        parked.
        """
        woken = False
        if freed.resources is not None and not freed.resources and not self._short and not self._gated:
            return False  # nothing that anything waits for
        for key, entry in list(self._gated.items()):
            if freed.further or freed.resources is None or not entry.demand.resources.isdisjoint(freed.resources):
                self.wake_one(key)
                woken = True
        for group in list(self._groups.values()):
            if group.parked and group.hopes_for(freed):
                group.offered = False
                woken |= self._unpark(group)
        return woken

    def offer(self, freed: Freed, fits: Callable[[Demand], bool]) -> bool:
        """As ``wake``, for groups that fit in the free quota. If a group is parked again and no member has started,
        something else keeps it from starting: it is not offered quota again before ``wake``, so that what is behind it
        is decided. Returns whether any was parked.
        """
        woken = False
        if freed.resources is not None and not freed.resources and not self._short:
            return False
        for group in list(self._groups.values()):
            hopes = group.parked and group.awake and not group.offered
            if hopes and group.hopes_for(freed) and fits(group.demand):
                group.offered = True
                woken |= self._unpark(group)
        return woken

    def wake_one(self, key: Key) -> None:
        """Look again at a workload that was parked alone."""
        entry = self._entries[key]
        if entry.asleep:
            entry.asleep = False
            del self._alone[key]
            self._gated.pop(key, None)
            self._enqueue(entry)

    def in_order(self, usage: Mapping[Key, float] | None = None) -> list[QueueEntry]:
        """Returns all waiting workloads, active or not, in the order in which they would be decided. Costs n log n."""
        return sorted(self, key=self.rank(usage))

    def rank(self, usage: Mapping[Key, float] | None = None) -> Callable[[QueueEntry], tuple[float, bool, QueueKey]]:
        """Returns the sort key of that order."""

        def rank(entry: QueueEntry) -> tuple[float, bool, QueueKey]:
            local_queue = entry.group.local_queue
            return (
                (usage or {}).get(local_queue, 0.0) if local_queue else 0.0,
                entry.workload.key != self.sticky,
                entry.key,
            )

        return rank

    def check(self) -> None:
        """Asserts the invariants."""
        assert self._priorities == Counter(entry.group.priority for entry in self)
        assert self._alone == {entry.workload.key: entry for entry in self if entry.asleep}
        assert self._gated.items() <= self._alone.items()
        active = [entry for entry in self if self.is_active(entry)]
        assert len(active) == self._active, f"{self._active} are said to be active, {len(active)} are"
        if active and not self.by_local_queue:
            first = min(active, key=lambda entry: (entry.workload.key != self.sticky, entry.key))
            assert self.head() is first, "the head is not the first in order"
        assert self._short == sum(group.short for group in self._groups.values())
        asking = [group for group in self._groups.values() if group.demand.quota is not None]
        assert {group for twins in self._twins.values() for group in twins} == set(asking)
        for group in self._groups.values():
            awake = sum(1 for entry in self if entry.group is group and not entry.asleep)
            assert group.awake == awake, f"{group.awake} of a group are said to be awake, {awake} are"

    def _first_of(self, local_queue: Key | None) -> QueueEntry | None:
        entry = self._entries.get(self.sticky) if self.sticky else None
        if entry is not None and entry.group.local_queue == local_queue and self.is_active(entry):
            return entry
        order = self._orders[local_queue]
        while order:
            key, _, group = order[0]
            top = None if group.parked else group.top()
            if top is None:
                heapq.heappop(order)
            elif top.key != key:
                heapq.heapreplace(order, (top.key, next(self._serials), group))
            else:
                return top
        return None

    def _unpark(self, group: _Group) -> bool:
        """Wakes a parked group; returns whether it has members that are awake then."""
        self._short -= group.short
        group.parked = group.hopeless = group.short = False
        self._active += group.awake
        woken = group.awake > 0
        self._rank(group)
        self._forget(group)
        return woken

    def _enqueue(self, entry: QueueEntry) -> None:
        group = entry.group
        if not entry.listed:
            entry.listed = True
            heapq.heappush(group.heap, entry)
        group.awake += 1
        if not group.parked:
            self._active += 1
            if group.heap[0] is entry:
                self._rank(group)

    def _rank(self, group: _Group) -> None:
        top = group.top()
        if top is None:
            return
        order = self._orders.setdefault(group.local_queue, [])
        heapq.heappush(order, (top.key, next(self._serials), group))
        if len(order) > 2 * len(self._groups) + _SLACK:
            living = [
                each for each in self._groups.values() if each.local_queue == group.local_queue and not each.parked
            ]
            order[:] = [(first.key, next(self._serials), each) for each in living if (first := each.top()) is not None]
            heapq.heapify(order)

    def _park_alone(self, entry: QueueEntry) -> None:
        entry.asleep = True
        self._alone[entry.workload.key] = entry
        entry.group.awake -= 1
        entry.group.compact()
        if not entry.group.parked:
            self._active -= 1

    def _drop(self, key: Key) -> QueueEntry:
        self.changes += 1
        entry = self._entries.pop(key)
        if not entry.asleep:
            self._park_alone(entry)
        del self._alone[key]
        self._gated.pop(key, None)
        entry.group.members -= 1
        entry.group.offered = False
        self._priorities[entry.group.priority] -= 1
        if not self._priorities[entry.group.priority]:
            del self._priorities[entry.group.priority]
        self._forget(entry.group)
        return entry

    def _forget(self, group: _Group) -> None:
        if group.members:
            return
        group.heap.clear()  # entries that are gone refer to it
        if not group.parked:
            del self._groups[group.name]
            if group.demand.quota is not None:
                twins = self._twins[group.twins]
                del twins[group]
                if not twins:
                    del self._twins[group.twins]
