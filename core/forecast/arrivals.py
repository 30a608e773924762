"""Who arrives while others wait: the workloads that were created in the last hours, by LocalQueue.

What was created lately is taken to be created again, as often and in the same bursts, at moments that each run of a
forecast draws for itself. Separate from ``learned``, which knows how long they run: what arrives decides who is first.

A tenant may create any number of workloads, so each LocalQueue keeps its last ones, and above the limit of all the
LocalQueue that has most forgets first.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from api.objects import Key
from core.forecast.sizes import SizeIndex
from core.model import Workload

WINDOW_SECONDS: Final = 4 * 3600.0
"""What was created earlier does not count: rates follow the time of day."""
LEAST_SECONDS: Final = 600.0
"""Of a shorter time no rate is known: then nobody is taken to arrive."""
MOST_OF_A_QUEUE: Final = 100
MOST: Final = 4_000
"""So many workloads of a LocalQueue are kept, and of all of them; with fewer hours behind them the rate is as good."""
TOGETHER_SECONDS: Final = 2.0
"""Workloads of a LocalQueue that were created no further apart arrive in one burst."""


class QueueRate(NamedTuple):
    """How often something arrives in a LocalQueue, and what: bursts of workloads, each as likely as the others."""

    local_queue: Key
    per_second: float
    bursts: tuple[tuple[Workload, ...], ...]


class ArrivalRates(Struct, frozen=True):
    """What arrives in the LocalQueues of an arena."""

    queues: tuple[QueueRate, ...] = ()

    def drawn(self, seed: str, *, opposite: bool = False) -> Iterator[tuple[float, Workload]]:
        """Yields who arrives and when, in seconds, without end and in the order of time. ``opposite`` draws long times
        between two where the same seed without it draws short ones.
        """
        streams = [_drawn(each, seed, opposite=opposite) for each in self.queues]
        return heapq.merge(*streams, key=lambda arrival: arrival[0])


def _drawn(about: QueueRate, seed: str, *, opposite: bool) -> Iterator[tuple[float, Workload]]:
    """Times between two arrivals are exponential: who arrives does not know of the others."""
    at = 0.0
    for number in itertools.count():
        text = f"{seed} {about.local_queue.namespace}/{about.local_queue.name} {number}"
        drawn = hashlib.blake2b(text.encode(), digest_size=8).digest()
        part, which = ((int.from_bytes(drawn[place : place + 4]) + 0.5) / 2**32 for place in (0, 4))
        at -= math.log(1.0 - part if opposite else part) / about.per_second
        for each in about.bursts[int(which * len(about.bursts))]:
            yield at, each


NOBODY: Final = ArrivalRates()


class RecentArrivals:
    """The last workloads of each LocalQueue that were created after ``since`` (epoch seconds), in order of creation."""

    def __init__(self, since: float) -> None:
        self.since = since
        self._queues: dict[Key, deque[Workload]] = {}
        self._forgotten: dict[Key, float] = {}
        self._sizes = SizeIndex[Key]()

    def __len__(self) -> int:
        return self._sizes.total

    def __iter__(self) -> Iterator[Workload]:
        for kept in self._queues.values():
            yield from kept

    def add(self, workload: Workload) -> None:
        """A workload was created. One that takes over the quota of another, or stands for one, does not count."""
        if workload.created < self.since or workload.replaces is not None or workload.variant_of or not workload.queue:
            return
        name = Key(workload.key.namespace, workload.queue)
        kept = self._queues.setdefault(name, deque())
        place = len(kept)
        while place and kept[place - 1].created > workload.created:
            place -= 1
        kept.insert(place, workload)
        self._sizes.change(name, 1)
        if len(kept) > MOST_OF_A_QUEUE:
            self._forget(name)
        if self._sizes.total > MOST:
            self._forget(self._sizes.largest())

    def rates(self, local_queues: Iterable[Key], now: float) -> ArrivalRates:
        """Returns how often workloads arrive in these LocalQueues, and forgets what is too old."""
        found = []
        for name in sorted(local_queues):
            kept = self._queues.get(name)
            while kept and kept[0].created < now - WINDOW_SECONDS:
                self._forget(name)
            begin = max(self.since, now - WINDOW_SECONDS, self._forgotten.get(name, 0.0))
            if kept and now - begin >= LEAST_SECONDS:
                bursts = tuple(_bursts(kept))
                found.append(QueueRate(name, len(bursts) / (now - begin), bursts))
        return ArrivalRates(tuple(found))

    def _forget(self, name: Key) -> None:
        """Forgets the oldest of a LocalQueue: its rate is that of the time since then."""
        kept = self._queues[name]
        self._forgotten[name] = kept.popleft().created
        self._sizes.change(name, -1)
        if not kept:
            del self._queues[name], self._forgotten[name]


def _bursts(kept: Iterable[Workload]) -> Iterator[tuple[Workload, ...]]:
    burst: list[Workload] = []
    for each in kept:
        if burst and each.created - burst[-1].created > TOGETHER_SECONDS:
            yield tuple(burst)
            burst = []
        burst.append(each)
    if burst:
        yield tuple(burst)
