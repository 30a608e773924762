"""The listening sockets, and how they are shut down without losing a call.

The API server keeps connections open and does not repeat a call whose connection was closed, so a server that closes
at the first SIGTERM fails users' requests (measured: 4 of 2,300). This server goes on answering for a while as a lame
duck: it reports that it is not ready, and each answer says `Connection: close`. Then it closes the listeners and waits
for the calls in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import ssl
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import structlog
from starlette.types import ASGIApp

from app.connection import ConnectionStage, Deadlines, Protocol, ServedConnection, release

log = structlog.get_logger("seiretsu.http")

BACKLOG = 1024
CONNECTIONS = 2048
"""The number of open connections of a listener: 33 KB each while idle. An API server keeps fewer than it has calls."""
PASSES = 4
"""For how many passes of the event loop a handshake has its turn: in them its expensive step is done, which costs as
much as one or two calls. Hundreds of these steps in one pass would delay the calls of all other connections.
"""
AGAIN_SECONDS = 0.1
"""The pause after a connection could not be accepted (no file descriptor is free, or the client has closed it)."""
SEND_BUFFER_BYTES = 128 * 1024
"""What the kernel keeps for a connection whose client does not read; it may double the number."""
FIRST_CALL_SECONDS = 1.0
"""After the listeners have closed: for so long the first call of a connection is waited for. A client connects when it
has something to send.
"""


@dataclass(frozen=True, slots=True)
class Address:
    """The address to listen on. Port 0 selects a free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parses `host:port`, `[v6]:port` or `:port` (every address). Raises a `ValueError` that says why."""
        host, separator, port = text.rpartition(":")
        if not separator or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"{text!r} is not an address: write HOST:PORT, e.g. 127.0.0.1:9443")
        host = host.removeprefix("[").removesuffix("]")
        return cls(host or "0.0.0.0", int(port))

    @property
    def local(self) -> bool:
        """Whether only clients on this machine (in this pod) reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Farewell:
    """The seconds of each part of the shutdown: as a lame duck, then waiting for the calls in flight."""

    lame_duck: float = 1.0
    calls: float = 4.0

    @property
    def total(self) -> float:
        """The longest time that the shutdown takes."""
        return self.lame_duck + self.calls


@dataclass(slots=True)
class Listener:
    """One ASGI application on one address, with TLS if `tls` is given. `bound` is set when it listens."""

    app: ASGIApp
    address: Address
    tls: ssl.SSLContext | None = None
    bound: Address | None = field(default=None, init=False)
    open: dict[asyncio.Task[None], ServedConnection | None] = field(default_factory=dict, init=False)
    """The connections by their tasks, the oldest first; None before the end of the handshake."""


class Server:
    """Serves its listeners from `start()` to `stop()`. `draining` is true from the beginning of `stop()`."""

    def __init__(
        self, listeners: Sequence[Listener], deadlines: Deadlines | None = None, *, connections: int = CONNECTIONS
    ) -> None:
        self.listeners = tuple(listeners)
        self.draining = False
        self._deadlines = deadlines or Deadlines()
        self._most = connections
        self._protocol = Protocol()
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Listens on every address. Raises an `OSError` that names an unavailable address; then nothing listens."""
        try:
            for listener in self.listeners:
                await self._listen(listener)
        except BaseException:
            await self._close_doors()
            raise

    async def stop(self, farewell: Farewell) -> None:
        """Shuts down as the module describes. Returns within `farewell.total` seconds, with no socket open."""
        self.draining = True
        self._protocol.drain()
        await asyncio.sleep(farewell.lame_duck)
        end = time.monotonic() + farewell.calls
        await self._close_doors()
        await self._protocol.end()
        unused = [task for task, connection in self._open() if connection is None or not connection.used]
        await _ended(unused, min(FIRST_CALL_SECONDS, farewell.calls))
        for task, connection in self._open():
            if connection is None:
                task.cancel()
            elif connection.state is ConnectionStage.IDLE:
                connection.close()
        await _ended([task for task, _ in self._open()], end - time.monotonic())
        for _, connection in self._open():
            if connection is not None:
                connection.cut()
        await _ended([task for task, _ in self._open()], 1)

    def _open(self) -> list[tuple[asyncio.Task[None], ServedConnection | None]]:
        return [each for listener in self.listeners for each in listener.open.items()]

    async def _listen(self, listener: Listener) -> None:
        opened = _open(listener.address, self._deadlines.answer)
        self._sockets.append(opened)
        listener.bound = Address(*opened.getsockname()[:2])
        self._accepting.append(asyncio.create_task(self._accept(opened, listener)))

    async def _close_doors(self) -> None:
        """Accepts what has connected already, and nothing more. The event loop must release a socket before it is
        closed, because its descriptor number is soon used again.
        """
        for task in self._accepting:
            task.cancel()
        await _ended(self._accepting, 1)
        for listener, opened in zip(self.listeners, self._sockets, strict=False):
            with contextlib.suppress(OSError):  # none is left, incl. BlockingIOError
                while True:
                    self._take(opened, listener)
            opened.close()

    async def _accept(self, opened: socket.socket, listener: Listener) -> None:
        while True:
            await _readable(opened)
            try:
                self._take(opened, listener)
            except BlockingIOError:
                continue  # the client has given up
            except OSError as error:
                log.warning("A connection could not be accepted", error=str(error))
                await asyncio.sleep(AGAIN_SECONDS)

    def _take(self, opened: socket.socket, listener: Listener) -> None:
        """Accepts the next connection and serves it. Raises an `OSError` if there is none or it cannot be accepted."""
        accepted, _ = opened.accept()
        accepted.setblocking(False)
        if not self._room(listener):
            accepted.close()
            return
        task = asyncio.create_task(self._serve(listener, accepted))
        listener.open[task] = None
        task.add_done_callback(lambda ended: listener.open.pop(ended, None))

    def _room(self, listener: Listener) -> bool:
        """Makes room for one more connection: the oldest one without a handshake is closed, else the one that has done
        nothing for the longest time. False if all of them are being answered.
        """
        if len(listener.open) < self._most:
            return True
        waiting = next((task for task, connection in listener.open.items() if connection is None), None)
        if waiting is not None:
            waiting.cancel()
            del listener.open[waiting]
            return True
        idle = [
            (each.since, task)
            for task, each in listener.open.items()
            if each and each.state is not ConnectionStage.CALL
        ]
        if not idle:
            return False
        _, task = min(idle, key=lambda found: found[0])
        connection = listener.open.pop(task)
        assert connection is not None
        connection.cut()
        return True

    async def _serve(self, listener: Listener, accepted: socket.socket) -> None:
        """Serves one connection, from its handshake to its end."""
        task = asyncio.current_task()
        assert task is not None
        try:
            streams = await self._greet(accepted, listener.tls)
        except OSError as error:
            release(error)
            return  # the client spoke no TLS, another version of it, or nothing in time: not an error of the server
        connection = ServedConnection(listener.app, self._protocol, streams, self._deadlines)
        listener.open[task] = connection
        await connection.run()

    async def _greet(
        self, accepted: socket.socket, tls: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Waits for the first bytes of a handshake, which costs nothing, and does it when its turn comes."""
        if tls is None:
            return await self._connected(accepted, None)
        try:
            async with asyncio.timeout(self._deadlines.handshake):
                await _readable(accepted)
                await self._turn.acquire()
        except BaseException:
            accepted.close()
            raise
        try:
            handshake = asyncio.create_task(self._connected(accepted, tls))
            try:
                for _ in range(PASSES):
                    if handshake.done():
                        break
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                handshake.cancel()
                raise
        finally:
            self._turn.release()
        return await handshake

    async def _connected(
        self, accepted: socket.socket, tls: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            accepted,
            ssl=tls,
            ssl_handshake_timeout=self._deadlines.handshake if tls else None,
            ssl_shutdown_timeout=self._deadlines.closing if tls else None,
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _ended(tasks: Collection[asyncio.Task[None]], seconds: float) -> None:
    """Waits until the tasks have ended, at most so many seconds."""
    if tasks:
        await asyncio.wait(tasks, timeout=max(seconds, 0.0))


async def _readable(accepted: socket.socket) -> None:
    """Waits until the socket has data, its end, or a connection to accept."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(accepted, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(accepted)


def _open(address: Address, answer_seconds: float) -> socket.socket:
    """Returns the listening socket. Connections inherit its options: the kernel keeps little of an answer, and closes
    a connection whose client does not read it.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        if (unread := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:  # on Linux
            opened.setsockopt(socket.IPPROTO_TCP, unread, round(answer_seconds * 1000))
        opened.setblocking(False)
        opened.bind((address.host, address.port))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        taken = "; --bind ADDR:PORT chooses another one, port 0 any that is free"
        hint = taken if error.errno in (errno.EADDRINUSE, errno.EACCES) and address.port else ""
        raise OSError(error.errno, f"cannot listen on {address}: {error.strerror}{hint}") from error
    return opened
