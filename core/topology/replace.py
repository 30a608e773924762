"""Replaces the failed node of an admitted workload: the pods on it are placed anew, all others stay where they are.

Source: KEP 2724 (node failures).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from core.model import TopologyAssignment, TopologyRequest
from core.topology.elastic import merged
from core.topology.nodes import Domains, Tree
from core.topology.place import found_leaves
from core.topology.request import Asked, Misfit, Options


def replacement(
    domains: Domains,
    requests: Sequence[Asked],
    assigned: Mapping[str, TopologyAssignment],
    failed: str,
    options: Options,
) -> dict[str, TopologyAssignment | Misfit]:
    """Returns the new assignment of each pod set that uses the failed node, by name, or why there is none; pod sets
    after the first that does not fit are left out.

    ``assigned`` are the assignments by pod set, ``failed`` is the hostname. The workload's own usage counts in
    ``domains`` as it is, with the failed node.
    """
    here = domains.copy()
    found: dict[str, TopologyAssignment | Misfit] = {}
    for asked in requests:
        name = asked.pod_set.name
        before = assigned.get(name)
        if before is None or all(domain.values[-1] != failed for domain in before.domains):
            continue
        placed = _replaced(here, asked, before, failed, options)
        if isinstance(placed, Misfit):
            found[name] = placed
            break
        for leaf, count in placed.items():
            here.add(here.tree.values(leaf), asked.per_pod, count)
        staying = tuple(domain for domain in before.domains if domain.values[-1] != failed)
        found[name] = merged(here.tree, TopologyAssignment(before.levels, staying), placed)
    return found


def _replaced(
    domains: Domains, asked: Asked, before: TopologyAssignment, failed: str, options: Options
) -> dict[int, int] | Misfit:
    """The leaves for the pods of the failed node."""
    tree = domains.tree
    lost = sum(domain.count for domain in before.domains if domain.values[-1] == failed)
    staying: dict[int, int] = {}
    for domain in before.domains:
        if domain.values[-1] != failed:
            leaf = domains.number(domain.values)
            if leaf is None:
                text = "Cannot replace the node, because the existing topologyAssignment is invalid"
                return Misfit(f"{text}, as it contains the stale domain {','.join(domain.values)}")
            staying[leaf] = domain.count
    request, within = _where(tree, asked.topology, lost, staying)
    again = replace(asked.pod_set, topology=request)
    return found_leaves(domains, Asked(again, lost, updates=asked.updates, implied=asked.implied), options, within)


def _where(
    tree: Tree, request: TopologyRequest, lost: int, staying: Mapping[int, int]
) -> tuple[TopologyRequest, range | None]:
    """The request for the lost pods, and the leaves among which they must be; None if anywhere.

    Slices of which some pods stay are completed where these are. Without cut slices the pods of a required level stay
    on one domain of it.
    """
    cut = [(label, size) for label, size in request.slices if lost % size]
    whole = tuple(each for each in request.slices if each not in cut)
    if cut:
        label, size = cut[-1]
        level = tree.levels.index(label)
        request = replace(request, slices=whole)
        pods: dict[int, int] = {}
        for leaf, count in staying.items():
            domain = tree.above(leaf, level)
            pods[domain] = pods.get(domain, 0) + count
        broken = [domain for domain, count in sorted(pods.items()) if count % size]
        return request, tree.below(level, broken[0], tree.lowest) if broken else None
    if request.required and staying:
        level = tree.levels.index(request.required)
        return request, tree.below(level, tree.above(next(iter(staying)), level), tree.lowest)
    return request, None
