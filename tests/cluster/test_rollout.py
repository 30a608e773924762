"""A rolling update under load: two replicas behind what a Service is, each replaced in turn, and no create fails. And a
leader that dies: the other one goes on.

Nothing here runs pods or routes Services, so the test plays both: the replicas are processes, and a small balancer
gives each new connection to one that was ready half a second ago, as endpoints follow readiness with a delay.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from api import crds
from api.objects import Raw, Resource
from app.cluster import MUTATING, VALIDATING, apply
from app.server import Address
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import ApiError
from devcluster.controlplane import ControlPlane, Spec
from tests.app.http import Wire, get
from tests.cluster.world import World
from tests.eventually import eventually
from tests.serving import Served
from webhook.configurations import Endpoint, Options, mutating, validating

pytestmark = pytest.mark.cluster

JOBS = Resource("batch", "v1", "jobs", "Job")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
SETTINGS = """
namespace: default
internalCertManagement: {webhookServiceName: rollout-webhook-service, webhookSecretName: rollout}
leaderElection: {leaderElect: true, resourceName: rollout}
health: {healthProbeBindAddress: '0'}
metrics: {bindAddress: '0'}
"""
QUICK = "resourceName: failover, leaseDuration: 8s, renewDeadline: 6s, retryPeriod: 1s"
ENDPOINT_DELAY, BURST = 0.5, 4
PAUSE = 0.2
"""Seconds between bursts: each moment of the replacement has creates, and the machine has time for other tests."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane.start(spec=Spec(nodes=())) as started:
        yield started


class Balancer:
    """Splices each new connection to the next ready replica; connections that are open stay where they are."""

    def __init__(self) -> None:
        self.replicas: list[Served] = []
        self.ready: list[Address] = []
        self._turn = 0
        self._open: set[asyncio.StreamWriter] = set()

    async def watch(self) -> None:
        """Follow readiness, late."""
        while True:
            now = [one.address for one in self.replicas if "ready" in one.lines and await _is_ready(one)]
            await asyncio.sleep(ENDPOINT_DELAY)
            self.ready = now

    async def splice(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the API server."""
        self._turn += 1
        self._open.add(writer)
        try:
            chosen = self.ready[self._turn % len(self.ready)]
            there_reader, there_writer = await asyncio.open_connection(chosen.host, chosen.port)
        except (OSError, ZeroDivisionError):
            writer.transport.abort()
            self._open.discard(writer)
            return
        await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        self._open.discard(writer)

    async def close(self) -> None:
        """Cut what is open, and wait until it has ended."""
        for writer in self._open:
            writer.transport.abort()
        await eventually(lambda: not self._open)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


async def _is_ready(replica: Served) -> bool:
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(2), Wire(replica.address, trust) as wire:
            return (await wire.call(get("/readyz"))).status == 200
    except (OSError, TimeoutError):
        return False


@asynccontextmanager
async def balanced() -> AsyncIterator[tuple[Balancer, int]]:
    balancer = Balancer()
    server = await asyncio.start_server(balancer.splice, "127.0.0.1", 0)
    watching = asyncio.create_task(balancer.watch())
    try:
        yield balancer, server.sockets[0].getsockname()[1]
    finally:
        watching.cancel()
        server.close()
        await balancer.close()
        for replica in balancer.replicas:
            if replica.process.poll() is None:
                replica.process.kill()
            replica.wait()


def replica(plane: ControlPlane, settings: Path) -> Served:
    """Another replica as the chart runs it, but on a different port."""
    return Served(
        ["--config", str(settings), "--bind", "127.0.0.1:0", "--lame-duck", "4"],
        {"KUBECONFIG": str(plane.kubeconfig)},
    )


def hooks(port: int) -> list[Raw]:
    options = Options(endpoint=Endpoint(url=f"https://127.0.0.1:{port}"), name="rollout")
    return [mutating(options), validating(options)]


class Load:
    """Creates Jobs until it is stopped; `failures` are the refusals."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.created = 0
        self.failures: list[str] = []
        self.ended = False

    async def run(self) -> None:
        """Bursts of creates."""
        while not self.ended:
            await asyncio.gather(*(self._create() for _ in range(BURST)))
            await asyncio.sleep(PAUSE)

    async def _create(self) -> None:
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
        metadata = {"generateName": "rollout-", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
        try:
            made = await self.client.create(JOBS, body, "default", dry_run=True)
        except ApiError as refusal:
            self.failures.append(str(refusal))
            return
        self.created += 1
        if not made["spec"]["suspend"]:
            self.failures.append("a Job was not made to wait")


async def holder(client: Client, lease: str = "rollout") -> str:
    return str((await client.get(LEASES, lease, "default"))["spec"].get("holderIdentity") or "")


async def two_replicas(plane: ControlPlane, settings: Path, client: Client, balancer: Balancer, port: int) -> None:
    """Define our kinds and webhooks, and have two replicas that serve them."""
    for definition in crds.definitions():
        await apply(client, definition)
    for configuration in hooks(port):
        await apply(client, configuration)
    balancer.replicas = [replica(plane, settings), replica(plane, settings)]
    for one in balancer.replicas:
        await asyncio.to_thread(one.ready)
    await eventually(lambda: len(balancer.ready) == 2)


async def test_replacing_every_replica_under_load_fails_no_create(plane: ControlPlane, tmp_path: Path) -> None:
    settings = tmp_path / "config.yaml"
    settings.write_text(SETTINGS)
    async with Client(config.load(plane.kubeconfig)) as client, balanced() as (balancer, port):
        await two_replicas(plane, settings, client, balancer, port)
        load = Load(client)
        loading = asyncio.create_task(load.run())
        holders = {await holder(client)}
        for old in list(balancer.replicas):
            new = replica(plane, settings)
            balancer.replicas.append(new)
            await asyncio.to_thread(new.ready)
            await eventually(lambda: len(balancer.ready) == 3)
            old.process.terminate()
            assert await asyncio.to_thread(old.wait) == 0
            balancer.replicas.remove(old)
            await eventually(lambda: len(balancer.ready) == 2)
            holders.add(await holder(client))
        load.ended = True
        await loading
        bundles = [
            one["clientConfig"]["caBundle"]
            for resource, name in ((MUTATING, "mutating"), (VALIDATING, "validating"))
            for one in (await client.get(resource, f"rollout-{name}-webhook-configuration"))["webhooks"]
        ]
    assert load.failures == []
    assert load.created > 50
    assert len(set(bundles)) == 1, "every replica had the one CA"
    assert len(holders - {""}) >= 2, "the lease went to another replica when its holder was replaced"


async def test_when_the_leader_is_killed_the_other_one_admits_what_has_become_free_and_no_more(
    plane: ControlPlane, tmp_path: Path
) -> None:
    settings = tmp_path / "config.yaml"
    settings.write_text(SETTINGS.replace("resourceName: rollout", QUICK))
    plane.kubectl("create", "namespace", "failover", check=True)
    world = World(plane, "failover")

    def set_up() -> None:
        world.flavor()
        world.queue("team", 3)
        for number in range(6):
            world.job(f"j{number}", "team", seconds=600)
        world.until("quota is given", lambda: len(world.running()) == 3 and world.used("team") == ("3", "0"))

    def goes_on(gone: str) -> None:
        world.delete("jobs", gone)
        world.until("the next one runs", lambda: gone not in world.jobs() and len(world.running()) == 3)
        world.until(
            "the status of the queue is written",
            lambda: len(world.workloads()) == 5 and world.used("team") == ("3", "0"),
        )

    async with Client(config.load(plane.kubeconfig)) as client, balanced() as (balancer, port):
        await two_replicas(plane, settings, client, balancer, port)
        await asyncio.to_thread(set_up)
        first, before = await holder(client, "failover"), await asyncio.to_thread(world.running)
        (leader,) = [one for one in balancer.replicas if any(found["event"] == "leading" for found in one.events)]
        leader.process.kill()
        await eventually(lambda: len(balancer.ready) == 1)
        await asyncio.to_thread(goes_on, min(before))
        after = await asyncio.to_thread(world.running)
        assert await holder(client, "failover") not in ("", first)
    assert len(after & before) == 2, "nobody who ran was stopped"
