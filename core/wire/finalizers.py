"""Adds and removes Seiretsu's finalizer: one guard for every kind of object.

The patch applies only to the version that was decided. With a uid alone it could release an object that came into use
between the decision and the write.
"""

from __future__ import annotations

from api import names
from core.model import Raw
from core.wire.guard import guarded


def kept(raw: Raw) -> Raw | None:
    """Returns the merge patch that adds the finalizer to this version of the object; None if it has it.

    The API server adds no finalizer to an object that is being deleted: also None.
    """
    finalizers = raw["metadata"].get("finalizers") or []
    if names.Finalizer.RESOURCE_IN_USE in finalizers or "deletionTimestamp" in raw["metadata"]:
        return None
    return guarded({"metadata": {"finalizers": [*finalizers, names.Finalizer.RESOURCE_IN_USE]}}, raw)


def released(raw: Raw) -> Raw | None:
    """Returns the merge patch that removes the finalizer from this version of the object; None if it has none."""
    finalizers = raw["metadata"].get("finalizers") or []
    if names.Finalizer.RESOURCE_IN_USE not in finalizers:
        return None
    left = [finalizer for finalizer in finalizers if finalizer != names.Finalizer.RESOURCE_IN_USE]
    return guarded({"metadata": {"finalizers": left or None}}, raw)
