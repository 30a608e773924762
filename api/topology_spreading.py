"""The annotation ``kueue.x-k8s.io/podset-topology-spreading`` of a pod template: its form and its errors.

It says on how many domains of a topology the workloads of one service are spread. Source: KEP 13746, Kueue 0.20 (alpha,
feature gate TASTopologySpreading).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, Final, NamedTuple

import orjson

from api import quantity
from api.errors import (
    OMITTED,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from api.names import Annotation
from api.objects import Raw
from api.syntax import checked, label_value, qualified_name

REQUIRED: Final = "Required"
PREFERRED: Final = "Preferred"
ONE: Final = 10**9
MOST_RULES: Final = 2
LONGEST: Final = 4 * 1024
"""Characters: a longer annotation is refused, before it is read."""
_SELECTORS: Final = "workloadLabelSelectors"
_SHARE: Final = "maxShareAllowingPlacement"
_KEY: Final = Annotation.TOPOLOGY_SPREADING


class SpreadingRule(NamedTuple):
    """A rule: the share of workloads that a domain of the level may have at most for one more to be placed there, in
    billionths (``ONE`` is all), rounded up as Kubernetes rounds quantities; ``text`` is how it was written.
    """

    level: str
    share: int
    mode: str
    text: str = ""


class SpreadingValue(NamedTuple):
    """The annotation. ``selectors`` are the requirements that the labels of Workloads must fulfil, unchanged; without
    any all Workloads of the same job count.
    """

    selectors: tuple[Raw, ...]
    rules: tuple[SpreadingRule, ...]


def parsed(text: str) -> SpreadingValue:
    """Returns the value of an annotation. Raises ``ValueError`` if it has another form; values out of bounds are
    returned as they are.
    """
    if len(text) > LONGEST:
        raise ValueError(f"it has more than {LONGEST} characters")
    raw = _object(orjson.loads(text))
    return SpreadingValue(
        tuple(_requirement(each) for each in _list(raw.get(_SELECTORS), _SELECTORS)),
        tuple(_rule(each) for each in _list(raw.get("rules"), "rules")),
    )


def errors(path: str, text: str) -> list[FieldError]:
    """Returns the errors of an annotation; ``path`` is that of the annotation itself."""
    try:
        value = parsed(text)
    except ValueError as error:
        return [invalid(path, text, f"must be a valid JSON object: {error}")]
    if not 1 <= len(value.rules) <= MOST_RULES:
        detail = f"topology spreading rules must contain between 1 and {MOST_RULES} entries: got {len(value.rules)}"
        return [invalid(path, text, detail)]
    return _of_selectors(f"{path}.{_SELECTORS}", value.selectors) + _of_rules(f"{path}.rules", value.rules)


def group_errors(named: str, members: Sequence[tuple[str, str | None]]) -> list[FieldError]:
    """Returns the errors of the pod sets of one group, which must have equal annotations or none. ``members`` are the
    path of each annotation, and its text if it is there.
    """
    first = next(((path, text) for path, text in members if text is not None), None)
    if first is None:
        return []
    detail = (
        f"must specify the same '{_KEY}' annotation as '{first[0]}' in group '{named}',"
        " or omit the annotation from all members of the group"
    )
    return [
        invalid(path, OMITTED, detail) for path, text in members if text is None or not _agree(text, first[1] or "")
    ]


def _agree(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        these, those = parsed(one), parsed(other)
    except ValueError:
        return False
    return these.selectors == those.selectors and [each[:3] for each in these.rules] == [
        each[:3] for each in those.rules
    ]


def _object(found: Any) -> Raw:
    if not isinstance(found, dict):
        raise ValueError("an object was expected")  # noqa: TRY004 - the caller tells apart good and bad text, not types
    return found


def _list(found: Any, name: str) -> list[Any]:
    if found is None:
        return []
    if not isinstance(found, list):
        raise ValueError(f"{name} is no list")  # noqa: TRY004
    return found


def _text(raw: Raw, name: str) -> str:
    found = raw.get(name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise ValueError(f"{name} is no text")  # noqa: TRY004
    return found


def _requirement(found: Any) -> Raw:
    raw = _object(found)
    values = _list(raw.get("values"), "values")
    if not all(isinstance(each, str) for each in values):
        raise ValueError("values has an element that is no text")
    return {"key": _text(raw, "key"), "operator": _text(raw, "operator"), "values": values}


def _rule(found: Any) -> SpreadingRule:
    raw = _object(found)
    share = raw.get(_SHARE) or 0
    billionths = ceil(quantity.exact(share) * ONE)
    return SpreadingRule(
        _text(raw, "topologyKey"), billionths, _text(raw, "enforcementMode") or REQUIRED, quantity.canonical(share)
    )


def _of_selectors(path: str, selectors: Sequence[Raw]) -> list[FieldError]:
    found = [too_many(path, len(selectors), 1)] if len(selectors) > 1 else []
    for index, each in enumerate(selectors[:1]):
        at = f"{path}[{index}]"
        found += checked(f"{at}.key", each["key"], qualified_name)
        if each["operator"] != "In":
            found.append(not_supported(f"{at}.operator", each["operator"], ["In"]))
            continue
        if not each["values"]:
            found.append(required(f"{at}.values", 'must contain at least one value for the "In" operator'))
        for place, value in enumerate(each["values"]):
            found += checked(f"{at}.values[{place}]", value, label_value)
    return found


def _of_rules(path: str, rules: Sequence[SpreadingRule]) -> list[FieldError]:
    found: list[FieldError] = []
    seen: dict[str, int] = {}
    for index, rule in enumerate(rules):
        at = f"{path}[{index}]"
        found += checked(f"{at}.topologyKey", rule.level, qualified_name)
        if not 0 < rule.share < ONE:
            found.append(invalid(f"{at}.{_SHARE}", rule.text, "must be greater than 0 and less than 1"))
        if rule.mode not in (REQUIRED, PREFERRED):
            found.append(not_supported(f"{at}.enforcementMode", rule.mode, [REQUIRED, PREFERRED]))
        if rule.level in seen:
            found.append(duplicate(f"{at}.topologyKey", f"{rule.level} (also at index {seen[rule.level]})"))
        seen.setdefault(rule.level, index)
    return found
