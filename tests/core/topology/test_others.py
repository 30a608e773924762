"""What pods outside of topology use of each node."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from core.model import Requests
from core.topology.others import OtherPods
from tests.effort import cases

PODS = st.lists(
    st.tuples(st.sampled_from("abc"), st.dictionaries(st.sampled_from(("cpu", "memory")), st.integers(0, 4))),
    max_size=12,
)


def test_a_pod_counts_its_requests_and_itself_until_it_is_removed() -> None:
    others = OtherPods()
    others.add("a", {"cpu": 2})
    others.add("a", {"memory": 5})
    assert others.used("a") == {"cpu": 2, "memory": 5, "pods": 2}
    others.remove("a", {"cpu": 2})
    assert others.used("a") == {"memory": 5, "pods": 1}
    others.remove("a", {"memory": 5})
    assert others.used("a") == {}


def test_each_changed_node_is_reported_once_with_its_sum() -> None:
    others = OtherPods()
    others.add("a", {"cpu": 2})
    others.add("b", {"cpu": 1})
    others.add("a", {"cpu": 3})
    others.remove("b", {"cpu": 1})
    assert {node: others.used(node) for node in others.take_changed()} == {"a": {"cpu": 5, "pods": 2}, "b": {}}
    assert tuple(others.take_changed()) == ()


def test_what_one_caller_has_not_reached_yet_another_one_takes() -> None:
    """Else the second would decide without it."""
    others = OtherPods()
    for name in "abc":
        others.add(name, {"cpu": 1})
    first = others.take_changed()
    assert next(first) == "a"
    assert tuple(others.take_changed()) == ("b", "c")
    assert tuple(first) == ()


def test_a_sum_that_was_given_away_stays_as_it_was() -> None:
    """State keeps it until the next one, and compares both."""
    others = OtherPods()
    others.add("a", {"cpu": 2})
    before = others.used("a")
    assert others.used("a") is before, "one object for both"
    others.add("a", {"cpu": 1})
    assert before == {"cpu": 2, "pods": 1}


@given(PODS, st.lists(st.integers(0, 11), max_size=12, unique=True))
@settings(max_examples=cases(50, 1000))
def test_after_any_history_the_sums_are_those_of_the_pods_that_are_left(
    pods: list[tuple[str, dict[str, int]]], removed: list[int]
) -> None:
    others = OtherPods()
    reported: dict[str, Requests] = {}
    for node, requests in pods:
        others.add(node, requests)
    reported |= {node: others.used(node) for node in others.take_changed()}
    gone = [index for index in removed if index < len(pods)]
    for index in gone:
        others.remove(*pods[index])
    reported |= {node: others.used(node) for node in others.take_changed()}
    afresh: dict[str, Counter[str]] = {}
    for index, (node, requests) in enumerate(pods):
        if index not in gone:
            afresh.setdefault(node, Counter()).update({**requests, "pods": 1})
    expected = {node: {name: amount for name, amount in used.items() if amount} for node, used in afresh.items()}
    assert {node: used for node, used in reported.items() if used} == expected
    assert {node: others.used(node) for node in "abc" if others.used(node)} == expected
