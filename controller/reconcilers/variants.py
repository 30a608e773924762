"""Workloads that are admitted through variants, one for each flavor (concurrent admission): gathers what is known of
each parent for the rules of ``core.variants``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from api import names, resources
from api.objects import Key, Raw, key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.reconciler import Reconciler
from controller.cache.refusals import Refusals
from controller.cache.writes import Writer
from controller.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from controller.kube.store import in_steps
from core.actions import Action, Create, Wait, Write, Writes
from core.jobs.workload import LONG_NAME
from core.model import ClusterQueue, Workload
from core.model.events import failed
from core.variants import rules
from core.variants.rules import VariantFamily

REFUSALS = (AlreadyExists, Forbidden, Invalid, NotFound)
"""Why a variant may not be created: the parent does without that flavor, and an event says so."""
REFUSED_SECONDS = 30.0
"""When the creation of a variant that was refused is tried again."""
UNSEEN_SECONDS = 5.0
"""The same for one that exists but has not arrived by watch."""


class Variants(Reconciler[VariantFamily]):
    """Reconciles the parents. ``run`` it while this process leads."""

    workers = 5

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        recorder: Recorder,
        *,
        longest_name: int = LONG_NAME,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("variants", resources.WORKLOADS, writer, recorder, clock=clock)
        self.caches = caches
        self.longest_name = longest_name
        self._refusals = Refusals(clock)
        self._refused: dict[Key, dict[str, float]] = {}
        """Until when no variant of a parent is created for a flavor."""

    def connect(self) -> None:
        """Connects the listeners, after State and the dispatcher."""
        self.caches.observers.append(self._changed)
        self.caches.cluster_queues.listen(self._cluster_queue)
        self.caches.local_queues.listen(self._local_queue)

    def everything(self) -> Iterator[None]:
        """Queues all parents, because this process leads from now on."""
        return self._look_at_all(self.caches.workloads.keys())

    def _look_at_all(self, keys: Iterable[Key]) -> Iterator[None]:
        return in_steps(keys, lambda key: self._look_at(self.caches.get(key)))

    def _changed(self, old: Workload | None, new: Workload | None) -> None:
        if old is not None and new is None:
            self._refusals.forget(old.key)
        self._look_at(new if new is not None else old)

    def _cluster_queue(self, old: Raw | None, new: Raw | None) -> None:
        """Queues the parents of a ClusterQueue that has changed: those that run in it or wait for it."""
        spec: Raw = (new or {}).get("spec") or {}
        if new is None or spec.get("concurrentAdmissionPolicy") is None or (old or {}).get("spec") == spec:
            return
        name = new["metadata"]["name"]
        self.caches.in_steps(("variants of", name), partial(self._in_cluster_queue, name))

    def _in_cluster_queue(self, name: str) -> Iterator[None]:
        """Queues the parents that run in a ClusterQueue or wait for it."""
        yield from self._look_at_all(self.caches.workloads.keys_by_index("cluster-queue", name))
        for queue in self.caches.local_queues.by_index("cluster-queue", name):
            yield from self._in_local_queue(key_of(queue))

    def _local_queue(self, old: Raw | None, new: Raw | None) -> None:
        """Queues the parents in a LocalQueue that is new or has another ClusterQueue."""
        if new is not None and (old or {}).get("spec") != new.get("spec"):
            key = key_of(new)
            self.caches.in_steps(("variants in", key), partial(self._in_local_queue, key))

    def _in_local_queue(self, key: Key) -> Iterator[None]:
        """Queues the parents that name a LocalQueue."""
        yield from self._look_at_all(self.caches.workloads.keys_by_index("queue", str(key)))

    def _look_at(self, workload: Workload | None) -> None:
        """Queues a parent, or the parent of a variant."""
        if workload is None:
            return
        if workload.variant_of and workload.owner is not None:
            self.queue.add(Key(workload.owner.namespace, workload.owner.name))
        elif workload.parent or self._queue_of(workload) is not None:
            self.queue.add(workload.key)

    def _queue_of(self, workload: Workload) -> ClusterQueue | None:
        """The ClusterQueue of a parent: where it or a variant of it has quota, or else of its LocalQueue. None if it is
        no parent, or its LocalQueue or ClusterQueue is missing.
        """
        state = self.caches.state
        local = state.pending.local_queues.get(Key(workload.key.namespace, workload.queue))
        family = [workload, *(self.caches.variants_of(workload) if workload.parent else ())]
        held = next((each.admission for each in family if each.admission is not None), None)
        name = held.cluster_queue if held is not None else local and local.cluster_queue
        found = state.reservations.cluster_queues.get(name or "")
        return found if found is not None and (workload.parent or found.migration is not None) else None

    def gather(self, key: Key) -> VariantFamily | None:
        """Returns what is known of a parent and its variants; None if it is gone or is no parent."""
        raw, parent, state = self.caches.workloads.get(key), self.caches.get(key), self.caches.state
        queue = self._queue_of(parent) if parent is not None and not parent.variant_of else None
        if raw is None or parent is None or queue is None:
            self._refused.pop(key, None)
            return None
        variants = self.caches.variants_of(parent)
        objects = [(each, self.caches.workloads.get(each.key)) for each in variants]
        members = tuple((each, found) for each, found in objects if found is not None)
        evicting = frozenset(each.key for each in variants if state.is_evicting(each.key))
        now = self.clock()
        refused = frozenset(flavor for flavor, until in self._refused.get(key, {}).items() if until > now)
        return VariantFamily(now, parent, raw, queue, members, evicting, refused, self.longest_name)

    def decide(self, situation: VariantFamily) -> Action:
        """The next action about a parent and its variants."""
        return rules.decide(situation)

    def about(self, situation: VariantFamily) -> tuple[Key, str]:
        """The parent."""
        return situation.parent.key, situation.parent.uid

    async def idle(self, key: Key, situation: VariantFamily, wait: Wait) -> float | None:
        """When to look again: as the rules say, or when a variant may be created again."""
        refused = self._refused.get(key, {})
        waits = [refused[flavor] - situation.now for flavor in situation.refused]
        return min([*waits, *([] if wait.seconds is None else [wait.seconds])], default=None)

    async def refused(self, key: Key, situation: VariantFamily, write: Write, error: ApiError) -> None:
        """A variant that is refused is reported on the parent, which does without that flavor until it is tried again.
        One that exists but has not arrived by watch is none: the write of before was interrupted.
        """
        if not isinstance(write, Create) or not isinstance(error, REFUSALS):
            raise error
        variant = key_of(write.manifest)
        known = self.caches.get(variant)
        unseen = isinstance(error, AlreadyExists) and (known is None or known.variant_of == situation.parent.uid)
        until = self.clock() + (UNSEEN_SECONDS if unseen else REFUSED_SECONDS)
        self._refused.setdefault(key, {})[write.part] = until
        if not unseen and self._refusals.due(key, (variant, error.status, error.reason)):
            text = f'Variant Workload "{variant}" could not be created: {error.message}'
            self.emit(situation, failed(names.Event.FAILED_CREATE, text))
        self.queue.add(key)

    def created(self, key: Key, situation: VariantFamily, create: Create, answer: Raw) -> None:
        """Forgets what was refused before."""
        self._refused.get(key, {}).pop(create.part, None)
        self._refusals.forget(key)

    async def written(self, key: Key, situation: VariantFamily, action: Write | Writes) -> None:
        """Continues at once."""
        self.queue.add(key)
