"""Creates the LocalQueues that namespaces get by themselves (``core.queue.population``).

A namespace is looked at when it is created or its labels change, and all are when a ClusterQueue is created or its
namespaceSelector changes. A LocalQueue that a user deletes comes back at the next such change, as with Kueue's program.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from api import resources
from api.objects import Raw, key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.kube.errors import AlreadyExists, ApiError, NotFound
from controller.kube.log import get_logger
from controller.kube.store import in_steps
from controller.kube.workqueue import WorkQueue
from core.matching.namespaces import never_managed
from core.model import Key
from core.model.events import Event
from core.queue.population import Populated, PopulationPolicy, manifest, populated

WORKERS = 1
log = get_logger(__name__)


class Population:
    """``connect`` and ``run`` while this process leads."""

    def __init__(
        self, caches: Caches, writer: Writer, recorder: Recorder, policy: PopulationPolicy, *, own_namespace: str
    ) -> None:
        self.caches = caches
        self.writer = writer
        self.recorder = recorder
        self.policy = policy
        self._never = frozenset(never_managed(own_namespace))
        self.queue = WorkQueue[Key]("population", longest_seconds=60.0)

    def connect(self) -> None:
        """Listens to namespaces and ClusterQueues."""
        self.caches.namespaces.listen(self._namespace)
        self.caches.cluster_queues.listen(self._cluster_queue)

    def everything(self) -> Iterator[None]:
        """Queues all namespaces, in steps."""
        return in_steps(self.caches.namespaces.keys(), self.queue.add)

    async def run(self) -> None:
        """Creates LocalQueues until cancelled."""
        await self.queue.run(WORKERS, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        """Creates what a namespace lacks."""
        raw = self.caches.namespaces.get(key)
        if raw is None or key.name in self._never or "deletionTimestamp" in raw["metadata"]:
            return None
        queues = self.caches.state.reservations.cluster_queues.values()
        labels = raw["metadata"].get("labels") or {}
        waits: list[float] = []
        for each in populated(self.policy, labels, queues, partial(self._existing, key.name)):
            if each.taken:
                text = f"Skipping LocalQueue creation in namespace {key.name}, a LocalQueue with name {each.name}"
                self._event(each, "Warning", "LocalQueueExists", f"{text} already exists")
            elif seconds := self.writer.churn.wait(resources.LOCAL_QUEUES, Key(key.name, each.name)):
                waits.append(seconds)  # something deletes it whenever it was created
            else:
                await self._create(key.name, each)
        return min(waits, default=None)

    def _existing(self, namespace: str, name: str) -> str | None:
        found = self.caches.local_queues.get((namespace, name))
        return str(found["spec"].get("clusterQueue", "")) if found is not None else None

    async def _create(self, namespace: str, queue: Populated) -> None:
        try:
            await self.writer.create(resources.LOCAL_QUEUES, manifest(namespace, queue))
        except (AlreadyExists, NotFound):
            return  # the watch is behind, or the namespace is gone
        except ApiError as error:
            text = f"Failed to create LocalQueue {queue.name} in namespace {namespace}: {error.message}"
            self._event(queue, "Warning", "LocalQueueCreationFailed", text)
            raise
        log.info("LocalQueue created", namespace=namespace, local_queue=queue.name, cluster_queue=queue.cluster_queue)
        text = f"Created LocalQueue {queue.name} in namespace {namespace}"
        self._event(queue, "Normal", "LocalQueueCreated", text)

    def _event(self, queue: Populated, kind: str, reason: str, message: str) -> None:
        raw = self.caches.cluster_queues.get(("", queue.cluster_queue))
        if raw is not None:
            event = Event("Warning" if kind == "Warning" else "Normal", reason, message)
            self.recorder.record(resources.CLUSTER_QUEUES, key_of(raw), raw["metadata"]["uid"], event)

    def _namespace(self, old: Raw | None, new: Raw | None) -> None:
        if new is None or (old is not None and old["metadata"].get("labels") == new["metadata"].get("labels")):
            return
        self.queue.add(key_of(new))

    def _cluster_queue(self, old: Raw | None, new: Raw | None) -> None:
        before, after = ((each or {}).get("spec", {}).get("namespaceSelector") for each in (old, new))
        if new is not None and (old is None or before != after):
            self.caches.in_steps("population", self.everything)
