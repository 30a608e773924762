"""What a live cluster has, read once with the user's kubeconfig: for ``simulate --from-cluster`` and ``explain``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from controller import resources
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import ApiError, Forbidden, NotFound
from controller.kube.resource import Raw, Resource

KINDS = (
    resources.NAMESPACES,
    resources.LIMIT_RANGES,
    resources.PRIORITY_CLASSES,
    resources.RUNTIME_CLASSES,
    resources.RESOURCE_FLAVORS,
    resources.ADMISSION_CHECKS,
    resources.COHORTS,
    resources.CLUSTER_QUEUES,
    resources.LOCAL_QUEUES,
    resources.WORKLOAD_PRIORITY_CLASSES,
    resources.WORKLOADS,
)


class LiveError(Exception):
    """The cluster cannot be read; the message says what and what to do."""


def objects(kubeconfig: Path | None = None, kinds: Sequence[Resource] = KINDS) -> list[Raw]:
    """All objects of some kinds. Raises LiveError where the user may not read them or nobody answers."""
    try:
        connection = config.load(kubeconfig)
    except (config.ConfigError, OSError, ValueError) as error:
        raise LiveError(f"no cluster: {error}") from None
    return asyncio.run(_read(connection, kinds))


async def _read(connection: config.Connection, kinds: Sequence[Resource]) -> list[Raw]:
    found: list[Raw] = []
    async with Client(connection) as client:
        for resource in kinds:
            try:
                found += (await client.list(resource))["items"]
            except NotFound:
                continue  # an optional API that this cluster does not serve
            except Forbidden:
                raise LiveError(
                    f"you may not list {resource.plural} in {connection.server}: ask for the right"
                ) from None
            except ApiError as error:
                raise LiveError(f"{connection.server}: {error}") from None
    return found
