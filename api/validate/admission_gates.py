"""Rules of the annotation kueue.x-k8s.io/admission-gated-by: on jobs and on Workloads alike.

They hold where the feature gate AdmissionGatedBy is on, which is for the caller to see.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from api.errors import MOST, FieldError, forbidden, invalid, too_long
from api.names import Annotation
from api.syntax import dns1123_subdomain

_PATH: Final = f"metadata.annotations[{Annotation.ADMISSION_GATED_BY}]"
_LONGEST: Final = 63
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

Object = Mapping[str, Any]


def form(obj: Object) -> list[FieldError]:
    """Errors of the gates as they are written."""
    value = _value(obj)
    errors: list[FieldError] = []
    seen: set[str] = set()
    for name in _names(value):
        if len(errors) >= MOST:
            break
        if not name:
            errors.append(invalid(_PATH, value, "cannot contain empty gate names"))
        elif name in seen:
            errors.append(invalid(_PATH, value, f"duplicate gate name: {name[:_LONGEST]}"))
        else:
            seen.add(name)
            errors += _domain_prefixed_path(name)
    return errors


def change(old: Object, new: Object) -> list[FieldError]:
    """Errors of changed gates: they may be taken away, never added."""
    before, after = _value(old), _value(new)
    if after and not before:
        return [forbidden(_PATH, "cannot add admission gate after creation")]
    if set(_names(after)) - set(_names(before)):
        return [forbidden(_PATH, "can only remove gates, not add new ones")]
    return []


def _value(obj: Object) -> str:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(Annotation.ADMISSION_GATED_BY) or "")


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",")] if value.strip() else []


def _domain_prefixed_path(name: str) -> list[FieldError]:
    domain, _, path = name.partition("/")
    errors = []
    if not domain or not path:
        errors.append(invalid(_PATH, name, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        errors += [invalid(_PATH, domain, text) for text in dns1123_subdomain(domain)]
        if not re.fullmatch(_HTTP_PATH, path):
            errors.append(invalid(_PATH, path, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    return [*errors, too_long(_PATH, _LONGEST)] if len(name) > _LONGEST else errors
