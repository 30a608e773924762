"""What admission asks of the caches: `core.state.state_lookup.StateLookup`, filled with what State does not keep. Every
replica answers.
"""

from __future__ import annotations

from controller.caches import Caches
from controller.kube.resource import Raw
from controller.kube.store import Store
from core.model import Labels
from core.state.state_lookup import StateLookup
from core.wire.pod_requests import RequestRules
from core.wire.resource_quotas import ResourceQuota


def labels_of(raw: Raw) -> Labels:
    """All that we keep of a node: its kubelet writes the rest again and again."""
    return raw["metadata"].get("labels") or {}


def quotas_by_namespace(quota: ResourceQuota) -> tuple[str]:
    """Index of ResourceQuotas."""
    return (quota.namespace,)


def cache_lookup(caches: Caches, nodes: Store[Labels], quotas: Store[ResourceQuota]) -> StateLookup:
    """A Lookup that answers from ``caches``; nothing is known until ``Caches.start`` was called.

    Of ``nodes`` and ``quotas``, the ResourceQuotas, nothing is known until they were listed, which nobody waits for:
    they matter to warnings alone.
    """

    def rules(namespace: str) -> RequestRules:
        return caches.context(namespace).rules

    return StateLookup(
        caches.state,
        ready=lambda: caches.started,
        classes=lambda: caches.classes,
        rules=rules,
        job_workload=caches.workload_of,
        nodes=lambda: tuple(nodes) if nodes.synced else None,
        quotas=lambda namespace: quotas.by_index("namespace", namespace),
    )
