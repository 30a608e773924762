"""JSON merge patches (RFC 7386), as the API server applies them to objects."""

from __future__ import annotations

from typing import Any

from core.model import Raw
from core.wire.guard import guards_version


def merged(target: Any, patch: Raw) -> Raw:
    """The object after the patch; what the patch does not name is shared with ``target``."""
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = merged(result.get(name), value)
        else:
            result[name] = value
    return result


def replacement(stored: Raw, patch: Raw) -> Raw | None:
    """Returns what to PUT to the status subresource instead of this merge patch: the whole status after it, no spec.

    None if the patch is not only of the status, or is not guarded with the version of ``stored``; with that version
    both do the same. The API server takes everything but the status from the object that it has. For a patch it would
    encode that object, merge, and decode the result; PUT of the status alone costs it a tenth less.
    """
    metadata, guard = stored["metadata"], patch.get("metadata")
    if guard is None or not guards_version(guard, metadata) or patch.keys() != {"metadata", "status"}:
        return None
    named = {name: metadata[name] for name in ("name", "namespace") if name in metadata}
    return {"metadata": {**named, **guard}, "status": merged(stored.get("status"), patch["status"])}
