"""Objects that may run in another cluster: how one is created there, and how its status comes back.

``Mirrored`` is all that MultiKueue knows of a kind. Every kind of job is one (``core.jobs.kind``), and so are kinds
whose pods form groups (``core.jobs.mirrored_owners``). There are three ways to leave a job to another cluster:

* A field of the job names the controller that runs it (``managed_by``). The job here is started when it is admitted,
  but no controller of this cluster runs it, and it gets the status of the job in the worker.
* Pods have no such field: the pod here keeps its scheduling gate, and gets the status of the pod in the worker.
* StatefulSets and LeaderWorkerSets are created in the worker, too, and their pods here keep their gates. Their own
  controller here writes their status, so none comes back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from api.names import MULTIKUEUE_CONTROLLER, Annotation, Label
from api.objects import Resource
from core.jobs import meta
from core.jobs.fields import Path, Setting, at
from core.model import Key, Raw


class Mirrored(ABC):
    """A kind of object that may run in another cluster."""

    resource: Resource
    managed_by: Path | None = None
    """The field with the name of the controller that runs the job; None if it has no such field."""
    own_controller: str = ""
    """How that field names the controller of the kind itself, if it may: a new job that names it is left to the
    workers, too."""
    forwarded: tuple[Path, ...] = ()
    """The fields whose changes reach the job in the worker while it runs: those that change neither pods nor quota."""

    unread: tuple[Path, ...] = ()
    """The parts of an object in a worker that no rule reads, which are not kept of it."""

    several: bool = False
    """Whether an object has several Workloads, one for each group of its pods. All run in one worker."""
    shows_end: bool = True
    """Whether an evicted job reports here, by its status, that its pods in a worker have ended. Otherwise the state of
    its Workload there does."""
    resizable: bool = False
    """Whether the number of pods of an elastic job may change in another cluster."""

    @property
    def may_run_in_worker(self) -> bool:
        """Whether objects of this kind can run in another cluster at all."""
        return self.managed_by is not None

    @property
    def group(self) -> str:
        """The API group."""
        return self.resource.group

    @property
    def kind(self) -> str:
        """The ``kind`` of the objects."""
        return self.resource.kind

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of the objects."""
        return self.resource.api_version

    def key(self, raw: Raw) -> Key:
        """Returns the key by which the job of an object is reconciled; of a group of objects all have the same."""
        return Key(raw["metadata"]["namespace"], raw["metadata"]["name"])

    def manager(self, job: Raw) -> str | None:
        """The controller that runs the job, '' for that of its own kind; None if its kind has no such field."""
        return None if self.managed_by is None else str(at(job, self.managed_by) or "")

    def left(self, job: Raw) -> bool:
        """Whether no controller of this cluster runs the job."""
        return self.manager(job) in (None, MULTIKUEUE_CONTROLLER)

    def parts(self, job: Raw) -> Sequence[Raw]:
        """Returns the objects of which the job consists."""
        return (job,)

    @abstractmethod
    def for_worker(self, job: Raw, pod_sets: Sequence[Raw]) -> Raw:
        """Returns the job as it is created in another cluster, without the marks of MultiKueue."""

    def naming(self, part: Raw, workload: str) -> tuple[Raw, Raw]:
        """Returns the labels and annotations by which an object in a worker names the Workload that is there, and the
        object here (``made_for``).
        """
        label = {Label.PREBUILT_WORKLOAD: workload} if len(workload) <= meta.MAX_LABEL_VALUE else {}
        return label, {Annotation.PREBUILT_WORKLOAD: workload, Annotation.MULTIKUEUE_ORIGIN_UID: meta.uid(part)}

    def workloads_of(self, remote: Raw) -> Iterable[Key]:
        """The Workloads for which an object in a worker was made; none for one that another object controls: KubeRay
        copies the labels of a RayJob to the RayCluster that it creates.
        """
        return meta.prebuilt_workloads(remote) if meta.controller(remote) is None else ()

    def made_for(self, part: Raw | None, remote: Raw) -> bool:
        """Whether an object in a worker was made for the one here that has its name, not for an earlier one; older
        objects do not have the uid.
        """
        origin = meta.annotations(remote).get(Annotation.MULTIKUEUE_ORIGIN_UID)
        return part is not None and origin in (None, meta.uid(part))

    def sizes(self, job: Raw, pod_sets: Sequence[Raw]) -> list[Setting]:
        """Returns the fields with the numbers of pods of an elastic job, as its Workload, which has these pod sets, is
        for; none where that is unknown.
        """
        return []

    @abstractmethod
    def status_from_worker(self, job: Raw, remote: Raw) -> Raw | None:
        """Returns the status that an object gets from the one in another cluster; None to leave it as it is."""

    @abstractmethod
    def ended_in_worker(self, remotes: Sequence[Raw], now: float) -> bool | None:
        """Whether the status of the objects in a worker shows that the job has ended; None if unknown."""

    def stopped_in_worker(self, remote: Raw) -> bool:
        """Whether an object in a worker ends because it was stopped there, so that its end is not that of the job."""
        return False

    def idle_in_worker(self, remotes: Sequence[Raw], now: float) -> bool:
        """Whether the objects of an evicted job in a worker run no pods and stay there until they are withdrawn; other
        kinds report their end by the status of the job here.
        """
        return False

    def shown(self, job: Raw, related: Sequence[Raw] = ()) -> tuple[Raw, Raw] | None:
        """The first object whose status still shows pods of a worker although the job is stopped, with the status that
        removes them; None if there is none.
        """
        return None
