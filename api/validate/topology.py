"""Rules of a Topology beyond its schema."""

from collections.abc import Sequence

from api.errors import FieldError, broken_rule
from api.names import HOSTNAME_LABEL
from api.objects import Raw
from api.validate.common import spec_of

_PATH = "spec.levels"


def _levels(obj: Raw) -> list[str]:
    found: Sequence[Raw] = spec_of(obj).get("levels") or ()
    return [level["nodeLabel"] for level in found]


def validate_create(obj: Raw) -> list[FieldError]:
    """Errors of a new Topology."""
    levels = _levels(obj)
    errors = []
    if len(set(levels)) < len(levels):
        errors.append(broken_rule(_PATH, "must be unique"))
    if HOSTNAME_LABEL in levels and levels[-1] != HOSTNAME_LABEL:
        text = f"the {HOSTNAME_LABEL} label can only be used at the lowest level of topology"
        errors.append(broken_rule(_PATH, text))
    return errors


def validate_update(old: Raw, new: Raw) -> list[FieldError]:
    """Errors of a changed Topology."""
    errors = validate_create(new)
    before, after = _levels(old), _levels(new)
    if before and after and before != after and not before[-1] == after[-1] == HOSTNAME_LABEL:
        text = f"levels are mutable only when {HOSTNAME_LABEL} is the lowest level both before and after the change"
        errors.insert(0, broken_rule(_PATH, text))
    return errors
