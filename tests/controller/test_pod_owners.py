"""Writes about StatefulSets and LeaderWorkerSets: decided again in their turn."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from api import resources
from api.objects import Resource, key_of
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.reconcilers.pod_owners import PodOwnerReconciler
from controller.run.watched import rows
from controller.settings import ControllerSettings
from core.jobs.kinds import POD
from core.jobs.leader_worker_sets import name
from core.jobs.pod_owners import LEADER_WORKER_SET
from core.model import Key, Raw
from core.state.state import State
from tests.core.jobs.test_leader_worker_sets import made, workloads_of


class Waits:
    """A stand-in for the writer: something happens while a write waits for its turn."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.meanwhile = meanwhile
        self.written: list[tuple[str, str]] = []

    @contextlib.asynccontextmanager
    async def turn(self, namespace: str, *, first: bool = False) -> AsyncIterator[None]:
        self.meanwhile()
        yield

    async def delete(self, resource: Resource, key: Key, uid: str) -> None:
        self.written.append(("delete", key.name))

    async def create(self, resource: Resource, body: Raw) -> Raw:
        self.written.append(("create", body["metadata"]["name"]))
        return body

    async def patch(self, resource: Resource, key: Key, body: Raw, **_: Any) -> Raw:
        self.written.append(("patch", key.name))
        return body


class Quiet:
    def record(self, *_: Any) -> None:
        pass


def version(owner: Raw, number: int) -> Raw:
    typed = {"apiVersion": LEADER_WORKER_SET.resource.api_version, "kind": LEADER_WORKER_SET.resource.kind}
    return {**typed, **owner, "metadata": {**owner["metadata"], "resourceVersion": str(number)}}


def reconciler(owner: Raw, found: list[Raw], meanwhile: Callable[[Caches], None]) -> tuple[PodOwnerReconciler, Waits]:
    caches = Caches(State(), rows([POD], [LEADER_WORKER_SET]))
    namespace = {"name": "ns", "uid": "ns", "resourceVersion": "1"}
    caches.namespaces.observe("ADDED", {"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})
    caches.stores[LEADER_WORKER_SET.resource].observe("ADDED", version(owner, 1))
    for raw in found:
        metadata = {**raw["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}
        caches.stores[resources.WORKLOADS].observe("ADDED", {**raw, "metadata": metadata})
    caches.start()
    writer = Waits(lambda: meanwhile(caches))
    made_of = PodOwnerReconciler(
        LEADER_WORKER_SET,
        caches,
        cast(Writer, writer),
        cast(Recorder, Quiet()),
        ControllerSettings(),
        clock=lambda: 1000.0,
    )
    return made_of, writer


async def test_the_workload_of_a_group_that_is_wanted_again_in_the_turn_is_not_deleted() -> None:
    """Its deletion would stop the pods of the group."""
    found = workloads_of(made())

    def scaled_up(caches: Caches) -> None:
        caches.stores[LEADER_WORKER_SET.resource].observe("MODIFIED", version(made(), 2))

    looked, writer = reconciler(made(replicas=1), found, scaled_up)
    await looked.reconcile(key_of(made()))
    assert writer.written == []
    assert len(looked.queue) == 1, "it is decided anew"


async def test_what_is_to_be_done_now_is_done_in_the_turn() -> None:
    found = workloads_of(made(replicas=3))

    def scaled_down(caches: Caches) -> None:
        caches.stores[LEADER_WORKER_SET.resource].observe("MODIFIED", version(made(replicas=1), 2))

    looked, writer = reconciler(made(replicas=2), found, scaled_down)
    await looked.reconcile(key_of(made()))
    assert writer.written == [("delete", name(made(), 1))]
    assert len(looked.queue) == 1, "the rest is decided anew"
