"""Pods that no present node can run: for their node labels, for a resource that no node has, for their size.

Separate from `core.feedback.capacity`: quota says nothing about nodes. An autoscaler may add nodes, so the messages are
about now. Nothing is said in a cluster without nodes, and nothing where nodes come later (a ProvisioningRequest) or the
pods run in another cluster (MultiKueue).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from api import quantity
from api.names import BUILT_IN_CONTROLLERS
from core.devices.extended import IMPLICIT
from core.devices.inventory import Inventory
from core.feedback import capacity
from core.feedback.change import Change
from core.feedback.rules import fitted, shortened
from core.feedback.submission import Submission
from core.matching import placement
from core.model import (
    NODE_NAME,
    ClusterQueue,
    Labels,
    Node,
    Placement,
    PodSet,
    Requests,
    Requirement,
    ResourceFlavor,
)
from core.state.lookup import Lookup
from core.state.node_groups import NodeGroup

POD_SETS: Final = 4
"""The pod sets of one job that are compared with nodes: each costs the number of nodes."""

TERMS: Final = 64
"""The size of a node affinity, in keys and values, up to which it is compared with nodes."""

VALUES: Final = 3
"""How many values of a label a message lists."""


@dataclass(frozen=True, slots=True)
class _Pods:
    """One pod set: the nodes of the flavors that it could use, and what these nodes are called. ``requests`` are those
    that kube-scheduler compares, None if they cannot be read.
    """

    pod_set: PodSet
    requests: Requests | None
    nodes: NodeGroup
    called: str

    def allowed(self) -> NodeGroup:
        """The nodes that selector and affinity allow."""
        if not self.pod_set.placement.node_selector and not self.pod_set.placement.affinity:
            return self.nodes
        return NodeGroup(node for node in self.nodes if placement.allows(self.pod_set.placement, node.labels))


def present(queue: ClusterQueue, lookup: Lookup) -> bool:
    """Whether there are nodes, on which the workloads of a ClusterQueue must run: not where they get others."""
    return lookup.has_nodes() and runs_here(queue, lookup)


def runs_here(queue: ClusterQueue, lookup: Lookup, flavor: str = "") -> bool:
    """Whether no check of a ClusterQueue, or none of its checks of a flavor, brings its workloads to other nodes."""
    asked = (rule for rule in queue.checks if not flavor or rule.concerns(flavor))
    checks = (lookup.admission_check(rule.name) for rule in asked)
    return not any(each and each.controller_name in BUILT_IN_CONTROLLERS for each in checks)


def no_labels(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """Node selector or affinity that no node fulfils."""
    for pods in _compared(job, queue, lookup):
        asked = pods.pod_set.placement
        if pods.nodes and _size(asked) <= TERMS and not pods.allowed():
            yield _labels_text(asked, pods)
            return


def no_resource(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """A device or another extended resource that no node has on which the pods may run."""
    for pods in _reporting(job, queue, lookup):
        for resource in _devices(pods.requests or {}):
            if not pods.nodes.most(resource):
                fact = f"no {pods.called} has {shortened(resource)} now"
                yield fitted(
                    f"{fact}: the pods stay pending until such a node is added",
                    f"{fact}: the pods stay pending",
                )
                return


def too_large(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """One pod that is larger than every node."""
    for pods in _reporting(job, queue, lookup):
        asked = {name: amount for name, amount in (pods.requests or {}).items() if amount}
        lacking = any(pods.nodes.lacks(resource, amount) for resource, amount in asked.items())
        if not lacking and any(_holds(node, asked) for node in pods.nodes):
            continue
        for resource, amount in sorted(asked.items()):
            most = pods.nodes.most(resource)
            if most and amount > most:
                of = f"each pod asks for {_amount(resource, amount)}"
                fact = f"{of}, the largest {pods.called} has {quantity.text(resource, most)} now"
                fix = f"ask for {quantity.text(resource, most)} or less"
                yield fitted(
                    f"{fact}: the pods stay pending; {fix}", f"{fact}: pods stay pending; {fix}", f"{fact}; {fix}"
                )
                return
        basic = [name for name in ("cpu", "memory") if name in asked]
        if len(basic) == 2 and not any(_holds(node, {name: asked[name] for name in basic}) for node in pods.nodes):
            both = " and ".join(_amount(name, asked[name]) for name in basic)
            fact = f"no {pods.called} has {both} together now"
            yield fitted(f"{fact}: the pods stay pending; ask for less of one", f"{fact}: the pods stay pending")
            return


def flavors_without(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    """Quota of a ClusterQueue for a device that no node of its flavor has."""
    queue = change.new
    rules = lookup.request_rules("")
    counted = {name for each in rules.transformations.values() for name in each.outputs}
    if isinstance(rules.devices, Inventory):  # drivers offer them in ResourceSlices, and not as resources of nodes
        counted |= {*rules.devices.rules.resources.values(), *rules.devices.extended}
    if queue is None or not present(queue, lookup):
        return
    for fr in sorted(queue.quotas):
        flavor = lookup.flavor(fr.flavor)
        if flavor is None or not queue.quotas[fr].nominal or fr.resource in counted or not _devices({fr.resource: 1}):
            continue
        of_flavor = lookup.nodes_with(flavor.node_labels)
        if of_flavor and not any(not node.allocatable or node.allocatable.get(fr.resource) for node in of_flavor):
            of = f'of flavor "{shortened(flavor.name)}" has'
            none = f"the only node {of} no" if len(of_flavor) == 1 else f"none of {len(of_flavor)} nodes {of}"
            fact = f"{none} {shortened(fr.resource)} now"
            yield fitted(
                f"{fact}: its pods stay pending; check the device plugin",
                f"{fact}: its pods stay pending",
                or_else=[fact],
            )


def _compared(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterator[_Pods]:
    """Yields the first pod sets with the nodes of their flavors; none of which a flavor or its nodes are missing, which
    other rules report.
    """
    if not present(queue, lookup):
        return
    demands = list(capacity.demands(job, queue))
    charges = job.charges or (None,) * len(job.pod_sets)
    several = [(each, charge) for each, charge in zip(job.pod_sets, charges, strict=False) if each.count]
    for pod_set, charge in several[:POD_SETS]:
        groups = [possible(each, queue, lookup) for each in demands if each.pod_set is pod_set]
        if all(groups):
            yield _Pods(pod_set, charge.requests if charge else None, _in_all(groups, lookup), _called(groups))


def _in_all(groups: list[list[ResourceFlavor]], lookup: Lookup) -> NodeGroup:
    """The nodes that belong to a flavor of each group."""
    several = [_of_any(group, lookup) for group in groups] or [lookup.nodes_with({})]
    first, *others = several
    if not others:
        return first
    names = [{node.name for node in each} for each in others]
    return NodeGroup(node for node in first if all(node.name in each for each in names))


def _of_any(flavors: list[ResourceFlavor], lookup: Lookup) -> NodeGroup:
    if len(flavors) == 1:
        return lookup.nodes_with(flavors[0].node_labels)
    return NodeGroup(node for each in flavors for node in lookup.nodes_with(each.node_labels))


def possible(demand: capacity.AskedCapacity, queue: ClusterQueue, lookup: Lookup) -> list[ResourceFlavor]:
    """The flavors that could hold the pods."""
    names = (
        name
        for name in capacity.suitable(demand, lookup)
        if not capacity.lacking(demand.least, name, queue, lookup.most)
    )
    return [flavor for name in names if (flavor := lookup.flavor(name)) is not None]


def _called(groups: list[list[ResourceFlavor]]) -> str:
    with_labels = list(dict.fromkeys(each.name for group in groups for each in group if each.node_labels))
    if len(with_labels) == 1 and all(len(group) == 1 for group in groups):
        return f'node of flavor "{shortened(with_labels[0])}"'
    return "node of its flavors" if with_labels else "node"


def _reporting(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterator[_Pods]:
    """Yields pod sets with the nodes that may run them, if all of these report what they have."""
    for pods in _compared(job, queue, lookup):
        nodes = pods.allowed() if _size(pods.pod_set.placement) <= TERMS else None
        if nodes and nodes.reports:
            yield _Pods(pods.pod_set, pods.requests, nodes, pods.called)


def _size(asked: Placement) -> int:
    return sum(1 + len(requirement.values) for term in asked.affinity or () for requirement in term)


def _devices(requests: Requests) -> list[str]:
    """The extended resources among requests, which only some nodes have."""
    return sorted(name for name, amount in requests.items() if amount and "/" in name and not name.startswith(IMPLICIT))


def _holds(node: Node, asked: Requests) -> bool:
    """Whether a node that runs nothing else has so much; what it does not report counts as enough."""
    return all(node.allocatable.get(name, amount) >= amount for name, amount in asked.items())


def _amount(resource: str, amount: int) -> str:
    return f"{quantity.text(resource, amount)} {shortened(resource)}"


def _labels_text(asked: Placement, pods: _Pods) -> str:
    unmet = next(_unmet(asked, pods.nodes), None)
    if unmet is None:
        fact = f"no {pods.called} has all labels of nodeSelector and affinity together now"
        return fitted(f"{fact}: the pods stay pending; change one", f"{fact}: the pods stay pending")
    key, wanted = unmet
    fact = f"no {pods.called} has {shortened(key)}{wanted} now"
    there = _there(key, (node.labels for node in pods.nodes))
    has = f"; nodes have {', '.join(map(shortened, there))}" if there else "; no node has this label"
    return fitted(
        f"{fact}: the pods stay pending until one does{has}",
        f"{fact}: the pods stay pending{has}",
        f"{fact}: the pods stay pending until one does",
        f"{fact}: the pods stay pending",
    )


def _unmet(asked: Placement, nodes: Iterable[Node]) -> Iterator[tuple[str, str]]:
    """Yields labels that the pods want and no node has: the key, and the rest of the sentence."""
    for key, value in heapq.nsmallest(TERMS, asked.node_selector.items()):
        if not any(node.labels.get(key) == value for node in nodes):
            yield key, f"={shortened(value)}"
    terms = asked.affinity or ()
    for requirement in terms[0] if len(terms) == 1 else ():
        if requirement.key != NODE_NAME and not any(placement.holds(requirement, node.labels) for node in nodes):
            yield requirement.key, _wanted(requirement)


def _wanted(requirement: Requirement) -> str:
    values = " or ".join(map(shortened, requirement.values[:VALUES]))
    match requirement.operator:
        case "In" if 0 < len(requirement.values) <= VALUES:
            return f"={values}"
        case "Exists":
            return ""
    return f" as the affinity requires ({requirement.operator})"


def _there(key: str, labels: Iterable[Labels]) -> list[str]:
    """The first values of a label that nodes have, in the order of the alphabet."""
    return heapq.nsmallest(VALUES, {found[key] for found in labels if key in found})
