"""Objects that name an owner as their controller although another account created them: they do not follow that owner.

The match condition (``webhook.trust``) finds them, because only the API server knows the rights of the account. On
create the reference stays, for garbage collection, but controls no more: so webhooks and controller alike take the
object for one of its own, which is queued by itself. On update the change is refused.
"""

from __future__ import annotations

from typing import Final

from api.builtin import METADATA, fields
from api.errors import forbidden
from api.structural import Form
from core.feedback.rules import fitted
from core.jobs.kind import JobKind
from core.model import Raw
from core.model.owner import reference
from webhook.patch import Operation
from webhook.review import Request, Response, allow, bad_request, refuse
from webhook.settings import Context

_FORM: Final = Form(fields(metadata=METADATA))
REFERENCES: Final = "metadata.ownerReferences"
NOT_CONTROLLED: Final = (
    "only the controller of an owner creates objects below it: leave out controller: true, or list the account in"
    " seiretsu.controllers of Seiretsu's Configuration"
)
"""The message of a refusal."""


def disown(kind: JobKind, request: Request, context: Context) -> Response:
    """Makes the owner reference that controls the object one that does not."""
    job = request.new()
    errors = kind.form.errors(job)
    if errors:
        return bad_request("; ".join(map(str, errors)))
    above = reference(job)
    if request.operation != "CREATE" or above is None:
        return allow()
    warning = fitted(
        f"{REFERENCES}: controller of {above.kind} {above.name} is now false: it did not create this, which is queued"
        " by itself",
        f"{REFERENCES}: controller is now false: {above.kind} {above.name} did not create this",
        f"{REFERENCES}: controller is now false: the owner did not create this",
    )
    return allow(patch=_uncontrolled(job), warnings=[warning])


def refuse_change(request: Request, context: Context) -> Response:
    """Refuses an owner that is added or changed; while Seiretsu's account is not known it may be its own write."""
    account = context.account()
    if request.operation != "UPDATE" or not account.name or account.wrote(request):
        return allow()
    errors = _FORM.errors(request.new()) or _FORM.errors(request.old())
    if errors:
        return bad_request("; ".join(map(str, errors)))
    if reference(request.new()) == reference(request.old()):
        return allow()
    return refuse([forbidden(REFERENCES, NOT_CONTROLLED)])


def _uncontrolled(job: Raw) -> tuple[Operation, ...]:
    references = enumerate(job["metadata"]["ownerReferences"])
    return tuple(
        Operation("replace", ("metadata", "ownerReferences", str(place), "controller"), False)
        for place, each in references
        if each.get("controller") is True
    )
