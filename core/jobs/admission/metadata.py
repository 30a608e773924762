"""The rules that jobs of every kind obey, on create and on update, in Kueue's words.

Source: Kueue's reference for its job integrations (validation of labels and annotations), releases 0.19 and 0.20.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from api import syntax
from api.errors import FieldError, invalid
from api.feature_gates import Enabled
from api.names import Annotation, Label
from api.validate import admission_gates
from core.jobs import meta
from core.jobs.admission.literals import integer
from core.model import Raw

QUEUE_NAME: Final = f"metadata.labels[{Label.QUEUE_NAME}]"
QUEUE_ANNOTATION: Final = f"metadata.annotations[{Annotation.QUEUE_NAME}]"
MAX_EXEC_TIME: Final = f"metadata.labels[{Label.MAX_EXEC_TIME_SECONDS}]"
PRIORITY_CLASS: Final = f"metadata.labels[{Label.PRIORITY_CLASS}]"
ELASTIC: Final = f"metadata.annotations[{Annotation.ELASTIC_JOB}]"
IMMUTABLE: Final = "field is immutable"
ANEW: Final = "delete the job and create it again"
"""The advice for a field that cannot be changed."""


Meant = Callable[[str], str | None]


def on_create(job: Raw, enabled: Enabled, *, meant: Meant = lambda name: None) -> list[FieldError]:
    """Returns the errors of a job that is created or changed. ``meant`` returns the LocalQueue that a misspelt name
    probably means.
    """
    errors = _queue_name(job, meant)
    errors += _prebuilt(job, enabled)
    errors += _max_exec_time(job)
    if enabled("AdmissionGatedBy"):
        errors += admission_gates.form(job)
    return errors


def on_update(
    old: Raw,
    new: Raw,
    enabled: Enabled,
    *,
    was_suspended: bool,
    suspended: bool,
    default_queue: bool,
    runs_in: str = "",
) -> list[FieldError]:
    """Returns the errors of a change. ``default_queue`` is whether the namespace has a LocalQueue named default,
    ``runs_in`` the LocalQueue of the admitted Workload with which the job runs, '' if it has none.
    """
    errors = _queue_name_change(old, new, suspended=suspended, default_queue=default_queue, runs_in=runs_in)
    errors += _prebuilt_change(old, new, enabled, suspended=suspended)
    if not (suspended and was_suspended):
        before, after = (meta.labels(job).get(Label.MAX_EXEC_TIME_SECONDS, "") for job in (old, new))
        errors += _immutable(MAX_EXEC_TIME, before, after)
    errors += _priority_class_change(meta.priority_class(old), meta.priority_class(new), suspended=suspended)
    if elastic(old, enabled) != elastic(new, enabled):
        errors.append(invalid(ELASTIC, elastic(new, enabled), f"{IMMUTABLE}: {ANEW}"))
    if enabled("AdmissionGatedBy"):
        errors += admission_gates.change(old, new)
    return errors


def elastic(job: Raw, enabled: Enabled) -> bool:
    """Whether the job is resized while it runs: it asks for that, and the feature gate is on."""
    return meta.elastic(job) and enabled("ElasticJobsViaWorkloadSlices")


def _queue_name(job: Raw, meant: Meant) -> list[FieldError]:
    name, path = meta.labels(job).get(Label.QUEUE_NAME), QUEUE_NAME
    if name is None:
        name, path = meta.annotations(job).get(Annotation.QUEUE_NAME), QUEUE_ANNOTATION
    errors = [] if name is None else _subdomain(path, name)
    if name == "":
        what = "label" if path == QUEUE_NAME else "annotation"
        return [replace(each, detail=f"name a queue or remove the {what}") for each in errors]
    queue = meant(name) if name and errors else None
    return [replace(each, detail=f'did you mean "{queue}"? {_LETTERS}') if queue else each for each in errors]


_LETTERS: Final = "A queue name has only lowercase letters, digits, '-' and '.'"


def _subdomain(path: str, value: str) -> list[FieldError]:
    texts = syntax.dns1123_subdomain(value)
    return [invalid(path, value, ",".join(texts))] if texts else []


def _queue_name_change(old: Raw, new: Raw, *, suspended: bool, default_queue: bool, runs_in: str) -> list[FieldError]:
    """A job that runs keeps its queue name. One without a name gets that of its admitted Workload, which an import has
    given it.
    """
    before, after = meta.queue_name(old), meta.queue_name(new)
    kept = suspended or (not before and after == runs_in)
    errors = [] if kept else _immutable(QUEUE_NAME, before, after)
    if before and not after and default_queue:
        errors.append(invalid(QUEUE_NAME, "", "queue-name must not be empty in namespace with default queue"))
    return errors


def _immutable(path: str, before: object, after: object) -> list[FieldError]:
    return [] if before == after else [invalid(path, after, f"{IMMUTABLE} while the job runs: {ANEW}")]


def _prebuilt(job: Raw, enabled: Enabled) -> list[FieldError]:
    name, path = _prebuilt_of(job, enabled)
    written = name or Label.PREBUILT_WORKLOAD in meta.labels(job)
    return _subdomain(path, name) if written else []


def _prebuilt_of(job: Raw, enabled: Enabled) -> tuple[str, str]:
    return meta.prebuilt_workload(job, annotation_first=enabled("WorkloadIdentifierAnnotations"))


def _prebuilt_change(old: Raw, new: Raw, enabled: Enabled, *, suspended: bool) -> list[FieldError]:
    if suspended or elastic(old, enabled):
        return []  # on_create has checked the name, and it may change
    (before, _), (after, path) = _prebuilt_of(old, enabled), _prebuilt_of(new, enabled)
    return _immutable(path, before, after)


def _max_exec_time(job: Raw) -> list[FieldError]:
    text = meta.labels(job).get(Label.MAX_EXEC_TIME_SECONDS)
    if text is None:
        return []
    try:
        seconds = integer(text)
    except ValueError as error:
        return [invalid(MAX_EXEC_TIME, text, str(error))]
    return [invalid(MAX_EXEC_TIME, seconds, "should be greater than 0")] if seconds <= 0 else []


def _priority_class_change(before: str, after: str, *, suspended: bool) -> list[FieldError]:
    if not suspended and after and not before:
        detail = f"WorkloadPriorityClass cannot be added to a non-suspended workload: {ANEW}"
        return [invalid(PRIORITY_CLASS, after, detail)]
    if before and not after:
        detail = "WorkloadPriorityClass cannot be removed from a workload: name another class instead"
        return [invalid(PRIORITY_CLASS, after, detail)]
    return []
