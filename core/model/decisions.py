"""The decisions of a scheduling cycle."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from msgspec import Struct, field

from core.model.kubernetes import Requests
from core.model.workload import Admission, Workload


class Requeue(enum.Enum):
    """Where a workload goes that was decided and not admitted."""

    HEAP = "heap"
    """Back into the heap, to be decided in the next cycle."""
    PARKED = "parked"
    """Inadmissible: until something that could let it in has changed."""


class Tried(Struct, frozen=True, gc=False):
    """Where the search for flavors stopped: index of the last flavor tried by resource, by pod set; -1 is the last.

    Valid while ``generation`` of the tree is the same, or in the very next cycle.
    """

    flavors: tuple[Mapping[str, int], ...]
    generation: int
    cycle: int

    @property
    def unfinished(self) -> bool:
        """Whether there are flavors that have not been tried."""
        for pod_set in self.flavors:
            for index in pod_set.values():
                if index != -1:
                    return True
        return False


class Reserve(Struct, frozen=True, gc=False):
    """Quota is reserved: ``status.admission`` is to be written, and Admitted as well when no check is required.

    ``considered`` lists, as Kueue's QuotaReserved event does, the flavors that did not fit without borrowing or
    preemption. With ``second_pass`` the workload has held its quota before: only its domains are new.
    """

    workload: Workload
    admission: Admission
    admitted: bool
    considered: str = ""
    second_pass: bool = False


class Victim(Struct, frozen=True, gc=False):
    """A workload that must go, and why; ``reason`` is that of its Preempted condition, or of Evicted where it moves to
    another flavor or one of its nodes has failed.
    """

    workload: Workload
    cluster_queue: str
    reason: str
    message: str


class StayPending(Struct, frozen=True, gc=False):
    """The workload waits: ``reason`` and ``message`` are those of QuotaReserved=False.

    ``requests`` were used for the decision (total by pod set), ``requeue`` is where the workload goes (with ``alike``,
    equal ones go there too), and ``victims`` are to be evicted for it (without those that are evicted already).
    ``tried`` is where the search for flavors continues, ``hopeless`` whether released quota would not help, and
    ``short`` whether it was looked for room in a capacity beside quota, and there was none.
    """

    workload: Workload
    cluster_queue: str
    reason: str
    message: str
    requeue: Requeue
    requests: Mapping[str, Requests] = field(default_factory=dict)
    victims: tuple[Victim, ...] = ()
    alike: bool = False
    preempting: bool = False
    """Whether it waits for victims to stop, its own or another head's, and so keeps its queue position."""
    tried: Tried | None = None
    hopeless: bool = False
    short: bool = False
    gated: bool = False
    """Whether it could preempt, but a preemption gate is closed."""
    second_pass: bool = False
    """Whether it holds quota, which it keeps unless it is its own victim, and is decided again after a backoff."""
    postponed: bool = False
    """Whether a second pass was not looked at in this cycle, so that there is no backoff."""


Decision = Reserve | StayPending


class Plan(Struct, frozen=True, gc=False):
    """The decisions of one scheduling cycle, in the order in which they were made; one for each head.

    ``skipped`` counts by ClusterQueue the heads that had victims and were skipped. ``recomputed`` has the ClusterQueue
    of each head whose victims were chosen again and the result: new_targets, deferred_fit or skipped.
    """

    decisions: tuple[Decision, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    recomputed: tuple[tuple[str, str], ...] = ()
