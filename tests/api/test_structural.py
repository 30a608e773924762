"""A form recognizes an object without errors in C; `violations` finds the errors. Both accept the same objects."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.builtin import BOOLEAN, QUANTITY, TEXT, fields, list_of, map_of
from api.errors import MOST
from api.structural import AnySchema, Form, violations
from api.v1beta2.base import QUANTITY_PATTERN
from bench.reviews import MUTATE, review, spoil
from core.jobs.kinds import BATCH_JOB

FIELDS = fields(
    text=TEXT,
    count={"type": "integer", "format": "int32"},
    on=BOOLEAN,
    amounts=map_of(QUANTITY),
    sizes=map_of({"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN}),
    names=list_of(TEXT),
    inner=fields(list=list_of(fields(key=TEXT, values=list_of(TEXT)))),
    whole={"type": "object"},
    several={"type": "array"},
)
KEYS = [*FIELDS["properties"], "list", "key", "values"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False).filter(lambda value: not value.is_integer())
    | st.text(max_size=3)
    | st.sampled_from(["1Gi", "1\n", "x", 2**31, 2**31 - 1, -(2**31)]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(KEYS), below),
    max_leaves=20,
)


@given(VALUES.filter(lambda value: value is not None))
def test_a_form_has_the_errors_that_a_look_at_each_field_finds(value: Any) -> None:
    assert Form(FIELDS).errors(value, "spec") == violations(FIELDS, value, "spec")


@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_a_field_that_is_null_is_as_good_as_absent(value: dict[str, Any]) -> None:
    present = {name: child for name, child in value.items() if child is not None}
    assert Form(FIELDS).errors(value) == Form(FIELDS).errors(present)


@pytest.mark.parametrize("seed", range(300))
def test_a_job_with_junk_anywhere_has_the_same_errors_either_way(seed: int) -> None:
    chance = random.Random(seed)
    spoiled = spoil(chance, review(MUTATE, chance)).get("request")
    job = spoiled.get("object") if isinstance(spoiled, dict) else None
    assert BATCH_JOB.form.errors(job) == ([] if job is None else violations(BATCH_JOB.form.schema, job))


@pytest.mark.parametrize(
    ("job", "error"),
    [
        ({"spec": {"parallelism": True}}, 'spec.parallelism in body must be of type integer: "boolean"'),
        ({"spec": {"parallelism": 1.0}}, "Expected `int | null`, got `float` - at `$.spec.parallelism`"),
        ({"metadata": {"labels": {"a": 1}}}, 'metadata.labels.a in body must be of type string: "integer"'),
        ({"metadata": {"labels": {"a": None}}}, 'metadata.labels.a in body must be of type string: "null"'),
        ({"metadata": {"finalizers": "one"}}, 'metadata.finalizers in body must be of type array: "string"'),
        (
            {"spec": {"template": {"spec": {"overhead": {"cpu": True}}}}},
            'spec.template.spec.overhead.cpu in body must be of type string,number: "boolean"',
        ),
    ],
)
def test_a_wrong_type_is_reported_with_its_path(job: Any, error: str) -> None:
    (found,) = BATCH_JOB.form.errors(job)
    assert found.detail == error


def test_an_absent_object_has_no_errors() -> None:
    assert BATCH_JOB.form.errors(None) == []


def test_a_form_is_refused_that_restricts_what_the_check_in_c_does_not_know() -> None:
    with pytest.raises(ValueError, match="a schema with maxItems"):
        Form(fields(names={"type": "array", "items": TEXT, "maxItems": 3}))


@pytest.mark.parametrize(
    ("schema", "value"),
    [(list_of(TEXT), [1] * 10 * MOST), (map_of(TEXT), dict.fromkeys(map(str, range(10 * MOST)), 1))],
    ids=["a list", "a map"],
)
def test_checking_stops_when_enough_errors_are_found(schema: AnySchema, value: Any) -> None:
    assert len(violations(schema, value)) == len(Form(schema).errors(value)) == MOST
