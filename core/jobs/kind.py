"""The interface of a kind of job: ``JobKind``, with one subclass for each kind in a file of ``core/jobs/kinds``.

Everything else follows from the table of kinds (``core.jobs.kinds``): the rules (``core.jobs.decide``), webhooks and
their match conditions, rights, watches, ``simulate`` and ``explain``. A kind defines where its API is served, where its
pod templates are and what its status means; everything else has a default here. Jobs stay raw dicts: they are read and
patched, never rebuilt. Everything is a pure function of the job and of ``related`` objects.

How other forms of jobs are supported:

* Several pod sets: ``slots`` names one template each. A list that holds templates is patched as a whole.
* A job is kept from running by one field and its value (``hold``, ``release``): by default ``spec.suspend``; for pods
  the list ``spec.schedulingGates`` with and without Seiretsu's gate.
* A job that runs in another cluster (MultiKueue): see ``core.jobs.mirrored``. Jobs of other controllers are queued and
  started like others.
* Counts, readiness or templates of another object: its kind is in ``related``, ``belongs_to`` returns its job, and it
  is passed to every function. Until the needed objects exist, ``pod_sets`` returns nothing, and no Workload is created.
* Start and stop of more than one field: ``start`` and ``stop`` return writes in order, each a patch or a deletion of
  the job or of a related object. ``stop`` is called again until it returns none, so it may take several rounds. Values
  that a start overwrites and the Workload does not have are kept in an annotation of the job by the same start.
* One Workload for many objects (a pod group): the kind is ``grouped``, ``key`` returns the key that the objects share,
  and ``whole`` makes the job of them. ``own``, ``owns`` and ``matches`` define its Workload; each write has a target.
* A job that cannot be suspended again (a pod): ``stop_because`` deletes it with the cause, ``let_go`` removes its
  finalizer when it has ended.
* Owners to ten levels (``core.jobs.owners``): the outermost managed job is queued, through kinds that are not enabled;
  ``runs_children`` is whether the own controller of a job starts the jobs that it owns.
* A kind whose CRD is installed later is ``optional``: its watch begins when the API server serves it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from api.errors import FieldError, forbidden
from api.feature_gates import Enabled
from api.names import Label
from api.objects import Resource
from api.structural import Form
from core.actions import Patch, Write
from core.jobs import meta, template
from core.jobs.admission import metadata, topology
from core.jobs.fields import Path, Setting, at, changed, dotted, without
from core.jobs.mirrored import Mirrored
from core.jobs.template import ConflictError, Injection, merge_diff
from core.jobs.topology_request import NOT_INDEXED, PodIndex, topology_request
from core.model import Key, Raw
from core.model.owner import Owner
from core.wire.guard import guarded
from core.wire.timestamps import epoch


class StopCause(NamedTuple):
    """Why a job is stopped: reason and message as the job's pods get them."""

    reason: str
    message: str
    now: float


class Right(NamedTuple):
    """A verb that a start or stop uses on a resource, or on its subresource."""

    resource: Resource
    verb: str
    subresource: str = ""


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


class Share(Protocol):
    """Returns one object for equal ones."""

    def __call__(self, raw: Raw, /, **own: Any) -> Raw:
        """Returns the first object that was equal to ``raw``; with fields of its own a new one with the same values."""


ANY_KIND: Final = "*"


class JobKind(Mirrored):
    """A kind of job; a subclass defines the first group of attributes and the four abstract methods."""

    framework: ClassVar[str]
    """Its name in ``integrations.frameworks`` of the Configuration."""
    form: ClassVar[Form]
    """The types of the fields that are read at admission."""
    pods_path: ClassVar[Path]
    """The field that holds all pod templates, or the only one."""

    counted: ClassVar[str] = ""
    """Its pod sets and what each counts, for the table of docs/job-kinds.md."""
    gate: ClassVar[str] = ""
    """The feature gate without which its framework is refused; '' for none."""
    makes: ClassVar[tuple[str, ...]] = ()
    """The kinds that its controller creates and that own others, which may be jobs: the walk from a job to its owners
    reads those only if what may be above them is enabled. ``ANY_KIND`` for all.
    """
    implied_by: ClassVar[tuple[str, ...]] = ()
    """Frameworks that enable this kind too, for the jobs that ``covers`` names."""
    optional: ClassVar[bool] = True
    """Whether its definition may be missing, as that of a CRD; it is watched when it is served."""
    suspend_path: ClassVar[Path] = ("spec", "suspend")
    related: ClassVar[tuple[Resource, ...]] = ()
    """Kinds to watch whose objects belong to jobs of this kind (``belongs_to``)."""
    refers: ClassVar[tuple[Resource, ...]] = ()
    """Kinds to watch to whose objects jobs of this kind refer by name (``references``), if MultiKueue is enabled."""
    runs_children: ClassVar[bool] = True
    """Whether its own controller starts the jobs that a job of this kind owns; otherwise Seiretsu does, when it is
    admitted.
    """
    rights: ClassVar[tuple[Right, ...]] = ()
    """What ``start`` and ``stop`` write in addition to patches of the job itself."""
    uid_label: ClassVar[str] = Label.JOB_UID
    """The label by which pods have the uid of their job. The default is set by a start, as no controller sets it; ''
    if the jobs are pods."""
    selector: ClassVar[str] = ""
    """The label selector of the jobs that are watched; '' for all."""
    nested: ClassVar[bool] = True
    """Whether a job below a queued job is suspended and started with it; False for pods, which are left as they are."""
    grouped: ClassVar[bool] = False
    """Whether a job may consist of several objects (``key``, ``whole``)."""
    marks: ClassVar[tuple[str, ...]] = ()
    """Annotations with which a job is sent to admission although it names no queue; where ``implied_by`` enables the
    kind, only such jobs are managed."""
    run_labels: ClassVar[frozenset[str]] = frozenset()
    """Labels in the templates that belong to one run, and are not part of the Workload."""
    kept_labels: ClassVar[frozenset[str]] = frozenset()
    """Labels in the templates that a stop leaves as they are: those the kind's controller sets."""
    fixed_templates: ClassVar[bool] = False
    """Whether its API refuses changes of pod templates; users get the advice what to do instead."""
    pods_field: ClassVar[str] = "parallelism"
    """The field that advice names, in which the number of pods of a template is changed."""
    pods_in_cel: ClassVar[str] = ""
    """How many pods ``{job}`` runs at the same time, in CEL, if its API allows that number to grow while it runs: the
    admission policies, which work without Seiretsu, do not.
    """
    first_template: ClassVar[Path] = ()
    """A pod template that every job with ``pods_in_cel`` has; it shows the marks of a start."""
    topology_groups: ClassVar[bool] = True
    """Whether its pod sets may be in groups that have one topology; as in Kueue the annotation is not checked if not.
    """
    prebuilt: ClassVar[bool] = True
    """Whether a job may name a Workload that was created for it."""
    templates_elsewhere: ClassVar[bool] = False
    """Whether its pod templates are in a related object, so that the job alone does not have them."""
    counts_terminating: ClassVar[bool] = False
    """Whether the status counts the pods that terminate (``terminating``), in clusters that are new enough."""
    elastic: ClassVar[bool] = False
    """Whether a job may be resized while it runs (annotation ``kueue.x-k8s.io/elastic-job``)."""

    @property
    def version(self) -> str:
        """The version of the API."""
        return self.resource.version

    @property
    def plural(self) -> str:
        """The resource, as in URLs and RBAC."""
        return self.resource.plural

    @property
    def singular(self) -> str:
        """The kind in lower case, as names of webhooks and arguments of commands have it."""
        return self.resource.kind.lower()

    def enabled(self, frameworks: Collection[str]) -> bool:
        """Whether these frameworks enable the kind."""
        return any(each in frameworks for each in (self.framework, *self.implied_by))

    def only_marked(self, frameworks: Collection[str]) -> bool:
        """Whether these frameworks enable the kind only for jobs that have one of its ``marks``."""
        return self.framework not in frameworks and self.enabled(frameworks)

    @property
    def enabled_in_helm(self) -> str:
        """The Helm condition that is equal to ``enabled`` of ``$frameworks``."""
        found = [f'has "{each}" $frameworks' for each in (self.framework, *self.implied_by)]
        return found[0] if len(found) == 1 else f"or {' '.join(f'({each})' for each in found)}"

    # What a job is

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

    def lean(self, raw: Raw, share: Share) -> Raw:
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

    def asks(self, job: Raw) -> list[Patch]:
        """Returns the writes after which the kind's controller writes its status of a held job again, if there are
        any; for kinds that count pods that terminate.
        """
        return []

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

    # How it starts and stops

    def hold(self, job: Raw) -> Setting:
        """The field that keeps the job from running, with the value that does so."""
        return Setting(self.suspend_path, True)

    def release(self, job: Raw) -> Setting:
        """The same field with the value that lets the job run."""
        return Setting(self.suspend_path, False)

    def held(self, job: Raw) -> bool:
        """Whether the job's own field keeps it from running.

        Admission uses this instead of ``suspended``, which also accepts Kueue's annotation for a job that is still
        being stopped: every user who creates a job can write that annotation.
        """
        path, value = self.hold(job)
        found = at(job, path)
        return type(found) is type(value) and bool(found == value)

    def suspended(self, job: Raw) -> bool:
        """Whether the job is wanted not to run, and nothing is left to do about that."""
        return self.held(job)

    def start(self, job: Raw, injections: Sequence[Injection], related: Sequence[Raw] = ()) -> Sequence[Write]:
        """Release it with the nodes, counts and marks it was given; raises ``template.ConflictError``."""
        return self.difference(job, changed(self.injected(job, injections, related), *self.release(job)))

    def stop(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Sequence[Write]:
        """Returns the writes that hold the job and undo ``start``; the pod sets of its Workload are the original ones
        (none: unknown).

        Empty when nothing is left to do, so an interrupted stop is completed by calling it again.
        """
        return self.difference(job, changed(self.restored(job, pod_sets, related), *self.hold(job)))

    def stop_because(
        self, job: Raw, pod_sets: Sequence[Raw], cause: StopCause, related: Sequence[Raw] = ()
    ) -> Sequence[Write]:
        """As ``stop``; a kind whose pods get the cause overrides it."""
        return self.stop(job, pod_sets, related)

    def for_worker(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Raw:
        """Returns the job as it is created in another cluster: as it was before a start here, run by the controller
        there, and without the marks of MultiKueue.
        """
        held = changed(self.restored(job, pod_sets, related), *self.hold(job))
        return held if self.managed_by is None else without(held, self.managed_by)

    def sizes(self, job: Raw, pod_sets: Sequence[Raw]) -> list[Setting]:
        """Returns the fields with the numbers of pods of an elastic job, as its Workload, which has these pod sets, is
        for: those of the job if it has as many pods.
        """
        if not self.resizable:
            return []
        wanted = {slot.name: slot.count for slot in self.slots(job)}
        counts = {each["name"]: each["count"] for each in pod_sets}
        if wanted.keys() != counts.keys():
            return []
        fields = self.size_fields(job)
        return [
            Setting(path, at(job, path) if wanted[name] == counts[name] else counts[name] // pods)
            for name, (path, pods) in fields.items()
        ]

    def size_fields(self, job: Raw) -> Mapping[str, tuple[Path, int]]:
        """The fields with the numbers of pods of a job by pod set, each with the pods for one, if the kind is
        ``resizable``.
        """
        return {}

    def status_from_worker(self, job: Raw, remote: Raw) -> Raw | None:
        """Returns the status that an object gets from the one in another cluster; None to leave it as it is."""
        return remote.get("status") or {}

    def ended_there(self, remotes: Sequence[Raw], now: float) -> bool:
        """Whether the status of the objects in a worker shows that the job has ended."""
        return self.finished(self.whole(remotes, now)) is not None

    def shown(self, job: Raw, related: Sequence[Raw] = ()) -> tuple[Raw, Raw] | None:
        """The job, if its status shows pods although it is suspended."""
        shows = self.suspended(job) and self.active(job, related)
        return (job, dict.fromkeys(job.get("status") or {})) if shows else None

    def let_go(self, job: Raw) -> Sequence[Write]:
        """Returns the writes that remove the finalizer of a job that has finished or is deleted; none if it has
        none.
        """
        return ()

    def injected(self, job: Raw, injections: Sequence[Injection], related: Sequence[Raw] = ()) -> Raw:
        """Returns the job with the injection of each pod set in its template, in the order of the slots."""
        slots = self.slots(job, related)
        if len(slots) != len(injections):
            raise ConflictError(f"the job has {len(slots)} pod sets, its workload {len(injections)}")
        mark = {self.uid_label: meta.uid(job)} if self.uid_label == Label.JOB_UID and meta.uid(job) else {}
        for slot, injection in zip(slots, injections, strict=True):
            marked = replace(injection, labels={**mark, **injection.labels})
            job = self.with_injection(job, slot, marked, related)
        return job

    def with_injection(self, job: Raw, slot: Slot, injection: Injection, related: Sequence[Raw] = ()) -> Raw:
        """Returns the job with the injection in the template of one slot."""
        return changed(job, slot.path, template.inject(at(job, slot.path), injection))

    def restored(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Raw:
        """The job with its templates as its Workload has them; unchanged where that has other pod sets, or none."""
        slots = self.slots(job, related)
        if len(slots) != len(pod_sets):
            return job
        for slot, original in zip(slots, pod_sets, strict=True):
            job = self.without_injection(job, slot, original["template"])
        return job

    def without_injection(self, job: Raw, slot: Slot, original: Raw) -> Raw:
        """Returns the job with the template of one slot as it was before a start; ``original`` is the Workload's."""
        found = template.restore(at(job, slot.path), original, keep_labels=self.kept_labels)
        return changed(job, slot.path, found)

    def difference(self, job: Raw, after: Raw, *, version: bool = True) -> list[Patch]:
        """The patch that makes ``after`` of the job, with ``version`` only of the job as it was read; none for none."""
        body = merge_diff(job, after)
        if not body:
            return []
        return [Patch(guarded(body, job, version=version))]

    # What admission checks and changes

    def defaults(self, job: Raw, enabled: Enabled) -> list[Setting]:
        """Fields that are set when a new job lacks them, in addition to queue, priority class and suspension."""
        return []

    def on_queueing(self, job: Raw, enabled: Enabled) -> list[Setting]:
        """Fields that a new job gets when it is to be queued, in addition to ``hold``."""
        return []

    def validate_create(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        """Returns the errors of a new job, without those of the metadata that all kinds share
        (``core.jobs.admission.metadata``).
        """
        errors = self.topology_errors(job, enabled)
        if self.topology_groups and enabled("TopologyAwareScheduling"):
            errors += topology.groups([self._annotated(job, slot) for slot in self.slots(job)])
        if not self.elastic and metadata.elastic(job, enabled):
            detail = f'elastic job is not supported for "{self.api_version}, Kind={self.kind}"'
            errors.append(forbidden(metadata.ELASTIC, detail))
        name, path = meta.prebuilt_workload(job, annotation_first=enabled("WorkloadIdentifierAnnotations"))
        if name and not self.prebuilt:
            errors.append(forbidden(path, f'Is not supported for "{self.api_version}, Kind={self.kind}"'))
        return errors

    def validate_update(self, old: Raw, new: Raw, enabled: Enabled) -> list[FieldError]:
        """Returns the errors of a changed job."""
        return self.validate_create(new, enabled)

    def warnings(self, old: Raw | None, new: Raw) -> list[str]:
        """Returns the warnings that only this kind has, for a job that is created or changed."""
        return []

    def topology_errors(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        """Returns the errors of the topology annotations of each pod template."""
        if not enabled("TopologyAwareScheduling"):
            return []
        slots = (self._annotated(job, slot) for slot in self.slots(job))
        elastic = metadata.elastic(job, enabled)
        return [error for each in slots for error in topology.errors(each, elastic=elastic, enabled=enabled)]

    def _annotated(self, job: Raw, slot: Slot) -> topology.Annotated:
        found = meta.annotations(self.template_of(job, slot) or {})
        return topology.Annotated(self.metadata_of(slot), found, slot.count)

    def metadata_of(self, slot: Slot) -> str:
        """The path of the metadata of a slot's template, as messages have it."""
        return dotted((*slot.path, "metadata"))


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


def owner_of(kind: Mirrored, job: Key) -> Owner:
    """A job of this kind as the owner of its Workload."""
    return Owner(kind.group, kind.kind, job.namespace, job.name)
