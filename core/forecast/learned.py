"""How long workloads ran, by class: what is remembered of those that have finished, encoded in at most 1 MiB.

A class is what workloads have in common: the LocalQueue, the name of their owner without its generated end, the shape
of their pods. Each finished workload counts in its class and in five wider ones; the narrowest that has enough of them
is asked. A class keeps counts by length, 16 % apart, which halve when they are many: what happened lately weighs more.

Users choose the names of their jobs, so there may be any number of classes. Above the limit the class that was used
least recently is forgotten, of the namespace that has most: nobody makes another namespace forget. Separate from
``run_times``, which is what a forecast asks.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Final

from msgspec import Struct

from api.names import Condition
from core.forecast.run_times import UNKNOWN, RunTime
from core.forecast.sizes import SizeIndex
from core.model import Workload

MOST_CLASSES: Final = 6_000
"""Classes at most: 112 bytes each when encoded, so that all of them are less than 1 MiB; about 2 MB in memory."""
FEWEST: Final = 5
"""A class with fewer finished workloads is not asked, unless they have the same name: then ``FEWEST_NAMED`` are enough,
and are taken to have missed the shortest and the longest ones by the part ``MISSED``.
"""
FEWEST_NAMED: Final = 2
MISSED: Final = 0.4
TOGETHER: Final = 0.3
"""Of workloads of different names: how much of their spread is that of names."""
MOST_WEIGHT: Final = 250
"""The counts of a class halve when they add up to more."""
PART: Final = 1_000
"""Classes that are made bytes at once: half a millisecond."""
BUCKETS, BASE = 96, 1.16
"""Counts by length: bucket n is for lengths from 1.16^n - 1 to 1.16^(n+1) - 1 seconds; the last ends after 17 days."""
QUANTILES: Final = 21
OUTLIVED: Final = (0.05, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
"""A workload that runs longer than all known ones runs on for these multiples of the time that it has run: of lengths
without scale, which is how those of jobs are, half last twice as long as they have.
"""
LEVELS: Final = (
    "jobs of the same name and shape in the same LocalQueue",
    "jobs of the same name and shape in the namespace",
    "jobs of the same name in the same LocalQueue",
    "jobs of the same name in the namespace",
    "jobs of the same shape in the same LocalQueue",
    "jobs in the same LocalQueue",
)
_NAMED: Final = 4
"""So many levels are of the same name."""
_RECORD: Final = struct.Struct(f"<8sff{BUCKETS}s")
_ENDS: Final = re.compile(r"([-.](?=[^-.]*\d)[0-9a-z]{5,}|-[bcdfghjklmnpqrstvwxz2456789]{5}|[-._]?\d+)$")
FORMAT: Final = b"seiretsu-run-times-1\n"


class Lengths(Struct, gc=False):
    """The lengths of one class."""

    shortest: float
    longest: float
    counts: bytearray

    @property
    def weight(self) -> int:
        """How many finished workloads count."""
        return sum(self.counts)

    def add(self, seconds: float) -> None:
        """Counts one more."""
        place = min(int(math.log(max(0.0, seconds) + 1.0, BASE)), BUCKETS - 1)
        if sum(self.counts) >= MOST_WEIGHT:
            self._halve()
        self.shortest, self.longest = min(self.shortest, seconds), max(self.longest, seconds)
        self.counts[place] += 1

    def merge(self, other: Lengths) -> None:
        """Counts those of another one, too."""
        both = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        while sum(both) > MOST_WEIGHT:
            both = _halved(both)
        self.counts = bytearray(both)
        self.shortest, self.longest = min(self.shortest, other.shortest), max(self.longest, other.longest)

    def above(self, seconds: float) -> int:
        """How many were certainly longer than this."""
        return self.weight if seconds < self.shortest or seconds <= 0 else sum(self.counts[_after(seconds) :])

    def quantiles(self, beyond: float = 0.0) -> tuple[float, ...]:
        """Returns quantiles of those that are longer than ``beyond`` seconds, of which there must be some."""
        first = 0 if beyond < self.shortest or beyond <= 0 else _after(beyond)
        known = [(place, count) for place, count in enumerate(self.counts) if count and place >= first]
        ends = list(accumulate(count for _, count in known))
        found = []
        for number in range(QUANTILES):
            rank = ends[-1] * number / (QUANTILES - 1)
            index = bisect_left(ends, rank)
            place, count = known[index]
            value = BASE ** (place + 1 - (ends[index] - rank) / count) - 1.0
            found.append(min(max(value, self.shortest, beyond), self.longest))
        return tuple(found)

    def _halve(self) -> None:
        self.counts = bytearray(_halved(self.counts))


def compressed(plain: bytes) -> bytes:
    """Returns what ``encode`` returns, of ``plain`` bytes; may be called in a thread."""
    return FORMAT + zlib.compress(plain, 6)


def _widened(quantiles: tuple[float, ...], missed: float) -> tuple[float, ...]:
    """Returns quantiles whose ends are further from the middle by a part."""
    last = len(quantiles) - 1
    return tuple(value * (1.0 + missed) ** (2.0 * place / last - 1.0) for place, value in enumerate(quantiles))


def _after(seconds: float) -> int:
    """Returns the first bucket in which all are longer."""
    return int(math.log(seconds + 1.0, BASE)) + 1


def _halved(counts: bytearray | list[int]) -> list[int]:
    """A single count is kept in every other bucket, so that rare lengths do not all vanish."""
    return [(count + place % 2) // 2 for place, count in enumerate(counts)]


class LearnedRunTimes:
    """The classes of each namespace, least recently used first. ``changed`` counts what was added."""

    def __init__(self, most: int = MOST_CLASSES) -> None:
        self._most = most
        self._classes: dict[str, dict[bytes, Lengths]] = {}
        self._sizes = SizeIndex[str]()
        self.changed = 0

    def __len__(self) -> int:
        return self._sizes.total

    def add(self, workload: Workload, seconds: float) -> None:
        """A workload has finished after it ran for so many seconds."""
        self.changed += 1
        for name in classes(workload):
            mine = self._classes.setdefault(workload.key.namespace, {})
            found = mine.pop(name, None)
            if found is None:
                found = Lengths(seconds, seconds, bytearray(BUCKETS))
                self._sizes.change(workload.key.namespace, 1)
            mine[name] = found
            found.add(seconds)
        self._forget_some()

    def run_time(self, workload: Workload, ran: float) -> RunTime:
        """Returns how much longer a workload runs that has run for so many seconds; it is a ``RunTimes``."""
        mine = self._classes.get(workload.key.namespace)
        outlived: RunTime | None = None
        for level, name in enumerate(classes(workload) if mine else ()):
            found = mine.get(name) if mine else None
            if found is None or found.weight < (FEWEST_NAMED if level < _NAMED else FEWEST):
                continue
            if not ran or found.above(ran) >= min(FEWEST, found.weight / 10):
                quantiles = found.quantiles(ran) if not ran or found.above(ran) else ()
                if quantiles:
                    like = f"{workload.key.namespace} {name.hex()}"
                    together = 1.0 / (found.weight + 1) if level < _NAMED else TOGETHER
                    missed = MISSED if found.weight < FEWEST else 0.0
                    known = tuple(value - ran for value in (_widened(quantiles, missed) if missed else quantiles))
                    return RunTime(tuple(max(0.0, value) for value in known), LEVELS[level], like, together)
            if outlived is None:
                rests_on = f"{LEVELS[level]}, none of which ran as long"
                outlived = RunTime(tuple(part * ran for part in OUTLIVED), rests_on)
        return outlived or UNKNOWN

    def merge(self, other: LearnedRunTimes) -> None:
        """Takes over what another one knows; of the same class the lengths of both count."""
        for namespace, theirs in other._classes.items():
            mine = self._classes.setdefault(namespace, {})
            for name, lengths in theirs.items():
                if name in mine:
                    mine[name].merge(lengths)
                else:
                    mine[name] = Lengths(lengths.shortest, lengths.longest, bytearray(lengths.counts))
                    self._sizes.change(namespace, 1)
        self._forget_some()

    def encode(self) -> bytes:
        """Returns all as bytes, less than 1 MiB."""
        return compressed(self.plain())

    def plain(self) -> bytes:
        """Returns all as bytes that are not compressed, which takes longer than all else."""
        return b"".join(self.plain_in_parts())

    def plain_in_parts(self) -> Iterator[bytes]:
        """As ``plain``, in parts of less than a millisecond; between two parts others may be added."""
        for namespace, mine in list(self._classes.items()):
            name, found = namespace.encode(), iter(list(mine.items()))
            yield struct.pack("<HI", len(name), len(mine)) + name
            while part := list(islice(found, PART)):
                yield b"".join(_RECORD.pack(key, each.shortest, each.longest, bytes(each.counts)) for key, each in part)

    @classmethod
    def decode(cls, data: bytes, most: int = MOST_CLASSES) -> LearnedRunTimes:
        """Returns what ``encode`` made bytes of. Raises ``ValueError`` for anything else."""
        made = cls(most)
        for namespace, key, lengths in _decoded(data):
            mine = made._classes.setdefault(namespace, {})
            if key in mine:
                continue
            mine[key] = lengths
            made._sizes.change(namespace, 1)
        made._forget_some()
        return made

    def _forget_some(self) -> None:
        while self._sizes.total > self._most:
            largest = self._sizes.largest()
            mine = self._classes[largest]
            del mine[next(iter(mine))]
            if not mine:
                del self._classes[largest]
            self._sizes.change(largest, -1)


def _decoded(data: bytes) -> Iterator[tuple[str, bytes, Lengths]]:
    if not data.startswith(FORMAT):
        raise ValueError("it does not begin as run times do")
    limit = MOST_CLASSES * (_RECORD.size + 300)
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(data[len(FORMAT) :], limit)
        if not unpacker.eof:
            raise ValueError("it has no end")
        place = 0
        while place < len(plain):
            length, count = struct.unpack_from("<HI", plain, place)
            place += 6
            namespace = plain[place : place + length].decode()
            place += length
            for _ in range(count):
                key, shortest, longest, counts = _RECORD.unpack_from(plain, place)
                place += _RECORD.size
                if not 0 <= shortest <= longest < math.inf:
                    raise ValueError("a length is no number of seconds")
                yield namespace, key, Lengths(shortest, longest, bytearray(counts))
    except (zlib.error, struct.error) as error:
        raise ValueError(f"it cannot be read: {error}") from error


def ran(workload: Workload) -> float | None:
    """Returns for how many seconds a finished workload ran; None if it was stopped, or never ran."""
    admitted, finished = (workload.condition(kind) for kind in (Condition.ADMITTED, Condition.FINISHED))
    if admitted is None or finished is None or not admitted.status or not finished.status or workload.variant_of:
        return None
    if workload.holds(Condition.EVICTED):
        return None
    return max(0.0, finished.since - admitted.since)


def classes(workload: Workload) -> tuple[bytes, ...]:
    """Returns the names of the classes of a workload in its namespace, the narrowest first; as long as each other,
    whatever users write.
    """
    owner = workload.owner
    called = f"{owner.kind if owner else ''}/{stem(owner.name if owner else workload.key.name)}"
    shape = repr([(each.count, sorted(each.requests.items())) for each in workload.pod_sets])
    queue = workload.queue
    parts = ((queue, called, shape), ("", called, shape), (queue, called, ""), ("", called, ""))
    wider = ((queue, "", shape), (queue, "", ""))
    return tuple(hashlib.blake2b(repr(each).encode(), digest_size=8).digest() for each in (*parts, *wider))


def stem(name: str) -> str:
    """Returns a name without its generated end: numbers, dates, hashes, and the five letters of ``generateName``."""
    for _ in range(3):
        shorter = _ENDS.sub("", name)
        if not shorter or shorter == name:
            break
        name = shorter
    return name
