"""Which LocalQueue a job is mapped to: the rules of a mapping file in the form of Kueue's importer, or those of one
label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from api.syntax import dns1123_subdomain
from core.model import Labels

NO_MAPPING: Final = "no mapping found"
_FIELDS: Final = ("match", "toLocalQueue", "skip")
_MATCHES: Final = ("priorityClassName", "labels")


class MappingError(ValueError):
    """A mapping has mistakes; ``mistakes`` has a sentence for each, with its path."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(mistakes))


@dataclass(frozen=True, slots=True)
class MappingRule:
    """Jobs with this PriorityClass ('' for any) and all of these labels go to ``queue``, or are left alone
    (``skip``).
    """

    queue: str = ""
    skip: bool = False
    priority_class: str = ""
    labels: Labels = field(default_factory=dict)

    def matches(self, priority_class: str, labels: Labels) -> bool:
        """Whether a job with this PriorityClass and these labels is meant."""
        if self.priority_class and self.priority_class != priority_class:
            return False
        return self.labels.items() <= labels.items()


def rule_for(rules: Iterable[MappingRule], priority_class: str, labels: Labels) -> MappingRule | None:
    """Returns the first rule that matches, None if there is none."""
    return next((rule for rule in rules if rule.matches(priority_class, labels)), None)


def of_label(label: str, queues: Mapping[str, str]) -> tuple[MappingRule, ...]:
    """Returns a rule for each value of one label. Raises MappingError for a queue that is no name."""
    mistakes = [text for value, queue in queues.items() for text in _queue(f"{label}={value}", queue)]
    if mistakes:
        raise MappingError(mistakes)
    return tuple(MappingRule(queue=queues[value], labels={label: value}) for value in sorted(queues))


def of_document(document: Any) -> tuple[MappingRule, ...]:
    """Returns the rules of a mapping file, in order. Raises MappingError with all of its mistakes."""
    if not isinstance(document, list):
        raise MappingError([f"a mapping is a list of rules with {', '.join(_FIELDS)}, not {_kind(document)}"])
    mistakes: list[str] = []
    rules = [_rule(f"[{place}]", each, mistakes) for place, each in enumerate(document)]
    if mistakes:
        raise MappingError(mistakes)
    return tuple(rules)


def _rule(path: str, raw: Any, mistakes: list[str]) -> MappingRule:
    """One rule; its mistakes are added."""
    if not isinstance(raw, dict):
        mistakes.append(f"{path}: a rule is an object with {', '.join(_FIELDS)}, not {_kind(raw)}")
        return MappingRule()
    match = raw.get("match") or {}
    if not isinstance(match, dict):
        mistakes.append(f"{path}.match: an object with {' and '.join(_MATCHES)}, not {_kind(match)}")
        match = {}
    mistakes += _unknown(path, raw, _FIELDS) + _unknown(f"{path}.match", match, _MATCHES)
    queue, skip = raw.get("toLocalQueue") or "", raw.get("skip") or False
    priority_class, labels = match.get("priorityClassName") or "", match.get("labels") or {}
    if not isinstance(skip, bool):
        mistakes.append(f"{path}.skip: true or false, not {_kind(skip)}")
    if not isinstance(priority_class, str):
        mistakes.append(f"{path}.match.priorityClassName: a text, not {_kind(priority_class)}")
    if not isinstance(labels, dict) or not all(isinstance(each, str) for pair in labels.items() for each in pair):
        mistakes.append(f"{path}.match.labels: texts by text; put numbers, true and false in quotes")
        labels = {}
    if skip is not True:
        mistakes += _queue(f"{path}.toLocalQueue", queue)
    return MappingRule(str(queue), skip is True, str(priority_class), labels)


def _queue(path: str, name: Any) -> list[str]:
    if not isinstance(name, str) or not name:
        return [f"{path}: name a LocalQueue, or set skip: true"]
    return [f"{path}: {name!r} is no name of a LocalQueue: {text}" for text in dns1123_subdomain(name)]


def _unknown(path: str, raw: Mapping[Any, Any], known: Sequence[str]) -> list[str]:
    return [f"{path}: unknown field {key!r}; there are {', '.join(known)}" for key in raw if key not in known]


def _kind(value: Any) -> str:
    named = {type(None): "nothing", dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return named.get(type(value), "a number")
