"""JSON merge patches (RFC 7386), as the API server applies them to objects."""

from __future__ import annotations

from typing import Any

from core.model import Raw


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
