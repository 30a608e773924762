"""How our finalizer is removed: one guard for every kind of object.

The patch lands only on the very version that was judged. A uid alone would let go of an object that came into use
between the look and the write.
"""

from __future__ import annotations

from api import names
from core.model import Raw


def kept(raw: Raw) -> Raw | None:
    """The merge patch that adds our finalizer to this version of the object; None where it has it.

    The API server adds no finalizer to an object that is being deleted: None there too.
    """
    finalizers = raw["metadata"].get("finalizers") or []
    if names.Finalizer.RESOURCE_IN_USE in finalizers or "deletionTimestamp" in raw["metadata"]:
        return None
    guard = {key: raw["metadata"][key] for key in ("uid", "resourceVersion")}
    return {"metadata": {**guard, "finalizers": [*finalizers, names.Finalizer.RESOURCE_IN_USE]}}


def released(raw: Raw) -> Raw | None:
    """The merge patch that removes our finalizer from this version of the object; None where it has none of ours."""
    finalizers = raw["metadata"].get("finalizers") or []
    if names.Finalizer.RESOURCE_IN_USE not in finalizers:
        return None
    guard = {key: raw["metadata"][key] for key in ("uid", "resourceVersion")}
    left = [finalizer for finalizer in finalizers if finalizer != names.Finalizer.RESOURCE_IN_USE]
    return {"metadata": {**guard, "finalizers": left or None}}
