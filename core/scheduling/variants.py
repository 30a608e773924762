"""Variants of one workload in a cycle (concurrent admission): at most one of them runs, in the most preferred flavor.

Rules: https://kueue.sigs.k8s.io/docs/concepts/concurrent_admission/.
"""

from __future__ import annotations

from collections.abc import Iterator

from api.names import MigrationMode
from core.model import ClusterQueue, Workload
from core.quota.node import QueueNode
from core.quota.usage import Reservation


def better(variant: Workload, node: QueueNode) -> bool:
    """Whether a variant of the same workload is admitted in a flavor that is preferred to that of this one."""
    if not variant.variant_of:
        return False
    mine = preference(variant, node.spec)
    return any(preference(held.workload, node.spec) < mine and not held.evicted for held in _admitted(variant, node))


def worse(variant: Workload, node: QueueNode) -> Reservation | None:
    """The variant of the same workload that is admitted in a less preferred flavor; None if there is none."""
    if not variant.variant_of:
        return None
    mine = preference(variant, node.spec)
    found = [held for held in _admitted(variant, node) if preference(held.workload, node.spec) > mine]
    return min(found, key=lambda held: held.workload.key, default=None)


def may_migrate(variant: Workload, queue: ClusterQueue) -> bool:
    """Whether the workload may move to the flavor of this variant while it runs in another one."""
    migration = queue.migration
    if migration is None:
        return True
    if migration.mode == MigrationMode.RETAIN_FIRST_ADMISSION:
        return False
    return acceptable(variant, queue, migration.last_acceptable)


def acceptable(variant: Workload, queue: ClusterQueue, last: str) -> bool:
    """Whether the variant's flavor is ``last``, the last acceptable one, or preferred to it; all are if the
    ClusterQueue does not have that one.
    """
    return last not in queue.flavors or preference(variant, queue) <= queue.flavors.index(last)


def flavor_of(variant: Workload) -> str:
    """The flavor of a variant, '' if it has none."""
    return variant.allowed_flavors[0] if variant.allowed_flavors else ""


def preference(variant: Workload, queue: ClusterQueue) -> int:
    """The place of the variant's flavor in the order of its ClusterQueue, 0 is preferred to all; after the last one if
    the ClusterQueue does not have it.
    """
    flavor = flavor_of(variant)
    return queue.flavors.index(flavor) if flavor in queue.flavors else len(queue.flavors)


def _admitted(variant: Workload, node: QueueNode) -> Iterator[Reservation]:
    """The admitted variants of the same workload, except this one. Costs the number of reservations."""
    for key, held in node.reserved.items():
        if held.workload.variant_of == variant.variant_of and held.admitted and key != variant.key:
            yield held
