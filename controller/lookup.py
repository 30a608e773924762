"""The queries of admission about the caches: `core.state.lookup.Lookup` with the data that State does not have. Every
replica answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.caches import Caches
from controller.owners import Owners
from core.state.lookup import Lookup
from core.wire.pod_requests import RequestRules


def cache_lookup(
    caches: Caches, owners: Owners, workers: Callable[[str], Mapping[str, Lookup | None]] = lambda check: {}
) -> Lookup:
    """Returns a Lookup on ``caches``; it is empty until ``Caches.start`` was called.

    Nothing is known of Nodes and ResourceQuotas until they are listed, and nothing waits for that: they are used for
    warnings only.
    """

    def rules(namespace: str) -> RequestRules:
        return caches.context(namespace).rules

    nodes, quotas = caches.nodes, caches.resource_quotas
    return Lookup(
        caches.state,
        ready=lambda: caches.started,
        classes=lambda: caches.classes,
        rules=rules,
        job_workload=caches.workload_of,
        owner=owners.look,
        nodes=lambda: tuple(nodes) if nodes.synced else None,
        quotas=lambda namespace: quotas.by_index("namespace", namespace),
        workers=workers,
    )
