"""The orders of ClusterQueues, each kept for a second, or for as long as it is true.

Separate from ``core.state.queries``, which computes an order anew: many users ask for positions in the same queue, and
what they ask for must not cost a sort of all that wait each time.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Final

from core.model import Key
from core.queue.queue import Queue, QueueEntry
from core.state.queries import PIECE, order_in_steps
from core.state.state import State

KEPT_SECONDS: Final = 1.0
KEPT: Final = 8
"""Orders of so many ClusterQueues are kept at most."""
MOST_KEPT: Final = 100_000
"""So many workloads are in all of those together at most."""


@dataclass(frozen=True, slots=True)
class Order:
    """The workloads that wait for a ClusterQueue, in the order in which they are decided. ``at`` is when the order was
    computed, in seconds, and after which change of the queue.
    """

    at: float
    changes: tuple[int, Key | None] | None = None
    entries: list[QueueEntry] = field(default_factory=list)
    _positions: dict[Key, list[int]] = field(default_factory=dict)

    def positions(self, local_queue: Key) -> Generator[None, None, list[int]]:
        """Returns the positions of the workloads of a LocalQueue, from 0; yields where the caller may pause. Costs the
        number of workloads once.
        """
        if local_queue not in self._positions:
            namespace, name = local_queue
            found: list[int] = []
            for start in range(0, len(self.entries), 4 * PIECE):
                piece = enumerate(self.entries[start : start + 4 * PIECE], start)
                found += [n for n, e in piece if e.workload.queue == name and e.workload.key.namespace == namespace]
                yield
            self._positions[local_queue] = found
        return self._positions[local_queue]

    def has(self, workload: Key) -> bool:
        """Whether a workload is in it. Costs the number of workloads."""
        return any(each.workload.key == workload for each in self.entries)


class Orders:
    """Computes orders in steps, and keeps them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[str, Order] = {}

    def kept(self, name: str, now: float) -> Order | None:
        """Returns the order of a ClusterQueue if it is young enough, or nothing has changed since."""
        order, queue = self._kept.get(name), self._state.pending.queues.get(name)
        if order is None or queue is None:
            return None
        same = not queue.by_local_queue and order.changes == _changes(queue)
        return order if same or now - order.at < KEPT_SECONDS else None

    def fresh(self, name: str, now: float, workload: Key | None = None) -> Generator[None, None, Order]:
        """Returns the kept order of a ClusterQueue, or computes it; with a workload in it, if that waits there."""
        kept = self.kept(name, now)
        if kept is None or (workload is not None and not kept.has(workload)):
            kept = yield from self.computed(name, now)
        return kept

    def computed(self, name: str, now: float) -> Generator[None, None, Order]:
        """Computes the order of a ClusterQueue; yields where the caller may pause."""
        before = self._kept.pop(name, None)
        queue = self._state.pending.queues.get(name)
        changes = _changes(queue) if queue is not None else None
        known = before.entries if before is not None else ()
        order = Order(now, changes, (yield from order_in_steps(self._state, name, known)))
        while self._kept and (len(self._kept) >= KEPT or self._size() + len(order.entries) > MOST_KEPT):
            del self._kept[next(iter(self._kept))]
        if queue is not None and len(order.entries) <= MOST_KEPT:
            self._kept[name] = order
        return order

    def _size(self) -> int:
        return sum(len(each.entries) for each in self._kept.values())


def _changes(queue: Queue) -> tuple[int, Key | None]:
    """What the order depends on: which workloads wait, and which one keeps the first place."""
    return queue.changes, queue.sticky
