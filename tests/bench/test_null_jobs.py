"""The floor of the latency bench: what its hooks answer, and which writes its controller makes."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from bench.null_jobs import allow, control
from bench.scenario import JOBS, NAMESPACE, job
from controller.kube.client import Client
from controller.kube.flow.throttle import Throttle
from tests.eventually import PATIENCE
from tests.faults import FaultProxy
from tests.standin import StandIn


async def test_its_hooks_allow_everything() -> None:
    status, body = await allow(json.dumps({"request": {"uid": "u-1", "object": {}}}).encode())
    assert (status, json.loads(body)["response"]) == (200, {"uid": "u-1", "allowed": True})


async def test_it_starts_a_job_with_three_writes(proxy: FaultProxy, server: StandIn) -> None:
    async with Client(proxy.connection, throttle=Throttle(0)) as client:
        controller = asyncio.create_task(control(client))
        path = JOBS.path(NAMESPACE, "one")
        async with asyncio.timeout(PATIENCE):
            while not any("watch" in each.query for each in proxy.seen):  # noqa: ASYNC110 - as below
                await asyncio.sleep(0.01)
            await client.create(JOBS, job("one", "lq-0"), NAMESPACE)
            while server.objects[path]["spec"]["suspend"]:  # noqa: ASYNC110 - the stand-in signals nothing
                await asyncio.sleep(0.01)
        controller.cancel()
        with suppress(asyncio.CancelledError):
            await controller
    writes = [f"{each.method} {each.path.rsplit('/', 2)[-1]}" for each in proxy.seen if each.method != "GET"]
    assert writes == ["POST jobs", "POST workloads", "PUT status", "PATCH one"]
