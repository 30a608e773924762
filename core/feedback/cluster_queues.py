"""Warnings about a change of a ClusterQueue: settings without effect, and the effect on its workloads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from api import quantity
from api.names import Fungibility, PreemptionPolicy
from core.feedback import topology
from core.feedback.change import (
    Change,
    cycle,
    drained,
    lacks_nodes,
    missing_flavors,
    node_count,
    workloads,
    written,
)
from core.feedback.nodes import flavors_without, present
from core.feedback.rules import Finding, IsSpent, Rule, findings, fitted, missing, never, shortened
from core.feedback.waiting import inactive_because, inactive_checks, preempts
from core.model import ClusterQueue, FlavorResource, Quota
from core.state.lookup import Lookup


def of_cluster_queue(change: Change[ClusterQueue], lookup: Lookup, spent: IsSpent = never) -> tuple[Finding, ...]:
    """All findings about a change of a ClusterQueue."""
    return findings(CLUSTER_QUEUE_RULES, change, lookup, spent)


# ClusterQueues: their references.


def _missing_flavors(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    named = [name for group in change.new.groups for name in group.flavors] if change.new else []
    inactive = "the ClusterQueue is inactive"
    yield from missing_flavors(named, lookup, inactive, inactive)


def _no_quota(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    queue = change.new
    if queue is None:
        return
    if not queue.groups:
        yield "no resourceGroups: a job that requests anything never starts; add resources, flavors and their quota"
    elif not queue.cohort and all(quota.nominal == 0 for quota in queue.quotas.values()):
        zeros = f"{len(queue.quotas)} nominalQuotas are 0" if len(queue.quotas) > 1 else "nominalQuota is 0"
        yield f"{zeros} and no cohort is set: a job that requests anything never starts; set nominalQuota or cohortName"


def _without_nodes(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    named = (
        [name for group in change.new.groups for name in group.flavors]
        if change.new and present(change.new, lookup)
        else []
    )
    for flavor in (found for name in named if (found := lookup.flavor(name)) is not None):
        if lacks_nodes(flavor, lookup):
            labels, name = written(flavor.node_labels), shortened(flavor.name)
            yield fitted(
                f'{node_count(lookup)} the labels {labels} of flavor "{name}": its pods stay pending; label nodes',
                f'{node_count(lookup)} the labels {labels} of flavor "{name}": its pods stay pending',
                or_else=[f'{node_count(lookup)} the labels of flavor "{name}": its pods stay pending; label nodes'],
            )


def _missing_checks(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    inactive = "the ClusterQueue is inactive"
    named = sorted({rule.name for rule in change.new.checks}) if change.new else []
    for name in (name for name in named if lookup.admission_check(name) is None):
        yield missing(
            "AdmissionCheck",
            name,
            lookup.admission_check_names(),
            f'AdmissionCheck "{shortened(name)}" does not exist, the ClusterQueue is inactive',
            several="AdmissionChecks",
            until=(f'AdmissionCheck "{shortened(name)}" does not exist yet: {inactive} until it is created',),
        )


def _conflicting_checks(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    for text in lookup.conflicts(change.new, shortened) if change.new else ():
        yield fitted(f"the ClusterQueue is inactive: {text}", f"inactive: {text}", or_else=[text])


def _inactive_checks(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    for check in inactive_checks(change.new, lookup) if change.new else ():
        name, controller = shortened(check.name), shortened(check.controller_name)
        inactive = f'AdmissionCheck "{name}" is inactive: the ClusterQueue admits nothing'
        if why := inactive_because(check, lookup):
            short = f'AdmissionCheck "{name}" is inactive: {why}'
            yield fitted(f"the ClusterQueue admits nothing: {short}", short, or_else=[f"{inactive}: {shortened(why)}"])
            continue
        start = f"{inactive}; start its controller {controller}"
        yield fitted(f"{start} or remove the check", start, or_else=[inactive])


def _no_namespaces(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    if change.new is not None and change.new.namespace_selector is None:
        yield "namespaceSelector is not set, so no namespace is admitted; {} admits all namespaces"


def _cycle_of_queue(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    if change.new is not None and change.new.cohort:
        cohort = lookup.cohort(change.new.cohort)
        yield from cycle(change.new.cohort, cohort.parent if cohort else "", lookup)


# ClusterQueues: settings that do not go together.


def _idle_limits(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    queue = change.new
    if queue is None or all(quota.borrowing_limit is None for quota in queue.quotas.values()):
        return
    lendable = lookup.lendable(queue)
    for fr, lent in sorted(lendable.items()):
        limit = queue.quotas[fr].borrowing_limit
        if limit is not None and limit > lent:
            amounts = [quantity.text(fr.resource, amount) for amount in (limit, lent)]
            of = f"borrowingLimit {amounts[0]} of {shortened(fr.resource)} in {shortened(fr.flavor)} has no effect"
            yield fitted(
                f'{of}: cohort "{shortened(queue.cohort)}" lends at most {amounts[1]}; lower or remove it',
                f'{of}: cohort "{shortened(queue.cohort)}" lends at most {amounts[1]}',
                or_else=[f"{of}: the cohort lends at most {amounts[1]}; lower or remove it"],
            )


def _idle_fungibility(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    queue = change.new
    if queue is None:
        return
    chosen = queue.fungibility
    if not preempts(queue):
        nothing = "has no effect: withinClusterQueue, reclaimWithinCohort are Never; change one"
        if chosen.when_can_preempt == Fungibility.MAY_STOP_SEARCH:
            yield f"whenCanPreempt: MayStopSearch {nothing}"
        if chosen.prefers_preemption:
            yield f"preference: PreemptionOverBorrowing {nothing}"
    if chosen.when_can_borrow == Fungibility.TRY_NEXT_FLAVOR and queue.groups:
        if not queue.cohort:
            yield "whenCanBorrow: TryNextFlavor has no effect: no cohort to borrow from; set cohortName or remove it"
        elif all(len(group.flavors) == 1 for group in queue.groups):
            yield "whenCanBorrow: TryNextFlavor has no effect: each resource has 1 flavor; add a flavor or remove it"


def _idle_preemption(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    queue = change.new
    if queue is None:
        return
    preemption, never = queue.preemption, PreemptionPolicy.NEVER
    if preemption.reclaim_within_cohort != never and not queue.cohort:
        policy = f"reclaimWithinCohort: {preemption.reclaim_within_cohort}"
        yield f"{policy} has no effect: the ClusterQueue is in no cohort; set cohortName or remove it"
    if preemption.max_priority_threshold is not None and preemption.borrow_within_cohort == never:
        threshold = f"maxPriorityThreshold {preemption.max_priority_threshold}"
        yield f"{threshold} has no effect: borrowWithinCohort.policy is Never; set LowerPriority or remove it"


def _stops_and_preempts(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    """A search that stops where it can borrow never reaches the flavor in which it could preempt instead."""
    queue = change.new
    if queue is None or not queue.cohort or not preempts(queue):
        return
    several = any(len(group.flavors) > 1 for group in queue.groups)
    if several and (queue.fungibility.when_can_borrow, queue.fungibility.when_can_preempt) == (
        Fungibility.TRY_NEXT_FLAVOR,
        Fungibility.MAY_STOP_SEARCH,
    ):
        yield (
            "whenCanPreempt: MayStopSearch preempts even if a later flavor has free quota; TryNextFlavor would use"
            " that flavor"
        )


# ClusterQueues: effects of a change on running and waiting workloads.


def _below_usage(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    old, new = change.old, change.new
    if old is None or new is None:
        return
    for fr in sorted(old.quotas):
        before, after = old.quotas[fr], new.quotas.get(fr, Quota())
        used = lookup.usage(old.name, fr)
        if after.nominal < before.nominal and used > after.nominal:
            yield _less(fr, before.nominal, after, used, new)
        elif new.cohort and _lowered(before.borrowing_limit, after.borrowing_limit):
            limit, borrowed = after.borrowing_limit or 0, used - after.nominal
            if borrowed > limit:
                yield _less_to_borrow(fr, limit, borrowed)


def _less(fr: FlavorResource, before: int, after: Quota, used: int, queue: ClusterQueue) -> str:
    over = used - after.nominal
    limit = after.borrowing_limit if queue.cohort else 0
    beyond = 0 if limit is None else max(0, over - limit)
    texts = [quantity.text(fr.resource, amount) for amount in (before, after.nominal, used, beyond or over)]
    then = f"{texts[3]} must be released before anything starts" if beyond else f"{texts[3]} is then borrowed"
    goes = f"{shortened(fr.resource)} in {shortened(fr.flavor)} goes from {texts[0]} to {texts[1]}"
    return fitted(
        f"{goes}, but {texts[2]} is in use: {then}; keep {texts[2]} to avoid this",
        f"{goes}, but {texts[2]} is in use; keep {texts[2]}",
    )


def _lowered(before: int | None, after: int | None) -> bool:
    return after is not None and (before is None or after < before)


def _less_to_borrow(fr: FlavorResource, limit: int, borrowed: int) -> str:
    texts = [quantity.text(fr.resource, amount) for amount in (limit, borrowed, borrowed - limit)]
    of = f"borrowingLimit of {shortened(fr.resource)} in {shortened(fr.flavor)} is then {texts[0]}"
    return fitted(
        f"{of}, but {texts[1]} is borrowed: {texts[2]} must be released before anything starts; keep {texts[1]}",
        f"{of}, but {texts[1]} is borrowed; keep {texts[1]}",
    )


def _cohort_changed(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    old, new = change.old, change.new
    if old is None or new is None or old.cohort == new.cohort or not old.cohort:
        return
    running = lookup.admitted(old.name)
    for fr in sorted(old.quotas):
        beyond = lookup.usage(old.name, fr) - old.quotas[fr].nominal
        if beyond > 0:
            borrowed = f"{quantity.text(fr.resource, beyond)} {shortened(fr.resource)}"
            release = "releases" if running == 1 else "release"
            until = f"nothing starts until {workloads(running)} {release} quota"
            yield fitted(
                f'leaving cohort "{shortened(old.cohort)}" with {borrowed} borrowed: {until}; drain the queue first',
                f'leaving cohort "{shortened(old.cohort)}" with {borrowed} borrowed: {until}',
                or_else=[f"leaving the cohort with {borrowed} borrowed: {until}; drain the queue first"],
            )
            return


def _lender_leaves(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    old, new = change.old, change.new
    if old is None or not old.cohort or (new is not None and new.cohort == old.cohort):
        return
    then = new if new is not None else replace(old, cohort="")
    for fr, lacking in sorted(lookup.overdrawn(then, old.cohort).items()):
        amount = quantity.text(fr.resource, lacking)
        short = f"then uses {amount} {shortened(fr.resource)} more than it has in {shortened(fr.flavor)}"
        released = f"no borrowing there until it is released; add {amount} first"
        yield fitted(
            f'cohort "{shortened(old.cohort)}" {short}: {released}',
            f'cohort "{shortened(old.cohort)}" {short}; add {amount} first',
            or_else=[f"the cohort {short}: {released}"],
        )


def _drains(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    return drained(change, lambda queue: lookup.admitted(queue.name))


def _queue_in_use(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    if change.new is not None or change.old is None:
        return
    running, waiting = lookup.admitted(change.old.name), lookup.pending(change.old.name)
    if running:
        holds = "holds" if running == 1 else "hold"
        waits = "waits" if waiting == 1 else "wait"
        ends = "deleted when the last one finishes; HoldAndDrain evicts them now"
        yield f"{workloads(running)} {holds} quota here and {waiting} {waits}: {ends}"
    elif waiting:
        waits = "waits" if waiting == 1 else "wait"
        them = "it" if waiting == 1 else "them"
        again = f"until a ClusterQueue of this name is created again; move {them} to another queue first"
        yield f"{workloads(waiting)} {waits} here {again}"


CLUSTER_QUEUE_RULES: Final[tuple[Rule[Change[ClusterQueue]], ...]] = (
    Rule(
        "flavor-not-found",
        "A ClusterQueue names a ResourceFlavor that does not exist.",
        _missing_flavors,
        example=('ResourceFlavor "standrad" does not exist, the ClusterQueue is inactive: did you mean "standard"?'),
    ),
    Rule(
        "no-quota",
        "A ClusterQueue without quota.",
        _no_quota,
        example=(
            "no resourceGroups: a job that requests anything never starts; add resources, flavors and their quota"
        ),
    ),
    Rule(
        "flavor-without-nodes",
        "No node has the labels of a flavor of the ClusterQueue.",
        _without_nodes,
        example='none of 2 nodes has the labels pool=fast of flavor "fast": its pods stay pending; label nodes',
    ),
    Rule(
        "resource-without-nodes",
        "A ClusterQueue has quota for a device or another extended resource that no node of the flavor has.",
        flavors_without,
        example='none of 2 nodes of flavor "standard" has nvidia.com/gpu now: its pods stay pending; check the device'
        " plugin",
    ),
    *topology.QUEUE_RULES,
    Rule(
        "admission-check-not-found",
        "A ClusterQueue names an AdmissionCheck that does not exist.",
        _missing_checks,
        example=('AdmissionCheck "budgte" does not exist, the ClusterQueue is inactive: did you mean "budget"?'),
    ),
    Rule(
        "admission-checks-conflict",
        "AdmissionChecks of a ClusterQueue exclude each other, or concurrent admission.",
        _conflicting_checks,
        example=(
            "the ClusterQueue is inactive: Cannot use MultiKueue AdmissionChecks with concurrentAdmissionPolicy,"
            " found: workers"
        ),
    ),
    Rule(
        "admission-check-inactive",
        "The controller of an AdmissionCheck of the ClusterQueue does not run.",
        _inactive_checks,
        example=(
            'AdmissionCheck "budget" is inactive: the ClusterQueue admits nothing; start its controller'
            " example.com/budget"
        ),
    ),
    Rule(
        "no-namespace-admitted",
        "A ClusterQueue has no namespaceSelector and so admits no workload.",
        _no_namespaces,
        example="namespaceSelector is not set, so no namespace is admitted; {} admits all namespaces",
    ),
    Rule(
        "cohort-cycle",
        "The parents of a cohort form a cycle.",
        _cycle_of_queue,
        example=(
            "the parents of cohort research form a cycle: research -> research;"
            " nothing is admitted there; change a parentName"
        ),
    ),
    Rule(
        "borrowing-limit-idle",
        "A borrowingLimit is higher than what the cohort can ever lend.",
        _idle_limits,
        example='borrowingLimit 20 of cpu in standard has no effect: cohort "research" lends at most 8; lower or'
        " remove it",
    ),
    Rule(
        "fungibility-idle",
        "A setting of flavorFungibility has no effect with the other settings.",
        _idle_fungibility,
        example=(
            "whenCanPreempt: MayStopSearch has no effect: withinClusterQueue, reclaimWithinCohort are Never; change one"
        ),
    ),
    Rule(
        "fungibility-contradiction",
        "Preemption is preferred to free quota in a later flavor.",
        _stops_and_preempts,
        example=(
            "whenCanPreempt: MayStopSearch preempts even if a later flavor has free quota; TryNextFlavor would use"
            " that flavor"
        ),
    ),
    Rule(
        "preemption-idle",
        "A preemption setting has no effect with the other settings.",
        _idle_preemption,
        example="reclaimWithinCohort: Any has no effect: the ClusterQueue is in no cohort; set cohortName or remove it",
    ),
    Rule(
        "quota-below-usage",
        "Quota or a borrowingLimit is set lower than what is in use.",
        _below_usage,
        example="cpu in standard goes from 8 to 4, but 10 is in use: 6 is then borrowed; keep 10 to avoid this",
    ),
    Rule(
        "cohort-left-in-debt",
        "A ClusterQueue leaves its cohort while it borrows from it.",
        _cohort_changed,
        example=(
            'leaving cohort "research" with 2 cpu borrowed: nothing starts until 2'
            " workloads release quota; drain the queue first"
        ),
    ),
    Rule(
        "cohort-left-short",
        "A ClusterQueue leaves its cohort, or is deleted, while other members use its quota.",
        _lender_leaves,
        example=(
            'cohort "research" then uses 2 cpu more than it has in standard:'
            " no borrowing there until it is released; add 2 first"
        ),
    ),
    Rule(
        "drain-stops-workloads",
        "HoldAndDrain is set on a ClusterQueue with running workloads.",
        _drains,
        example="HoldAndDrain evicts 2 running workloads, which then wait; Hold lets them finish",
    ),
    Rule(
        "cluster-queue-in-use",
        "A ClusterQueue with workloads is deleted.",
        _queue_in_use,
        example="2 workloads hold quota here and 1 waits: deleted when the last one finishes; HoldAndDrain evicts"
        " them now",
    ),
)
