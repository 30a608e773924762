"""Topology assignments: domain by domain (v1beta1), or in slices that store common parts of domains once (v1beta2)."""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Final

from api.objects import Raw

ROOM: Final = 6_000_000
"""The maximum number of characters of all domains that are converted together. A slice can define billions of domains
in a few bytes, and an object can have hundreds of slices; what is left out is kept by the round trip.
"""
_SPENT_ON_EACH: Final = 32
MOST_DOMAINS: Final = 100_000
"""The maximum number of domains of one slice: the CRD limits the lists of values and of pod counts."""
_room: ContextVar[list[int] | None] = ContextVar("room", default=None)


@contextlib.contextmanager
def one_room() -> Iterator[None]:
    """All that is converted inside shares the room."""
    token = _room.set([ROOM])
    try:
        yield
    finally:
        _room.reset(token)


def domains(assignment: Raw) -> Raw:
    """Slices written out, domain by domain."""
    found: list[Raw] = []
    room = _room.get() or [ROOM]
    for part in assignment.get("slices") or ():
        for place in range(part["domainCount"]):
            values = [_value(level, place) for level in part["valuesPerLevel"]]
            room[0] -= _SPENT_ON_EACH + sum(map(len, values))
            if room[0] < 0:
                break
            found.append({"values": values, "count": _count(part["podCounts"], place)})
    return {"levels": assignment.get("levels") or [], "domains": found}


# The CRD's rules ensure that the parts of a slice fit together. One object that does not obey them must not break a
# list of all, so missing parts are read as empty here, and the round trip keeps the difference.
def _value(level: Raw, place: int) -> str:
    if "universal" in level:
        return str(level["universal"])
    individual = level.get("individual", {})
    roots = individual.get("roots", ())
    root = roots[place] if place < len(roots) else ""
    return f"{individual.get('prefix', '')}{root}{individual.get('suffix', '')}"


def _count(counts: Raw, place: int) -> int:
    individual = counts.get("individual", ())
    return int(individual[place]) if place < len(individual) else int(counts.get("universal", 1))


def slices(assignment: Raw) -> Raw:
    """Returns domains in one slice, or in as few as can be stored: a common value or count, else the common prefix and
    suffix removed from all values.
    """
    found = assignment.get("domains") or []
    made = parts([domain["values"] for domain in found], [domain["count"] for domain in found])
    return {"levels": assignment.get("levels") or [], "slices": made}


def parts(values: Sequence[Sequence[str]], counts: Sequence[int]) -> list[Raw]:
    """Returns the slices of these domains, none without domains: for each level a common value, or what is left of the
    values without their common prefix and suffix.
    """
    starts = range(0, len(counts), MOST_DOMAINS)
    return [_part(values[start : start + MOST_DOMAINS], counts[start : start + MOST_DOMAINS]) for start in starts]


def _part(values: Sequence[Sequence[str]], counts: Sequence[int]) -> Raw:
    return {
        "domainCount": len(counts),
        "valuesPerLevel": [_level(list(level)) for level in zip(*values, strict=False)],
        "podCounts": {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": list(counts)},
    }


def _level(values: list[str]) -> Raw:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    suffix = _common([value[::-1] for value in values])[::-1]
    left = [value[: len(value) - len(suffix)] for value in values]
    prefix = _common(left)  # of what is left: no letter of the shortest value is in both
    roots = [value[len(prefix) :] for value in left]
    shared = {"prefix": prefix, "suffix": suffix}
    return {"individual": {**{key: value for key, value in shared.items() if value}, "roots": roots}}


def _common(values: list[str]) -> str:
    """Returns the common prefix of all values."""
    first, last = min(values), max(values)
    length = next((place for place, char in enumerate(first) if char != last[place]), len(first))
    return first[:length]
