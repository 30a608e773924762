"""What a scheduling cycle decides."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from msgspec import Struct, field

from core.model.kubernetes import Requests
from core.model.workload import Admission, Workload


class Requeue(enum.Enum):
    """Where a workload that was looked at and not admitted goes."""

    HEAP = "heap"
    """Back into the heap, to be looked at in the next cycle."""
    PARKED = "parked"
    """Inadmissible: until something that could let it in has changed."""


class Tried(Struct, frozen=True, gc=False):
    """How far the search for flavors came: index of the last flavor tried by resource, by pod set; -1 is the last.

    Holds while ``generation`` of the tree is the same, or in the very next cycle.
    """

    flavors: tuple[Mapping[str, int], ...]
    generation: int
    cycle: int

    @property
    def unfinished(self) -> bool:
        """Whether there are flavors that have not been looked at."""
        for pod_set in self.flavors:
            for index in pod_set.values():
                if index != -1:
                    return True
        return False


class Reserve(Struct, frozen=True, gc=False):
    """Quota is reserved: ``status.admission`` is to be written, and Admitted as well when no check is required.

    ``considered`` tells, as Kueue's QuotaReserved event does, which flavors did not simply fit.
    """

    workload: Workload
    admission: Admission
    admitted: bool
    considered: str = ""


class Victim(Struct, frozen=True, gc=False):
    """A workload that must go, and why; ``reason`` is that of its Preempted condition."""

    workload: Workload
    cluster_queue: str
    reason: str
    message: str


class Wait(Struct, frozen=True, gc=False):
    """Not now: ``reason`` and ``message`` are those of QuotaReserved=False.

    ``requests`` were looked at (total by pod set), ``requeue`` is where the workload goes (with ``alike``, those of its
    shape go too), and ``victims`` are to be evicted for it (those already on their way are not listed). ``tried`` is
    where the search for flavors goes on, and ``hopeless`` whether quota that becomes free would not help.
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
    """Whether it waits for victims to go, its own or another's, and so keeps its place in the queue."""
    tried: Tried | None = None
    hopeless: bool = False


Decision = Reserve | Wait


class Plan(Struct, frozen=True, gc=False):
    """What one scheduling cycle decided, in the order in which it decided; one decision a head.

    ``skipped`` counts by ClusterQueue the heads that had victims and were passed over. ``recomputed`` has the
    ClusterQueue of each head whose victims were chosen again and the result: new_targets, deferred_fit or skipped.
    """

    decisions: tuple[Decision, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    recomputed: tuple[tuple[str, str], ...] = ()
