"""The writes of ``seiretsu import``, one job after the other: Workload, quota, queue name.

After each of them the import can end: the next one goes on from what the API has. A job is read again before its first
write, because reading all jobs takes longer than writing one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from api import resources
from api.objects import Raw, key_of
from cli.target import FailedError
from cli.writer import ObjectWriter
from controller.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from core.importing.judge import JobImport, MissingStep
from core.jobs import meta
from core.model import Workload
from core.wire.conditions import status_patch
from core.wire.finalizers import released

TRIES: Final = 7
FIRST_WAIT_SECONDS: Final = 0.1
MOST_REFUSED: Final = 2
"""When so many jobs of one kind in a namespace were refused one after the other, others are not begun: whatever refuses
them (a policy, a webhook, a missing right) would leave each with quota and without a queue name."""


@dataclass(slots=True)
class Rate:
    """At most so many requests in a second: ``turn`` returns when the next one may be sent."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _next: float = field(default=0.0)

    def turn(self) -> None:
        """Waits for the turn of a request."""
        now = self.clock()
        if self._next > now:
            self.sleep(self._next - now)
        self._next = max(now, self._next) + 1.0 / self.per_second


class ChangedError(FailedError):
    """A job is not taken in, because it is not as it was when it was judged; a next import judges it again."""


class NotBegunError(FailedError):
    """A job is not taken in, because others of its kind and namespace were refused."""


@dataclass(frozen=True, slots=True)
class ImportWriter:
    """Takes jobs in. ``read`` returns the value of a Workload, ``labels`` are added to each job."""

    client: ObjectWriter
    rate: Rate
    read: Callable[[Raw], Workload]
    labels: dict[str, str]
    now: Callable[[], float] = time.time
    _refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many jobs were refused one after the other, by kind and namespace."""

    def write(self, wanted: JobImport) -> None:
        """Makes the writes that are missing for a job. Raises ApiError, ChangedError if it has changed, or
        NotBegunError.
        """
        place = wanted.job.kind.kind, wanted.job.key.namespace
        if self._refused[place] >= MOST_REFUSED:
            raise NotBegunError(f"not begun, because {MOST_REFUSED} others of this kind and namespace were refused")
        try:
            self._write(wanted)
        except (Invalid, Forbidden):
            self._refused[place] += 1
            raise
        self._refused[place] = 0

    def _write(self, wanted: JobImport) -> None:
        self._unchanged(wanted)
        if wanted.replaces is not None:
            self.discard(wanted.replaces)
        if wanted.step is not MissingStep.LABELS:
            made = self._created(wanted) if wanted.step is MissingStep.WORKLOAD else wanted.manifest
            self._admit(wanted, made)
        self._label(wanted)

    def discard(self, workload: Raw) -> None:
        """Deletes a Workload that an import has begun, for a job that has ended or changed. Its finalizer is removed
        first: a controller would stop the job before it did that.
        """
        key, release = key_of(workload), released(workload)
        try:
            if release is not None:
                self.rate.turn()
                self.client.merge(resources.WORKLOADS, *key, release)
            self.rate.turn()
            self.client.delete(resources.WORKLOADS, *key, meta.uid(workload))
        except NotFound:
            return
        except Conflict:
            raise ChangedError(f"Workload {key} was changed meanwhile: import again") from None

    def _unchanged(self, wanted: JobImport) -> None:
        job, kind = wanted.job, wanted.job.kind
        self.rate.turn()
        try:
            raw = self.client.get(kind.resource.path(*job.key))
        except NotFound:
            raise ChangedError(f"{job} has gone meanwhile") from None
        now = job.now(raw)
        if meta.uid(raw) != meta.uid(job.raw) or meta.deleting(raw) or kind.finished(raw) is not None:
            raise ChangedError(f"{job} has ended meanwhile")
        same = job.pod_sets(now) == job.pod_sets() and kind.suspended(raw) == kind.suspended(job.raw)
        if not same or meta.queue_name(raw) not in ("", wanted.queue):
            raise ChangedError(f"{job} was changed meanwhile: import again")

    def _created(self, wanted: JobImport) -> Raw:
        """The new Workload, or that of a create whose answer was lost."""
        self.rate.turn()
        try:
            return self.client.create(resources.WORKLOADS, wanted.manifest)
        except AlreadyExists:
            found = self._workload(wanted)
        if meta.controller_uid(found) != meta.uid(wanted.job.raw):
            raise ChangedError(f"Workload {key_of(found)} has the name that {wanted.job} needs: delete it")
        return found

    def _admit(self, wanted: JobImport, made: Raw) -> None:
        """Gives the Workload its quota. The controller may write its status at the same time."""
        for left in range(TRIES, 0, -1):
            before = self.read(made)
            patch = status_patch(before, wanted.admitted(before, self.now()))
            if before.admission is not None or patch is None:
                return
            self.rate.turn()
            try:
                self.client.merge(resources.WORKLOADS, *before.key, patch, subresource="status")
            except Conflict:
                if left == 1:
                    raise
                made = self._workload(wanted)
            else:
                return

    def _label(self, wanted: JobImport) -> None:
        """Names the queue. Admission accepts that for a job whose Workload is admitted, which its caches may not know
        for a moment.
        """
        resource, key = wanted.job.kind.resource, wanted.job.key
        for number in range(TRIES):
            self.rate.turn()
            try:
                self.client.merge(resource, *key, wanted.patch(self.labels))
            except NotFound:
                raise ChangedError(f"{wanted.job} has gone meanwhile") from None
            except (Invalid, Forbidden):
                if number == TRIES - 1:
                    raise
                self.rate.sleep(FIRST_WAIT_SECONDS * 2**number)
            else:
                return

    def _workload(self, wanted: JobImport) -> Raw:
        self.rate.turn()
        return self.client.get(resources.WORKLOADS.path(*key_of(wanted.manifest)))


def failure(error: ApiError | FailedError) -> str:
    """Returns what went wrong with one job, if the import can go on with the next one; raises it otherwise."""
    if isinstance(error, ApiError) and error.status in (0, 401):
        raise error
    return f"{error.reason}: {error.message}" if isinstance(error, ApiError) else str(error)
