"""What happens to a manager and its workers in a test: programs are killed and stopped, and the network fails.

Each fault is a coroutine that returns when it is over; none lasts as long as ``workerLostTimeout``, so that no job may
run a second time.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from controller.kube import config
from tests.cluster.fleet import Fleet
from tests.cluster.test_faults import Misfortune
from tests.faults import BlackHole, FaultProxy, Reset, proxied

Fault = Callable[["Faults"], Awaitable[None]]


class Faults:
    """``proxies`` are between the manager and each worker. Faults of the network and of stopped programs last
    ``seconds``.
    """

    def __init__(self, fleet: Fleet, proxies: Sequence[FaultProxy], chance: random.Random, seconds: float) -> None:
        self.fleet = fleet
        self.proxies = proxies
        self.chance = chance
        self.seconds = seconds

    def _worker(self) -> int:
        """The place of a worker among all clusters; the manager has place 0."""
        return self.chance.randint(1, len(self.fleet.workers))

    async def kill_manager(self) -> None:
        """Kill -9 of the manager's program, which is started again."""
        service = self.fleet.services[0]
        await asyncio.to_thread(service.kill)
        await asyncio.to_thread(service.ready)

    async def kill_worker(self) -> None:
        """Kill -9 of a worker's program, which is started again after a while."""
        service = self.fleet.services[self._worker()]
        await asyncio.to_thread(service.kill)
        await asyncio.sleep(self.seconds)
        await asyncio.to_thread(service.ready)

    async def stop_worker(self) -> None:
        """SIGSTOP of a worker's program for a while."""
        await self._stop(self._worker())

    async def stop_manager(self) -> None:
        """SIGSTOP of the manager's program for a while."""
        await self._stop(0)

    async def _stop(self, place: int) -> None:
        process = (await asyncio.to_thread(self.fleet.services[place].ready)).process
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self.seconds)
        process.send_signal(signal.SIGCONT)

    async def kill_api_server(self) -> None:
        """Kill -9 of a worker's API server, which is started again after a while."""
        plane = self.fleet.planes[self._worker()]
        await asyncio.to_thread(plane.kill_apiserver)
        await asyncio.sleep(self.seconds)
        await asyncio.to_thread(plane.start_apiserver)

    async def stop_api_server(self) -> None:
        """SIGSTOP of a worker's API server for a while."""
        plane = self.fleet.planes[self._worker()]
        plane.pause()
        await asyncio.sleep(self.seconds)
        plane.resume()

    async def partition(self) -> None:
        """No connection between the manager and a worker."""
        await self._network(self.proxies[self._worker() - 1], Reset())

    async def partition_all(self) -> None:
        """No connection between the manager and any worker."""
        await asyncio.gather(*(self._network(proxy, Reset()) for proxy in self.proxies))

    async def silence(self) -> None:
        """A worker gets the requests of the manager, and the manager no answers."""
        await self._network(self.proxies[self._worker() - 1], BlackHole())

    async def _network(self, proxy: FaultProxy, fault: Reset | BlackHole) -> None:
        proxy.draw = lambda request: fault
        await proxy.cut()
        await asyncio.sleep(self.seconds)
        proxy.heal()
        await proxy.cut()

    async def spoil_network(self) -> None:
        """A third of the requests to all workers is refused, lost or interrupted."""
        for proxy in self.proxies:
            proxy.draw = Misfortune(self.chance.randrange(1000))
        await asyncio.sleep(self.seconds)
        for proxy in self.proxies:
            proxy.heal()
            await proxy.cut()

    async def rotate(self) -> None:
        """The kubeconfig of a worker is written again, with another text."""
        place = self._worker()
        proxy, name = self.proxies[place - 1], self.fleet.planes[place].spec.name
        text = f"{proxy.kubeconfig}\n# {self.chance.random()}\n"
        await asyncio.to_thread(self.fleet.rotate, name, text)


FAULTS: tuple[Fault, ...] = (
    Faults.kill_manager,
    Faults.kill_worker,
    Faults.kill_api_server,
    Faults.stop_manager,
    Faults.stop_worker,
    Faults.stop_api_server,
    Faults.partition,
    Faults.partition_all,
    Faults.silence,
    Faults.spoil_network,
    Faults.rotate,
)


def title(fault: Fault) -> str:
    """What the fault is, for a report."""
    return (fault.__doc__ or "").strip().rstrip(".")


@asynccontextmanager
async def between(fleet: Fleet) -> AsyncIterator[list[FaultProxy]]:
    """Fault proxies between the manager and each worker, which the manager uses in the block."""
    async with AsyncExitStack() as stack:
        found = []
        for plane in fleet.planes[1:]:
            connection = config.load(plane.kubeconfig)
            found.append(await stack.enter_async_context(proxied(connection)))
        for plane, proxy in zip(fleet.planes[1:], found, strict=True):
            await asyncio.to_thread(fleet.rotate, plane.spec.name, proxy.kubeconfig)
        try:
            yield found
        finally:
            for plane in fleet.planes[1:]:
                await asyncio.to_thread(fleet.rotate, plane.spec.name, plane.kubeconfig.read_text())
