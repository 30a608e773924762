"""The objects of a live cluster, read once with the user's kubeconfig: for ``simulate --from-cluster`` and
``explain``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from api.names import LEADER_ELECTION_ID
from api.objects import Raw, Resource
from cli import worker_clusters
from controller.kube import config
from controller.kube.client import Client
from controller.kube.elector import LEASES
from controller.kube.errors import ApiError, Forbidden
from controller.kube.events import EVENTS
from controller.multikueue.survey import SURVEYED
from controller.resources import MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, WORKLOADS
from controller.watched import WATCHED

KINDS = tuple(row.resource for row in WATCHED if row.enters is not None)
"""The kinds that decisions depend on."""


class LiveError(Exception):
    """The cluster cannot be read; the message has the reason and the fix."""


class Seen(NamedTuple):
    """The objects that a user may read, and the plurals of those that the user may not, with the namespace if only that
    is readable.
    """

    objects: list[Raw]
    unseen: tuple[str, ...]

    def hides(self, *kinds: Resource) -> bool:
        """Whether there may be objects of these kinds that were not shown."""
        return any(word.split()[0] == kind.plural for word in self.unseen for kind in kinds)


def objects(kubeconfig: Path | None = None, kinds: Sequence[Resource] = KINDS) -> list[Raw]:
    """Returns all objects of some kinds. Raises LiveError if the user may not read them or the API server does not
    answer.
    """
    here = connection(kubeconfig)
    found, unseen = asyncio.run(_read(here, kinds, ""))
    if unseen:
        raise LiveError(f"you may not list {unseen[0]} in {here.server}: ask for the right")
    return found


def worker(connection: config.Connection) -> Seen:
    """Returns the objects of a worker cluster. Raises LiveError if its Workloads or queues may not be listed."""
    found, unseen = asyncio.run(_read(connection, KINDS, ""))
    needed = [each.plural for each in (*SURVEYED, WORKLOADS) if each.plural in unseen]
    if needed:
        raise LiveError(f"{connection.server}: its kubeconfig may not list {', '.join(needed)}")
    return Seen(found, unseen)


class Workers(NamedTuple):
    """The MultiKueueConfigs of a cluster; how to connect to each worker cluster whose kubeconfig is in a Secret that
    the user may read, or why that cannot be used; and the plurals of what the user may not list.
    """

    configs: list[Raw]
    connections: dict[str, config.Connection | str]
    unseen: tuple[str, ...] = ()


def workers(kubeconfig: Path | None, namespace: str) -> Workers:
    """Returns the worker clusters of a cluster. The Secrets are in the namespace of the leader's Lease, in
    ``namespace`` if there is none that the user may list. Raises LiveError if the API server does not answer.
    """
    here = connection(kubeconfig)
    objects, unseen = asyncio.run(_read(here, [MULTIKUEUE_CONFIGS, MULTIKUEUE_CLUSTERS], ""))
    configs = [raw for raw in objects if raw["kind"] == MULTIKUEUE_CONFIGS.kind]
    clusters = [raw for raw in objects if raw["kind"] == MULTIKUEUE_CLUSTERS.kind]

    async def found() -> dict[str, config.Connection | str]:
        async with Client(here) as client:
            leases = await _listed(client, LEASES, fields=f"metadata.name={LEADER_ELECTION_ID}") or ()
            place = worker_clusters.release_namespace(leases, namespace)
            return await worker_clusters.connections(client, clusters, place)

    try:
        return Workers(configs, asyncio.run(found()) if clusters else {}, unseen)
    except ApiError as error:
        raise LiveError(f"{here.server}: {error}") from None


def seen(
    kubeconfig: Path | None,
    kinds: Sequence[Resource],
    namespace: str,
    job: tuple[str, str] | None,
    here: Sequence[Resource] = (),
) -> Seen:
    """Returns all objects of some kinds that the user may read: in the whole cluster, else in one namespace; and those
    of the kinds ``here`` in that namespace alone.

    If something is not readable, also the events about a job there (its kind and name). Raises LiveError if the API
    server does not answer.
    """
    return asyncio.run(_read(connection(kubeconfig), kinds, namespace, job, here))


def connection(kubeconfig: Path | None) -> config.Connection:
    """Returns the connection that a kubeconfig describes. Raises LiveError if it cannot be used."""
    try:
        return config.load(kubeconfig)
    except (config.ConfigError, OSError, ValueError) as error:
        raise LiveError(f"no cluster: {error}") from None


async def _read(
    connection: config.Connection,
    kinds: Sequence[Resource],
    namespace: str,
    job: tuple[str, str] | None = None,
    here: Sequence[Resource] = (),
) -> Seen:
    found: list[Raw] = []
    unseen: list[str] = []
    async with Client(connection) as client:
        try:
            for resource in kinds:
                items = await _listed(client, resource)
                if items is None and namespace and resource.namespaced:
                    items = await _listed(client, resource, namespace)
                    unseen.append(resource.plural if items is None else f"{resource.plural} outside {namespace}")
                elif items is None:
                    unseen.append(resource.plural)
                found += items or []
            for resource in here:
                items = await _listed(client, resource, namespace)
                unseen += [resource.plural] if items is None else []
                found += items or []
            if unseen and job is not None:
                selector = f"involvedObject.kind={job[0]},involvedObject.name={job[1]}"
                found += await _listed(client, EVENTS, namespace, selector) or []
        except ApiError as error:
            raise LiveError(f"{connection.server}: {error}") from None
    return Seen(found, tuple(unseen))


async def _listed(client: Client, resource: Resource, namespace: str = "", fields: str = "") -> list[Raw] | None:
    """All objects of a kind, none where the cluster does not serve it; None where the user may not list them."""
    try:
        items: list[Raw] = (await client.list(resource, namespace, field_selector=fields))["items"]
    except Forbidden:
        return None
    except ApiError as error:
        if error.status == 404:
            return []
        raise
    return items
