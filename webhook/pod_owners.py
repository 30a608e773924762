"""Admission of objects whose pods are queued instead of them, such as Deployments: marks, validation and feedback."""

from __future__ import annotations

from dataclasses import replace

from core.feedback import PodSpec, Submission, news, submission
from core.feedback.change import Change
from core.feedback.jobs import of_job, of_template
from core.feedback.keys import Keys, of_keys
from core.feedback.submission import OF_JOB, Words
from core.jobs import meta
from core.jobs.fields import at
from core.jobs.pod_owners import FORM, PodOwner, shape
from core.model import Raw
from webhook import expressions, patch
from webhook.jobs import created, default_queue_and_class, is_queued, settings_patch
from webhook.policy import PolicyVerdict, judge
from webhook.review import Request, Response, allow, bad_request, refuse
from webhook.settings import Context


def mutate(owner: PodOwner, request: Request, context: Context) -> Response:
    """Sets the default queue and class, and the marks in the pod templates of a queued object."""
    if request.operation not in ("CREATE", "UPDATE"):
        return allow()
    new = request.new()
    errors = FORM.errors(new)
    if errors:
        return bad_request("; ".join(map(str, errors)))
    if owner.of_another(new):
        return allow()
    operations = default_queue_and_class(new, request, context)
    defaulted = patch.apply(new, operations)
    if not is_queued(defaulted, request, context):
        if FORM.errors(request.old_object):
            return allow(patch=operations)
        return _of_keys(owner, request.old_object, new, request, context).response(patch=operations)
    return allow(patch=operations + settings_patch(defaulted, owner.marks(defaulted)))


def validate(owner: PodOwner, request: Request, context: Context) -> Response:
    """Returns all errors together, or else the findings."""
    if request.operation not in ("CREATE", "UPDATE"):
        return allow()
    new, enabled = request.new(), context.settings.enabled
    old = request.old() if request.operation == "UPDATE" else None
    errors = FORM.errors(new) or FORM.errors(old)
    if errors:
        return bad_request("; ".join(map(str, errors)))
    if owner.of_another(new):
        return allow()
    errors = owner.errors(new, enabled)
    if old is not None and not meta.deleting(new):
        workload = context.lookup.workload_of(meta.uid(new)) if context.lookup.synced else None
        errors += owner.change_errors(old, new, enabled, workload)
    keys = _of_keys(owner, old, new, request, context)
    if errors:
        return refuse(errors, warnings=keys.warnings)
    verdict = PolicyVerdict() if meta.deleting(new) else _feedback(owner, old, new, request, context)
    warnings, refusals = keys.warnings + verdict.warnings, keys.refusals + verdict.refusals
    return PolicyVerdict(warnings, refusals, keys.rules + verdict.rules).response()


def submission_of(owner: PodOwner, raw: Raw, request: Request, context: Context) -> Submission:
    """Returns an object as input of feedback: one of its Workloads, and how many of them it has."""
    slots = owner.slots(raw)
    pods = [PodSpec(slot.name, slot.count, at(raw, (*slot.path, "spec")) or {}) for slot in slots]
    words = Words(
        queue=OF_JOB.queue,
        pods="replicas",
        least="replicas",
        called={slot.name: slot.called for slot in slots},
        fields={slot.name: slot.field for slot in slots},
        job=owner.resource.kind,
        unit=owner.unit,
    )
    rules, queue, chosen = context.rules_of(request.namespace), meta.queue_name(raw), meta.priority_class(raw)
    found = submission(request.namespace, queue, chosen, pods, rules, words, units=owner.workloads(raw))
    return replace(found, dry_run=request.dry_run and request.operation == "CREATE")


def _feedback(owner: PodOwner, old: Raw | None, new: Raw, request: Request, context: Context) -> PolicyVerdict:
    """Returns the findings about a queued object: about pods that it will have more than before, or about other pods
    than before whether they can run at all.
    """
    if not is_queued(new, request, context):
        return PolicyVerdict()
    asked = submission_of(owner, new, request, context)
    lookup, labels = context.lookup, context.labels_of(request.namespace)
    if old is not None and _same_pods(owner, old, new):
        more = asked.units - owner.workloads(old)
        if more < 1:
            return PolicyVerdict()
        return judge(of_job(replace(asked, units=more), lookup, context.spent), context.settings.feedback, labels)
    if asked.units < 1:
        return PolicyVerdict()
    if old is not None and owner.workloads(old) and meta.queue_name(old):  # those from before use the quota
        before = of_template(submission_of(owner, old, request, context), lookup, context.spent)
        found = news(of_template(asked, lookup, context.spent), before)
        return judge(found, context.settings.feedback, labels)
    own = expressions.findings(context.settings.expressions, "jobs", request, labels, asked)
    found = created((*own, *of_job(asked, lookup, context.spent)), owner.resource, request, context)
    return judge(found, context.settings.feedback, labels)


def _same_pods(owner: PodOwner, old: Raw, new: Raw) -> bool:
    """Whether queue, priority class and each part of an object are those from before."""

    def seen(raw: Raw) -> list[object]:
        parts = [(slot.name, slot.count, shape(at(raw, (*slot.path, "spec")) or {})) for slot in owner.slots(raw)]
        return [meta.queue_name(raw), meta.priority_class(raw), parts]

    return seen(old) == seen(new)


def _of_keys(owner: PodOwner, old: Raw | None, new: Raw, request: Request, context: Context) -> PolicyVerdict:
    """Returns the findings about new labels and annotations."""
    change = Change(None if old is None else _keys(owner, old), _keys(owner, new))
    found = of_keys(change, context.lookup, context.spent)
    return judge(found, context.settings.feedback, context.labels_of(request.namespace))


def _keys(owner: PodOwner, raw: Raw) -> Keys:
    """The labels and annotations of an object and of its pods, without those that its own admission adds."""
    ours = {str(each.path[-1]) for each in owner.marks(raw)}
    templates = [found for path in owner.templates if isinstance(found := at(raw, path), dict)]
    labels, annotations = (
        {key: value for each in templates for key, value in read(each).items() if key not in ours}
        for read in (meta.labels, meta.annotations)
    )
    return Keys(meta.labels(raw), meta.annotations(raw), labels, annotations, noun=owner.resource.kind)
