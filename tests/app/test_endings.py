"""However a connection ends, nothing of it is left: it dies by its last reference, not when garbage is looked for.

That matters because garbage is looked for by the number of objects, and a connection has few objects with half a
megabyte of TLS buffers: a thousand of them ended before anybody looked.
"""

import contextlib
import gc
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from app.limits import Limits
from tests.app.conftest import PATIENT, Serve, Served, shorten
from tests.app.http import Wire, get, post
from tests.eventually import eventually

SMALL = Limits(body_bytes=1000, body_seconds=0.3, linger_seconds=0.3)

End = Callable[[Served, Wire], Awaitable[object]]


async def _answered(served: Served, wire: Wire) -> None:
    assert (await wire.call(post("/echo", b"{}"))).status == 200


async def _told_to_close(served: Served, wire: Wire) -> None:
    assert (await wire.call(get("/page", "Connection: close"))).status == 200
    assert await wire.closed()


async def _refused(served: Served, wire: Wire) -> None:
    request = post("/echo", b"x" * 100_000)
    assert (await wire.call(request[:-100_000])).status == 413  # a reset for a body that nobody reads would discard it
    with contextlib.suppress(ConnectionError):
        await wire.send(request[-100_000:])


async def _misunderstood(served: Served, wire: Wire) -> None:
    assert (await wire.call(b"\x00\x01\x02\x03\r\n\r\n")).status == 400


async def _hung_up_in_the_body(served: Served, wire: Wire) -> None:
    await wire.send(post("/echo", b"{}").replace(b"Length: 2", b"Length: 900"))


async def _hung_up_in_the_call(served: Served, wire: Wire) -> None:
    await wire.send(post("/slow", b"{}"))
    await served.entered.wait()
    shorten(served, call=0.1)


async def _dripped_a_head(served: Served, wire: Wire) -> None:
    shorten(served, head=0.1)
    await wire.send(b"GET /page HTTP/1.1\r\nX: ")
    assert await wire.closed()


async def _dripped_a_body(served: Served, wire: Wire) -> None:
    body = post("/echo", b"{}").replace(b"Length: 2", b"Length: 900")
    assert (await wire.call(body)).status == 408


async def _said_nothing(served: Served, wire: Wire) -> None:
    shorten(served, idle=0.1)
    assert await wire.closed()


async def _failed(served: Served, wire: Wire) -> None:
    assert (await wire.call(post("/broken", b"{}"))).status == 500


@pytest.mark.parametrize(
    "end",
    [
        _answered,
        _told_to_close,
        _refused,
        _misunderstood,
        _hung_up_in_the_body,
        _hung_up_in_the_call,
        _dripped_a_head,
        _dripped_a_body,
        _said_nothing,
        _failed,
    ],
)
async def test_nothing_is_left_of_a_connection_that(serve: Serve, end: End) -> None:
    async with serve(limits=SMALL, deadlines=PATIENT, tls=True) as served:
        gc.collect()
        gc.disable()
        try:
            async with served.wire() as wire:
                await eventually(lambda: any(served.listener.open.values()))
                (connection,) = served.listener.open.values()
                assert connection is not None
                left: list[Callable[[], object]] = [
                    weakref.ref(each) for each in (connection, connection._reader, connection._writer)
                ]
                del connection
                await end(served, wire)
            await eventually(lambda: not any(ref() for ref in left))
        finally:
            gc.enable()


@pytest.mark.parametrize("said", [b"GET /page HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b""], ids=["no TLS", "cut", "silent"])
async def test_nothing_is_left_of_a_failed_handshake(serve: Serve, said: bytes) -> None:
    def handshakes() -> int:
        return sum(type(each).__name__ == "SSLProtocol" for each in gc.get_objects())

    short = replace(PATIENT, handshake=0.1)
    async with serve(deadlines=PATIENT if said else short, tls=True) as served:
        gc.collect()
        gc.disable()
        try:
            before = handshakes()
            async with Wire(served.wire().address) as wire:
                if said:
                    await eventually(lambda: len(served.listener.open) == 1)
                    assert handshakes() == before, "a client that has sent nothing has no buffers yet"
                    served.server._deadlines = short
                    await wire.send(said)
                assert await wire.closed()
            await eventually(lambda: not served.listener.open and handshakes() == before)
        finally:
            gc.enable()


async def test_nothing_is_left_of_an_error_for_bytes_that_are_not_http(serve: Serve) -> None:
    """From Python 3.13 on its frames refer to the connection."""

    def errors() -> int:
        return sum(type(each).__name__ == "RemoteProtocolError" for each in gc.get_objects())

    async with serve(deadlines=PATIENT) as served:
        gc.collect()
        gc.disable()
        try:
            before = errors()
            async with served.wire() as wire:
                await _misunderstood(served, wire)
            await eventually(lambda: not served.listener.open and errors() == before)
        finally:
            gc.enable()
