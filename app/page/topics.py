"""What viewers of the page can follow, and which of its rows a change concerns.

Separate from ``app.page.stream``, which sends rows and knows nothing of queues: here the changes of the caches are
noticed. While nobody looks at the page, a change costs one comparison.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Final, NamedTuple

from api import resources
from api.objects import Key, Raw, key_of
from app.page.stream import Hub, RowSteps
from controller.cache.caches import Caches, either
from core.model import Workload
from core.page import overview

STEP: Final = 8
"""So many rows are computed between two pauses."""
NEIGHBOURS: Final = 50
"""So many rows of other queues of a cohort, whose lent quota may have changed, are computed in one pass."""
NODES_SECONDS: Final = 5.0
"""Which flavors have nodes is computed no more often."""


class TopicName(NamedTuple):
    """What is followed: ``queues``, ``cohorts``, the LocalQueues of a ``namespace``, or one ``workload``."""

    kind: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return ":".join(
            [self.kind, *([f"{self.namespace}/{self.name}" if self.name else self.namespace] if self.namespace else [])]
        )


def read(text: str) -> TopicName:
    """Returns the topic of a text like ``workload:team-a/train``. Raises ValueError for any other text."""
    kind, _, rest = text.partition(":")
    namespace, _, name = rest.partition("/")
    wanted = {"queues": (False, False), "cohorts": (False, False), "namespace": (True, False), "workload": (True, True)}
    if wanted.get(kind) != (bool(namespace), bool(name)):
        raise ValueError(f"{text!r} is no topic: queues, cohorts, namespace:NAMESPACE or workload:NAMESPACE/NAME")
    return TopicName(kind, namespace, name)


class Changes:
    """Notices what changes, for the rows that are followed. ``connect`` it once, when the caches are complete."""

    def __init__(self, caches: Caches, clock: Callable[[], float] = time.monotonic) -> None:
        self.caches = caches
        self.clock = clock
        self.hub: Hub
        self._topics: dict[TopicName, _Rows] = {}
        self._changes: Counter[Hashable] = Counter()
        """How often workloads of a ClusterQueue, or of a LocalQueue, have changed."""

    def connect(self, hub: Hub) -> None:
        """Notices changes from now on."""
        self.hub = hub
        caches = self.caches
        caches.observers.append(self._workload_changed)
        for resource, kind in ((resources.CLUSTER_QUEUES, "queues"), (resources.COHORTS, "cohorts")):
            caches.stores[resource].listen(partial(self._named_changed, kind))
        caches.stores[resources.LOCAL_QUEUES].listen(self._local_queue_changed)
        for resource in (resources.RESOURCE_FLAVORS, resources.ADMISSION_CHECKS, resources.TOPOLOGIES):
            if resource in caches.stores:
                caches.stores[resource].listen(lambda old, new: self._all_changed())
        caches.stores[resources.NODES].listen(lambda old, new: self._nodes_changed())

    def topic(self, name: Hashable) -> _Rows:
        """Returns the topic of a name, with nothing noticed yet."""
        assert isinstance(name, TopicName)
        self._topics[name] = found = _KINDS[name.kind](self, name)
        return found

    def forget(self, name: Hashable) -> None:
        """A topic is not followed any more."""
        self._topics.pop(name, None)  # type: ignore[call-overload]

    def version(self, of: Hashable) -> int:
        """Returns a number that is another one after each change of a workload of a queue."""
        return self._changes[of]

    def _mark(self, topic: TopicName, row: Hashable) -> None:
        found = self._topics.get(topic)
        if found is not None:
            found.dirty[row] = None
            self.hub.changed()

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if self.hub.idle:
            return
        uses = any(each is not None and each.admission is not None for each in (new, old))
        for each in (new, old):
            if each is None:
                continue
            key = Key(each.key.namespace, each.queue)
            local = self.caches.state.pending.local_queues.get(key)
            names = {local.cluster_queue} if local is not None else set()
            if each.admission is not None:
                names.add(each.admission.cluster_queue)
            for name in names:
                self._changes[name] += 1
                self._mark(_QUEUES, name)
                if uses:
                    self._shares_changed(name)
            if local is not None:
                self._changes[key] += 1
                self._mark(TopicName("namespace", key.namespace), key)
            self._mark(TopicName("workload", *each.key), each.key)

    def _named_changed(self, kind: str, old: Raw | None, new: Raw | None) -> None:
        name = either(old, new)["metadata"]["name"]
        if new is None:
            self._changes.pop(name, None)
        self._mark(TopicName(kind), name)
        if kind == "queues":
            self._shares_changed(name)
        else:
            self._all_changed()

    def _shares_changed(self, name: str) -> None:
        """What a ClusterQueue uses or may use has changed: that concerns those that share quota with it."""
        found = self._topics.get(_QUEUES)
        if isinstance(found, _Queues):
            found.shared[name] = None

    def _local_queue_changed(self, old: Raw | None, new: Raw | None) -> None:
        key = key_of(either(old, new))
        if new is None:
            self._changes.pop(key, None)
        self._mark(TopicName("namespace", key.namespace), key)
        for each in (old, new):
            if each is not None:
                self._mark(_QUEUES, (each.get("spec") or {}).get("clusterQueue", ""))

    def _all_changed(self) -> None:
        for name in self.caches.state.reservations.cluster_queues if _QUEUES in self._topics else ():
            self._mark(_QUEUES, name)

    def _nodes_changed(self) -> None:
        found = self._topics.get(_QUEUES)
        if isinstance(found, _Queues) and not found.nodes_changed:
            found.nodes_changed = True
            self.hub.changed()


class _Rows:
    """The rows of a topic; ``dirty`` are those that may have changed."""

    def __init__(self, changes: Changes, name: TopicName) -> None:
        self.changes = changes
        self.state = changes.caches.state
        self.name = name
        self.dirty: dict[Hashable, None] = {}

    def all_rows(self) -> RowSteps:
        """Returns every row by its name."""
        self.dirty = dict.fromkeys(self.every())
        return (yield from self.changed_rows())

    def changed_rows(self) -> RowSteps:
        """Returns the rows that may have changed."""
        taken, self.dirty = self.dirty, {}
        found: dict[str, Raw | None] = {}
        for number, each in enumerate(taken):
            found[str(each)] = self.row(each)
            if number % STEP == STEP - 1:
                yield
        return found

    def every(self) -> list[Hashable]:
        """Returns what rows there are."""
        raise NotImplementedError

    def row(self, of: Hashable) -> Raw | None:
        """Returns one row."""
        raise NotImplementedError


class _Queues(_Rows):
    """All ClusterQueues. When the usage of one changes, what others of its cohort lend may change: their rows are
    computed a little later, and a few at a time. ``shared`` are those whose usage or quota has changed.
    """

    def __init__(self, changes: Changes, name: TopicName) -> None:
        super().__init__(changes, name)
        self.nodes_changed = True
        self._empty: frozenset[str] = frozenset()
        self._looked_at = -NODES_SECONDS
        self._neighbours: dict[str, None] = {}
        self.shared: dict[str, None] = {}

    def changed_rows(self) -> RowSteps:
        """Returns the rows that may have changed, and some of those beside them."""
        self._look_at_nodes()
        reservations = self.state.reservations
        shared, self.shared = self.shared, {}
        for arena in {reservations.arena_of[name] for name in shared if name in reservations.arena_of}:
            self._neighbours |= dict.fromkeys(reservations.arenas[arena].queues)
        for each in self.dirty:
            self._neighbours.pop(str(each), None)
        for name in list(self._neighbours)[:NEIGHBOURS]:
            del self._neighbours[name]
            self.dirty[name] = None
        found = yield from super().changed_rows()
        if self._neighbours or self.nodes_changed:
            self.changes.hub.changed()
        return found

    def _look_at_nodes(self) -> None:
        now = self.changes.clock()
        if not self.nodes_changed or now - self._looked_at < NODES_SECONDS:
            return
        self.nodes_changed, self._looked_at = False, now
        found = overview.empty_flavors(self.state.reservations.flavors.values(), self.changes.caches.nodes)
        if found != self._empty:
            self._empty = found
            self.dirty |= dict.fromkeys(self.state.reservations.cluster_queues)

    def every(self) -> list[Hashable]:
        """Returns the names of all ClusterQueues."""
        return list(self.state.reservations.cluster_queues)

    def row(self, of: Hashable) -> Raw | None:
        """Returns the row of a ClusterQueue, with the number of its changes."""
        name = str(of)
        found = overview.queue_row(self.state, name, self._empty)
        return None if found is None else {**found, "v": self.changes.version(name)}


class _Cohorts(_Rows):
    def every(self) -> list[Hashable]:
        """Returns the names of all Cohorts."""
        return list(self.state.reservations.cohorts)

    def row(self, of: Hashable) -> Raw | None:
        """Returns the row of a Cohort."""
        return overview.cohort_row(self.state, str(of))


class _Namespace(_Rows):
    def every(self) -> list[Hashable]:
        """Returns the LocalQueues of the namespace."""
        return [key for key in self.state.pending.local_queues if key.namespace == self.name.namespace]

    def row(self, of: Hashable) -> Raw | None:
        """Returns the row of a LocalQueue, with the number of its changes."""
        assert isinstance(of, Key)
        found = overview.local_queue_row(self.state, of)
        return None if found is None else {**found, "v": self.changes.version(of)}


class _Workload(_Rows):
    def every(self) -> list[Hashable]:
        """Returns the workload."""
        return [Key(self.name.namespace, self.name.name)]

    def row(self, of: Hashable) -> Raw | None:
        """Returns the version of the workload."""
        assert isinstance(of, Key)
        raw = self.changes.caches.workloads.get(of)
        return None if raw is None else {"name": str(of), "v": raw["metadata"].get("resourceVersion", "")}


_QUEUES: Final = TopicName("queues")
_KINDS: Final[Mapping[str, type[_Rows]]] = {
    "queues": _Queues,
    "cohorts": _Cohorts,
    "namespace": _Namespace,
    "workload": _Workload,
}
