"""The actions on a job and its Workload: one at a time, each at most a few writes to one object.

Separate from the rules that choose them (``core.jobs.decide``), because the controller and ``simulate`` apply them
without knowing the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from api import names
from core.jobs.kind import Write
from core.model import Key, Raw, Workload
from core.wire.conditions import status_patch


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """The job gets its Workload."""

    manifest: Raw


@dataclass(frozen=True, slots=True)
class UpdateWorkload:
    """``patch`` of the Workload itself; ``why`` is matching, queue, priority, gates, resize or owners, of which
    ``added`` are new.
    """

    workload: Key
    patch: Raw
    why: str
    added: int = 0


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """The Workload does not match its job. ``release`` is the patch that removes the finalizer before the deletion."""

    workload: Key
    uid: str
    release: Raw | None


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """The Workload is finished, or deleted and its job stopped: nothing holds it any more."""

    workload: Key
    patch: Raw


@dataclass(frozen=True, slots=True)
class AwaitPods:
    """The Workload keeps its quota until no pod is left of the job with that uid, which is deleted."""

    workload: Key
    uid: str
    label: str = names.JobControllerLabel.CONTROLLER_UID
    """The label by which the job's pods have its uid."""


@dataclass(frozen=True, slots=True)
class Ungate:
    """Pods of an admitted elastic job lose their scheduling gate: of those that have ``uid`` in ``label``, so many of
    each pod set as are granted.
    """

    uid: str
    label: str
    granted: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class WorkloadStatus:
    """``patch`` of its status, ``after`` its value then; ``why`` is finish, reclaim, ready, release or stop."""

    workload: Key
    patch: Raw
    after: Workload
    why: str

    @classmethod
    def between(cls, before: Workload, after: Workload, why: str) -> WorkloadStatus | None:
        """The change from one value to the other; None if their statuses do not differ."""
        patch = status_patch(before, after)
        return cls(before.key, patch, after, why) if patch else None


@dataclass(frozen=True, slots=True)
class Prepare:
    """The job gets what admission would have set, which did not see it: the writes, in order."""

    writes: Sequence[Write]


@dataclass(frozen=True, slots=True)
class Start:
    """The job is admitted: the writes that start it, in order."""

    writes: Sequence[Write]
    cluster_queue: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The job must not run: the writes that stop it, in order. ``message`` is the event if it did run."""

    writes: Sequence[Write]
    reason: str
    message: str
    was_running: bool


@dataclass(frozen=True, slots=True)
class LetGo:
    """Nothing depends on the job any more, or on a part of it: the writes that remove finalizers. ``excess`` are pods
    that these writes delete, because the group has others.
    """

    writes: Sequence[Write]
    excess: Sequence[Raw] = ()


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Deactivated long enough ago (``objectRetentionPolicies.workloads.afterDeactivatedByKueue``)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The job cannot continue at present: an event has the reason, and it is tried again after a change. ``about`` is
    the part of the job that the event is for, if it is not for all of it.
    """

    reason: str
    message: str
    about: Raw | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """All is as it should be; ``requeue_after`` seconds is when time alone will change that."""

    requeue_after: float | None = None


Action = (
    CreateWorkload
    | UpdateWorkload
    | DeleteWorkload
    | RemoveFinalizer
    | AwaitPods
    | Ungate
    | WorkloadStatus
    | Prepare
    | Start
    | Stop
    | LetGo
    | DeleteJob
    | Problem
    | Nothing
)
