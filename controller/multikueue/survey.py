"""The queues of a worker cluster, read only: whether it could ever take a job. The webhooks of every replica use them.

A kubeconfig that may not read them is enough for everything else: then nothing is known, and nobody is warned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from controller import resources
from controller.caches import Cached, Caches
from controller.kube.client import Client
from controller.kube.reflector import Reflector
from core.state.lookup import Lookup
from core.state.state import State

SURVEYED: Final = (
    *(resources.NAMESPACES, resources.RESOURCE_FLAVORS, resources.ADMISSION_CHECKS),
    *(resources.COHORTS, resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES),
)


class Survey:
    """Follows the queues of a worker. ``lookup`` has them once all were listed; ``run`` in its own task."""

    def __init__(self, client: Client, rows: Iterable[Cached]) -> None:
        """``rows`` are those of the own cluster: the objects are read in the same way."""
        self.caches = Caches(State(), rows)
        self.lookup = Lookup(self.caches.state, ready=lambda: self.caches.started)
        self.reflectors = [
            Reflector(client, resource, self.caches.stores[resource], optional=self.caches.rows[resource].optional)
            for resource in SURVEYED
        ]

    async def run(self) -> None:
        """Follows the queues until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"survey-{reflector.resource.plural}")
            for reflector in self.reflectors:
                await reflector.synced.wait()
            for _ in self.caches.starting():
                await asyncio.sleep(0)
