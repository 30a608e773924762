"""What the workloads of an arena use up together: quota is the first capacity, and others may stand beside it.

Quota is chosen by the search for flavors (``core.scheduling.flavors``). A further capacity (nodes in a topology,
licences of a program) then completes the admission that the search proposes, or says what it lacks. From there on all
are treated alike: the cycle and preemption add, remove and compare ``Usage``. State counts the usage of a reservation
by its admission alone, so that a restart counts the same.

Separate from ``core.quota.arena``, which has one capacity of each kind, so that a kind needs no more than this module
and the model.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from core.model import Admission, AdmissionCheck, ClusterQueue, ResourceFlavor, Workload

if TYPE_CHECKING:
    from core.quota.usage import Reservation

Place = TypeVar("Place", bound=Hashable)
"""Whatever a capacity counts by: a flavor-resource, the domain of a topology, a licence."""
Amounts = Mapping[Hashable, int]
"""Amount by place."""


class Capacity(Protocol[Place]):
    """What is used up, in one arena.

    A slice that replaces a larger one adds negative amounts; these fit always.
    """

    def copy(self) -> Capacity[Place]:
        """Returns the same capacity with separate usage."""

    def add(self, cluster_queue: str, amounts: Mapping[Place, int]) -> None:
        """Counts what a workload of a ClusterQueue uses."""

    def remove(self, cluster_queue: str, amounts: Mapping[Place, int]) -> None:
        """Undoes ``add``."""

    def fits(self, cluster_queue: str, amounts: Mapping[Place, int]) -> bool:
        """Whether a workload of a ClusterQueue could use the amounts too, as usage is now."""


class Shortage(Struct, frozen=True, gc=False):
    """What a further capacity lacks for an admission. ``reason`` and ``message`` are for the workload's status.

    ``flavors`` are those of the pod sets concerned; ``pod_set`` is the one that the message is about, '' if it is about
    all of them. A ``mistake`` of the pod set is why no room can be looked for at all.
    """

    reason: str
    message: str
    flavors: frozenset[str]
    pod_set: str = ""
    mistake: str = ""

    def concerns(self, flavors: Iterable[str]) -> bool:
        """Whether a pod set with these flavors needs the room that is missing."""
        return not self.flavors.isdisjoint(flavors)

    def names(self, pod_set: str, flavors: Iterable[str]) -> bool:
        """Whether the message is about a pod set with these flavors."""
        return pod_set == self.pod_set if self.pod_set else self.concerns(flavors)


class FurtherCapacity(Capacity[Hashable], Protocol):
    """A capacity beside quota."""

    def copy(self) -> FurtherCapacity:
        """Returns the same capacity with separate usage."""

    def refill(self, held: Iterable[tuple[str, Amounts]], before: FurtherCapacity | None) -> None:
        """Counts what all workloads of the arena hold, by ClusterQueue. ``before`` is the capacity in whose place this
        one is, and has counted the same.
        """

    def place(
        self, workload: Workload, admission: Admission, *, replaced: Reservation | None = None, empty: bool = False
    ) -> Admission | Shortage:
        """Returns the admission with what this capacity decides (such as a placement), as usage is now, or with
        ``empty`` as if no workload used anything; or why there is none. The usage of the slice that the workload
        replaces does not count when this is called.
        """

    def prepare(self, workload: Workload, cluster_queue: str) -> Iterable[None]:
        """Works out in steps what ``place`` needs for a workload of a ClusterQueue and would take long to work out, so
        that ``place`` itself, which is one step, takes little time.
        """

    def has_room(self, workload: Workload, admission: Admission, *, replaced: Reservation | None = None) -> bool:
        """Whether ``place`` would complete the admission, as usage is now: a search for victims asks it again and
        again.
        """


class CapacityKind(Protocol):
    """A kind of further capacity. State is created with those in use."""

    @property
    def name(self) -> str:
        """Its name in ``Usage.further``."""

    def shares(self, flavor: ResourceFlavor, other: ResourceFlavor) -> bool:
        """Whether trees of cohorts of which one uses this flavor and one the other use the same of this capacity, and
        so are one arena; with the flavor itself, whether those are that both use it.
        """

    def capacity(
        self,
        queues: Mapping[str, ClusterQueue],
        flavors: Mapping[str, ResourceFlavor],
        checks: Mapping[str, AdmissionCheck],
    ) -> FurtherCapacity | None:
        """Returns the unused capacity of an arena with these ClusterQueues and their flavors; None if it limits nothing
        there.
        """

    def amounts(self, workload: Workload, admission: Admission) -> Amounts:
        """Returns what a workload uses of it with an admission; finished (reclaimable) pods use nothing."""
