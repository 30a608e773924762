"""Which pods of a job run outside of the domains that its Workloads were given, or are more there than were assigned.

Pods have their domain by a scheduling gate, which only Seiretsu removes; a job whose pod template has lost the gate
while it runs creates pods that run anywhere. Here nobody asks how that came about, nor believes a label of a pod: pods
of pod sets without a topology may run anywhere, so as many pods as these have may be outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple

from api.names import HOSTNAME_LABEL
from core.guard.grants import holds
from core.model import Workload
from core.model.kubernetes import Labels

_NAMED: Final = 3
"""So many domains and nodes are named in a sentence."""


class DomainKey(NamedTuple):
    """A domain: its levels and their values."""

    levels: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GrantedDomains:
    """How many pods of a job each domain may have, and how many more may run anywhere (``others``)."""

    pods: Mapping[DomainKey, int]
    levels: tuple[tuple[str, ...], ...]
    others: int

    def of(self, labels: Labels, selector: Labels) -> tuple[DomainKey, ...]:
        """Returns the domains in which a pod on a node with these labels may count, the smallest first. What the pod's
        own node selector names counts instead: kube-scheduler has compared it, and labels of nodes change.
        """
        found = []
        for levels in self.levels:
            values = tuple(selector.get(level) or labels.get(level, "") for level in levels)
            if (key := DomainKey(levels, values)) in self.pods:
                found.append(key)
        return tuple(found)


def granted_domains(workloads: Iterable[Workload]) -> GrantedDomains | None:
    """Returns what the Workloads of one job were given together, the larger of each where they replace each other; None
    where no topology decides, and where two topologies without hostnames overlap in a way that leaves open in which of
    two domains a pod counts. Nor is an elastic job judged that has changed its size: its pods run on where they are,
    and the slice that replaced another one may have been given other domains for them.
    """
    found: dict[DomainKey, int] = {}
    others = 0
    for each in workloads:
        if not holds(each):
            continue
        if each.slice_name not in ("", each.key.name):
            return None
        pods, anywhere = _given(each)
        others = max(others, anywhere)
        for key, count in pods.items():
            found[key] = max(count, found.get(key, 0))
    levels = _levels(found)
    several = [each for each in levels if each != (HOSTNAME_LABEL,)]
    if not found or any(longer[: len(shorter)] != shorter for longer, shorter in combinations(several, 2)):
        return None
    return GrantedDomains(found, levels, others)


def with_domain(workload: Workload, running: Iterable[Labels]) -> Iterator[bool]:
    """Yields for each pod, of which the labels of its node are given, whether a Workload has a domain for it there. It
    has none for those of an elastic job that ran before it changed its size, and that stayed where they are.
    """
    pods, _ = _given(workload)
    has = GrantedDomains(pods, _levels(pods), 0)
    for labels in running:
        key = next((each for each in has.of(labels, {}) if pods[each] > 0), None)
        if key is not None:
            pods[key] -= 1
        yield key is not None


def _levels(keys: Iterable[DomainKey]) -> tuple[tuple[str, ...], ...]:
    """The levels of domains, the lowest first."""
    found = {key.levels for key in keys}
    return tuple(sorted(found, key=lambda each: (each != (HOSTNAME_LABEL,), -len(each), each)))


def _given(workload: Workload) -> tuple[Counter[DomainKey], int]:
    """The pods of each domain of one Workload, and those of pod sets without a topology. A pod set whose domains are
    decided later has no pod that may run.
    """
    assert workload.admission is not None
    pods, others = Counter[DomainKey](), 0
    for given in workload.admission.pod_sets:
        if given.topology is not None:
            for domain in given.topology.domains:
                pods[DomainKey(given.topology.levels, domain.values)] += domain.count
        elif not given.awaits_topology:
            others += given.count
    return pods, others


class RunningInDomains:
    """Counts the pods of a job that run, by the domains in which they may count."""

    def __init__(self, has: GrantedDomains) -> None:
        self._has = has
        self._pods: Counter[tuple[DomainKey, ...]] = Counter()
        self._nodes: Counter[str] = Counter()

    def add(self, node: str, domains: tuple[DomainKey, ...]) -> None:
        """A pod runs on this node; ``domains`` is what ``GrantedDomains.of`` returned for it."""
        if domains:
            self._pods[domains] += 1
        else:
            self._nodes[node] += 1

    def outside(self) -> str:
        """Returns a sentence about the pods for which no domain is left; '' if there are no more than may be."""
        beyond = self._beyond()
        if self._nodes.total() + beyond.total() <= self._has.others:
            return ""
        parts = []
        for key, more in sorted(beyond.items())[:_NAMED]:
            runs = self._has.pods[key] + more
            parts.append(f"{_pods(runs)} on {', '.join(key.values)}, {self._has.pods[key]} assigned")
        for node, runs in sorted(self._nodes.items())[:_NAMED]:
            parts.append(f"{_pods(runs)} on {node}, none assigned")
        left = len(beyond) + len(self._nodes) - len(parts)
        if left:
            parts.append(f"{left} more place{'s' if left > 1 else ''}")
        return f"Pods run outside of their topology assignment: {'; '.join(parts)}"

    def _beyond(self) -> Counter[DomainKey]:
        """How many pods each domain has beyond those assigned. A pod counts in the smallest of its domains that has
        room: those of one node contain each other, so that no other choice leaves fewer beyond.
        """
        room, beyond = dict(self._has.pods), Counter[DomainKey]()
        for domains, count in sorted(self._pods.items(), key=lambda each: (len(each[0]), each[0])):
            left = count
            for key in domains:
                taken = min(left, room[key])
                room[key] -= taken
                left -= taken
            if left:
                beyond[domains[0]] += left
        return beyond


def _pods(count: int) -> str:
    return f"{count} pod{'s' if count > 1 else ''} run{'' if count > 1 else 's'}"
