"""The small JSON Patch: what it makes, and that it refuses what does not apply; and no such patch is ever answered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.names import Label
from tests.webhook.cluster import cluster, job, review
from webhook.hooks import HOOKS
from webhook.patch import Operation, PatchError, add, append, apply, pointer
from webhook.review import Request, Response, allow
from webhook.routes import answer
from webhook.settings import Context, WebhookSettings

names = st.text(alphabet="ab/~-0", min_size=1, max_size=3)
documents: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    names,
    st.recursive(st.integers(), lambda below: st.dictionaries(names, below, max_size=3), max_leaves=8),
    max_size=3,
)


def test_a_pointer_escapes_slashes_and_tildes() -> None:
    assert pointer(("metadata", "labels", "kueue.x-k8s.io/a~b")) == "/metadata/labels/kueue.x-k8s.io~1a~0b"


def test_missing_objects_above_a_value_are_made_in_one_operation() -> None:
    assert add({"metadata": {}}, ("metadata", "labels", "a"), "x") == (
        Operation("add", ("metadata", "labels"), {"a": "x"}),
    )


def test_true_is_not_taken_for_one() -> None:
    assert add({"suspend": 1}, ("suspend",), True) == (Operation("add", ("suspend",), True),)


@given(documents, st.lists(names, min_size=1, max_size=3), st.integers())
def test_what_was_added_needs_no_second_addition(document: dict[str, Any], path: list[str], value: int) -> None:
    try:
        operations = add(document, tuple(path), value)
    except (AttributeError, TypeError):
        return  # a number is in the way; shapes are checked before
    after = apply(document, operations)
    assert add(after, tuple(path), value) == ()


@given(documents)
def test_applying_leaves_the_original_alone(document: dict[str, Any]) -> None:
    before = repr(document)
    apply(document, add(document, ("new", "below"), 1))
    assert repr(document) == before


@pytest.mark.parametrize(
    ("operation", "document"),
    [
        (Operation("replace", ("spec", "suspend"), True), {"spec": {}}),
        (Operation("remove", ("spec", "suspend")), {"spec": {}}),
        (Operation("add", ("spec", "suspend"), True), {}),
        (Operation("add", ("list", "2"), 1), {"list": [0]}),
        (Operation("remove", ("list", "x")), {"list": [0]}),
        (Operation("add", ("number", "below"), 1), {"number": 1}),
        (Operation("replace", (), {}), {}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_does_not_apply_is_an_error(operation: Operation, document: dict[str, Any]) -> None:
    with pytest.raises(PatchError):
        apply(document, (operation,))


def test_lists_are_changed_by_index() -> None:
    operations = (
        Operation("add", ("l", "-"), 3),
        Operation("add", ("l", "0"), 0),
        Operation("remove", ("l", "1")),
        Operation("replace", ("l", "1"), 9),
    )
    assert apply({"l": [1, 2]}, operations) == {"l": [0, 9, 3]}


def test_operations_change_neither_what_one_of_them_adds_nor_elements_that_are_one_object() -> None:
    """Each object and list is copied once, so the second operation writes into the copy of the first."""
    element, added = {"a": 1}, {"b": 1}
    document = {"l": [element, element]}
    operations = (
        Operation("replace", ("l", "0", "a"), 2),
        Operation("replace", ("l", "1", "a"), 3),
        Operation("replace", ("l", "0", "a"), 4),
        Operation("add", ("new",), added),
        Operation("replace", ("new", "b"), 5),
    )
    assert apply(document, operations) == {"l": [{"a": 4}, {"a": 3}], "new": {"b": 5}}
    assert (document, added) == ({"l": [{"a": 1}, {"a": 1}]}, {"b": 1})


def test_appending_what_is_there_does_nothing() -> None:
    assert append({"metadata": {"finalizers": ["f"]}}, ("metadata", "finalizers"), "f") == ()
    assert append({"metadata": {}}, ("metadata", "finalizers"), "f") == (
        Operation("add", ("metadata", "finalizers"), ["f"]),
    )


BROKEN = [
    pytest.param(Operation("replace", ("spec", "nothing"), 1), id="a path that is not there"),
    pytest.param(Operation("remove", ("metadata", "annotations", "a")), id="a removal below what is not there"),
    pytest.param(Operation("add", ("spec", "parallelism", "x"), 1), id="a field of a number"),
    pytest.param(Operation("add", ("metadata", "labels"), "main"), id="labels that are a text"),
    pytest.param(Operation("add", ("metadata", "name"), "other"), id="another name"),
    pytest.param(Operation("add", ("metadata", "namespace"), "other"), id="another namespace"),
    pytest.param(Operation("add", ("kind",), "CronJob"), id="another kind"),
    pytest.param(Operation("replace", (), {}), id="another object"),
]


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/mutate-batch-v1-job", False), ("/mutate-batch-v1-job-default", True)],
    ids=["Fail", "Ignore"],
)
def test_f29_a_patch_that_would_spoil_the_object_is_never_answered(broken: Operation, path: str, allowed: bool) -> None:
    """F29: the API server refuses the object for it even where it may skip the hook. The fault is the handler's: it is
    answered as any other failure of a handler.
    """

    def fails(request: Request, context: Context) -> Response:
        return allow(patch=(Operation("add", ("spec", "suspend"), True), broken))

    (hook,) = (hook for hook in HOOKS if hook.path == path)
    body = orjson.dumps(review(job(labels={Label.QUEUE_NAME: "main"})))
    status, text = answer(replace(hook, handler=fails), body, Context(WebhookSettings(), cluster()))
    found = orjson.loads(text)["response"]
    assert (status, found["allowed"], found.get("patch")) == (200, allowed, None)
    assert found.get("status", {}).get("code", 200) == (200 if allowed else 500)
