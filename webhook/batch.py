"""What is particular to a batch/v1 Job at admission: partial admission, synced completions, topology."""

from __future__ import annotations

from typing import Final

from api.errors import FieldError, forbidden, invalid
from api.names import Annotation
from core.jobs import meta
from core.jobs.kinds import BATCH_JOB
from core.model import Raw
from webhook import topology
from webhook.job_rules import ANEW, IMMUTABLE
from webhook.literals import boolean, integer
from webhook.settings import Settings
from webhook.shape import METADATA, POD_TEMPLATE, Form

FORM: Final = Form(
    {
        "metadata": METADATA,
        "spec": {
            "suspend": bool,
            "parallelism": int,
            "completions": int,
            "completionMode": str,
            "managedBy": str,
            "template": POD_TEMPLATE,
        },
    }
)

TEMPLATE_METADATA: Final = "spec.template.metadata"
MIN_PARALLELISM: Final = f"metadata.annotations[{Annotation.MIN_PARALLELISM}]"
SYNC: Final = f"metadata.annotations[{Annotation.COMPLETIONS_EQUAL_PARALLELISM}]"


def suspended(job: Raw) -> bool:
    """Whether the Job is suspended, and not merely on its way there."""
    return _spec(job).get("suspend") is True and meta.annotations(job).get(Annotation.STOPPING) != "true"


def pod_sets(job: Raw) -> list[Raw]:
    """``spec.podSets`` of the Job's Workload; none of a Job without metadata or template, which no API server sends."""
    return BATCH_JOB.pod_sets(job) if _spec(job).get("template") and job.get("metadata") else []


def ended(job: Raw) -> bool:
    """Whether the Job is complete or has failed."""
    return BATCH_JOB.finished(job) is not None


def on_create(job: Raw, settings: Settings) -> list[FieldError]:
    """The rules for a new Job."""
    return _min_parallelism(job) + _always(job, settings)


def on_update(old: Raw, new: Raw, settings: Settings) -> list[FieldError]:
    """The rules for a changed Job: those for a new one as far as they may have changed, and what must stay."""
    errors: list[FieldError] = []
    if _annotation(old, Annotation.MIN_PARALLELISM) != _annotation(new, Annotation.MIN_PARALLELISM):
        errors += _min_parallelism(new)
    errors += _always(new, settings)
    partial = _annotation(old, Annotation.MIN_PARALLELISM) is not None
    if partial and _spec(old).get("suspend") is not True and _parallelism(old) != _parallelism(new):
        detail = f"cannot change when partial admission is enabled and the job is not suspended: {ANEW}"
        errors.append(forbidden("spec.parallelism", detail))
    if not suspended(old) and not suspended(new) and _synced(old) != _synced(new):
        errors.append(forbidden(SYNC, f"{IMMUTABLE} while the job is not suspended: {ANEW}"))
    return errors


def pods(job: Raw) -> int:
    """How many pods run at once: parallelism, bounded by completions."""
    completions = _spec(job).get("completions")
    return _parallelism(job) if completions is None else min(_parallelism(job), completions)


def _always(job: Raw, settings: Settings) -> list[FieldError]:
    errors = _sync_completions(job)
    if settings.enabled("TopologyAwareScheduling"):
        template = (_spec(job).get("template") or {}).get("metadata") or {}
        found = template.get("annotations") or {}
        errors += topology.errors(TEMPLATE_METADATA, found, pods(job), elastic=meta.elastic(job), settings=settings)
    return errors


def _spec(job: Raw) -> Raw:
    return job.get("spec") or {}


def _annotation(job: Raw, key: str) -> str | None:
    found = meta.annotations(job).get(key)
    return None if found is None else str(found)


def _parallelism(job: Raw) -> int:
    found = _spec(job).get("parallelism")
    return 1 if found is None else int(found)


def _min_parallelism(job: Raw) -> list[FieldError]:
    text = _annotation(job, Annotation.MIN_PARALLELISM)
    if text is None:
        return []
    errors = []
    try:
        least = integer(text)
    except ValueError as error:
        errors.append(invalid(MIN_PARALLELISM, text, str(error)))
    else:
        if not 0 < least < pods(job):
            errors.append(invalid(MIN_PARALLELISM, least, f"should be between 0 and {pods(job) - 1}"))
    if meta.elastic(job):
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
