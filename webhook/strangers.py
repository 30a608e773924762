"""Feedback on objects that name a queue and are not queued, and on Workloads that a person deletes.

Only the operator's configuration (`Deny`) can make it refuse, and the API server may skip these hooks.
"""

from __future__ import annotations

from dataclasses import replace

from api.builtin import METADATA, fields
from api.names import Condition
from api.structural import Form
from api.validate import common
from core.feedback import Finding, news
from core.feedback.change import Change
from core.feedback.jobs import of_template
from core.feedback.keys import Keys, of_keys
from core.feedback.strangers import Deletion, Stranger, of_deletion, of_stranger
from core.jobs import meta, owners
from core.jobs.kinds import ALL, BATCH_JOB
from core.model import Raw
from webhook.jobs import keys_of, submission_of
from webhook.kinds import malformed
from webhook.policy import judge
from webhook.review import Request, Response, allow
from webhook.settings import Context


def advise(request: Request, context: Context) -> Response:
    """Returns the findings about an object that names a queue and is not queued."""
    new, old = request.new(), request.old_object
    if _looked_after(request, context) or any(_FORM.errors(each) for each in (new, old)):
        return allow()
    queued = tuple(kind.kind for kind in ALL if kind.framework in context.settings.frameworks)
    change = Change(None if old is None else _stranger(request, old, queued), _stranger(request, new, queued))
    found = of_stranger(change, context.lookup)
    if request.kind == "CronJob":
        found += _of_template(request, context)
    return judge(found, context.settings.feedback, context.labels_of(request.namespace)).response()


def advise_deletion(request: Request, context: Context) -> Response:
    """Returns the findings about the deletion of a Workload of a Job."""
    workload = request.old_object
    if workload is None or malformed(workload):
        return allow()
    of_job = owners.below_job(workload) and not common.is_true(workload, Condition.FINISHED)
    job = str((meta.controller(workload) or {}).get("name") or "") if of_job else ""
    deletion = Deletion(request.name, job, common.is_true(workload, Condition.ADMITTED))
    found = of_deletion(deletion, context.lookup)
    return judge(found, context.settings.feedback, context.labels_of(request.namespace)).response()


def _looked_after(request: Request, context: Context) -> bool:
    """Whether the operator has named a controller of his own that queues this kind of this API group."""
    external = context.settings.external_frameworks
    return (request.kind, request.group) in map(owners.kind_and_group, external)


def _stranger(request: Request, raw: Raw, queued: tuple[str, ...]) -> Stranger:
    template = {} if request.kind in ("CronJob", "Pod", "Job") else (raw.get("spec") or {}).get("template") or {}
    jobs_queued = request.kind == "CronJob" and bool(meta.queue_name(_job(raw) or {"metadata": {}}))
    return Stranger(request.kind, request.namespace, {**meta.labels(template), **meta.labels(raw)}, jobs_queued, queued)


def _of_template(request: Request, context: Context) -> tuple[Finding, ...]:
    """Returns the findings about the Jobs that a CronJob will create."""
    new, old = _job(request.new()), _job(request.old_object)
    if any(BATCH_JOB.form.errors(each) for each in (new, old)):
        return ()
    keys = Change(None if old is None else keys_of(BATCH_JOB, old), _keys(new, request))
    found = of_keys(keys, context.lookup, context.spent)
    if new is not None and meta.queue_name(new):
        found += of_template(submission_of(BATCH_JOB, new, request, context), context.lookup, context.spent)
        if found and old is not None and meta.queue_name(old):
            before = of_template(submission_of(BATCH_JOB, old, request, context), context.lookup, context.spent)
            found = news(found, before)
    return found


def _keys(job: Raw | None, request: Request) -> Keys:
    return replace(keys_of(BATCH_JOB, job), namespace=request.namespace) if job else Keys()


def _job(cron_job: Raw | None) -> Raw | None:
    """Returns a Job as the CronJob will create it; None if there is none."""
    template = ((cron_job or {}).get("spec") or {}).get("jobTemplate")
    if not template:
        return None
    return {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}}


_FORM = Form(
    fields(
        metadata=METADATA,
        spec=fields(template=fields(metadata=METADATA), jobTemplate=fields(metadata=METADATA, spec=fields())),
    )
)
