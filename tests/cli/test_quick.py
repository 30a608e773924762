"""Plain command lines are read without Typer, with the same result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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


def several(
    names: Annotated[list[str] | None, typer.Argument()] = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A")] = False,
    status: Annotated[list[str] | None, typer.Option("--status")] = None,
) -> None:
    """A command with a flag and any number of names."""


def test_flags_and_any_number_of_names_are_read() -> None:
    given = arguments(several, ["a", "-A", "b", "--status", "x", "--status=y"])
    assert given == {"names": ["a", "b"], "everywhere": True, "status": ["x", "y"]}
    assert arguments(several, []) == {"names": None, "everywhere": False, "status": None}
    assert arguments(several, ["--all-namespaces=true"]) is None


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
