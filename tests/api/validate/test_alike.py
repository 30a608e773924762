"""What counts as unchanged: the same in other words."""

from typing import Any

import pytest

from api.validate.alike import alike

CONTAINER = {"name": "c", "image": "i"}

SAME: dict[str, tuple[Any, Any]] = {
    "a quantity in other words": ({"requests": {"cpu": "1000m"}}, {"requests": {"cpu": "1"}}),
    "a quantity as a number": ({"resourceUsage": {"memory": 1024}}, {"resourceUsage": {"memory": "1024"}}),
    "a null": ({"metadata": {"creationTimestamp": None, "labels": {"a": "b"}}}, {"metadata": {"labels": {"a": "b"}}}),
    "metadata of nothing": ({"metadata": {"creationTimestamp": None}}, {}),
    "resources of nothing": ({"containers": [{**CONTAINER, "resources": {}}]}, {"containers": [CONTAINER]}),
    "an empty list": ({"tolerations": []}, {}),
    "deep inside": ([{"a": {"limits": {"x.io/y": "2k"}}}], [{"a": {"limits": {"x.io/y": "2000"}}}]),
}
OTHER: dict[str, tuple[Any, Any]] = {
    "another quantity": ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1001m"}}),
    "no quantity": ({"requests": {"cpu": "many"}}, {"requests": {"cpu": "1"}}),
    "one more": ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1", "memory": "0"}}),
    "a volume of another sort": ({"volumes": [{"name": "a", "emptyDir": {}}]}, {"volumes": [{"name": "a"}]}),
    "what only looks like a quantity": ({"labels": {"cpu": "1000m"}}, {"labels": {"cpu": "1"}}),
    "an order": ({"args": ["a", "b"]}, {"args": ["b", "a"]}),
    "a number that is a text": ({"count": 1}, {"count": "1"}),
}


@pytest.mark.parametrize(("first", "second"), SAME.values(), ids=SAME.keys())
def test_the_same_in_other_words_is_no_change(first: Any, second: Any) -> None:
    assert alike(first, second)
    assert alike(second, first)


@pytest.mark.parametrize(("first", "second"), OTHER.values(), ids=OTHER.keys())
def test_what_says_something_else_is_a_change(first: Any, second: Any) -> None:
    assert not alike(first, second)
    assert not alike(second, first)


def test_what_is_nested_deeper_than_anything_means_is_another() -> None:
    def nested(innermost: Any) -> Any:
        for _ in range(900):
            innermost = {"below": innermost}
        return innermost

    assert not alike(nested(1), nested(2))
