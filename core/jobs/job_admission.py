"""What admission checks and changes of a job: ``JobAdmission``, the part of ``core.jobs.kind.JobKind`` for webhooks and
admission policies. The rules that all kinds share are in ``core.jobs.admission``.
"""

from __future__ import annotations

from typing import ClassVar

from api.errors import FieldError, forbidden
from api.feature_gates import Enabled
from api.structural import Form
from core.jobs import meta
from core.jobs.admission import metadata, topology
from core.jobs.fields import Path, Setting, dotted
from core.jobs.job_reader import JobReader, Slot
from core.model import Raw


class JobAdmission(JobReader):
    """Defaults and validates objects of one kind. A subclass defines ``form`` and ``pods_path``."""

    form: ClassVar[Form]
    """The types of the fields that are read at admission."""
    fixed_templates: ClassVar[bool] = False
    """Whether its API refuses changes of pod templates; users get the advice what to do instead."""
    pods_path: ClassVar[Path]
    """The field that holds all pod templates, or the only one."""
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
            errors += topology.groups([self._annotated(job, slot) for slot in self.slots(job)], enabled)
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
