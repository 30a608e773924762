"""Nominates flavors and victims for a head as if it were the only one.

Separate from the cycle, in which heads compete. Partial admission (fewer pods, at least ``minCount``) is tried only if
the full size neither fits nor can be made to fit. Rules: https://kueue.sigs.k8s.io/docs/concepts/workload/ and KEP 420.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec import field as struct_field

from core.model import FlavorResource, ResourceFlavor
from core.model.policy import SchedulingPolicy
from core.quota.arena import Arena
from core.quota.demand import Demand
from core.quota.node import QueueNode
from core.quota.usage import PodSetTotal
from core.scheduling import search_cache
from core.scheduling.flavors import Assignment, Mismatches, Mode, Search
from core.scheduling.preemption.algorithm import find_targets, simulate
from core.scheduling.preemption.candidates import Candidate, Preemptor, add_usage, remove_usage
from core.scheduling.snapshot import Head

_FIT = Mode.FIT


class Entry(Struct, gc=False):
    """A head with its nominated assignment. ``deferred`` ones fit as soon as the victims of other heads are gone."""

    preemptor: Preemptor
    arena: Arena
    assignment: Assignment = struct_field(default_factory=Assignment)
    targets: list[Candidate] = struct_field(default_factory=list)
    deferred: bool = False
    replaced: Candidate | None = None
    """The slice whose quota it takes over: it needs only the difference."""
    whole: bool = True
    """Whether the search for flavors began with the first one."""

    @property
    def head(self) -> Head:
        """The head."""
        return self.preemptor.head

    @property
    def node(self) -> QueueNode:
        """Its ClusterQueue."""
        return self.preemptor.node

    @property
    def usage(self) -> dict[FlavorResource, int]:
        """The usage that its admission adds."""
        if self.replaced is None:
            return self.assignment.usage
        before = self.replaced.held.usage
        return {fr: amount - before.get(fr, 0) for fr, amount in self.assignment.usage.items()}


@dataclass(frozen=True, slots=True)
class Nomination:
    """Works out entries, by a policy and the flavors there are."""

    policy: SchedulingPolicy
    flavors: Mapping[str, ResourceFlavor]
    cycle: int
    mismatches: Mismatches = field(default_factory=dict)

    def settle(self, entry: Entry, *, pinned: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Sets assignment and targets; ``pinned`` restricts the search to these flavors and starts it from the
        beginning. A slice of an elastic job is decided as if the slice that it replaces were gone, with its flavors.
        """
        if entry.replaced is None:
            self._settle(entry, pinned)
            return
        admission = entry.replaced.held.workload.admission
        remove_usage((entry.replaced,))
        self._settle(entry, {given.name: given.flavors for given in admission.pod_sets} if admission else {})
        add_usage((entry.replaced,))

    def _settle(self, entry: Entry, pinned: Mapping[str, Mapping[str, str]] | None) -> None:
        preemptor = entry.preemptor
        head, demand = preemptor.head, preemptor.head.demand
        tried = head.tried
        outdated = tried is None or (tried.generation < entry.arena.generation and self.cycle - tried.cycle > 1)
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
        )
        entry.whole = pinned is None and (search.resume is None or not search.resume.unfinished)
        entry.assignment, alone = search_cache.assign(search, preemptor)
        if entry.assignment.mode is _FIT:
            entry.targets = []
            return
        entry.targets = [] if alone else self._targets(entry.assignment, preemptor, demand)
        if entry.targets:
            return
        if self.policy.partial_admission and demand.reducible:
            self._reduce(entry, search, preemptor)

    def _targets(self, assignment: Assignment, preemptor: Preemptor, demand: Demand) -> list[Candidate]:
        if not assignment.mode.preempts:
            return []
        return find_targets(preemptor, assignment.needs_preemption, assignment.requests(demand.totals))

    def _reduce(self, entry: Entry, search: Search, preemptor: Preemptor) -> None:
        """Finds the greatest number of pods that fits, by bisection: a number below one that fits is assumed to fit."""
        demand = entry.head.demand
        deltas = [p.count - (p.count if p.min_count is None else p.min_count) for p in demand.pod_sets]
        low, high = 0, sum(deltas) + 1
        found: tuple[int, Assignment, list[Candidate]] | None = None
        while low < high:
            middle = (low + high) // 2
            totals = _smaller(demand, deltas, middle)
            assignment = search.assign(totals)
            targets = self._targets(assignment, preemptor, demand)
            if assignment.mode is _FIT or targets:
                found, high = (middle, assignment, targets), middle
            else:
                low = middle + 1
        if found is not None and found[0] == low:
            entry.assignment, entry.targets = found[1], found[2]


def _smaller(demand: Demand, deltas: Sequence[int], step: int) -> tuple[PodSetTotal, ...]:
    """The totals when so many of all pods that may be left out are left out, evenly over pod sets."""
    whole = sum(deltas)
    return tuple(
        total.scaled_to(pod_set.count - delta * step // whole)
        for total, pod_set, delta in zip(demand.totals, demand.pod_sets, deltas, strict=True)
    )
