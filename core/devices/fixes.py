"""Why devices cannot be counted, in one short sentence, and what to do: by the text of the problem, which is what a
status has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from core.devices.inventory import CLAIMS_NOT_SUPPORTED, DISABLED


@dataclass(frozen=True, slots=True)
class Explained:
    """``fact`` has a place for each of the ``names``; ``fix`` is what would let the devices be counted."""

    fact: str
    names: tuple[str, ...]
    fix: str


_AGAIN: Final = "make the template again with"
_OF_ADMIN: Final = "an administrator must correct"
_BY_TEXT: Final = (
    (
        re.escape(CLAIMS_NOT_SUPPORTED),
        "devices of a resourceClaimName cannot be counted",
        "use resourceClaimTemplateName",
    ),
    (re.escape(DISABLED), "devices of ResourceClaims are not counted here", "request an extended resource instead"),
    (
        r"ResourceClaimTemplate (\S+) in podset .* not found",
        'ResourceClaimTemplate "{0}" does not exist',
        "create it in this namespace",
    ),
    (
        r"DeviceClass (\S+) is not mapped",
        'DeviceClass "{0}" is in no deviceClassMappings',
        "an administrator must map it to a resource",
    ),
    (r"failed to get DeviceClass (\S+):", 'DeviceClass "{0}" does not exist', f"{_AGAIN} one that does"),
    (r"DeviceClass (\S+) has invalid CEL", 'the selector of DeviceClass "{0}" is wrong', f"{_OF_ADMIN} it"),
    ("deviceSelector", "a deviceSelector of deviceClassMappings is wrong", f"{_OF_ADMIN} it"),
    (r"CEL evaluation error in (.*)", "a selector is wrong: {0}", f"{_AGAIN} another"),
    (
        r"ResourceClaimTemplate (\S+): insufficient .*: (\d+) device\(s\) match in the cluster but (\d+) requested",
        'ResourceClaimTemplate "{0}": {1} device(s) match, {2} requested',
        "select others or ask for fewer",
    ),
    (
        r"insufficient matching devices for .*: (\d+) device\(s\) match but (\d+) requested",
        "{0} device(s) match the ResourceClaimTemplate, {1} requested",
        "select others or ask for fewer",
    ),
    (
        r"ResourceClaimTemplate (\S+): (?:AllocationMode|unsupported allocation)",
        'ResourceClaimTemplate "{0}": only an exact count can be counted',
        f"{_AGAIN} a count",
    ),
    (
        r"ResourceClaimTemplate (\S+): (?:FirstAvailable|Exactly)",
        'ResourceClaimTemplate "{0}": firstAvailable cannot be counted',
        f"{_AGAIN} exactly",
    ),
    (
        r'no (?:consumesCounters entry for counter|capacity dimension) "([^"]*)"',
        'the matching devices have no amount of "{0}"',
        f"{_OF_ADMIN} deviceClassMappings",
    ),
    (
        r'cannot be satisfied by any matched device[^"]*"([^"]*)"',
        'no matching device gives that amount of "{0}"',
        "ask for another amount",
    ),
    (
        r"resources\.requests\.(\S+): Invalid value: (\S+):",
        "{0}: {1} is no number of devices",
        "request a whole number",
    ),
    (
        r"extended resource (\S+) resolves to DeviceClass (\S+) with",
        '{0} cannot be counted: DeviceClass "{1}" has sources',
        "use a ResourceClaimTemplate",
    ),
)
_MOST: Final = 2000
"""Characters of a problem that are looked at."""
_WRONG: Final = re.compile(r"(?:compilation failed: ERROR: [^:]*:\d+:(\d+): (?:Syntax error: )?)?(.*)")


def explained(problem: str) -> Explained:
    """Returns a problem in short, and what to do about it."""
    for words in ("CEL compilation failed: ", "CEL evaluation failed for DeviceClass "):
        before, found, after = problem.rpartition(words)
        name = re.search(r"ResourceClaimTemplate (\S+):", before[:_MOST])
        if found and name:
            return _selector(name[1], after if "compilation" in words else after.partition(": ")[2])
    for pattern, fact, fix in _BY_TEXT:
        if match := re.search(pattern, problem[:_MOST]):
            return Explained(fact, match.groups(), fix)
    return Explained("{0}", (problem[:_MOST],), "")


def _selector(template: str, error: str) -> Explained:
    """A selector that does not compile, or fails for a device."""
    found = _WRONG.match(error[:_MOST])
    assert found is not None
    place = f" at character {found[1]}" if found[1] else ""
    return Explained(
        f'ResourceClaimTemplate "{{0}}": wrong selector{place}: {{1}}', (template, found[2]), f"{_AGAIN} another"
    )
