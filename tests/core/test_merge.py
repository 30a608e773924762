"""JSON merge patches: the examples of RFC 7386, appendix A, that patch objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.wire.merge import merged, replacement

EXAMPLES: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), EXAMPLES)
def test_a_merge_patch_changes_what_it_names_and_removes_what_is_null(
    target: Any, patch: dict[str, Any], result: dict[str, Any]
) -> None:
    before = copy.deepcopy(target)
    assert merged(target, patch) == result
    assert target == before, "the target itself is not changed"


STORED: dict[str, Any] = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "metadata": {"name": "w", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
    "spec": {"queueName": "main"},
    "status": {"conditions": [{"type": "QuotaReserved"}], "requeueState": {"count": 2, "requeueAt": "later"}},
}
GUARD = {"uid": "u", "resourceVersion": "7"}


def test_the_replacement_of_a_status_patch_has_the_whole_status_and_no_spec_or_labels() -> None:
    assert replacement(STORED, {"metadata": GUARD, "status": {"admission": {"clusterQueue": "cq"}}}) == {
        "metadata": {"name": "w", "namespace": "ns", "uid": "u", "resourceVersion": "7"},
        "status": {**STORED["status"], "admission": {"clusterQueue": "cq"}},
    }


STATUSES = st.recursive(
    st.none() | st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2),
    lambda children: st.dictionaries(st.sampled_from("abc"), children, max_size=3),
    max_leaves=6,
)


@given(
    old=st.dictionaries(st.sampled_from("abc"), STATUSES, max_size=3),
    change=st.dictionaries(st.sampled_from("abc"), STATUSES, max_size=3),
)
def test_the_status_after_a_replacement_is_that_after_the_patch(old: dict[str, Any], change: dict[str, Any]) -> None:
    stored, patch = {**STORED, "status": old}, {"metadata": GUARD, "status": change}
    found = replacement(stored, patch)
    assert found is not None
    assert found["status"] == merged(stored, patch)["status"]


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"metadata": {**GUARD, "resourceVersion": "6"}, "status": {}}, id="decided on another version"),
        pytest.param({"metadata": {**GUARD, "uid": "v"}, "status": {}}, id="of another object with the name"),
        pytest.param({"metadata": {"uid": "u"}, "status": {}}, id="of any version"),
        pytest.param({"status": {}}, id="without a guard"),
        pytest.param({"metadata": {**GUARD, "labels": {}}, "status": {}}, id="of labels too"),
        pytest.param({"metadata": GUARD, "spec": {}, "status": {}}, id="of the spec too"),
        pytest.param({"metadata": GUARD}, id="of nothing"),
    ],
)
def test_only_a_patch_of_the_status_of_this_version_is_replaced(patch: dict[str, Any]) -> None:
    assert replacement(STORED, patch) is None
