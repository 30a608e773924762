"""JSON Patch (RFC 6902), with the operations that admission needs: add, remove and replace on a path.

A patch is applied here before the API server gets it: ``failurePolicy: Ignore`` does not cover a patch that cannot be
applied, so a bug in Seiretsu would refuse a user's object.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from core.model import Raw


class PatchError(ValueError):
    """An operation that does not apply to its document; the message names the path."""


class Operation(NamedTuple):
    """One operation. ``path`` holds the unescaped steps; a list index is a number in text, ``-`` its end."""

    op: Literal["add", "remove", "replace"]
    path: tuple[str, ...]
    value: Any = None

    def wire(self) -> Raw:
        """The operation as JSON has it."""
        if self.op == "remove":
            return {"op": self.op, "path": pointer(self.path)}
        return {"op": self.op, "path": pointer(self.path), "value": self.value}


def pointer(path: tuple[str, ...]) -> str:
    """A path as a JSON pointer (RFC 6901)."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)


def add(document: Raw, path: tuple[str, ...], value: Any) -> tuple[Operation, ...]:
    """The one operation that gives ``path`` this value, making the objects above it; none where it has it already."""
    here: Any = document
    for depth, step in enumerate(path[:-1]):
        below = here[int(step)] if isinstance(here, list) else here.get(step)
        if below is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return (Operation("add", path[: depth + 1], value),)
        here = below
    last = path[-1]
    if last in here and here[last] == value and type(here[last]) is type(value):
        return ()
    return (Operation("add", path, value),)


def append(document: Raw, path: tuple[str, ...], value: Any) -> tuple[Operation, ...]:
    """The one operation that puts ``value`` at the end of the list at ``path``; none where the list holds it."""
    here: Any = document
    for step in path:
        here = here.get(step) if isinstance(here, dict) else None
    if not here:
        return add(document, path, [value])
    return () if value in here else (Operation("add", (*path, "-"), value),)


def apply(document: Raw, operations: tuple[Operation, ...]) -> Raw:
    """The document after all operations, as the API server would have it. Copies what is on their paths, each object
    and list once: a tenant may make a list of thousands that each need an operation.
    """
    copies: dict[int, Any] = {}
    for operation in operations:
        if not operation.path:
            raise PatchError("a patch of the whole document is not ours to make")
        document = _changed(document, operation, 0, copies)
    return document


def _changed(node: Any, operation: Operation, depth: int, copies: dict[int, Any]) -> Any:
    if not isinstance(node, dict | list):
        at = pointer(operation.path[:depth])
        raise PatchError(f"{operation.op} {pointer(operation.path)}: {at} is not a container")
    if id(node) not in copies:
        node = node.copy()
        copies[id(node)] = node
    if isinstance(node, dict):
        _change_object(node, operation, depth, copies)
    else:
        _change_list(node, operation, depth, copies)
    return node


def _change_object(copy: Raw, operation: Operation, depth: int, copies: dict[int, Any]) -> None:
    step, last = operation.path[depth], depth == len(operation.path) - 1
    if (not last or operation.op != "add") and step not in copy:
        raise PatchError(
            f"{operation.op} {pointer(operation.path)}: there is no {pointer(operation.path[: depth + 1])}"
        )
    if last and operation.op == "remove":
        del copy[step]
    else:
        copy[step] = operation.value if last else _changed(copy[step], operation, depth + 1, copies)


def _change_list(copy: list[Any], operation: Operation, depth: int, copies: dict[int, Any]) -> None:
    step, last = operation.path[depth], depth == len(operation.path) - 1
    inserting = last and operation.op == "add"
    if inserting and step == "-":
        copy.append(operation.value)
        return
    if not step.isdecimal() or int(step) >= len(copy) + inserting:
        raise PatchError(f"{operation.op} {pointer(operation.path)}: no element {step} among {len(copy)}")
    index = int(step)
    if inserting:
        copy.insert(index, operation.value)
    elif last and operation.op == "remove":
        del copy[index]
    else:
        copy[index] = operation.value if last else _changed(copy[index], operation, depth + 1, copies)
