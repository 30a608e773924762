"""StatefulSets and LeaderWorkerSets in other clusters: one is created there, and its pods here keep their gates.

Its controller here writes its status, so none comes back. The one that is there has the Workloads that were made here:
it does not make its own (``core.jobs.stateful_sets``, ``core.jobs.leader_worker_sets``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from api.names import Annotation
from core.jobs import leader_worker_sets, meta
from core.jobs.mirrored import Mirrored
from core.jobs.pod_owner_groups import of_another_cluster
from core.jobs.pod_owners import LEADER_WORKER_SET, STATEFUL_SET, PodOwner
from core.model import Key, Raw


class MirroredOwner(Mirrored):
    """A kind whose pods form groups."""

    shows_end = False

    def __init__(self, owner: PodOwner) -> None:
        self.resource = owner.resource
        self.framework = owner.framework

    @property
    def may_run_in_worker(self) -> bool:
        """Whether objects of this kind can run in another cluster: yes, although no field says so."""
        return True

    def for_worker(self, job: Raw, pod_sets: Sequence[Raw]) -> Raw:
        """Returns the object as it is: a start writes to its pods only."""
        return job

    def status_from_worker(self, job: Raw, remote: Raw) -> Raw | None:
        """None: its controller here writes the status."""
        return None

    def ended_in_worker(self, remotes: Sequence[Raw], now: float) -> bool:
        """Whether it has ended: it never does."""
        return False


class MirroredGroups(MirroredOwner):
    """LeaderWorkerSets: each group has a Workload, and their number may change."""

    several = True
    forwarded = (("spec", "replicas"),)

    def naming(self, part: Raw, workload: str) -> tuple[Raw, Raw]:
        """Returns the annotation by which the set in a worker names the one here; its groups follow from that."""
        return {}, {Annotation.MULTIKUEUE_ORIGIN_UID: meta.uid(part)}

    def workloads_of(self, remote: Raw) -> Iterable[Key]:
        """The Workload of the first group: the others are found by their annotations. A set may have many thousands."""
        if meta.controller(remote) is not None or not of_another_cluster(remote):
            return ()
        namespace = remote["metadata"]["namespace"]
        return tuple(Key(namespace, each) for each in leader_worker_sets.workload_names(remote, 0))


MIRRORED_OWNERS: Final = (MirroredOwner(STATEFUL_SET), MirroredGroups(LEADER_WORKER_SET))


def several_of(workload: Raw) -> tuple[Mirrored, Key] | None:
    """The object of which a Workload is one of several, and its kind; None for any other Workload."""
    notes = meta.annotations(workload)
    made, name = notes.get(Annotation.JOB_OWNER_GVK), notes.get(Annotation.JOB_OWNER_NAME)
    kind = _SEVERAL.get(str(made)) if made and name else None
    return (kind, Key(workload["metadata"]["namespace"], str(name))) if kind is not None else None


_SEVERAL: Final = {f"{each.api_version}, Kind={each.kind}": each for each in MIRRORED_OWNERS if each.several}
