"""Work that takes long, in steps between which others may run."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

_Result = TypeVar("_Result")
Steps: TypeAlias = Generator[None, None, _Result]
"""Yields between two steps, and returns a result."""


def completed(steps: Steps[_Result]) -> _Result:
    """Returns the result of steps, all of them at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: _Result = end.value
            return found
