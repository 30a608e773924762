"""Keeps the quota of the manager's ClusterQueues equal to the sum of the workers' quotas, where the MultiKueueConfig
asks for that. The rules are in ``core.multikueue.quota``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Final

from api import names, resources
from api.objects import Key, Raw, key_of
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import NotFound
from controller.kube.workqueue import WorkQueue
from controller.multikueue.remote import Remote
from core.multikueue import conditions, quota
from core.multikueue.quota import Queues
from core.wire import active
from core.wire.active import check_names, condition_of

SETTLE_SECONDS: Final = 0.3
"""How long a change waits for others that follow it immediately."""
CONDITION: Final = names.Condition.MANAGER_QUOTA_AUTOMATION


class Quotas:
    """Reconciles ClusterQueues with a MultiKueue check. ``run`` while this process leads."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        remote: Callable[[str], Remote | None],
        lost_since: Callable[[str], float | None],
        *,
        lost_timeout: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``remote`` returns the connection to a worker, ``lost_since`` since when it is lost. One that is lost for
        less than ``lost_timeout`` is awaited.
        """
        self.caches = caches
        self.writer = writer
        self.clock = clock
        self.queue = WorkQueue[str]("multikueue-quotas", longest_seconds=30.0)
        self._remote = remote
        self._lost_since = lost_since
        self._lost_timeout = lost_timeout

    def connect(self) -> None:
        """Connects the listeners, after State and the dispatcher."""
        for resource in (resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES, resources.ADMISSION_CHECKS):
            self.caches.stores[resource].listen(self.respecified)
        self.caches.stores[resources.MULTIKUEUE_CONFIGS].listen(self.respecified)

    def respecified(self, old: Raw | None, new: Raw | None) -> None:
        """A queue, an AdmissionCheck or a MultiKueueConfig changed."""
        if old is None or new is None or old.get("spec") != new.get("spec"):
            self.all_changed()

    def all_changed(self) -> None:
        """Queues all ClusterQueues that have, or had, a MultiKueue check."""
        for raw in self.caches.cluster_queues:
            if self._check(raw) is not None or condition_of(raw, CONDITION) is not None:
                self.queue.add_after(raw["metadata"]["name"], SETTLE_SECONDS)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        self.all_changed()
        await self.queue.run(1, self.reconcile)

    async def reconcile(self, name: str) -> float | None:
        """Writes the quota of a ClusterQueue, then the condition that reports it. Returns after how many seconds a
        worker that is lost is awaited no more.
        """
        key = Key("", name)
        raw = self.caches.cluster_queues.get(key)
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            return None
        left = 0.0
        with contextlib.suppress(NotFound):
            check = self._check(raw)
            config = self.caches.parameters(check, resources.MULTIKUEUE_CONFIGS) if check is not None else None
            left = self._awaited(config)
            found = self._result(raw, config, awaited=left > 0) if check is not None else None
            if found is not None and found.patch is not None:
                await self.writer.patch(resources.CLUSTER_QUEUES, key, found.patch)
                raw = self.caches.cluster_queues.get(key) or raw
            wanted = found.condition if found is not None else None
            if patch := active.patch(raw, wanted, self.clock(), kind=CONDITION):
                await self.writer.patch(resources.CLUSTER_QUEUES, key, patch, subresource="status")
        return left if left > 0 else None

    def _awaited(self, config: Raw | None) -> float:
        """For how many seconds a worker is awaited; 0 if the queues of all are known, or they are lost for long."""
        return max((self._left(each) for each in conditions.clusters_of(config)), default=0.0)

    def _left(self, cluster: str) -> float:
        since = self._lost_since(cluster)
        if since is None:  # its queues are followed apart: they are listed later, or may not be read
            return self._lost_timeout if self._queues(cluster) is None else 0.0
        return since + self._lost_timeout - self.clock()

    def _result(self, raw: Raw, config: Raw | None, *, awaited: bool) -> quota.Result:
        found = self.caches.stores[resources.LOCAL_QUEUES].by_index("cluster-queue", raw["metadata"]["name"])
        workers = [queues for each in conditions.clusters_of(config) if (queues := self._queues(each)) is not None]
        return quota.automated(raw, config, {key_of(each) for each in found}, workers, awaited=awaited)

    def _queues(self, cluster: str) -> Queues | None:
        remote = self._remote(cluster)
        if remote is None or not remote.connected:
            return None
        found = remote.survey.caches.local_queues, remote.survey.caches.cluster_queues
        return Queues(*found) if all(each.synced for each in found) else None

    def _check(self, queue: Raw) -> Raw | None:
        """The MultiKueue check that a ClusterQueue names, None if it names none."""
        store = self.caches.stores[resources.ADMISSION_CHECKS]
        found = (store.get(("", name)) for name in check_names(queue))
        return next((each for each in found if each is not None and conditions.is_ours(each)), None)
