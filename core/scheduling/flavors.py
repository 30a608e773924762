"""Chooses flavors for a workload: for each pod set and resource group the first flavor that is good enough, or the
best.

Separate from preemption, which it asks (by ``simulate``) only whether preemption could make room. Flavors are tried in
order; flavorFungibility defines when to stop; a search that stopped early continues after that flavor the next time.
Rules: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#flavorfungibility, and KEP 582.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from api.names import Fungibility, PendingReason
from core.matching.placement import Mismatch, mismatch
from core.model import (
    Admission,
    FlavorResource,
    PodSet,
    Requests,
    ResourceFlavor,
    ResourceGroup,
    Topology,
    Tried,
    messages,
)
from core.model.policy import SchedulingPolicy
from core.quota.capacity import Shortage
from core.quota.demand import Demand
from core.quota.node import QueueNode, borrowing_level
from core.quota.usage import NO_USAGE, PodSetTotal, Usage, counted, search_order
from core.topology.flavors import unsupported


class Mode(enum.IntEnum):
    """How a flavor could be assigned, from worst to best."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """Preemption would be needed, but no workload may be preempted."""
    PREEMPT = 2
    RECLAIM = 3
    """By preemption in other ClusterQueues only."""
    FIT = 4

    @property
    def preempts(self) -> bool:
        """Whether room has to be made first."""
        return self is not _FIT and self is not _NO_FIT


_NO_FIT, _NO_CANDIDATES, _FIT = Mode.NO_FIT, Mode.NO_CANDIDATES, Mode.FIT
"""The search names them a dozen times a flavor, and a global is found four times as fast as a member of an enum."""

_SIMPLY = (_FIT, 0)

Mismatches = dict[tuple[int, str], Mismatch | None]
"""Why pods cannot run in a flavor, by the identity of their node requirements and the flavor's name. Computed once in a
cycle, because most heads have the same requirements.
"""

Simulate = Callable[[FlavorResource, int, int], tuple[Mode, int]]
"""Returns whether preemption makes room for an amount of one flavor-resource, and the level from which quota is then
borrowed. The last argument is that level without preemption.
"""


class Choice(Struct, gc=False):
    """The flavor chosen for a resource. ``level`` is the level from which quota is borrowed, ``tried`` where the search
    stopped.
    """

    fr: FlavorResource
    mode: Mode
    level: int
    tried: int = -1


class Attempt(NamedTuple):
    """A flavor that was tried for a pod set and did not fit without borrowing or preemption, and the result."""

    flavor: str
    mode: Mode
    level: int = 0
    reasons: tuple[str, ...] = ()
    no_fit_reason: str = ""


class Assigned(Struct, gc=False):
    """The assignment of a pod set. Without reasons it fits; without choices it fits in no flavor."""

    name: str
    count: int
    requests: Requests
    choices: dict[str, Choice] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    mode: Mode = _FIT
    """The worst of all resources."""
    mistake: str = ""
    """The mistake in its template because of which no flavor can be tried."""

    @property
    def flavors(self) -> frozenset[str]:
        """The flavors of all resources."""
        return frozenset(choice.fr.flavor for choice in self.choices.values())

    def preempting(self, shortage: Shortage) -> Assigned:
        """Returns the same where a further capacity lacks room now, with the message if it is about this pod set."""
        reasons = [shortage.message] if shortage.names(self.name, self.flavors) else []
        found = self.in_mode(Mode.PREEMPT) if shortage.concerns(self.flavors) else self
        return replace(found, reasons=[*self.reasons, *reasons])

    def impossible(self, shortage: Shortage) -> Assigned:
        """Returns the same where a further capacity never has room."""
        flavors = self.flavors & shortage.flavors
        failed = [Attempt(flavor, _NO_FIT, 0, (), shortage.reason) for flavor in sorted(flavors)]
        others = [attempt for attempt in self.attempts if attempt.flavor not in flavors]
        return replace(self.in_mode(_NO_FIT), attempts=[*others, *failed], mistake=shortage.mistake)

    def in_mode(self, mode: Mode) -> Assigned:
        """Returns the same in another mode, in all its flavors."""
        return replace(self, choices={r: replace(c, mode=mode) for r, c in self.choices.items()}, mode=mode)


class Assignment(Struct, gc=False):
    """The assignment of a workload: all pod sets up to the first that fits in no flavor."""

    pod_sets: list[Assigned] = field(default_factory=list)
    usage: Usage = NO_USAGE
    """Its quota; what it uses of other capacities follows from the admission that they make of it."""
    level: int = 0
    mode: Mode = _NO_FIT
    """The worst of all pod sets."""
    no_fit_reason: str = ""
    there: tuple[int, Assignment, Admission | None] | None = None
    """Cache of ``core.scheduling.nomination``, while it is kept: what follows if nothing is in use, at which totals."""
    proposed: Admission | None = None
    """Cache of ``core.scheduling.nomination.proposal``."""
    _message: str | None = None
    _tried: tuple[Mapping[str, int], ...] | None = None

    @property
    def message(self) -> str:
        """Why it does not simply fit."""
        if self._message is None:
            self._message = self._text()
        return self._message

    def _text(self) -> str:
        for each in self.pod_sets:
            if each.mistake:
                return messages.malformed_pod_set(each.name, each.mistake)
        return "; ".join(messages.pod_set(a.name, a.reasons) for a in self.pod_sets if a.reasons)

    def preempting(self, shortage: Shortage) -> Assignment:
        """Returns the assignment as it is when a further capacity lacks room for it now: it may fit after preemption in
        all flavors of the pod sets concerned.
        """
        pod_sets = [each.preempting(shortage) for each in self.pod_sets]
        return Assignment(pod_sets, self.usage, self.level, Mode.PREEMPT, shortage.reason)

    def forced(self, pod_sets: Container[str]) -> Assignment:
        """Returns the assignment that needs preemption in all flavors of these pod sets: although their quota is free,
        there may be no room.
        """
        found = [each.in_mode(Mode.PREEMPT) if each.name in pod_sets else each for each in self.pod_sets]
        return Assignment(found, self.usage, self.level, self.mode, self.no_fit_reason)

    def impossible(self, shortage: Shortage) -> Assignment:
        """Returns the assignment as it is when a further capacity has no room for it even if nothing is in use.

        Its message is not added: there is one already, of what is short now.
        """
        pod_sets = [
            each.impossible(shortage) if shortage.names(each.name, each.flavors) else each for each in self.pod_sets
        ]
        return Assignment(pod_sets, self.usage, self.level, _NO_FIT)

    @property
    def needs_preemption(self) -> frozenset[FlavorResource]:
        """The flavor-resources in which room has to be made."""
        return frozenset(
            choice.fr for assigned in self.pod_sets for choice in assigned.choices.values() if choice.mode.preempts
        )

    @property
    def chosen(self) -> dict[str, dict[str, str]]:
        """Flavor by pod set and resource."""
        return {a.name: {resource: c.fr.flavor for resource, c in a.choices.items()} for a in self.pod_sets}

    def requests(self, totals: Sequence[PodSetTotal]) -> dict[FlavorResource, int]:
        """The usage for which room is needed, without the number of pods, because pods do not request that resource."""
        found: dict[FlavorResource, int] = {}
        by_name = {total.name: total for total in totals}
        for assigned in self.pod_sets:
            total = by_name[assigned.name]
            for resource, amount in total.scaled_to(assigned.count).requests.items():
                choice = assigned.choices.get(resource)
                if amount and choice is not None:
                    found[choice.fr] = found.get(choice.fr, 0) + amount
        return found

    def tried(self, generation: int, cycle: int) -> Tried:
        """Where the search continues the next time."""
        if self._tried is None:
            self._tried = tuple({resource: c.tried for resource, c in a.choices.items()} for a in self.pod_sets)
        return Tried(self._tried, generation, cycle)

    @property
    def considered(self) -> str:
        """The flavors that did not simply fit, as Kueue's QuotaReserved event words them."""
        parts = []
        for assigned in self.pod_sets:
            attempts = sorted(assigned.attempts, key=lambda attempt: attempt.flavor)
            if attempts:
                parts.append(f"{assigned.name}: {', '.join(_attempt_text(each) for each in attempts)}")
        return " | ".join(parts)


_POSSIBILITIES = {_NO_CANDIDATES: "NoCandidates", Mode.PREEMPT: "Preempt", Mode.RECLAIM: "Reclaim"}


def _attempt_text(attempt: Attempt) -> str:
    possibility = _POSSIBILITIES.get(attempt.mode)
    mode = f"preemptionMode={possibility}" if possibility else "Fit" if attempt.mode is _FIT else "NoFit"
    details = [mode, *([f"borrow={attempt.level}"] if attempt.level else []), *sorted(attempt.reasons)]
    return f"{attempt.flavor}({';'.join(details)})"


class Search(Struct, gc=False):
    """The search for flavors for one workload; ``pinned`` allows only these flavors, by pod set and resource."""

    demand: Demand
    node: QueueNode
    flavors: Mapping[str, ResourceFlavor]
    mismatches: Mismatches
    policy: SchedulingPolicy
    simulate: Simulate
    resume: Tried | None = None
    pinned: Mapping[str, Mapping[str, str]] | None = None
    replaces: bool = False
    """Whether the flavors are pinned to those of the slice that is replaced."""
    topologies: Mapping[str, Topology] | None = None
    """The Topologies by name; None if topology-aware scheduling is off."""

    def assign(self, totals: Sequence[PodSetTotal]) -> Assignment:
        """Find flavors for pod sets of these sizes (those of the demand, or fewer pods)."""
        quota: dict[FlavorResource, int] = {}
        found = Assignment(usage=Usage(quota), mode=_FIT if totals else _NO_FIT)
        fails = False
        for group in self.demand.groups:
            for assigned in self._pod_sets(group, totals, quota):
                found.pod_sets.append(assigned)
                if assigned.reasons:
                    assigned.mode = min((choice.mode for choice in assigned.choices.values()), default=_NO_FIT)
                    found.mode = min(found.mode, assigned.mode)
                    fails = fails or bool(assigned.requests and not assigned.choices)
                for resource, choice in assigned.choices.items():
                    fr = choice.fr
                    quota[fr] = quota.get(fr, 0) + assigned.requests.get(resource, 0)
                    if choice.level > found.level:
                        found.level = choice.level
            if fails:
                break
        if found.mode is _NO_FIT:
            found.no_fit_reason = self.no_fit_reason(found)
        return found

    def _pod_sets(
        self, group: tuple[int, ...], totals: Sequence[PodSetTotal], used: Mapping[FlavorResource, int]
    ) -> list[Assigned]:
        """The assignments of a pod set, or of those that get the same flavors."""
        if len(group) == 1:
            total = totals[group[0]]
            return [self._together(group, Assigned(total.name, total.count, counted(total, self.node.groups)), used)]
        members = [
            Assigned(totals[index].name, totals[index].count, counted(totals[index], self.node.groups))
            for index in group
        ]
        requests: dict[str, int] = {}
        for each in members:
            for resource, amount in each.requests.items():
                requests[resource] = requests.get(resource, 0) + amount
        ordered = {resource: requests[resource] for resource in sorted(requests, key=search_order)}
        whole = self._together(group, Assigned(members[0].name, members[0].count, ordered), used)
        for each in members:
            each.choices = {r: choice for r, choice in whole.choices.items() if self._its(each, r, choice)}
            each.reasons, each.attempts, each.mistake = list(whole.reasons), whole.attempts, whole.mistake
        return members

    def _its(self, member: Assigned, resource: str, choice: Choice) -> bool:
        """Whether the flavor that a group was assigned for a resource is one of a member: of what it requests, or, if
        it requests nothing, the one with the topology in which the group is placed.
        """
        if member.requests:
            return resource in member.requests
        flavor = self.flavors.get(choice.fr.flavor)
        return self.topologies is not None and flavor is not None and flavor.topology_name is not None

    def _together(self, indices: tuple[int, ...], assigned: Assigned, used: Mapping[FlavorResource, int]) -> Assigned:
        """Finds the flavors for the requests of one or more pod sets."""
        for resource, amount in assigned.requests.items():
            if resource in assigned.choices:
                continue
            group = self.node.groups.get(resource)
            if group is None and (amount == 0 or self.policy.ignore_undeclared):
                continue
            choices: dict[str, Choice] = {}
            if group is None:
                reasons = [messages.not_covered(resource)]
            else:
                choices, reasons = self._group(indices, resource, group, assigned, used)
            if not choices:
                assigned.choices, assigned.reasons = {}, reasons
                break
            assigned.choices.update(choices)
            assigned.reasons.extend(reasons)
        return assigned

    def _group(
        self,
        indices: tuple[int, ...],
        resource: str,
        group: ResourceGroup,
        assigned: Assigned,
        used: Mapping[FlavorResource, int],
    ) -> tuple[dict[str, Choice], list[str]]:
        """The flavor for all requests of a resource group, and why it does not simply fit."""
        pod_sets = [self.demand.pod_sets[index] for index in indices]
        requests = {name: amount for name, amount in assigned.requests.items() if name in group.resources}
        best: tuple[Mode, int] | None = None
        choices: dict[str, Choice] = {}
        reasons: list[str] = []
        stopped = -1
        for position in range(self._start(indices[0], resource), len(group.flavors)):
            stopped = position
            name = group.flavors[position]
            if self.pinned is not None and (only := self._pinned(pod_sets, resource)) != name:
                reasons.append(messages.not_nominated(name, resource))
                if self.replaces:
                    reasons[-1] = text = messages.of_replaced_slice(name, only or "")
                    assigned.attempts.append(Attempt(name, _NO_FIT, 0, (text,), PendingReason.NO_MATCHING_FLAVOR))
                continue
            if not self.demand.allows(name):
                reasons.append(messages.not_allowed(name))
                continue
            unfit = self._unfit(pod_sets, group, name)
            if unfit is not None:
                reasons.append(unfit.text)
                assigned.attempts.append(Attempt(name, _NO_FIT, 0, (unfit.text,), PendingReason.NO_MATCHING_FLAVOR))
                if unfit.malformed:
                    assigned.mistake = unfit.text
                    return {}, reasons
                continue
            offered, quality, attempt = self._flavor(name, requests, used)
            if attempt is not None:
                assigned.attempts.append(attempt)
                reasons.extend(attempt.reasons)
            if not self._goes_on(quality):
                best, choices = quality, offered
                break
            if quality[0] is not _NO_FIT and (best is None or self._better(quality, best)):
                best, choices = quality, offered
        for choice in choices.values():
            choice.tried = -1 if stopped == len(group.flavors) - 1 else stopped
        return choices, [] if best is not None and best[0] is _FIT else reasons

    def _pinned(self, pod_sets: Sequence[PodSet], resource: str) -> str | None:
        """The only flavor that may be assigned for a resource."""
        assert self.pinned is not None
        return next((only for each in pod_sets if (only := self.pinned.get(each.name, {}).get(resource))), None)

    def _unfit(self, pod_sets: Sequence[PodSet], group: ResourceGroup, name: str) -> Mismatch | None:
        """Why the pods of the first of these pod sets that cannot run in a flavor cannot."""
        for pod_set in pod_sets:
            found = self.mismatch(pod_set, group, name)
            if found is not None:
                return found
        return None

    def mismatch(self, pod_set: PodSet, group: ResourceGroup, name: str) -> Mismatch | None:
        """Why the pods of a pod set cannot run in a flavor of a resource group; None where they can."""
        placement = pod_set.placement
        if self.topologies is not None and (text := self._unsupported(pod_set, group, name)):
            return Mismatch(text)
        key = (id(placement), name)
        if key not in self.mismatches:
            flavor = self.flavors.get(name)
            missing = Mismatch(messages.flavor_not_found(name))
            self.mismatches[key] = missing if flavor is None else mismatch(placement, flavor)
        return self.mismatches[key]

    def _unsupported(self, pod_set: PodSet, group: ResourceGroup, name: str) -> str:
        """Why a pod set may not have a flavor because of its topology request; '' if it may."""
        flavor = self.flavors.get(name)
        if flavor is None or self.topologies is None or not (flavor.topology_name or pod_set.topology):
            return ""
        return unsupported(pod_set, flavor, group, self.node.spec, self.flavors, self.topologies)

    def _start(self, index: int, resource: str) -> int:
        if self.resume is None or index >= len(self.resume.flavors):
            return 0
        return self.resume.flavors[index].get(resource, -1) + 1

    def _flavor(
        self, name: str, requests: Requests, used: Mapping[FlavorResource, int]
    ) -> tuple[dict[str, Choice], tuple[Mode, int], Attempt | None]:
        """Returns how one flavor would serve all requests of a group: the choices, the worst mode and level, and what
        did not fit.
        """
        choices: dict[str, Choice] = {}
        worst = _SIMPLY
        furthest = 0
        reasons: list[str] = []
        most_severe = ""
        frs = self.node.flavor_resources[name]
        for resource, amount in requests.items():
            fr = frs[resource]
            mode, level, reason, no_fit_reason = self._resource(fr, used.get(fr, 0), amount)
            if reason:
                reasons.append(reason)
            if no_fit_reason:
                most_severe = max(most_severe, no_fit_reason, key=_severity)
            if mode is not _FIT or level:
                if level > furthest:
                    furthest = level
                if self._preferred(worst, (mode, level)):
                    worst = (mode, level)
            if worst[0] is not _NO_FIT:
                choices[resource] = Choice(fr, mode, level)
        if worst == _SIMPLY and not reasons:
            return choices, worst, None
        return choices, worst, Attempt(name, worst[0], furthest, tuple(reasons), most_severe)

    def _resource(self, fr: FlavorResource, before: int, asked: int) -> tuple[Mode, int, str, str]:
        """Mode, borrowing level, and why it does not simply fit, for one resource in one flavor."""
        node = self.node
        amount = before + asked
        available = max(0, node.available(fr))
        if amount <= available:
            return _FIT, borrowing_level(node, fr, amount)[0], "", ""
        maximum = node.potential(fr)
        if amount > maximum:
            text = messages.beyond_maximum(fr, before, asked, maximum)
            return _NO_FIT, 0, text, PendingReason.EXCEEDS_MAX_QUOTA
        level, reclaims = borrowing_level(node, fr, amount)
        text = messages.more_needed(fr, amount - available)
        if node.subtree.get(fr, 0) >= amount or reclaims or self._may_borrow_by_preemption():
            mode, level = self.simulate(fr, amount, level)
            return mode, level, text, ""
        return _NO_FIT, level, text, PendingReason.WAITING_FOR_QUOTA

    def _may_borrow_by_preemption(self) -> bool:
        rules = self.node.spec.preemption
        return rules.borrow_within_cohort != "Never" or (
            self.policy.fair_sharing is not None and rules.reclaim_within_cohort != "Never"
        )

    def _goes_on(self, quality: tuple[Mode, int]) -> bool:
        """Whether flavorFungibility requires the next flavor to be tried too."""
        mode, level = quality
        if not self.policy.flavor_fungibility:
            return mode is not _FIT
        rules = self.node.spec.fungibility
        if mode <= _NO_CANDIDATES:
            return True
        if mode.preempts and rules.when_can_preempt == Fungibility.TRY_NEXT_FLAVOR:
            return True
        return level > 0 and rules.when_can_borrow == Fungibility.TRY_NEXT_FLAVOR

    def _better(self, one: tuple[Mode, int], other: tuple[Mode, int]) -> bool:
        """Whether a flavor is better than one before it; without FlavorFungibility borrowing does not count."""
        return self._preferred(one, other) if self.policy.flavor_fungibility else one[0] > other[0]

    def _preferred(self, one: tuple[Mode, int], other: tuple[Mode, int]) -> bool:
        """Whether one way to serve a request is better than another."""
        if _NO_FIT in (one[0], other[0]):
            return one[0] is not _NO_FIT
        hopeless = (one[0] is _NO_CANDIDATES, other[0] is _NO_CANDIDATES)
        if hopeless[0] != hopeless[1]:
            return hopeless[1]
        if self.node.spec.fungibility.prefers_preemption:
            return (-one[1], one[0]) > (-other[1], other[0])
        return (one[0], -one[1]) > (other[0], -other[1])

    def no_fit_reason(self, found: Assignment) -> str:
        """Returns the most severe reason why pod sets do not fit: of alternative flavors the least severe, of groups
        and pod sets the most severe.
        """
        most_severe = ""
        for assigned in found.pod_sets:
            if assigned.mode is not _NO_FIT:
                continue
            least_severe: dict[tuple[str, ...], str] = {}
            for attempt in assigned.attempts:
                if attempt.mode is _NO_FIT:
                    for group in self.node.spec.groups:
                        if attempt.flavor in group.flavors:
                            reason = least_severe.get(group.resources, attempt.no_fit_reason)
                            least_severe[group.resources] = min(reason, attempt.no_fit_reason, key=_severity)
            blocked = least_severe.values() if assigned.attempts else (PendingReason.NO_MATCHING_FLAVOR,)
            most_severe = max([*blocked, most_severe], key=_severity)
        return most_severe or PendingReason.NO_MATCHING_FLAVOR


_SEVERITIES = {
    PendingReason.TOPOLOGY_PLACEMENT_FAILED: 1,
    PendingReason.WAITING_FOR_QUOTA: 2,
    PendingReason.EXCEEDS_MAX_QUOTA: 3,
    PendingReason.NO_MATCHING_FLAVOR: 4,
}


def _severity(reason: str) -> int:
    return _SEVERITIES.get(reason, 0)
