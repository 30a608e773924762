"""Warnings about a change of a LocalQueue, a Cohort or a ResourceFlavor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from api import quantity
from core.feedback import topology
from core.feedback.change import Change, cycle, drained, lacks_nodes, missing_flavors, node_count, workloads, written
from core.feedback.job_queue import not_admitted
from core.feedback.rules import Finding, IsSpent, Rule, closest, findings, fitted, never, shortened
from core.model import Cohort, LocalQueue, ResourceFlavor, Topology
from core.state.lookup import Lookup


def of_local_queue(change: Change[LocalQueue], lookup: Lookup, spent: IsSpent = never) -> tuple[Finding, ...]:
    """All findings about a change of a LocalQueue."""
    return findings(LOCAL_QUEUE_RULES, change, lookup, spent)


def of_queue(change: Change[LocalQueue], lookup: Lookup, spent: IsSpent = never) -> tuple[Finding, ...]:
    """All findings about a change of a Queue of v0.1, as the LocalQueue that it acts through."""
    return findings((*QUEUE_RULES, *LOCAL_QUEUE_RULES), change, lookup, spent)


def of_cohort(change: Change[Cohort], lookup: Lookup, spent: IsSpent = never) -> tuple[Finding, ...]:
    """All findings about a change of a Cohort."""
    return findings(COHORT_RULES, change, lookup, spent)


def of_flavor(change: Change[ResourceFlavor], lookup: Lookup, spent: IsSpent = never) -> tuple[Finding, ...]:
    """All findings about a change of a ResourceFlavor."""
    return findings(FLAVOR_RULES, change, lookup, spent)


def _leads_nowhere(change: Change[LocalQueue], lookup: Lookup) -> Iterable[str]:
    queue = change.new
    if queue is not None and lookup.cluster_queue(queue.cluster_queue) is None:
        name = queue.cluster_queue
        yet = f'ClusterQueue "{shortened(name)}" does not exist: jobs of this LocalQueue wait until it is created'
        meant = closest(name, lookup.cluster_queue_names())
        yield fitted(f'{yet}; did you mean "{shortened(meant)}"?' if meant else yet)


def _not_selected(change: Change[LocalQueue], lookup: Lookup) -> Iterable[str]:
    local = change.new
    queue = lookup.cluster_queue(local.cluster_queue) if local is not None else None
    labels = lookup.namespace_labels(local.key.namespace) if local is not None else None
    if local is not None and queue is not None and labels is not None:
        yield from not_admitted(queue, local.key.namespace, labels)


def _drains(change: Change[LocalQueue], lookup: Lookup) -> Iterable[str]:
    return drained(change, lambda queue: lookup.admitted_for(queue.key))


def _queue_in_use(change: Change[LocalQueue], lookup: Lookup) -> Iterable[str]:
    if change.new is None and change.old is not None:
        running, waiting = lookup.admitted_for(change.old.key), lookup.pending_for(change.old.key)
        if waiting:
            run = f"; {running} running {'continues' if running == 1 else 'continue'}" if running else ""
            waits, them = ("waits", "it") if waiting == 1 else ("wait", "them")
            again = f"here until this LocalQueue is created again; move {them} to another queue first"
            yield fitted(
                f"{workloads(waiting)} {waits} {again}{run}",
                or_else=[f"{workloads(waiting)} {waits} {again}"],
            )
        elif running:
            one = running == 1
            goes_on = (
                "continues and holds quota until it finishes" if one else "continue and hold quota until they finish"
            )
            run = f"{running} running workload{'' if one else 's'} {goes_on}"
            yield f"{run}; HoldAndDrain evicts {'it' if one else 'them'}"


def _name_taken(change: Change[LocalQueue], lookup: Lookup) -> Iterable[str]:
    there = lookup.local_queue(change.new.key) if change.new is not None and change.old is None else None
    if there is not None and change.new is not None and there.cluster_queue != change.new.cluster_queue:
        points = f'LocalQueue "{shortened(there.key.name)}" exists and points to'
        queue = f'"{shortened(there.cluster_queue)}"'
        yield fitted(
            f"{points} ClusterQueue {queue}: this Queue has no effect; choose another name",
            f"{points} {queue}: this Queue has no effect; choose another name",
            f"{points} {queue}: this Queue has no effect",
        )


def _no_weight(change: Change[LocalQueue], lookup: Lookup) -> Iterable[str]:
    queue = change.new
    if queue is not None and queue.weight < 0:
        weight = f"fairSharing.weight {queue.weight:g}"
        yield f"{weight} counts as 0: jobs of this queue are admitted after those of all other LocalQueues; set 1"


def _cohort_missing_flavors(change: Change[Cohort], lookup: Lookup) -> Iterable[str]:
    named = sorted({fr.flavor for fr in change.new.quotas}) if change.new else []
    unusable = "in the cohort cannot be used"
    yield from missing_flavors(named, lookup, f"its quota {unusable}", f"their quota {unusable}")


def _cohort_below_usage(change: Change[Cohort], lookup: Lookup) -> Iterable[str]:
    old, new = change.old, change.new
    if old is None or new is None:
        return
    before = lookup.overdrawn(old, old.name)
    for fr, lacking in sorted(lookup.overdrawn(new, new.name).items()):
        if lacking > before.get(fr, 0):
            amount = quantity.text(fr.resource, lacking)
            short = f"the cohort then uses {amount} {shortened(fr.resource)} more than it has in {shortened(fr.flavor)}"
            yield fitted(f"{short}: no borrowing in it until it is released; keep {amount} more")


def _cohort_in_use(change: Change[Cohort], lookup: Lookup) -> Iterable[str]:
    cohort = change.old
    if change.new is not None or cohort is None or not (cohort.parent or cohort.quotas):
        return
    queues, cohorts = lookup.members(cohort.name)
    if queues or cohorts:
        lost = [*(["its quota"] if cohort.quotas else []), *(["its parent"] if cohort.parent else [])]
        who = " and ".join(filter(None, (_counted(queues, "ClusterQueue"), _counted(cohorts, "Cohort"))))
        one = queues + cohorts == 1
        then = "is a member: it stays in the cohort but" if one else "are members: they stay in the cohort but"
        yield f"{who} {then} {'loses' if one else 'lose'} {' and '.join(lost)}; move {'it' if one else 'them'} first"


def _counted(count: int, kind: str) -> str:
    return f"{count} {kind}{'' if count == 1 else 's'}" if count else ""


def _cycle_of_cohort(change: Change[Cohort], lookup: Lookup) -> Iterable[str]:
    if change.new is not None and change.new.parent:
        yield from cycle(change.new.name, change.new.parent, lookup)


def of_topology(change: Change[Topology], lookup: Lookup, spent: IsSpent = never) -> tuple[Finding, ...]:
    """All findings about a change of a Topology."""
    return findings(TOPOLOGY_RULES, change, lookup, spent)


_OFF: Final = "feature gate TopologyAwareScheduling is off"


def _idle_topology(change: Change[Topology], lookup: Lookup) -> Iterable[str]:
    if change.new is not None and topology.is_off(lookup):
        yield fitted(f'Topology "{shortened(change.new.name)}" has no effect: {_OFF}')


def _names_topology(change: Change[ResourceFlavor], lookup: Lookup) -> Iterable[str]:
    if change.new is not None and change.new.topology_name and topology.is_off(lookup):
        yield fitted(f'topologyName "{shortened(change.new.topology_name)}" has no effect: {_OFF}')


def _no_nodes(change: Change[ResourceFlavor], lookup: Lookup) -> Iterable[str]:
    flavor = change.new
    if flavor is not None and lacks_nodes(flavor, lookup):
        fact = f"{node_count(lookup)} the labels {written(flavor.node_labels)}"
        yield fitted(
            f"{fact}: its pods stay pending; label nodes or change nodeLabels",
            f"{fact}: its pods stay pending; label nodes",
            f"{fact}: its pods stay pending",
            or_else=[f"{node_count(lookup)} the labels of the flavor: its pods stay pending; label nodes"],
        )


def _flavor_in_use(change: Change[ResourceFlavor], lookup: Lookup) -> Iterable[str]:
    if change.new is None and change.old is not None:
        users = sorted(
            name
            for name in lookup.cluster_queue_names()
            if (queue := lookup.cluster_queue(name)) and any(change.old.name in group.flavors for group in queue.groups)
        )
        if users:
            several, more = len(users) > 1, f" and {len(users) - 2} more" if len(users) > 2 else ""
            used = f"ClusterQueue{'s' if several else ''} {', '.join(map(shortened, users[:2]))}{more}"
            they, remove = ("they", "remove") if several else ("it", "removes")
            yield fitted(
                f"{used} {'use' if several else 'uses'} this flavor: it is deleted only after {they} {remove} it"
                " from resourceGroups"
            )


LOCAL_QUEUE_RULES: Final[tuple[Rule[Change[LocalQueue]], ...]] = (
    Rule(
        "negative-weight",
        "A LocalQueue with a negative `fairSharing.weight`.",
        _no_weight,
        example=(
            "fairSharing.weight -1 counts as 0: jobs of this queue are admitted after those of all other"
            " LocalQueues; set 1"
        ),
    ),
    Rule(
        "cluster-queue-not-found",
        "The ClusterQueue of the LocalQueue does not exist.",
        _leads_nowhere,
        example=(
            'ClusterQueue "taem-b" does not exist: jobs of this LocalQueue wait until it is created; did you mean'
            ' "team-b"?'
        ),
    ),
    Rule(
        "namespace-not-selected",
        "The ClusterQueue does not admit the LocalQueue's namespace.",
        _not_selected,
        example='ClusterQueue "team-a" does not admit namespace "team-b": its label team is b, must be a',
    ),
    Rule(
        "drain-stops-workloads",
        "HoldAndDrain is set on a LocalQueue with running workloads.",
        _drains,
        example="HoldAndDrain evicts 1 running workload, which then waits; Hold lets it finish",
    ),
    Rule(
        "local-queue-in-use",
        "A LocalQueue with workloads is deleted.",
        _queue_in_use,
        example="1 workload waits here until this LocalQueue is created again; move it to another queue first;"
        " 2 running continue",
    ),
)
QUEUE_RULES: Final[tuple[Rule[Change[LocalQueue]], ...]] = (
    Rule(
        "queue-name-taken",
        "A LocalQueue with the Queue's name points to another ClusterQueue.",
        _name_taken,
        example=(
            'LocalQueue "main" exists and points to ClusterQueue "team-a": this Queue has no effect; choose another'
            " name"
        ),
    ),
)
COHORT_RULES: Final[tuple[Rule[Change[Cohort]], ...]] = (
    Rule(
        "cohort-cycle",
        "The parents of a cohort form a cycle.",
        _cycle_of_cohort,
        example=(
            "the parents of cohort root form a cycle: root -> research -> root;"
            " nothing is admitted there; change a parentName"
        ),
    ),
    Rule(
        "flavor-not-found",
        "A Cohort has quota of a ResourceFlavor that does not exist.",
        _cohort_missing_flavors,
        example=(
            'ResourceFlavor "standrad" does not exist, its quota in the cohort cannot be used: did you mean "standard"?'
        ),
    ),
    Rule(
        "quota-below-usage",
        "The quota of a Cohort, or its parent, is removed while it is in use.",
        _cohort_below_usage,
        example=(
            "the cohort then uses 2 cpu more than it has in standard:"
            " no borrowing in it until it is released; keep 2 more"
        ),
    ),
    Rule(
        "cohort-in-use",
        "A Cohort with members is deleted.",
        _cohort_in_use,
        example="2 ClusterQueues are members: they stay in the cohort but lose its quota; move them first",
    ),
)
TOPOLOGY_RULES: Final[tuple[Rule[Change[Topology]], ...]] = (
    Rule(
        "topology-without-effect",
        "A Topology is created while topologies are switched off.",
        _idle_topology,
        example='Topology "racks" has no effect: feature gate TopologyAwareScheduling is off',
    ),
    *topology.TOPOLOGY_RULES,
)
FLAVOR_RULES: Final[tuple[Rule[Change[ResourceFlavor]], ...]] = (
    Rule(
        "topology-without-effect",
        "A ResourceFlavor names a Topology while topologies are switched off.",
        _names_topology,
        example='topologyName "racks" has no effect: feature gate TopologyAwareScheduling is off',
    ),
    *topology.FLAVOR_RULES,
    Rule(
        "flavor-without-nodes",
        "No node has the labels of a ResourceFlavor.",
        _no_nodes,
        example="none of 2 nodes has the labels pool=fast: its pods stay pending; label nodes or change nodeLabels",
    ),
    Rule(
        "flavor-in-use",
        "A ResourceFlavor that ClusterQueues use is deleted.",
        _flavor_in_use,
        example="ClusterQueues team-a, team-b use this flavor: it is deleted only after they remove it from"
        " resourceGroups",
    ),
)
