"""No feature gate is read and ignored: each works, is locked, or is listed with what holds whatever it is set to."""

import ast
import functools
from pathlib import Path

import pytest

from api import feature_gates
from api.configuration import load
from tests.api.gates import SETTINGS, SHOWN

ROOT = Path(__file__).parents[2]
PACKAGES = ("api", "core", "controller", "webhook", "operations", "app")


@functools.cache
def named_in_code() -> set[str]:
    """Every string literal of the program; not those of the list of gates, nor names of labels and reasons."""
    found: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if path.name not in ("feature_gates.py", "names.py"):
                nodes = ast.walk(ast.parse(path.read_text()))
                found |= {
                    node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
                }
    return found


GATES = sorted(feature_gates.DEFAULTS)


@pytest.mark.parametrize("gate", GATES)
def test_a_gate_works_or_is_locked_or_says_that_it_has_no_effect(gate: str) -> None:
    listed, why = feature_gates.LIMITED.get(gate, (None, ""))
    if feature_gates.is_locked(gate):
        assert listed is None, "a locked gate cannot be set to anything else"
    elif listed is None:
        assert gate in named_in_code(), "nothing reads it: make it work, or list it in LIMITED with the reason"
    elif why.startswith("has no effect: "):
        assert gate not in named_in_code(), "something reads it: say what it changes"
    else:
        assert why.startswith("only "), "say what it has no effect on, or what only it changes"
        assert gate in named_in_code()


@pytest.mark.parametrize("gate", sorted(feature_gates.LIMITED))
def test_a_feature_gate_without_effect_gives_a_warning_at_the_start(gate: str) -> None:
    holds, why = feature_gates.LIMITED[gate]
    word = {True: "true", False: "false"}
    assert load(f"featureGates: {{{gate}: {word[holds]}}}").warnings == ()
    told = f"featureGates.{gate}: {word[not holds]} {why}"
    assert load(f"featureGates: {{{gate}: {word[not holds]}}}").warnings == (told,)


def test_the_chart_knows_the_gates() -> None:
    file = ROOT / "charts" / "seiretsu" / "templates" / "_feature_gates.tpl"
    assert file.read_text() == feature_gates.template(), "run `make generate`"


def test_only_known_gates_are_listed() -> None:
    assert set(feature_gates.LIMITED) <= set(GATES)


SWITCHED = [gate for gate in GATES if gate not in feature_gates.LIMITED and not feature_gates.is_locked(gate)]


def test_each_gate_that_can_be_switched_has_tests_that_show_what_it_changes() -> None:
    assert sorted(SHOWN) == SWITCHED


@functools.cache
def sources_of(path: str) -> dict[str, str]:
    """The source of each test of a file, with its decorators."""
    text = (ROOT / path).read_text()
    lines = text.splitlines()
    nodes = (each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return {
        node.name: "\n".join(lines[min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1 : node.end_lineno])
        for node in nodes
        if node.name.startswith("test_")
    }


@pytest.mark.parametrize("gate", SWITCHED)
def test_the_tests_that_show_a_gate_exist(gate: str) -> None:
    for reference in SHOWN[gate]:
        path, _, name = reference.partition("::")
        assert name in sources_of(path), f"{path} has no {name}"
        if reference == SETTINGS:
            assert f'"{gate}"' in sources_of(path)[name], "the test of the settings does not name the gate"
