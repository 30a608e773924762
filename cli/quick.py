"""Reads a well-formed command line without Typer's own conversion, which imports pydantic: a third of the time in which
``kubectl seiretsu explain`` answers.

It understands the plainest command lines of a command alone. Everything else (help, mistakes) is left to Typer,
which reads the same signature, so both always accept the same options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer


def arguments(command: Callable[..., None], words: Sequence[str]) -> dict[str, Any] | None:
    """Returns the arguments of a command function for these words; None if Typer must read them."""
    kinds, defaults = get_type_hints(command, include_extras=True), inspect.signature(command).parameters
    options: dict[str, str] = {}
    positional: list[str] = []
    for name, kind in kinds.items():
        info = get_args(kind)[1] if get_origin(kind) is Annotated else None
        if isinstance(info, type(typer.Argument())):
            positional.append(name)
        elif isinstance(info, type(typer.Option())):
            first = (info.default,) if isinstance(info.default, str) else ()  # where Annotated has the spellings
            for spelt in (*first, *(info.param_decls or ())) or (f"--{name.replace('_', '-')}",):
                options[spelt] = name
    given: dict[str, Any] = {}
    free = list(positional)
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if not word.startswith("-"):
            if not free or not word:
                return None
            if get_origin(get_args(kinds[free[0]])[0]) is None:
                given[free.pop(0)] = word
            else:
                given.setdefault(free[0], []).append(word)
            continue
        if option not in options or (equals and not option.startswith("--")):
            return None
        name = options[option]
        if get_args(kinds[name])[0] is bool:
            if equals:
                return None
            given[name] = True
            continue
        text = value if equals else next(left, None)
        if text is None or (not equals and text.startswith("-")):
            return None
        many, converted = _converted(get_args(kinds[name])[0], text)
        if converted is None or (name in given and not many):
            return None
        given[name] = [*given.get(name, []), converted] if many else converted
    required = [name for name, each in defaults.items() if each.default is inspect.Parameter.empty]
    if any(name not in given for name in required):
        return None
    return {name: each.default for name, each in defaults.items() if name not in required} | given


def of_group(app: typer.Typer, word: str) -> Callable[..., None] | None:
    """Returns the function of a command in a group, None if the group has none of this name."""
    found = (each.callback for each in app.registered_commands if each.name == word)
    return next(found, None)


def _converted(kind: Any, text: str) -> tuple[bool, Any]:
    """Whether an option may be repeated, and its value; None for a type that is left to Typer, or a wrong value."""
    if get_origin(kind) in (Union, type(int | None)):
        kind = next(each for each in get_args(kind) if each is not type(None))
    if get_origin(kind) is list:
        return True, text if get_args(kind) == (str,) else None
    if get_origin(kind) is Literal:
        return False, text if text in get_args(kind) else None
    if kind is Path:
        return False, Path(text)
    return False, text if kind is str else None
