"""The interface of a kind of job: ``JobKind``, with one subclass for each kind in a file of ``core/jobs/kinds``.

Everything else follows from the table of kinds (``core.jobs.kinds``): the rules (``core.jobs.decide``), webhooks and
their match conditions, rights, watches, ``simulate`` and ``explain``. A kind defines where its API is served, where its
pod templates are and what its status means; everything else has a default. Jobs stay raw dicts: they are read and
patched, never rebuilt. Everything is a pure function of the job and of ``related`` objects.

The interface has three parts: ``JobReader`` (what a job is and what its status means), ``JobStarter`` (how it starts
and stops) and ``JobAdmission`` (what admission checks and changes). Here is what the table of kinds has in addition.

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
* A job that cannot be suspended again (a pod): ``stop_because`` deletes it with the cause, ``finalizer_removal``
  returns the writes that remove its finalizer when it has ended.
* Owners to ten levels (``core.jobs.owners``): the outermost managed job is queued, through kinds that are not enabled;
  ``runs_children`` is whether the own controller of a job starts the jobs that it owns.
* A kind whose CRD is installed later is ``optional``: its watch begins when the API server serves it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Final

from core.jobs.job_admission import JobAdmission
from core.jobs.job_starter import JobStarter
from core.jobs.mirrored import Mirrored
from core.model import Key
from core.model.owner import Owner

ANY_KIND: Final = "*"


class JobKind(JobStarter, JobAdmission):
    """A kind of job, as the table of kinds has it; a subclass defines ``framework``, ``resource``, ``form``,
    ``pods_path`` and the four abstract methods of ``JobReader``.
    """

    framework: ClassVar[str]
    """Its name in ``integrations.frameworks`` of the Configuration."""
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
    runs_children: ClassVar[bool] = True
    """Whether its own controller starts the jobs that a job of this kind owns; otherwise Seiretsu does, when it is
    admitted.
    """
    selector: ClassVar[str] = ""
    """The label selector of the jobs that are watched; '' for all."""
    pods_label: ClassVar[str] = ""
    """The label of its pods that has the name of the job (of its RayCluster, of the group of pods); '' for none."""
    nested: ClassVar[bool] = True
    """Whether a job below a queued job is suspended and started with it; False for pods, which are left as they are."""
    marks: ClassVar[tuple[str, ...]] = ()
    """Annotations with which a job is sent to admission although it names no queue; where ``implied_by`` enables the
    kind, only such jobs are managed."""

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


def owner_of(kind: Mirrored, job: Key) -> Owner:
    """A job of this kind as the owner of its Workload."""
    return Owner(kind.group, kind.kind, job.namespace, job.name)
