"""What the reader of an explanation may read, and so what may be named to him: everything in the command line, which
has read it with his own rights; less in the visibility API, which knows more than its users.

Separate from ``core.explain.analysis``, which decides what is true: here is how it may be said. Sentences are made with
the names that may be in them, and never cleaned of names afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from core.model import Key
from core.topology.nodes import HOSTNAME

MOST_NAMED: Final = 5
"""So many workloads are named in a sentence."""


@dataclass(frozen=True, slots=True)
class Sight:
    """Namespaces whose workloads may be named (None: all), and whether other ClusterQueues, and nodes, may be. Racks
    and other domains above nodes are named to all: whoever has a job there reads them in its pods and its Workload.
    """

    namespaces: Collection[str] | None = None
    cluster_queues: bool = True
    nodes: bool = True

    def names(self, key: Key) -> bool:
        """Whether a workload may be named."""
        return self.namespaces is None or key.namespace in self.namespaces

    def names_domains(self, level: str) -> bool:
        """Whether the domains of a level may be named."""
        return self.nodes or level != HOSTNAME

    def named(self, key: Key) -> str:
        """Returns the name of a workload, or words instead."""
        return str(key) if self.names(key) else "a workload of another namespace"

    def listed(self, keys: Iterable[Key]) -> str:
        """Returns workloads as a part of a sentence; those that may not be named as their number."""
        known = list(keys)
        names = [str(key) for key in known if self.names(key)]
        shown = names[:MOST_NAMED] + ([f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else [])
        if len(names) < len(known):
            shown.append(of_others(len(known) - len(names)))
        return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


EVERYTHING: Final = Sight()


def of_namespace(namespace: str) -> Sight:
    """Returns the sight of a reader who may read one namespace alone."""
    return Sight(frozenset({namespace}), cluster_queues=False, nodes=False)


def of_others(number: int) -> str:
    """Returns so many workloads in words, without their names."""
    return "1 workload of another namespace" if number == 1 else f"{number} workloads of other namespaces"
