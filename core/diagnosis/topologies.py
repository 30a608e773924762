"""What is wrong with flavors that have a topology: no nodes, nodes without the labels of a level, nodes that two
flavors give away without knowing of each other, and more quota than nodes.

Separate from ``core.diagnosis.findings``, which has the other rules of ``seiretsu doctor``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from api import quantity
from api.names import BUILT_IN_CONTROLLERS, Plural
from core.diagnosis.facts import Facts
from core.diagnosis.finding import DiagnosisFinding
from core.model import FlavorResource, Node, Raw, ResourceFlavor
from core.topology.flavors import beyond_nodes, given_twice, with_levels
from core.topology.largest import counted_nodes
from core.topology.nodes import HOSTNAME
from core.wire import decode


def topologies(facts: Facts) -> Iterator[DiagnosisFinding]:
    """Flavors with a topology whose pods cannot be placed, or for which there is more quota than nodes."""
    flavors = [
        flavor for raw in facts.of(Plural.RESOURCE_FLAVORS) if (flavor := decode.resource_flavor(raw)).topology_name
    ]
    known = {raw["metadata"]["name"]: decode.topology_object(raw) for raw in facts.of(Plural.TOPOLOGIES)}
    nodes = [decode.node(raw) for raw in facts.of("nodes")]
    placed = [flavor for flavor in flavors if flavor.topology_name in known]
    quotas = _quotas(facts)
    for flavor in flavors:
        if flavor.topology_name not in known:
            yield _wrong(flavor, f"its Topology {flavor.topology_name!r} does not exist", "create it")
    for flavor in placed:
        levels = known[flavor.topology_name or ""].levels
        yield from _labels(flavor, levels, _of(flavor, nodes))
        yield from _quota(flavor, quotas[flavor.name], with_levels(_of(flavor, nodes), levels))
    for one, other in combinations(placed, 2):
        labels = given_twice(one, other, known)
        both = [node for node in nodes if labels is not None and labels.items() <= node.labels.items()]
        if both:
            fact = f"shares {counted_nodes(len(both))} with flavor {other.name}"
            yield _wrong(
                one,
                f"{fact}, and neither knows what the other uses there",
                f"end both topologies in {HOSTNAME}, or give the flavors nodes of their own by nodeLabels",
            )


def _of(flavor: ResourceFlavor, nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if flavor.node_labels.items() <= node.labels.items()]


def _labels(flavor: ResourceFlavor, levels: Sequence[str], nodes: Sequence[Node]) -> Iterator[DiagnosisFinding]:
    if not nodes:
        yield _wrong(flavor, "no node has its nodeLabels: no pod can be placed", "label nodes, or change nodeLabels")
        return
    for level in levels:
        without = [node.name for node in nodes if level not in node.labels]
        if without:
            most = f"{without[0]}{f' and {len(without) - 1} more' if len(without) > 1 else ''}"
            fact = f"{len(without)} of its {counted_nodes(len(nodes))} have no label {level} ({most})"
            yield _wrong(flavor, f"{fact}: no pod is placed there", f"kubectl label node {without[0]} {level}=...")
            return


def _quota(flavor: ResourceFlavor, quotas: Mapping[str, int], nodes: Sequence[Node]) -> Iterator[DiagnosisFinding]:
    """More quota than the nodes have: workloads that have quota wait for room."""
    for resource, nominal, there in beyond_nodes(quotas, nodes):
        fact = f"{quantity.text(resource, nominal)} {resource} of quota, and its {counted_nodes(len(nodes))} have"
        yield _wrong(
            flavor,
            f"{fact} {quantity.text(resource, there)}: workloads within the quota wait for room",
            "lower the quotas, or add nodes",
        )


def _quotas(facts: Facts) -> defaultdict[str, defaultdict[str, int]]:
    """The quota by flavor and resource of all Cohorts, and all ClusterQueues whose workloads run here."""
    built_in = {
        raw["metadata"]["name"]
        for raw in facts.of(Plural.ADMISSION_CHECKS)
        if (raw.get("spec") or {}).get("controllerName") in BUILT_IN_CONTROLLERS
    }
    found: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for raw in (*facts.of(Plural.CLUSTER_QUEUES), *facts.of(Plural.COHORTS)):
        elsewhere = [rule for rule in decode.check_rules(raw) if rule.name in built_in]
        for cell, nominal in _nominal(raw):
            if not any(rule.concerns(cell.flavor) for rule in elsewhere):
                found[cell.flavor][cell.resource] += nominal
    return found


def _nominal(raw: Raw) -> Iterator[tuple[FlavorResource, int]]:
    for group in (raw.get("spec") or {}).get("resourceGroups") or ():
        for each in group.get("flavors") or ():
            for quota in each.get("resources") or ():
                amount = quantity.amount(quota["name"], quota.get("nominalQuota", 0))
                yield FlavorResource(each["name"], quota["name"]), amount


def _wrong(flavor: ResourceFlavor, message: str, fix: str) -> DiagnosisFinding:
    return DiagnosisFinding("warning", f"ResourceFlavor {flavor.name}", message, fix)
