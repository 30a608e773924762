"""The two lock files: the image gets what the program runs on, to the last package, and no tool of ours."""

from __future__ import annotations

import importlib.metadata as metadata
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked(file: str) -> dict[str, str]:
    """The versions of a lock file by the packages' names."""
    lines = (line.strip().partition("==") for line in (ROOT / file).read_text().splitlines() if line.strip())
    return {canonicalize_name(name): version for name, _, version in lines}


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
    given, used = set(locked("requirements.lock")), needed(PROJECT["dependencies"])
    assert used <= given
    assert not (given - used) & needed(PROJECT["optional-dependencies"]["dev"])


def test_the_tools_of_development_are_locked_apart() -> None:
    runtime, tools = locked("requirements.lock"), locked("requirements-dev.lock")
    assert not runtime.keys() & tools.keys()
    assert needed(PROJECT["optional-dependencies"]["dev"]) <= runtime.keys() | tools.keys()
    assert not {"ruff", "mypy", "pytest", "hypothesis"} & runtime.keys()


def test_the_image_is_built_from_the_lock_of_the_program_alone() -> None:
    assert "requirements-dev" not in "".join(
        line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")
    )
