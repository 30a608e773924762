"""Rules and findings, and how the text of a finding is shortened."""

from __future__ import annotations

import bisect
import heapq
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rapidfuzz import process
from rapidfuzz.distance import OSA

from core.state.lookup import Lookup

LIMIT = 120
"""The maximum length of a warning: recommended by the Kubernetes documentation, and one line of a terminal."""

LONGEST = 63
"""Letters of a name for which a similar one is looked for: a label of DNS, which nearly all names are."""

EACH = 3
"""Findings of one rule about one object."""

HINTS = 8
"""Names of one object for which a similar one is looked for: an object may name hundreds that do not exist."""

NOT_JUDGED = "not-judged"
"""The name of the finding that an object was not checked, or not completely. No rule has this name."""

IsSpent = Callable[[], bool]
"""Returns whether the time for one object is used up. Core has no clock, so the caller passes it."""

_Subject = TypeVar("_Subject")


def never() -> bool:
    """There is no end to the time."""
    return False


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding; ``rule`` is the stable name that the Configuration uses."""

    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class Rule(Generic[_Subject]):
    """A named rule. ``about`` is its line in the documentation, ``texts`` returns its messages about a subject, usually
    none.

    ``example`` is such a message, for the documentation; a test compares it with the messages of the rule.
    """

    name: str
    about: str
    texts: Callable[[_Subject, Lookup], Iterable[str]]
    example: str


TOO_SLOW = Finding(NOT_JUDGED, "checks took too long: the other rules were not checked for this object")


def findings(
    rules: Iterable[Rule[_Subject]], subject: _Subject, lookup: Lookup, spent: IsSpent = never
) -> tuple[Finding, ...]:
    """Returns the findings of the rules, in their order; none until the caches are read, because everything would seem
    missing.

    At most ``EACH`` findings for one rule, so that it does not hide other findings: the last one counts the rest. When
    the time is ``spent`` no further rule is checked, and the last finding reports that.
    """
    if not lookup.synced:
        return ()
    found: list[Finding] = []
    for rule in rules:
        if spent():
            return (*found, TOO_SLOW)
        found += (Finding(rule.name, text) for text in _first(rule, subject, lookup))
    return tuple(found)


def news(found: Iterable[Finding], before: Iterable[Finding]) -> tuple[Finding, ...]:
    """Returns the findings about a changed object that were not findings ``before``, so that no warning is repeated.

    A finding that the object was not checked is kept: if the time was spent on the change, ``before`` was not checked
    either.
    """
    known = frozenset(before)
    return tuple(each for each in found if each not in known or each.rule == NOT_JUDGED)


def _first(rule: Rule[_Subject], subject: _Subject, lookup: Lookup) -> list[str]:
    texts = list(rule.texts(subject, lookup))
    if len(texts) <= EACH:
        return texts
    return [*texts[: EACH - 1], f"... and {len(texts) - EACH + 1} more of rule {rule.name}"]


def shortened(name: str) -> str:
    """Marks a name in a variant of ``fitted`` that may lose its middle where the text is too long."""
    return f"{_OPEN}{name}{_CLOSE}"


def fitted(*variants: str, or_else: Collection[str] = ()) -> str:
    """Returns the first variant that is short enough, the longest first; else the first that is short enough with its
    names ``shortened``: as little as possible, then further.

    All ``variants`` have the same facts, first of all, and less advice at their ends. ``or_else`` are variants without
    some facts, used if none of the others fits. The last one is cut if necessary.
    """
    for several in (variants, or_else):
        for least in (LIMIT, _READABLE, _SHORTEST):
            for variant in several:
                if len(found := _squeezed(variant, least)) <= LIMIT:
                    return found
    return _squeezed([*variants, *or_else][-1], _SHORTEST)[: LIMIT - 3] + "..."


_OPEN, _CLOSE = "\x02", "\x03"
_NAME = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
_READABLE, _SHORTEST = 24, 12
"""The remaining length of a name: enough to read it, and to recognize its beginning and end."""


def plain(variant: str) -> str:
    """The text with its names in full, whatever its length."""
    return variant.replace(_OPEN, "").replace(_CLOSE, "") if _OPEN in variant else variant


def _squeezed(variant: str, least: int) -> str:
    """The text with its longest names cut as far as need be, to ``least`` letters: all that are longer to the same
    length.
    """
    if len(text := plain(variant)) <= LIMIT:
        return text
    lengths = list(map(len, _NAME.findall(variant)))
    longest = max(lengths, default=0)
    beyond = len(text) - LIMIT

    def saved(cut: int) -> int:
        return sum(max(length - (longest - cut), 0) for length in lengths)

    cut = bisect.bisect_left(range(max(longest - least, 0)), beyond, key=saved)
    return _NAME.sub(lambda found: _cut(found[1], longest - cut), variant)


def _cut(name: str, length: int) -> str:
    if len(name) <= length:
        return name
    head = (length - 1) // 2
    return f"{name[:head]}..{name[len(name) - (length - 2 - head) :]}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that was probably meant: at most a third of the letters changed, ignoring case; the
    first in the alphabet among equals.

    Runs within an admission request, so its cost is bounded: nothing is compared with a name longer than ``LONGEST``.
    """
    if len(name) > LONGEST:
        return None
    limit = max(1, len(name) // 3)
    alike = [each for each in known if abs(len(each) - len(name)) <= limit]
    found = process.extract_iter(name.lower(), alike, scorer=OSA.distance, processor=str.lower, score_cutoff=limit)
    return min(((changed, each) for each, changed, _ in found), default=(0, None))[1]


def missing(
    kind: str, name: str, known: Iterable[str], *sentences: str, several: str, until: tuple[str, ...] = ()
) -> str:
    """That there is nothing of a kind with that name, and which of the ``known`` was meant, else which there are."""
    there = tuple(known)
    return absent(kind, name, there, closest(name, there), *sentences, several=several, until=until)


def absent(
    kind: str,
    name: str,
    known: Collection[str],
    meant: str | None,
    *sentences: str,
    several: str,
    until: tuple[str, ...] = (),
) -> str:
    """The text of ``missing`` if ``closest`` was called already. ``sentences`` are the message with the consequence,
    the longest first. The wrong name is in every variant; the list of other names is shortened from its end.

    ``until`` are the sentences if no known name is similar: the object may be the next one in the same file.
    """
    if until and meant is None:
        hints = _hints(meant, known, several)[:-1] if known else []
        return fitted(*(f"{sentence}{hint}" for sentence in until for hint in (*hints, "")))
    plain = f'{kind} "{shortened(name)}" does not exist'
    hints = _hints(meant, known, several)
    return fitted(*(f"{sentence}{hint}" for sentence in (*sentences, plain) for hint in hints))


def _hints(meant: str | None, known: Collection[str], several: str) -> list[str]:
    if meant is not None:
        return [f': did you mean "{shortened(meant)}"?']
    if not known:
        return [f": there are no {several} yet"]
    listed = heapq.nsmallest(3, known)
    found = []
    for count in range(len(listed), 0, -1):
        rest = f" and {len(known) - count} more" if len(known) > count else ""
        found.append(f"; available: {', '.join(map(shortened, listed[:count]))}{rest}")
    return [*found, f"; see kubectl get {several.lower()}"]


def resembles(one: str, other: str, limit: int) -> bool:
    """Returns whether at most ``limit`` changes make one of the other: a letter inserted, deleted, replaced or swapped
    with its neighbour.

    Texts whose lengths differ by more are not compared: any user can send megabytes.
    """
    return abs(len(one) - len(other)) <= limit and OSA.distance(one, other, score_cutoff=limit) <= limit
