"""Copies in workers whose Workload here was deleted: remembered until the worker has nothing of them any more."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final

from api.objects import Key
from controller.cache.caches import Caches
from controller.multikueue.clusters import Clusters

AT_ONCE: Final = 100
"""So many Workloads, which take some milliseconds, are read before other tasks can run."""


class Orphans:
    """By worker. Of a worker that is lost only those that it is known to have: ``collect`` finds others when it is
    back.
    """

    def __init__(self, caches: Caches, clusters: Clusters) -> None:
        self._caches = caches
        self._clusters = clusters
        self._keys: defaultdict[str, set[Key]] = defaultdict(set)

    def of(self, cluster: str) -> frozenset[Key]:
        """Those of a worker."""
        return frozenset(self._keys.get(cluster, ()))

    def has(self, cluster: str, key: Key) -> bool:
        """Whether this is an orphan in this worker."""
        return key in self._keys.get(cluster, ())

    def deleted(self, key: Key) -> None:
        """A Workload was deleted here."""
        for remote in self._clusters.remotes():
            remote.forget(key)
            if remote.connected or remote.has(key):
                self._keys[remote.name].add(key)

    def removed(self, cluster: str, key: Key) -> None:
        """The worker has nothing of the Workload any more."""
        self._keys[cluster].discard(key)

    async def requeue(self, cluster: str) -> None:
        """A worker is lost or back: queues what it has, if it is back; forgets it if the worker was deleted."""
        if ("", cluster) not in self._clusters.store:
            self._keys.pop(cluster, None)
        remote = self._clusters.remote(cluster)
        if remote is not None and remote.connected:
            for place, key in enumerate(tuple(self._keys.get(cluster, ())), start=1):
                remote.queue.add(key)
                if not place % AT_ONCE:
                    await asyncio.sleep(0)

    async def collect(self, interval: float) -> None:
        """Finds orphans every ``interval`` seconds, until cancelled."""
        while True:
            await asyncio.sleep(interval)
            for remote in self._clusters.remotes():
                for place, key in enumerate(remote.keys() if remote.connected else (), start=1):
                    if not place % AT_ONCE:
                        await asyncio.sleep(0)
                    if key not in self._caches.workloads:
                        self._keys[remote.name].add(key)
                        remote.queue.add(key)
