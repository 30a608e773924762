"""Rules of a ResourceFlavor beyond its schema."""

from collections.abc import Sequence

from api import syntax
from api.errors import ErrorType, FieldError, broken_rule, invalid
from api.objects import Raw
from api.syntax import checked, label_value, labels, qualified_name
from api.validate.common import spec_of


def validate_create(obj: Raw) -> list[FieldError]:
    """Errors of a new ResourceFlavor."""
    spec = spec_of(obj)
    errors = [
        *labels("spec.nodeLabels", spec.get("nodeLabels") or {}),
        *_taints("spec.nodeTaints", spec.get("nodeTaints") or ()),
        *syntax.tolerations("spec.tolerations", spec.get("tolerations") or []),
    ]
    if spec.get("topologyName") is not None and not spec.get("nodeLabels"):
        errors.append(broken_rule("spec", "at least one nodeLabel is required when topology is set"))
    return errors


def validate_update(old: Raw, new: Raw) -> list[FieldError]:
    """Errors of a changed ResourceFlavor."""
    errors = validate_create(new)
    before, after = spec_of(old), spec_of(new)
    if before.get("topologyName") is None or new.get("spec") is None:
        return errors
    if before["topologyName"] != after.get("topologyName"):
        errors.append(broken_rule("spec", "topologyName is immutable when topologyName is set"))
    return errors


def _taints(path: str, taints: Sequence[Raw]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        at = f"{path}[{index}]"
        errors += checked(f"{at}.key", taint["key"], qualified_name)
        if texts := label_value(taint.get("value") or ""):
            errors.append(invalid(f"{at}.value", taint["value"], ";".join(texts)))
        errors += syntax.taint_effect(f"{at}.effect", taint["effect"], allow_empty=False)
        pair = (taint["key"], taint["effect"])
        if pair in seen:
            text = "taints must be unique by key and effect pair"
            errors.append(FieldError(ErrorType.DUPLICATE, at, taint, text))
        seen.add(pair)
    return errors
