"""The project as a whole: it stands alone, and CI hides no flaky test."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_no_file_refers_to_a_folder_beside_the_project() -> None:
    name = "shared"
    beside = [f"../{name}", f'/ "{name}"', "SEIRETSU_" + "SEEDS"]
    words = [word for text in beside for word in ("-e", text)]
    found = subprocess.run(["git", "grep", "-lF", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout == ""
    assert found.returncode == 1  # searched, and nothing found


def left_open(statements: Sequence[ast.stmt]) -> Iterator[int]:
    """Yields the lines after which something is closed only if what runs in the context does not fail."""
    for number, each in enumerate(statements):
        if isinstance(each, ast.Try) and (each.finalbody or each.handlers):
            continue
        yields = any(isinstance(found, ast.Yield) for found in ast.walk(each))
        others = [found for found in statements[number + 1 :] if not isinstance(found, ast.Return)]
        if yields and others and not isinstance(each, ast.If):
            yield each.lineno
        for name in ("body", "orelse"):
            yield from left_open(getattr(each, name, []))


@pytest.mark.parametrize("folder", ["tests", "bench"])
def test_a_test_that_fails_leaves_nothing_open(folder: str) -> None:
    """A connection that a failed test leaves open makes another test fail, in which it is collected."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        if any("contextmanager" in ast.unparse(decorator) for decorator in function.decorator_list)
        for line in left_open(function.body)
    ]
    assert not found, "close in `finally` what a context opened"


def test_no_wait_of_a_test_has_a_limit_of_its_own() -> None:
    """A limit that only a hang should reach is `PATIENCE` of `tests/eventually.py`."""
    limit = re.compile(r"asyncio\.timeout\(\d|(?<!_)within=\d|[( ]timeout=\d(?! \* PATIENCE)|--timeout=\d")
    meant = {
        "tests/test_eventually.py",  # the end of a wait in vain itself
        "tests/replicas.py",  # the time after which a probe of Kubernetes fails
        "tests/cluster/test_client.py",  # a job that waits until its caller's time is over
        "tests/core/test_lifecycle.py",  # waitForPodsReady.timeout
    }
    found = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py") if limit.search(path.read_text())}
    assert found == meant


AT_FIRST = """
import pathlib, pytest
first = not pathlib.Path(__file__).with_suffix(".ran").exists()
def test_steady(): pass
def test_broken(): assert {broken}
def test_flaky(): assert not first
{marked}def test_last(): pathlib.Path(__file__).with_suffix(".ran").touch(); assert not first
"""


def test_the_second_try_repeats_what_failed_and_prints_as_flaky_what_passes_then(tmp_path: Path) -> None:
    hooks = "pytest_collection_modifyitems, pytest_terminal_summary"
    (tmp_path / "conftest.py").write_text(f"from tests.conftest import {hooks}\n")
    (tmp_path / "test_alone.py").write_text(AT_FIRST.format(broken=False, marked=""))
    (tmp_path / "test_whole.py").write_text(AT_FIRST.format(broken=True, marked="@pytest.mark.of_its_file\n"))

    def tried(**environment: str) -> list[str]:
        program = [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "--rootdir", str(tmp_path), str(tmp_path)]
        known = os.environ | {"PYTHONPATH": str(ROOT)} | environment
        done = subprocess.run(program, cwd=ROOT, env=known, capture_output=True, text=True, check=False)
        return done.stdout.splitlines()

    assert tried()[-1].startswith("5 failed, 3 passed")
    *told, summary = tried(SEIRETSU_SECOND_TRY="1")
    assert summary.startswith("1 failed, 6 passed"), "of the first file without the test that passed"
    flaky = (
        "test_alone.py::test_flaky",
        "test_alone.py::test_last",
        "test_whole.py::test_flaky",
        "test_whole.py::test_last",
    )
    assert [line for line in told if line.startswith("FLAKY")] == [
        f"FLAKY {name} failed at first and passed at the second try" for name in flaky
    ]


PROGRAMS = (
    "api",
    "core",
    "controller",
    "webhook",
    "certs",
    "operations",
    "app",
    "cli",
    "seiretsu",
    "observer",
    "devcluster",
    "bench",
)
SAME_NAMES: Mapping[str, str] = {
    "api/v1beta2": "Classes have the names of the kinds and fields in the API.",
    "api/v1alpha1": "Classes have the names of these kinds and fields, as in v1beta2.",
    "api/v1beta1": "Classes have the same names as in v1beta2",
    "api/configuration": "A class has the name of the section of the Configuration that it reads.",
    "api/names.py": "A namespace has the name of the type whose values it lists.",
    "bench": "its classes may have the names of those of the program, and none has that of another one here",
    "core/model": "A struct has the name of the kind or field in ``api`` that it is made of.",
    "devcluster": "its classes may have the names of classes there",
    "observer": "Its classes may have the names of those of Seiretsu, with which they share nothing.",
    "seiretsu/client": "its classes may have the names of those of the program",
}
"""Where a class may have a name that another place has, too, and the reason, which the docstring there gives."""
MODEL = "core/model"
"""Shares names with ``api``, but not with the rest of the program."""


def place_of(path: Path) -> str:
    name = str(path.relative_to(ROOT))
    return next((place for place in SAME_NAMES if name.startswith(place) and place != MODEL), "elsewhere")


def types_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yields the classes and the names of types in a module, each with what it is: for a class, the module. The same
    name for an equal type has one meaning. What only annotations of its own module name (``TypeVar``) is left out.
    """
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, str(path.relative_to(ROOT))
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and re.match("[A-Z][a-z]", target.id) and value is not None:
            meaning = ast.unparse(value)
            if not meaning.startswith("TypeVar("):
                yield target.id, meaning


def test_the_name_of_a_type_means_one_thing() -> None:
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for path in (path for top in PROGRAMS for path in (ROOT / top).rglob("*.py")):
        for name, meaning in types_of(path):
            found[place_of(path), name].add(meaning)
    assert {name: meanings for (_, name), meanings in found.items() if len(meanings) > 1} == {}


@pytest.mark.parametrize("place", SAME_NAMES)
def test_a_place_with_names_of_others_gives_the_reason(place: str) -> None:
    path = ROOT / place
    docstring = ast.get_docstring(ast.parse((path if path.is_file() else path / "__init__.py").read_text()))
    assert SAME_NAMES[place] in " ".join((docstring or "").split())


def given_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The names that a module gives, not those of others that it uses, and their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.ClassDef(name=name):
                yield name, node.lineno


@pytest.mark.parametrize("top", PROGRAMS)
def test_a_name_is_what_happens_and_not_told_or_said(top: str) -> None:
    """CONTRIBUTING.md has one verb for each fact: write, record, report, log, return, wake."""
    vague = {"tell", "tells", "told", "untold", "say", "says", "said"}
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted((ROOT / top).rglob("*.py"))
        for name, line in given_names(ast.parse(path.read_text()))
        if vague & set(name.lower().split("_"))
    ]
    assert not found, "what is written, recorded, reported, logged or returned"


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules and names that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_the_rooms_of_controller_are_few_layers_with_few_arrows() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each.get("containers") == ["controller"])
    rooms = {room for layer in layers for room in layer.split(" | ")}
    arrows = {
        (room, name.split(".")[1])
        for path in (ROOT / "controller").rglob("*.py")
        for name in imported(ast.parse(path.read_text()))
        if name.startswith("controller.")
        and (room := path.relative_to(ROOT / "controller").parts[0].removesuffix(".py")) != name.split(".")[1]
    }
    assert {room for arrow in arrows for room in arrow} <= rooms, "a room that no layer has"
    assert len(layers) <= 5
    assert len(arrows) <= 32, f"there are {len(arrows)} arrows between rooms: {sorted(arrows)}"
