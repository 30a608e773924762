"""Admission of our own kinds: the finalizer that keeps what is in use, and their validation."""

from __future__ import annotations

from typing import Final

from api.names import Finalizer
from webhook import patch
from webhook.patch import Operation
from webhook.review import Request, Response, allow, bad_request
from webhook.settings import Context
from webhook.shape import METADATA, ListOf, Shape, misshapen

_SHAPE: Final[Shape] = {"metadata": METADATA}
_PARTIAL: Final[Shape] = {"spec": {"podSets": ListOf({"minCount": int})}}


def keep_while_in_use(request: Request, context: Context) -> Response:
    """A ClusterQueue or ResourceFlavor is not gone before what uses it is: it gets the finalizer when created."""
    if request.operation != "CREATE":
        return allow()
    created = request.new()
    errors = misshapen(created, _SHAPE)
    if errors:
        return bad_request("; ".join(map(str, errors)))
    return allow(patch=patch.append(created, ("metadata", "finalizers"), Finalizer.RESOURCE_IN_USE))


def drop_min_counts(request: Request, context: Context) -> Response:
    """Where partial admission is switched off no pod set of a Workload asks for it."""
    errors = misshapen(request.new(), _PARTIAL)
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


def validate(request: Request, context: Context) -> Response:
    """The rules of the kind, all errors at once."""
    errors = misshapen(request.object, _SHAPE)
    return bad_request("; ".join(map(str, errors))) if errors else allow()
