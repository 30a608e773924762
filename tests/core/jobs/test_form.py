"""Whether an object has its form is found out in C; what its errors are, field by field. Both find the same wrong."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.reviews import MUTATE, review, spoil
from core.jobs.admission import form
from core.jobs.admission.form import QUANTITY, Form, ListOf, MapOf
from core.jobs.kinds import BATCH_JOB

FIELDS: form.Shape = {
    "text": str,
    "count": int,
    "on": bool,
    "amounts": MapOf(QUANTITY),
    "names": ListOf(str),
    "inner": {"list": ListOf({"key": str, "values": ListOf(str)})},
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "count", "on", "amounts", "names", "inner", "key", "values"]), below)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_refused_in_c_has_errors_and_nothing_else_has(value: Any) -> None:
    assert Form(FIELDS).errors(value) == list(form._misshapen(value, FIELDS, ""))


@pytest.mark.parametrize("seed", range(300))
def test_a_job_with_junk_anywhere_has_the_same_errors_either_way(seed: int) -> None:
    chance = random.Random(seed)
    spoiled = spoil(chance, review(MUTATE, chance)).get("request")
    job = spoiled.get("object") if isinstance(spoiled, dict) else None
    assert BATCH_JOB.form.errors(job) == list(form._misshapen(job, BATCH_JOB.form._shape, ""))


@pytest.mark.parametrize(
    ("job", "error"),
    [
        ({"spec": {"parallelism": True}}, "spec.parallelism: must be of type integer"),
        ({"spec": {"parallelism": 1.0}}, "spec.parallelism: must be of type integer"),
        ({"metadata": {"labels": {"a": 1}}}, "metadata.labels[a]: must be of type string"),
        ({"metadata": {"labels": {"a": None}}}, "metadata.labels[a]: must not be null"),
        ({"metadata": {"finalizers": "one"}}, "metadata.finalizers: must be of type array"),
    ],
)
def test_a_wrong_type_is_told_with_its_path(job: Any, error: str) -> None:
    assert error.partition(": ")[0] in str(BATCH_JOB.form.errors(job)[0])
    assert error.partition(": ")[2] in str(BATCH_JOB.form.errors(job)[0])


def test_null_is_as_good_as_absent() -> None:
    assert BATCH_JOB.form.errors({"metadata": None, "spec": {"template": None, "suspend": None}}) == []
