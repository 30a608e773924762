"""Rules of the annotation kueue.x-k8s.io/admission-gated-by: on jobs and on Workloads alike."""

import re
from typing import Any, Final

from api.errors import FieldError, forbidden, invalid, too_long
from api.names import Annotation
from api.syntax import dns1123_subdomain

Raw = dict[str, Any]

_PATH: Final = f"metadata.annotations[{Annotation.ADMISSION_GATED_BY}]"
_LONGEST: Final = 63
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


def gates(obj: Raw) -> list[FieldError]:
    """Errors of the gates of a new object."""
    return _form(_value(obj))


def gates_update(old: Raw, new: Raw) -> list[FieldError]:
    """Errors of changed gates: they may be taken away, never added."""
    before, after = _value(old), _value(new)
    errors = []
    if after and not before:
        errors.append(forbidden(_PATH, "cannot add admission gate after creation"))
    elif set(_names(after)) - set(_names(before)):
        errors.append(forbidden(_PATH, "can only remove gates, not add new ones"))
    return errors + _form(after)


def _value(obj: Raw) -> str:
    return (obj["metadata"].get("annotations") or {}).get(Annotation.ADMISSION_GATED_BY) or ""


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",")] if value else []


def _form(value: str) -> list[FieldError]:
    errors = []
    seen: set[str] = set()
    for name in _names(value):
        if not name:
            errors.append(invalid(_PATH, value, "cannot contain empty gate names"))
        elif name in seen:
            errors.append(invalid(_PATH, value, f"duplicate gate name: {name}"))
        else:
            seen.add(name)
            errors += _domain_prefixed_path(name)
    return errors


def _domain_prefixed_path(name: str) -> list[FieldError]:
    domain, _, path = name.partition("/")
    if not domain or not path:
        return [invalid(_PATH, name, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(_PATH, domain, text) for text in dns1123_subdomain(domain)]
    if not re.fullmatch(_HTTP_PATH, path):
        errors.append(invalid(_PATH, path, f"Invalid path (regex used for validation is '{_HTTP_PATH}')"))
    if len(name) > _LONGEST:
        errors.append(too_long(_PATH, _LONGEST))
    return errors
