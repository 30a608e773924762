"""What ``core.explain.analysis`` has to say about a workload, as values that a terminal or a program can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.model import FlavorResource, Key


@dataclass(frozen=True, slots=True)
class Cell:
    """One flavor's resource as the workload meets it. ``most`` is all it could ever get, own and borrowed.

    ``missing`` is more than asked for less what is free where more is in use than there is.
    """

    flavor_resource: FlavorResource
    asked: int
    nominal: int
    used: int
    free: int
    most: int
    missing: int


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that holds some of what is asked for."""

    key: Key
    cluster_queue: str
    priority: int
    amounts: Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class Explanation:
    """``place`` counts from 1, of ``waiting`` in all; ``rivals`` wait in other ClusterQueues of its cohort.

    ``ways`` are sentences, each of which would let it start. ``before`` says why it was stopped, if it ran before.
    ``shares`` are, where fair sharing is on, the weighted shares of the ClusterQueues that compete, the lowest first.
    ``unseen`` is what the answer had to do without.
    """

    key: Key
    state: str
    cluster_queue: str = ""
    reason: str = ""
    message: str = ""
    before: str = ""
    priority: int | None = None
    place: int = 0
    waiting: int = 0
    rivals: int = 0
    shares: tuple[tuple[str, float], ...] = ()
    ahead: tuple[Key, ...] = ()
    cells: tuple[Cell, ...] = ()
    holders: tuple[Holder, ...] = ()
    ways: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
