"""Parked workloads that are to be looked at again, but not before those that never stopped being looked at.

When quota becomes free, the first to be asked are heads that are in line already: a preemptor whose victims have just
gone, a StrictFIFO head. Kueue has that effect by waking parked workloads a second late. Here they are woken as soon as
the cycles of their tree come to rest and nobody in it is on his way out, at the latest after that second.
Those parked in between are looked at once more, as in Kueue: a search for flavors that goes on where it stopped may by
then have another reason to give.
Separate from ``core.state.state``, which knows when that is.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

MAX_WAIT = 1.0
"""Seconds after which parked workloads are woken whatever else is going on in their tree."""


class WakeUps:
    """By ClusterQueue: the resources that became free (None: anything may have changed), and since when that waits."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[str] | None] = {}
        self._since: dict[str, float] = {}

    def __bool__(self) -> bool:
        """Whether anybody is to be woken, now or later."""
        return bool(self._waiting)

    def add(self, name: str, resources: set[str] | None) -> None:
        """Whoever waits in the tree of this ClusterQueue for one of the resources is to be woken."""
        old = self._waiting.get(name, set())
        self._waiting[name] = None if old is None or resources is None else old | resources

    def due(self, now: float, roots: Mapping[str, str], busy: Set[str | None]) -> dict[str, set[str] | None]:
        """Take out what is to be woken now, by tree; ``busy`` trees have not come to rest."""
        due: dict[str, set[str] | None] = {}
        for name in sorted(self._waiting):
            root = roots.get(name)
            if root in busy and now < self._since.setdefault(name, now) + MAX_WAIT:
                continue
            self._since.pop(name, None)
            resources = self._waiting.pop(name)
            if root is not None:
                old = due.get(root, set())
                due[root] = None if old is None or resources is None else old | resources
        return due

    def next(self) -> float | None:
        """When the first is to be woken at the latest; None where nobody is to be."""
        return min(self._since.values()) + MAX_WAIT if self._since else None
