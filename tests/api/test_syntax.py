"""Names and labels: what is accepted, and the words for what is not."""

from typing import Any

import pytest

from api import syntax


@pytest.mark.parametrize("name", ["a", "a-b", "team-a.example.com", "0", "a" * 253])
def test_a_subdomain_is_accepted(name: str) -> None:
    assert syntax.dns1123_subdomain(name) == ()


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a..b", "a\n", "ａ"])
def test_a_wrong_subdomain_gets_an_error_with_the_right_form(name: str) -> None:
    (text,) = syntax.dns1123_subdomain(name)
    assert text == (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must"
        " start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
        r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    )


def test_a_name_may_be_too_long_and_malformed_at_once() -> None:
    assert len(syntax.dns1123_label("A" * 64)) == 2
    assert syntax.dns1123_label("a" * 64) == ("must be no more than 63 bytes",)


@pytest.mark.parametrize("key", ["cpu", "example.com/gpu", "a.b_c-D", "nvidia.com/mig-1g.5gb"])
def test_a_qualified_name_is_accepted(key: str) -> None:
    assert syntax.qualified_name(key) == ()


@pytest.mark.parametrize(
    ("key", "start"),
    {
        "": "name part must be non-empty",
        "/x": "prefix part must be non-empty",
        "A/x": "prefix part a lowercase RFC 1123 subdomain",
        "a/b/c": "a valid label key must consist of",
        "-x": "name part must consist of",
        "x" * 64: "name part must be no more than 63 bytes",
    }.items(),
)
def test_a_wrong_qualified_name_gets_an_error_with_the_reason(key: str, start: str) -> None:
    assert syntax.qualified_name(key)[0].startswith(start)


def test_a_label_value_may_be_empty() -> None:
    assert syntax.label_value("") == ()
    assert syntax.label_value("a b")[0].startswith("a valid label must be an empty string or consist of")


SELECTORS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "In without values": (
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
        ["s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
    ),
    "Exists with values": (
        {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
        ["s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"],
    ),
    "an unknown operator": (
        {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
        ['s.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator'],
    ),
    "a fine one": ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}, []),
}


@pytest.mark.parametrize(("selector", "texts"), SELECTORS.values(), ids=SELECTORS.keys())
def test_a_label_selector_is_checked(selector: dict[str, Any], texts: list[str]) -> None:
    assert [str(error) for error in syntax.label_selector("s", selector)] == texts


def test_an_absent_selector_is_fine() -> None:
    assert syntax.label_selector("s", None) == []


TOLERATIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "equal": ({"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}, []),
    "everything": ({"operator": "Exists"}, []),
    "an empty key with Equal": (
        {"operator": "Equal"},
        [
            't[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match'
            ' all values and all keys"'
        ],
    ),
    "Exists with a value": (
        {"key": "a", "operator": "Exists", "value": "b"},
        [
            't[0].operator: Invalid value: {"key":"a","operator":"Exists","value":"b"}: value must be empty when'
            " `operator` is 'Exists'"
        ],
    ),
    "an unknown operator": (
        {"key": "a", "operator": "Gt"},
        ['t[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"'],
    ),
    "an unknown effect": (
        {"key": "a", "effect": "Never"},
        ['t[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'],
    ),
    "seconds without NoExecute": (
        {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5},
        ["t[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
    ),
}


@pytest.mark.parametrize(("toleration", "texts"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_a_toleration_is_checked_as_a_pods(toleration: dict[str, Any], texts: list[str]) -> None:
    assert [str(error) for error in syntax.tolerations("t", [toleration])] == texts
