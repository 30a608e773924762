"""The command line as a whole: what it lists, and what it does not import to list it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.main import COMMANDS, application

_ROOT = Path(__file__).parent.parent.parent


def test_help_names_every_command_with_one_line() -> None:
    shown = CliRunner().invoke(application(["--help"]), ["--help"], env={"COLUMNS": "200"}).output
    assert all(command.name in shown and command.help in shown for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_exists(command: object) -> None:
    for each in COMMANDS:
        if each is command:
            module = importlib.import_module(each.module)
            assert isinstance(getattr(module, "app", None), typer.Typer) or callable(module.command)


def test_help_imports_no_command() -> None:
    code = "import sys; from cli.main import application; application([]); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    heavy = {"aiohttp", "kubernetes", "cryptography", "pydantic", "starlette", *(each.module for each in COMMANDS)}
    assert heavy.isdisjoint(loaded.split())
