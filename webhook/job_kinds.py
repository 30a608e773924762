"""The job kinds whose admission we look at: where they keep what we read, which rules they add to the common ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from api.errors import FieldError
from core.model import Raw
from webhook import batch
from webhook.settings import Settings
from webhook.shape import Form

OnCreate = Callable[[Raw, Settings], list[FieldError]]
OnUpdate = Callable[[Raw, Raw, Settings], list[FieldError]]


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind. ``framework`` is Kueue's name of the integration, ``suspend`` where the kind keeps its switch.

    ``pod_sets`` are those of the Workload that will stand for the job, ``ended`` tells whether the job is done.
    """

    framework: str
    group: str
    version: str
    kind: str
    resource: str
    suspend: tuple[str, ...]
    suspended: Callable[[Raw], bool]
    pod_sets: Callable[[Raw], list[Raw]]
    ended: Callable[[Raw], bool]
    form: Form
    on_create: OnCreate
    on_update: OnUpdate

    @property
    def singular(self) -> str:
        """The kind in lower case, as hook names and paths have it."""
        return self.kind.lower()


BATCH_JOB: Final = JobKind(
    framework="batch/job",
    group="batch",
    version="v1",
    kind="Job",
    resource="jobs",
    suspend=("spec", "suspend"),
    suspended=batch.suspended,
    pod_sets=batch.pod_sets,
    ended=batch.ended,
    form=batch.FORM,
    on_create=batch.on_create,
    on_update=batch.on_update,
)

JOB_KINDS: Final[tuple[JobKind, ...]] = (BATCH_JOB,)
