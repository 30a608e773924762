"""Whether two parts of an object have the same meaning, regardless of their form.

Kueue's webhooks compare values that are decoded into Go types, so `1000m` of cpu equals `1`, and `creationTimestamp:
null`, `resources: {}` or an empty list equal an absent field. A client that decodes into such types writes all this
back in another form, without a change; only raw documents would differ.
"""

from typing import Any, Final

from api.quantity import canonical

_QUANTITIES: Final = frozenset({"requests", "limits", "overhead", "resourceUsage"})
"""Maps from resources to quantities."""
_STRUCTS: Final = frozenset(
    {"metadata", "resources", "labels", "annotations", "nodeSelector", "matchLabels", "flavors", *_QUANTITIES}
)
"""Objects that mean nothing when empty; for others, as `emptyDir` and `securityContext`, existence counts."""


def alike(first: Any, second: Any) -> bool:
    """Whether both have the same meaning; deeper levels than any real object has are not compared."""
    try:
        return bool(first == second or _plain(first) == _plain(second))
    except RecursionError:
        return False


def _plain(value: Any) -> Any:
    match value:
        case dict():
            fields = {name: _field(name, child) for name, child in value.items()}
            return {name: child for name, child in fields.items() if not _is_empty(name, child)}
        case list():
            return [_plain(element) for element in value]
    return value


def _field(name: str, value: Any) -> Any:
    if name in _QUANTITIES and isinstance(value, dict):
        return {resource: _quantity(found) for resource, found in value.items()}
    return _plain(value)


def _quantity(value: Any) -> Any:
    try:
        return canonical(value)
    except ValueError:
        return value


def _is_empty(name: str, value: Any) -> bool:
    return value is None or value == [] or (value == {} and name in _STRUCTS)
