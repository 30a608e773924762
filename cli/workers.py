"""The worker clusters of a live manager, for ``simulate --from-cluster``: their objects, by the kubeconfigs in its
Secrets.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from api.names import LEADER_ELECTION_ID
from api.objects import Raw
from api.resources import MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, WORKLOADS
from cli import worker_clusters
from cli.live import KINDS, OF_DEVICES, Seen, seen
from cli.reader import Reader
from cli.target import UnreadableError, reached
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.elector import LEASES
from controller.multikueue.survey import SURVEYED


class Workers(NamedTuple):
    """The MultiKueueConfigs of a cluster; how to connect to each worker cluster whose kubeconfig is in a Secret that
    the user may read, or why that cannot be used; and the plurals of what the user may not list.
    """

    configs: list[Raw]
    connections: dict[str, Connection | str]
    unseen: tuple[str, ...] = ()


def workers(here: Connection, namespace: str) -> Workers:
    """Returns the worker clusters of a cluster. The Secrets are in the namespace of the leader's Lease, in
    ``namespace`` if there is none that the user may list. Raises UnreadableError if the API server does not answer.
    """
    with Reader(here) as reader, reached(here.server):
        objects, unseen = seen(reader, [MULTIKUEUE_CONFIGS, MULTIKUEUE_CLUSTERS], "", None)
        leases = reader.list(LEASES, fields=f"metadata.name={LEADER_ELECTION_ID}") or ()
    configs = [raw for raw in objects if raw["kind"] == MULTIKUEUE_CONFIGS.kind]
    clusters = [raw for raw in objects if raw["kind"] == MULTIKUEUE_CLUSTERS.kind]

    async def found() -> dict[str, Connection | str]:
        async with Client(here) as client:
            return await worker_clusters.connections(
                client, clusters, worker_clusters.release_namespace(leases, namespace)
            )

    with reached(here.server):
        return Workers(configs, asyncio.run(found()) if clusters else {}, unseen)


def worker(connection: Connection) -> Seen:
    """Returns the objects of a worker cluster. Raises UnreadableError if its Workloads or queues may not be listed."""
    with Reader(connection) as reader:
        found, unseen = seen(reader, (*KINDS, *OF_DEVICES), "", None)
    needed = [each.plural for each in (*SURVEYED, WORKLOADS) if each.plural in unseen]
    if needed:
        raise UnreadableError(f"{connection.server}: its kubeconfig may not list {', '.join(needed)}")
    return Seen(found, unseen)
