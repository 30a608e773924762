"""Two replicas under load: each replaced in turn, and no create fails; a leader whose lease, whose API server or whose
process fails, and the other one goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cluster import MUTATING, VALIDATING
from controller.kube import config
from controller.kube.client import Client
from devcluster.controlplane import ControlPlane, Spec
from tests.cluster.steady import creating
from tests.cluster.world import World
from tests.effort import cases
from tests.eventually import eventually
from tests.faults import FaultProxy, Request, Reset, html, status
from tests.observing import observing
from tests.replicas import QUICK, Candidate, balanced, candidates, define, holder, replica, settings

pytestmark = pytest.mark.cluster

RATE = cases(10, 100)
"""Jobs created a second: each moment of the replacement has creates, and the machine has time for other tests."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane.start(spec=Spec(nodes=())) as started:
        yield started


async def test_replacing_every_replica_under_load_fails_no_create(plane: ControlPlane, tmp_path: Path) -> None:
    chosen = settings(tmp_path / "config.yaml")
    async with Client(config.load(plane.kubeconfig)) as client, balanced() as (balancer, port):
        await define(client, port)
        balancer.replicas = [replica(plane.kubeconfig, chosen) for _ in range(2)]
        for one in balancer.replicas:
            await asyncio.to_thread(one.ready)
        await eventually(lambda: len(balancer.ready) == 2, within=60)
        holders = {await holder(client)}
        async with creating(client, RATE) as creates:
            for old in list(balancer.replicas):
                new = replica(plane.kubeconfig, chosen)
                balancer.replicas.append(new)
                await asyncio.to_thread(new.ready)
                await eventually(lambda: len(balancer.ready) == 3, within=60)
                old.process.terminate()
                assert await asyncio.to_thread(old.wait) == 0
                balancer.replicas.remove(old)
                await eventually(lambda: len(balancer.ready) == 2, within=60)
                holders.add(await holder(client))
        bundles = [
            one["clientConfig"]["caBundle"]
            for resource, name in ((MUTATING, "mutating"), (VALIDATING, "validating"))
            for one in (await client.get(resource, f"rollout-{name}-webhook-configuration"))["webhooks"]
        ]
    assert creates.failures == []
    assert creates.made > 50
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
    return [each for each in proxy.seen if each.method != "GET" and "/apis/kueue" in each.path]


async def leader(of: list[Candidate]) -> tuple[Candidate, Candidate]:
    """The one that leads, and the other one."""
    await eventually(lambda: any(each.leads for each in of), within=60)
    (found,) = [each for each in of if each.leads]
    return found, next(each for each in of if each is not found)


async def wrong_leases(proxy: FaultProxy) -> None:
    """Answer the next renewals with what proxies and API servers in trouble answer; return when all were met."""
    faults = (html(), status(409, "Conflict"), status(500, "InternalError"), Reset(), html(503))
    proxy.inject(*faults, path="/leases/")
    await eventually(lambda: not proxy.injected, within=60)


async def test_faults_of_the_lease_change_no_leader_and_a_leader_that_hangs_or_dies_is_replaced(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """A leader that stopped in the middle of its work writes nothing when it continues: another one leads then."""
    chosen = [settings(tmp_path / f"{name}.yaml", durations=QUICK) for name in ("one", "two")]
    queue = Queue(plane, "failover")
    async with Client(config.load(plane.kubeconfig)) as client, balanced() as (balancer, port):
        await define(client, port)
        async with candidates(config.load(plane.kubeconfig), tmp_path, chosen, balancer) as both:
            with observing(plane, "failover"):
                first, second = await leader(both)
                await asyncio.to_thread(queue.set_up)
                held = await holder(client)
                await wrong_leases(first.proxy)
                assert await holder(client) == held and first.leads, "the same one leads"

                os.kill(first.served.process.pid, signal.SIGSTOP)
                await eventually(lambda: second.leads, within=60)
                await asyncio.to_thread(queue.goes_on)
                before = len(writes(first.proxy))
                os.kill(first.served.process.pid, signal.SIGCONT)
                assert await asyncio.to_thread(first.served.wait) == 1
                assert first.served.logged("leadership lost")
                assert writes(first.proxy)[before:] == [], "no write after the end of its lease"

                await first.restart()
                await first.ready()
                second.served.process.kill()
                await eventually(lambda: first.leads, within=60)
                await asyncio.to_thread(queue.goes_on)
