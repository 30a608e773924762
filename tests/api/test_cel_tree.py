"""The tree of an expression has the variables and functions that the CEL library finds in it."""

from __future__ import annotations

import json

import cel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.cel_tree import MACROS, OPTIONAL, CelCall, CelOperation, Index, Literal, Name, Select, occurrences, parse

EXPANDED = frozenset({"has", *MACROS})
"""Macros, which the library replaces by what they stand for."""


def names(source: str) -> tuple[list[str], list[str]]:
    """The variables that an expression reads, those of macros too, and its functions."""
    nodes = [node for node, _ in occurrences(parse(source))]
    functions = {node.function for node in nodes if isinstance(node, CelCall)} - EXPANDED
    return sorted({node.name for node in nodes if isinstance(node, Name)}), sorted(functions)


def names_by_the_library(source: str) -> tuple[list[str], list[str]]:
    program = cel.compile(source)
    return program.variables(), [name for name in program.functions() if name.isidentifier()]


NAMES = st.sampled_from(["object", "job", "x", "request", "all", "has"])
TEXTS = st.text(alphabet="ab'\"\\\n/.\u00e9", max_size=5)
CONSTANTS = ["1", "0x1F", "2u", "1.5e-3", ".5", "true", "null", "b'ab'", r"r'\d'", r'r"\"', "'''a'b'''", "''"]
LITERALS = st.sampled_from(CONSTANTS) | TEXTS.map(json.dumps)
OPERATORS = st.sampled_from(["&&", "||", "==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%"])


def grown(below: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({}).{}".format, below, NAMES),
        st.builds("({}) [ {} ]".format, below, below),
        st.builds("({} {} {})".format, below, OPERATORS, below),
        st.builds("({} {} {} {} {})".format, below, OPERATORS, below, OPERATORS, below),
        st.builds("({} ? {} : {})".format, below, below, below),
        st.builds("!({})".format, below),
        st.builds("-({})".format, below),
        st.builds("size({})".format, below),
        st.builds("({}).matches({})".format, below, below),
        st.builds("({}).{}(x, x in [{}])".format, below, st.sampled_from(sorted(MACROS)), below),
        st.builds("({}).map(y, y == {}, {})".format, below, below, below),
        st.builds("has(({}).field)".format, below),
        st.lists(below, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.builds("{{{}: {}, 'b': 1}}".format, below, below),
        st.builds("{} // a comment + 'x\n".format, below),
    )


@given(st.recursive(NAMES | LITERALS, grown, max_leaves=12))
def test_a_tree_has_the_names_that_the_library_finds(source: str) -> None:
    assert names(source) == names_by_the_library(source)


@pytest.mark.parametrize(
    "source",
    [
        "google.protobuf.Duration{seconds: x}.size()",
        ".x.y",
        "[1, 2,].size()",
        "{'a': 1,}.b",
        "--1 < - x && !!y",
        "a ? b : c ? d : e",
        "(" * 90 + "a" + ")" * 90,
        "a" + "+a" * 1500,
        "a" + ".b" * 1500,
    ],
)
def test_a_source_that_the_library_reads_is_read(source: str) -> None:
    assert names(source) == names_by_the_library(source)


def test_operators_bind_as_the_language_says() -> None:
    a, b, c = Name("a"), Name("b"), Name("c")
    assert parse("a || b && c") == CelOperation(("||",), (a, CelOperation(("&&",), (b, c))))
    assert parse("a + b * -c") == CelOperation(("+",), (a, CelOperation(("*",), (b, CelOperation(("-",), (c,))))))
    assert parse("!!!a") == CelOperation(("!",), (a,))
    assert parse("[a]") != parse("{a: b}") != parse("a.b{a: b}")
    assert parse("a.?b") == CelCall(a, OPTIONAL, (Literal("b"),))
    assert parse("a.b['c'].d") == Select(Index(Select(a, "b"), Literal("c")), "d")
    choice = parse("a == b ? a : b - c - a")
    assert choice == CelOperation(("?", ":"), (CelOperation(("==",), (a, b)), a, CelOperation(("-", "-"), (b, c, a))))


@given(
    st.integers(0, 2**63 - 1) | st.floats(0, allow_infinity=False) | st.booleans() | st.none() | st.binary(max_size=0)
)
def test_a_constant_has_its_value(value: int | float | bool | bytes | None) -> None:
    source = "b''" if value == b"" else json.dumps(value)
    assert parse(source) == Literal(value=value)


@given(TEXTS)
def test_a_text_is_what_the_library_evaluates_it_to(text: str) -> None:
    source = json.dumps(text)
    assert parse(source) == Literal(cel.evaluate(source)) == Literal(text)


@pytest.mark.parametrize(
    "source",
    [
        r"'\x41\101\u0041\U00000041'",
        r"""'\a\b\f\n\r\t\v\\\'\"\`\?'""",
        r"r'\n'",
        r'R"\"',
        "'''a'\nb'''",
    ],
)
def test_escapes_are_those_of_the_library(source: str) -> None:
    assert parse(source) == Literal(cel.evaluate(source))


@pytest.mark.parametrize("source", ["", "a b", "(a", "a[", "a ?", "f(a", "'a", "#"])
def test_what_is_no_expression_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse(source)
