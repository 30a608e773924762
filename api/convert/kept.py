"""Fields that a conversion cannot carry over, kept as a difference in an annotation and applied again on the way back.

A difference has, for an object or list, which keys are removed (`-`), set (`=`), or changed inside (`.`; for elements
of lists `*`, identified by their `name`, else by their position). It is applied only where the result still has the
same content as the object it is applied to: an edit made meanwhile has precedence.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from api.objects import Raw

_PREFIX: Final = "conversion.kueue.x-k8s.io/"
_OUTSIDE: Final = frozenset({"apiVersion", "kind", "metadata"})
LIMIT: Final = 200_000
"""Bytes of a difference that is kept: an object may have 256 KiB of annotations in all."""
_BULK: Final = "topologyAssignment"
MALFORMED: Final = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""The errors of a conversion of an object that does not match its schema."""


def taken(obj: Raw, version: str) -> tuple[Raw, Any]:
    """Returns the object without the annotation for `version`, and that difference (None if there is none)."""
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    key = _PREFIX + version
    if key not in annotations:
        return obj, None
    rest = {name: value for name, value in annotations.items() if name != key}
    bare = {name: value for name, value in metadata.items() if name != "annotations"}
    if rest:
        bare["annotations"] = rest
    try:
        held = json.loads(annotations[key])
    except (ValueError, TypeError, RecursionError):
        held = None
    return {**obj, "metadata": bare}, held


def put(obj: Raw, version: str, held: Raw | None) -> Raw:
    """Returns the object with the difference for `version` as annotation, or as much of it as an annotation can
    hold.
    """
    text = _fitting(held)
    if not text:
        return obj
    metadata = obj.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), _PREFIX + version: text}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def _fitting(held: Raw | None) -> str:
    """Returns the difference as text; if that is too long, without parts that can be created again.

    First the form of topology assignments is dropped (the other version has the same content in its own form), then the
    status, which controllers write again; a spec alone that is too long is not kept.
    """
    for thin in (lambda whole: whole, _without_assignments, lambda whole: _less(whole, "status")):
        if not held:
            return ""
        held = thin(held)
        text = json.dumps(held, separators=(",", ":"), sort_keys=True) if held else ""
        if len(text) <= LIMIT:
            return text
    return ""


def _without_assignments(held: Raw) -> Raw:
    """Without changes to fields that are topology assignments; fields that are set as a whole stay whole."""
    lean = _less(held, _BULK, parts=(".",))
    for inside in (".", "*"):
        children = {key: _without_assignments(child) for key, child in _map(lean.get(inside)).items()}
        children = {key: child for key, child in children.items() if child}
        lean = {**without(lean, inside), **({inside: children} if children else {})}
    return lean


def _less(held: Raw, field: str, parts: tuple[str, ...] = ("=", ".")) -> Raw:
    """A difference that leaves a field as it is found."""
    lean = {part: without(value, field) if part in parts else value for part, value in held.items()}
    return {part: value for part, value in lean.items() if value}


def same(first: Raw, second: Raw) -> bool:
    """Whether two objects have the same content, regardless of metadata and version."""
    return _content(first) == _content(second)


def difference(before: Raw, after: Raw) -> Raw | None:
    """Returns the difference from the content of `before` to that of `after`; None if they are equal."""
    return _difference(_content(before), _content(after))


def applied(obj: Raw, held: Any) -> Raw | None:
    """The object with the difference applied; None where the difference is none, or of another object."""
    try:
        content = _applied(_content(obj), held)
    except MALFORMED:
        return None
    if not isinstance(content, dict):
        return None
    return {**{key: value for key, value in obj.items() if key in _OUTSIDE}, **content}


def additions(held: Any) -> Any:
    """Returns the part of a difference that only sets absent fields."""
    if not isinstance(held, dict):
        return held
    new = {"=": fresh} if (fresh := {key: value for key, value in _map(held.get("=")).items() if key}) else {}
    inside = {
        kind: {key: additions(child) for key, child in _map(held.get(kind)).items()}
        for kind in (".", "*")
        if kind in held
    }
    return {**new, **inside}


def _map(value: Any) -> Raw:
    return value if isinstance(value, dict) else {}


def _content(obj: Raw) -> Raw:
    return {key: value for key, value in obj.items() if key not in _OUTSIDE}


def _difference(before: Any, after: Any) -> Raw | None:
    if before == after:
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        return _of_maps(before, after, ".")
    if isinstance(before, list) and isinstance(after, list):
        ours, theirs = _keyed(before), _keyed(after)
        if list(ours) == list(theirs):
            return _of_maps(ours, theirs, "*")
    return {"=": {"": after}}


def _of_maps(before: Mapping[str, Any], after: Mapping[str, Any], inside: str) -> Raw:
    gone = sorted(set(before) - set(after))
    set_anew = {key: value for key, value in after.items() if key not in before}
    changed = {key: _difference(before[key], value) for key, value in after.items() if key in before}
    changed = {key: value for key, value in changed.items() if value is not None}
    parts: Raw = {"-": gone, "=": set_anew, inside: changed}
    return {key: value for key, value in parts.items() if value}


def _keyed(elements: list[Any]) -> dict[str, Any]:
    """Returns elements by their names, if each has a unique one, else by their positions."""
    names = [element.get("name") if isinstance(element, dict) else None for element in elements]
    if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
        return dict(zip((str(name) for name in names), elements, strict=True))
    return {str(index): element for index, element in enumerate(elements)}


def _applied(value: Any, held: Any) -> Any:
    if "" in held.get("=", {}):
        return held["="][""]
    if "*" in held:
        elements = _keyed(value)
        return [_inside(element, held["*"].get(key)) for key, element in elements.items()]
    rest = {key: child for key, child in value.items() if key not in held.get("-", ())}
    changed = {key: _inside(child, held.get(".", {}).get(key)) for key, child in rest.items()}
    return {**changed, **held.get("=", {})}


def _inside(value: Any, held: Any) -> Any:
    return value if held is None else _applied(value, held)


def at(obj: Raw, field: str, change: Callable[[Raw], Raw]) -> Raw:
    """A copy with one field, an object, changed; without the field, the object itself."""
    return {**obj, field: change(obj[field])} if isinstance(obj.get(field), dict) else obj


def each(obj: Raw, field: str, change: Callable[[Raw], Raw]) -> Raw:
    """A copy with every object in a list changed; without the list, the object itself."""
    found = obj.get(field)
    if not isinstance(found, list):
        return obj
    return {**obj, field: [change(element) if isinstance(element, dict) else element for element in found]}


def without(obj: Raw, *fields: str) -> Raw:
    """A copy without some fields."""
    return {key: value for key, value in obj.items() if key not in fields}


def renamed(obj: Raw, old: str, new: str) -> Raw:
    """A copy with one field under another name."""
    return {**without(obj, old), new: obj[old]} if old in obj else obj
