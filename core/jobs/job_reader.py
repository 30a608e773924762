"""What a job is, and what its status means: ``JobReader``, the part of ``core.jobs.kind.JobKind`` that only reads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from api.errors import FieldError
from api.names import Label
from api.objects import Resource
from core.jobs import meta, template
from core.jobs.fields import Path, at
from core.jobs.mirrored import Mirrored
from core.jobs.topology_request import NOT_INDEXED, PodIndex, topology_request
from core.model import Key, Raw
from core.wire.timestamps import epoch


@dataclass(frozen=True, slots=True)
class Slot:
    """A pod template of a job and for how many pods it is; with ``min_count`` the job may start with fewer.

    ``called`` is what messages call it, where ``{}`` is its name, and ``field`` the field that its number of pods is
    changed in, '' for the kind's (``pods_field``). ``index`` is how the kind's controller numbers the pods.
    """

    name: str
    count: int
    path: Path
    min_count: int | None = None
    called: str = "pod set {}"
    field: str = ""
    index: PodIndex = NOT_INDEXED


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended."""

    success: bool
    message: str


class Interning(Protocol):
    """Returns one object for equal ones."""

    def __call__(self, raw: Raw, /, **own: Any) -> Raw:
        """Returns the first object that was equal to ``raw``; with fields of its own a new one with the same values."""


class JobReader(Mirrored):
    """Reads objects of one kind. A subclass defines the four abstract methods; the others have defaults."""

    related: ClassVar[tuple[Resource, ...]] = ()
    """Kinds to watch whose objects belong to jobs of this kind (``belongs_to``)."""
    refers: ClassVar[tuple[Resource, ...]] = ()
    """Kinds to watch to whose objects jobs of this kind refer by name (``references``), if MultiKueue is enabled."""
    uid_label: ClassVar[str] = Label.JOB_UID
    """The label by which pods have the uid of their job. The default is set by a start, as no controller sets it; ''
    if the jobs are pods."""
    grouped: ClassVar[bool] = False
    """Whether a job may consist of several objects (``key``, ``whole``)."""
    run_labels: ClassVar[frozenset[str]] = frozenset()
    """Labels in the templates that belong to one run, and are not part of the Workload."""
    templates_elsewhere: ClassVar[bool] = False
    """Whether its pod templates are in a related object, so that the job alone does not have them."""
    counts_terminating: ClassVar[bool] = False
    """Whether the status counts the pods that terminate (``terminating``), in clusters that are new enough."""
    elastic: ClassVar[bool] = False
    """Whether a job may be resized while it runs (annotation ``kueue.x-k8s.io/elastic-job``)."""
    prebuilt: ClassVar[bool] = True
    """Whether a job may name a Workload that was created for it."""

    def covers(self, job: Raw, frameworks: Collection[str]) -> bool:
        """Whether this job is managed with these frameworks."""
        return True

    def whole(self, objects: Sequence[Raw], now: float) -> Raw:
        """Returns the job that consists of the objects with one key."""
        return objects[0]

    def settles_in(self, job: Raw) -> float | None:
        """After how many seconds something about the job will have changed without a change of an object."""
        return None

    def own(self, job: Raw, manifest: Raw) -> Raw:
        """Returns the manifest of the job's Workload, with the name and the owners that it has for this kind."""
        return manifest

    def owns(self, job: Raw, workload: Raw) -> bool:
        """Whether a Workload belongs to this very job, not to one before it of the same name."""
        by, metadata = meta.controller(workload), job["metadata"]
        return by is not None and (by["name"], by["uid"]) == (metadata["name"], metadata["uid"])

    def shares_names(self) -> bool:
        """Whether a Workload that is found by the name of a job may be that of another owner."""
        return False

    def matches(self, job: Raw, workload: Raw) -> bool | None:
        """Whether the pod sets of a Workload are those of the job; None for the rules of all kinds."""
        return None

    def lean(self, raw: Raw, share: Interning) -> Raw:
        """Returns what the caches keep of a job."""
        return raw

    @abstractmethod
    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """The pod templates of a job, in the order of the pod sets of its Workload."""

    @abstractmethod
    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether it still has pods. Asked of jobs that have not finished: some statuses go on counting afterwards."""

    @abstractmethod
    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """How it ended, if it did."""

    @abstractmethod
    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether all its pods are ready or have succeeded."""

    def sees_start(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether the status of a job that is not held shows all of the start, so that it will show all of a stop."""
        return self.pods_ready(job, related)

    def sees_stop(self, job: Raw) -> bool | None:
        """Whether the status shows that the kind's controller has handled that the job is held; None if unknown."""
        found = _condition(job, SUSPENDED)
        return None if found is None else found["status"] == "True"

    def stopped_since(self, job: Raw) -> float | None:
        """Since when the status shows that the job is held; None if it does not."""
        found = _condition(job, SUSPENDED)
        since = found.get("lastTransitionTime") if found is not None and found["status"] == "True" else None
        return epoch(since) if since else None

    def terminating(self, job: Raw) -> int | None:
        """How many pods are deleted and have not ended; None if the status does not count them."""
        return None

    def counts_all_pods(self, job: Raw) -> bool:
        """Whether the status counts all pods that the job has started; of a kind whose status counts them at all."""
        return True

    def awaits_pods(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether a running elastic job may have pods with a scheduling gate: some are not ready."""
        return not self.pods_ready(job, related)

    def reclaimable(self, job: Raw, related: Sequence[Raw] = ()) -> Mapping[str, int]:
        """Pods by pod set that will not be needed any more although the job runs on."""
        return {}

    def slice_of(self, job: Raw, related: Sequence[Raw] = ()) -> str:
        """What distinguishes the Workload of an elastic job of this size from those of other sizes."""
        return str(job["metadata"].get("generation", 1))

    def rounds(self, job: Raw) -> int:
        """The running time of the job as a multiple of that of one of its pods; only ``simulate`` uses it."""
        return 1

    def pod_sets(self, job: Raw, related: Sequence[Raw] = ()) -> list[Raw]:
        """Returns ``spec.podSets`` of the job's Workload; empty while its templates do not exist."""
        if not job.get("metadata"):
            return []
        return [
            template.pod_set(
                found, name=slot.name, count=slot.count, drop_labels=self.run_labels, min_count=slot.min_count
            )
            for slot in self.slots(job, related)
            if (found := self.template_of(job, slot, related))
        ]

    def topology_requests(self, job: Raw, related: Sequence[Raw] = ()) -> dict[str, Raw]:
        """Returns ``topologyRequest`` by the names of the pod sets that have one."""
        found = {
            slot.name: topology_request(meta.annotations(self.template_of(job, slot, related) or {}), slot.index)
            for slot in self.slots(job, related)
        }
        return {name: request for name, request in found.items() if request is not None}

    def template_of(self, job: Raw, slot: Slot, related: Sequence[Raw] = ()) -> Raw | None:
        """The pod template of a slot."""
        found: Raw | None = at(job, slot.path)
        return found

    def skip(self, job: Raw) -> bool:
        """Whether this job is never managed, regardless of its queue, for example because it uses an existing
        cluster.
        """
        return False

    updates_checked_by_queue: ClassVar[bool] = False
    """Whether a change is checked only if the job names a queue after it, or with the feature gate
    ValidateRayAndSparkJobUpdates before it.
    """

    def awaits_cleanup(self, job: Raw) -> bool:
        """Whether a job that is being deleted keeps its quota until it is gone, because its controller still runs jobs
        below it.
        """
        return False

    def skip_errors(self, job: Raw) -> list[FieldError]:
        """Returns the errors of a job that ``skip`` excludes, if it names a queue."""
        return []

    def priority_class(self, job: Raw) -> str:
        """The PriorityClass that the job names outside of its pod templates, '' for none."""
        return ""

    def on_hold(self, job: Raw) -> str:
        """Why the job needs no quota although it has not finished, '' if it does."""
        return ""

    def references(self, job: Raw) -> Iterable[tuple[Resource, Key]]:
        """The objects to which the job refers, and that ``related`` has, too."""
        return ()

    def compared(self, job: Raw, pod_sets: Sequence[Raw]) -> list[Raw]:
        """Returns the parts of pod sets, of the job or of its Workload, in which the two must be equal."""
        return [*pod_sets]

    def belongs_to(self, related: Raw) -> str:
        """The name of the job of this kind that a related object belongs to, '' for none: its controller."""
        by = meta.controller(related)
        mine = by is not None and str(by.get("apiVersion") or "").rpartition("/")[0] == self.group
        return str(by["name"]) if by is not None and mine and by.get("kind") == self.kind else ""


def count(of: Raw, name: str = "replicas") -> int:
    """Returns a number of pods, 1 where there is none."""
    found = of.get(name)
    return 1 if found is None else int(found)


SUSPENDED: Final = "Suspended"
"""The condition by which several controllers show that they have stopped a job, or have resumed it."""


def _condition(job: Raw, kind: str) -> Raw | None:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), None)


def holds(job: Raw, condition: str) -> bool:
    """Whether a condition of the job's status is True."""
    found = _condition(job, condition)
    return found is not None and bool(found["status"] == "True")


def outcome(job: Raw, *, success: str, failure: str) -> Outcome | None:
    """How a job ended by its conditions, whichever of these two holds."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in (success, failure) and condition["status"] == "True":
            return Outcome(condition["type"] == success, condition.get("message", ""))
    return None
