"""The result of ``core.explain.analysis``, as values for a terminal or a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.model import FlavorResource, Key


@dataclass(frozen=True, slots=True)
class Cell:
    """One resource of a flavor. ``most`` is the maximum that the workload can get, own and borrowed.

    ``missing`` is more than the request minus free quota if usage exceeds quota.
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
    """A workload that holds some of the requested resources."""

    key: Key
    cluster_queue: str
    priority: int
    amounts: Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class OtherHolders:
    """Workloads that hold some of the requested resources and may not be named; ``cluster_queue`` is '' if that may not
    be named either.
    """

    workloads: int
    cluster_queue: str
    amounts: Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class DomainRoom:
    """A domain of a topology: how many units of a pod set fit there now, and would if nothing were there; and the
    workloads with pods there, with their number. ``others`` is the number of pods of workloads that may not be named;
    ``domain`` is '' if it is a node, and these may not be named.

    In a tree of domains units are pods. ``depth`` is the level from 0, the highest. ``amounts`` are what is free and
    what workloads use of each requested resource. ``fits`` is when the domain holds all that must be in one: ``now``,
    ``if empty``, ``never``, or '' for a domain of another level. ``hidden`` is how many domains in it are not
    listed; None if none of them is.
    """

    domain: str
    now: int
    ever: int
    taken: tuple[tuple[Key, int], ...] = ()
    others: int = 0
    depth: int = 0
    amounts: tuple[tuple[str, int, int], ...] = ()
    fits: str = ""
    hidden: int | None = None


@dataclass(frozen=True, slots=True)
class Rooms:
    """The domains of a level in which a pod set might be placed, those with most room first; ``more`` are not listed.

    ``wanted`` are units: pods, or slices of them; ``left`` are pods beyond the last whole slice, which are not placed.
    ``level`` is a node label. ``most`` is how many units could ever be placed as they are asked for. ``leader`` is the
    pod set that is placed in the same domain: room is what it leaves.

    ``tree`` are the same domains in those above them, and some of those below; each before those in it, and
    ``tree_more`` of the highest level are not listed. It is empty if nodes may not be named.
    """

    pod_set: str
    flavor: str
    level: str
    wanted: int
    unit: str
    required: bool
    domains: tuple[DomainRoom, ...]
    more: int = 0
    left: int = 0
    most: int = 0
    leader: str = ""
    tree: tuple[DomainRoom, ...] = ()
    tree_more: int = 0

    @property
    def hopeless(self) -> bool:
        """Whether the nodes are too few, whatever ends."""
        return self.most < self.wanted


@dataclass(frozen=True, slots=True)
class Explanation:
    """``place`` is the queue position from 1, of ``waiting`` in total; ``rivals`` wait in other ClusterQueues of its
    cohort.

    ``ways`` are sentences, each of which would let it start. ``before`` is the message of its last eviction. With fair
    sharing, ``shares`` are the weighted shares of the ClusterQueues that compete, the lowest first. ``unseen`` are the
    objects that could not be read. ``summary`` is about all pods or groups of the object that was asked for. ``rooms``
    is where in a topology there is room, for pod sets that are placed in one.

    Of the workloads ahead only those in ``ahead`` are named, and ``ahead_more`` others are counted; ``others`` are the
    holders that are counted. ``omitted`` are sentences about what was not computed. ``hidden`` are the namespaces whose
    workloads would have been named if the reader might read them (``core.explain.sight``).
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
    ahead_more: int = 0
    cells: tuple[Cell, ...] = ()
    holders: tuple[Holder, ...] = ()
    others: tuple[OtherHolders, ...] = ()
    rooms: tuple[Rooms, ...] = ()
    ways: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    summary: str = ""
    omitted: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()
