"""Random objects of a kind from its structural schema, by the thousand, good ones and spoilt ones.

`tests.api.generate` makes the same for hypothesis, which shrinks what fails; this is a hundred times as fast and gives
the same objects for the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from random import Random
from typing import Any

from api.kinds import KindSpec, Version
from api.objects import Raw
from api.schema import structural
from api.v1beta2.base import LABEL_KEY_PATTERN, LABEL_PATTERN, QUANTITY_PATTERN, SUBDOMAIN_PATTERN

_WORDS = ("x", "y", "In", "Exists", "Equal", "NoSchedule", "NoExecute")
_NAMES = ("a", "b", "c-1")
_KEYS = ("rack", "example.com/block", "kubernetes.io/hostname", "QuotaReserved", "Admitted")
_BY_PATTERN: dict[str, tuple[Any, ...]] = {
    SUBDOMAIN_PATTERN: ("a", "b", "c.example"),
    LABEL_PATTERN: _NAMES,
    LABEL_KEY_PATTERN: _KEYS,
    QUANTITY_PATTERN: ("1", "500m", "2Gi", "1500", "3k", "0", 0, 3, 9),
    "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$": ("Ready", "Stopped"),
    "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$": ("Kind",),
}
_WRONG: tuple[Any, ...] = ("", "A b", "x" * 400, -1, 1 << 40, True, [], {}, ["a", "a"], "-1", "many", "2026-13-01")


class Maker:
    """Objects of one kind."""

    def __init__(self, kind: KindSpec, seed: int, *, full: bool = False, version: Version | None = None) -> None:
        """`full`: every field is there, and every list has an element. `version`: the stored one, unless given."""
        self.kind = kind
        self.full = full
        self.version = version or kind.stored
        self.draw = Random(f"{kind.kind} {seed}")
        self.schema = structural(self.version.model)

    def object(self) -> Raw:
        """An object whose form is right; whether its rules hold is left to chance."""
        made: Raw = {"apiVersion": f"kueue.x-k8s.io/{self.version.name}", "kind": self.kind.kind}
        return made | {"metadata": {"name": "x"}} | self._fields(self._top(), self.schema.get("required", ()))

    def part(self, name: str) -> Any:
        """A value for one field at the top, such as status."""
        return self._value(self.schema["properties"][name])

    def changed(self, obj: Raw) -> Raw:
        """The object with some fields, at any depth, drawn anew, dropped, or taken from another one."""
        other, result = self.object(), deepcopy(obj)
        self._cross(result, other, self._top())
        return result

    def spoilt(self, obj: Raw) -> Raw:
        """The object with one value, anywhere in its parts, replaced by a wrong one, doubled, or gone."""
        result = deepcopy(obj)
        places = [place for name in self._top() if name in result for place in _places(result, name)]
        places = [place for place in places if place[0] is not result or not isinstance(result[place[1]], dict)]
        if not places:
            return result
        node, key = self.draw.choice(places)
        if self.draw.random() < 0.2 and isinstance(node[key], list) and node[key]:
            node[key].append(deepcopy(node[key][0]))
        elif self.draw.random() < 0.2:
            del node[key]
        else:
            node[key] = self.draw.choice(_WRONG)
        return result

    def _top(self) -> dict[str, Any]:
        return {
            name: child
            for name, child in self.schema["properties"].items()
            if name not in ("apiVersion", "kind", "metadata")
        }

    def _cross(self, mine: Raw, other: Raw, properties: Mapping[str, Any]) -> None:
        for name, child in properties.items():
            both = isinstance(mine.get(name), dict) and isinstance(other.get(name), dict)
            if both and "properties" in child and "containers" not in child.get("required", ()):
                self._cross(mine[name], other[name], child["properties"])
            elif self.draw.random() < 0.3:
                if name in other:
                    mine[name] = other[name]
                else:
                    mine.pop(name, None)

    def _value(self, schema: Mapping[str, Any]) -> Any:
        if "pattern" in schema:
            return self.draw.choice(_BY_PATTERN[schema["pattern"]])
        if "enum" in schema:
            return self.draw.choice(schema["enum"])
        match schema["type"]:
            case "boolean":
                return self.draw.random() < 0.5
            case "integer":
                return self.draw.randint(schema.get("minimum", 0), 4)
            case "string":
                return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else self.draw.choice(_WORDS)
            case "array":
                return self._list(schema)
        if "additionalProperties" in schema:
            names = self.draw.sample(_NAMES, self.draw.randint(int(self.full), 2))
            return {name: self._value(schema["additionalProperties"]) for name in names}
        if "containers" in schema.get("required", ()):
            return {"containers": [{"name": "c", "image": "i"}]}
        return self._fields(schema.get("properties", {}), schema.get("required", ()))

    def _fields(self, properties: Mapping[str, Any], required: Any) -> Raw:
        return {
            name: self._value(child)
            for name, child in properties.items()
            if self.full or name in required or self.draw.random() < 0.6
        }

    def _list(self, schema: Mapping[str, Any]) -> list[Any]:
        least = max(schema.get("minItems", 0), int(self.full))
        found = [self._value(schema["items"]) for _ in range(self.draw.randint(least, max(2, least)))]
        keys = schema.get("x-kubernetes-list-map-keys", ())
        if keys:
            return list({tuple(each.get(key) for key in keys): each for each in found}.values())
        return sorted(set(found)) if schema.get("x-kubernetes-list-type") == "set" else found


def _places(node: Any, key: Any) -> list[tuple[Any, Any]]:
    found, child = [(node, key)], node[key]
    if isinstance(child, dict | list):
        for below in child if isinstance(child, dict) else range(len(child)):
            found += _places(child, below)
    return found


def out_of_bounds(schema: Mapping[str, Any], obj: Raw) -> Iterator[tuple[str, Raw]]:
    """The object with one bound of the schema broken, for each bound of each field it has; the bound's name first."""
    for name, child in schema["properties"].items():
        if name not in ("apiVersion", "kind", "metadata") and name in obj:
            for bound, value in _broken(child, obj[name], name):
                yield bound, {**obj, name: value}
            if name in schema.get("required", ()):
                yield f"{name} is required", {key: value for key, value in obj.items() if key != name}


def _broken(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield from ((f"{path}: {bound}", wrong) for bound, wrong in _wrong_values(schema, value))
    match value:
        case dict():
            rest = schema.get("additionalProperties")
            for name, child in value.items():
                below = schema.get("properties", {}).get(name, rest)
                if isinstance(below, dict):
                    for bound, wrong in _broken(below, child, f"{path}.{name}"):
                        yield bound, {**value, name: wrong}
                if name in schema.get("required", ()) and "default" not in schema["properties"][name]:
                    yield f"{path}.{name}: required", {key: kept for key, kept in value.items() if key != name}
        case [first, *others]:
            for bound, wrong in _broken(schema["items"], first, f"{path}[]"):
                yield bound, [wrong, *others]


def _wrong_values(schema: Mapping[str, Any], value: Any) -> Iterator[tuple[str, Any]]:
    if "enum" in schema:
        yield "enum", "Other"
    if "pattern" in schema:
        yield "pattern", "A b"
    if "maxLength" in schema:
        yield "maxLength", "x" * (schema["maxLength"] + 1)
    if schema.get("minLength"):
        yield "minLength", ""
    if "minimum" in schema:
        yield "minimum", schema["minimum"] - 1
    if schema.get("minItems"):
        yield "minItems", []
    if "maxItems" in schema and schema["maxItems"] < 1000:
        yield "maxItems", [value[0]] * (schema["maxItems"] + 1)
    if "maxProperties" in schema:
        yield "maxProperties", {f"k{index}": "v" for index in range(schema["maxProperties"] + 1)}
    if schema.get("x-kubernetes-list-type") in ("map", "set"):
        yield "duplicates", [value[0], value[0]]
    if isinstance(schema.get("type"), str) and schema.get("format") != "date-time":
        yield "type", [] if schema["type"] != "array" else "text"
