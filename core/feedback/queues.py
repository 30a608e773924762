"""What an administrator should know at once about a change of queues, cohorts and flavors: what it will not do, and
what it does to those who run and wait.

A subject is a `Change`: no old one on create, no new one on delete.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from api import quantity
from api.names import Fungibility, PreemptionPolicy
from core import placement
from core.feedback.jobs import unmet
from core.feedback.rules import Finding, Rule, did_you_mean, findings, fitted
from core.lookup import Lookup
from core.model import ClusterQueue, Cohort, LocalQueue, Quota, ResourceFlavor

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Change(Generic[_Kind]):
    """An object before and after."""

    old: _Kind | None
    new: _Kind | None


def of_cluster_queue(change: Change[ClusterQueue], lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about a change of a ClusterQueue."""
    return findings(CLUSTER_QUEUE_RULES, change, lookup)


def of_local_queue(change: Change[LocalQueue], lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about a change of a LocalQueue."""
    return findings(LOCAL_QUEUE_RULES, change, lookup)


def of_cohort(change: Change[Cohort], lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about a change of a Cohort."""
    return findings(COHORT_RULES, change, lookup)


def of_flavor(change: Change[ResourceFlavor], lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about a change of a ResourceFlavor."""
    return findings(FLAVOR_RULES, change, lookup)


# ClusterQueues: what they refer to.


def _missing_flavors(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    named = [name for group in change.new.groups for name in group.flavors] if change.new else []
    for name in (name for name in named if lookup.flavor(name) is None):
        hint = did_you_mean(name, lookup.flavor_names(), several="ResourceFlavors")
        yield fitted(
            f'ResourceFlavor "{name}" does not exist, the ClusterQueue admits nothing until it does: {hint}',
            f"a ResourceFlavor does not exist, the ClusterQueue admits nothing until it does: {hint}",
        )


def _missing_checks(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    named = sorted({rule.name for rule in change.new.checks}) if change.new else []
    for name in (name for name in named if lookup.admission_check(name) is None):
        yield fitted(
            f'AdmissionCheck "{name}" does not exist: the ClusterQueue admits nothing until it does',
            "an AdmissionCheck does not exist: the ClusterQueue admits nothing until it does",
        )


def _no_namespaces(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    if change.new is not None and change.new.namespace_selector is None:
        yield "no namespace is admitted: namespaceSelector is not set; {} admits all of them"


def _cycle_of_queue(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    if change.new is not None and change.new.cohort:
        cohort = lookup.cohort(change.new.cohort)
        yield from _cycle(change.new.cohort, cohort.parent if cohort else "", lookup)


def _cycle(start: str, parent: str, lookup: Lookup) -> Iterable[str]:
    """The circle that the parents of ``start`` make, if they do; its own is (to be) ``parent``."""
    path, name = [start], parent
    while name and name not in path:
        path.append(name)
        cohort = lookup.cohort(name)
        name = cohort.parent if cohort else ""
    if name:
        circle = " -> ".join([*path[path.index(name) :], name])
        yield fitted(
            f"the parents of cohort {start} run in a circle: {circle}; its ClusterQueues admit nothing",
            "the parents of the cohort run in a circle: its ClusterQueues admit nothing",
        )


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
            yield fitted(
                f'borrowingLimit {amounts[0]} of {fr.resource} in {fr.flavor} never matters: cohort "{queue.cohort}"'
                f" lends {amounts[1]} at most",
                f"borrowingLimit {amounts[0]} of {fr.resource} never matters: the cohort lends {amounts[1]} at most",
                f"borrowingLimit {amounts[0]} never matters: the cohort lends {amounts[1]} at most",
            )


def _preempts(queue: ClusterQueue) -> bool:
    never = PreemptionPolicy.NEVER
    return queue.preemption.within_cluster_queue != never or queue.preemption.reclaim_within_cohort != never


def _idle_fungibility(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    queue = change.new
    if queue is None or _preempts(queue):
        return
    if queue.fungibility.when_can_preempt == Fungibility.MAY_STOP_SEARCH:
        yield ("whenCanPreempt: MayStopSearch does nothing: withinClusterQueue and reclaimWithinCohort are Never")


def _idle_preemption(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    queue = change.new
    if queue is None:
        return
    preemption, never = queue.preemption, PreemptionPolicy.NEVER
    if preemption.reclaim_within_cohort != never and not queue.cohort:
        yield f"reclaimWithinCohort: {preemption.reclaim_within_cohort} does nothing: the ClusterQueue is in no cohort"
    if preemption.max_priority_threshold is not None and preemption.borrow_within_cohort == never:
        yield (
            f"maxPriorityThreshold {preemption.max_priority_threshold} does nothing: borrowWithinCohort.policy is Never"
        )


def _stops_and_preempts(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    """A search that stops where it can borrow never comes to the flavor where it could preempt instead."""
    queue = change.new
    if queue is None or not queue.cohort or not _preempts(queue):
        return
    several = any(len(group.flavors) > 1 for group in queue.groups)
    if several and (queue.fungibility.when_can_borrow, queue.fungibility.when_can_preempt) == (
        Fungibility.TRY_NEXT_FLAVOR,
        Fungibility.MAY_STOP_SEARCH,
    ):
        yield "whenCanPreempt: MayStopSearch preempts in the first flavor even where a later one has room to borrow"


# ClusterQueues: what a change does to those who run and wait.


def _below_usage(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    old, new = change.old, change.new
    if old is None or new is None:
        return
    for fr in sorted(old.quotas):
        before, after = old.quotas[fr].nominal, new.quotas.get(fr, Quota()).nominal
        used = lookup.usage(old.name, fr)
        if after < before and used > after:
            texts = [quantity.text(fr.resource, amount) for amount in (before, after, used, used - after)]
            yield fitted(
                f"{fr.resource} in {fr.flavor} goes from {texts[0]} to {texts[1]}, but {texts[2]} is in use:"
                f" {texts[3]} is borrowed from now on",
                f"{fr.resource} goes from {texts[0]} to {texts[1]}, but {texts[2]} is in use",
            )


def _cohort_changed(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    old, new = change.old, change.new
    if old is None or new is None or old.cohort == new.cohort or not old.cohort:
        return
    running = lookup.admitted(old.name)
    for fr in sorted(old.quotas):
        beyond = lookup.usage(old.name, fr) - old.quotas[fr].nominal
        if beyond > 0:
            borrowed = quantity.text(fr.resource, beyond)
            yield fitted(
                f'leaving cohort "{old.cohort}" with {borrowed} {fr.resource} borrowed:'
                f" nothing starts until {_workloads(running)} have released as much",
                f"leaving the cohort with {borrowed} {fr.resource} borrowed: nothing starts until it is released",
            )
            return


def _queue_in_use(change: Change[ClusterQueue], lookup: Lookup) -> Iterable[str]:
    if change.new is None and change.old is not None:
        running, waiting = lookup.admitted(change.old.name), lookup.pending(change.old.name)
        if running or waiting:
            yield f"{_workloads(running)} hold quota here and {waiting} wait: it goes when the last has finished"


def _workloads(count: int) -> str:
    return f"{count} {'workload' if count == 1 else 'workloads'}"


# LocalQueues, cohorts and flavors.


def _leads_nowhere(change: Change[LocalQueue], lookup: Lookup) -> Iterable[str]:
    queue = change.new
    if queue is not None and lookup.cluster_queue(queue.cluster_queue) is None:
        hint = did_you_mean(queue.cluster_queue, lookup.cluster_queue_names(), several="ClusterQueues")
        yield fitted(
            f'ClusterQueue "{queue.cluster_queue}" does not exist, and clusterQueue cannot be changed later: {hint}',
            f"the ClusterQueue does not exist, and clusterQueue cannot be changed later: {hint}",
        )


def _not_selected(change: Change[LocalQueue], lookup: Lookup) -> Iterable[str]:
    local = change.new
    queue = lookup.cluster_queue(local.cluster_queue) if local is not None else None
    labels = lookup.namespace_labels(local.key.namespace) if local is not None else None
    if local is None or queue is None or labels is None or queue.namespace_selector is None:
        return
    if not placement.matches(queue.namespace_selector, labels):
        wanted = unmet(queue.namespace_selector, labels)
        yield fitted(
            f'ClusterQueue "{queue.name}" does not admit namespace "{local.key.namespace}": it wants {wanted}',
            f"the ClusterQueue does not admit this namespace: it wants {wanted}",
        )


def _cycle_of_cohort(change: Change[Cohort], lookup: Lookup) -> Iterable[str]:
    if change.new is not None and change.new.parent:
        yield from _cycle(change.new.name, change.new.parent, lookup)


def _no_nodes(change: Change[ResourceFlavor], lookup: Lookup) -> Iterable[str]:
    flavor, nodes = change.new, tuple(lookup.node_labels() or ())
    if flavor is None or not nodes or not flavor.node_labels:
        return  # a cluster without nodes is one that is being made
    wanted = flavor.node_labels.items()
    if not any(wanted <= labels.items() for labels in nodes):
        listed = ",".join(f"{key}={value}" for key, value in sorted(wanted))
        yield fitted(
            f"no node has the labels {listed}: what is admitted to the flavor stays pending",
            "no node has the labels of the flavor: what is admitted to it stays pending",
        )


def _flavor_in_use(change: Change[ResourceFlavor], lookup: Lookup) -> Iterable[str]:
    if change.new is None and change.old is not None:
        users = sorted(
            name
            for name in lookup.cluster_queue_names()
            if (queue := lookup.cluster_queue(name)) and any(change.old.name in group.flavors for group in queue.groups)
        )
        if users:
            more = f" and {len(users) - 2} more" if len(users) > 2 else ""
            yield fitted(
                f"the flavor is used by ClusterQueue {', '.join(users[:2])}{more}: it goes when they drop it",
                f"the flavor is used by {len(users)} ClusterQueues: it goes when they drop it",
            )


CLUSTER_QUEUE_RULES: Final[tuple[Rule[Change[ClusterQueue]], ...]] = (
    Rule(
        "flavor-not-found",
        "A ClusterQueue names a ResourceFlavor that does not exist.",
        _missing_flavors,
        example=(
            'ResourceFlavor "standrad" does not exist, the ClusterQueue admits nothing until it does: did'
            ' you mean "standard"?'
        ),
    ),
    Rule(
        "admission-check-not-found",
        "A ClusterQueue names an AdmissionCheck that does not exist.",
        _missing_checks,
        example='AdmissionCheck "budget" does not exist: the ClusterQueue admits nothing until it does',
    ),
    Rule(
        "no-namespace-admitted",
        "A ClusterQueue has no namespaceSelector, so admits nobody.",
        _no_namespaces,
        example="no namespace is admitted: namespaceSelector is not set; {} admits all of them",
    ),
    Rule(
        "cohort-cycle",
        "The parents of a cohort run in a circle.",
        _cycle_of_queue,
        example=(
            "the parents of cohort research run in a circle: research -> research; its ClusterQueues admit nothing"
        ),
    ),
    Rule(
        "borrowing-limit-idle",
        "A borrowingLimit above all that the cohort could ever lend.",
        _idle_limits,
        example='borrowingLimit 20 of cpu in standard never matters: cohort "research" lends 8 at most',
    ),
    Rule(
        "fungibility-idle",
        "whenCanPreempt is set where nothing may be preempted.",
        _idle_fungibility,
        example=("whenCanPreempt: MayStopSearch does nothing: withinClusterQueue and reclaimWithinCohort are Never"),
    ),
    Rule(
        "fungibility-contradiction",
        "Preemption is preferred to a later flavor's free quota.",
        _stops_and_preempts,
        example=(
            "whenCanPreempt: MayStopSearch preempts in the first flavor even where a later one has room to borrow"
        ),
    ),
    Rule(
        "preemption-idle",
        "A preemption setting that can do nothing as the others are.",
        _idle_preemption,
        example="reclaimWithinCohort: Any does nothing: the ClusterQueue is in no cohort",
    ),
    Rule(
        "quota-below-usage",
        "Quota is lowered below what is in use.",
        _below_usage,
        example="cpu in standard goes from 8 to 4, but 10 is in use: 6 is borrowed from now on",
    ),
    Rule(
        "cohort-left-in-debt",
        "A ClusterQueue leaves its cohort while it borrows from it.",
        _cohort_changed,
        example=(
            'leaving cohort "research" with 2 cpu borrowed: nothing starts until 2 workloads have released as much'
        ),
    ),
    Rule(
        "cluster-queue-in-use",
        "A ClusterQueue with workloads is deleted.",
        _queue_in_use,
        example="2 workloads hold quota here and 1 wait: it goes when the last has finished",
    ),
)
LOCAL_QUEUE_RULES: Final[tuple[Rule[Change[LocalQueue]], ...]] = (
    Rule(
        "cluster-queue-not-found",
        "A LocalQueue leads to a ClusterQueue that is not there.",
        _leads_nowhere,
        example=(
            'ClusterQueue "taem-b" does not exist, and clusterQueue cannot be changed later: did you mean "team-b"?'
        ),
    ),
    Rule(
        "namespace-not-selected",
        "The ClusterQueue does not admit the LocalQueue's namespace.",
        _not_selected,
        example='ClusterQueue "team-a" does not admit namespace "team-b": it wants team=a',
    ),
)
COHORT_RULES: Final[tuple[Rule[Change[Cohort]], ...]] = (
    Rule(
        "cohort-cycle",
        "The parents of a cohort run in a circle.",
        _cycle_of_cohort,
        example=(
            "the parents of cohort root run in a circle: root -> research -> root; its ClusterQueues admit nothing"
        ),
    ),
)
FLAVOR_RULES: Final[tuple[Rule[Change[ResourceFlavor]], ...]] = (
    Rule(
        "flavor-without-nodes",
        "No node has the labels of a ResourceFlavor.",
        _no_nodes,
        example="no node has the labels pool=fast: what is admitted to the flavor stays pending",
    ),
    Rule(
        "flavor-in-use",
        "A ResourceFlavor that ClusterQueues use is deleted.",
        _flavor_in_use,
        example="the flavor is used by ClusterQueue team-a, team-b: it goes when they drop it",
    ),
)
