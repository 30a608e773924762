"""Rules of an AdmissionCheck beyond its schema."""

from api.errors import FieldError
from api.objects import Raw
from api.validate.common import ANEW, immutable, spec_of


def validate_create(obj: Raw) -> list[FieldError]:
    """Returns the errors of a new AdmissionCheck: none, the schema has all rules."""
    del obj
    return []


def validate_update(old: Raw, new: Raw) -> list[FieldError]:
    """Errors of a changed AdmissionCheck."""
    before, after = spec_of(old).get("controllerName"), spec_of(new).get("controllerName")
    if before is None or after is None:
        return []
    return immutable("spec.controllerName", before, after, instead=ANEW)
