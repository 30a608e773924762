"""The objects of a live cluster, read once with the user's kubeconfig: for ``simulate --from-cluster`` and
``explain``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from api.objects import Raw, Resource
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import ApiError, Forbidden
from controller.kube.events import EVENTS
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
    connection = _connection(kubeconfig)
    found, unseen = asyncio.run(_read(connection, kinds, ""))
    if unseen:
        raise LiveError(f"you may not list {unseen[0]} in {connection.server}: ask for the right")
    return found


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
    return asyncio.run(_read(_connection(kubeconfig), kinds, namespace, job, here))


def _connection(kubeconfig: Path | None) -> config.Connection:
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
