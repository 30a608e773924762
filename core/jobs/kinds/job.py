"""batch/v1 Job: its pods, how it starts and stops, when it is finished, and its checks.

A Job is suspended and resumed by the Job controller (``spec.suspend``); the API server allows changes of templates only
while a Job is suspended and has no start time, which determines the order of the patches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from api import names
from api.builtin import BOOLEAN, INTEGER, METADATA, POD_TEMPLATE, TEXT, fields
from api.errors import FieldError, forbidden, invalid
from api.feature_gates import Enabled
from api.names import Annotation
from api.objects import Resource
from api.structural import Form
from core.actions import Patch, insisted
from core.jobs import meta
from core.jobs.admission.literals import boolean, integer
from core.jobs.admission.metadata import ANEW, IMMUTABLE, elastic
from core.jobs.fields import Path, changed, without
from core.jobs.job_reader import SUSPENDED, Outcome, Slot, holds, outcome
from core.jobs.job_starter import Right
from core.jobs.kind import JobKind
from core.jobs.template import Injection
from core.jobs.topology_request import PodIndex
from core.model import Raw
from core.wire.guard import guarded

MIN_PARALLELISM: Final = f"metadata.annotations[{Annotation.MIN_PARALLELISM}]"
SYNC: Final = f"metadata.annotations[{Annotation.COMPLETIONS_EQUAL_PARALLELISM}]"
_JOB_NAME = "batch.kubernetes.io/job-name"
INDEX: Final = names.JobControllerLabel.COMPLETION_INDEX
_ENDS: Final = ("SuccessCriteriaMet", "FailureTarget")
"""Conditions of a Job that ends when its last pods have terminated; it cannot lose them again."""
_PARALLELISM_IN_CEL: Final = "(has({job}.spec.parallelism) ? {job}.spec.parallelism : 1)"


class BatchJob(JobKind):
    """The ``batch/job`` framework."""

    framework = names.BATCH_JOB
    counted = "`main`: parallelism, at most completions"
    resource = Resource("batch", "v1", "jobs", "Job")
    pods_label = _JOB_NAME
    counts_terminating = True
    optional = False
    fixed_templates = True
    pods_path = ("spec", "template")
    runs_children = False
    rights = (Right(resource, "patch", "status"),)
    uid_label = names.JobControllerLabel.CONTROLLER_UID
    run_labels = frozenset(
        {"job-name", names.JobControllerLabel.LEGACY_CONTROLLER_UID, names.JobControllerLabel.CONTROLLER_UID}
    )
    kept_labels = run_labels | {_JOB_NAME}
    elastic = True
    resizable = True
    unread = (pods_path,)
    managed_by = ("spec", "managedBy")
    own_controller = "kubernetes.io/job-controller"
    first_template = pods_path
    pods_in_cel = (
        f"has({{job}}.spec.completions) && {{job}}.spec.completions < {_PARALLELISM_IN_CEL}"
        f" ? {{job}}.spec.completions : {_PARALLELISM_IN_CEL}"
    )
    form = Form(
        fields(
            metadata=METADATA,
            spec=fields(
                suspend=BOOLEAN,
                parallelism=INTEGER,
                completions=INTEGER,
                completionMode=TEXT,
                managedBy=TEXT,
                template=POD_TEMPLATE,
            ),
        )
    )

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """Returns one pod set ``main`` with as many pods as run at the same time."""
        index = PodIndex(INDEX)
        return [Slot(names.DEFAULT_POD_SET, _count(job), self.pods_path, min_parallelism(job), index=index)]

    def suspended(self, job: Raw) -> bool:
        """A Job that is still being stopped (by Kueue, which sets this annotation) is not suspended yet."""
        return self.held(job) and meta.annotations(job).get(Annotation.STOPPING) != "true"

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether it has pods that run or are about to."""
        return bool((job.get("status") or {}).get("active"))

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """Complete or Failed, with the Job controller's message."""
        return outcome(job, success="Complete", failure="Failed")

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether as many pods as run at the same time are ready or have succeeded."""
        status = job.get("status") or {}
        uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or []
        ready: int = status.get("succeeded", 0) + status.get("ready", 0) + len(uncounted)
        return ready >= _count(job)

    def sees_start(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether the Job controller has resumed the Job, or has never held it and counts its pods."""
        status = job.get("status") or {}
        held = any(each["type"] == SUSPENDED for each in status.get("conditions") or ())
        return super().sees_stop(job) is False if held else bool(status.get("active"))

    def sees_stop(self, job: Raw) -> bool | None:
        """A Job controller that has seen a held Job sets the condition; None if it has written no status yet."""
        return super().sees_stop(job) or (False if job.get("status") else None)

    def terminating(self, job: Raw) -> int | None:
        """As the Job controller counts them since Kubernetes 1.29."""
        found: int | None = (job.get("status") or {}).get("terminating")
        return found

    def counts_all_pods(self, job: Raw) -> bool:
        """Not with a selector of its own: whoever may change the labels of pods takes them away from such a Job, and
        they run on.
        """
        return not _spec(job).get("manualSelector")

    def asks(self, job: Raw) -> list[Patch]:
        """Removes the condition Suspended. A Job controller with an older version of the Job cannot write its status;
        with this one, it deletes all pods of the Job before it sets the condition again.
        """
        conditions = (job.get("status") or {}).get("conditions") or ()
        kept = [each for each in conditions if each["type"] != SUSPENDED]
        return [Patch(guarded({"status": {"conditions": kept or None}}, job), subresource="status")]

    def reclaimable(self, job: Raw, related: Sequence[Raw] = ()) -> Mapping[str, int]:
        """Parallel slots for which no work is left."""
        spec = job["spec"]
        parallelism = spec.get("parallelism", 1)
        completions = spec["completions"] if spec.get("completions") is not None else parallelism
        done = _done(job, completions)
        free = parallelism - max(completions - done, 0)
        return {names.DEFAULT_POD_SET: free} if parallelism > 1 and done > 0 and free > 0 else {}

    def start(self, job: Raw, injections: Sequence[Injection], related: Sequence[Raw] = ()) -> list[Patch]:
        """Unsuspends the Job with the injection; a start time of an earlier run is removed first.

        The pods have the Job's uid as a label, by which they are found when the Job is deleted. The API server sets it,
        except on a Job with its own selector.
        """
        (injection,) = injections
        if job["spec"].get("manualSelector"):
            injection = replace(injection, labels={**injection.labels, self.uid_label: meta.uid(job)})
        after = _with_count(changed(self.injected(job, [injection]), *self.release(job)), injection.count)
        resets = _start_time_reset(job)
        return [*resets, *self.difference(job, after, version=not resets)]

    def stop(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> list[Patch]:
        """Suspends the Job, removes the start time, and restores template and parallelism, each only if necessary.

        The API server allows no change of the template while the Job's status counts pods, and no end of a Job without
        start time. Pods that succeed while the Job is being stopped may be its last ones: a Job that ends keeps its
        start time, or gets one again.
        """
        writes: list[Patch] = []
        if not self.held(job):
            writes.append(insisted(Patch(guarded({"spec": {"suspend": True}}, job))))
        if any(holds(job, each) for each in _ENDS):
            return [*writes, *_start_time_given_back(job)]
        writes += _start_time_reset(job)
        after = job
        if pod_sets and not self.active(job):
            after = _with_count(self.restored(job, pod_sets), pod_sets[0]["count"])
        if Annotation.STOPPING in meta.annotations(job):
            after = changed(after, ("metadata", "annotations", Annotation.STOPPING), None)
        return [*writes, *self.difference(job, after, version=False)]

    def for_worker(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Raw:
        """Without the selector and labels of this Job: the API server of the other cluster sets its own."""
        found = without(super().for_worker(job, pod_sets), ("spec", "selector"))
        for label in sorted(self.kept_labels):
            found = without(found, ("spec", "template", "metadata", "labels", label))
        return _with_count(found, pod_sets[0]["count"])

    def size_fields(self, job: Raw) -> Mapping[str, tuple[Path, int]]:
        """The number of pods that run at the same time."""
        return {names.DEFAULT_POD_SET: (("spec", "parallelism"), 1)}

    def status_from_worker(self, job: Raw, remote: Raw) -> Raw | None:
        """None while this Job is suspended and the other one runs: a start time would forbid to change its template."""
        if self.held(job) and not self.held(remote) and self.finished(remote) is None:
            return None
        return super().status_from_worker(job, remote)

    def rounds(self, job: Raw) -> int:
        """The number of rounds that the completions take with that many parallel pods."""
        parallelism, completions = _spec(job).get("parallelism", 1), _spec(job).get("completions")
        if not isinstance(parallelism, int) or not isinstance(completions, int) or parallelism < 1:
            return 1
        return max(1, -(-completions // parallelism))

    def validate_create(self, job: Raw, enabled: Enabled) -> list[FieldError]:
        """The rules for a new Job: partial admission, synced completions, topology."""
        return _min_parallelism(job, enabled) + _sync_completions(job) + self.topology_errors(job, enabled)

    def validate_update(self, old: Raw, new: Raw, enabled: Enabled) -> list[FieldError]:
        """Returns the errors of a changed Job: those of a new one, for fields that may have changed, and changes of
        immutable fields.
        """
        errors: list[FieldError] = []
        if _annotation(old, Annotation.MIN_PARALLELISM) != _annotation(new, Annotation.MIN_PARALLELISM):
            errors += _min_parallelism(new, enabled)
        errors += _sync_completions(new) + self.topology_errors(new, enabled)
        partial = _annotation(old, Annotation.MIN_PARALLELISM) is not None
        if partial and not self.held(old) and _parallelism(old) != _parallelism(new):
            detail = f"cannot change when partial admission is enabled and the job is not suspended: {ANEW}"
            errors.append(forbidden("spec.parallelism", detail))
        if not self.suspended(old) and not self.suspended(new) and _synced(old) != _synced(new):
            errors.append(forbidden(SYNC, f"{IMMUTABLE} while the job is not suspended: {ANEW}"))
        return errors


BATCH_JOB: Final = BatchJob()


def min_parallelism(job: Raw) -> int | None:
    """With how many pods the Job would start if need be; None where the annotation is absent or no number."""
    text = meta.annotations(job).get(Annotation.MIN_PARALLELISM)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _spec(job: Raw) -> Raw:
    return job.get("spec") or {}


def _parallelism(job: Raw) -> int:
    found = _spec(job).get("parallelism")
    return 1 if found is None else int(found)


def _count(job: Raw) -> int:
    """Returns how many pods run at the same time: parallelism, bounded by completions."""
    completions = _spec(job).get("completions")
    return _parallelism(job) if completions is None else min(_parallelism(job), completions)


def _with_count(job: Raw, count: int) -> Raw:
    """Returns the Job with that many parallel pods, if partial admission allows fewer than it requests."""
    if min_parallelism(job) is None:
        return job
    if meta.annotations(job).get(Annotation.COMPLETIONS_EQUAL_PARALLELISM, "").lower() in ("true", "t", "1"):
        job = changed(job, ("spec", "completions"), count)
    return changed(job, ("spec", "parallelism"), count)


def _start_time_reset(job: Raw) -> list[Patch]:
    if (job.get("status") or {}).get("startTime") is None:
        return []
    return [Patch(guarded({"status": {"startTime": None}}, job, version=False), subresource="status")]


def _start_time_given_back(job: Raw) -> list[Patch]:
    """For a Job that ends: since when it ran, or has met what it ends for."""
    status = job.get("status") or {}
    if status.get("startTime") is not None:
        return []
    known = {each["type"]: each.get("lastTransitionTime") for each in status["conditions"]}
    since = next(known[each] for each in (SUSPENDED, *_ENDS) if known.get(each))
    return [Patch(guarded({"status": {"startTime": since}}, job, version=False), subresource="status")]


def _done(job: Raw, completions: int) -> int:
    """Pods that will never run again: succeeded ones, or for an Indexed Job completed and finally failed indexes."""
    status = job.get("status") or {}
    if job["spec"].get("completionMode") != "Indexed":
        done: int = status.get("succeeded", 0)
        return done
    indexes: set[int] = set()
    for text in (status.get("completedIndexes"), status.get("failedIndexes")):
        for interval in (text or "").split(","):
            first, _, last = interval.partition("-")
            if first.isdigit() and (not last or last.isdigit()):
                indexes |= set(range(int(first), min(int(last or first), completions - 1) + 1))
    return len(indexes)


def _annotation(job: Raw, key: str) -> str | None:
    found = meta.annotations(job).get(key)
    return None if found is None else str(found)


def _min_parallelism(job: Raw, enabled: Enabled) -> list[FieldError]:
    text = _annotation(job, Annotation.MIN_PARALLELISM)
    if text is None:
        return []
    errors = []
    try:
        least = integer(text)
    except ValueError as error:
        errors.append(invalid(MIN_PARALLELISM, text, str(error)))
    else:
        if not 0 < least < _count(job):
            errors.append(invalid(MIN_PARALLELISM, least, f"should be between 0 and {_count(job) - 1}"))
    if elastic(job, enabled):
        detail = "partial admission and elastic job cannot be used together"
        errors.append(invalid(MIN_PARALLELISM, text, detail))
    return errors


def _sync_completions(job: Raw) -> list[FieldError]:
    text = _annotation(job, Annotation.COMPLETIONS_EQUAL_PARALLELISM)
    if text is None:
        return []
    try:
        enabled = boolean(text)
    except ValueError as error:
        return [invalid(SYNC, text, str(error))]
    if not enabled:
        return []
    errors = []
    if _spec(job).get("completionMode") in (None, "NonIndexed"):
        errors.append(invalid(SYNC, text, "should not be enabled for NonIndexed jobs"))
    completions = _spec(job).get("completions")
    if _parallelism(job) != (1 if completions is None else completions):
        detail = f"should be equal to parallelism when {Annotation.COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
        errors.append(invalid("spec.completions", completions, detail))
    return errors


def _synced(job: Raw) -> bool:
    try:
        return boolean(_annotation(job, Annotation.COMPLETIONS_EQUAL_PARALLELISM) or "false")
    except ValueError:
        return False
