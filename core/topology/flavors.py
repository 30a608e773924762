"""Which flavors a pod set may have because of its topology request.

Separate from placement, which is asked only about the flavor that was chosen, and from the search for flavors, which
knows quota. Source: KEP 2724, and the recorded decisions of Kueue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from core.model import ClusterQueue, Node, PodSet, ResourceFlavor, ResourceGroup, Topology, TopologyRequest
from core.topology.nodes import HOSTNAME


def asks(topology: TopologyRequest | None) -> bool:
    """Whether a pod set asks for a topology; to be in a group alone is no request."""
    return topology is not None and bool(
        topology.required or topology.preferred or topology.unconstrained or topology.slices
    )


def topology_only(queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor]) -> bool:
    """Whether all flavors of a ClusterQueue have a topology: then every pod set is placed in it."""
    return all(
        name in flavors and flavors[name].topology_name for group in queue.groups for name in group.flavors
    ) and bool(queue.groups)


def unsupported(
    pod_set: PodSet,
    flavor: ResourceFlavor,
    group: ResourceGroup,
    queue: ClusterQueue,
    flavors: Mapping[str, ResourceFlavor],
    topologies: Mapping[str, Topology],
) -> str:
    """Returns why a pod set may not have a flavor of a resource group, in Kueue's words; '' if it may.

    A flavor without topology may still be used for resources that the pods themselves do not request (those that a
    transformation of requests adds).
    """
    if not asks(pod_set.topology):
        if flavor.topology_name is None or topology_only(queue, flavors):
            return ""
        return f'Flavor "{flavor.name}" supports only TopologyAwareScheduling'
    if flavor.topology_name is None:
        if pod_set.per_pod.keys().isdisjoint(group.resources):
            return ""
        return f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
    topology = topologies.get(flavor.topology_name)
    if topology is None:
        return f'Flavor "{flavor.name}" information missing in TAS cache'
    if not set(levels(pod_set.topology)) <= set(topology.levels):
        return f'Flavor "{flavor.name}" does not contain the requested level'
    spreading = pod_set.topology.spreading if pod_set.topology is not None else None
    if spreading is not None and any(each.required and each.level not in topology.levels for each in spreading.rules):
        return f'Flavor "{flavor.name}" does not contain a topology level required by topology spreading'
    return ""


def given_twice(
    one: ResourceFlavor, other: ResourceFlavor, topologies: Mapping[str, Topology]
) -> dict[str, str] | None:
    """Returns the labels of the nodes that two flavors with a topology both give away, if neither knows what the other
    uses there; None if no node has the labels of both, or if both topologies end in the hostname.
    """
    known = [topologies.get(each.topology_name or "") for each in (one, other)]
    if any(each is None for each in known) or {each.levels[-1] for each in known if each is not None} == {HOSTNAME}:
        return None
    labels = {**one.node_labels, **other.node_labels}
    return labels if all(labels[key] == value for key, value in one.node_labels.items()) else None


def with_levels(nodes: Iterable[Node], levels: Collection[str]) -> list[Node]:
    """Returns the nodes that have the labels of all levels: pods are placed on these alone."""
    return [node for node in nodes if all(level in node.labels for level in levels)]


def beyond_nodes(quotas: Mapping[str, int], nodes: Collection[Node]) -> Iterator[tuple[str, int, int]]:
    """Yields each resource of which a flavor with these nodes has more quota than they have, in order: its name, the
    quota, and what the nodes have.
    """
    for resource, nominal in sorted(quotas.items()):
        there = sum(node.allocatable.get(resource, 0) for node in nodes)
        if nodes and nominal > there:
            yield resource, nominal, there


def levels(topology: TopologyRequest | None) -> list[str]:
    """The levels that a request names."""
    if topology is None:
        return []
    named = topology.required or topology.preferred
    return [*([named] if named else []), *(level for level, _ in topology.slices)]
