"""JSON merge patches: the examples of RFC 7386, appendix A, that patch objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from core.wire.merge import merged

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
