"""The fault proxy itself."""

import asyncio
import gc
import socket
import ssl
import warnings
from urllib.parse import urlsplit

import pytest

from controller.kube.config import Connection
from tests.eventually import eventually
from tests.faults import FaultProxy, linger, proxied
from tests.standin import StandIn
from tests.unresponsive import left_open_by, unresponsive


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


def test_what_is_asked_of_an_unresponsive_server_ends_with_the_proxy() -> None:
    """With the loop of a test everything must be closed: a server that is busy sends no close notification."""

    async def ask(url: str, authority: bytes) -> None:
        tls = ssl.create_default_context(cadata=authority.decode())
        async with proxied(Connection(url, tls=tls)) as proxy:
            to = urlsplit(proxy.url)
            reader, writer = await asyncio.open_connection(to.hostname, to.port)
            writer.write(b"GET /things?watch=true HTTP/1.1\r\n\r\n")
            await reader.readuntil(b"ab")
            writer.close()

    with unresponsive() as server:
        assert left_open_by(ask(*server)) == []
