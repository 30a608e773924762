"""Jobs created at a steady rate, whatever the answers take: each is a dry run, which admission sees as any other."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from api.objects import Raw, Resource
from controller.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from controller.kube.client import Client

JOBS = Resource("batch", "v1", "jobs", "Job")
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}


def job(name: str = "", queue: str = "main") -> Raw:
    """A Job of one pod; without a queue's name it is not queued."""
    metadata: Raw = {"name": name} if name else {"generateName": "steady-"}
    if queue:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": TEMPLATE}}


class Creates:
    """What became of the creates: `made` in so many `seconds`, and `failures` with their reasons."""

    def __init__(self, client: Client) -> None:
        self.made = 0
        self.seconds = 0.0
        self.failures: list[str] = []
        self._client = client
        self._began = time.monotonic()

    async def one(self) -> None:
        """Creates a queued Job, which must be suspended by the webhook."""
        began = time.monotonic() - self._began
        try:
            made = await self._client.create(JOBS, job(), "default", dry_run=True)
        except ApiError as refusal:
            self.failures.append(f"after {began:.1f} s: {refusal}")
            return
        self.made += 1
        if not made["spec"]["suspend"]:
            self.failures.append("a Job was not made to wait")

    def __str__(self) -> str:
        return f"{self.made} creates, {self.made / self.seconds:.0f} a second, {len(self.failures)} failed"


@asynccontextmanager
async def creating(client: Client, rate: float) -> AsyncIterator[Creates]:
    """Creates so many Jobs a second until the end of the block; all of them are answered then."""
    creates, ended = Creates(client), asyncio.Event()

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            began = time.monotonic()
            for number in itertools.count():
                if ended.is_set():
                    return
                group.create_task(creates.one())
                await asyncio.sleep(began + (number + 1) / rate - time.monotonic())

    running, began = asyncio.create_task(run()), time.monotonic()
    try:
        yield creates
    finally:
        ended.set()
        await running
        creates.seconds = time.monotonic() - began
