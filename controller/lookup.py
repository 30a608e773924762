"""What admission asks of the caches: `core.state.lookup.Lookup`, filled with what State does not keep. Every
replica answers.
"""

from __future__ import annotations

from controller.caches import Caches
from core.state.lookup import Lookup
from core.wire.pod_requests import RequestRules


def cache_lookup(caches: Caches) -> Lookup:
    """A Lookup that answers from ``caches``; nothing is known until ``Caches.start`` was called.

    Of Nodes and ResourceQuotas nothing is known until they were listed, which nobody waits for: they matter to warnings
    alone.
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
        nodes=lambda: tuple(nodes) if nodes.synced else None,
        quotas=lambda namespace: quotas.by_index("namespace", namespace),
    )
