"""The JSON types of the fields we read, checked before a rule reads them.

The API server sends well-formed objects. A review that did not come from it must not make a rule fail, and not slip
through it: what has the wrong type is refused with its path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from api.errors import FieldError, type_invalid


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with any keys, all of whose values have one shape."""

    value: Shape


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one shape."""

    element: Shape


Shape: TypeAlias = type | tuple[type, ...] | MapOf | ListOf | Mapping[str, "Shape"]
"""A type (or several), a map, a list, or the fields of an object; fields that it does not name may be anything."""

QUANTITY: Final = (str, int, float)

_WORDS: Final = {str: "string", int: "integer", bool: "boolean", float: "number", dict: "object", list: "array"}

METADATA: Final[Shape] = {
    "name": str,
    "namespace": str,
    "uid": str,
    "generateName": str,
    "creationTimestamp": str,
    "deletionTimestamp": str,
    "labels": MapOf(str),
    "annotations": MapOf(str),
    "finalizers": ListOf(str),
    "ownerReferences": ListOf({"apiVersion": str, "kind": str, "name": str, "uid": str, "controller": bool}),
}

_RESOURCES: Final[Shape] = {"requests": MapOf(QUANTITY), "limits": MapOf(QUANTITY)}
_CONTAINERS: Final[Shape] = ListOf({"name": str, "restartPolicy": str, "resources": _RESOURCES})
_TERM: Final[Shape] = {
    "matchExpressions": ListOf({"key": str, "operator": str, "values": ListOf(str)}),
    "matchFields": ListOf({"key": str, "operator": str, "values": ListOf(str)}),
}

POD_TEMPLATE: Final[Shape] = {
    "metadata": {"labels": MapOf(str), "annotations": MapOf(str)},
    "spec": {
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "resources": _RESOURCES,
        "overhead": MapOf(QUANTITY),
        "nodeSelector": MapOf(str),
        "priorityClassName": str,
        "runtimeClassName": str,
        "tolerations": ListOf({"key": str, "operator": str, "value": str, "effect": str}),
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ListOf(_TERM)},
            },
        },
    },
}


def misshapen(value: Any, shape: Shape, path: str = "") -> list[FieldError]:
    """A field error for everything in ``value`` that has not the type it should have; null is always absent."""
    if value is None:
        return []
    match shape:
        case MapOf():
            return _in_map(value, shape.value, path)
        case ListOf():
            if not isinstance(value, list):
                return [_wrong(value, (list,), path)]
            return [
                error
                for index, element in enumerate(value)
                for error in _element(element, shape.element, f"{path}[{index}]")
            ]
        case Mapping():
            if not isinstance(value, dict):
                return [_wrong(value, (dict,), path)]
            dot = f"{path}." if path else ""
            return [error for key, below in shape.items() for error in misshapen(value.get(key), below, dot + key)]
        case tuple():
            return [] if _is(value, shape) else [_wrong(value, shape, path)]
        case _:
            return [] if _is(value, (shape,)) else [_wrong(value, (shape,), path)]


def _in_map(value: Any, shape: Shape, path: str) -> list[FieldError]:
    if not isinstance(value, dict):
        return [_wrong(value, (dict,), path)]
    return [error for key, below in value.items() for error in _element(below, shape, f"{path}[{key}]")]


def _element(value: Any, shape: Shape, path: str) -> list[FieldError]:
    if value is None:
        return [type_invalid(path, None, "must not be null")]
    return misshapen(value, shape, path)


def _is(value: Any, types: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in types
    return isinstance(value, types)


def _wrong(value: Any, types: tuple[type, ...], path: str) -> FieldError:
    expected = " or ".join(_WORDS[kind] for kind in types)
    found = next((word for kind, word in _WORDS.items() if type(value) is kind), "null")
    return type_invalid(path, found, f"must be of type {expected}")
