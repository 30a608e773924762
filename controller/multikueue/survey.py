"""The queues of a worker cluster, read only: whether it could ever take a job. The webhooks of every replica use them.

A kubeconfig that may not read them is enough for everything else: then nothing is known, and nobody is warned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from api import resources
from api.objects import Raw
from controller.cache.caches import Cached, Caches
from controller.kube.client import Client
from controller.kube.flow.throttle import Throttle
from controller.kube.reflector import Reflector
from controller.kube.size_limit import SizeLimit
from core.state.lookup import Lookup
from core.state.state import State

SURVEYED: Final = (
    *(resources.NAMESPACES, resources.RESOURCE_FLAVORS, resources.ADMISSION_CHECKS),
    *(resources.COHORTS, resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES),
)


class Survey:
    """Follows the queues of a worker. ``lookup`` has them once all were listed; ``run`` in its own task."""

    def __init__(
        self,
        client: Client,
        rows: Iterable[Cached],
        requoted: Callable[[], None] | None = None,
        *,
        size_limit: SizeLimit | None = None,
        pace: Throttle | None = None,
    ) -> None:
        """``rows`` are those of the own cluster: the objects are read in the same way. ``requoted`` is called when the
        spec of a queue changes.
        """
        self.caches = Caches(State(), rows)
        self.lookup = Lookup(self.caches.state, ready=lambda: self.caches.started)
        self.reflectors = [
            Reflector(
                client,
                resource,
                self.caches.stores[resource],
                optional=self.caches.rows[resource].optional,
                size_limit=size_limit,
                pace=pace,
            )
            for resource in SURVEYED
        ]

        def changed(old: Raw | None, new: Raw | None) -> None:
            if requoted is not None and (old is None or new is None or old.get("spec") != new.get("spec")):
                requoted()

        for queues in (self.caches.cluster_queues, self.caches.local_queues):
            queues.listen(changed)

    async def run(self) -> None:
        """Follows the queues until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name=f"survey-{reflector.resource.plural}")
            for reflector in self.reflectors:
                await reflector.synced.wait()
            for _ in self.caches.starting():
                await asyncio.sleep(0)
