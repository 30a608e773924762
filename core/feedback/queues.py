"""What an administrator should know at once about a change of a LocalQueue, a Cohort or a ResourceFlavor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from core import placement
from core.feedback.change import Change, cycle
from core.feedback.jobs import unmet
from core.feedback.rules import Finding, Rule, did_you_mean, findings, fitted
from core.lookup import Lookup
from core.model import Cohort, LocalQueue, ResourceFlavor


def of_local_queue(change: Change[LocalQueue], lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about a change of a LocalQueue."""
    return findings(LOCAL_QUEUE_RULES, change, lookup)


def of_cohort(change: Change[Cohort], lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about a change of a Cohort."""
    return findings(COHORT_RULES, change, lookup)


def of_flavor(change: Change[ResourceFlavor], lookup: Lookup) -> tuple[Finding, ...]:
    """All findings about a change of a ResourceFlavor."""
    return findings(FLAVOR_RULES, change, lookup)


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
        yield from cycle(change.new.name, change.new.parent, lookup)


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
