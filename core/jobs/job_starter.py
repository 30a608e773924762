"""How a job starts and stops: ``JobStarter``, the part of ``core.jobs.kind.JobKind`` that returns writes. In another
cluster, too (``core.jobs.mirrored``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

from api.names import Label
from api.objects import Resource
from core.actions import Patch, Write, insisted
from core.jobs import meta, template
from core.jobs.fields import Path, Setting, at, changed, without
from core.jobs.job_reader import JobReader, Slot
from core.jobs.template import ConflictError, Injection, merge_diff
from core.model import Raw
from core.wire.guard import guarded


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


class JobStarter(JobReader):
    """Starts and stops objects of one kind, by default by ``spec.suspend``."""

    suspend_path: ClassVar[Path] = ("spec", "suspend")
    rights: ClassVar[tuple[Right, ...]] = ()
    """What ``start`` and ``stop`` write in addition to patches of the job itself."""
    kept_labels: ClassVar[frozenset[str]] = frozenset()
    """Labels in the templates that a stop leaves as they are: those the kind's controller sets."""

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

        Empty when nothing is left to do, so an interrupted stop is completed by calling it again. If others change the
        job at the same time it is held alone; one that is held is restored whatever they change.
        """
        found = self.difference(job, changed(self.restored(job, pod_sets, related), *self.hold(job)))
        if self.held(job):
            return [*map(insisted, found)]
        (alone,) = self.difference(job, changed(job, *self.hold(job)), version=False)
        return [replace(each, or_else=alone.body) for each in found]

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

    def ended_in_worker(self, remotes: Sequence[Raw], now: float) -> bool:
        """Whether the status of the objects in a worker shows that the job has ended."""
        return self.finished(self.whole(remotes, now)) is not None

    def shown(self, job: Raw, related: Sequence[Raw] = ()) -> tuple[Raw, Raw] | None:
        """The job, if its status shows pods although it is suspended."""
        shows = self.suspended(job) and self.active(job, related)
        return (job, dict.fromkeys(job.get("status") or {})) if shows else None

    def asks(self, job: Raw) -> list[Patch]:
        """Returns the writes after which the kind's controller writes its status of a held job again, if there are
        any; for kinds that count pods that terminate.
        """
        return []

    def finalizer_removal(self, job: Raw) -> Sequence[Write]:
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
