"""The actions on a job and its Workload that mean more than their writes: one at a time, each at most a few writes.

They are kinds of the actions of all rules (``core.actions``), which the controller makes as any others. Separate from
the rules that choose them (``core.jobs.decide``), because the controller does more after some of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Self

from api import names
from api.objects import Resource
from api.resources import WORKLOADS
from core.actions import Create, Deferred, Delete, Patch, Target, Wait, Writes
from core.model import Key, Raw, Workload, events
from core.wire.conditions import status_patch


@dataclass(frozen=True, slots=True)
class CreateWorkload(Create):
    """The job gets its Workload."""

    resource: Resource = WORKLOADS


@dataclass(frozen=True, slots=True)
class UpdateWorkload(Patch):
    """A patch of the Workload itself; ``why`` is matching, queue, priority, gates, resize, adopted or owners."""

    @classmethod
    def of(cls, workload: Key, patch: Raw, why: str, *, added: int = 0) -> Self:
        """``added``: the number of new owners."""
        recorded = (events.updated_workload(workload),) if why in ("matching", "resize") else ()
        owners = (events.owners_added(added),) if added else ()
        return cls(patch, target=Target(WORKLOADS, workload), why=why, events=recorded, target_events=owners)


@dataclass(frozen=True, slots=True)
class DeleteWorkload(Writes):
    """The Workload does not match its job: its finalizer is removed, and it is deleted."""

    workload: Key

    @classmethod
    def of(cls, workload: Key, uid: str, release: Raw | None) -> Self:
        """``release`` is the patch that removes the finalizer."""
        at = Target(WORKLOADS, workload)
        first = (Patch(release, target=at),) if release is not None else ()
        return cls((*first, Delete(uid, at)), workload, why="delete", events=(events.deleted_workload(workload),))


@dataclass(frozen=True, slots=True)
class UpdateWorkloadStatus(Patch):
    """A patch of the Workload's status; ``why`` is finish, reclaim, ready, release, hold, pending, pods left or
    stop."""

    _: KW_ONLY
    after: Workload

    @classmethod
    def between(cls, before: Workload, after: Workload, why: str) -> Self | None:
        """The change from one value to the other; None if their statuses do not differ."""
        patch, recorded = (
            status_patch(before, after),
            (events.finished_workload(before.key),) if why == "finish" else (),
        )
        at = Target(WORKLOADS, before.key)
        return cls(patch, "status", at, after=after, why=why, events=recorded) if patch else None


@dataclass(frozen=True, slots=True)
class Prepare(Writes):
    """The job gets what admission would have set, which did not see it."""


@dataclass(frozen=True, slots=True)
class Start(Writes):
    """The job is admitted: the writes that start it."""

    cluster_queue: str


@dataclass(frozen=True, slots=True)
class Stop(Writes):
    """The job must not run: the writes that stop it. ``message`` is the event if it did run."""

    reason: str
    message: str
    was_running: bool


@dataclass(frozen=True, slots=True)
class RemoveJobFinalizer(Writes):
    """Nothing depends on the job any more, or on a part of it: the writes that remove finalizers. ``excess`` are pods
    that these writes delete, because the group has others.
    """

    excess: Sequence[Raw] = ()


@dataclass(frozen=True, slots=True)
class RemoveFinalizer(Patch):
    """The Workload is finished, or deleted and its job stopped: nothing holds it any more. Unless it is being deleted,
    its finalizer can stay longer than other writes wait.
    """

    _: KW_ONLY
    workload: Key

    @classmethod
    def of(cls, workload: Key, patch: Raw) -> Self:
        """``patch`` removes the finalizer."""
        return cls(patch, target=Target(WORKLOADS, workload), workload=workload, why="finalizer")


@dataclass(frozen=True, slots=True)
class AwaitPods(Wait):
    """The Workload keeps its quota until no pod is left of the job with that uid, which is deleted."""

    seconds: float | None = field(default=None, kw_only=True)
    workload: Key
    uid: str
    label: str = names.JobControllerLabel.CONTROLLER_UID
    """The label by which the job's pods have its uid."""


@dataclass(frozen=True, slots=True)
class Ungate(Deferred):
    """Pods of an admitted elastic job lose their scheduling gate: of those that have ``uid`` in ``label``, so many of
    each pod set as are granted. They are not watched, so they are listed first.
    """

    uid: str
    label: str
    granted: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Problem(Wait):
    """The job cannot continue at present: an event has the reason, and it is tried again after a change. ``about`` is
    the part of the job that the event is for, if it is not for all of it.
    """

    seconds: float | None = field(default=None, kw_only=True)
    reason: str
    message: str
    about: Raw | None = None
