"""StatefulSets in other clusters: one is created there, and its pods here keep their gates.

Its controller here writes its status, so none comes back. The one that is there has the Workload that was made here:
it does not make its own (``core.jobs.stateful_sets``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.jobs.mirrored import Mirrored
from core.jobs.pod_owners import STATEFUL_SET, PodOwner
from core.model import Raw


class MirroredOwner(Mirrored):
    """A kind whose pods form groups."""

    def __init__(self, owner: PodOwner) -> None:
        self.resource = owner.resource
        self.framework = owner.framework

    @property
    def elsewhere(self) -> bool:
        """Whether objects of this kind can run in another cluster: yes, although no field says so."""
        return True

    def for_worker(self, job: Raw, pod_sets: Sequence[Raw]) -> Raw:
        """Returns the object as it is: a start writes to its pods only."""
        return job

    def status_from_worker(self, job: Raw, remote: Raw) -> Raw | None:
        """None: its controller here writes the status."""
        return None

    def ended_there(self, remotes: Sequence[Raw], now: float) -> bool:
        """Whether it has ended: it never does."""
        return False


MIRRORED_OWNERS: Final = (MirroredOwner(STATEFUL_SET),)
