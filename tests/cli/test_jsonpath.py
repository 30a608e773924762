"""Templates of kubectl's page about JSONPath, and those that people use."""

from __future__ import annotations

import pytest

from cli.jsonpath import JsonPathError, rendered

LIST = {
    "kind": "List",
    "items": [
        {
            "metadata": {"name": "a", "labels": {"app.example.com/team": "x"}},
            "status": {
                "n": 3,
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "Done", "status": "False"}],
            },
        },
        {"metadata": {"name": "b"}, "status": {"n": 11, "ready": True}},
    ],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "List"),
        (".kind", ".kind"),
        ("{$.kind}", "List"),
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[0].metadata.name}", "a"),
        ("{.items[-1:].metadata.name}", "b"),
        ("{.items[-1].metadata.name}", "b"),
        ("{.items[7].metadata.name}", ""),
        ("{.items[0,1].metadata.name}", "a b"),
        ("{.items[0:1].metadata.name}", "a"),
        ("{.items[*]['metadata.name', 'status.n']}", "a b 3 11"),
        ("{.items[0]['metadata']['name']}", "a"),
        (r"{.items[0].metadata.labels['app\.example\.com/team']}", "x"),
        (r"{.items[0].metadata.labels.app\.example\.com/team}", "x"),
        ("{..name}", "a b"),
        ('{.items[?(@.metadata.name=="b")].status.n}', "11"),
        ("{.items[?(@.status.n>3)].metadata.name}", "b"),
        ("{.items[?(@.status.ready)].metadata.name}", "b"),
        ("{.items[?(@.status.ready==true)].metadata.name}", "b"),
        ("{.items[0].status.conditions[?(@.type=='Ready')].status}", "True"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.status.n}{"\\n"}{end}', "a\t3\nb\t11\n"),
        ("name: {.items[1].metadata.name}!", "name: b!"),
        ("{.items[1].status}", '{"n":11,"ready":true}'),
        ("{.nothing.at.all}", ""),
        ("{range .items[*]}{range .status.conditions[*]}{.type} {end}{end}", "Ready Done "),
    ],
)
def test_a_template_prints_what_kubectl_prints(template: str, text: str) -> None:
    assert rendered(template, LIST) == text


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("{.items[*}", "unclosed bracket"),
        ("{.items", "unclosed action"),
        ("{range .items[*]}x", "without {end}"),
        ("{end}", "without {range}"),
        ("{.items[x]}", "not an index"),
        ("{.items[::0]}", "step must not be 0"),
        ("{.items[?(name)]}", "cannot be read"),
        ("{.items[?(@.n==b)]}", "quote a string"),
    ],
)
def test_a_mistake_is_named(template: str, named: str) -> None:
    with pytest.raises(JsonPathError, match="jsonpath") as raised:
        rendered(template, LIST)
    assert named in str(raised.value)
