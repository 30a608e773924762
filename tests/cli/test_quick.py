"""Plain command lines are read without Typer, with the same result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cli import explain
from cli.quick import arguments

LINES: list[list[str]] = [
    ["fill"],
    ["job/fill", "-n", "team-a"],
    ["--namespace", "team-a", "fill"],
    ["fill", "--namespace=team-a", "--context", "x", "-o", "json"],
    ["fill", "--kubeconfig", "a/b", "--config=c"],
    ["fill", "--as", "jane", "--as-group", "a", "--as-group=b"],
]


def by_typer(words: list[str]) -> dict[str, Any]:
    """What Typer passes to the command for these words."""
    app, found = typer.Typer(), dict[str, Any]()
    app.command()(explain.command)
    command = typer.main.get_command(app)
    command.callback = lambda **given: found.update(given)
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
    command.main(words, standalone_mode=False)
    return {name: None if value == () else value for name, value in found.items()}


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_a_plain_line_is_read_as_typer_reads_it(words: list[str]) -> None:
    assert arguments(explain.command, words) == by_typer(words)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--help"],
        ["-h"],
        ["a", "b"],
        ["a", "-n"],
        ["a", "-n", "-o"],
        ["a", "-o", "xml"],
        ["a", "--namespcae", "x"],
        ["a", "-nteam"],
        ["a", "-n=team"],
        ["a", "-n", "x", "-n", "y"],
        ["a", "--", "b"],
        [""],
    ],
    ids=" ".join,
)
def test_everything_else_is_left_to_typer(words: list[str]) -> None:
    assert arguments(explain.command, words) is None


def test_paths_are_paths() -> None:
    given = arguments(explain.command, ["a", "--kubeconfig", "x"])
    assert given is not None
    assert given["kubeconfig"] == Path("x")
