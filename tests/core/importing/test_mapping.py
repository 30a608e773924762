from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core.importing.mapping import MappingError, MappingRule, of_document, of_label, rule_for

KUEUES_EXAMPLE = """
- match:
    labels:
      src.lbl: src-val
  toLocalQueue: user-queue
- match:
    priorityClassName: p-class
    labels:
      src.lbl: src-val2
      src2.lbl: src2-val
  toLocalQueue: user-queue2
- match:
    labels:
      src.lbl: src-val3
  skip: true
"""


def queue_for(rules: tuple[MappingRule, ...], priority_class: str = "", **labels: str) -> str | None:
    rule = rule_for(rules, priority_class, {key.replace("_", "."): value for key, value in labels.items()})
    return None if rule is None else "skipped" if rule.skip else rule.queue


def test_a_mapping_file_of_kueues_importer_is_understood() -> None:
    rules = of_document(yaml.safe_load(KUEUES_EXAMPLE))
    assert queue_for(rules, src_lbl="src-val") == "user-queue"
    assert queue_for(rules, "any", src_lbl="src-val", more="x") == "user-queue"
    assert queue_for(rules, "p-class", src_lbl="src-val2", src2_lbl="src2-val") == "user-queue2"
    assert queue_for(rules, "other", src_lbl="src-val2", src2_lbl="src2-val") is None
    assert queue_for(rules, "p-class", src_lbl="src-val2") is None
    assert queue_for(rules, src_lbl="src-val3") == "skipped"


def test_the_first_rule_that_matches_counts() -> None:
    rules = of_document([{"match": {"labels": {"a": "1"}}, "toLocalQueue": "first"}, {"toLocalQueue": "rest"}])
    assert queue_for(rules, a="1") == "first"
    assert queue_for(rules, a="2") == "rest"


def test_one_label_maps_its_values() -> None:
    rules = of_label("src.lbl", {"b": "second", "a": "first"})
    assert queue_for(rules, src_lbl="a") == "first"
    assert queue_for(rules, src_lbl="b") == "second"
    assert queue_for(rules, src_lbl="c") is None


@pytest.mark.parametrize(
    ("document", "mistakes"),
    [
        ({}, ["a mapping is a list of rules with match, toLocalQueue, skip, not an object"]),
        (None, ["a mapping is a list of rules with match, toLocalQueue, skip, not nothing"]),
        (["x"], ["[0]: a rule is an object with match, toLocalQueue, skip, not a text"]),
        ([{}], ["[0].toLocalQueue: name a LocalQueue, or set skip: true"]),
        (
            [{"match": {"labels": {"a": 1}}, "toLocalQueue": "q"}],
            ["[0].match.labels: texts by text; put numbers, true and false in quotes"],
        ),
        (
            [{"toLocalqueue": "q", "skip": True}, {"match": {"label": {}}, "toLocalQueue": "q"}],
            [
                "[0]: unknown field 'toLocalqueue'; there are match, toLocalQueue, skip",
                "[1].match: unknown field 'label'; there are priorityClassName, labels",
            ],
        ),
    ],
)
def test_all_mistakes_are_named_with_their_place(document: Any, mistakes: list[str]) -> None:
    with pytest.raises(MappingError) as raised:
        of_document(document)
    assert list(raised.value.mistakes) == mistakes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["match", "labels", "toLocalQueue", "q", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["match", "labels", "toLocalQueue", "skip", "priorityClassName"]), inner)
    ),
    max_leaves=8,
)


@given(JSON)
def test_whatever_a_file_has_is_rules_or_mistakes(document: Any) -> None:
    try:
        rules = of_document(document)
    except MappingError as error:
        assert error.mistakes
    else:
        assert all(rule.skip or rule.queue for rule in rules)
