"""kubectl's JSONPath templates: ``-o jsonpath={.items[*].metadata.name}``. Pure.

https://kubernetes.io/docs/reference/kubectl/jsonpath/ is what it follows: fields, indexes, slices, unions, wildcards,
recursive descent, filters, ``range``, and text. A field that does not exist prints nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

_TOKEN: Final = re.compile(r"\{((?:[^{}'\"]|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")*)\}")
_NAME: Final = re.compile(r"(?:[^\s.\[\]()'\"\\|=<>!&]|\\.)+")
_FILTER: Final = re.compile(r"\s*(?P<left>@[^=!<>]*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<right>.+?)\s*)?$")
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda left, right: bool(left == right),
    "!=": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}
MOST_DEEP: Final = 100
"""So many levels of ``range`` may be in each other."""


class JsonPathError(ValueError):
    """A template cannot be read; the message names the part."""


def rendered(template: str, value: object) -> str:
    """Returns a template, with the values that its paths find. Raises JsonPathError."""
    parts = _parsed(template)
    text, left = _run(parts, 0, value, value, 0)
    if left < len(parts):
        raise JsonPathError("jsonpath: {end} without {range}")
    return text


def found(template: str, value: object) -> list[object]:
    """Returns the values that the paths of a template find."""
    return [each for kind, text in _parsed(template) if kind == "path" for each in _values(text, value, value)]


def _parsed(template: str) -> list[tuple[str, str]]:
    """The parts: (text, ...), (path, ...), (range, path) and (end, "")."""
    parts: list[tuple[str, str]] = []
    at = 0
    for match in _TOKEN.finditer(template):
        _add_text(parts, template[at : match.start()])
        at = match.end()
        inside = match[1].strip()
        if inside.startswith("range ") or inside == "range":
            parts.append(("range", inside[5:].strip()))
        elif inside == "end":
            parts.append(("end", ""))
        elif inside[:1] in ("'", '"'):
            parts.append(("text", _unquoted(inside)))
        elif inside:
            parts.append(("path", inside))
    _add_text(parts, template[at:])
    return parts


def _add_text(parts: list[tuple[str, str]], text: str) -> None:
    if "{" in text or "}" in text:
        raise JsonPathError(f"jsonpath: unclosed action in {text!r}")
    if text:
        parts.append(("text", text))


def _unquoted(text: str) -> str:
    body = text[1:-1] if len(text) > 1 and text[-1] == text[0] else text[1:]
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[1]), body)


def _run(parts: Sequence[tuple[str, str]], at: int, root: object, here: object, depth: int) -> tuple[str, int]:
    """Renders from a part to the end of its range; returns the text and the part after it."""
    if depth > MOST_DEEP:
        raise JsonPathError(f"jsonpath: more than {MOST_DEEP} ranges in each other")
    found: list[str] = []
    while at < len(parts):
        kind, text = parts[at]
        if kind == "end":
            return "".join(found), at
        if kind == "range":
            after = _end(parts, at)
            for each in _values(text, root, here):
                inner, _ = _run(parts, at + 1, root, each, depth + 1)
                found.append(inner)
            at = after
        elif kind == "path":
            found.append(" ".join(_text(each) for each in _values(text, root, here)))
        else:
            found.append(text)
        at += 1
    return "".join(found), at


def _end(parts: Sequence[tuple[str, str]], start: int) -> int:
    depth = 0
    for at in range(start, len(parts)):
        depth += {"range": 1, "end": -1}.get(parts[at][0], 0)
        if not depth:
            return at
    raise JsonPathError("jsonpath: {range} without {end}")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return "" if value is None else str(value)


def _values(path: str, root: object, here: object) -> list[Any]:
    """The values that a path finds, from the root with $, else from here."""
    values: list[Any] = [here]
    rest = path
    if rest.startswith(("$", "@")):
        values, rest = [root if rest[0] == "$" else here], rest[1:]
    while rest:
        if rest.startswith(".."):
            deep = [each for value in values for each in _all(value)]
            name = _NAME.match(rest, 2)
            if name is None:
                values, rest = deep, rest[2:]
            else:
                values, rest = list(_fields(deep, _plain(name[0]))), rest[name.end() :]
        elif rest.startswith("["):
            inside, rest = _bracket(rest)
            values = list(_chosen(values, inside, root))
        else:
            start = 1 if rest[0] == "." else 0
            name = _NAME.match(rest, start)
            if name is None:
                if rest == ".":
                    break
                if start and rest[1:2] == "[":
                    rest = rest[1:]
                    continue
                raise JsonPathError(f"jsonpath: {path!r} cannot be read at {rest!r}")
            values, rest = list(_fields(values, _plain(name[0]))), rest[name.end() :]
    return values


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _fields(values: Sequence[Any], name: str) -> Iterator[Any]:
    for value in values:
        if name == "*":
            yield from value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
        elif isinstance(value, dict) and name in value:
            yield value[name]


def _all(value: Any) -> Iterator[Any]:
    """A value and all values in it."""
    waiting = [value]
    while waiting:
        each = waiting.pop(0)
        yield each
        waiting[:0] = each if isinstance(each, list) else each.values() if isinstance(each, dict) else ()


def _bracket(text: str) -> tuple[str, str]:
    """What is in the bracket at the start of a text, and what follows it."""
    depth, quote = 0, ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += {"[": 1, "]": -1}.get(letter, 0)
            if not depth:
                return text[1:at].strip(), text[at + 1 :]
    raise JsonPathError(f"jsonpath: unclosed bracket in {text!r}")


def _chosen(values: Sequence[Any], inside: str, root: object) -> Iterator[Any]:
    """The elements that a bracket chooses."""
    if inside.startswith("?(") and inside.endswith(")"):
        for value in values:
            items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
            yield from (each for each in items if _passes(inside[2:-1], each, root))
        return
    for part in inside.split(","):
        for value in values:
            yield from _elements(value, part.strip())


def _elements(value: Any, part: str) -> Iterator[Any]:
    """The elements of one part of a union. In quotes is a path, as in kubectl: a dot in a name is written \\."""
    if part[:1] in ("'", '"') and part:
        yield from _values(f".{part[1:-1]}", value, value)
    elif part == "*":
        yield from _fields([value], "*")
    elif isinstance(value, list):
        if not re.fullmatch(r"-?\d*(:-?\d*){0,2}", part) or not part:
            raise JsonPathError(f"jsonpath: [{part}] is not an index")
        numbers = [int(each) if each else None for each in part.split(":")]
        if len(numbers) == 1 and numbers[0] is not None:
            yield from value[numbers[0] :][:1] if -len(value) <= numbers[0] < len(value) else ()
        elif len(numbers) > 2 and numbers[2] == 0:
            raise JsonPathError(f"jsonpath: [{part}]: the step must not be 0")
        elif len(numbers) > 1:
            yield from value[slice(*numbers)]


def _passes(text: str, value: object, root: object) -> bool:
    match = _FILTER.match(text)
    if match is None:
        raise JsonPathError(f"jsonpath: the filter {text!r} cannot be read")
    left = _values(match["left"], root, value)
    if match["op"] is None:
        return bool(left)
    right = _operand(match["right"], root, value)
    try:
        return bool(left) and bool(right) and _COMPARE[match["op"]](left[0], right[0])
    except TypeError:
        return False


def _operand(text: str, root: object, value: object) -> list[Any]:
    if text[:1] in ("'", '"'):
        return [_unquoted(text)]
    if text[:1] in "@$":
        return _values(text, root, value)
    try:
        return [json.loads(text)]
    except ValueError:
        raise JsonPathError(f"jsonpath: {text!r} is no value: quote a string") from None
