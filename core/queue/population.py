"""Decides which LocalQueues a namespace gets by itself: what Kueue's program kueue-populator creates.

Two things differ. A ClusterQueue without namespaceSelector admits nothing, so no LocalQueue is created for it. And
where several ClusterQueues select a namespace that gets one LocalQueue, the first by name has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from api import names
from core.matching.placement import matches
from core.model import ClusterQueue, Labels, Raw, Selector

AUTO_GENERATED: Final = f"{names.GROUP}/auto-generated"


@dataclass(frozen=True, slots=True)
class PopulationPolicy:
    """The section ``seiretsu.population``; without ``name`` each LocalQueue has the name of its ClusterQueue.
    ``selector`` None selects all namespaces that are managed.
    """

    name: str = names.DEFAULT_LOCAL_QUEUE
    selector: Selector | None = None


class Populated(NamedTuple):
    """A LocalQueue to create, or one that cannot be created because another one has its name."""

    name: str
    cluster_queue: str
    taken: bool = False


def populated(
    policy: PopulationPolicy,
    labels: Labels,
    cluster_queues: Iterable[ClusterQueue],
    existing: Callable[[str], str | None],
) -> list[Populated]:
    """Returns what a namespace with these labels lacks. ``existing`` returns the ClusterQueue of the LocalQueue with
    that name, None if there is none.
    """
    if policy.selector is not None and not matches(policy.selector, labels):
        return []
    found: list[Populated] = []
    made: set[str] = set()
    for queue in sorted(cluster_queues, key=lambda each: each.name):
        selector = queue.namespace_selector
        if queue.deleting or selector is None or not matches(selector, labels):
            continue
        name = policy.name or queue.name
        belongs_to = existing(name)
        if belongs_to is None and name not in made:
            found.append(Populated(name, queue.name))
            made.add(name)
        elif belongs_to != queue.name:
            found.append(Populated(name, queue.name, taken=True))
    return found


def manifest(namespace: str, queue: Populated) -> Raw:
    """Returns the LocalQueue to create."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.Kind.LOCAL_QUEUE,
        "metadata": {"name": queue.name, "namespace": namespace, "labels": {AUTO_GENERATED: "true"}},
        "spec": {"clusterQueue": queue.cluster_queue},
    }
