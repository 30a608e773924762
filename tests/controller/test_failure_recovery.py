"""Stuck pods of unreachable nodes are ended once each, and nothing is read while all nodes answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from api import resources
from api.configuration import load
from api.objects import Raw, Resource
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.errors import Unreachable
from controller.reconcilers.failure_recovery import LOOK_SECONDS, FailureRecovery
from controller.run.controller import Controller
from controller.run.watched import rows
from controller.settings import from_configuration
from core.jobs.kinds import BATCH_JOB
from core.state.state import State
from core.wire.timestamps import stamp
from tests.controller.test_provisioning import Api as InMemory
from tests.controller.test_provisioning import Told
from tests.core.jobs.test_stuck_pods import SAFE

NOW = 2_000_000_000.0
TAINT = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


class Api(InMemory):
    def __init__(self) -> None:
        super().__init__()
        self.lists: list[str] = []

    async def pages(self, resource: Resource, *, field_selector: str) -> AsyncGenerator[Raw, None]:
        self.lists.append(field_selector)
        name = field_selector.removeprefix("spec.nodeName=")
        found = [raw for (of, _), raw in self.objects.items() if of == resource]
        yield {"items": [raw for raw in found if raw["spec"]["nodeName"] == name]}


class Process:
    def __init__(self) -> None:
        self.api, self.told, self.now, self.version = Api(), Told(), NOW, 0
        self.caches = Caches(State(), rows([BATCH_JOB]))
        self.node("a")
        writer = Writer(cast(Any, self.api), self.caches.stores)
        self.recovery = FailureRecovery(
            self.caches, writer, cast(Any, self.api), cast(Any, self.told), clock=lambda: self.now, sleep=self.sleep
        )
        self.recovery.connect()

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def node(self, name: str, *taints: Raw) -> None:
        self.version += 1
        metadata = {"name": name, "uid": name, "resourceVersion": str(self.version)}
        self.caches.nodes.observe("MODIFIED", {"metadata": metadata, "spec": {"taints": list(taints)}, "status": {}})

    def pod(self, name: str, *, deleted: float | None = NOW, node: str = "a", safe: bool = True) -> None:
        ending = {"deletionTimestamp": stamp(deleted), "deletionGracePeriodSeconds": 30} if deleted is not None else {}
        metadata = {"name": name, "namespace": "ns", "annotations": SAFE if safe else {}, **ending}
        self.api.enter(resources.PODS, {"metadata": metadata, "spec": {"nodeName": node}, "status": {}})

    async def runs_for(self, seconds: float) -> None:
        task, until = asyncio.ensure_future(self.recovery.run()), self.now + seconds
        try:
            for _ in range(1000):
                if self.now >= until:
                    return
                await asyncio.sleep(0)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def left(self) -> set[str]:
        return {key.name for of, key in self.api.objects if of == resources.PODS}


async def test_a_stuck_pod_of_an_unreachable_node_fails_and_is_deleted_a_minute_later() -> None:
    process = Process()
    for name, more in {"stuck": {}, "unsafe": {"safe": False}, "runs": {"deleted": None}, "b": {"node": "b"}}.items():
        process.pod(name, **cast(Any, more))
    process.node("a", TAINT)
    await process.runs_for(59)
    assert process.api.writes == []
    await process.runs_for(LOOK_SECONDS)
    assert process.api.writes == ["patch pods", "delete pods"]
    assert process.left == {"unsafe", "runs", "b"}
    assert len(process.told.events) == 1
    await process.runs_for(60)
    assert len(process.api.writes) == 2


async def test_nothing_is_listed_while_nodes_answer() -> None:
    process = Process()
    process.pod("stuck", deleted=NOW - 600)
    process.node("a", TAINT)
    process.node("a")
    await process.runs_for(60)
    assert process.api.lists == []


async def test_a_pod_that_is_deleted_later_is_found() -> None:
    process = Process()
    process.node("a", TAINT)
    await process.runs_for(300)
    process.pod("late", deleted=process.now)
    await process.runs_for(60 + LOOK_SECONDS + 1)
    assert process.left == set()


@pytest.mark.parametrize("after", [False, True])
async def test_a_write_that_fails_is_repeated_without_a_second_event(*, after: bool) -> None:
    process = Process()
    process.pod("stuck", deleted=NOW - 600)
    process.api.fails = (Unreachable(0, "Unreachable", "no answer"), after)
    process.node("a", TAINT)
    await process.runs_for(LOOK_SECONDS + 1)
    assert process.left == set()
    assert len(process.told.events) == (0 if after else 1)


@pytest.mark.parametrize("on", [True, False])
def test_it_is_there_only_with_the_feature_gate(*, on: bool) -> None:
    text = f"featureGates: {{FailureRecoveryPolicy: {str(on).lower()}}}"
    settings = from_configuration(load(text).configuration, elect=False)
    made = Controller(Client(Connection("http://127.0.0.1:1")), settings).failure_recovery
    assert (made is not None) is on
