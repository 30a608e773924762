"""Two replicas under load: each replaced in turn, and no create fails; a leader whose lease, whose API server or whose
process fails, and the other one goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from app.server import Address
from controller.kube import config
from controller.kube.client import Client
from devcluster.controlplane import ControlPlane, Spec
from operations.objects import MUTATING, VALIDATING
from tests.app.http import Wire, post
from tests.cluster.steady import creating
from tests.cluster.world import World
from tests.effort import cases
from tests.eventually import eventually
from tests.faults import FaultProxy, Request, Reset, html, status
from tests.observing import observing
from tests.replicas import (
    ANYBODY,
    QUICK,
    QUICK_DEADLINE,
    Candidate,
    balanced,
    candidates,
    define,
    holder,
    of_the_leader,
    replica,
    settings,
)
from tests.webhook.cluster import job, review

pytestmark = pytest.mark.cluster

RATE = cases(10, 100)
"""Jobs created a second: each moment of the replacement has creates, and the machine has time for other tests."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane.start(spec=Spec(nodes=())) as started:
        yield started


IDLE_SECONDS = cases(0, 95)
"""Longer than the 90 s for which the API server keeps an idle connection (F6)."""
SLOW_CALL_SECONDS = cases(4, 6)
"""Head and body have five seconds each to arrive."""


async def slow_call(address: Address) -> int:
    """Makes a call whose head takes half of the time to arrive and whose body the other half; returns the status."""
    queued = job(labels={"kueue.x-k8s.io/queue-name": "main"})
    head, _, body = post("/mutate-batch-v1-job", orjson.dumps(review(queued))).partition(b"\r\n\r\n")
    async with Wire(address, ANYBODY) as wire:
        for part in (head, b"\r\n\r\n" + body[:-1]):
            await wire.send(part)
            await asyncio.sleep(SLOW_CALL_SECONDS / 2)
        return (await wire.call(body[-1:])).status


async def test_t11_replacing_every_replica_under_load_fails_no_create(plane: ControlPlane, tmp_path: Path) -> None:
    """T11: a call of some seconds that a replica has begun before SIGTERM is answered, too."""
    chosen = settings(tmp_path / "config.yaml")
    async with Client(config.load(plane.kubeconfig)) as client, balanced() as (balancer, port):
        await define(client, port)
        balancer.replicas = [replica(plane.kubeconfig, chosen, forked=True) for _ in range(2)]
        for one in balancer.replicas:
            await asyncio.to_thread(one.ready)
        await eventually(lambda: len(balancer.ready) == 2)
        holders, slow = {await holder(client)}, []
        async with creating(client, RATE) as creates:
            for old in list(balancer.replicas):
                new = replica(plane.kubeconfig, chosen, forked=True)
                balancer.replicas.append(new)
                await asyncio.to_thread(new.ready)
                await eventually(lambda: len(balancer.ready) == 3)
                in_flight = asyncio.create_task(slow_call(old.address))
                await asyncio.sleep(0.1)  # a part of the call has arrived
                old.process.terminate()
                slow.append(await in_flight)
                assert await asyncio.to_thread(old.wait) == 0
                balancer.replicas.remove(old)
                await eventually(lambda: len(balancer.ready) == 2)
                holders.add(await holder(client))
        await asyncio.sleep(IDLE_SECONDS)
        async with creating(client, RATE) as after_idling:
            await asyncio.sleep(1.0)
        bundles = [
            one["clientConfig"]["caBundle"]
            for resource, name in ((MUTATING, "mutating"), (VALIDATING, "validating"))
            for one in (await client.get(resource, f"rollout-{name}-webhook-configuration"))["webhooks"]
        ]
    print(creates)
    assert creates.failures == [] == after_idling.failures
    assert creates.made > 50 and after_idling.made > 0
    assert slow == [200, 200]
    assert len(set(bundles)) == 1, "every replica had the one CA"
    assert len(holders - {""}) >= 2, "the lease went to another replica when its holder was replaced"


class Queue:
    """Three of six Jobs run; the next one runs when one of them is deleted."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        plane.kubectl("create", "namespace", name, check=True)
        self.world = World(plane, name)

    def set_up(self) -> None:
        self.world.flavor()
        self.world.queue("team", 3)
        for number in range(6):
            self.world.job(f"j{number}", "team", seconds=600)
        self.world.until("quota is given", self._full)

    def goes_on(self) -> None:
        """Delete a Job that runs; the next one runs instead, and nobody else is stopped."""
        world, before = self.world, self.world.running()
        gone = min(before)
        world.delete("jobs", gone)
        world.until("the next one runs", lambda: gone not in world.jobs() and len(world.running()) == 3)
        world.until("the status is written", lambda: gone not in world.workloads() and self._full())
        assert len(world.running() & before) == 2, "nobody who ran was stopped"

    def _full(self) -> bool:
        return len(self.world.running()) == 3 and self.world.used("team") == ("3", "0")


def writes(proxy: FaultProxy) -> list[Request]:
    """The requests of a replica that change something that the leader alone may change."""
    return list(filter(of_the_leader, proxy.seen))


async def leader(of: list[Candidate]) -> tuple[Candidate, Candidate]:
    """The one that leads, and the other one."""
    await eventually(lambda: any(each.leads for each in of))
    (found,) = [each for each in of if each.leads]
    return found, next(each for each in of if each is not found)


async def wrong_leases(proxy: FaultProxy) -> None:
    """Answer the next renewals with what proxies and API servers in trouble answer; return when all were met."""
    faults = (html(), status(409, "Conflict"), status(500, "InternalError"), Reset(), html(503))
    proxy.inject(*faults, path="/leases/")
    await eventually(lambda: not proxy.injected)


HANGS_SECONDS = cases(10, 60)
"""For how long the API server does not answer: longer than a leader may go without renewing its lease."""


async def test_t12_t13_a_leader_is_replaced_that_hangs_or_dies_or_has_no_api_server_but_not_for_faults_of_its_lease(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """A leader that stopped in the middle of its work writes nothing when it continues: another one leads then. Nor
    does one whose API server does not answer for longer than its lease lasts.
    """
    chosen = [settings(tmp_path / f"{name}.yaml", durations=QUICK) for name in ("one", "two")]
    queue = Queue(plane, "failover")
    async with Client(config.load(plane.kubeconfig)) as client, balanced() as (balancer, port):
        await define(client, port)
        async with candidates(config.load(plane.kubeconfig), tmp_path, chosen, balancer, forked=True) as both:
            with observing(plane, "failover"):
                first, second = await leader(both)
                await asyncio.to_thread(queue.set_up)
                held = await holder(client)
                await wrong_leases(first.proxy)
                assert await holder(client) == held and first.leads, "the same one leads"

                os.kill(first.served.process.pid, signal.SIGSTOP)
                await eventually(lambda: second.leads)
                await asyncio.to_thread(queue.goes_on)
                before = len(writes(first.proxy))
                os.kill(first.served.process.pid, signal.SIGCONT)
                assert await asyncio.to_thread(first.served.wait) == 1
                assert first.served.logged("leadership lost")
                assert writes(first.proxy)[before:] == [], "no write after the end of its lease"

                await first.restart()
                await first.ready()
                plane.pause()
                try:
                    await asyncio.sleep(QUICK_DEADLINE)
                    sent = [len(writes(each.proxy)) for each in both]
                    await asyncio.sleep(HANGS_SECONDS - QUICK_DEADLINE)
                    assert [len(writes(each.proxy)) for each in both] == sent, "the old leader writes no more"
                finally:
                    plane.resume()
                assert await asyncio.to_thread(second.served.wait) == 1
                await eventually(lambda: first.leads)
                await asyncio.to_thread(queue.goes_on)

                await second.restart()
                await second.ready()
                first.served.process.kill()
                await eventually(lambda: second.leads)
                await asyncio.to_thread(queue.goes_on)
