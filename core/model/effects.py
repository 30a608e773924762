"""Whom a change of queues, quotas or flavors hits, as admission and ``plan`` show it.

Separate from ``core.forecast.effects``, which computes it, because everything below that package shows it.
"""

from __future__ import annotations

from msgspec import Struct

from api.objects import Key


class StoppedWorkload(Struct, frozen=True, gc=False):
    """A running workload that the change stops: for ``preemptor``, or without one for ``reason``."""

    key: Key
    cluster_queue: str
    reason: str
    preemptor: Key | None = None


class MovedStart(Struct, frozen=True, gc=False):
    """A waiting workload whose start moves: seconds from now, the medians. ``after`` is None if it is not known."""

    key: Key
    before: float
    after: float | None


class Effects(Struct, frozen=True):
    """Whom a change hits, each in the order of namespaces and names.

    Of those with quota: ``stopped`` ones are evicted or preempted at once; ``exposed`` ones ran on the nominal quota
    of their ClusterQueue and then borrow, so that others may reclaim it; ``covered`` is the opposite. Of those that
    wait: ``starting`` ones start at once, ``never`` ones could start in an empty cluster and then cannot, ``possible``
    is the opposite. ``later`` and ``sooner`` are known from two forecasts only. ``running`` and ``waiting`` are how
    many workloads were looked at; with ``uncounted`` there are so many that the others were not computed. ``named_in``
    is the only namespace whose workloads may be named, '' for all.
    """

    stopped: tuple[StoppedWorkload, ...] = ()
    exposed: tuple[Key, ...] = ()
    covered: tuple[Key, ...] = ()
    starting: tuple[Key, ...] = ()
    never: tuple[Key, ...] = ()
    possible: tuple[Key, ...] = ()
    later: tuple[MovedStart, ...] = ()
    sooner: tuple[MovedStart, ...] = ()
    running: int = 0
    waiting: int = 0
    uncounted: bool = False
    named_in: str = ""

    @property
    def harmful(self) -> bool:
        """Whether it is worse for anybody."""
        return bool(self.stopped or self.exposed or self.never or self.later)

    @property
    def any(self) -> bool:
        """Whether anybody notices it."""
        return self.harmful or bool(self.covered or self.starting or self.possible or self.sooner)
