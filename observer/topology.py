"""The rules of topologies: no domain is given more than its nodes have, and no pod runs outside of what its Workload
was given, or more of them on a domain than that.

What is given is judged when it is written, with the nodes of then: a node may go away. Pods of a Workload whose
assignment has changed may still be where the old one had them, for as long as they terminate: a domain of any earlier
assignment is no fault. As many pods may run elsewhere as the pod sets have that were given no domain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction

from observer.decode import Domain, Node, Pod, Workload


class Topology:
    """Takes the states of nodes, Workloads and pods in order; each call yields a sentence for each broken rule."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._given: dict[str, Workload] = {}
        self._earlier: defaultdict[str, set[Domain]] = defaultdict(set)
        self._pods: dict[str, Pod] = {}

    def see_node(self, before: Node | None, now: Node | None) -> None:
        """A node changed."""
        if before is not None:
            self._nodes.pop(before.name, None)
        if now is not None:
            self._nodes[now.name] = now

    def see_workload(self, before: Workload | None, now: Workload | None) -> Iterator[str]:
        """A Workload changed."""
        if before is not None and before.domains:
            self._given.pop(before.name, None)
            self._earlier[before.name] |= before.domains.keys()
        if now is None or not now.holds:
            return
        if now.domains:
            self._given[now.name] = now
            for domain, pods in now.domains.items():
                if before is None or not before.holds or pods > before.domains.get(domain, 0):
                    yield from self._exceeded(domain)

    def see_pod(self, before: Pod | None, now: Pod | None) -> Iterator[str]:
        """A pod changed."""
        if before is not None:
            self._pods.pop(before.uid, None)
        if now is None or not now.runs or not now.workload:
            return
        self._pods[now.uid] = now
        given, node = self._given.get(now.workload), self._nodes.get(now.node)
        if given is None or node is None or (before is not None and before.runs):
            return
        mine = next((domain for domain in given.domains if _in(node, domain)), None)
        if mine is None:
            known = (*given.domains, *self._earlier[now.workload])
            elsewhere = (
                each
                for each in self._pods.values()
                if each.workload == now.workload
                and each.node in self._nodes
                and not any(_in(self._nodes[each.node], domain) for domain in known)
            )
            if not any(_in(node, domain) for domain in known) and len(list(elsewhere)) > given.anywhere:
                yield f"pod {now.name} runs on {now.node}, which its Workload was not given"
            return
        running = sum(
            each.workload == now.workload and each.node in self._nodes and _in(self._nodes[each.node], mine)
            for each in self._pods.values()
        )
        if running > given.domains[mine]:
            yield f"{running} pods run on {_named(mine)}, and {given.domains[mine]} were given to their Workload"

    def _exceeded(self, domain: Domain) -> Iterator[str]:
        """A sentence if a domain is given more than its nodes have; what pods of others use is not looked at."""
        nodes = [node for node in self._nodes.values() if _in(node, domain)]
        if not nodes:
            return
        capacity: defaultdict[str, Fraction] = defaultdict(Fraction)
        for node in nodes:
            for resource, amount in node.allocatable.items():
                capacity[resource] += amount
        given: defaultdict[str, Fraction] = defaultdict(Fraction)
        for workload in self._given.values():
            for resource, amount in _uses(workload, domain).items():
                given[resource] += amount
        for resource, amount in sorted(given.items()):
            if resource in capacity and amount > capacity[resource]:
                yield f"{_named(domain)} has {float(capacity[resource]):g} {resource}, and {float(amount):g} are given"


def _uses(workload: Workload, domain: Domain) -> Mapping[str, Fraction]:
    found: defaultdict[str, Fraction] = defaultdict(Fraction)
    for resource, amount in workload.on.get(domain, {}).items():
        found[resource] += amount
    return found


def _in(node: Node, domain: Domain) -> bool:
    return all(node.labels.get(level) == value for level, value in zip(domain.levels, domain.values, strict=True))


def _named(domain: Domain) -> str:
    return f"domain {','.join(domain.values)}"
