"""The options of ``create`` as parts of a spec: quotas (``flavor:cpu=9;memory=36Gi``), labels and taints. Pure.

Their form is kueuectl's. What is wrong in the values themselves (a quantity, a name) the API server judges, and names
the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from api.objects import Raw
from cli.target import UsageError

_QUOTA: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}:[\w./-]+=[\w.+-]+(;[\w./-]+=[\w.+-]+)*;?")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FIELDS: Final = (
    ("nominal-quota", "nominalQuota"),
    ("borrowing-limit", "borrowingLimit"),
    ("lending-limit", "lendingLimit"),
)


def resource_groups(nominal: Sequence[str], borrowing: Sequence[str], lending: Sequence[str]) -> list[Raw]:
    """Returns ``spec.resourceGroups``: flavors that have the same resources are in one group, in the order in which
    they are first named. Raises UsageError.
    """
    flavors: dict[str, dict[str, Raw]] = {}
    for (option, field), given in zip(_FIELDS, (nominal, borrowing, lending), strict=True):
        for text in _parts(given):
            flavor, amounts = _quota(option, text)
            known = flavors.setdefault(flavor, {name: {"name": name, "nominalQuota": "0"} for name in amounts})
            if set(known) != set(amounts):
                raise UsageError(
                    f"--{option} {text}: flavor {flavor} has the resources {', '.join(known)} in an earlier option:"
                    " each option must name the same resources of a flavor"
                )
            for name, amount in amounts.items():
                known[name][field] = amount
    groups: dict[frozenset[str], Raw] = {}
    for flavor, resources in flavors.items():
        covered = frozenset(resources)
        other = next((each for each in groups if each != covered and each & covered), None)
        if other is not None:
            shared = ", ".join(sorted(other & covered))
            raise UsageError(
                f"flavor {flavor}: {shared} is already in a group with other resources: all flavors of a resource must"
                " have the same resources"
            )
        group = groups.setdefault(covered, {"coveredResources": list(resources), "flavors": []})
        order = group["coveredResources"]
        group["flavors"].append({"name": flavor, "resources": [resources[name] for name in order]})
    return list(groups.values())


def _quota(option: str, text: str) -> tuple[str, dict[str, str]]:
    if not _QUOTA.fullmatch(text):
        raise UsageError(
            f'--{option} {text}: it must be FLAVOR:RESOURCE=QUANTITY[;...], for example "alpha:cpu=9;memory=36Gi"'
        )
    flavor, _, rest = text.partition(":")
    found: dict[str, str] = {}
    for pair in rest.strip(";").split(";"):
        name, _, amount = pair.partition("=")
        if name in found:
            raise UsageError(f"--{option} {text}: {name} is given twice")
        found[name] = amount
    return flavor, found


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """Returns ``key=value,key=value`` as a mapping. Raises UsageError."""
    found = {}
    for text in _parts(given):
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--{option} {text}: it must be KEY=VALUE")
        found[key] = value
    return found


def taints(given: Sequence[str]) -> list[Raw]:
    """Returns ``KEY[=VALUE]:EFFECT`` as taints. Raises UsageError."""
    found: dict[tuple[str, str], Raw] = {}
    for text in _parts(given):
        key, value, effect = _keyed("node-taints", text)
        if not key or not effect:
            raise UsageError(f"--node-taints {text}: it must be KEY[=VALUE]:EFFECT")
        if (key, effect) in found:
            raise UsageError(f"--node-taints {text}: duplicated taints with the same key and effect")
        found[key, effect] = {"key": key, **({"value": value} if value else {}), "effect": effect}
    return list(found.values())


def tolerations(given: Sequence[str]) -> list[Raw]:
    """Returns ``KEY[=VALUE][:EFFECT]`` or ``:EFFECT`` as tolerations. Raises UsageError."""
    found = []
    for text in _parts(given):
        key, value, effect = _keyed("tolerations", text)
        if not (key or effect) or (value and not key):
            raise UsageError(f"--tolerations {text}: it must be KEY[=VALUE][:EFFECT] or :EFFECT")
        named = {"key": key} if key else {}
        valued = {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
        found.append({**named, **valued, **({"effect": effect} if effect else {})})
    return found


def _keyed(option: str, text: str) -> tuple[str, str, str]:
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    if text.count(":") > 1 or pair.count("=") > 1:
        raise UsageError(f"--{option} {text}: it must be KEY[=VALUE][:EFFECT]")
    if effect and effect not in _EFFECTS:
        raise UsageError(f"--{option} {text}: invalid taint effect: {effect}: it must be one of {', '.join(_EFFECTS)}")
    return key, value, effect


def _parts(given: Iterable[str]) -> list[str]:
    return [part.strip() for text in given for part in text.split(",") if part.strip()]
