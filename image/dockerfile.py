"""Reads a Dockerfile: its stages, and the instructions of each."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

WORDS = ("ARG", "COPY", "RUN", "WORKDIR", "ENV", "LABEL", "USER", "EXPOSE", "ENTRYPOINT", "CMD")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(slots=True)
class Stage:
    """A stage: what it is built on (`scratch`, an earlier stage, an image) and its instructions in order."""

    base: str
    name: str = ""
    instructions: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Dockerfile:
    """The arguments before the first stage, with their defaults, and the stages."""

    arguments: dict[str, str] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)


def parse(text: str) -> Dockerfile:
    """Returns the stages of a Dockerfile. Raises ValueError at an instruction that `image.clean_root` does not know."""
    found = Dockerfile()
    plain = "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))
    for line in plain.replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, *named = rest.split()
            found.stages.append(Stage(expanded(base, found.arguments), named[1] if named else ""))
        elif word == "ARG" and not found.stages:
            name, _, default = rest.partition("=")
            found.arguments[name] = default
        elif word in WORDS:
            found.stages[-1].instructions.append((word, rest.strip()))
        elif word:
            raise ValueError(f"unknown instruction in the Dockerfile: {line}")
    return found


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Returns the text with its variables replaced; unset ones are empty."""
    return _VARIABLE.sub(lambda match: variables.get(match[1] or match[2], ""), text)


def pairs(text: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the names and values of ENV and LABEL."""
    return dict(word.split("=", 1) for word in shlex.split(expanded(text, variables)))


def command(text: str) -> list[str]:
    """Returns the words of RUN, ENTRYPOINT or CMD: a JSON list, or a line for the shell."""
    return [str(word) for word in json.loads(text)] if text.startswith("[") else ["/bin/sh", "-c", text]
