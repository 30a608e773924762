"""One connection, from its handshake to its end: Hypercorn's HTTP/1.1 protocol under deadlines of our own.

Hypercorn's protocol is used as it is; its socket layer is not, because there a head that is dripped byte by byte is
waited for, a client may switch to HTTP/2 by asking (`Upgrade: h2c`), and a response whose request body was not read
to its end waits for ever. Here every state of a connection has a deadline, and a connection that misses it is cut.

The protocol is no public interface of Hypercorn: this is the only module that imports Hypercorn, and
`tests/app/test_hypercorn.py` fails for a version that it was not tried with.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import traceback
from dataclasses import dataclass
from typing import cast

import h11
import structlog
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H2CProtocolRequiredError, H2ProtocolAssumedError, H11Protocol
from hypercorn.typing import ASGIFramework, ConnectionState
from hypercorn.utils import parse_socket_addr
from starlette.types import ASGIApp

log = structlog.get_logger("seiretsu.http")

READ_SIZE = 2**16
DRIPPED = 1024
"""Who sends fewer bytes at a time does not hurry to get rid of a body."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds a connection may spend in each state.

    `idle` between requests: longer than the 90 s for which the API server keeps a connection, so that it is the one to
    close, never in the middle of a call it is just sending. A new connection that says nothing is idle too: the API
    server opens some in reserve. `head` from the first byte of a request to the end of its headers, `call` from there
    to the end of the answer, `closing` until a connection that was told to close is cut.
    """

    handshake: float = 5.0
    idle: float = 120.0
    head: float = 5.0
    call: float = 60.0
    closing: float = 1.0


class State(enum.Enum):
    """What a connection is doing."""

    IDLE = enum.auto()
    HEAD = enum.auto()
    CALL = enum.auto()
    CLOSING = enum.auto()


class Protocol:
    """What the connections of one server have in common."""

    def __init__(self) -> None:
        self.config = _config()
        self.context = WorkerContext(None)

    def drain(self) -> None:
        """From now on every answer says `Connection: close`, and ends its connection."""
        self.config.keep_alive_max_requests = 0

    async def end(self) -> None:
        """No connection is used again after the call that it carries."""
        await self.context.terminated.set()


class Connection:
    """Serves the requests of one socket, one after the other; `await run()` ends with the socket closed."""

    def __init__(
        self,
        app: ASGIApp,
        protocol: Protocol,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        deadlines: Deadlines,
    ) -> None:
        self._app = ASGIWrapper(cast(ASGIFramework, app))
        self._shared = protocol
        self._reader, self._writer = streams
        self._deadlines = deadlines
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._unsent: list[bytes] = []
        self._protocol: H11Protocol | None = None
        self.state = State.IDLE

    async def run(self) -> None:
        """Serve until either side closes. Never raises: what goes wrong on one socket is no concern of the server."""
        try:
            try:
                await self._serve()
            except BaseException as error:
                release(error)
                raise
        except* asyncio.CancelledError:
            pass  # cut: by a deadline or at the end of the shutdown
        except* (OSError, H2CProtocolRequiredError, H2ProtocolAssumedError):  # in groups, from the protocol's tasks
            pass  # gone, or asking for a protocol that is not spoken here
        except* Exception:
            log.exception("A connection was closed because of a bug in Seiretsu")
        finally:
            self.close()
            self._let_go()

    def _let_go(self) -> None:
        """Refer to nothing that refers to us: garbage is looked for by the number of objects, and a thousand ended
        connections, each with half a megabyte of TLS buffers, would wait for it.
        """
        if self._protocol is not None:
            self._protocol.send = _unheard  # an error of the HTTP library keeps its protocol
        self._protocol = self._task = None

    def close(self) -> None:
        """Close in an orderly way, then cut."""
        self._flush()
        self._enter(State.CLOSING)
        self._writer.close()

    def _end(self) -> None:
        """Close after the last answer. A caller who is still sending has a moment to read it: a connection that is
        closed on unread data is reset, and that is all the caller would see.
        """
        if self._protocol is not None and self._protocol.connection.their_state is h11.SEND_BODY:
            self._flush()
            self._enter(State.CLOSING)  # what still comes is read and forgotten, until its deadline
        else:
            self.close()

    def cut(self) -> None:
        """End now, whatever is in flight."""
        self._writer.transport.abort()
        if self._task is not None:
            self._task.cancel()

    async def _serve(self) -> None:
        socket = self._writer.get_extra_info("socket")
        async with TaskGroup(self._loop) as tasks:
            self._protocol = H11Protocol(
                self._app,
                self._shared.config,
                self._shared.context,
                tasks,
                ConnectionState({}),
                self._writer.get_extra_info("ssl_object") is not None,
                parse_socket_addr(socket.family, socket.getpeername()),
                parse_socket_addr(socket.family, socket.getsockname()),
                self._send,
            )
            self._enter(State.IDLE)
            while not self._reader.at_eof():
                data = await self._reader.read(READ_SIZE)
                if self.state is State.CLOSING:  # an answer was given already: what still comes is read and forgotten
                    if len(data) < DRIPPED:
                        break
                    continue
                if self.state is State.IDLE and data:
                    self._enter(State.HEAD)
                await self._protocol.handle(RawData(data))
            await self._protocol.handle(Closed())

    async def _send(self, event: Event) -> None:
        """What the protocol asks of the socket. Head and body of an answer leave as one: a write is the dearest step of
        a call.
        """
        if isinstance(event, RawData):
            if event.data:
                self._unsent.append(event.data)
                if len(self._unsent) == 1:
                    self._loop.call_soon(self._flush)
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()
        elif isinstance(event, Updated):
            self._flush()
            self._enter(State.IDLE if event.idle else State.CALL)
        elif isinstance(event, Closed):
            self._end()

    def _flush(self) -> None:
        if self._unsent:
            self._writer.write(b"".join(self._unsent))
            self._unsent.clear()

    def _enter(self, state: State) -> None:
        """Begin a state and its deadline. A timer that is set already and rings in time is left alone: it finds the new
        deadline when it does, and most calls never see one.
        """
        if self.state is State.CLOSING and self._deadline:
            return
        self.state = state
        self._deadline = self._loop.time() + self._allowed(state)
        if self._timer is None or self._timer.when() > self._deadline:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._expire)

    def _allowed(self, state: State) -> float:
        match state:
            case State.IDLE:
                return self._deadlines.idle
            case State.HEAD:
                return self._deadlines.head
            case State.CALL:
                return self._deadlines.call
            case State.CLOSING:
                return self._deadlines.closing

    def _expire(self) -> None:
        self._timer = None
        if self._loop.time() < self._deadline:
            self._set_timer()
        elif self.state is State.IDLE:
            self.close()
        else:
            self.cut()


async def _unheard(event: Event) -> None:
    """What is said to a socket that is gone."""


def release(error: BaseException) -> None:
    """Let go of what the frames hold that an error went through: by way of them it may refer to itself, and to us."""
    traceback.clear_frames(error.__traceback__)
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            release(inner)


def _config() -> Config:
    """Hypercorn's settings: its limits on heads, and none on how many requests a connection may carry.

    The default of 1,000 requests makes the API server's calls in flight fail at every thousandth.
    """
    config = Config()
    config.h11_max_incomplete_size = 16 * 1024
    config.keep_alive_max_requests = 10**9
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = logging.getLogger("seiretsu.http")
    return config
