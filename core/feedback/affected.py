"""The warning of whom a change of queues, quotas, flavors or priorities hits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from api.objects import Key
from core.feedback.change import workloads
from core.feedback.rules import Finding, Rule, findings, fitted, shortened
from core.model.effects import Effects
from core.state.lookup import Lookup

NAMED: Final = 3
"""So many workloads are named."""


def of_effects(found: Effects, lookup: Lookup) -> tuple[Finding, ...]:
    """The finding of whom a change hits."""
    return findings(AFFECTED_RULES, found, lookup)


def facts(found: Effects) -> list[tuple[str, Sequence[Key]]]:
    """Returns what happens and to which workloads, what is worse first; ``plan`` prints the same sentences."""
    stopped, running = [each.key for each in found.stopped], found.exposed
    named: list[tuple[str, Sequence[Key]]] = [
        (f"{workloads(len(stopped))} {_verb(stopped, 'stops', 'stop')}", stopped),
        (f"{len(running)} running {_verb(running, 'loses its', 'lose their')} guarantee", running),
        (f"{len(found.never)} waiting never {_verb(found.never, 'starts', 'start')}", found.never),
        (f"{len(found.starting)} waiting {_verb(found.starting, 'starts', 'start')}", found.starting),
        (
            f"{len(found.covered)} running {_verb(found.covered, 'gets its', 'get their')} guarantee back",
            found.covered,
        ),
        (f"{len(found.possible)} waiting can start later", found.possible),
    ]
    return [(text, keys) for text, keys in named if keys]


def _verb(keys: Sequence[Key], one: str, several: str) -> str:
    return one if len(keys) == 1 else several


def _affected(found: Effects, lookup: Lookup) -> Iterable[str]:
    parts = facts(found)
    if found.uncounted:
        both = f"{found.running} running, {found.waiting} waiting workloads are concerned"
        yield fitted(f"{both}: seiretsu plan -f FILE --from-cluster shows whom this hits", both)
    elif parts:
        shorter = [_sentence(parts[:count], 0, "") for count in range(len(parts), 0, -1)]
        named = (_sentence(parts, names, found.named_in) for names in range(NAMED, 0, -1))
        yield fitted(*named, or_else=shorter)


def _sentence(parts: Sequence[tuple[str, Sequence[Key]]], most: int, namespace: str) -> str:
    """Returns the facts with the names of at most so many workloads each, of one namespace or ('') of all."""
    return ", ".join(f"{text}{_names(keys, most, namespace)}" for text, keys in parts)


def _names(keys: Sequence[Key], most: int, namespace: str) -> str:
    shown = [key.name for key in keys if namespace in ("", key.namespace)][:most]
    more = f" and {len(keys) - len(shown)} more" if len(keys) > len(shown) else ""
    return f" ({', '.join(map(shortened, shown))}{more})" if shown else ""


AFFECTED_RULES: Final[tuple[Rule[Effects], ...]] = (
    Rule(
        "workloads-affected",
        "A change stops running workloads, exposes them to preemption by owners of the quota, or lets waiting ones"
        " start at once or never.",
        _affected,
        example="2 running lose their guarantee (job-a, job-b), 1 waiting never starts (job-c)",
    ),
)
