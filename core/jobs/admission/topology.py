"""The topology annotations of a pod template: which may be combined, and their values.

The order of the levels cannot be checked before a flavor is known; the scheduler reports it then. Source: Kueue's
reference for Topology Aware Scheduling, 0.19/0.20.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from api import syntax
from api.errors import OMITTED, FieldError, duplicate, forbidden, invalid, required
from api.feature_gates import Enabled
from api.names import Annotation
from api.topology_spreading import errors as spreading_errors
from api.topology_spreading import group_errors
from core.jobs.admission.literals import boolean, integer

_MODES: Final = (Annotation.REQUIRED_TOPOLOGY, Annotation.PREFERRED_TOPOLOGY, Annotation.UNCONSTRAINED_TOPOLOGY)
_GROUP: Final = Annotation.POD_SET_GROUP_NAME
_SLICE: Final = Annotation.SLICE_REQUIRED_TOPOLOGY
_SIZE: Final = Annotation.SLICE_SIZE
_LAYERS: Final = Annotation.SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS
_SPREADING: Final = Annotation.TOPOLOGY_SPREADING
_MAX_INT32: Final = 2**31 - 1


class Annotated(NamedTuple):
    """The metadata of a pod template: its path, its annotations, and for how many pods the template is."""

    path: str
    annotations: Mapping[str, str]
    pods: int


def errors(template: Annotated, *, elastic: bool, enabled: Enabled) -> list[FieldError]:
    """Returns the errors of the annotations of a pod template."""
    path, found, pods = f"{template.path}.annotations", template.annotations, template.pods
    wrong = _modes(path, found) + _group(path, found) + _unconstrained(path, found)
    wrong += _slice_size(path, found)
    if _SLICE in found and _SIZE not in found:
        wrong.append(required(f"{path}[{_SIZE}]", f"must be set when '{_SLICE}' is specified"))
    if _SIZE in found and _SLICE not in found:
        wrong.append(forbidden(f"{path}[{_SIZE}]", f"may not be set when '{_SLICE}' is not specified"))
    wrong += _layers(path, found, enabled)
    if enabled("TASTopologySpreading"):
        wrong += _spreading(path, found)
    if wrong:
        return wrong
    if elastic:
        wrong = [
            forbidden(f"{path}.{key}", f"{word} topology is not supported with elastic jobs")
            for key, word in ((_MODES[0], "required"), (_MODES[1], "preferred"))
            if key in found
        ][:1]
    return wrong or _larger_than(path, found, pods)


def groups(templates: Sequence[Annotated], enabled: Enabled) -> list[FieldError]:
    """Returns the errors of the groups of pod sets of one job: pairs, of which one is a single pod, with one
    topology, and spread alike.
    """
    named: dict[str, list[Annotated]] = {}
    for each in templates:
        if _GROUP in each.annotations:
            named.setdefault(each.annotations[_GROUP], []).append(each)
    wrong = [error for name, members in named.items() for error in _of_group(name, members)]
    for name, members in named.items() if enabled("TASTopologySpreading") else ():
        at = [(f"{each.path}.annotations[{_SPREADING}]", each.annotations.get(_SPREADING)) for each in members]
        wrong += group_errors(name, at)
    return wrong


def _of_group(name: str, members: list[Annotated]) -> list[FieldError]:
    paths = [f"{each.path}.annotations" for each in members]
    if len(members) != 2:
        detail = f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)"
        return [invalid(f"{path}[{_GROUP}]", name, detail) for path in paths]
    wrong = []
    one, other = members
    if one.pods != 1 and other.pods != 1:
        detail = (
            "can only define groups where at least one pod set has only 1 replica, got:"
            f" {one.pods} replica(s) and {other.pods} replica(s) in the group"
        )
        wrong += [invalid(f"{path}[{_GROUP}]", name, detail) for path in paths]
    asked = [[each.annotations.get(mode) for mode in _MODES[:2]] for each in members]
    if asked[0] != asked[1] or not any(asked[0]):
        detail = f"must specify '{_MODES[0]}' or '{_MODES[1]}' topology consistent with '%s' in group '{name}'"
        wrong += [invalid(path, OMITTED, detail % than) for path, than in zip(paths, reversed(paths), strict=True)]
    return wrong


def _modes(path: str, found: Mapping[str, str]) -> list[FieldError]:
    wrong = []
    if sum(mode in found for mode in _MODES) > 1:
        listed = ", ".join(f'"{mode}"' for mode in _MODES)
        wrong.append(invalid(path, OMITTED, f"must not contain more than one topology annotation: [{listed}]"))
    for key in (*_MODES[:2], _SLICE):
        if key in found:
            wrong += syntax.checked(f"{path}[{key}]", found[key], syntax.qualified_name)
    return wrong


def _group(path: str, found: Mapping[str, str]) -> list[FieldError]:
    if _GROUP not in found:
        return []
    at = f"{path}[{_GROUP}]"
    wrong = []
    if found[_GROUP].isascii() and found[_GROUP].isdecimal():
        wrong.append(invalid(at, found[_GROUP], "must not be a number"))
    wrong += [forbidden(at, f"may not be set when '{key}' is specified") for key in (_SIZE, _SLICE) if key in found]
    if _MODES[0] not in found and _MODES[1] not in found:
        wrong.append(forbidden(at, f"may not be set when neither '{_MODES[1]}' nor '{_MODES[0]}' is specified"))
    return wrong


def _spreading(path: str, found: Mapping[str, str]) -> list[FieldError]:
    if _SPREADING not in found:
        return []
    at = f"{path}[{_SPREADING}]"
    if _MODES[0] not in found:
        return [forbidden(at, f"may only be set together with '{_MODES[0]}'")]
    return spreading_errors(at, found[_SPREADING])


def _unconstrained(path: str, found: Mapping[str, str]) -> list[FieldError]:
    text = found.get(_MODES[2])
    try:
        boolean("true" if text is None else text)
    except ValueError:
        return [invalid(f"{path}[{_MODES[2]}]", text, "must be a boolean value")]
    return []


def _size(found: Mapping[str, str]) -> int | None:
    """The slice size; None where it is no 32-bit number."""
    try:
        size = integer(found[_SIZE])
    except ValueError:
        return None
    return size if -_MAX_INT32 - 1 <= size <= _MAX_INT32 else None


def _slice_size(path: str, found: Mapping[str, str]) -> list[FieldError]:
    if _SIZE not in found:
        return []
    size = _size(found)
    if size is None:
        return [invalid(f"{path}[{_SIZE}]", found[_SIZE], "must be a numeric value")]
    return [] if size >= 1 else [invalid(f"{path}[{_SIZE}]", found[_SIZE], "must be greater than or equal to 1")]


def _layers(path: str, found: Mapping[str, str], enabled: Enabled) -> list[FieldError]:
    if _LAYERS not in found:
        return []
    at = f"{path}[{_LAYERS}]"
    if not enabled("TASMultiLayerTopology"):
        return [forbidden(at, "the TASMultiLayerTopology feature gate must be enabled to use this annotation")]
    wrong = [forbidden(at, f"may not be set when '{key}' is specified") for key in (_SLICE, _SIZE) if key in found]
    if _GROUP in found:
        wrong.append(forbidden(f"{path}[{_GROUP}]", f"may not be set when '{_LAYERS}' is specified"))
    try:
        layers = _parsed(found[_LAYERS])
    except ValueError as error:
        return [*wrong, invalid(at, found[_LAYERS], f"must be a valid JSON array: {error}")]
    if not 1 <= len(layers) <= 3:
        return [*wrong, invalid(at, found[_LAYERS], "topology constraints must contain between 1 and 3 entries")]
    return wrong + _each_layer(at, layers) + _between_layers(at, layers)


def _parsed(text: str) -> list[tuple[str, int]]:
    layers = orjson.loads(text)
    if not isinstance(layers, list):
        raise ValueError("it is no list")  # noqa: TRY004 - the caller tells apart good and bad text, not types
    return [_layer(layer) for layer in layers]


def _layer(layer: Any) -> tuple[str, int]:
    if not isinstance(layer, dict):
        raise ValueError("an element is no object")  # noqa: TRY004
    topology, size = layer.get("topology") or "", layer.get("size") or 0
    if not isinstance(topology, str) or not isinstance(size, int) or isinstance(size, bool) or abs(size) > _MAX_INT32:
        raise ValueError("an element wants a text as topology and a number as size")
    return topology, size


def _each_layer(at: str, layers: list[tuple[str, int]]) -> list[FieldError]:
    wrong = []
    for index, (topology, size) in enumerate(layers):
        wrong += syntax.checked(f"{at}[{index}].topology", topology, syntax.qualified_name)
        if size < 1:
            wrong.append(invalid(f"{at}[{index}].size", size, "must be greater than or equal to 1"))
    return wrong


def _between_layers(at: str, layers: list[tuple[str, int]]) -> list[FieldError]:
    wrong = []
    seen: dict[str, int] = {}
    for index, (topology, _) in enumerate(layers):
        if topology in seen:
            wrong.append(duplicate(f"{at}[{index}].topology", f"{topology} (also at index {seen[topology]})"))
        seen.setdefault(topology, index)
    for index in range(1, len(layers)):
        above, size = layers[index - 1][1], layers[index][1]
        if size > 0 and above % size:
            wrong.append(invalid(f"{at}[{index}].size", size, f"must evenly divide the parent layer size {above}"))
    return wrong


def _larger_than(path: str, found: Mapping[str, str], pods: int) -> list[FieldError]:
    detail = f"must not be greater than pod set count {pods}"
    if _SIZE in found:
        size = _size(found)
        return [invalid(f"{path}[{_SIZE}]", found[_SIZE], detail)] if size is not None and size > pods else []
    if _LAYERS in found:
        largest = _parsed(found[_LAYERS])[0][1]
        return [invalid(f"{path}[{_LAYERS}]", largest, detail)] if largest > pods else []
    return []
