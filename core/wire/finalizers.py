"""How our finalizer is removed: one guard for every kind of object.

The patch lands only on the very version that was judged. A uid alone would let go of an object that came into use
between the look and the write.
"""

from __future__ import annotations

from api import names
from core.model import Raw
from core.wire.guard import guarded


def kept(raw: Raw) -> Raw | None:
    """The merge patch that adds our finalizer to this version of the object; None where it has it.

    The API server adds no finalizer to an object that is being deleted: None there too.
    """
    finalizers = raw["metadata"].get("finalizers") or []
    if names.Finalizer.RESOURCE_IN_USE in finalizers or "deletionTimestamp" in raw["metadata"]:
        return None
    return guarded({"metadata": {"finalizers": [*finalizers, names.Finalizer.RESOURCE_IN_USE]}}, raw)


def released(raw: Raw) -> Raw | None:
    """The merge patch that removes our finalizer from this version of the object; None where it has none of ours."""
    finalizers = raw["metadata"].get("finalizers") or []
    if names.Finalizer.RESOURCE_IN_USE not in finalizers:
        return None
    left = [finalizer for finalizer in finalizers if finalizer != names.Finalizer.RESOURCE_IN_USE]
    return guarded({"metadata": {"finalizers": left or None}}, raw)
