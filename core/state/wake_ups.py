"""Parked workloads that will be decided again, but not before the heads that are already in a queue.

When quota becomes free, the heads that are already in a queue come first: a preemptor whose victims have just stopped,
a StrictFIFO head. Kueue has the same effect because it wakes parked workloads a second later. Here they are woken as
soon as their tree has no heads left and no victim in it is still stopping, at the latest after that second. Workloads
that are parked in the meantime are decided once more, as in Kueue: a search for flavors that continues where it stopped
may then have another reason. Separate from ``core.state.state``, which knows these times.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

MAX_WAIT = 1.0
"""Seconds after which parked workloads are woken regardless of their tree."""


class WakeUps:
    """By ClusterQueue: the resources that became free (None: anything may have changed), and since when that waits."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[str] | None] = {}
        self._since: dict[str, float] = {}

    def __bool__(self) -> bool:
        """Whether any workload will be woken, now or later."""
        return bool(self._waiting)

    def add(self, name: str, resources: set[str] | None) -> None:
        """Registers the workloads in the tree of this ClusterQueue that wait for one of the resources."""
        old = self._waiting.get(name, set())
        self._waiting[name] = None if old is None or resources is None else old | resources

    def due(self, now: float, roots: Mapping[str, str], busy: Set[str | None]) -> dict[str, set[str] | None]:
        """Removes and returns what must be woken now, by tree; ``busy`` trees still have heads."""
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
        """Returns the latest time at which the first must be woken; None if there is none."""
        return min(self._since.values()) + MAX_WAIT if self._since else None
