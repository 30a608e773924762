"""Pods wait for quota by marks of their template. That of a ReplicaSet below a Deployment, or of a StatefulSet below a
LeaderWorkerSet, keeps them: in CEL, for a policy in the API server or as the match condition of a hook where policies
are not served.

No other hook sees such a template when a tenant changes it, and its controller creates again whatever the guard
deletes. A StatefulSet of its own is queued itself, and its webhook marks it.
"""

from __future__ import annotations

from typing import Final

from api.builtin import METADATA, fields
from api.errors import forbidden
from api.names import Annotation, Label
from api.structural import Form
from core.jobs import meta
from core.model import Raw
from webhook.review import Request, Response, allow, bad_request, refuse
from webhook.settings import Context
from webhook.trust import Trust

FORM: Final = Form(fields(metadata=METADATA, spec=fields(template=fields(metadata=METADATA))))
RESOURCES: Final = {"ReplicaSet": "replicasets", "StatefulSet": "statefulsets"}
MARKS: Final = (
    ("annotations", Annotation.POD_SUSPENDING_PARENT),
    ("labels", Label.QUEUE_NAME),
    ("labels", Label.MANAGED),
)
KEPT: Final = "the pods wait for quota by these marks of the template: change the object above it instead"
_TEMPLATE: Final = "spec.template.metadata"
_REFERENCES: Final = "oldObject.metadata.ownerReferences"
_CONTROLLED: Final = f"has({_REFERENCES}) && {_REFERENCES}.exists(o, has(o.controller) && o.controller"


def marked() -> str:
    """CEL: the pods of the template wait for quota."""
    annotations = f"oldObject.{_TEMPLATE}.annotations"
    return f"{_has('oldObject', 'annotations')} && '{Annotation.POD_SUSPENDING_PARENT}' in {annotations}"


BELOW: Final = f"request.resource.resource == 'replicasets' || ({_CONTROLLED}))"
"""CEL: the object is below another one that is queued."""


def kept(trust: Trust) -> str:
    """CEL: the marks stay, or the controller of the object above it changes them."""
    return f"({same()}) || ({_CONTROLLED} && {trust.creates}))"


def same() -> str:
    """CEL: the marks stay."""
    each = (f"({_value('oldObject', field, key)}) == ({_value('object', field, key)})" for field, key in MARKS)
    return " && ".join(each)


def refused(trust: Trust) -> str:
    """CEL: somebody who is not the controller of the object above it changes the marks."""
    return f"!({trust.fixed}) && {marked()} && ({BELOW}) && !({kept(trust)})"


def validate(request: Request, context: Context) -> Response:
    """Refuses a change that the match condition found; while Seiretsu's account is not known it may be its own."""
    account = context.account()
    if request.operation != "UPDATE" or not account.name or account.wrote(request):
        return allow()
    errors = FORM.errors(request.new()) or FORM.errors(request.old())
    if errors:
        return bad_request("; ".join(map(str, errors)))
    old, new = (_values(each) for each in (request.old(), request.new()))
    changed = [f"{_TEMPLATE}.{field}[{key}]" for field, key in MARKS if old[field, key] != new[field, key]]
    return refuse([forbidden(path, KEPT) for path in changed]) if changed else allow()


def _values(raw: Raw) -> dict[tuple[str, str], str]:
    template = (raw.get("spec") or {}).get("template") or {}
    found = {"annotations": meta.annotations(template), "labels": meta.labels(template)}
    return {(field, key): found[field].get(key, "") for field, key in MARKS}


def _has(variable: str, field: str) -> str:
    parts = ["spec", *_TEMPLATE.split(".")[1:], field]
    return " && ".join(f"has({variable}.{'.'.join(parts[: end + 1])})" for end in range(len(parts)))


def _value(variable: str, field: str, key: str) -> str:
    values = f"{variable}.{_TEMPLATE}.{field}"
    return f"{_has(variable, field)} && '{key}' in {values} ? {values}['{key}'] : ''"
