"""When the reason of a waiting workload is written into its status, and when it is not."""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from api.objects import Raw
from controller.cache.writes import Writer
from controller.kube.flow.budget import Budget
from controller.kube.flow.limits import MOST
from controller.kube.flow.precedence import Precedence
from controller.kube.flow.pressure import Pressure
from controller.scheduling.reasons import MESSAGE_SECONDS, WaitReasons
from core.model import Key, StayPending
from core.state.drain import drain
from tests.controller.test_caches import filled, workload
from tests.controller.test_scheduler import Server, Told
from tests.eventually import eventually


class Turns(Budget):
    """A budget that gives turns only when the test does, and is busy when the test says so."""

    def __init__(self) -> None:
        super().__init__(Pressure())
        self.left = 0
        self.taken = 0
        self.is_busy = False

    @property
    def busy(self) -> bool:
        return self.is_busy

    @asynccontextmanager
    async def turn(self, lane: str, *, soon: bool = False) -> AsyncIterator[None]:
        while not self.left:  # noqa: ASYNC110 - the test sets it
            await asyncio.sleep(0)
        self.left -= 1
        self.taken += 1
        yield


class World:
    """Workloads too big for their queue, and the module under test, whose clock is ``now``."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.largest = 8
        self.caches = filled()
        self.caches.start()
        self.server, self.told, self.budget = Server(self.caches), Told(), Turns()
        writer = Writer(self.server, self.caches.stores)  # type: ignore[arg-type]
        self.reasons = WaitReasons(self.caches, writer, self.told, self.budget, clock=lambda: self.now)

    def waits(self, name: str) -> StayPending:
        """Creates a workload; returns the decision that it waits."""
        self.largest += 1  # equal workloads are decided together
        raw = workload(name, cpu=str(self.largest))
        self.server.objects[name] = copy.deepcopy(raw)
        self.caches.workloads.observe("ADDED", raw)
        plans = drain(self.caches.state, self.caches.state.policy, self.now)
        return next(
            decision
            for plan in plans
            for decision in plan.decisions
            if isinstance(decision, StayPending) and decision.workload.key.name == name
        )

    def message(self, name: str) -> str:
        conditions: list[Raw] = (self.server.objects[name].get("status") or {}).get("conditions") or []
        return next((str(each["message"]) for each in conditions if each["type"] == "QuotaReserved"), "")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.reasons.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
def world() -> World:
    return World()


def again(world: World, decision: StayPending, **changes: Any) -> StayPending:
    """A later decision about the same workload as it is now."""
    now = world.caches.get(decision.workload.key)
    assert now is not None
    return replace(decision, workload=now, **changes)


async def test_the_newest_decision_is_written_first(world: World) -> None:
    names = [f"big-{number}" for number in range(12)]
    for name in names:
        world.reasons.add(world.waits(name))
    async with world.running():
        world.budget.left = 1
        await eventually(lambda: world.server.patches == 1)
        assert world.message(names[-1])


async def test_a_workload_that_is_admitted_before_its_turn_costs_no_write(world: World) -> None:
    decision = world.waits("big")
    world.reasons.add(decision)
    async with world.running():
        await eventually(lambda: world.reasons.reasons.in_hand == 1)
        world.reasons.drop(Key("ns", "big"))
        world.budget.left = 1
        await eventually(lambda: world.budget.taken == 1 and world.reasons.reasons.in_hand == 0)
    assert world.server.patches == 0


async def test_a_workload_that_is_admitted_while_admission_calls_are_answered_costs_no_write(world: World) -> None:
    decision, answered = world.waits("big"), asyncio.Event()
    world.reasons.add(decision)
    world.server.precedence.called()
    others = [asyncio.create_task(_hold(world.server.precedence, answered)) for _ in range(MOST)]
    async with world.running():
        world.budget.left = 1
        await eventually(lambda: world.server.precedence._waiting)
        world.reasons.drop(Key("ns", "big"))
        answered.set()
        await asyncio.gather(*others)
        await eventually(lambda: world.reasons.reasons.in_hand == 0)
    assert world.server.patches == 0


async def _hold(precedence: Precedence, until: asyncio.Event) -> None:
    async with precedence.turn():
        await until.wait()


async def test_of_decisions_before_its_turn_only_the_last_is_written(world: World) -> None:
    decision = world.waits("big")
    for text in ("first", "second", "third"):
        world.reasons.add(again(world, decision, message=text))
    async with world.running():
        world.budget.left = 1
        await eventually(lambda: world.server.patches == 1)
    assert world.message("big") == "third"


async def test_numbers_are_not_written_while_the_api_server_is_busy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.scheduling.reasons.LOOK_SECONDS", 0.0)
    decision = world.waits("big")
    world.reasons.add(decision)
    async with world.running():
        world.budget.left = 10
        await eventually(lambda: world.server.patches == 1)
        world.budget.is_busy, world.now = True, world.now + MESSAGE_SECONDS
        world.reasons.add(again(world, decision, message="other numbers"))
        await eventually(lambda: world.reasons.numbers.in_hand == 1)
        other = world.waits("other")
        world.reasons.add(other)
        await eventually(lambda: world.message("other") != "")
        assert world.message("big") == decision.message
        world.budget.is_busy = False
        await eventually(lambda: world.message("big") == "other numbers")


async def test_another_reason_is_written_although_the_api_server_is_busy(world: World) -> None:
    decision = world.waits("big")
    world.reasons.add(decision)
    async with world.running():
        world.budget.left = 10
        await eventually(lambda: world.server.patches == 1)
        world.budget.is_busy = True
        world.reasons.add(again(world, decision, reason="WaitingForQuota", message="other reason"))
        await eventually(lambda: world.message("big") == "other reason")


async def test_numbers_are_written_at_most_once_in_some_seconds(world: World) -> None:
    decision = world.waits("big")
    world.reasons.add(decision)
    async with world.running():
        world.budget.left = 10
        await eventually(lambda: world.server.patches == 1)
        world.now += MESSAGE_SECONDS / 2
        world.reasons.add(again(world, decision, message="other numbers"))
        await eventually(lambda: world.reasons.numbers.delayed == 1)
    assert (world.server.patches, world.budget.taken) == (1, 1), "a message that may not be written takes no turn"
