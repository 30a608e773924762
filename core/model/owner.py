"""The controller of an object: one key for indexes, wake-ups and look-ups.

The API group is part of the key: ``batch`` and ``batch.volcano.sh`` both have a kind ``Job``, and their Workloads must
not be confused. The version is not: an object is served in several versions.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Owner(NamedTuple):
    """The object that controls another one of its namespace, e.g. the Job of a Workload."""

    group: str
    kind: str
    namespace: str
    name: str


def owner(raw: dict[str, Any]) -> Owner | None:
    """The object that controls this one; None where nothing does."""
    metadata = raw["metadata"]
    for each in metadata.get("ownerReferences") or ():
        if each.get("controller"):
            group = str(each.get("apiVersion") or "").rpartition("/")[0]
            return Owner(group, each["kind"], metadata.get("namespace", ""), each["name"])
    return None
