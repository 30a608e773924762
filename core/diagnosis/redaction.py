"""Removes from an object what a report to other people must not contain: values that may be secrets, and noise."""

from __future__ import annotations

from typing import Any, Final

from core.model import Raw

REDACTED: Final = "(removed)"
_ANNOTATIONS: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
_VALUES: Final = ("args", "command", "data", "stringData", "binaryData", "volumeAttributes", "options")
"""Fields whose values may be secrets, wherever they are: programs get passwords as arguments, and drivers of volumes
as attributes.
"""
_NAMED: Final = ("env", "httpHeaders")
"""Lists of names with values that may be secrets."""


def redacted(raw: Raw) -> Raw:
    """Returns a copy of the object without the values of environment variables, arguments, HTTP headers, attributes of
    volumes, Secrets and ConfigMaps, without annotations that repeat the object, and without managed fields. Names and
    structure stay.
    """
    result: Raw = _redacted(raw)
    return result


def _redacted(value: Any, field: str = "") -> Any:
    if isinstance(value, list):
        if field in _VALUES:
            return [REDACTED for _ in value]
        return [_variable(each) if field in _NAMED else _redacted(each) for each in value]
    if not isinstance(value, dict):
        return REDACTED if field in _VALUES and value is not None else value
    if field in _VALUES:
        return dict.fromkeys(value, REDACTED)
    if field == "annotations":
        return {name: each for name, each in value.items() if name not in _ANNOTATIONS}
    return {name: _redacted(each, name) for name, each in value.items() if name != "managedFields"}


def _variable(variable: Any) -> Any:
    if isinstance(variable, dict) and "value" in variable:
        return {**variable, "value": REDACTED}
    return variable
