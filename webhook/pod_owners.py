"""Admission of objects whose pods are queued instead of them, such as Deployments."""

from __future__ import annotations

from core.jobs import meta
from core.jobs.pod_owners import FORM, PodOwner
from webhook import patch
from webhook.jobs import default_queue_and_class, is_queued, settings_patch
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
    new = patch.apply(new, operations)
    if not is_queued(new, request, context):
        return allow(patch=operations)
    return allow(patch=operations + settings_patch(new, owner.marks(new)))


def validate(owner: PodOwner, request: Request, context: Context) -> Response:
    """Returns all errors together."""
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
        errors += owner.change_errors(old, new, enabled)
    return refuse(errors) if errors else allow()
