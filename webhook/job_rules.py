"""The rules that jobs of every kind obey, on create and on update, in Kueue's words.

Source: Kueue's reference for its job integrations (validation of labels and annotations), releases 0.19 and 0.20.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from api import syntax
from api.errors import FieldError, invalid
from api.names import Annotation, Label
from api.validate import admission_gates
from core.feedback.rules import closest
from core.jobs import meta
from core.model import Raw
from webhook.literals import integer
from webhook.settings import Settings

QUEUE_NAME: Final = f"metadata.labels[{Label.QUEUE_NAME}]"
QUEUE_ANNOTATION: Final = f"metadata.annotations[{Annotation.QUEUE_NAME}]"
MAX_EXEC_TIME: Final = f"metadata.labels[{Label.MAX_EXEC_TIME_SECONDS}]"
PRIORITY_CLASS: Final = f"metadata.labels[{Label.PRIORITY_CLASS}]"
ELASTIC: Final = f"metadata.annotations[{Annotation.ELASTIC_JOB}]"
IMMUTABLE: Final = "field is immutable"
ANEW: Final = "delete the job and create it again"
"""What to do about what cannot be changed."""


def on_create(job: Raw, settings: Settings, *, queues: Iterable[str] = ()) -> list[FieldError]:
    """What holds for a job whenever it is written. ``queues`` are the LocalQueues that it could name."""
    errors = _queue_name(job, queues)
    errors += _prebuilt(job, settings)
    errors += _max_exec_time(job)
    if settings.enabled("AdmissionGatedBy"):
        errors += admission_gates.form(job)
    return errors


def on_update(
    old: Raw, new: Raw, settings: Settings, *, was_suspended: bool, suspended: bool, default_queue: bool
) -> list[FieldError]:
    """What a change must not do. ``default_queue`` is whether the namespace has a LocalQueue named default."""
    errors = _queue_name_change(old, new, suspended=suspended, default_queue=default_queue)
    errors += _prebuilt_change(old, new, settings, suspended=suspended)
    if not (suspended and was_suspended):
        before, after = (meta.labels(job).get(Label.MAX_EXEC_TIME_SECONDS, "") for job in (old, new))
        errors += _immutable(MAX_EXEC_TIME, before, after)
    errors += _priority_class_change(meta.priority_class(old), meta.priority_class(new), suspended=suspended)
    if meta.elastic(old) != meta.elastic(new):
        errors.append(invalid(ELASTIC, meta.elastic(new), f"{IMMUTABLE}: {ANEW}"))
    if settings.enabled("AdmissionGatedBy"):
        errors += admission_gates.change(old, new)
    return errors


def _queue_name(job: Raw, queues: Iterable[str]) -> list[FieldError]:
    name, path = meta.labels(job).get(Label.QUEUE_NAME), QUEUE_NAME
    if name is None:
        name, path = meta.annotations(job).get(Annotation.QUEUE_NAME), QUEUE_ANNOTATION
    errors = [] if name is None else _subdomain(path, name)
    meant = closest(name, queues) if name and errors else None
    return [replace(each, detail=f'{each.detail}; did you mean "{meant}"?') if meant else each for each in errors]


def _subdomain(path: str, value: str) -> list[FieldError]:
    texts = syntax.dns1123_subdomain(value)
    return [invalid(path, value, ",".join(texts))] if texts else []


def _queue_name_change(old: Raw, new: Raw, *, suspended: bool, default_queue: bool) -> list[FieldError]:
    before, after = meta.queue_name(old), meta.queue_name(new)
    errors = [] if suspended else _immutable(QUEUE_NAME, before, after)
    if before and not after and default_queue:
        errors.append(invalid(QUEUE_NAME, "", "queue-name must not be empty in namespace with default queue"))
    return errors


def _immutable(path: str, before: object, after: object) -> list[FieldError]:
    return [] if before == after else [invalid(path, after, f"{IMMUTABLE} while the job runs: {ANEW}")]


def _prebuilt(job: Raw, settings: Settings) -> list[FieldError]:
    name, path = _prebuilt_of(job, settings)
    written = name or Label.PREBUILT_WORKLOAD in meta.labels(job)
    return _subdomain(path, name) if written else []


def _prebuilt_of(job: Raw, settings: Settings) -> tuple[str, str]:
    return meta.prebuilt_workload(job, annotation_first=settings.enabled("WorkloadIdentifierAnnotations"))


def _prebuilt_change(old: Raw, new: Raw, settings: Settings, *, suspended: bool) -> list[FieldError]:
    if suspended or meta.elastic(old):
        return []  # on_create has looked at the name, and it may change
    (before, _), (after, path) = _prebuilt_of(old, settings), _prebuilt_of(new, settings)
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
