"""Rules and findings, and how the text of a finding is shortened."""

from __future__ import annotations

import bisect
import heapq
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from core.state.lookup import Lookup

LIMIT = 120
"""The maximum length of a warning: recommended by the Kubernetes documentation, and one line of a terminal."""

LONGEST = 63
"""Letters of a name for which a similar one is looked for: a label of DNS, which nearly all names are."""

CANDIDATES = 200
"""Names that one name is compared with at most."""

EACH = 3
"""Findings of one rule about one object."""

HINTS = 8
"""Names of one object for which a similar one is looked for: an object may name hundreds that do not exist."""

NOT_JUDGED = "not-judged"
"""The name of the finding that an object was not checked, or not completely. No rule has this name."""

Spent = Callable[[], bool]
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
    rules: Iterable[Rule[_Subject]], subject: _Subject, lookup: Lookup, spent: Spent = never
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
    names ``shortened``.

    ``or_else`` are variants without useful parts, used if none of the others fits. The last one is cut if necessary.
    """
    for several in (variants, or_else):
        for cut in (_plain, _squeezed):
            for variant in several:
                if len(found := cut(variant)) <= LIMIT:
                    return found
    return _squeezed([*variants, *or_else][-1])[: LIMIT - 3] + "..."


_OPEN, _CLOSE = "\x02", "\x03"
_NAME = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
_SHORTEST = 12
"""The remaining length of a name: enough to recognize its beginning and end."""


def _plain(variant: str) -> str:
    return variant.replace(_OPEN, "").replace(_CLOSE, "") if _OPEN in variant else variant


def _squeezed(variant: str) -> str:
    """The text with its longest names cut as far as need be: all that are longer to the same length."""
    lengths = list(map(len, _NAME.findall(variant)))
    longest = max(lengths, default=0)
    beyond = max(len(_plain(variant)) - LIMIT, 0)

    def saved(cut: int) -> int:
        return sum(max(length - (longest - cut), 0) for length in lengths)

    cut = bisect.bisect_left(range(max(longest - _SHORTEST, 0)), beyond, key=saved)
    return _NAME.sub(lambda found: _cut(found[1], longest - cut), variant)


def _cut(name: str, length: int) -> str:
    if len(name) <= length:
        return name
    head = (length - 1) // 2
    return f"{name[:head]}..{name[len(name) - (length - 2 - head) :]}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that was probably meant (at most a third of the letters changed, ignoring case), the first
    of several equal ones.

    Runs within an admission request, so its cost is bounded: it returns None if the name is longer than ``LONGEST``,
    and compares at most ``CANDIDATES`` names, those first that share most letters.
    """
    if len(name) > LONGEST:
        return None
    name, limit = name.lower(), max(1, len(name) // 3)
    letters = Counter(name).items()
    alike = []
    for candidate in known:
        if abs(len(candidate) - len(name)) <= limit:
            lowered = candidate.lower()
            shared = sum(min(count, lowered.count(letter)) for letter, count in letters)
            least = max(len(name), len(candidate)) - shared
            if least <= limit:
                alike.append((least, candidate))
    best = None
    for least, candidate in heapq.nsmallest(CANDIDATES, alike):
        if least > limit:
            break
        changed = distance(name, candidate.lower(), limit)
        if changed is not None and (best is None or (changed, candidate) < best):
            best, limit = (changed, candidate), changed
    return best[1] if best else None


def missing(kind: str, name: str, known: Iterable[str], *sentences: str, several: str) -> str:
    """That there is nothing of a kind with that name, and which of the ``known`` was meant, else which there are."""
    there = tuple(known)
    return absent(kind, name, there, closest(name, there), *sentences, several=several)


def absent(kind: str, name: str, known: Collection[str], meant: str | None, *sentences: str, several: str) -> str:
    """The text of ``missing`` if ``closest`` was called already. ``sentences`` are the message with the consequence,
    the longest first. The wrong name is in every variant; the list of other names is shortened from its end.
    """
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


def distance(one: str, other: str, limit: int) -> int | None:
    """Returns how many letters to insert, delete, replace or swap with a neighbour to make one text of the other; None
    above the limit.

    The textbook algorithm, with the columns of the table as bits of integers (Hyyrö, "A bit-vector algorithm for
    computing Levenshtein and Damerau edit distances", 2003): a few operations for each letter of ``other``, stopped as
    soon as the rest cannot bring the distance back to the limit. Texts whose lengths differ by more than the limit are
    not compared: any user can send megabytes, and each column would be an integer of that many bits.
    """
    if abs(len(one) - len(other)) > limit:
        return None
    # Names of one cluster mostly begin alike: that part costs next to nothing.
    pairs = enumerate(zip(one, other, strict=False))
    start = next((at for at, (letter, against) in pairs if letter != against), min(len(one), len(other)))
    one, other = one[start:], other[start:]
    if not one:
        return len(other) if len(other) <= limit else None
    full, last = (1 << len(one)) - 1, 1 << (len(one) - 1)
    places: dict[str, int] = {}
    for at, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << at
    # Of the column before: where it rises and falls downwards by one, and where going diagonally cost nothing.
    rises, falls, free, before = full, 0, 0, 0
    total = len(one)
    for left, letter in zip(range(len(other) - 1, -1, -1), other, strict=True):
        here = places.get(letter, 0)
        swapped = ((~free & here) << 1) & before
        free = ((((here & rises) + rises) ^ rises) | here | falls | swapped) & full
        more, less = falls | (full & ~(free | rises)), free & rises
        total += bool(more & last) - bool(less & last)
        if total - left > limit:
            return None
        more, less = more << 1 | 1, less << 1
        rises, falls, before = (less | ~(free | more)) & full, more & free, here
    return total if total <= limit else None
