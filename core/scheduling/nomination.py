"""Nominates flavors and victims for a head as if it were the only one.

Separate from the cycle, in which heads compete. Partial admission (fewer pods, at least ``minCount``) is tried only if
the full size neither fits nor can be made to fit. Rules: https://kueue.sigs.k8s.io/docs/concepts/workload/ and KEP 420.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec import Struct
from msgspec import field as struct_field
from msgspec.structs import replace

from core.model import Admission, FlavorResource, PodSetAssignment, ResourceFlavor, Topology, Workload
from core.model.policy import SchedulingPolicy
from core.quota.arena import Arena
from core.quota.capacity import Shortage
from core.quota.demand import Demand
from core.quota.node import QueueNode
from core.quota.usage import NO_USAGE, PodSetTotal, Reservation, Usage, further_usage
from core.scheduling import search_cache
from core.scheduling.flavors import Assigned, Assignment, Choice, Mismatches, Mode, Search
from core.scheduling.preemption.algorithm import find_targets, simulate
from core.scheduling.preemption.candidates import Candidate, Preemptor, Room
from core.scheduling.snapshot import Head

_FIT = Mode.FIT


class Entry(Struct, gc=False):
    """A head with its nominated assignment. ``deferred`` ones fit as soon as the victims of other heads are gone."""

    head: Head
    node: QueueNode
    """Its ClusterQueue."""
    arena: Arena
    preemptor: Preemptor
    assignment: Assignment = struct_field(default_factory=Assignment)
    targets: list[Candidate] = struct_field(default_factory=list)
    deferred: bool = False
    replaced: Candidate | None = None
    """The slice whose quota it takes over: it needs only the difference."""
    whole: bool = True
    """Whether the search for flavors began with the first one."""
    admission: Admission | None = None
    """The assignment as the further capacities of the arena place it; None if there are none, or no room."""
    usage: Usage = NO_USAGE
    """The usage that its admission adds."""

    def count(self) -> None:
        """Sets the usage that follows from its assignment and admission."""
        self.usage = self.assignment.usage
        if self.admission is not None:
            further = further_usage(self.head.workload, self.admission, self.arena.kinds)
            self.usage = Usage(self.assignment.usage.quota, further)
        if self.replaced is not None:
            self.usage = self.usage.beyond(self.replaced.held.usage)
        elif self.head.second_pass:
            self.usage = _only_more(self.usage, self.head.workload, self.arena)


@dataclass(frozen=True, slots=True)
class Nomination:
    """Works out entries, by a policy and the flavors there are."""

    policy: SchedulingPolicy
    flavors: Mapping[str, ResourceFlavor]
    cycle: int
    topologies: Mapping[str, Topology] | None = None
    mismatches: Mismatches = field(default_factory=dict)

    def settle(self, entry: Entry, *, pinned: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Sets assignment and targets; ``pinned`` restricts the search to these flavors and starts it from the
        beginning. A slice of an elastic job is decided as if the slice that it replaces were gone, with its flavors.
        """
        if entry.replaced is None:
            self._settle(entry, pinned)
        else:
            admission = entry.replaced.held.workload.admission
            entry.preemptor.remove((entry.replaced,))
            self._settle(entry, {given.name: given.flavors for given in admission.pod_sets} if admission else {})
            entry.preemptor.add((entry.replaced,))
        entry.usage = entry.assignment.usage
        if entry.admission is not None or entry.replaced is not None or entry.head.second_pass:
            entry.count()

    def moved(self, entry: Entry) -> bool:
        """Gives an entry whose quota is free, and that needs no victims, another place in the flavors that it has;
        returns whether there is one.
        """
        if entry.targets or entry.replaced is not None or entry.head.second_pass or entry.assignment.mode is not _FIT:
            return False
        placed = entry.preemptor.place(proposal(entry.node, entry.assignment), None)
        if isinstance(placed, Shortage):
            return False
        entry.admission = placed
        entry.count()
        return True

    def _settle(self, entry: Entry, pinned: Mapping[str, Mapping[str, str]] | None) -> None:
        preemptor = entry.preemptor
        head, demand = preemptor.head, preemptor.head.demand
        tried = head.tried
        recent = tried is not None and self.policy.keeps_progress and self.cycle - tried.cycle <= 1
        outdated = tried is None or (tried.generation < entry.arena.generation and not recent)
        search = Search(
            demand=demand,
            node=entry.node,
            flavors=self.flavors,
            mismatches=self.mismatches,
            policy=self.policy,
            simulate=lambda fr, amount, level: simulate(preemptor, fr, amount, level),
            resume=None if outdated or pinned is not None else tried,
            pinned=pinned,
            replaces=entry.replaced is not None,
            topologies=self.topologies,
        )
        entry.whole = pinned is None and (search.resume is None or not search.resume.unfinished)
        if head.second_pass and (held := as_reserved(head.workload)) is not None:
            placed = self._placed(assigned_before(held), search, preemptor, None)
            entry.assignment, entry.targets, entry.admission = placed
            return
        assignment, alone = search_cache.assign(search, preemptor)
        own = entry.replaced.held if entry.replaced is not None else None
        entry.assignment, entry.targets, entry.admission = self._placed(assignment, search, preemptor, own, alone=alone)
        if entry.assignment.mode is _FIT or entry.targets:
            return
        if self.policy.partial_admission and demand.reducible:
            self._reduce(entry, search, preemptor)

    def _placed(
        self,
        assignment: Assignment,
        search: Search,
        preemptor: Preemptor,
        replaced: Reservation | None,
        *,
        alone: bool = False,
    ) -> tuple[Assignment, list[Candidate], Admission | None]:
        """Returns the assignment, the victims that it needs, and the admission that the further capacities make of it.

        The assignment needs preemption if one of them lacks room, and does not fit if there would be no room even if
        nothing were in use. Without victims the admission is the one in that case. ``alone`` is whether it is certain
        that no workload can be preempted for its quota.
        """
        if not preemptor.arena.kinds or assignment.mode is Mode.NO_FIT:
            return assignment, [] if alone or assignment.mode is _FIT else self._targets(assignment, preemptor), None
        workload = preemptor.head.workload
        held = as_reserved(workload) if preemptor.head.second_pass else None
        proposed = held or proposal(preemptor.node, assignment)
        short = False
        if assignment.mode is _FIT:
            placed = preemptor.place(proposed, replaced)
            if not isinstance(placed, Shortage):
                return assignment, [], placed
            if placed.mistake:
                return self._impossible(assignment, placed, search), [], None
            assignment, alone, short = assignment.preempting(placed), False, True
        if preemptor.head.second_pass and workload.unhealthy_nodes:
            return assignment, [], None  # to replace a node, nobody is preempted
        known = assignment.there if alone and _is_plain(preemptor.head) else None
        if known is not None and known[0] == preemptor.arena.totals:
            preemptor.short = preemptor.short or known[2] is None
            return known[1], [], known[2]
        forced, alone_there = self._if_empty(assignment, proposed, search, preemptor, replaced, short=short)
        if alone and _is_plain(preemptor.head):
            assignment.there = (preemptor.arena.totals, forced, alone_there)
        assignment = forced
        if alone_there is None:
            return assignment, [], None
        targets = [] if alone else self._targets(assignment, preemptor, proposed, replaced)
        if not targets:
            return assignment, [], alone_there
        preemptor.remove(targets)
        placed = preemptor.place(proposed, replaced)
        preemptor.add(targets)
        return assignment, targets, None if isinstance(placed, Shortage) else placed

    def _if_empty(
        self,
        assignment: Assignment,
        proposed: Admission,
        search: Search,
        preemptor: Preemptor,
        replaced: Reservation | None,
        *,
        short: bool,
    ) -> tuple[Assignment, Admission | None]:
        """Returns the assignment, and the admission as it would be if nothing were in use; None if there would be no
        room even then.
        """
        there = preemptor.place(proposed, replaced, empty=True)
        if isinstance(there, Shortage):
            return self._impossible(assignment, there, search), None
        return assignment if short else assignment.forced(_placed_anew(proposed, there)), there

    def _impossible(self, assignment: Assignment, shortage: Shortage, search: Search) -> Assignment:
        """The assignment for which there is never room; a message is added only to pod sets that have none."""
        found = assignment.impossible(shortage)
        found.no_fit_reason = search.no_fit_reason(found)
        return found

    def _targets(
        self,
        assignment: Assignment,
        preemptor: Preemptor,
        proposed: Admission | None = None,
        replaced: Reservation | None = None,
    ) -> list[Candidate]:
        if not assignment.mode.preempts:
            return []
        room = Room(assignment.requests(preemptor.head.demand.totals), proposed, replaced)
        return find_targets(preemptor, assignment.needs_preemption, room)

    def _reduce(self, entry: Entry, search: Search, preemptor: Preemptor) -> None:
        """Finds the greatest number of pods that fits, by bisection: a number below one that fits is assumed to fit."""
        demand = entry.head.demand
        deltas = [p.count - (p.count if p.min_count is None else p.min_count) for p in demand.pod_sets]
        low, high = 0, sum(deltas) + 1
        found: tuple[int, tuple[Assignment, list[Candidate], Admission | None]] | None = None
        while low < high:
            middle = (low + high) // 2
            totals = _smaller(demand, deltas, middle)
            own = entry.replaced.held if entry.replaced is not None else None
            smaller = self._placed(search.assign(totals), search, preemptor, own)
            if smaller[0].mode is _FIT or smaller[1]:
                found, high = (middle, smaller), middle
            else:
                low = middle + 1
        if found is not None and found[0] == low:
            entry.assignment, entry.targets, entry.admission = found[1]


def proposal(node: QueueNode, assignment: Assignment) -> Admission:
    """Returns the admission that an assignment proposes, before any further capacity has completed it."""
    if assignment.proposed is not None:
        return assignment.proposed
    pod_sets = []
    for assigned in assignment.pod_sets:
        flavors = tuple([(resource, choice.fr.flavor) for resource, choice in assigned.choices.items()])
        usage = tuple([(resource, assigned.requests.get(resource, 0)) for resource, _ in flavors])
        pod_sets.append((assigned.name, flavors, usage, assigned.count))
    assignment.proposed = Admission(node.name, _pod_sets(tuple(pod_sets)))
    return assignment.proposed


_Given = tuple[str, tuple[tuple[str, str], ...], tuple[tuple[str, int], ...], int]


@lru_cache(maxsize=4096)
def _pod_sets(given: tuple[_Given, ...]) -> tuple[PodSetAssignment, ...]:
    """Pod sets by name, flavors, usage and count. Equal ones are one value, whatever their ClusterQueue, so that
    further capacities see by identity what they have placed before.
    """
    return tuple(PodSetAssignment(name, dict(flavors), dict(usage), count) for name, flavors, usage, count in given)


def as_reserved(workload: Workload) -> Admission | None:
    """Returns the admission that a workload holds, without its reclaimable pods."""
    admission = workload.admission
    if admission is None or not workload.reclaimable:
        return admission
    counts = {pod_set.name: pod_set.count for pod_set in workload.pod_sets}
    left = {name: max(0, count - workload.reclaimable.get(name, 0)) for name, count in counts.items()}
    return replace(admission, pod_sets=tuple(_at_most(given, left.get(given.name, 0)) for given in admission.pod_sets))


def _at_most(given: PodSetAssignment, left: int) -> PodSetAssignment:
    if left >= given.count:
        return given
    usage = {resource: amount // given.count * left for resource, amount in given.usage.items()}
    return replace(given, count=left, usage=usage)


def _is_plain(head: Head) -> bool:
    """Whether what the further capacities answer if nothing is in use depends on the demand of a head alone."""
    workload = head.workload
    return not (head.second_pass or workload.checks or workload.slice_name or workload.unhealthy_nodes)


def assigned_before(admission: Admission) -> Assignment:
    """Returns the assignment of a workload that holds its quota already: it needs no more of it."""
    pod_sets = []
    for given in admission.pod_sets:
        choices = {
            resource: Choice(FlavorResource(flavor, resource), _FIT, 0) for resource, flavor in given.flavors.items()
        }
        pod_sets.append(Assigned(given.name, given.count, given.usage, choices))
    return Assignment(pod_sets, mode=_FIT)


def _placed_anew(before: Admission, after: Admission) -> set[str]:
    """The pod sets that a further capacity has completed."""
    return {new.name for old, new in zip(before.pod_sets, after.pod_sets, strict=True) if old != new}


def _only_more(usage: Usage, workload: Workload, arena: Arena) -> Usage:
    """The usage that is more than what a workload holds already. What it no longer needs is counted until its
    admission has changed.
    """
    held = workload.admission
    before = further_usage(workload, held, arena.kinds) if held is not None else {}
    further = {}
    for name, amounts in Usage({}, usage.further).beyond(Usage({}, before)).further.items():
        further[name] = {place: amount for place, amount in amounts.items() if amount > 0}
    return Usage(usage.quota, further)


def _smaller(demand: Demand, deltas: Sequence[int], step: int) -> tuple[PodSetTotal, ...]:
    """The totals when so many of all pods that may be left out are left out, evenly over pod sets."""
    whole = sum(deltas)
    return tuple(
        total.scaled_to(pod_set.count - delta * step // whole)
        for total, pod_set, delta in zip(demand.totals, demand.pod_sets, deltas, strict=True)
    )
