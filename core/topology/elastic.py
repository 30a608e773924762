"""Placement of a workload slice that replaces another one of the same elastic job: pods that run stay where they are.

Source: KEP 77 (dynamically sized jobs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from core.model import TopologyAssignment, TopologyDomain
from core.topology.nodes import Domains, Tree
from core.topology.request import Asked, Misfit

DomainSearch = Callable[[Domains, Asked], dict[int, int] | Misfit]
"""Finds the leaves for a pod set, and the number of pods on each."""


def scaled(
    domains: Domains, workers: Asked, leader: Asked | None, search: DomainSearch
) -> dict[str, TopologyAssignment | Misfit] | None:
    """Returns the assignments of the pod sets with what changes in the number of workers; None if there is nothing to
    keep, because there is no previous assignment or a domain of it has no nodes any more.

    The previous slice must not count in ``domains``.
    """
    before = workers.previous
    group = [workers] if leader is None else [workers, leader]
    if before is None or not stay(domains, group):
        return None
    here = domains.copy()
    found: dict[str, TopologyAssignment | Misfit] = {}
    for asked in group:
        for domain in asked.previous.domains if asked.previous else ():
            here.add(domain.values, asked.per_pod, domain.count)
    if leader is not None and leader.previous is not None:
        found[leader.pod_set.name] = leader.previous
    count = sum(domain.count for domain in before.domains)
    if workers.count <= count:
        found[workers.pod_set.name] = _cut(before, workers.count)
        return found
    more = search(here, replace(workers, count=workers.count - count, previous=None))
    if isinstance(more, Misfit):
        return dict.fromkeys((asked.pod_set.name for asked in group), more)
    found[workers.pod_set.name] = merged(domains.tree, before, more)
    return found


def stay(domains: Domains, group: Iterable[Asked]) -> bool:
    """Whether the pods of the previous slice stay where they are: each pod set of the group had some, and all of their
    domains have nodes.
    """
    return all(_there(domains, asked) for asked in group)


def _there(domains: Domains, asked: Asked) -> bool:
    """Whether all domains of the previous assignment have nodes."""
    before = asked.previous
    return before is not None and all(domains.number(domain.values) is not None for domain in before.domains)


def _cut(before: TopologyAssignment, count: int) -> TopologyAssignment:
    """The first pods of an assignment, in the stored order."""
    kept: list[TopologyDomain] = []
    for domain in before.domains:
        if count > 0:
            kept.append(TopologyDomain(domain.values, min(count, domain.count)))
            count -= domain.count
    return TopologyAssignment(before.levels, tuple(kept))


def merged(tree: Tree, before: TopologyAssignment, more: dict[int, int]) -> TopologyAssignment:
    """An assignment with more pods, in the order of the paths as texts with commas between the values."""
    counts = {domain.values: domain.count for domain in before.domains}
    for leaf, count in more.items():
        counts[tree.values(leaf)] = counts.get(tree.values(leaf), 0) + count

    def text(values: tuple[str, ...]) -> str:
        leaf = tree.numbers.get(values)
        return ",".join(tree.leaves[leaf].path if leaf is not None else values)

    return TopologyAssignment(
        before.levels, tuple(TopologyDomain(values, counts[values]) for values in sorted(counts, key=text))
    )
