"""Field errors in Kubernetes' form, so that kubectl prints the same text for every source of an error.

A path is a plain string: `f"{path}.name"`, `f"{path}[{index}]"`, `f"{path}[{key}]"`. The texts are those of
apimachinery's `field.Error`; people and tests match on them.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class ErrorType(StrEnum):
    """The type of an error; the value is the `reason` of a cause in a Status."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TOO_FEW = "FieldValueTooFew"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"


_TITLES: Final = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TOO_FEW: "Too few",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.INTERNAL: "Internal error",
}
MOST: Final = 100
"""The maximum number of errors that are reported for one object: nobody fixes more at once, and any user can send a
million.
"""
LONGEST: Final = 1024
"""Characters of a value that an error shows."""
OMITTED: Final = object()
"""A value that the error does not show: a whole map, or a value that its own detail repeats."""

_WITHOUT_VALUE: Final = {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in one field. `str()` is the line that users read: `path: Invalid value: "x": detail`."""

    type: ErrorType
    field: str
    value: Any = None
    detail: str = ""

    @property
    def body(self) -> str:
        """The message without the path, as in a Status cause."""
        text = _TITLES[self.type]
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            text = f"{text}: {shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def cause(self) -> dict[str, str]:
        """The same as an element of `status.details.causes`."""
        return {"reason": self.type.value, "message": self.body, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.body}" if self.field else self.body


def invalid(path: str, value: Any, detail: str) -> FieldError:
    """A value that is malformed or out of bounds."""
    return FieldError(ErrorType.INVALID, path, value, detail)


def broken_rule(path: str, detail: str) -> FieldError:
    """A rule on a whole object or list that does not hold, as the API server reports a CEL rule."""
    return FieldError(ErrorType.INVALID, path, OMITTED, detail)


def type_invalid(path: str, value: Any, detail: str) -> FieldError:
    """A value of the wrong type."""
    return FieldError(ErrorType.TYPE_INVALID, path, value, detail)


def required(path: str, detail: str = "") -> FieldError:
    """A value that must be there and is not."""
    return FieldError(ErrorType.REQUIRED, path, "", detail)


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldError:
    """A value outside a fixed set; the set is listed in the order given."""
    listed = ", ".join(quote(choice) for choice in supported)
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, f"supported values: {listed}" if listed else "")


def duplicate(path: str, value: Any) -> FieldError:
    """A value that another element of the list already has."""
    return FieldError(ErrorType.DUPLICATE, path, value)


def not_found(path: str, value: Any, detail: str = "") -> FieldError:
    """A reference to something that does not exist."""
    return FieldError(ErrorType.NOT_FOUND, path, value, detail)


def forbidden(path: str, detail: str) -> FieldError:
    """A value that would be fine elsewhere, but not under the present conditions."""
    return FieldError(ErrorType.FORBIDDEN, path, "", detail)


def internal(path: str, detail: str) -> FieldError:
    """What may clear up by itself: something that is missing now."""
    return FieldError(ErrorType.INTERNAL, path, "", detail)


def too_long(path: str, limit: int) -> FieldError:
    """A string longer than `limit` bytes."""
    return FieldError(ErrorType.TOO_LONG, path, "", f"may not be more than {limit} {'byte' if limit == 1 else 'bytes'}")


def too_many(path: str, actual: int, limit: int) -> FieldError:
    """A list longer than `limit`."""
    return FieldError(
        ErrorType.TOO_MANY, path, actual, f"must have at most {limit} {'item' if limit == 1 else 'items'}"
    )


def aggregate(errors: Sequence[FieldError]) -> str:
    """Returns the first `MOST` errors as one message, each text once: `e1`, or `[e1, e2]` as apimachinery's aggregate
    prints them.
    """
    texts = list(dict.fromkeys(str(error) for error in errors[:MOST]))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def shown(value: Any) -> str:
    """Returns a value as an error shows it: strings quoted, the rest as compact JSON; of a long one the beginning."""
    if isinstance(value, str):
        return quote(value if len(value) <= LONGEST else f"{value[:LONGEST]}...")
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F)} | {
    ord(char): escape
    for char, escape in {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        '"': '\\"',
        "\\": "\\\\",
    }.items()
}


def quote(text: str) -> str:
    """A string in double quotes, control characters escaped as Go's `%q` does."""
    return f'"{text.translate(_ESCAPES)}"'
