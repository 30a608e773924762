"""The types that the commands name, with their other names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from api import resources
from api.objects import Resource


class Type(NamedTuple):
    """A type of objects. ``aliases`` are further words for it: those of kueuectl, and kubectl's plural."""

    word: str
    resource: Resource
    aliases: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """All words for it."""
        return tuple(dict.fromkeys((self.word, self.resource.plural, *self.aliases)))

    @property
    def full(self) -> str:
        """The type in kubectl's full form, which no other group has."""
        return f"{self.word}.{self.resource.group}"


CLUSTER_QUEUE: Final = Type("clusterqueue", resources.CLUSTER_QUEUES, ("cq",))
LOCAL_QUEUE: Final = Type("localqueue", resources.LOCAL_QUEUES, ("lq",))
WORKLOAD: Final = Type("workload", resources.WORKLOADS, ("wl", "kwl", "kueueworkload", "kueueworkloads"))
RESOURCE_FLAVOR: Final = Type("resourceflavor", resources.RESOURCE_FLAVORS, ("rf",))
TYPES: Final = (WORKLOAD, CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR)


def type_of(word: str) -> Type | None:
    """Returns the type that a word means, None if it means none."""
    plain = word.lower().removesuffix(f".{resources.WORKLOADS.group}")
    return next((each for each in TYPES if plain in each.words), None)


def closest(wanted: str, known: Iterable[str], more: str = "") -> str:
    """Returns what follows a name that does not exist: the name that is probably meant, else ``more``."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    names: Sequence[str] = sorted(known)
    most = max(1, len(wanted) // 4)
    found = process.extractOne(wanted, names, scorer=OSA.distance, score_cutoff=most)
    return f": did you mean {found[0]}?" if found else more
