"""Rules that several kinds share."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from api.errors import FieldError, invalid, too_long
from api.names import Condition
from api.objects import Raw
from api.quantity import canonical, exact
from api.syntax import checked, qualified_name
from api.validate.alike import alike

IMMUTABLE: Final = "field is immutable"
NEGATIVE: Final = "must be greater than or equal to 0"
_ANNOTATIONS_LIMIT: Final = 256 * 1024


def spec_of(obj: Raw) -> Raw:
    """Returns the spec, empty if there is none."""
    return obj.get("spec") or {}


def status_of(obj: Raw) -> Raw:
    """Returns the status, empty if there is none."""
    return obj.get("status") or {}


def is_true(obj: Raw, condition: str) -> bool:
    """Whether a condition of the object is True."""
    conditions: Sequence[Raw] = status_of(obj).get("conditions") or ()
    return any(found.get("type") == condition and found.get("status") == "True" for found in conditions)


def has_reservation(workload: Raw) -> bool:
    """Whether the Workload holds quota."""
    return is_true(workload, Condition.QUOTA_RESERVED)


def immutable(path: str, old: Any, new: Any, *, instead: str = "") -> list[FieldError]:
    """Returns an error if the value changed, and not only its form; ``instead`` is the fix."""
    return [] if alike(old, new) else [invalid(path, new, f"{IMMUTABLE}: {instead}" if instead else IMMUTABLE)]


ANEW: Final = "delete the object and create it again"
"""The fix for a field that cannot be changed."""


def not_negative(path: str, value: Any) -> list[FieldError]:
    """A quantity that is one, and not below zero."""
    try:
        negative = exact(value) < 0
    except ValueError as error:
        return [invalid(path, value, str(error))]
    return [invalid(path, canonical(value), NEGATIVE)] if negative else []


def fair_sharing(path: str, found: Raw | None) -> list[FieldError]:
    """A fair-sharing weight: not negative, and not so small that it counts as zero."""
    weight = (found or {}).get("weight")
    if weight is None:
        return []
    if errors := not_negative(path, weight):
        return errors
    # the limit is a nano, Kueue's text says ten; people may match on the text
    if 0 < exact(weight) * 10**9 <= 1:
        return [invalid(path, canonical(weight), "When not 0, weight must be > 10e-9")]
    return []


def annotations(path: str, found: Mapping[str, str] | None) -> list[FieldError]:
    """Annotation keys, and the size of all of them together."""
    errors: list[FieldError] = []
    for key in sorted(found or {}):
        errors += [invalid(path, key, text) for text in qualified_name(key.lower())]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in (found or {}).items())
    return [*errors, too_long(path, _ANNOTATIONS_LIMIT)] if size > _ANNOTATIONS_LIMIT else errors


def resource_name(path: str, name: str) -> list[FieldError]:
    """The syntax of a resource's name."""
    return checked(path, name, qualified_name)
