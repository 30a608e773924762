"""The specifications of Cohorts and ClusterQueues, and the members of each Cohort.

Separate from ``core.quota.tree``, which builds trees of quota from them: a change of one specification must not cost a
visit of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from core.model import ClusterQueue, Cohort


class Hierarchy:
    """Cohorts and ClusterQueues by name, with an index of the children of every Cohort, existing or only named."""

    def __init__(self) -> None:
        self._cohorts: dict[str, Cohort] = {}
        self._queues: dict[str, ClusterQueue] = {}
        self._children: dict[str, set[str]] = {}
        self._members: dict[str, set[str]] = {}

    @property
    def cohorts(self) -> Mapping[str, Cohort]:
        """All Cohorts."""
        return self._cohorts

    @property
    def cluster_queues(self) -> Mapping[str, ClusterQueue]:
        """All ClusterQueues."""
        return self._queues

    def set_cohort(self, name: str, cohort: Cohort | None) -> set[str] | None:
        """Sets or deletes a Cohort; returns the Cohorts whose trees contained or contain it, None if nothing
        changed.
        """
        old = self._cohorts.get(name)
        if old == cohort:
            return None
        move(self._children, name, old.parent if old else "", cohort.parent if cohort else "")
        if cohort is None:
            del self._cohorts[name]
        else:
            self._cohorts[name] = cohort
        return {name, *(each.parent for each in (old, cohort) if each is not None and each.parent)}

    def set_cluster_queue(self, name: str, queue: ClusterQueue | None) -> set[str] | None:
        """Set or delete a ClusterQueue; the Cohorts it was or is in, None where nothing changed."""
        old = self._queues.get(name)
        if old == queue:
            return None
        move(self._members, name, old.cohort if old else "", queue.cohort if queue else "")
        if queue is None:
            del self._queues[name]
        else:
            self._queues[name] = queue
        return {each.cohort for each in (old, queue) if each is not None and each.cohort}

    def children(self, cohort: str) -> frozenset[str]:
        """The Cohorts directly below a Cohort."""
        return frozenset(self._children.get(cohort, ()))

    def members(self, cohort: str) -> frozenset[str]:
        """The ClusterQueues directly in a Cohort."""
        return frozenset(self._members.get(cohort, ()))

    def below(self, cohorts: Iterable[str]) -> set[str]:
        """These Cohorts and all that have one of them above, at any distance."""
        found = set(cohorts)
        left = list(found)
        while left:
            more = self._children.get(left.pop(), set()) - found
            found |= more
            left.extend(more)
        return found

    def around(self, cohorts: Iterable[str]) -> set[str]:
        """All Cohorts in the trees of these, existing or only named. One in a circle of parents brings the circle."""
        return self.below({self._top(name) for name in cohorts if name})

    def queues_in(self, cohorts: Iterable[str]) -> dict[str, ClusterQueue]:
        """The ClusterQueues directly in any of these Cohorts."""
        return {name: self._queues[name] for cohort in cohorts for name in self._members.get(cohort, ())}

    def _top(self, name: str) -> str:
        """The root above a Cohort; where the parents run in a circle, one of those in it."""
        seen = {name}
        while (cohort := self._cohorts.get(name)) is not None and cohort.parent:
            name = cohort.parent
            if name in seen:
                break
            seen.add(name)
        return name


def move(index: dict[str, set[str]], name: str, old: str, new: str) -> None:
    """Move a name from one set of an index to another; '' is none."""
    if old == new:
        return
    if old:
        index[old].discard(name)
        if not index[old]:
            del index[old]
    if new:
        index.setdefault(new, set()).add(name)
