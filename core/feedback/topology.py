"""Topology requests that no domain fulfils: ever, or now; and topologies whose labels no node has.

Separate from `core.feedback.nodes`: kube-scheduler places each pod by itself, and topologies are about pods together.
Nothing is said where nodes come later (a ProvisioningRequest) or the pods run in another cluster (MultiKueue), nor
where it would take too long to compare the pods with all nodes and no cycle has done so yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from core.feedback import capacity, nodes
from core.feedback.change import Change
from core.feedback.rules import Rule, fitted, shortened
from core.feedback.submission import Submission
from core.model import ClusterQueue, PodSet, ResourceFlavor, Topology
from core.quota.placement import PlacementCapacity, PlacementKind
from core.state.lookup import Lookup
from core.topology import Asked, Domains, Misfit, has_room, is_quick, place
from core.topology.flavors import asks
from core.topology.place import most
from core.topology.request import Options

POD_SETS: Final = 2
"""The pod sets of one job that are placed for a warning."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A pod set, and the domains of the flavors that it could use, by flavor: unused, and as they are used now."""

    pod_set: PodSet
    count: int
    unused: Mapping[str, Domains]
    used: Mapping[str, Domains]
    options: Options

    @property
    def level(self) -> str:
        """The last part of the label of the level on one domain of which all pods must be; '' if they need not."""
        asked = self.pod_set.topology
        return asked.required.rpartition("/")[2] if asked is not None else ""

    @property
    def fits_now(self) -> bool:
        """Whether all pods could be placed beside what is in use; then they could be if nothing were, too."""
        asked = [Asked(self.pod_set, self.count)]
        return any(has_room(each, asked, self.options) for each in self.used.values())

    def most(self, domains: Mapping[str, Domains]) -> tuple[int, str]:
        """Returns how many of the pods could be placed, at most as many as are asked for, and in which flavor."""
        return max(((self._fit(each), name) for name, each in sorted(domains.items())), key=lambda found: found[0])

    def _fit(self, domains: Domains) -> int:
        low, high = 0, min(self.count, most(domains, Asked(self.pod_set, self.count), self.options))
        if self._fits(domains, high):
            return high
        while low < high - 1:  # so many fit, and high do not
            middle = (low + high) // 2
            low, high = (middle, high) if self._fits(domains, middle) else (low, middle)
        return low

    def _fits(self, domains: Domains, count: int) -> bool:
        found = place(domains, [Asked(self.pod_set, count)], self.options)[self.pod_set.name]
        return not isinstance(found, Misfit)


def no_level(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """A level that no topology of the ClusterQueue has."""
    kind = lookup.state.placement
    for pod_set in _asking(job) if kind is not None else ():
        assert kind is not None
        topologies = _topologies(queue, kind, lookup)
        where = f'ClusterQueue "{shortened(queue.name)}"'
        for level in _levels(pod_set):
            if not topologies:
                yield fitted(f"never starts: no flavor of {where} has a topology; remove the topology annotations")
                return
            if not any(level in topology.levels for topology in topologies):
                known = list(dict.fromkeys(each for topology in topologies for each in topology.levels))
                fact = f"never starts: no topology of {where} has level {shortened(level)}"
                yield fitted(f"{fact}; ask for {', '.join(map(shortened, known[:3]))}", fact)
                return


def uneven(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """Pods beyond the last whole slice: the Workload is admitted without them, and their scheduling gate stays."""
    kind = lookup.state.placement
    if kind is None or job.units > 1 or not _topologies(queue, kind, lookup):
        return
    for pod_set in _asking(job):
        size = pod_set.topology.slices[0][1] if pod_set.topology is not None and pod_set.topology.slices else 1
        left = pod_set.count % size if size > 0 else 0
        if left:
            whole = pod_set.count - left
            numbers = f"{whole} or {whole + size}" if whole else f"{size}"
            pods = f"{left} pod{'s' if left > 1 else ''}"
            fact = f"{pods} of {pod_set.count} never run{'' if left > 1 else 's'}: slices have {size} pods"
            yield fitted(f"{fact}, and only whole ones are placed; ask for {numbers} pods", fact)
            return


def too_small(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """Pods for which no domain would have room if no other workload used anything."""
    for wanted in _wanted(job, queue, lookup):
        if wanted.fits_now:
            continue
        most, flavor = wanted.most(wanted.unused)
        if most >= wanted.count:
            continue
        where = f'the largest of flavor "{shortened(flavor)}"' if wanted.level else f'flavor "{shortened(flavor)}"'
        one = f" in one {shortened(wanted.level)}" if wanted.level else " by topology"
        fact = f"{wanted.count} pods{one}: {where} could ever hold {most}"
        fix = "ask for preferred, or a higher level" if wanted.level else f"ask for {most} pods or less"
        yield fitted(f"asks for {fact}; {fix}", f"asks for {fact}")
        return


def full(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """Pods for which no domain has room now."""
    for wanted in _wanted(job, queue, lookup):
        if wanted.fits_now:
            continue
        ever, _ = wanted.most(wanted.unused)
        now, flavor = wanted.most(wanted.used)
        if now < wanted.count <= ever:
            fact = f"fits no {shortened(wanted.level)} now" if wanted.level else "fits no nodes of its topology now"
            room = f"room for {now} pods, {wanted.count - now} missing"
            of = f'of flavor "{shortened(flavor)}"'
            best = f"the best {of} has {room}" if wanted.level else f"those {of} have {room}"
            yield fitted(f"{fact}: {best}: will wait", f"{fact}: {best}")
            return


def _asking(job: Submission) -> Iterator[PodSet]:
    found = [each for each in job.pod_sets if each.count and asks(each.topology)]
    return iter(found[:POD_SETS])


def _levels(pod_set: PodSet) -> list[str]:
    asked = pod_set.topology
    if asked is None:
        return []
    named = [each for each in (asked.required or asked.preferred,) if each]
    return [*named, *(level for level, _ in asked.slices)]


def _topologies(queue: ClusterQueue, kind: PlacementKind, lookup: Lookup) -> list[Topology]:
    names = (name for group in queue.groups for name in group.flavors)
    flavors = (flavor for name in names if (flavor := lookup.flavor(name)) is not None)
    named = dict.fromkeys(flavor.topology_name for flavor in flavors if flavor.topology_name is not None)
    return [kind.topologies[name] for name in named if name in kind.topologies]


def _wanted(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterator[_Wanted]:
    """Yields the pod sets that are placed by themselves, with the domains of the flavors that they could use."""
    kind = lookup.state.placement
    if kind is None or job.units > 1 or not nodes.present(queue, lookup):
        return
    arenas, arena_of = lookup.state.reservations.arenas, lookup.state.reservations.arena_of
    arena = arenas.get(arena_of.get(queue.name, ""))
    used = arena.further.get(kind.name) if arena is not None else None
    if not isinstance(used, PlacementCapacity):
        return
    demands = list(capacity.demands(job, queue))
    shared = {each.name: each for each in lookup.state.pending.demands.alike(job.pod_sets)}
    for pod_set in _asking(job):
        if pod_set.topology is None or pod_set.topology.group:
            continue  # pods that are placed together with others
        groups = [nodes.possible(each, queue, lookup) for each in demands if each.pod_set is pod_set]
        named = [flavor for flavor in _common(groups) if flavor.name in used.domains]
        unused = {flavor.name: domains for flavor in named if (domains := kind.domains(flavor)) is not None}
        known = {name for name, each in unused.items() if set(_levels(pod_set)) <= set(each.tree.levels)}
        asked = Asked(shared[pod_set.name], pod_set.count)
        quick = all(is_quick(used.domains[name], asked, used.options) for name in known)
        if known and quick and all(unused[name].tree.leaves.present for name in known):
            yield _Wanted(
                shared[pod_set.name],
                pod_set.count if pod_set.min_count is None else pod_set.min_count,
                {name: unused[name] for name in known},
                {name: used.domains[name] for name in known},
                used.options,
            )


def _common(groups: list[list[ResourceFlavor]]) -> list[ResourceFlavor]:
    """The flavors that are in each of the groups which have any with a topology."""
    with_topology = [[each for each in group if each.topology_name is not None] for group in groups]
    named = [{each.name for each in group} for group in with_topology if group]
    return [each for each in (with_topology[0] if with_topology else ()) if all(each.name in names for names in named)]


# For administrators.


def is_off(lookup: Lookup) -> bool:
    """Whether topologies have no effect."""
    return lookup.state.placement is None


def levels_without_nodes(change: Change[Topology], lookup: Lookup) -> Iterable[str]:
    """Levels of a Topology of which no node has the label."""
    if change.new is None or is_off(lookup):
        return
    there = tuple(lookup.cluster_nodes())
    for level in change.new.levels if there else ():
        if not any(level in node.labels for node in there):
            fact = f"no node has label {shortened(level)}"
            yield fitted(f"{fact}: no pod can be placed by this Topology; label nodes", fact)
            return


def topology_not_found(change: Change[ResourceFlavor], lookup: Lookup) -> Iterable[str]:
    """A flavor that names a Topology which does not exist."""
    kind, flavor = lookup.state.placement, change.new
    if kind is not None and flavor is not None and flavor.topology_name and flavor.topology_name not in kind.topologies:
        fact = f'Topology "{shortened(flavor.topology_name)}" does not exist yet'
        yield fitted(f"{fact}: ClusterQueues with this flavor admit nothing until it is created", fact)


def flavor_without_levels(change: Change[ResourceFlavor], lookup: Lookup) -> Iterable[str]:
    """A flavor none of whose nodes has the label of a level of its Topology."""
    kind, flavor = lookup.state.placement, change.new
    topology = kind.topologies.get(flavor.topology_name or "") if kind is not None and flavor is not None else None
    if topology is None or flavor is None:
        return
    wanted = flavor.node_labels.items()
    there = [node for node in lookup.cluster_nodes() if wanted <= node.labels.items()]
    for level in topology.levels if there else ():
        if not any(level in node.labels for node in there):
            fact = f"of {len(there)} nodes of this flavor none has label {shortened(level)}"
            yield fitted(f"{fact}: no pod can be placed there; label nodes", fact)
            return


LEVEL_RULE: Final = Rule(
    "topology-labels-not-found",
    "No node has the label of a level of the Topology.",
    levels_without_nodes,
    example="no node has label cloud.example.com/rack: no pod can be placed by this Topology; label nodes",
)
FLAVOR_RULES: Final[tuple[Rule[Change[ResourceFlavor]], ...]] = (
    Rule(
        "topology-not-found",
        "A ResourceFlavor names a Topology that does not exist.",
        topology_not_found,
        example='Topology "racks" does not exist yet: ClusterQueues with this flavor admit nothing until it is created',
    ),
    Rule(
        "topology-labels-not-found",
        "None of the nodes of a ResourceFlavor has the label of a level of its Topology.",
        flavor_without_levels,
        example="of 2 nodes of this flavor none has label rack: no pod can be placed there; label nodes",
    ),
)
