"""Limits for what is read and kept of an API server that is not trusted: a worker cluster may serve objects without
end, and the manager has the memory of one process for all of them.

Memory is counted, not bytes of JSON: an empty object has two bytes and takes seventy. ``weight`` is for JSON before it
is decoded, ``cost`` for an object that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import getsizeof
from typing import Any

import orjson

from api.objects import Raw
from controller.kube.errors import TooLarge
from controller.kube.store import Pair

MEBIBYTE = 1024 * 1024
LARGEST_LISTS = 256 * MEBIBYTE
"""All lists that are being received of one API server, in bytes as they arrive: most of an object is not kept."""
DICT_BYTES, LIST_BYTES, ENTRY_BYTES = 232, 64, 128
"""What CPython takes for a small dict, an empty list, and an entry with its key and value."""


def weight(data: bytes) -> int:
    """Returns how many bytes of memory this JSON can take when it is decoded, at most; about 1 GB a second. One wide
    character makes all others of its string four bytes wide.
    """
    wide = not data.isascii() or b"\\u" in data
    elements = DICT_BYTES * data.count(b"{") + LIST_BYTES * data.count(b"[") + ENTRY_BYTES * data.count(b",")
    return (4 if wide else 1) * len(data) + elements


def cost(value: Any) -> int:
    """Returns how many bytes of memory a decoded value takes."""
    total, pending = 0, [value]
    while pending:
        each = pending.pop()
        total += getsizeof(each)
        if type(each) is dict:
            total += sum(map(getsizeof, each))
            pending += each.values()
        elif type(each) is list:
            pending += each
    return total


def length(raw: Raw) -> int:
    """Returns how many bytes of JSON an object was; more, if it is nested deeper than the encoder writes."""
    try:
        return len(orjson.dumps(raw))
    except TypeError:
        return cost(raw)


class Pool:
    """At most ``most`` bytes for all API servers together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0


class SizeLimit:
    """At most ``most`` bytes of memory for what is kept of one API server, in all stores together, and as many for all
    lists that are being received; ``pool`` is what several have in common. ``costs`` returns what an object of a
    resource takes as it is kept, by the name of the resource; of others everything is kept.

    Costs one entry of a dictionary for each object, and one look at each object.
    """

    def __init__(
        self,
        most: int,
        *,
        pool: Pool | None = None,
        costs: Mapping[str, Callable[[Raw], int]] | None = None,
        largest_lists: int = LARGEST_LISTS,
    ) -> None:
        self.most = most
        self.held = 0
        self._pool = pool or Pool(most)
        self._costs = dict(costs or {})
        self._largest_lists = largest_lists
        self._sizes: dict[str, dict[Pair, int]] = {}
        self._arrived: dict[str, tuple[int, int]] = {}
        """What has arrived of lists that are not complete, by resource: its cost, and its bytes."""

    def cost(self, resource: str, raw: Raw) -> int:
        """Returns what an object takes as it is kept."""
        measured = self._costs.get(resource)
        return measured(raw) if measured is not None else cost(raw)

    def listing(self, resource: str) -> Sizes:
        """Begins to count a list of one resource, instead of one that was interrupted."""
        self._arrived[resource] = (0, 0)
        return Sizes(self, resource)

    def arrive(self, resource: str, size: int, length: int) -> None:
        """Counts a part of a list: what it takes, and its bytes. Raises ``TooLarge`` instead of counting too much."""
        arrived, bytes_arrived = self._arrived.pop(resource, (0, 0))
        others = self._arrived.values()
        self.check(arrived + size + sum(each for each, _ in others), resource)
        if bytes_arrived + length + sum(each for _, each in others) > self._largest_lists:
            raise _too_large(resource, self._largest_lists, "lists")
        self._arrived[resource] = (arrived + size, bytes_arrived + length)

    def observe(self, resource: str, event: str, raw: Raw, size: int) -> None:
        """Counts an event of a watch, or the answer to a write. Raises ``TooLarge`` instead of counting too much."""
        sizes, key = self._sizes.setdefault(resource, {}), _key(raw)
        before = sizes.get(key, 0)
        if event == "DELETED":
            self._change(-sizes.pop(key, 0))
            return
        self._check_growth(size - before, resource)
        self._change(size - before)
        sizes[key] = size

    def replace(self, resource: str, sizes: dict[Pair, int]) -> None:
        """Counts a complete list instead of what is known of the resource."""
        self._arrived.pop(resource, None)
        growth = sum(sizes.values()) - sum(self._sizes.get(resource, {}).values())
        self._check_growth(growth, resource)
        self._change(growth)
        self._sizes[resource] = sizes

    def release(self) -> None:
        """Gives back what it has of the pool: nothing is kept any more."""
        self._change(-self.held)
        self._sizes.clear()
        self._arrived.clear()

    def check(self, size: int, resource: str) -> None:
        """Raises ``TooLarge`` for a size over the limit."""
        if size > self.most:
            raise _too_large(resource, self.most, "memory for objects")

    def _check_growth(self, growth: int, resource: str) -> None:
        self.check(self.held + growth, resource)
        if growth > 0 and self._pool.held + growth > self._pool.most:
            raise _too_large(resource, self._pool.most, "memory for objects of all worker clusters", "")

    def _change(self, growth: int) -> None:
        self.held += growth
        self._pool.held += growth


def _too_large(resource: str, most: int, what: str, where: str = " in this cluster") -> TooLarge:
    return TooLarge(200, "TooLarge", f"{resource}: more than {most / MEBIBYTE:g} MiB of {what}{where} are not read")


class Sizes:
    """The sizes of a list while it is received. What arrives counts, so a list that repeats its objects ends, too."""

    def __init__(self, limit: SizeLimit, resource: str) -> None:
        self._limit = limit
        self._resource = resource
        self._sizes: dict[Pair, int] = {}

    def add(self, raw: Raw, size: int, length: int = 0) -> None:
        """Counts an object: what it takes, and its bytes. Raises ``TooLarge`` instead of counting too much."""
        self._limit.arrive(self._resource, size, length)
        self._sizes[_key(raw)] = size

    def discard(self, raw: Raw) -> None:
        """The object was deleted while the list was received."""
        self._sizes.pop(_key(raw), None)

    def enter(self) -> None:
        """The list is complete."""
        self._limit.replace(self._resource, self._sizes)


def _key(raw: Raw) -> Pair:
    """Namespace and name, of whatever types they are."""
    metadata = raw.get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    return str(found.get("namespace") or ""), str(found.get("name") or "")
