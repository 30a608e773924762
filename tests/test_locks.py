"""The lock files: the image gets what the program needs, each file with its hash, and no tool of development."""

from __future__ import annotations

import importlib.metadata as metadata
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock")


def entries(file: str) -> list[list[str]]:
    """The entries of a lock file: a package with its version, then its hashes."""
    return [entry.split() for entry in (ROOT / file).read_text().replace("\\\n", " ").splitlines()]


def locked(file: str) -> dict[str, str]:
    """The versions of a lock file by the packages' names."""
    pairs = (entry[0].partition("==") for entry in entries(file))
    return {canonicalize_name(name): version for name, _, version in pairs}


def needed(asked: Iterable[str]) -> set[str]:
    """The names of the packages that are needed for those asked for, themselves among them, on this machine."""
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(text) for text in asked]
    while waiting:
        wanted = waiting.pop()
        extras = wanted.extras or {""}
        if wanted.marker is not None and not any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        name = canonicalize_name(wanted.name)
        if (name, frozenset(extras)) in found:
            continue
        found.add((name, frozenset(extras)))
        for text in metadata.distribution(name).requires or ():
            more = Requirement(text)
            if more.marker is None or any(more.marker.evaluate({"extra": extra}) for extra in extras):
                more.marker = None
                waiting.append(more)
    return {name for name, _ in found}


def test_the_image_is_given_what_the_program_needs_and_nothing_that_only_developers_do() -> None:
    """The driver of PostgreSQL too: the image's users cannot install an extra."""
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["postgres"]]
    given, used = set(locked("requirements.lock")), needed(wanted)
    assert used <= given
    assert given - used <= {"typing-extensions"}, "other Pythons need it"


def test_the_tools_of_development_are_locked_apart() -> None:
    runtime, tools = locked("requirements.lock"), locked("requirements-dev.lock")
    assert not runtime.keys() & tools.keys()
    assert needed(PROJECT["optional-dependencies"]["dev"]) <= runtime.keys() | tools.keys()
    assert not {"ruff", "mypy", "pytest", "hypothesis"} & runtime.keys()


@pytest.mark.parametrize("file", LOCKS)
def test_every_locked_package_has_one_version_and_hashes(file: str) -> None:
    for package, *hashes in entries(file):
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][^*]*", package)
        assert hashes
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", each) for each in hashes), package


def test_packages_are_installed_only_with_the_hash_of_their_lock() -> None:
    """Everything that is installed by pip without --no-deps (the project itself) is checked."""
    for file in ("Makefile", "image/application.py"):
        lines = (ROOT / file).read_text().replace("\\\n", " ").splitlines()
        installs = [line for line in lines if re.search(r"(\$\(PIP\)|pip\()", line) and re.search(r'-r[ "]', line)]
        assert installs
        assert all("--require-hashes" in line for line in installs)


def test_the_image_is_built_without_the_tools_of_development() -> None:
    assert "requirements-dev" not in (ROOT / "Dockerfile").read_text() + (ROOT / "image/application.py").read_text()
