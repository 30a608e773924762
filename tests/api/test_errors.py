"""Field errors read as Kubernetes prints them."""

import pytest

from api import errors
from api.errors import FieldError

CASES: dict[str, tuple[FieldError, str]] = {
    "a string is quoted": (errors.invalid("spec.a", "x", "must be y"), 'spec.a: Invalid value: "x": must be y'),
    "a number is bare": (errors.invalid("spec.a", 3, "too small"), "spec.a: Invalid value: 3: too small"),
    "true is JSON's": (errors.invalid("spec.a", True, "no"), "spec.a: Invalid value: true: no"),
    "null is JSON's": (errors.type_invalid("a", None, "must be a map"), "a: Invalid value: null: must be a map"),
    "an object is compact": (errors.duplicate("a[1]", {"k": ["v"]}), 'a[1]: Duplicate value: {"k":["v"]}'),
    "required shows no value": (errors.required("spec.q", "must be set"), "spec.q: Required value: must be set"),
    "required alone": (errors.required("spec.q"), "spec.q: Required value"),
    "forbidden shows no value": (errors.forbidden("spec.q", "is immutable"), "spec.q: Forbidden: is immutable"),
    "supported values are listed": (
        errors.not_supported("p", "x", ("A", "B")),
        'p: Unsupported value: "x": supported values: "A", "B"',
    ),
    "not found": (errors.not_found("p", "x"), 'p: Not found: "x"'),
    "too long shows the limit": (errors.too_long("p", 63), "p: Too long: may not be more than 63 bytes"),
    "too many counts": (errors.too_many("p", 2, 1), "p: Too many: 2: must have at most 1 item"),
    "quotes are escaped": (errors.not_found("p", 'a"\n\x01整'), 'p: Not found: "a\\"\\n\\x01整"'),
}


@pytest.mark.parametrize(("error", "text"), CASES.values(), ids=CASES.keys())
def test_an_error_prints_as_apimachinery_prints_it(error: FieldError, text: str) -> None:
    assert str(error) == text


def test_several_errors_are_one_bracketed_line_without_repeats() -> None:
    one, two = errors.required("a"), errors.required("b")
    assert errors.aggregate([one]) == "a: Required value"
    assert errors.aggregate([one, two, one]) == "[a: Required value, b: Required value]"


def test_a_cause_has_reason_message_and_field() -> None:
    assert errors.invalid("spec.a", "x", "no").cause() == {
        "reason": "FieldValueInvalid",
        "message": 'Invalid value: "x": no',
        "field": "spec.a",
    }
