"""What the API server does with an object by its schema: checks it, sets defaults, drops unknown fields.

The same rules, with its texts, for code without an API server: files of `simulate`, malicious AdmissionReviews, tests.
CEL rules are not evaluated here: `api.validate` has each of them in Python.
"""

import functools
import json
import operator
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec

from api.errors import (
    MOST,
    FieldError,
    broken_rule,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)

AnySchema = Mapping[str, Any]

_INTEGERS: Final = {"int32": 1 << 31, "int64": 1 << 63}


def violations(schema: AnySchema, value: Any, path: str = "") -> list[FieldError]:
    """Returns the errors of the API server's schema validation for `value`; it stops soon after `MOST` errors."""
    if not _has_type(value, expected := _types(schema)):
        found = _type_name(value)
        choices = [not_supported(path, value, schema["enum"])] if "enum" in schema else []
        text = f'{path} in body must be of type {",".join(expected)}: "{found}"'
        return [type_invalid(path, found, text), *choices]
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


def _types(schema: AnySchema) -> tuple[str, ...]:
    """Returns the types that the schema allows; none means any type."""
    if "type" in schema:
        return (schema["type"],)
    if schema.get("x-kubernetes-int-or-string"):
        return "integer", "string"
    return tuple(branch["type"] for branch in schema.get("anyOf", ()))


def _has_type(value: Any, expected: tuple[str, ...]) -> bool:
    for each in expected:  # not `any`, which costs as much as the rest of a check
        if _TYPES[each](value):
            return True
    return not expected


class Form:
    """A schema whose check accepts an object without errors in C, regardless of its size: thousands of labels or
    containers took 6 ms field by field. Single fields are checked only in an object with errors.
    """

    def __init__(self, schema: AnySchema) -> None:
        """Raises `ValueError` for a schema with keywords that the check in C does not support."""
        self.schema = schema
        self._type = _compiled_type(schema) | None

    def errors(self, value: Any, path: str = "") -> list[FieldError]:
        """Returns at most `MOST` violations in `value`; none where it is null, which means absent."""
        try:
            msgspec.convert(value, self._type)
        except msgspec.ValidationError as error:
            return violations(self.schema, value, path)[:MOST] or [broken_rule(path, str(error))]
        return []


def defaulted(schema: AnySchema, value: Any) -> Any:
    """Returns a copy of `value` with the defaults of the schema in every place that is absent or, being null, may be
    dropped.
    """
    if isinstance(value, list):
        item = schema.get("items")
        return [defaulted(item, element) for element in value] if item else list(value)
    if not isinstance(value, dict):
        return value
    properties: AnySchema = schema.get("properties", {})
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


def unknown_fields(schema: AnySchema, value: Any, path: str = "") -> list[str]:
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
    properties: AnySchema = schema.get("properties", {})
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


def _object(schema: AnySchema, value: dict[str, Any], path: str) -> list[FieldError]:
    prefix = f"{path}." if path else ""
    errors = [required(f"{prefix}{name}") for name in schema.get("required", ()) if value.get(name) is None]
    if (limit := schema.get("maxProperties")) is not None and len(value) > limit:
        errors.append(too_many(path, len(value), limit))
    properties: AnySchema = schema.get("properties", {})
    rest = schema.get("additionalProperties")
    for name, child in value.items():
        below = properties.get(name, rest)
        if below and (child is not None or below is rest):
            errors += violations(below, child, f"{prefix}{name}")
            if len(errors) >= MOST:
                break
    return errors


def _array(schema: AnySchema, value: list[Any], path: str) -> list[FieldError]:
    errors = []
    if (limit := schema.get("maxItems")) is not None and len(value) > limit:
        errors.append(too_many(path, len(value), limit))
    if (least := schema.get("minItems")) is not None and len(value) < least:
        errors.append(invalid(path, len(value), f"{path} in body should have at least {least} items"))
    if item := schema.get("items"):
        for index, element in enumerate(value[:limit]):
            errors += violations(item, element, f"{path}[{index}]")
            if len(errors) >= MOST:
                break
    return errors or _repeated(schema, value, path)


def _repeated(schema: AnySchema, value: list[Any], path: str) -> list[FieldError]:
    """Returns elements of a set or map list that appear twice; only called if the elements are well-formed."""
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


def _string(schema: AnySchema, value: str, path: str) -> list[FieldError]:
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


def _number(schema: AnySchema, value: float, path: str) -> list[FieldError]:
    errors = []
    if (least := schema.get("minimum")) is not None and value < least:
        errors.append(invalid(path, value, f"{path} in body should be greater than or equal to {least}"))
    if (most := schema.get("maximum")) is not None and value > most:
        errors.append(invalid(path, value, f"{path} in body should be less than or equal to {most}"))
    bound = _INTEGERS.get(schema.get("format", ""))
    if bound and not -bound <= value < bound:
        errors.append(invalid(path, value, f"must be within the range of {schema['format']}"))
    return errors


_KEYWORDS: Final = frozenset(
    {"type", "anyOf", "x-kubernetes-int-or-string", "properties", "additionalProperties", "items", "format", "pattern"}
)
"""The keywords of a schema that the check in C supports."""


def _compiled_type(schema: AnySchema) -> Any:
    """Returns the type for `msgspec` that accepts what the schema accepts; a field may be absent or null."""
    if more := sorted(schema.keys() - _KEYWORDS):
        raise ValueError(f"no form is made of a schema with {', '.join(more)}")
    return functools.reduce(operator.or_, (_compiled_branch(each, schema) for each in _types(schema)))


def _compiled_branch(expected: str, schema: AnySchema) -> Any:
    match expected:
        case "object" if "properties" in schema:
            fields = [(name, _compiled_type(below) | None, None) for name, below in schema["properties"].items()]
            return msgspec.defstruct("Fields", fields)
        case "object" if "additionalProperties" in schema:
            return dict[str, _compiled_type(schema["additionalProperties"])]  # type: ignore[misc]  # made at run time
        case "array" if "items" in schema:
            return list[_compiled_type(schema["items"])]  # type: ignore[misc]
        case "string" if "pattern" in schema:
            return Annotated[str, msgspec.Meta(pattern=f"(?a){_compiled(schema['pattern']).pattern}")]
        case "integer" if "format" in schema:
            bound = _INTEGERS[schema["format"]]
            return Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)]
    return _PLAIN[expected]


_PLAIN: Final[dict[str, Any]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": int | float,
}


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Returns the pattern with Go's meaning of `$`: the end of the text, not a place before a last newline."""
    return re.compile(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern, re.ASCII)


def _is_time(value: str) -> bool:
    if not re.match(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}", value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
