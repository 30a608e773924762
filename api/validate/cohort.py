"""Rules of a Cohort beyond its schema. Cycles of parents are a state, not an error: the controller reports them."""

from api.errors import FieldError
from api.objects import Raw
from api.validate.common import fair_sharing, spec_of
from api.validate.quotas import resource_groups


def validate_create(obj: Raw) -> list[FieldError]:
    """Errors of a new Cohort."""
    spec = spec_of(obj)
    return [
        *fair_sharing("spec.fairSharing", spec.get("fairSharing")),
        *resource_groups(
            "spec.resourceGroups",
            spec.get("resourceGroups") or [],
            parent="parent",
            has_parent=bool(spec.get("parentName")),
            lending_within_nominal=False,
        ),
    ]


def validate_update(old: Raw, new: Raw) -> list[FieldError]:
    """Errors of a changed Cohort."""
    del old  # every change is possible
    return validate_create(new)
