"""The syntax of Kubernetes names and labels: each function returns the errors of a value, with apimachinery's texts.

An empty tuple means that the value is valid. `labels`, `label_selector`, `taints` and `tolerations` return field
errors.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from api.errors import FieldError, forbidden, invalid, not_supported, required

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_QUALIFIED})?"
_LABEL_RE: Final = re.compile(_LABEL)
_SUBDOMAIN_RE: Final = re.compile(_SUBDOMAIN)
_QUALIFIED_RE: Final = re.compile(_QUALIFIED)

_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
    f" and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
    f" with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_QUALIFIED_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_LABEL_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '{_LABEL_VALUE}')"
)


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def dns1123_subdomain(value: str) -> tuple[str, ...]:
    """Returns why `value` cannot be the name of most objects."""
    errors = []
    if len(value.encode()) > 253:
        errors.append(_too_long(253))
    if not _SUBDOMAIN_RE.fullmatch(value):
        errors.append(_SUBDOMAIN_TEXT)
    return tuple(errors)


def dns1123_label(value: str) -> tuple[str, ...]:
    """Returns why `value` cannot be the name of a namespace or a pod set."""
    errors = []
    if len(value.encode()) > 63:
        errors.append(_too_long(63))
    if not _LABEL_RE.fullmatch(value):
        errors.append(_LABEL_TEXT)
    return tuple(errors)


@lru_cache(maxsize=4096)
def qualified_name(value: str) -> tuple[str, ...]:
    """Returns why `value` cannot be a label key or a resource name: `[prefix/]name`."""
    parts = value.split("/")
    if len(parts) > 2:
        return (
            f"a valid label key {_QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/'"
            " (e.g. 'example.com/MyName')",
        )
    errors = []
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        else:
            errors.extend(f"prefix part {text}" for text in dns1123_subdomain(parts[0]))
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        errors.append(f"name part {_too_long(63)}")
    if not _QUALIFIED_RE.fullmatch(name):
        errors.append(f"name part {_QUALIFIED_TEXT}")
    return tuple(errors)


@lru_cache(maxsize=4096)
def label_value(value: str) -> tuple[str, ...]:
    """Returns why `value` cannot be a label's value."""
    errors = []
    if len(value.encode()) > 63:
        errors.append(_too_long(63))
    if value and not _QUALIFIED_RE.fullmatch(value):
        errors.append(_LABEL_VALUE_TEXT)
    return tuple(errors)


def checked(path: str, value: str, *checks: Callable[[str], tuple[str, ...]]) -> list[FieldError]:
    """The texts of `checks` for `value`, as field errors at `path`."""
    return [invalid(path, value, text) for check in checks for text in check(value)]


def labels(path: str, found: Mapping[str, str]) -> list[FieldError]:
    """Keys and values of a label map."""
    errors = []
    for key, value in sorted(found.items()):
        errors += checked(path, key, qualified_name)
        errors += checked(path, value, label_value)
    return errors


_SELECTOR_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def label_selector(path: str, selector: Mapping[str, Any] | None) -> list[FieldError]:
    """A metav1.LabelSelector; `None` is fine (it selects nothing, or everything, as the field defines)."""
    if selector is None:
        return []
    errors = labels(f"{path}.matchLabels", selector.get("matchLabels") or {})
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        errors += _requirement(f"{path}.matchExpressions[{index}]", requirement)
    return errors


def _requirement(path: str, requirement: Mapping[str, Any]) -> list[FieldError]:
    operator = requirement.get("operator", "")
    values = requirement.get("values") or []
    errors = []
    if operator in ("In", "NotIn") and not values:
        errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        errors.append(forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
    elif operator not in _SELECTOR_OPERATORS:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += checked(f"{path}.key", requirement.get("key", ""), qualified_name)
    for index, value in enumerate(values):
        errors += checked(f"{path}.values[{index}]", value, label_value)
    return errors


_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def taint_effect(path: str, effect: str, *, allow_empty: bool) -> list[FieldError]:
    """The effect of a taint (required) or of a toleration (empty: every effect)."""
    if not effect and allow_empty:
        return []
    if not effect:
        return [required(path)]
    return [] if effect in _EFFECTS else [not_supported(path, effect, _EFFECTS)]


def tolerations(path: str, found: list[Mapping[str, Any]]) -> list[FieldError]:
    """Tolerations as the API server checks a pod's."""
    errors = []
    for index, toleration in enumerate(found):
        errors += _toleration(f"{path}[{index}]", toleration)
    return errors


def _toleration(path: str, toleration: Mapping[str, Any]) -> list[FieldError]:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    errors = checked(f"{path}.key", key, qualified_name) if key else []
    if not key and operator != "Exists":
        errors.append(
            invalid(
                f"{path}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        )
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.append(invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    if operator in ("", "Equal"):
        errors += [invalid(f"{path}.operator", value, "; ".join(texts)) for texts in [label_value(value)] if texts]
    elif operator == "Exists":
        if value:
            errors.append(invalid(f"{path}.operator", toleration, "value must be empty when `operator` is 'Exists'"))
    else:
        errors.append(not_supported(f"{path}.operator", operator, ("Equal", "Exists")))
    return errors + taint_effect(f"{path}.effect", effect, allow_empty=True)
