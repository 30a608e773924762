"""Keeps what was learned about run times over a restart: one ConfigMap in Seiretsu's own namespace.

Every replica reads it when it starts; only the leader writes, at most every ten minutes, and only if a workload has
finished since. What is lost at a crash is what ten minutes have taught. If it cannot be read, run times are unknown
until workloads have finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from api.names import Condition
from api.objects import Key
from api.resources import CONFIG_MAPS
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.forecasts.forecasts import Forecasts
from controller.forecasts.process import plain
from controller.kube.client import Client
from controller.kube.errors import ApiError, NotFound
from controller.kube.log import get_logger
from core.forecast.stored import NAME, data_of, learned_of, manifest

log = get_logger(__name__)

WRITE_SECONDS: Final = 600.0
AT_ONCE: Final = 50
"""So many finished workloads are learned from between two pauses: half a millisecond."""


class RememberedRunTimes:
    """``read`` once, ``run`` while this process leads."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        forecasts: Forecasts,
        caches: Caches,
        namespace: str,
    ) -> None:
        self.client = client
        self.writer = writer
        self.forecasts = forecasts
        self.caches = caches
        self.key = Key(namespace, NAME)
        self._written = 0

    async def read(self) -> None:
        """Takes over what is stored; if nothing is, learns from the finished workloads that are still there."""
        try:
            found = await self.client.get(CONFIG_MAPS, self.key.name, self.key.namespace)
            self.forecasts.run_times.merge(await asyncio.to_thread(learned_of, found))
        except NotFound:
            for _ in self._finished():
                await asyncio.sleep(0)
        except (ApiError, ValueError) as error:
            log.warning("run times are not remembered", config_map=str(self.key), error=str(error))

    def _finished(self) -> Iterator[None]:
        for place, key in enumerate(list(self.caches.workloads.keys()), start=1):
            workload = self.caches.get(key)
            if workload is not None and workload.holds(Condition.FINISHED):
                self.forecasts.learn(workload)
            if place % AT_ONCE == 0:
                yield

    async def run(self) -> None:
        """Writes from time to time until cancelled."""
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Writes once, if anything was learned since the last time; what fails is repeated with the next one."""
        changed = self.forecasts.run_times.changed
        if changed == self._written:
            return
        body = await asyncio.to_thread(data_of, await plain(self.forecasts.run_times))
        try:
            async with self.writer.turn(self.key.namespace):
                try:
                    await self.writer.patch(CONFIG_MAPS, self.key, body)
                except NotFound:
                    await self.writer.create(CONFIG_MAPS, {**manifest(self.key), **body})
        except ApiError as error:
            log.warning("run times not written", config_map=str(self.key), error=str(error))
        else:
            self._written = changed
