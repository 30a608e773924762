"""What rules for administrators look at, and what more than one kind of them needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from core.feedback.rules import fitted
from core.lookup import Lookup

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Change(Generic[_Kind]):
    """An object before and after."""

    old: _Kind | None
    new: _Kind | None


def cycle(start: str, parent: str, lookup: Lookup) -> Iterable[str]:
    """The circle that the parents of ``start`` make, if they do; its own is (to be) ``parent``."""
    path, name = [start], parent
    while name and name not in path:
        path.append(name)
        cohort = lookup.cohort(name)
        name = cohort.parent if cohort else ""
    if name:
        circle = " -> ".join([*path[path.index(name) :], name])
        yield fitted(
            f"the parents of cohort {start} run in a circle: {circle}; its ClusterQueues admit nothing",
            "the parents of the cohort run in a circle: its ClusterQueues admit nothing",
        )
