"""What a simulation used of each domain of a topology over time, and how scattered the rest was.

Separate from ``cli.bands``, which has quotas: a domain belongs to a flavor, not to a ClusterQueue. Domains of the level
above the nodes are shown (racks, in most topologies): those are what required requests ask for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cli.bands import StepFunction, area, together
from core.model import Requests, TopologyAssignment, Workload
from core.simulation.simulation import PlayedAttempt, Timeline
from core.state.state import State
from core.topology.nodes import Domains


@dataclass(frozen=True)
class DomainBand:
    """The use of a resource on one domain; ``level`` is its node label, ``capacity`` what its nodes can give."""

    flavor: str
    level: str
    domain: str
    resource: str
    capacity: int
    steps: StepFunction

    @property
    def most(self) -> int:
        """The greatest usage."""
        return max((used for _, used in self.steps), default=0)

    def utilisation(self, end: float) -> float | None:
        """Used amount times time over capacity times time; None without capacity."""
        return round(area(self.steps, end) / (self.capacity * end), 3) if self.capacity and end else None


def bands(timeline: Timeline, flavors: Mapping[str, Domains]) -> list[DomainBand]:
    """One band for each domain of each flavor with a topology, and each resource that pods were placed with."""
    changes: dict[tuple[str, int, str], list[StepFunction]] = defaultdict(list)
    resources: dict[str, set[str]] = defaultdict(set)
    for flavor, shown, per_pod, count, started, ended in _placed(timeline, flavors):
        for resource, amount in per_pod.items():
            resources[flavor].add(resource)
            steps = ((started, amount * count), *(() if ended is None else ((ended, 0),)))
            changes[flavor, shown, resource].append(steps)
    found = []
    for flavor, domains in sorted(flavors.items()):
        tree, level = domains.tree, level_of(domains)
        for shown in range(tree.size(level)) if tree.leaves.present else ():
            capacity = _capacity(domains, level, shown)
            for resource in sorted(resources[flavor]):
                steps = together(changes[flavor, shown, resource])
                if not steps or steps[0][0] > 0:
                    steps = ((0.0, 0), *steps)
                label = "/".join(tree.path(level, shown))
                found.append(DomainBand(flavor, tree.levels[level], label, resource, capacity.get(resource, 0), steps))
    return found


def level_of(domains: Domains) -> int:
    """The level whose domains are shown: that above the nodes, if there is one."""
    return max(0, domains.tree.lowest - 1) if domains.tree.by_hostname else domains.tree.lowest


def domains_of(state: State) -> dict[str, Domains]:
    """The domains of each flavor with a topology, without usage."""
    if state.placement is None:
        return {}
    flavors = sorted(state.reservations.flavors.items())
    return {name: found for name, flavor in flavors if (found := state.placement.domains(flavor)) is not None}


def ran_on(attempt: PlayedAttempt, flavors: Mapping[str, Domains]) -> dict[str, int]:
    """The number of pods of an attempt on each domain that is shown, by name."""
    found: dict[str, int] = defaultdict(int)
    for assigned in attempt.admission.pod_sets:
        flavor = next(iter(assigned.flavors.values()), "")
        if assigned.topology is not None and flavor in flavors:
            domains = flavors[flavor]
            for shown, count in by_domain(domains, assigned.topology).items():
                found["/".join(domains.tree.path(level_of(domains), shown))] += count
    return dict(found)


def fragmentation(found: Iterable[DomainBand], end: float) -> dict[tuple[str, str], float]:
    """By flavor and resource: how much of what is free is outside of the domain that has most of it, in the mean over
    the time: 0 where one domain has all, near 1 where each of many has a little.
    """
    several: dict[tuple[str, str], list[DomainBand]] = defaultdict(list)
    for band in found:
        several[band.flavor, band.resource].append(band)
    return {cell: round(_scattered(each, end), 3) for cell, each in several.items() if end}


def _scattered(several: list[DomainBand], end: float) -> float:
    """The mean over the time of 1 - the most free on one domain / all that is free."""
    events = sorted((at, number, used) for number, band in enumerate(several) for at, used in band.steps)
    free = [band.capacity for band in several]
    total, since, share = 0.0, 0.0, 0.0
    for at, number, used in events:
        total += share * (min(at, end) - min(since, end))
        since, free[number] = at, max(0, several[number].capacity - used)
        share = 1 - max(free) / sum(free) if sum(free) else 0.0
    return (total + share * max(0.0, end - since)) / end


def _placed(
    timeline: Timeline, flavors: Mapping[str, Domains]
) -> Iterator[tuple[str, int, Requests, int, float, float | None]]:
    """Flavor, shown domain, requests of a pod, number of pods, and from when to when, of all that was placed."""
    for course in timeline.courses.values():
        for attempt in course.attempts:
            for assigned in attempt.admission.pod_sets:
                flavor = next(iter(assigned.flavors.values()), "")
                if assigned.topology is None or flavor not in flavors:
                    continue
                per_pod = _per_pod(course.arrival.workload, assigned.name)
                for shown, count in by_domain(flavors[flavor], assigned.topology).items():
                    yield flavor, shown, per_pod, count, attempt.started, attempt.ended


def by_domain(domains: Domains, assignment: TopologyAssignment) -> dict[int, int]:
    """The number of pods on each domain of the level that is shown; those on nodes that are gone are left out."""
    found: dict[int, int] = defaultdict(int)
    for domain in assignment.domains:
        leaf = domains.number(domain.values)
        if leaf is not None:
            found[domains.tree.above(leaf, level_of(domains))] += domain.count
    return dict(found)


def _per_pod(workload: Workload, name: str) -> Requests:
    return next((each.on_node for each in workload.pod_sets if each.name == name), {})


def _capacity(domains: Domains, level: int, number: int) -> Requests:
    found: dict[str, int] = defaultdict(int)
    for leaf in domains.tree.below(level, number, domains.tree.lowest):
        for resource, amount in domains.tree.leaves[leaf].capacity.items():
            found[resource] += amount
    return found
