"""How much each of many names has, and which has most, so that it gives way first; each change costs a few steps."""

from __future__ import annotations

from typing import Generic, TypeVar

_Name = TypeVar("_Name")


class SizeIndex(Generic[_Name]):
    """Counts by name; names without any are forgotten."""

    def __init__(self) -> None:
        self.total = 0
        self._sizes: dict[_Name, int] = {}
        self._names: dict[int, dict[_Name, None]] = {}
        self._most = 0

    def change(self, name: _Name, by: int) -> None:
        """A name has so many more, or fewer."""
        old = self._sizes.pop(name, 0)
        if old:
            del self._names[old][name]
            if not self._names[old]:
                del self._names[old]
        new = old + by
        if new:
            self._sizes[name] = new
            self._names.setdefault(new, {})[name] = None
        self.total += by
        self._most = max(self._most, new)
        while self._most and self._most not in self._names:
            self._most -= 1

    def largest(self) -> _Name:
        """Returns a name that has most, the one that has had as many for the longest time; there must be one."""
        return next(iter(self._names[self._most]))
