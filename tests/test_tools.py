"""`make test` builds every program before the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devcluster import build, tools
from tests import browser
from tests import tools as of_tests
from tests.effort import LONG

ROOT = Path(__file__).parents[1]


def test_of_every_module_it_is_known_which_command_builds_it() -> None:
    known = (*of_tests.EVERY_RUN, *of_tests.LONG_RUNS, *of_tests.OTHER_COMMANDS)
    assert {each.name for each in known} == {each.name for each in tools.ALL} and len(known) == len(tools.ALL)


def test_make_test_builds_them_before_pytest_begins() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ntest: ")[2].partition("\n\n")[0]
    assert recipe.index("-m tests.tools") < recipe.index("-m pytest")


def test_tests_are_compiled_once_before_the_processes_that_run_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_tests, "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    files = [tmp_path / "tests" / f"test_{name}.py" for name in ("one", "two")]
    for file in files:
        file.write_text("def test_it() -> None:\n    assert 1 + 1 == 2\n")
    assert of_tests.uncompiled(tmp_path) == files
    of_tests.compile_tests()
    assert of_tests.uncompiled(tmp_path) == []


def test_no_test_runs_what_other_commands_build() -> None:
    names = [tool.name for module in of_tests.OTHER_COMMANDS for tool in module.tools]
    run = re.compile(rf'(ensure|run)\("({"|".join(names)})"')
    assert not [path for path in (ROOT / "tests").rglob("*.py") if run.search(path.read_text())]


def test_one_line_says_what_is_built_and_how_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    built: list[str] = []

    def build_one(module: tools.Module, *, report: tools.Report) -> Path:
        report("Building")
        built.append(module.name)
        return tmp_path

    monkeypatch.setattr(build, "build", build_one)
    monkeypatch.setattr(browser, "is_there", lambda: True)
    monkeypatch.setattr(browser, "main", lambda: None)
    assert of_tests.main() == 0
    wanted = of_tests.EVERY_RUN + (of_tests.LONG_RUNS if LONG else ())
    assert built == [each.name for each in wanted]
    first, *others = capsys.readouterr().err.splitlines()
    assert f"about {sum(each.minutes for each in wanted)} minutes on two cores" in first
    assert others[0] == f"[1/{len(wanted)}] Building"


def test_nothing_is_built_and_nothing_is_printed_where_all_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(of_tests, "_is_there", lambda module: True)
    monkeypatch.setattr(browser, "is_there", lambda: True)
    monkeypatch.setattr(browser, "main", lambda: None)
    assert of_tests.main() == 0 and capsys.readouterr() == ("", "")


def test_a_browser_that_cannot_be_fetched_is_said_plainly_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(of_tests, "_is_there", lambda module: False)
    monkeypatch.setattr(build, "build", lambda module, report: pytest.fail(f"{module.name} is built"))
    assert of_tests.main() == 1
    assert "which npm fetches: install npm" in capsys.readouterr().err
