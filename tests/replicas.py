"""Replicas of `seiretsu serve` on one control plane, behind what a Service is.

Nothing routes Services where tests run: the replicas are processes, and a small balancer gives each new connection to
one that was ready half a second ago, as endpoints follow readiness with a delay. A replica may reach the API server
through a fault proxy of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from api import crds
from api.objects import Raw, Resource
from app.server import Address
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.errors import NotFound
from operations.objects import apply
from tests.app.http import Wire, get
from tests.eventually import eventually
from tests.faults import FaultProxy, Request, proxied
from tests.forked import Forked
from tests.serving import Served
from tests.write_points import Killer
from webhook.configurations import Endpoint, HookOptions, mutating, validating

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
SETTINGS = """
namespace: default
internalCertManagement: {{webhookServiceName: rollout-webhook-service, webhookSecretName: rollout}}
leaderElection: {{leaderElect: true, resourceName: rollout{durations}}}
health: {{healthProbeBindAddress: '0'}}
metrics: {{bindAddress: '{metrics}'}}
"""
QUICK, QUICK_DEADLINE = ", leaseDuration: 10s, renewDeadline: 8s, retryPeriod: 1s", 8.0
"""As a follower waits for the lease of a leader that was killed: a test need not wait 15 s for it."""
ENDPOINT_DELAY = 0.5
UNANSWERED = 3
"""So many probes in a row without an answer make a stopped replica unready, as for kubelet; a refusal does so at once.
One that runs answers when it gets the processor.
"""
LAME_DUCK_SECONDS = 10
"""For how long a replica serves on after SIGTERM, as in the chart. A probe has two seconds, and one that is late knows
nothing: endpoints may follow five seconds late with many tests at once on a machine.
"""


def settings(path: Path, *, durations: str = "", metrics: str = "0") -> Path:
    """Writes the Configuration of a replica, and returns the path."""
    path.write_text(SETTINGS.format(durations=durations, metrics=metrics))
    return path


class Balancer:
    """Splices each new connection to the next ready replica; connections that are open stay where they are."""

    def __init__(self) -> None:
        self.replicas: list[Served] = []
        self._ready: set[Served] = set()
        self._turn = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._unanswered: dict[Served, int] = {}

    @property
    def ready(self) -> list[Address]:
        """Where a new connection may go."""
        return [one.address for one in self.replicas if one in self._ready]

    async def watch(self) -> None:
        """Follow readiness, late. Each replica by itself: how late must not depend on what another one does."""
        following: dict[Served, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                for one in self.replicas:
                    if "ready" in one.lines and (one not in following or following[one].done()):
                        following[one] = group.create_task(self._follow(one))
                await asyncio.sleep(ENDPOINT_DELAY / 2)

    async def _follow(self, replica: Served) -> None:
        yes = await self._is_ready(replica)
        await asyncio.sleep(ENDPOINT_DELAY)
        if yes:
            self._ready.add(replica)
        else:
            self._ready.discard(replica)

    async def _is_ready(self, replica: Served) -> bool:
        try:
            async with asyncio.timeout(2), Wire(replica.address, ANYBODY) as wire:
                yes = (await wire.call(get("/readyz"))).status == 200
        except TimeoutError:
            self._unanswered[replica] = self._unanswered.get(replica, 0) + 1 if _stopped(replica.process.pid) else 0
            return replica in self._ready and self._unanswered[replica] < UNANSWERED
        except OSError:
            yes = False
        self._unanswered[replica] = 0
        return yes

    async def splice(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the API server."""
        self._turn += 1
        self._open.add(writer)
        try:
            ready = self.ready
            chosen = ready[self._turn % len(ready)]
            there_reader, there_writer = await asyncio.open_connection(chosen.host, chosen.port)
        except (OSError, ZeroDivisionError):
            writer.transport.abort()
            self._open.discard(writer)
            return
        try:
            await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        finally:
            self._open.discard(writer)

    async def close(self) -> None:
        """Cut what is open, and wait until it has ended."""
        for writer in self._open:
            writer.transport.abort()
        await eventually(lambda: not self._open)


def _stopped(pid: int) -> bool:
    """Whether a process got SIGSTOP, or has ended: it answers nothing, however long it is waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in "TZX"
    except FileNotFoundError:
        return True


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, RuntimeError):  # uvloop's error for what the other direction has closed
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


ANYBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Verifies no certificate. Made once: to make a context takes as long as many calls."""
ANYBODY.check_hostname, ANYBODY.verify_mode = False, ssl.CERT_NONE


@asynccontextmanager
async def balanced(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[tuple[Balancer, int]]:
    """A balancer that listens, and its port; its replicas are killed at the end."""
    balancer = Balancer()
    server = await asyncio.start_server(balancer.splice, host, port)
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


def hooks(port: int) -> list[Raw]:
    options = HookOptions(endpoint=Endpoint(url=f"https://127.0.0.1:{port}"), name="rollout")
    return [mutating(options), validating(options)]


def replica(kubeconfig: Path, settings: Path, *, forked: bool = False) -> Served:
    """Another replica as the chart runs it, but on a different port."""
    options = ["--config", str(settings), "--bind", "127.0.0.1:0", "--lame-duck", str(LAME_DUCK_SECONDS)]
    return Served(options, {"KUBECONFIG": str(kubeconfig)}, start=Forked if forked else None)


async def define(client: Client, port: int) -> None:
    """Define our kinds, and webhooks that the balancer's port serves."""
    for definition in crds.definitions():
        await apply(client, definition)
    for configuration in hooks(port):
        await apply(client, configuration)


async def holder(client: Client) -> str:
    """Who holds the lease; empty for nobody."""
    try:
        return str((await client.get(LEASES, "rollout", "default"))["spec"].get("holderIdentity") or "")
    except NotFound:
        return ""


async def release(client: Client) -> None:
    """Delete the lease: the next leader need not wait until it ends."""
    with contextlib.suppress(NotFound):
        await client.delete(LEASES, "rollout", "default")


OF_ALL = ("/leases", "reviews", "/secrets", "webhookconfigurations", "/customresourcedefinitions", "/apiservices")
"""Every replica tries to get the lease, asks who calls, and keeps its certificates and configurations in order."""


def of_the_leader(request: Request) -> bool:
    """Whether a request changes something that the leader alone may change."""
    return request.method != "GET" and not any(part in request.path for part in OF_ALL)


class Candidate:
    """A replica behind a fault proxy of its own. Started again after it was killed, it is the next process there."""

    def __init__(
        self, proxy: FaultProxy, directory: Path, settings: Path, balancer: Balancer, *, forked: bool = False
    ) -> None:
        self.proxy = proxy
        self.killer = Killer(lambda: self.served.process.pid)
        proxy.draw = self.killer
        self._kubeconfig = directory / f"{settings.stem}.kubeconfig"
        self._kubeconfig.write_text(proxy.kubeconfig)
        self._settings = settings
        self._balancer = balancer
        self._forked = forked
        self.served = self._started()

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.served.process.poll() is None

    @property
    def leads(self) -> bool:
        """Whether its process has led and has not lost the lease, as its log says."""
        return self.alive and any('"leading"' in line for line in self.served.log)

    @property
    def warm(self) -> bool:
        """Whether its process is ready: it leads as soon as it gets the lease."""
        return self.alive and "ready" in self.served.lines

    async def restart(self) -> None:
        """Start its next process, when the last one has ended."""
        await asyncio.to_thread(self.served.wait)
        self._balancer.replicas.remove(self.served)
        self.served = self._started()

    async def ready(self) -> None:
        """Wait until it is ready."""
        await asyncio.to_thread(self.served.ready, 300.0)

    def _started(self) -> Served:
        served = replica(self._kubeconfig, self._settings, forked=self._forked)
        self._balancer.replicas.append(served)
        return served


@asynccontextmanager
async def candidates(
    connection: Connection, directory: Path, settings: list[Path], balancer: Balancer, *, forked: bool = False
) -> AsyncIterator[list[Candidate]]:
    """A replica for each Configuration, ready and known to the balancer, each behind a proxy of its own."""
    async with contextlib.AsyncExitStack() as stack:
        found = [
            Candidate(await stack.enter_async_context(proxied(connection)), directory, each, balancer, forked=forked)
            for each in settings
        ]
        for each in found:
            await each.ready()
        await eventually(lambda: len(balancer.ready) == len(found))
        yield found
