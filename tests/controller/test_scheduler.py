"""What the scheduler does with faults that a real API server cannot be made to show on demand.

Hence an in-memory stand-in for it here.
"""

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry

from controller.caches import Caches
from controller.events import Event
from controller.kube.errors import ApiError, Conflict, Invalid, NotFound, Unreachable
from controller.kube.resource import Resource
from controller.metrics import Metrics
from controller.scheduler import Scheduler
from controller.writes import Writer
from core.model import Key
from tests.controller.test_caches import filled, workload
from tests.eventually import eventually

Raw = dict[str, Any]


class Server:
    """Holds Workloads and merges status patches; ``faults`` are raised before the write, functions of one after it."""

    def __init__(self, caches: Caches) -> None:
        self.objects = {raw["metadata"]["name"]: copy.deepcopy(raw) for raw in caches.workloads}
        self.faults: list[ApiError | Callable[[], ApiError]] = []
        self.patches = 0

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Raw:
        if name not in self.objects:
            raise NotFound(404, "NotFound", name)
        return copy.deepcopy(self.objects[name])

    async def patch(self, resource: Resource, name: str, namespace: str, body: Raw, **_: Any) -> Raw:
        self.patches += 1
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, ApiError):
            raise fault
        found = self.objects[name]
        if body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "the object has been modified")
        found["metadata"]["resourceVersion"] = str(int(found["metadata"]["resourceVersion"]) + 1)
        found.setdefault("status", {}).update(body["status"])
        if fault is not None:
            raise fault()
        return copy.deepcopy(found)

    def touch(self, name: str) -> None:
        """Somebody else writes something that matters to no decision, and no watch has told of it."""
        found = self.objects[name]
        found["metadata"]["resourceVersion"] = str(int(found["metadata"]["resourceVersion"]) + 1)

    def holds(self, name: str) -> bool:
        return (self.objects[name].get("status") or {}).get("admission") is not None


class Told:
    """Events as they were told."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def tell(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        self.reasons.append(event.reason)


def scheduler() -> tuple[Scheduler, Server, Told]:
    caches, told = filled(), Told()
    caches.start()
    server = Server(caches)
    writer = Writer(server, caches.stores)  # type: ignore[arg-type]
    return Scheduler(caches, writer, told, Metrics(CollectorRegistry()), clock=lambda: 1_000.0), server, told


async def until_rest(found: Scheduler, condition: Callable[[], bool]) -> None:
    task = asyncio.create_task(found.run())
    found.wake()
    try:
        await eventually(condition)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    found.state.check()


async def test_a_reservation_and_its_admission_are_one_write() -> None:
    found, server, told = scheduler()
    await until_rest(found, lambda: "Admitted" in told.reasons)
    assert (server.patches, told.reasons) == (1, ["QuotaReserved", "Admitted"])


async def test_a_workload_that_somebody_else_wrote_is_read_anew_and_keeps_its_reservation() -> None:
    found, server, told = scheduler()
    server.touch("w")
    await until_rest(found, lambda: "Admitted" in told.reasons)
    assert (server.patches, server.holds("w")) == (2, True)


async def test_a_write_that_happened_though_its_answer_was_lost_is_not_made_twice() -> None:
    found, server, _ = scheduler()
    server.faults.append(lambda: Unreachable(0, "Reset", "cut"))
    await until_rest(found, lambda: found.state.holdings.get(Key("ns", "w")) is not None and not _assumed(found))
    assert (server.patches, server.holds("w")) == (1, True)


async def test_a_reservation_that_the_server_refuses_is_taken_back_and_decided_anew() -> None:
    found, server, told = scheduler()
    server.faults.append(Invalid(422, "Invalid", "refused"))
    await until_rest(found, lambda: "Admitted" in told.reasons)
    assert (server.patches, server.holds("w")) == (2, True)


async def test_a_workload_that_is_gone_by_the_time_of_the_write_gives_its_quota_back() -> None:
    found, server, _ = scheduler()
    del server.objects["w"]
    server.faults.append(NotFound(404, "NotFound", "w"))
    await until_rest(found, lambda: server.patches == 1 and Key("ns", "w") not in found.state.workloads)
    assert found.state.holdings.get(Key("ns", "w")) is None


async def test_why_a_workload_waits_is_told_once() -> None:
    found, server, told = scheduler()
    raw = workload("big", cpu="9")
    server.objects["big"] = copy.deepcopy(raw)
    found.caches.workloads.observe("ADDED", raw)
    await until_rest(found, lambda: "ExceedsMaxQuota" in told.reasons)
    status = server.objects["big"]["status"]
    assert status["resourceRequests"] == [{"name": "main", "resources": {"cpu": "9"}}]
    assert [c["reason"] for c in status["conditions"] if c["type"] == "QuotaReserved"] == ["ExceedsMaxQuota"]
    assert told.reasons.count("ExceedsMaxQuota") == 1


def _assumed(found: Scheduler) -> bool:
    return found.state.assumed(Key("ns", "w"))
