"""What the API server does with an object by its schema: checks it, fills defaults in, drops what it does not know.

The same rules, in its words, where no API server is at hand: files given to `simulate`, hostile AdmissionReviews,
tests. CEL rules are not evaluated here: `api.validate` has each of them in Python.
"""

import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from api.errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)

Schema = Mapping[str, Any]

_INTEGERS: Final = {"int32": 1 << 31, "int64": 1 << 63}


def violations(schema: Schema, value: Any, path: str = "") -> list[FieldError]:
    """Everything in `value` that the API server's schema validation refuses."""
    if schema.get("x-kubernetes-int-or-string"):
        return _int_or_string(schema, value, path)
    expected = schema.get("type")
    if expected is not None and not _TYPES[expected](value):
        found = _type_name(value)
        choices = [not_supported(path, value, schema["enum"])] if "enum" in schema else []
        return [type_invalid(path, found, f'{path} in body must be of type {expected}: "{found}"'), *choices]
    match value:
        case dict():
            return _object(schema, value, path)
        case list():
            return _array(schema, value, path)
        case str():
            return _string(schema, value, path)
        case bool() | None:
            return []
        case _:
            return _number(schema, value, path)


def defaulted(schema: Schema, value: Any) -> Any:
    """A copy of `value` with the defaults of the schema in every place that is absent or, being null, droppable."""
    if isinstance(value, list):
        item = schema.get("items")
        return [defaulted(item, element) for element in value] if item else list(value)
    if not isinstance(value, dict):
        return value
    properties: Schema = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    result = {}
    for name, child in value.items():
        below = properties.get(name, rest)
        if child is None and below and not below.get("nullable"):
            continue
        result[name] = defaulted(below, child) if below else child
    for name, below in properties.items():
        if name not in result and "default" in below:
            result[name] = defaulted(below, deepcopy(below["default"]))
    return result


def unknown_fields(schema: Schema, value: Any, path: str = "") -> list[str]:
    """The paths of all fields the API server would drop, as `kubectl` names them: `spec.podSets[0].foo`."""
    if isinstance(value, list):
        item = schema.get("items")
        return [
            found
            for index, element in enumerate(value)
            if item
            for found in unknown_fields(item, element, f"{path}[{index}]")
        ]
    if not isinstance(value, dict) or path == "metadata":
        return []
    properties: Schema = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    found = []
    for name, child in value.items():
        below = properties.get(name, rest)
        where = f"{path}.{name}" if path else str(name)
        if below:
            found += unknown_fields(below, child, where)
        elif properties and not schema.get("x-kubernetes-preserve-unknown-fields"):
            found.append(where)
    return found


def _is_integer(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def _type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "integer" if _is_integer(value) else "number"


def _int_or_string(schema: Schema, value: Any, path: str) -> list[FieldError]:
    if isinstance(value, str):
        return _string(schema, value, path)
    if _is_integer(value):
        return []
    found = _type_name(value)
    return [type_invalid(path, found, f'{path} in body must be of type integer,string: "{found}"')]


def _object(schema: Schema, value: dict[str, Any], path: str) -> list[FieldError]:
    prefix = f"{path}." if path else ""
    errors = [required(f"{prefix}{name}") for name in schema.get("required", ()) if value.get(name) is None]
    if (limit := schema.get("maxProperties")) is not None and len(value) > limit:
        errors.append(too_many(path, len(value), limit))
    properties: Schema = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    for name, child in value.items():
        below = properties.get(name, rest)
        if below and (child is not None or below is rest) and not (not path and name == "metadata"):
            errors += violations(below, child, f"{prefix}{name}")
    return errors


def _array(schema: Schema, value: list[Any], path: str) -> list[FieldError]:
    errors = []
    if (limit := schema.get("maxItems")) is not None and len(value) > limit:
        errors.append(too_many(path, len(value), limit))
    if (least := schema.get("minItems")) is not None and len(value) < least:
        errors.append(invalid(path, len(value), f"{path} in body should have at least {least} items"))
    if item := schema.get("items"):
        for index, element in enumerate(value[:limit]):  # whoever sends a million is told of the number
            errors += violations(item, element, f"{path}[{index}]")
    return errors or _repeated(schema, value, path)


def _repeated(schema: Schema, value: list[Any], path: str) -> list[FieldError]:
    """Elements of a set or map list that appear twice; only asked once the elements themselves are well-formed."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys and schema.get("x-kubernetes-list-type") != "set":
        return []
    item = schema["items"]
    seen, errors = set(), []
    for index, element in enumerate(value):
        key = {name: element.get(name, item["properties"][name].get("default")) for name in keys} if keys else element
        text = json.dumps(key)
        if text in seen:
            errors.append(duplicate(f"{path}[{index}]", key))
        seen.add(text)
    return errors


def _string(schema: Schema, value: str, path: str) -> list[FieldError]:
    errors = []
    if (limit := schema.get("maxLength")) is not None and len(value) > limit:
        errors.append(too_long(path, limit))
    elif (least := schema.get("minLength")) is not None and len(value) < least:
        errors.append(invalid(path, value, f"{path} in body should be at least {least} chars long"))
    elif (pattern := schema.get("pattern")) and not _compiled(pattern).search(value):
        errors.append(invalid(path, value, f"{path} in body should match '{pattern}'"))
    if (choices := schema.get("enum")) and value not in choices:
        errors.append(not_supported(path, value, choices))
    if schema.get("format") == "date-time" and not _is_time(value):
        errors.append(invalid(path, value, f'{path} in body must be of type date-time: "{value}"'))
    return errors


def _number(schema: Schema, value: float, path: str) -> list[FieldError]:
    errors = []
    if (least := schema.get("minimum")) is not None and value < least:
        errors.append(invalid(path, value, f"{path} in body should be greater than or equal to {least}"))
    if (most := schema.get("maximum")) is not None and value > most:
        errors.append(invalid(path, value, f"{path} in body should be less than or equal to {most}"))
    bound = _INTEGERS.get(schema.get("format", ""))
    if bound and not -bound <= value < bound:
        errors.append(invalid(path, value, f"must be within the range of {schema['format']}"))
    return errors


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    """The pattern with Go's meaning of `$`: the end of the text, not a place before a last newline."""
    return re.compile(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern, re.ASCII)


def _is_time(value: str) -> bool:
    if not re.match(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}", value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
