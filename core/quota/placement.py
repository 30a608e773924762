"""Nodes in a topology as a capacity beside quota: each arena has the domains of its flavors, and what is used there.

The usage of a workload is the number of its pods, of each shape, on each domain of its assignment; it follows from the
admission alone. Where the lowest level is the hostname, flavors share the nodes that they have in common. Separate from
``core.topology``, which knows domains but no workloads, and from the cycle, which treats all capacities alike. Source:
KEP 2724.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from api.names import (
    MULTIKUEUE_CONTROLLER,
    PROVISIONING_REQUEST_CONTROLLER,
    CheckState,
    Condition,
    DelayedTopology,
    PendingReason,
)
from core.model import (
    Admission,
    AdmissionCheck,
    ClusterQueue,
    Node,
    Placement,
    PodSet,
    PodSetAssignment,
    Requests,
    ResourceFlavor,
    Topology,
    TopologyAssignment,
    Workload,
)
from core.model.policy import TopologyPolicy
from core.model.workload import COMMON
from core.quota.capacity import Amounts, FurtherCapacity, Shortage
from core.quota.members import Member, Members, Selected, members
from core.quota.reservations import put
from core.quota.usage import Reservation, Usage
from core.topology import Asked, Domains, Misfit, Options, has_room, is_known, place, place_one, prepare, replacement
from core.topology.counts import requests_of
from core.topology.elastic import stay
from core.topology.flavors import asks, topology_only
from core.topology.nodes import HOSTNAME, PODS, FlavorNodes, Tree, tolerable
from core.topology.place import groups
from core.topology.spread import Spread, unit
from core.wire import decode


class Place(NamedTuple):
    """Pods of one shape on a domain, of which usage is a number. ``values`` are those of the assignment, ``requests``
    are those of one pod without the pod itself.
    """

    flavor: str
    values: tuple[str, ...]
    requests: tuple[tuple[str, int], ...]


class _Rules(NamedTuple):
    """What placement needs of a ClusterQueue. ``flavors`` are all that it has, ``only`` is whether each has a topology,
    ``elsewhere`` whether its pods run in other clusters, ``provisioned`` are those whose nodes are asked for first.
    """

    flavors: frozenset[str]
    only: bool
    elsewhere: bool
    provisioned: frozenset[str]


class _Known(Struct, gc=False):
    """What was worked out for workloads with one pod set and nothing that few have: in which flavor it is placed, and
    as what. Many that wait ask the same.
    """

    pod_sets: tuple[PodSet, ...]
    rules: _Rules
    proposed: tuple[PodSetAssignment, ...]
    flavor: str
    asked: Asked
    requests: tuple[tuple[str, int], ...]
    """Those of one pod, as in ``Place``."""
    last: tuple[PodSetAssignment, ...] | None = None

    def holds(self, workload: Workload, admission: Admission, rules: _Rules) -> bool:
        """Whether it was worked out for what is proposed for a workload."""
        if self.pod_sets is not workload.pod_sets or self.rules is not rules:
            return False
        return self.proposed is admission.pod_sets or self.proposed == admission.pod_sets

    def completed(self, topology: TopologyAssignment) -> tuple[PodSetAssignment, ...]:
        """Returns the pod sets with these domains."""
        if self.last is None or self.last[0].topology is not topology:
            self.last = (replace(self.proposed[0], topology=topology),)
        return self.last


class _Placed(Struct, gc=False):
    """Where the last workload was placed: equal ones get the same domains as long as nothing changes, and then so many
    more as are ``left``, one after the other, while only their ``amounts`` are added. ``left`` is -1 until an equal one
    asks after something was added: until then ``amounts`` are the first that were.
    """

    known: _Known
    pod_sets: tuple[PodSetAssignment, ...]
    amounts: Amounts = {}
    left: int = -1


MOST_KNOWN: Final = 1000
"""So many are kept for an arena."""
MOST_PREPARED: Final = 4


class NodeChange(NamedTuple):
    """What a change of a node does to the domains of flavors, by name: other ``trees`` with the same numbers, or they
    must be built ``anew``. ``more`` is whether there may be more room than before.
    """

    trees: Mapping[str, Tree] = {}
    anew: Sequence[str] = ()
    more: bool = True


class PlacementKind:
    """The nodes, the topologies and what other pods use, of which arenas are built. Owned by State."""

    name = "topology"

    def __init__(self, policy: TopologyPolicy) -> None:
        self.policy = policy
        self.topologies: dict[str, Topology] = {}
        self.nodes: dict[str, Node] = {}
        self.others: dict[str, Requests] = {}
        """By node name, what pods outside of topology use there; their number as ``pods``."""
        self._selected = Selected()
        self._unused: dict[str, FlavorNodes] = {}
        self._last: tuple[tuple[PodSetAssignment, ...], tuple[PodSet, ...], Amounts] | None = None
        """The last answer of ``amounts``: equal workloads are often decided one after the other."""

    def shares(self, flavor: ResourceFlavor, other: ResourceFlavor) -> bool:
        """Whether two flavors may have nodes in common, and both know which."""
        if flavor.name == other.name:
            return flavor.topology_name is not None
        if not self.policy.overlapping_flavors or not (self._by_hostname(flavor) and self._by_hostname(other)):
            return False
        return all(other.node_labels.get(label, value) == value for label, value in flavor.node_labels.items())

    def capacity(
        self,
        queues: Mapping[str, ClusterQueue],
        flavors: Mapping[str, ResourceFlavor],
        checks: Mapping[str, AdmissionCheck],
    ) -> PlacementCapacity | None:
        """Returns the unused domains of these flavors; None if none has a topology."""
        found = {name: domains for name, flavor in flavors.items() if (domains := self.domains(flavor)) is not None}
        if not found:
            return None
        alike: dict[_Rules, _Rules] = {}
        rules = {name: _rules(queue, flavors, checks) for name, queue in queues.items()}
        rules = {name: alike.setdefault(each, each) for name, each in rules.items()}
        return PlacementCapacity(self.policy, rules, {name: domains.copy() for name, domains in found.items()})

    def amounts(self, workload: Workload, admission: Admission) -> Amounts:
        """Returns the pods on each domain. Reclaimable pods do not free their domains."""
        last = self._last
        if last is not None and last[0] == admission.pod_sets and last[1] is workload.pod_sets:
            return last[2]
        found: dict[Hashable, int] = {}
        if self.policy.spreading:
            found.update(dict.fromkeys(members(workload, admission), 1))
        pod_sets: dict[str, PodSet] = {}
        for given in admission.pod_sets:
            if given.topology is None:
                continue
            pod_sets = pod_sets or {pod_set.name: pod_set for pod_set in workload.pod_sets}
            if given.name not in pod_sets:
                continue
            requests = _of_pod(pod_sets[given.name])
            for flavor in sorted(set(given.flavors.values())):  # those without topology are ignored where it is counted
                for domain in given.topology.domains:
                    key = Place(flavor, domain.values, requests)
                    found[key] = found.get(key, 0) + domain.count
        if not self.policy.spreading:  # else it depends on the workload
            self._last = admission.pod_sets, workload.pod_sets, found
        return found

    def select(self, before: Workload | None, now: Workload | None) -> None:
        """A workload was added, changed or removed: its rules select others beside which it is spread."""
        if self.policy.spreading:
            self._selected.change(before, now)

    def lets_others_in(self, usage: Usage) -> bool:
        """Whether workloads that are spread may be admitted because this one is."""
        return self.policy.spreading and self._selected.lets_others_in(usage)

    def set_node(self, name: str, node: Node | None) -> NodeChange:
        """Adds, changes or removes a node; returns what that changes."""
        before = self.nodes.get(name)
        if node is not None and not node.usable and self.policy.tolerable_nodes:
            node = tolerable(node)
        return self._change(name, before, node) if put(self.nodes, name, node) else NodeChange()

    def set_others(self, name: str, requests: Requests) -> NodeChange:
        """Sets what pods outside of topology use on a node; returns what that changes."""
        node, before = self.nodes.get(name), self.others.get(name) or {}
        if not put(self.others, name, requests or None):
            return NodeChange()
        change = self._change(name, node, node)
        return change._replace(more=any(amount > requests.get(r, 0) for r, amount in before.items()))

    def _change(self, name: str, before: Node | None, now: Node | None) -> NodeChange:
        trees: dict[str, Tree] = {}
        anew: list[str] = []
        for flavor, unused in self._unused.items():
            found = unused.change(name, before, now)
            if found is None:
                anew.append(flavor)
            elif found:
                trees[flavor] = unused.domains.tree
        return NodeChange(trees, anew)

    def forget(self, flavors: Iterable[str]) -> None:
        """The nodes of these flavors have changed."""
        for name in flavors:
            self._unused.pop(name, None)

    def domains(self, flavor: ResourceFlavor) -> Domains | None:
        """The unused domains of a flavor, as built before if nothing has changed."""
        topology = self.topologies.get(flavor.topology_name) if flavor.topology_name is not None else None
        if topology is None:
            return None
        known = self._unused.get(flavor.name)
        if known is None or known.flavor != flavor or known.domains.tree.levels != topology.levels:
            known = self._unused[flavor.name] = FlavorNodes(topology.levels, flavor, self.nodes, self.others)
        elif known.outdated:
            known = self._unused[flavor.name] = known.renewed()
        return known.domains

    def _by_hostname(self, flavor: ResourceFlavor) -> bool:
        topology = self.topologies.get(flavor.topology_name) if flavor.topology_name is not None else None
        return topology is not None and topology.levels[-1:] == (HOSTNAME,)


class PlacementCapacity:
    """The domains of the flavors of an arena, with usage."""

    __slots__ = (
        "_domains",
        "_known",
        "_members",
        "_options",
        "_placed_last",
        "_policy",
        "_prepared",
        "_refused",
        "_rules",
        "_together",
    )

    def __init__(
        self,
        policy: TopologyPolicy,
        rules: Mapping[str, _Rules],
        domains: dict[str, Domains],
        together: Mapping[str, tuple[str, ...]] | None = None,
        those: Members | None = None,
        known: dict[int, _Known] | None = None,
    ) -> None:
        """``together`` are by flavor those that count usage together, in order; None if they are to be found. ``those``
        are the workloads that count for others that are spread. ``known`` are by the identity of pod sets what was
        worked out for them; copies share it.
        """
        self._policy = policy
        self._rules = rules
        self._domains = domains
        self._options = _options(policy)
        self._together = together if together is not None else _together(policy, domains)
        self._members = those if those is not None else Members()
        self._known = known if known is not None else {}
        self._placed_last: _Placed | None = None
        self._prepared: dict[int, tuple[tuple[PodSet, ...], _Rules]] = {}
        """By identity the pod sets that were prepared last, each of one pod set, with the rules of their ClusterQueue.
        They are so few that their counts are not dropped meanwhile (``core.topology.counts``).
        """
        self._refused: dict[int, Amounts] = {}
        """By identity the amounts that did not fit. Those never fit until something is removed."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementCapacity) and self.usage() == other.usage() and self._rules == other._rules

    __hash__ = None  # type: ignore[assignment]

    @property
    def domains(self) -> Mapping[str, Domains]:
        """The domains of each flavor, with usage."""
        return self._domains

    @property
    def options(self) -> Options:
        """The feature gates of placement."""
        return self._options

    def places_all(self, cluster_queue: str) -> bool:
        """Whether all flavors of a ClusterQueue have a topology, so that pods are placed that do not ask for it."""
        return cluster_queue in self._rules and self._rules[cluster_queue].only

    def copy(self) -> PlacementCapacity:
        """Returns the same domains with separate usage."""
        domains = {name: each.copy() for name, each in self._domains.items()}
        return PlacementCapacity(self._policy, self._rules, domains, self._together, self._members.copy(), self._known)

    def add(self, cluster_queue: str, amounts: Mapping[Hashable, int]) -> None:
        """Counts pods; those on a domain without nodes are ignored."""
        last = self._placed_last
        if last is not None:
            if last.left > 0 and (last.amounts is amounts or last.amounts == amounts):
                last.left -= 1
            elif last.left < 0 and not last.amounts:
                last.amounts = amounts
            else:
                self._placed_last = None
        for place_, count in amounts.items():
            if count < 0:
                self._refused.clear()
            self._count(place_, count)

    def _again(self, last: _Placed) -> bool:
        """Whether one more workload as the last one gets the same domains."""
        if last.left < 0 and last.amounts:
            last.left = self._times(last, last.amounts)
        return last.left != 0

    def _times(self, last: _Placed, added: Amounts) -> int:
        """How many more of them the one domain of the last workload holds, if only its own amounts were added: none of
        them is placed elsewhere before (``core.topology.place.place_one``). With some gates that is not so.
        """
        topology, known, options = last.pod_sets[0].topology, last.known, self._options
        if topology is None or len(topology.domains) > 1 or len(added) > 1:
            return 0
        if options.elastic or options.balanced or options.preferred_affinity:
            return 0
        domains, domain = self._domains[known.flavor], topology.domains[0]
        if added != {Place(known.flavor, domain.values, known.requests): domain.count}:
            return 0
        free = domains.times(domains.tree.numbers[domain.values], requests_of(known.asked.per_pod))
        return max(0, free // domain.count)

    def remove(self, cluster_queue: str, amounts: Mapping[Hashable, int]) -> None:
        """Undoes ``add``."""
        self._changed()
        for place_, count in amounts.items():
            self._count(place_, -count)

    def refill(self, held: Iterable[tuple[str, Amounts]], before: FurtherCapacity | None) -> None:
        """Counts what workloads hold; only on the leaves that were not there before, if the flavors are the same."""
        self._changed()
        new = self._taken_over(before) if isinstance(before, PlacementCapacity) else None
        if new is None:
            for cluster_queue, amounts in held:
                self.add(cluster_queue, amounts)
            return
        leaves = frozenset[tuple[str, ...]]().union(*new.values())
        for _, amounts in held if leaves else ():
            for key, count in amounts.items():
                if isinstance(key, Place) and key.values in leaves:
                    for name in self._together.get(key.flavor, ()):
                        if key.values in new[name]:
                            self._domains[name].add(key.values, dict(key.requests), count)

    def _taken_over(self, before: PlacementCapacity) -> dict[str, Set[tuple[str, ...]]] | None:
        """Takes over the usage of another capacity; returns by flavor the leaves that it did not have. None if it has
        counted other things.
        """
        if self._policy.spreading or self._together != before._together:
            return None
        if any(each.tree.levels != before._domains[name].tree.levels for name, each in self._domains.items()):
            return None
        return {name: each.take_over(before._domains[name]) for name, each in self._domains.items()}

    def adopt(self, trees: Mapping[str, Tree]) -> None:
        """From now on the nodes of these flavors are those of these trees; what is used stays. Domains that are about
        to be made again, because their flavor's were, are left as they are.
        """
        self._changed()
        for name, tree in trees.items():
            domains = self._domains.get(name)
            if domains is not None and domains.tree.numbers is tree.numbers:
                domains.adopt(tree)

    def _changed(self) -> None:
        """What is used, or there is in total, is not only more than before: nothing that is known of it holds."""
        self._placed_last = None
        self._prepared.clear()
        self._refused.clear()

    def fits(self, cluster_queue: str, amounts: Mapping[Hashable, int]) -> bool:
        """Whether so many more pods fit on each domain, all pod sets together. A domain without nodes has no room.

        Pods that stay where they are (0 more) have no room on a domain that is beyond its capacity without them, e.g.
        because a head that preempts has reserved it.
        """
        if len(amounts) == 1:
            ((key, count),) = amounts.items()
            if isinstance(key, Place):
                return count < 0 or key.flavor not in self._domains or self._fits_alone(amounts, key, count)
        needed: dict[tuple[str, tuple[str, ...]], dict[str, int]] = {}
        asked: list[tuple[Place, dict[str, int]]] = []
        for key, count in amounts.items():
            if isinstance(key, Member):
                domains = self._domains.get(key.flavor) if count > 0 else None
                if domains is not None and not self._members.admits(key, domains):
                    return False
                continue
            assert isinstance(key, Place)
            together = self._together.get(key.flavor)
            if together is None:
                continue  # a flavor without topology limits nothing
            total = needed.setdefault((together[0], key.values), {})
            _need(total, key, count)
            if count >= 0:
                asked.append((key, total))
        return all(self._has(key, total) for key, total in asked)

    def _fits_alone(self, amounts: Mapping[Hashable, int], key: Place, count: int) -> bool:
        """``fits`` for pods of one shape on one domain. Many heads of a cycle ask this for the same amounts."""
        last = self._placed_last
        if last is not None and last.amounts is amounts and last.left > 0:
            return True
        if id(amounts) in self._refused:
            return False
        if self._has(key, _need({}, key, count)):
            return True
        if len(self._refused) >= MOST_KNOWN:
            self._refused.clear()
        self._refused[id(amounts)] = amounts
        return False

    def _has(self, key: Place, needed: Requests) -> bool:
        """Whether the domain of a place has what is needed there of the resources that its pods request."""
        domains = self._domains[key.flavor]
        leaf = domains.tree.numbers.get(key.values)
        asked = [(name, needed[name]) for name, amount in key.requests if amount]
        return leaf is not None and domains.holds(leaf, [*asked, (PODS, needed[PODS])])

    def usage(self) -> dict[str, dict[tuple[str, ...], tuple[Requests, Requests]]]:
        """Returns by flavor and domain (as assignments name it) its capacity, and what workloads use of it."""
        return {
            name: {
                domains.tree.values(number): (leaf.capacity, domains.used(number))
                for number, leaf in enumerate(domains.tree.leaves)
                if leaf.present
            }
            for name, domains in self._domains.items()
        }

    def prepare(self, workload: Workload, cluster_queue: str) -> Iterable[None]:
        """Counts in steps how many of the pods each domain holds, where there are many nodes."""
        rules = self._rules.get(cluster_queue)
        if rules is None or rules.elsewhere:
            return ()
        pod_sets = workload.pod_sets
        plain = len(pod_sets) == 1 and not workload.checks
        last = self._prepared.get(id(pod_sets)) if plain else None
        if last is not None and last[0] is pod_sets and last[1] is rules:
            return ()
        if not plain or len(self._prepared) >= MOST_PREPARED:
            self._prepared.clear()
        if plain:
            self._prepared[id(pod_sets)] = pod_sets, rules
        wanted = [each for each in pod_sets if rules.only or asks(each.topology)]
        if not wanted:
            return ()
        large = [each for name, each in self._domains.items() if each.is_large and name in rules.flavors]
        if plain:
            implied = not asks(wanted[0].topology)
            large = [each for each in large if not is_known(each, wanted[0], self._options, implied=implied)]
        return self._counting(workload, wanted, large) if large else ()

    def _counting(self, workload: Workload, wanted: list[PodSet], large: list[Domains]) -> Iterator[None]:
        asked = [_pods(workload, pod_set, pod_set.count) for pod_set in wanted]
        for each in large:
            yield from prepare(each, asked, self._options)

    def place(
        self, workload: Workload, admission: Admission, *, replaced: Reservation | None = None, empty: bool = False
    ) -> Admission | Shortage:
        """Returns the admission with the domains of each pod set that has none yet, or whose node has failed.

        The slice that it replaces still uses its domains: its pods run on there, and only those that are more are
        placed (or, unless elastic jobs are placed too, all of them anew). As in Kueue the pods that stay count twice
        where the others are placed; unlike there only once where these would find no room (docs/topology.md).
        """
        rules = self._rules.get(admission.cluster_queue)
        if rules is None:
            return admission
        plain = replaced is None and not empty and workload.rare is COMMON
        last = self._placed_last if plain else None
        if last is not None and last.known.holds(workload, admission, rules) and self._again(last):
            return Admission(admission.cluster_queue, last.pod_sets)
        known = self._known.get(id(workload.pod_sets)) if plain else None
        if known is not None and known.holds(workload, admission, rules):
            topology = place_one(self._domains[known.flavor], known.asked, self._options)
            if not isinstance(topology, Misfit):
                self._placed_last = _Placed(known, known.completed(topology))
                return Admission(admission.cluster_queue, self._placed_last.pod_sets)
        asked, delayed = self._asked(workload, admission, rules, replaced)
        if isinstance(asked, Shortage):
            return asked
        if self._policy.spreading:
            asked = {name: [self._spread(name, each, empty=empty) for each in asked[name]] for name in asked}
        elif plain and len(admission.pod_sets) == 1 and len(asked) == 1 and not rules.provisioned:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            ((flavor, (pods,)),) = asked.items()
            requests = _of_pod(pods.pod_set)
            known = _Known(workload.pod_sets, rules, admission.pod_sets, flavor, pods, requests)
            self._known[id(workload.pod_sets)] = known
        if replaced is None or "topology" not in replaced.usage.further:
            found = self._placed(workload, asked, empty=empty)
        else:
            still = replaced.usage.further["topology"]
            self.add(replaced.cluster_queue, still)
            found = self._placed(workload, asked, empty=empty)
            self.remove(replaced.cluster_queue, still)
            if isinstance(found, Shortage) and self._stay(asked, replaced):
                found = self._placed(workload, asked, empty=empty)
        if isinstance(found, Shortage):
            return found
        return Admission(
            admission.cluster_queue, tuple([_completed(given, found, delayed) for given in admission.pod_sets])
        )

    def has_room(self, workload: Workload, admission: Admission, *, replaced: Reservation | None = None) -> bool:
        """Whether ``place`` would complete the admission, as usage is now."""
        rules = self._rules.get(admission.cluster_queue)
        if rules is not None and replaced is None and not workload.unhealthy_nodes:
            asked, _ = self._asked(workload, admission, rules, None)
            if isinstance(asked, Shortage):
                return False
            if len(asked) == 1 and not self._policy.spreading:
                ((flavor, requests),) = asked.items()
                return has_room(self._domains[flavor], requests, self._options)
        return not isinstance(self.place(workload, admission, replaced=replaced), Shortage)

    def _asked(
        self, workload: Workload, admission: Admission, rules: _Rules, replaced: Reservation | None
    ) -> tuple[dict[str, list[Asked]] | Shortage, set[str]]:
        """The pod sets to place, by flavor, and those whose domains are decided later."""
        pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
        elastic = self._policy.elastic and bool(workload.slice_name)
        before = _assigned(replaced.workload.admission) if elastic and replaced is not None else {}
        asked: dict[str, list[Asked]] = {}
        delayed: set[str] = set()
        for given in admission.pod_sets:
            pod_set = pod_sets[given.name]
            if not given.count or not (asks(pod_set.topology) or rules.only):
                continue
            if given.topology is not None and not has_failed_node(given.topology, workload):
                continue
            mistake, flavor = self._flavor(given, pod_set, elastic=elastic)
            if mistake:
                return Shortage(
                    PendingReason.TOPOLOGY_PLACEMENT_FAILED, "", frozenset(given.flavors.values()), given.name, mistake
                ), delayed
            if rules.elsewhere or (flavor in rules.provisioned and not workload.holds(Condition.QUOTA_RESERVED)):
                delayed.add(given.name)
                continue
            asked.setdefault(flavor, []).append(_pods(workload, pod_set, given.count, before.get(given.name)))
        return asked, delayed

    def _stay(self, asked: Mapping[str, list[Asked]], replaced: Reservation) -> bool:
        """Whether the pods of the slice that is replaced stay, and are counted by ``core.topology.elastic`` alone: they
        are one pod set, or a leader and workers, and no other pod set had pods.
        """
        if not self._policy.elastic or len(asked) != 1:
            return False
        ((flavor, requests),) = asked.items()
        if not _assigned(replaced.workload.admission).keys() <= {each.pod_set.name for each in requests}:
            return False
        return len(groups(requests)) == 1 and stay(self._domains[flavor], requests)

    def _spread(self, flavor: str, asked: Asked, *, empty: bool) -> Asked:
        """The same pods with how they are spread beside the workloads that are there."""
        spreading = asked.topology.spreading
        if spreading is None:
            return asked
        name = unit(asked.pod_set.name, asked.topology.group)
        there = Spread(spreading.rules) if empty else self._members.spread(flavor, name, spreading)
        return replace(asked, spread=there)

    def _flavor(self, given: PodSetAssignment, pod_set: PodSet, *, elastic: bool) -> tuple[str, str]:
        """Returns the mistake because of which a pod set cannot be placed, or the flavor in which it is."""
        if elastic and pod_set.topology is not None:
            if pod_set.topology.required:
                return "required topology is not supported with ElasticJobsViaWorkloadSlices", ""
            if pod_set.topology.preferred:
                return "preferred topology is not supported with ElasticJobsViaWorkloadSlices", ""
        flavors = set(given.flavors.values()).intersection(self._domains)
        if not flavors:
            return "no TAS flavor assigned", ""
        if len(flavors) > 1:
            return f"more than one TAS flavor assigned: {', '.join(sorted(flavors))}", ""
        return "", flavors.pop()

    def _placed(
        self, workload: Workload, asked: Mapping[str, list[Asked]], *, empty: bool
    ) -> dict[str, TopologyAssignment] | Shortage:
        """The domains of pod sets by name. Each flavor sees what those before it, by name, take of the nodes that they
        have in common.
        """
        domains = self._domains
        if empty:
            domains = {name: domains[name].empty() for name in asked}
        elif len(asked) > 1:
            domains = {name: domains[name].copy() for name in asked}
        found: dict[str, TopologyAssignment] = {}
        for flavor in sorted(asked):
            if workload.unhealthy_nodes:
                placed = self._replaced(workload, asked[flavor], domains[flavor])
            else:
                placed = place(domains[flavor], asked[flavor], self._options)
            for each in asked[flavor]:
                result = placed.get(each.pod_set.name)
                if isinstance(result, Misfit):
                    reason = PendingReason.TOPOLOGY_PLACEMENT_FAILED if empty else PendingReason.WAITING_FOR_QUOTA
                    return Shortage(reason, result.text, frozenset(asked), each.pod_set.name)
                if result is None:
                    continue
                found[each.pod_set.name] = result
                for other in asked:
                    if other > flavor and self._share(flavor, other):
                        for domain in result.domains:
                            domains[other].add(domain.values, each.per_pod, domain.count)
        return found

    def _replaced(
        self, workload: Workload, asked: list[Asked], domains: Domains
    ) -> Mapping[str, TopologyAssignment | Misfit]:
        """Other domains for the pods on the first node that failed. A workload that is one Pod keeps its node: the Pod
        cannot move, and its Workload does not outlive it.
        """
        assigned = _assigned(workload.admission)
        if self._policy.keep_pod_owned and workload.owner is not None and workload.owner.is_pod:
            return {each.pod_set.name: assigned[each.pod_set.name] for each in asked}
        return replacement(domains, asked, assigned, workload.unhealthy_nodes[0], self._options)

    def _count(self, key: Hashable, count: int) -> None:
        if isinstance(key, Member):
            if key.flavor in self._domains:
                self._members.count(key, self._domains[key.flavor], count)
            return
        assert isinstance(key, Place)
        requests = dict(key.requests)
        for name in self._together.get(key.flavor, ()):
            self._domains[name].add(key.values, requests, count)

    def _share(self, one: str, other: str) -> bool:
        """Whether two flavors count their usage of a domain together."""
        return other in self._together[one]


def _together(policy: TopologyPolicy, domains: Mapping[str, Domains]) -> dict[str, tuple[str, ...]]:
    """By flavor those that count their usage of a hostname together, in order; without others the flavor alone."""
    shared = tuple(sorted(name for name, each in domains.items() if each.tree.by_hostname))
    by_hostname = shared if policy.overlapping_flavors else ()
    return {name: by_hostname if name in by_hostname else (name,) for name in domains}


def _rules(queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], checks: Mapping[str, AdmissionCheck]) -> _Rules:
    every = frozenset(name for group in queue.groups for name in group.flavors)
    provisioned: set[str] = set()
    elsewhere = False
    for rule in queue.checks:
        controller = checks[rule.name].controller_name if rule.name in checks else ""
        elsewhere = elsewhere or controller == MULTIKUEUE_CONTROLLER
        if controller == PROVISIONING_REQUEST_CONTROLLER:
            provisioned |= rule.on_flavors or every
    return _Rules(every, topology_only(queue, flavors), elsewhere, frozenset(provisioned))


def _of_pod(pod_set: PodSet) -> tuple[tuple[str, int], ...]:
    """What one pod uses on its node, in order."""
    return tuple(sorted(pod_set.on_node.items()))


def _need(total: dict[str, int], key: Place, count: int) -> dict[str, int]:
    """Adds what so many pods use, and returns the total."""
    total[PODS] = total.get(PODS, 0) + count
    for resource, amount in key.requests:
        total[resource] = total.get(resource, 0) + amount * count
    return total


def _options(policy: TopologyPolicy) -> Options:
    return Options(
        mixed_profile=policy.mixed_profile,
        balanced=policy.balanced,
        preferred_affinity=policy.preferred_affinity,
        elastic=policy.elastic,
        keep_pod_owned=policy.keep_pod_owned,
    )


def _assigned(admission: Admission | None) -> dict[str, TopologyAssignment]:
    """The domains by pod set."""
    if admission is None:
        return {}
    return {given.name: given.topology for given in admission.pod_sets if given.topology is not None}


def _pods(workload: Workload, pod_set: PodSet, count: int, previous: TopologyAssignment | None = None) -> Asked:
    """So many pods of a pod set, as they are placed."""
    topology = pod_set.topology
    updates = _updates(workload, pod_set.name) if workload.checks else ()
    return Asked(pod_set, count, "" if topology is None else topology.group, not asks(topology), updates, previous)


def _updates(workload: Workload, pod_set: str) -> tuple[Placement, ...]:
    """The node selectors and tolerations that ready admission checks add to the pods of a pod set."""
    return tuple(
        decode.placement(update)
        for check in workload.checks
        if check.state == CheckState.READY
        for update in check.pod_set_updates
        if update.get("name") == pod_set
    )


def _completed(given: PodSetAssignment, found: Mapping[str, TopologyAssignment], delayed: set[str]) -> PodSetAssignment:
    if given.name in delayed:
        return replace(given, delayed=DelayedTopology.PENDING)
    if given.name not in found:
        return given
    return replace(given, topology=found[given.name], delayed=DelayedTopology.READY if given.delayed else "")


def has_failed_node(topology: TopologyAssignment, workload: Workload) -> bool:
    """Whether a node of a pod set is one of those that failed."""
    return any(domain.values[-1] in workload.unhealthy_nodes for domain in topology.domains)


def needs_second_pass(workload: Workload) -> bool:
    """Whether a workload that holds quota is to be decided again: a pod set still has no domains although all checks
    are ready, or one of its nodes has failed.
    """
    admission = workload.admission
    if admission is None or not (workload.unhealthy_nodes or any(given.delayed for given in admission.pod_sets)):
        return False
    if not workload.holds(Condition.QUOTA_RESERVED) or workload.holds(Condition.EVICTED):
        return False
    if workload.holds(Condition.FINISHED):
        return False
    if workload.holds(Condition.ADMITTED):
        return any(
            given.topology is not None and has_failed_node(given.topology, workload) for given in admission.pod_sets
        )
    pending = any(given.awaits_topology for given in admission.pod_sets)
    return pending and bool(workload.checks) and all(check.state == CheckState.READY for check in workload.checks)
