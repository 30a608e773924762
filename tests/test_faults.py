"""The fault proxy itself."""

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest

from certs import pki
from certs.live import LiveContext
from controller.kube.config import Connection
from tests.eventually import PATIENCE, eventually
from tests.faults import FaultProxy, linger, proxied
from tests.standin import StandIn


@pytest.mark.parametrize("resets", [False, True], ids=["closes", "resets"])
async def test_a_watch_ends_with_its_client(server: StandIn, proxy: FaultProxy, resets: bool) -> None:
    """No event would end it: a run that kills hundreds of clients would keep all their watches. The system resets the
    connection of a client that ends before it has read everything.
    """
    to = urlsplit(proxy.url)
    _, writer = await asyncio.open_connection(to.hostname, to.port)
    writer.write(b"GET /apis/example.com/v1/things?watch=true&resourceVersion=1 HTTP/1.1\r\n\r\n")
    await eventually(lambda: server.open_watches)
    if resets:
        linger(writer.get_extra_info("socket"))
    writer.close()
    await eventually(lambda: not server.open_watches)


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_is_made_as_the_proxy_ends_is_closed_too(server: StandIn, turns: int) -> None:
    """A client that is killed connects until its last moment."""
    gc.collect()  # what earlier tests have left
    with warnings.catch_warnings(record=True, action="always", category=ResourceWarning) as left:
        async with FaultProxy(server) as proxy:
            to = urlsplit(proxy.url)
            made = [socket.create_connection((to.hostname, to.port)) for _ in range(4)]
            for _ in range(turns):
                await asyncio.sleep(0)
        for each in made:
            each.close()
        del proxy, each, made
        gc.collect()
    assert not left


@pytest.fixture
def unresponsive() -> Iterator[Connection]:
    """A server with TLS that begins an answer and does nothing more, not even when a client closes."""
    now, day = datetime.now(UTC), timedelta(days=1)
    authority, live = pki.new_authority(now, day), LiveContext()
    live.load(pki.new_leaf(authority, ("localhost",), now, day), authority.chain_pem, "localhost", now)
    held: list[socket.socket] = []

    def serve(listening: socket.socket) -> None:
        accepted, _ = listening.accept()
        held.append(live.context.wrap_socket(accepted, server_side=True))
        held[-1].recv(1000)
        held[-1].sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)  # the test may fail before it connects
        serving = threading.Thread(target=serve, args=(listening,))
        serving.start()
        tls = ssl.create_default_context(cadata=authority.chain_pem.decode())
        yield Connection(f"https://localhost:{listening.getsockname()[1]}", tls=tls)
    serving.join()
    for each in held:
        each.close()


def test_what_is_asked_of_an_unresponsive_server_ends_with_the_proxy(unresponsive: Connection) -> None:
    """With the loop of a test everything must be closed: a server that is busy sends no close notification."""

    async def ask() -> None:
        async with proxied(unresponsive) as proxy:
            to = urlsplit(proxy.url)
            reader, writer = await asyncio.open_connection(to.hostname, to.port)
            writer.write(b"GET /things?watch=true HTTP/1.1\r\n\r\n")
            await reader.readuntil(b"ab")
            writer.close()

    gc.collect()  # what earlier tests have left
    with warnings.catch_warnings(record=True, action="always", category=ResourceWarning) as left:
        asyncio.run(ask())
        gc.collect()
    assert not left
