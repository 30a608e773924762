"""Servers to call: a trivial app behind the limits, on a free port, with test certificates."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
import uvloop
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from app.application import Application
from app.connection import CLIENT, Deadlines
from app.limits import Limits, check_client
from app.metrics import ProcessMetrics
from app.server import CONNECTIONS, Address, Farewell, Listener, Server
from certs import pki
from certs.live import LiveContext
from certs.plan import RenewalPolicy
from tests.app.http import Wire
from tests.eventually import PATIENCE
from webhook.routes import ReceivedBody, StatusAndBody

PATIENT = Deadlines(
    handshake=PATIENCE, idle=PATIENCE, head=PATIENCE, call=PATIENCE, answer=PATIENCE, stream=PATIENCE, closing=0.5
)
"""No deadline that a busy machine can exceed. A connection is kept until the deadline of its closing."""
NAMES = ("localhost", "127.0.0.1")


BOTH_LOOPS = ("test_endings.py", "test_limits.py", "test_server.py")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Runs tests of sockets on Python's event loop and on that of `serve`: each implements TLS separately."""
    python = {"asyncio": asyncio.new_event_loop}
    return {**python, "uvloop": uvloop.new_event_loop} if item.path.name in BOTH_LOOPS else python


@dataclass
class Served:
    """A running server and the hand on its handler: calls to `/slow` wait for `release`, and set `entered`."""

    server: Server
    listener: Listener
    app: Application
    trust: ssl.SSLContext | None
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    def wire(self) -> Wire:
        assert self.listener.bound is not None
        return Wire(self.listener.bound, self.trust)


Serve = Callable[..., AbstractAsyncContextManager[Served]]


def shorten(served: Served, **seconds: float) -> None:
    """Gives open connections other deadlines, which begin now: a test waits for one only when it has got so far."""
    for connection in served.listener.open.values():
        if connection is not None:
            connection._deadlines = replace(connection._deadlines, **seconds)
            connection._enter(connection.state)


@asynccontextmanager
async def serving(
    *,
    limits: Limits | None = None,
    deadlines: Deadlines | None = None,
    tls: bool = False,
    connections: int = CONNECTIONS,
    client_ca: bytes = b"",
    client_names: tuple[str, ...] = (),
) -> AsyncIterator[Served]:
    served: Served

    async def echo(body: ReceivedBody) -> StatusAndBody:
        return 200, str(len(body)).encode()

    async def mirror(body: ReceivedBody) -> StatusAndBody:
        return 200, bytes(body)

    async def slow(body: ReceivedBody) -> StatusAndBody:
        served.entered.set()
        await served.release.wait()
        return 200, b"at last"

    async def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse("page")

    async def broken(body: ReceivedBody) -> StatusAndBody:
        raise RuntimeError("a mistake of ours")

    hooks = {"/echo": echo, "/mirror": mirror, "/slow": slow, "/broken": broken}

    def client(scope: Scope) -> None:
        if client_ca:
            check_client(scope["state"][CLIENT], client_names)

    app = Application(hooks, [Route("/page", page)], ProcessMetrics(), limits, client=client)
    listens = listening(app, deadlines=deadlines, tls=tls, connections=connections, client_ca=client_ca)
    async with listens as (server, listener, trust):
        served = Served(server, listener, app, trust)
        yield served


@asynccontextmanager
async def listening(
    app: ASGIApp,
    *,
    deadlines: Deadlines | None = None,
    tls: bool = True,
    connections: int = CONNECTIONS,
    client_ca: bytes = b"",
) -> AsyncIterator[tuple[Server, Listener, ssl.SSLContext | None]]:
    """A server of one app on a free port, and what its clients are to trust."""
    live, trust = LiveContext(client_ca=client_ca), None
    if tls:
        now, policy = datetime.now(UTC), RenewalPolicy()
        authority = pki.new_authority(now, policy.authority_life)
        live.load(pki.new_leaf(authority, NAMES, now, policy.leaf_life), authority.chain_pem, "localhost", now)
        trust = ssl.create_default_context(cadata=authority.chain_pem.decode())
    listener = Listener(app, Address("127.0.0.1", 0), live.context if tls else None)
    server = Server([listener], deadlines or PATIENT, connections=connections)
    await server.start()
    try:
        yield server, listener, trust
    finally:
        await server.stop(Farewell(0.0, 0.2))


@pytest.fixture
def serve() -> Serve:
    return serving
