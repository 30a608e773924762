"""A limit for the objects that are kept of an API server that is not trusted: a worker cluster may serve objects
without end, and the manager has the memory of one process for all of them.
"""

from __future__ import annotations

from api.objects import Raw
from controller.kube.errors import TooLarge
from controller.kube.store import Pair

MEBIBYTE = 1024 * 1024


class SizeLimit:
    """At most ``most`` bytes of JSON, as they arrive, in all stores of one API server together, and as many in
    all lists that are being received.

    Costs one entry of a dictionary for each object.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self._sizes: dict[str, dict[Pair, int]] = {}
        self._arrived: dict[str, int] = {}
        """What has arrived of lists that are not complete, by resource."""

    def listing(self, resource: str) -> Sizes:
        """Begins to count a list of one resource, instead of one that was interrupted."""
        self._arrived[resource] = 0
        return Sizes(self, resource)

    def arrive(self, resource: str, size: int) -> None:
        """Counts a part of a list. Raises ``TooLarge`` instead of counting too much."""
        arrived = self._arrived.pop(resource, 0) + size
        self.check(arrived + sum(self._arrived.values()), resource)
        self._arrived[resource] = arrived

    def observe(self, resource: str, event: str, raw: Raw, size: int) -> None:
        """Counts an event of a watch. Raises ``TooLarge`` instead of counting too much."""
        sizes, key = self._sizes.setdefault(resource, {}), _key(raw)
        if event == "DELETED":
            self.held -= sizes.pop(key, 0)
            return
        self.check(self.held - sizes.get(key, 0) + size, resource)
        self.held += size - sizes.get(key, 0)
        sizes[key] = size

    def replace(self, resource: str, sizes: dict[Pair, int]) -> None:
        """Counts a complete list instead of what is known of the resource."""
        self._arrived.pop(resource, None)
        held = self.held - sum(self._sizes.get(resource, {}).values()) + sum(sizes.values())
        self.check(held, resource)
        self.held, self._sizes[resource] = held, sizes

    def check(self, size: int, resource: str) -> None:
        """Raises ``TooLarge`` for a size over the limit."""
        if size > self.most:
            most = f"{self.most / MEBIBYTE:g} MiB"
            raise TooLarge(200, "TooLarge", f"{resource}: more than {most} of objects in this cluster are not read")


class Sizes:
    """The sizes of a list while it is received. What arrives counts, so a list that repeats its objects ends, too."""

    def __init__(self, limit: SizeLimit, resource: str) -> None:
        self._limit = limit
        self._resource = resource
        self._sizes: dict[Pair, int] = {}

    def add(self, raw: Raw, size: int) -> None:
        """Counts an object. Raises ``TooLarge`` instead of counting too much."""
        self._limit.arrive(self._resource, size)
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
