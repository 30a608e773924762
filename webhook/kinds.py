"""Admission of Seiretsu's own kinds: the finalizer that keeps objects in use, and their validation."""

from __future__ import annotations

from typing import Final

from api import validate as rules
from api.builtin import INTEGER, METADATA, fields, list_of
from api.errors import FieldError, required
from api.feature_gates import Gates
from api.names import Finalizer
from api.structural import Form
from core.model import Raw
from webhook import patch
from webhook.patch import Operation
from webhook.review import Request, Response, allow, bad_request, refuse
from webhook.settings import Context

FORM: Final = Form(fields(metadata=METADATA))
_PARTIAL: Final = Form(fields(spec=fields(podSets=list_of(fields(minCount=INTEGER)))))


def keep_while_in_use(request: Request, context: Context) -> Response:
    """Adds the finalizer to a new ClusterQueue or ResourceFlavor, which must not be deleted while it is used."""
    if request.operation != "CREATE":
        return allow()
    created = request.new()
    errors = FORM.errors(created)
    if errors:
        return bad_request("; ".join(map(str, errors)))
    return allow(patch=patch.append(created, ("metadata", "finalizers"), Finalizer.RESOURCE_IN_USE))


def drop_min_counts(request: Request, context: Context) -> Response:
    """Where partial admission is switched off no pod set of a Workload asks for it."""
    errors = _PARTIAL.errors(request.new())
    if errors:
        return bad_request("; ".join(map(str, errors)))
    pod_sets = (request.new().get("spec") or {}).get("podSets") or []
    return allow(
        patch=tuple(
            Operation("remove", ("spec", "podSets", str(index), "minCount"))
            for index, pod_set in enumerate(pod_sets)
            if "minCount" in pod_set
        )
    )


def malformed(raw: Raw) -> str:
    """Returns the error of the metadata that every object has, as a sentence; empty if there is none."""
    errors = FORM.errors(raw) if raw.get("metadata") else [required("metadata")]
    return "; ".join(map(str, errors))


def validate(request: Request, context: Context) -> Response:
    """Applies the rules of the kind to the stored version (``matchPolicy: Equivalent``); returns all errors
    together.
    """
    if request.operation not in ("CREATE", "UPDATE"):
        return allow()
    new = request.new()
    if why := malformed(new):
        return bad_request(why)
    old = request.old() if request.operation == "UPDATE" else None
    errors = _errors(old, new, context.settings.gates)
    return refuse(errors) if errors else allow()


def _errors(old: Raw | None, new: Raw, gates: Gates) -> list[FieldError]:
    """Returns the errors of the rules beyond the schema, which the API server has checked: to check the form again
    costs several times more, and would refuse a change of an object that was stored with an older, wider schema.

    An object from another client may break a rule; its form is then checked, and null counts as absent, as in the API
    server.
    """
    try:
        return rules.create_rules(new, gates) if old is None else rules.update_rules(old, new, gates)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError):
        for found in (new,) if old is None else (new, old):
            if errors := FORM.errors(found) or rules.create(found, gates):
                return errors
        return [] if old is None else rules.update(old, new, gates)
