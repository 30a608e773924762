"""Topology requests that no domain fulfils: ever, or now; and topologies whose labels no node has.

Separate from `core.feedback.nodes`: kube-scheduler places each pod by itself, and topologies are about pods together.
Nothing is said where nodes come later (a ProvisioningRequest) or the pods run in another cluster (MultiKueue), nor
where it would take too long to compare the pods with all nodes and no cycle has done so yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from api import quantity
from core.feedback import capacity, nodes
from core.feedback.change import Change
from core.feedback.rules import Rule, fitted, shortened
from core.feedback.submission import Submission
from core.model import ClusterQueue, FlavorResource, Labels, PodSet, ResourceFlavor, Topology
from core.quota.placement import PlacementCapacity, PlacementKind
from core.state.lookup import Lookup
from core.topology import Asked, Domains, Misfit, has_room, is_quick, place
from core.topology.flavors import asks, beyond_nodes, given_twice, topology_only, with_levels
from core.topology.largest import Largest, counted_nodes, largest, level_name, never_fits
from core.topology.nodes import HOSTNAME
from core.topology.place import groups, most
from core.topology.request import Options

POD_SETS: Final = 2
"""The pod sets of one job that are placed for a warning."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Pod sets that are placed together, the workers first, and the domains of the flavors that they could use, by
    flavor: unused, and as they are used now. ``each`` is what begins the sentence about one of several equal parts.
    """

    asked: tuple[Asked, ...]
    unused: Mapping[str, Domains]
    used: Mapping[str, Domains]
    options: Options
    each: str = ""

    @property
    def count(self) -> int:
        """The number of pods."""
        return sum(asked.count for asked in self.asked)

    @property
    def level(self) -> str:
        """What the level is called on one domain of which all pods must be; '' if they need not."""
        return level_name(self.asked[0].topology.required)

    @property
    def pods(self) -> str:
        """The pods and where they must be."""
        group = " with the leader" if len(self.asked) > 1 else ""
        return f"{self.count} pods{group}{f' in one {shortened(self.level)}' if self.level else ' by topology'}"

    @property
    def fits_now(self) -> bool:
        """Whether all pods could be placed beside what is in use; then they could be if nothing were, too."""
        return any(has_room(each, self.asked, self.options) for each in self.used.values())

    def most(self, domains: Mapping[str, Domains]) -> tuple[int, str]:
        """Returns how many of the pods could be placed, at most as many as are asked for, and in which flavor."""
        return max(((self._fit(each), name) for name, each in sorted(domains.items())), key=lambda found: found[0])

    def largest(self, domains: Domains, most: int) -> Largest | None:
        """The largest domain of a flavor; None where it does not explain that so many pods fit."""
        workers = self.asked[0]
        if any(
            other.per_pod != workers.per_pod or other.pod_set.placement != workers.pod_set.placement
            for other in self.asked
        ):
            return None
        found = largest(domains, structs.replace(workers, count=self.count), self.options)
        return found if found is not None and found.pods == most else None

    def _fit(self, domains: Domains) -> int:
        """Workers are left out until the others fit, with the leader if there is one."""
        workers, *leader = self.asked
        beside = leader[0] if leader and leader[0].count == 1 else None
        low, high = 0, min(workers.count, most(domains, workers, self.options, beside))
        if high and (not leader or self._fits(domains, high)):
            return high + sum(each.count for each in leader)
        while low < high - 1:  # so many fit, and high do not
            middle = (low + high) // 2
            low, high = (middle, high) if self._fits(domains, middle) else (low, middle)
        if leader and (low or has_room(domains, [structs.replace(leader[0], group="")], self.options)):
            return low + leader[0].count
        return low

    def _fits(self, domains: Domains, count: int) -> bool:
        workers, *leader = self.asked
        found = place(domains, [structs.replace(workers, count=count), *leader], self.options)
        return not any(isinstance(each, Misfit) for each in found.values())


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
    if kind is None or not _topologies(queue, kind, lookup):
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


def no_label(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """A level of which no node has the label, in each flavor that the pods could use."""
    kind = lookup.state.placement
    if kind is None or not kind.topologies or not nodes.present(queue, lookup):
        return
    demands = list(capacity.demands(job, queue))
    implied = topology_only(queue, lookup.state.reservations.flavors)
    for pod_set in [each for each in job.pod_sets if each.count and (implied or asks(each.topology))][:POD_SETS]:
        flavors = _flavors(pod_set, demands, queue, lookup)
        found = [(flavor, label) for flavor in flavors if (label := _lacking_label(flavor, kind, lookup)) is not None]
        if found and len(found) == len(flavors):
            flavor, label = found[0]
            what = f"label {shortened(label)}" if label else "a label for every level of its Topology"
            fact = f'no node of flavor "{shortened(flavor.name)}" has {what} now'
            yield fitted(
                f"{fact}: the job waits; ask an administrator to label nodes",
                f"{fact}: the job waits; have nodes labelled",
                f"{fact}: the job waits",
            )
            return


def too_small(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """Pods for which no domain would have room if no other workload used anything."""
    for wanted in _wanted(job, queue, lookup):
        if wanted.fits_now:
            continue
        most, flavor = wanted.most(wanted.unused)
        if most >= wanted.count:
            continue
        there = wanted.largest(wanted.unused[flavor], most)
        of = f' of flavor "{shortened(flavor)}"' if len(wanted.unused) > 1 else ""
        where = f"the largest{of}" if wanted.level else f'flavor "{shortened(flavor)}"'
        fact = f"{wanted.each}{never_fits(wanted.pods, where, most)}"
        why = f"{wanted.each}{never_fits(wanted.pods, where, most, there.nodes if there is not None else '')}"
        fix = _fix(wanted, there, most)
        yield fitted(f"{why}; {fix}", why, or_else=[f"{fact}; {fix}", fact])
        return


def _fix(wanted: _Wanted, there: Largest | None, most: int) -> str:
    """What to ask for instead: only what there would be room for in an empty cluster, as far as that is known."""
    if wanted.level and there is None:
        return "ask for preferred, or a higher level"
    if there is None or there.together < wanted.count:
        return f"ask for {most} pods or less"
    if not there.higher:
        return "ask for preferred"
    return f"ask for preferred, or {'an' if there.higher[0] in 'aeiou' else 'a'} {shortened(there.higher)}"


def full(job: Submission, queue: ClusterQueue, lookup: Lookup) -> Iterable[str]:
    """Pods for which no domain has room now."""
    for wanted in _wanted(job, queue, lookup):
        if wanted.fits_now:
            continue
        ever, _ = wanted.most(wanted.unused)
        now, flavor = wanted.most(wanted.used)
        if now < wanted.count <= ever:
            there = wanted.largest(wanted.used[flavor], now)
            level, of = shortened(wanted.level), f'of flavor "{shortened(flavor)}"'
            fact = f"fits no {level} now" if wanted.level else "fits no nodes of its topology now"
            best = f"the best {of} has" if wanted.level else f"those {of} have"
            if there is not None and there.name and wanted.asked[0].topology.required != HOSTNAME:
                best = f"{level} {shortened(there.name)} has"
            room = f"{fact}: {best} room for {now} pods, {wanted.count - now} missing"
            yield fitted(f"{room}: will wait", room)
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
    """Yields the pod sets that are placed by themselves, and groups of them, with the domains that they could use."""
    kind = lookup.state.placement
    if kind is None or not nodes.present(queue, lookup):
        return
    arenas, arena_of = lookup.state.reservations.arenas, lookup.state.reservations.arena_of
    arena = arenas.get(arena_of.get(queue.name, ""))
    used = arena.further.get(kind.name) if arena is not None else None
    if not isinstance(used, PlacementCapacity):
        return
    demands = list(capacity.demands(job, queue))
    shared = {each.name: each for each in lookup.state.pending.demands.alike(job.pod_sets)}
    each = f"each {job.words.unit} " if job.units > 1 else ""
    for together in _together(job):
        groups = [_flavors(pod_set, demands, queue, lookup) for pod_set in together]
        named = [flavor for flavor in _common(groups) if flavor.name in used.domains]
        unused = {flavor.name: domains for flavor in named if (domains := kind.domains(flavor)) is not None}
        levels = {level for pod_set in together for level in _levels(pod_set)}
        named = [flavor for flavor in named if flavor.name in unused and _lacking_label(flavor, kind, lookup) is None]
        known = {flavor.name for flavor in named if levels <= set(unused[flavor.name].tree.levels)}
        asked = tuple(_asked(shared[pod_set.name], together) for pod_set in together)
        quick = all(is_quick(used.domains[name], pods, used.options) for name in known for pods in asked)
        if known and quick and all(unused[name].tree.leaves.present for name in known):
            yield _Wanted(
                asked,
                {name: unused[name] for name in known},
                {name: used.domains[name] for name in known},
                used.options,
                each,
            )


def _together(job: Submission) -> list[list[PodSet]]:
    """The pod sets that are placed by themselves, and those of a group together: the workers first, then the leader."""
    asking = (each for each in job.pod_sets if each.count and asks(each.topology))
    found = groups(Asked(each, each.count, each.topology.group if each.topology else "") for each in asking)
    return [sorted((each.pod_set for each in group), key=lambda pods: -pods.count) for group in found[:POD_SETS]]


def _asked(pod_set: PodSet, together: Sequence[PodSet]) -> Asked:
    count = pod_set.count if pod_set.min_count is None else pod_set.min_count
    group = pod_set.topology.group if pod_set.topology is not None and len(together) > 1 else ""
    return Asked(pod_set, count, group)


def _flavors(
    pod_set: PodSet, demands: Iterable[capacity.AskedCapacity], queue: ClusterQueue, lookup: Lookup
) -> list[ResourceFlavor]:
    """The flavors with a topology that a pod set could use."""
    return _common([nodes.possible(each, queue, lookup) for each in demands if each.pod_set is pod_set])


def _lacking_label(flavor: ResourceFlavor, kind: PlacementKind, lookup: Lookup) -> str | None:
    """A level of which no node of a flavor has the label; '' if no node has all of them. None if some node has, or if
    that is not why the flavor has no domains.
    """
    domains = kind.domains(flavor)
    if domains is None or domains.tree.leaves.present:
        return None
    return missing_level(domains.tree.levels, [node.labels for node in lookup.nodes_with(flavor.node_labels)])


def missing_level(levels: Iterable[str], there: Collection[Labels]) -> str | None:
    """The first level of which none of these nodes has the label; '' if each is on some, but no node has all. None if a
    node has all of them, or there is none.
    """
    for level in levels if there else ():
        if not any(level in labels for labels in there):
            return level
    return "" if there and not any(all(level in labels for level in levels) for labels in there) else None


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
    level = missing_level(change.new.levels, [node.labels for node in lookup.cluster_nodes()])
    if level:
        fact = f"no node has label {shortened(level)}"
        yield fitted(f"{fact}: no pod can be placed by this Topology; label nodes", fact)


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
    there = lookup.nodes_with(flavor.node_labels)
    level = missing_level(topology.levels, [node.labels for node in there])
    if level is not None:
        what = f"label {shortened(level)}" if level else "a label for every level of its Topology"
        fact = f"of {len(there)} nodes of this flavor none has {what}"
        yield fitted(f"{fact}: no pod can be placed there; label nodes", fact)


def shared_nodes(change: Change[ResourceFlavor], lookup: Lookup) -> Iterable[str]:
    """Nodes that another flavor with a topology has too, where neither knows what the other uses there."""
    kind, flavor = lookup.state.placement, change.new
    if kind is None or flavor is None:
        return
    for other, count in _sharing(flavor, kind.topologies, lookup):
        both = f'shares {counted_nodes(count)} with flavor "{shortened(other)}"'
        fact = f"{both}, and neither knows what the other uses there"
        yield fitted(f"{fact}; change nodeLabels", fact)
        return


def shared_by_topology(change: Change[Topology], lookup: Lookup) -> Iterable[str]:
    """Nodes that a flavor of the Topology has in common with another one; flavors may have named it before."""
    kind, new = lookup.state.placement, change.new
    if kind is None or new is None:
        return
    flavors = [each for each in lookup.state.reservations.flavors.values() if each.topology_name == new.name]
    yield from _shared(flavors, {**kind.topologies, new.name: new}, lookup)


def shared_by_queue(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    """Nodes that a flavor of the ClusterQueue has in common with another flavor with a topology."""
    kind, new = lookup.state.placement, change.new
    if kind is None or new is None:
        return
    found = (lookup.flavor(name) for group in new.groups for name in group.flavors)
    yield from _shared([each for each in found if each is not None], kind.topologies, lookup)


def _shared(flavors: Iterable[ResourceFlavor], topologies: Mapping[str, Topology], lookup: Lookup) -> Iterator[str]:
    """The first two flavors, one of which is one of these, that share nodes."""
    for flavor in sorted(flavors, key=lambda each: each.name):
        for other, count in _sharing(flavor, topologies, lookup):
            both = f'flavors "{shortened(flavor.name)}" and "{shortened(other)}" share {counted_nodes(count)}'
            fact = f"{both}, and neither knows what the other uses there"
            yield fitted(f"{fact}; change nodeLabels", fact)
            return


def _sharing(flavor: ResourceFlavor, topologies: Mapping[str, Topology], lookup: Lookup) -> Iterator[tuple[str, int]]:
    """The flavors that use nodes of another one without knowing what that uses there, with how many, in order."""
    if flavor.topology_name is None:
        return
    for name, other in sorted(lookup.state.reservations.flavors.items()):
        if name == flavor.name or other.topology_name is None:
            continue
        labels = given_twice(flavor, other, topologies)
        count = len(lookup.nodes_with(labels)) if labels is not None else 0
        if count:
            yield name, count


def quota_beyond_nodes(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    """More quota of a flavor with a topology than its nodes have: in all Cohorts, and all ClusterQueues whose workloads
    run on these nodes. Nothing about resources that no node has: another rule is about them.
    """
    kind, queue = lookup.state.placement, change.new
    if kind is None or queue is None or not lookup.has_nodes():
        return
    for name in sorted({fr.flavor for fr in queue.quotas}):
        flavor = lookup.flavor(name) if nodes.runs_here(queue, lookup, name) else None
        topology = kind.topologies.get(flavor.topology_name or "") if flavor is not None else None
        if flavor is None or topology is None:
            continue
        there = with_levels(lookup.nodes_with(flavor.node_labels), topology.levels)
        for resource, nominal, has in beyond_nodes(_quotas(queue, name, lookup), there):
            if has:
                amount = f"{quantity.text(resource, nominal)} {shortened(resource)}"
                fact = f'flavor "{shortened(name)}" has {amount} of quota, and its {counted_nodes(len(there))} '
                fact += f"{'have' if len(there) > 1 else 'has'} {quantity.text(resource, has)}"
                wait = f"{fact}: workloads within the quota wait for room"
                yield fitted(f"{wait}; lower it", wait, fact)
                return


def _quotas(queue: ClusterQueue, flavor: str, lookup: Lookup) -> Mapping[str, int]:
    """The quota of a flavor by resource that a ClusterQueue has, with what the Cohorts have of these resources and all
    others whose workloads run on these nodes.
    """
    reservations = lookup.state.reservations
    found = {fr.resource: quota.nominal for fr, quota in queue.quotas.items() if fr.flavor == flavor}
    others = [
        each.quotas
        for name, each in reservations.cluster_queues.items()
        if name != queue.name and nodes.runs_here(each, lookup, flavor)
    ]
    for quotas in (*others, *(each.quotas for each in reservations.cohorts.values())):
        for resource in found:
            if (quota := quotas.get(FlavorResource(flavor, resource))) is not None:
                found[resource] += quota.nominal
    return found


_SHARED: Final = 'flavors "new" and "tas" share 2 nodes, and neither knows what the other uses there; change nodeLabels'
TOPOLOGY_RULES: Final[tuple[Rule[Change[Topology]], ...]] = (
    Rule(
        "topology-labels-not-found",
        "No node has the label of a level of the Topology.",
        levels_without_nodes,
        example="no node has label cloud.example.com/rack: no pod can be placed by this Topology; label nodes",
    ),
    Rule(
        "topology-flavors-overlap",
        "A ResourceFlavor of the Topology has nodes in common with another one, and one of the topologies does not end"
        " in the hostname.",
        shared_by_topology,
        example=_SHARED,
    ),
)
QUEUE_RULES: Final[tuple[Rule[Change[ClusterQueue]], ...]] = (
    Rule(
        "topology-flavors-overlap",
        "A flavor of the ClusterQueue has nodes in common with another one, and one of the topologies does not end in"
        " the hostname.",
        shared_by_queue,
        example=_SHARED,
    ),
    Rule(
        "quota-beyond-nodes",
        "The Cohorts, and the ClusterQueues whose workloads run on nodes of this cluster, together have more quota of a"
        " flavor with a topology than its nodes have.",
        quota_beyond_nodes,
        example='flavor "tas" has 100 cpu of quota, and its 6 nodes have 24: workloads within the quota wait for room;'
        " lower it",
    ),
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
    Rule(
        "topology-flavors-overlap",
        "Two ResourceFlavors with a topology have nodes in common, and one of the topologies does not end in the"
        " hostname.",
        shared_nodes,
        example='shares 2 nodes with flavor "tas", and neither knows what the other uses there; change nodeLabels',
    ),
)
