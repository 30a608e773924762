"""Answers that are streams: each part is written at once, and a client that does not read is disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from starlette.types import Receive, Scope, Send

from app.connection import STREAM, Deadlines
from tests.app.conftest import PATIENT, listening
from tests.app.http import Wire, get
from tests.eventually import PATIENCE


class Streaming:
    """Sends a part for each `go`; `over` is set when it has ended, for whatever reason."""

    def __init__(self, part: bytes = b"part\n") -> None:
        self.part = part
        self.go = asyncio.Semaphore(0)
        self.over = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"][STREAM]()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await self.go.acquire()
                await send({"type": "http.response.body", "body": self.part, "more_body": True})
        finally:
            self.over.set()


@asynccontextmanager
async def streaming(app: Streaming, deadlines: Deadlines, *, tls: bool = False) -> AsyncIterator[Wire]:
    async with listening(app, deadlines=deadlines, tls=tls) as (_, listener, trust):
        assert listener.bound is not None
        async with Wire(listener.bound, trust) as wire:
            await wire.send(get("/"))
            await wire.reader.readuntil(b"\r\n\r\n")
            yield wire


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
async def test_each_part_is_written_at_once_and_a_stream_outlives_the_deadline_of_a_call(tls: bool) -> None:
    app, loop, brief = Streaming(), asyncio.get_running_loop(), replace(PATIENT, call=0.3)
    async with asyncio.timeout(PATIENCE), streaming(app, brief, tls=tls) as wire:
        end = loop.time() + 2 * brief.call
        while loop.time() < end:
            app.go.release()
            assert await wire.reader.readexactly(len(b"5\r\npart\n\r\n")) == b"5\r\npart\n\r\n"
        assert not app.over.is_set()


async def test_a_stream_without_parts_ends() -> None:
    app = Streaming()
    app.go.release()  # the first part follows the head at once: no stall of this machine comes between
    async with asyncio.timeout(PATIENCE), streaming(app, replace(PATIENT, stream=0.2)) as wire:
        await wire.reader.readexactly(len(b"5\r\npart\n\r\n"))
        await app.over.wait()


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    app = Streaming(b"x" * 500_000)
    async with asyncio.timeout(PATIENCE), streaming(app, replace(PATIENT, answer=0.2)):
        for _ in range(100):
            app.go.release()
        await app.over.wait()
