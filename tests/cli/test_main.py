"""The command line as a whole: what it lists, and what it does not import to list it."""

from __future__ import annotations

import importlib
import os
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
            runs = callable(getattr(module, "command", None)) or callable(getattr(module, "run", None))
            assert isinstance(getattr(module, "app", None), typer.Typer) or runs


def test_help_imports_no_command() -> None:
    code = "import sys; from cli.main import application; application([]); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    heavy = {"aiohttp", "kubernetes", "cryptography", "pydantic", "starlette", *(each.module for each in COMMANDS)}
    assert heavy.isdisjoint(loaded.split())


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--config", "absent.yaml"], 2, "No such file or directory"),
        (["--bind", "nowhere"], 2, "'nowhere' is not an address"),
        (["--log-level", "loud"], 2, "'loud' is none of debug, info, warning, error"),
        (["--instal"], 2, "No such option"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_serve_ends_with_the_exit_codes_that_the_page_lists(options: list[str], code: int, said: str) -> None:
    """docs/serving.md: 2 where an option, or what it names, is wrong."""
    command = [sys.executable, "-m", "cli.main", "serve", *options]
    environ = os.environ | {"KUBECONFIG": "/absent", "COLUMNS": "200"}
    done = subprocess.run(command, cwd=_ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert f"{code} " in _listed_codes()


def _listed_codes() -> str:
    page = (_ROOT / "docs" / "serving.md").read_text()
    return page[page.index("Exit codes:") :].partition("\n\n")[0]
