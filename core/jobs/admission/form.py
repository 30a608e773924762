"""The JSON types of the fields we read, checked before a rule reads them.

The API server sends well-formed objects. A review that did not come from it must not make a rule fail, and not slip
through it: what has the wrong type is refused with its path.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from api.errors import MOST, FieldError, type_invalid


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


class Form:
    """A shape that objects are held against. That all is as it should be is found out in C, whatever an object's size
    (thousands of labels or containers took 6 ms field by field); only of what is not each field is looked at.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._type = _struct(shape)

    def errors(self, value: Any) -> list[FieldError]:
        """Field errors, ``MOST`` at most, for what in ``value`` has a wrong type; null counts as absent."""
        try:
            msgspec.convert(value, self._type)
        except msgspec.ValidationError:
            return list(islice(_misshapen(value, self._shape, ""), MOST))
        return []


def _struct(shape: Shape) -> Any:
    """The shape in ``msgspec``'s terms, to which null is as good as absent."""
    return _type(shape) | None


def _type(shape: Shape) -> Any:
    if isinstance(shape, MapOf):
        return dict[str, _type(shape.value)]  # type: ignore[misc]  # made at run time
    if isinstance(shape, ListOf):
        return list[_type(shape.element)]  # type: ignore[misc]
    if isinstance(shape, type):
        return shape
    if isinstance(shape, tuple):
        return functools.reduce(operator.or_, shape)
    return msgspec.defstruct("Fields", [(name, _struct(below), None) for name, below in shape.items()])


def _misshapen(value: Any, shape: Shape, path: str) -> Iterator[FieldError]:
    if value is None:
        return
    if isinstance(shape, MapOf):
        if not isinstance(value, dict):
            yield _wrong(value, (dict,), path)
            return
        for key, below in value.items():
            yield from _element(below, shape.value, f"{path}[{key}]")
    elif isinstance(shape, ListOf):
        if not isinstance(value, list):
            yield _wrong(value, (list,), path)
            return
        for index, below in enumerate(value):
            yield from _element(below, shape.element, f"{path}[{index}]")
    elif isinstance(shape, type | tuple):
        types = shape if isinstance(shape, tuple) else (shape,)
        if type(value) not in types:
            yield _wrong(value, types, path)
    elif not isinstance(value, dict):
        yield _wrong(value, (dict,), path)
    else:
        dot = f"{path}." if path else ""
        for key, below in shape.items():
            if value.get(key) is not None:
                yield from _misshapen(value[key], below, dot + key)


def _element(value: Any, shape: Shape, path: str) -> Iterator[FieldError]:
    if value is None:
        yield type_invalid(path, None, "must not be null")
    else:
        yield from _misshapen(value, shape, path)


def _wrong(value: Any, types: tuple[type, ...], path: str) -> FieldError:
    expected = " or ".join(_WORDS[kind] for kind in types)
    found = next((word for kind, word in _WORDS.items() if type(value) is kind), "null")
    return type_invalid(path, found, f"must be of type {expected}")
