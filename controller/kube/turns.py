"""Keys of several tenants, who take turns: one with ten thousand keys delays each key of another one by one of its own.

A tenant is usually a namespace.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from api.objects import Key

K = TypeVar("K", bound=Hashable)

OLDEST_EVERY = 4
"""One of so many keys of a tenant is its oldest where the newest come first: none waits for ever."""


def namespace_of(key: object) -> Hashable:
    """The namespace of a ``Key``; other keys are all of one tenant."""
    return key.namespace if isinstance(key, Key) else ""


class _Keys(OrderedDict[K, None], Generic[K]):
    """The keys of one tenant, in the order of arrival; ``taken`` of them since it has any."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0


class Turns(Generic[K]):
    """A set of keys, taken from one tenant after the other: within each the oldest first, or mostly the newest.

    A tenant without keys that gets one has its turn after all others. Every operation is O(1).
    """

    def __init__(self, tenant: Callable[[K], Hashable] = namespace_of, *, newest_first: bool = False) -> None:
        self._tenant = tenant
        self._newest_first = newest_first
        self._tenants: OrderedDict[Hashable, _Keys[K]] = OrderedDict()
        """The tenants that have keys; the one whose turn is next comes first."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: K) -> bool:
        return key in self._tenants.get(self._tenant(key), ())

    def __iter__(self) -> Iterator[K]:
        """Yields the keys by tenant."""
        return (key for keys in self._tenants.values() for key in keys)

    def count(self, tenant: Hashable) -> int:
        """How many keys a tenant has."""
        return len(self._tenants.get(tenant, ()))

    @property
    def next_tenant(self) -> Hashable:
        """The tenant whose turn it is; raises ``StopIteration`` without keys."""
        return next(iter(self._tenants))

    def pass_turn(self) -> None:
        """Gives the turn to the next tenant."""
        self._tenants.move_to_end(self.next_tenant)

    def add(self, key: K) -> None:
        """Adds a key after those of its tenant; one that is there keeps its place."""
        tenant = self._tenant(key)
        keys = self._tenants.get(tenant)
        if keys is None:
            keys = self._tenants[tenant] = _Keys()
        elif key in keys:
            return
        keys[key] = None
        self._count += 1

    def discard(self, key: K) -> None:
        """Removes a key, if it is there."""
        tenant = self._tenant(key)
        keys = self._tenants.get(tenant)
        if keys is not None and key in keys:
            del keys[key]
            self._count -= 1
            if not keys:
                del self._tenants[tenant]

    def pop(self) -> K:
        """Removes and returns the next key of the tenant whose turn it is. Raises ``StopIteration`` without keys."""
        tenant, keys = next(iter(self._tenants.items()))
        keys.taken += 1
        key, _ = keys.popitem(last=self._newest_first and keys.taken % OLDEST_EVERY != 0)
        self._count -= 1
        if keys:
            self._tenants.move_to_end(tenant)
        else:
            del self._tenants[tenant]
        return key

    def clear(self) -> None:
        """Removes all keys."""
        self._tenants.clear()
        self._count = 0

    def _check(self) -> None:
        """Asserts that each key is with its tenant, that no tenant is without keys, and that the count is right."""
        assert all(self._tenants.values()), "a tenant without keys has a turn"
        assert all(self._tenant(key) == tenant for tenant, keys in self._tenants.items() for key in keys)
        assert self._count == sum(map(len, self._tenants.values())), "the count of keys is wrong"
