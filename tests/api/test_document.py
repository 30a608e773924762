"""Documents that are nested too deep for the decoder are read without what is deepest."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.document import loads
from seiretsu.depth import DEEPEST, without_depths

LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text()
DOCUMENTS = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


def nested(levels: int, inner: str = '"}]"') -> str:
    """A document of so many levels, of objects and arrays in turn."""
    return '{"a\\"{":[' * (levels // 2) + inner + "]}" * (levels // 2)


@given(DOCUMENTS)
def test_a_document_that_is_not_deep_stays_as_it_is(document: Any) -> None:
    text = orjson.dumps(document)
    assert without_depths(text) == text
    assert loads(text) == document


@pytest.mark.parametrize("levels", [1_100, 9_000])
def test_of_a_deep_document_all_is_read_that_is_not_deep(levels: int) -> None:
    deep = nested(levels)
    text = f'{{"before": {deep}, "name": "x", "after": [{deep}, {{"b": {json.dumps(deep)}}}, {nested(DEEPEST - 2)}]}}'
    found = loads(text.encode())
    assert (found["name"], found["after"][1]) == ("x", {"b": deep})
    assert found["after"][2] == json.loads(nested(DEEPEST - 2))
    inner, depth = found["before"], 2
    while inner is not None:
        inner, depth = next(iter(inner.values() if isinstance(inner, dict) else inner)), depth + 1
    assert depth == DEEPEST + 1


def test_nulls_that_are_as_long_as_what_they_replace_hide_nothing() -> None:
    value = nested(1_100)
    siblings = ",".join(["{}"] * ((len(value) - len("null")) // (len("null") - len("{}"))))
    text = "[" * DEEPEST + f"{value},{siblings}" + "]" * DEEPEST
    assert len(without_depths(text.encode())) == len(text)
    assert loads(text.encode())


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}}', "<html>", '{"a": "', nested(2_000)[:-1]])
def test_what_is_no_document_is_none_without_its_depths(text: str) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        loads(text.encode())
