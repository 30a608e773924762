"""The queries of admission about the caches: `core.state.lookup.Lookup` with the data that State does not have. Every
replica answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from api import resources
from api.names import Kind
from api.objects import Resource
from controller.cache.caches import Caches
from controller.cache.owners import Owners
from core.model import Key, Raw
from core.multikueue import conditions
from core.state.lookup import Lookup
from core.state.node_groups import NodeGroup, NodeGroups
from core.wire.active import Cause, parameters_name
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

    def raw(resource: Resource, name: str) -> Raw | None:
        store = caches.stores.get(resource)
        found: Raw | None = store.get(("", name)) if store is not None else None
        return found

    def cause(name: str) -> Cause:
        check = raw(resources.ADMISSION_CHECKS, name)
        if check is None:
            return Cause()
        config, _ = parameters_name(check, Kind.MULTIKUEUE_CONFIG)
        found = raw(resources.MULTIKUEUE_CONFIGS, config) if config else None
        named = {each: raw(resources.MULTIKUEUE_CLUSTERS, each) for each in conditions.clusters_of(found)}
        return conditions.cause(check, found, {each: known for each, known in named.items() if known is not None})

    def exists(resource: Resource, key: Key) -> bool:
        return resource in caches.stores and key in caches.stores[resource]

    nodes, quotas = caches.nodes, caches.resource_quotas
    groups = NodeGroups(lambda: nodes)
    nodes.listen(groups.changed)
    return Lookup(
        caches.state,
        ready=lambda: caches.started,
        classes=lambda: caches.classes,
        rules=rules,
        job_workload=caches.workload_of,
        owner=owners.look,
        nodes=lambda: tuple(nodes) if nodes.synced else None,
        labelled=lambda labels: groups.having(labels) if nodes.synced else NodeGroup(()),
        quotas=lambda namespace: quotas.by_index("namespace", namespace),
        workers=workers,
        cause=cause,
        exists=exists,
    )
