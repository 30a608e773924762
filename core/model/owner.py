"""The controller of an object: one key for indexes, wake-ups and look-ups.

The API group is part of the key: ``batch`` and ``batch.volcano.sh`` both have a kind ``Job``, and their Workloads must
not be confused. The version is not: an object is served in several versions.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec import Struct

from api.names import Annotation


class Owner(Struct, frozen=True, order=True, gc=False, array_like=True):
    """The object that controls another one of its namespace, e.g. the Job of a Workload. No tuple: a million of them
    may be there, and as a Struct one is smaller and not looked at by the garbage collector.
    """

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def is_pod(self) -> bool:
        """Whether it is one Pod, and no group of them."""
        return (self.group, self.kind) == ("", "Pod") and not self.name.startswith(GROUP)


GROUP: Final = "group/"
"""The beginning of the name that stands for a group of pods; no pod's name contains a slash."""


def owner(raw: dict[str, Any]) -> Owner | None:
    """The object that controls this one; None where nothing does. The Workload of a group of pods belongs to that
    group, which has its name.
    """
    metadata = raw["metadata"]
    namespace = sys.intern(str(metadata.get("namespace", "")))
    if (metadata.get("annotations") or {}).get(Annotation.IS_GROUP_WORKLOAD) == "true":
        return Owner("", "Pod", namespace, f"{GROUP}{metadata['name']}")
    for each in metadata.get("ownerReferences") or ():
        if each.get("controller"):
            return Owner(
                _group(str(each.get("apiVersion") or "")), sys.intern(str(each["kind"])), namespace, each["name"]
            )
    return None


@lru_cache(maxsize=1024)
def _group(api_version: str) -> str:
    """Returns the API group; one text for all objects, of which there may be very many."""
    return api_version.rpartition("/")[0]


class Reference(NamedTuple):
    """An owner reference to the controller of an object, in the namespace of that object."""

    group: str
    version: str
    kind: str
    name: str
    uid: str


class Level(NamedTuple):
    """What is known of an owner: its own controller, whether it names a queue, and whether it can be queued: its kind
    is enabled and it has not ended. ``gone``: it was looked for, and does not exist.
    """

    uid: str
    above: Reference | None = None
    named: bool = False
    queueable: bool = False
    gone: bool = False


def reference(raw: dict[str, Any]) -> Reference | None:
    """The owner reference of the object that controls this one; None where nothing does."""
    for each in (raw.get("metadata") or {}).get("ownerReferences") or ():
        if each.get("controller") is True:
            group, _, version = str(each.get("apiVersion") or "").rpartition("/")
            return Reference(
                group, version, str(each.get("kind") or ""), str(each.get("name") or ""), str(each.get("uid") or "")
            )
    return None
