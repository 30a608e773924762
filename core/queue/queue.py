"""The workloads that wait for one ClusterQueue: who is the head, and who need not be looked at for now.

Workloads of equal shape and priority form a class: where one of them fits nowhere, none does, so a class is parked and
woken as a whole. That keeps parking and waking independent of how many workloads wait. Separate from
``core.state.state``, which decides when to wake. Rules:
https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#queueing-strategy.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import count

from core.model import Key, Tried, Workload
from core.queue.order import QueueKey
from core.quota.demand import Shape

_GONE = -1
_Stop = tuple[tuple[tuple[str, int], ...], ...]
"""Where a search for flavors stopped: the last flavor tried by resource, for each pod set."""
_NOWHERE: frozenset[_Stop] = frozenset()
_SLACK = 64
"""How many dead entries a heap may have beside as many as it has living ones."""
Lane = Key | None
"""The LocalQueue a class belongs to where order depends on it (admission fair sharing), else None."""


class Pending:
    """A workload in its queue. ``asleep`` ones are parked alone, not with their class; ``bypassed`` ones came when that
    was parked.
    """

    __slots__ = ("_stops", "asleep", "bypassed", "circles", "family", "key", "serial", "shape", "tried", "workload")

    def __init__(self, workload: Workload, key: QueueKey, shape: Shape) -> None:
        self.workload = workload
        self.key = key
        self.shape = shape
        self.tried: Tried | None = None
        self.circles = False
        """Whether its search for flavors stopped where it had stopped before, and so will for ever."""
        self._stops: frozenset[_Stop] = _NOWHERE
        self.asleep = False
        self.bypassed = False
        self.serial = _GONE
        self.family: _Family

    def try_on(self, tried: Tried | None) -> bool:
        """Go on behind where the search for flavors stopped; whether it had not stopped there before.

        Searches of several pod sets that get into each other's way can go round for ever while nothing is released.
        """
        if tried is None or self.tried is None or tried.generation != self.tried.generation:
            self._stops = _NOWHERE
        self.tried, self.circles = tried, False
        if tried is None or not tried.unfinished:
            return False
        stop = tuple(tuple(sorted(pod_set.items())) for pod_set in tried.flavors)
        self.circles = stop in self._stops
        self._stops |= {stop}
        return not self.circles


class _Family:
    """The class of workloads of one shape and priority (and LocalQueue, where that matters)."""

    __slots__ = ("awake", "heap", "hopeless", "lane", "members", "message", "parked", "priority", "reason", "shape")

    def __init__(self, shape: Shape, priority: int, lane: Lane) -> None:
        self.shape = shape
        self.priority = priority
        self.lane = lane
        self.heap: list[tuple[QueueKey, int, Pending]] = []
        self.parked = False
        self.reason = ""
        self.message = ""
        """Why it is parked, as its head was told: so it is for all of them, whose status does not say it."""
        self.hopeless = False
        """Parked, and no quota that becomes free helps."""
        self.members = 0
        self.awake = 0
        """Members that are not asleep."""

    @property
    def name(self) -> tuple[int, int, Lane]:
        """What tells it from others, as long as it lives."""
        return (id(self.shape), self.priority, self.lane)

    def hopes_for(self, resources: Collection[str]) -> bool:
        """Whether these resources becoming free could let it in."""
        return not self.hopeless and not self.shape.resources.isdisjoint(resources)

    def top(self) -> Pending | None:
        heap = self.heap
        while heap:
            _, serial, entry = heap[0]
            if entry.serial == serial:
                return entry
            heapq.heappop(heap)
        return None

    def tidy(self) -> None:
        """Drop those that are gone from behind others, once they are most."""
        if len(self.heap) > 2 * self.awake + _SLACK:
            self.heap = [each for each in self.heap if each[2].serial == each[1]]
            heapq.heapify(self.heap)


class Queue:
    """Pending workloads of one ClusterQueue. All operations cost the logarithm of the number of workloads, or of
    classes.
    """

    def __init__(self, *, strict: bool, by_local_queue: bool = False) -> None:
        self.strict = strict
        self.by_local_queue = by_local_queue
        self.sticky: Key | None = None
        self.preemptor: Key | None = None
        """Who waits for victims to go; in a queue that is not strict it is ``sticky`` as well."""
        self.blocked: Key | None = None
        """The head that would have been admitted if the pods of others had been ready; it is ``sticky`` as well."""
        self._entries: dict[Key, Pending] = {}
        self._families: dict[tuple[int, int, Lane], _Family] = {}
        self._orders: dict[Lane, list[tuple[QueueKey, int, _Family]]] = {}
        self._serials = count()
        self._priorities: Counter[int] = Counter()
        self._active = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Pending]:
        return iter(self._entries.values())

    def get(self, key: Key) -> Pending | None:
        """The entry of a workload, if it waits here."""
        return self._entries.get(key)

    @property
    def order(self) -> tuple[bool, bool]:
        """What decides who comes first, beside the workloads themselves."""
        return self.strict, self.by_local_queue

    @property
    def active(self) -> int:
        """How many may be looked at; the others are inadmissible for now."""
        return self._active

    def at_least(self, priority: int) -> int:
        """How many of that priority or a higher one wait here. Costs the number of different priorities."""
        return sum(count for each, count in self._priorities.items() if each >= priority)

    def shapes(self) -> Iterator[tuple[Shape, int]]:
        """What is waited with here, and by how many each. Costs the number of classes."""
        return ((family.shape, family.members) for family in self._families.values() if family.members)

    def classes(self) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """Shape and priority of the classes with active members, and of those with inadmissible ones; a class may be in
        both. Costs the number of classes.
        """
        active: set[tuple[int, int]] = set()
        inadmissible: set[tuple[int, int]] = set()
        for family in self._families.values():
            name = (id(family.shape), family.priority)
            if family.awake and not family.parked:
                active.add(name)
            if family.members and (family.parked or family.awake < family.members):
                inadmissible.add(name)
        return active, inadmissible

    def is_active(self, entry: Pending) -> bool:
        """Whether the entry may become the head."""
        return not entry.asleep and not entry.family.parked

    def push(self, entry: Pending) -> None:
        """Let a workload wait here, in the place of the entry it had."""
        key = entry.workload.key
        if key in self._entries:
            self._drop(key)
        lane = entry.workload.key._replace(name=entry.workload.queue) if self.by_local_queue else None
        name = (id(entry.shape), entry.workload.priority, lane)
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = _Family(entry.shape, entry.workload.priority, lane)
        entry.family, entry.bypassed = family, family.parked
        family.members += 1
        self._priorities[family.priority] += 1
        self._entries[key] = entry
        if not entry.asleep:
            self._line_up(entry)

    def remove(self, key: Key) -> Pending | None:
        """Let a workload leave; it does not keep the first place any more either."""
        if self.sticky == key:
            self.sticky = None
        if self.blocked == key:
            self.blocked = None
        if self.preemptor == key:
            self.preemptor = None
        return self._drop(key) if key in self._entries else None

    def clear(self) -> list[Pending]:
        """Let all workloads leave; those that were here."""
        left = list(self._entries.values())
        for entry in left:
            self.remove(entry.workload.key)
        self.wake()  # a class that is parked is kept, even without members
        return left

    def head(self, usage: Mapping[Key, float] | None = None) -> Pending | None:
        """Who is next; with ``usage`` by LocalQueue, of the LocalQueue that used least."""
        best: Pending | None = None
        best_rank: tuple[float, bool, QueueKey] | None = None
        for lane in tuple(self._orders):
            top = self._lane_head(lane)
            if top is None:
                del self._orders[lane]
                continue
            if lane is None:
                return top
            rank = ((usage or {}).get(lane, 0.0), top.workload.key != self.sticky, top.key)
            if best_rank is None or rank < best_rank:
                best, best_rank = top, rank
        return best

    def park(self, key: Key, *, family: bool, hopeless: bool = False, reason: str = "", message: str = "") -> None:
        """Do not look at the workload (with ``family``: and at those like it) until woken.

        With ``hopeless`` it takes more than quota that becomes free to wake them.
        """
        entry = self._entries[key]
        if family and not self.strict:
            entry.family.hopeless, entry.family.reason, entry.family.message = hopeless, reason, message
            if not entry.family.parked:
                entry.family.parked = True
                self._active -= entry.family.awake
        elif not entry.asleep:
            self._fall_asleep(entry)

    def wake(self, resources: Collection[str] | None = None) -> bool:
        """Look again at parked classes that ask for one of the resources, which became free; None: at all of them, for
        anything may have changed. Whether any was parked.
        """
        woken = False
        for family in list(self._families.values()):
            if family.parked and (resources is None or family.hopes_for(resources)):
                family.parked = family.hopeless = False
                self._active += family.awake
                woken = woken or family.awake > 0
                self._rank(family)
                self._forget(family)
        return woken

    def wake_one(self, key: Key) -> None:
        """Look again at a workload that was parked alone."""
        entry = self._entries[key]
        if entry.asleep:
            entry.asleep = False
            self._line_up(entry)

    def in_order(self, usage: Mapping[Key, float] | None = None) -> list[Pending]:
        """All who wait, active or not, in the order in which they would be looked at. Costs n log n."""

        def rank(entry: Pending) -> tuple[float, bool, QueueKey]:
            lane = entry.family.lane
            return ((usage or {}).get(lane, 0.0) if lane else 0.0, entry.workload.key != self.sticky, entry.key)

        return sorted(self, key=rank)

    def check(self) -> None:
        """Assert what must always hold."""
        assert self._priorities == Counter(entry.family.priority for entry in self)
        active = [entry for entry in self if self.is_active(entry)]
        assert len(active) == self._active, f"{self._active} are said to be active, {len(active)} are"
        if active and not self.by_local_queue:
            first = min(active, key=lambda entry: (entry.workload.key != self.sticky, entry.key))
            assert self.head() is first, "the head is not the first in order"
        for family in self._families.values():
            awake = sum(1 for entry in self if entry.family is family and not entry.asleep)
            assert family.awake == awake, f"{family.awake} of a class are said to be awake, {awake} are"

    def _lane_head(self, lane: Lane) -> Pending | None:
        entry = self._entries.get(self.sticky) if self.sticky else None
        if entry is not None and entry.family.lane == lane and self.is_active(entry):
            return entry
        order = self._orders[lane]
        while order:
            key, _, family = order[0]
            top = None if family.parked else family.top()
            if top is None:
                heapq.heappop(order)
            elif top.key != key:
                heapq.heapreplace(order, (top.key, next(self._serials), family))
            else:
                return top
        return None

    def _line_up(self, entry: Pending) -> None:
        family = entry.family
        entry.serial = next(self._serials)
        heapq.heappush(family.heap, (entry.key, entry.serial, entry))
        family.awake += 1
        if not family.parked:
            self._active += 1
            if family.heap[0][2] is entry:
                self._rank(family)

    def _rank(self, family: _Family) -> None:
        top = family.top()
        if top is None:
            return
        order = self._orders.setdefault(family.lane, [])
        heapq.heappush(order, (top.key, next(self._serials), family))
        if len(order) > 2 * len(self._families) + _SLACK:
            living = [each for each in self._families.values() if each.lane == family.lane and not each.parked]
            order[:] = [(first.key, next(self._serials), each) for each in living if (first := each.top()) is not None]
            heapq.heapify(order)

    def _fall_asleep(self, entry: Pending) -> None:
        entry.asleep = True
        entry.serial = _GONE
        entry.family.awake -= 1
        entry.family.tidy()
        if not entry.family.parked:
            self._active -= 1

    def _drop(self, key: Key) -> Pending:
        entry = self._entries.pop(key)
        if not entry.asleep:
            self._fall_asleep(entry)
            entry.asleep = False
        entry.family.members -= 1
        self._priorities[entry.family.priority] -= 1
        if not self._priorities[entry.family.priority]:
            del self._priorities[entry.family.priority]
        self._forget(entry.family)
        return entry

    def _forget(self, family: _Family) -> None:
        if family.members:
            return
        family.heap.clear()  # entries that are gone refer to it
        if not family.parked:
            del self._families[family.name]
