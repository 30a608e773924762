"""What a rule and a finding are, and how the text of a finding is cut to size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from core.lookup import Lookup

LIMIT = 120
"""Characters of a warning: what the Kubernetes documentation asks for, and what a terminal shows in a line."""

_Subject = TypeVar("_Subject")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know; ``rule`` is the stable name that the Configuration speaks of."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class Rule(Generic[_Subject]):
    """A named rule. ``about`` is its line in the documentation, ``texts`` what it says of a subject, mostly nothing.

    ``example`` is such a text, for the documentation; the tests hold it to what the rule really says.
    """

    name: str
    about: str
    texts: Callable[[_Subject, Lookup], Iterable[str]]
    example: str


def findings(rules: Iterable[Rule[_Subject]], subject: _Subject, lookup: Lookup) -> tuple[Finding, ...]:
    """What the rules say, in their order; nothing while the caches are cold, for then everything seems missing."""
    if not lookup.synced:
        return ()
    return tuple(Finding(rule.name, text) for rule in rules for text in rule.texts(subject, lookup))


def fitted(*variants: str) -> str:
    """The first variant that is short enough, the longest first; the last one is cut where none is."""
    for variant in variants:
        if len(variant) <= LIMIT:
            return variant
    return variants[-1][: LIMIT - 3] + "..."


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant (at most a third of the letters changed), the first among equals."""
    ranked = sorted((distance(name, candidate), candidate) for candidate in known)
    if ranked and ranked[0][0] <= max(1, len(name) // 3):
        return ranked[0][1]
    return None


def did_you_mean(name: str, known: Iterable[str], *, several: str) -> str:
    """``did you mean "main"?``, else the first names there are, else that there is none of these ``several``."""
    names = sorted(known)
    meant = closest(name, names)
    if meant is not None:
        return f'did you mean "{meant}"?'
    if not names:
        return f"there are no {several} yet"
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"there are: {', '.join(names[:3])}{rest}"


def distance(one: str, other: str) -> int:
    """Letters to insert, delete, replace or swap with their neighbour to make one of the other.

    Costs the product of the lengths; names of objects have at most 253 letters.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, before, row = before, row, [i] + [0] * len(other)
        for j, against in enumerate(other, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]
