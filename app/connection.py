"""One connection, from its handshake to its end: Hypercorn's HTTP/1.1 protocol with a deadline for each state.

Hypercorn's protocol is used unchanged, but not its socket layer: that layer waits without limit for a request head that
is sent byte by byte, lets a client switch to HTTP/2 (`Upgrade: h2c`), and blocks forever on a response whose request
body was not read completely. Here every state of a connection has a deadline; a connection that exceeds it is
aborted, also one whose client does not read its answer.

The protocol is not a public interface of Hypercorn. So this is the only module that imports Hypercorn, and
`tests/app/test_hypercorn.py` fails for a version with which it was not tested.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

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

CLIENT: Final = "client"
"""The key in the state of a scope that has the name in the client's certificate."""
STREAM: Final = "stream"
"""The key in the state of a scope that has a function: called before an answer begins, it makes the answer a stream."""
READ_SIZE = 2**16
WRITE_SIZE = 2**16
"""So many bytes of an answer are written at a time: the next ones when the client has taken them."""
_END_OF_HEAD: Final = b"\r\n\r\n"
DRIPPED = 1024
"""After its answer, a client that sends fewer bytes at a time is cut off: it is not just finishing a large body."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The seconds that a connection may spend in each state.

    `handshake`: until the first bytes, and from there to the end of the TLS handshake. This is as long as the API
    server waits (Go's `TLSHandshakeTimeout`): a process that has too little CPU for a while does not give up before its
    caller.

    `idle`: between requests. This is longer than the 90 s for which the API server keeps a connection, so that the API
    server closes it first and no connection is closed while a call is being sent on it. A new connection without data
    is idle too: the API server opens some in advance. `head`: from the first byte of a request to the end of its
    headers. `call`: from there to the end of the answer. `answer`: from when the client has to take the answer until it
    has taken it. `stream`: between two parts of an answer that is a stream, for each of which `answer` counts.
    `closing`: from an orderly close until the connection is aborted.
    """

    handshake: float = 10.0
    idle: float = 120.0
    head: float = 5.0
    call: float = 60.0
    answer: float = 10.0
    stream: float = 60.0
    closing: float = 1.0


class ConnectionStage(enum.Enum):
    """The state of a connection; each has a deadline."""

    IDLE = enum.auto()
    HEAD = enum.auto()
    CALL = enum.auto()
    ANSWER = enum.auto()
    STREAM = enum.auto()
    CLOSING = enum.auto()


class Protocol:
    """The settings and the state that the connections of one server share."""

    def __init__(self) -> None:
        self.config = _config()
        self.context = WorkerContext(None)

    def drain(self) -> None:
        """Makes every answer from now on say `Connection: close` and end its connection."""
        self.config.keep_alive_max_requests = 0

    async def end(self) -> None:
        """Ends each connection after the call that it serves now."""
        await self.context.terminated.set()


@dataclass(slots=True)
class _Form:
    """Whether the answer of a connection is a stream. An application that failed keeps the scope of its request, and
    with it what the scope's state refers to: this, and not the connection.
    """

    streams: bool = False

    def stream(self) -> None:
        """Makes the answer that begins now a stream: each part is written at once, and has a deadline of its own."""
        self.streams = True


class ServedConnection:
    """Serves the requests of one socket, one after the other. When `run()` returns, the socket is closed."""

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
        self._gathered: list[bytes] = []
        """Parts of an answer that are not written yet."""
        self._gathered_bytes = 0
        self._form = _Form()
        self._protocol: H11Protocol | None = None
        self.state = ConnectionStage.IDLE
        self.used = False  # whether it has brought a call
        self.since = 0.0  # when it entered the state; the loop's own time has only milliseconds

    async def run(self) -> None:
        """Serves until either side closes. Never raises: an error on one socket must not affect the server."""
        try:
            try:
                await self._serve()
            except BaseException as error:
                release(error)
                raise
        except* asyncio.CancelledError:
            pass  # aborted: by a deadline or at the end of the shutdown
        except* (OSError, H2CProtocolRequiredError, H2ProtocolAssumedError):  # in groups, from the protocol's tasks
            pass  # the client has closed the connection, or asked for a protocol that is not supported
        except* Exception:
            log.exception("A connection was closed because of a bug in Seiretsu")
        finally:
            self.close()
            self._finalizer_removal()

    def _finalizer_removal(self) -> None:
        """Breaks all reference cycles through this connection. The garbage collector starts by the number of objects:
        a thousand closed connections, each with half a megabyte of TLS buffers, would wait for it.
        """
        if self._protocol is not None:
            self._protocol.send = _unheard  # an exception of the HTTP library refers to its protocol
        self._protocol = self._task = None

    def close(self) -> None:
        """Closes in an orderly way; aborts if that exceeds its deadline. An incomplete answer is discarded."""
        self._taken()
        self._enter(ConnectionStage.CLOSING)
        self._writer.close()

    def _end(self) -> None:
        """Closes after the last answer. A client that is still sending gets time to read the answer: closing a socket
        with unread data resets the connection, and the client would see only the reset.
        """
        if self._protocol is not None and self._protocol.connection.their_state is h11.SEND_BODY:
            self._enter(ConnectionStage.CLOSING)  # data that still arrives is read and discarded, until the deadline
        else:
            self.close()

    def cut(self) -> None:
        """Aborts the connection immediately, with any call in flight."""
        self._writer.transport.abort()
        if self._task is not None:
            self._task.cancel()

    async def _serve(self) -> None:
        socket = self._writer.get_extra_info("socket")
        client = common_name(self._writer.get_extra_info("peercert"))
        async with TaskGroup(self._loop) as tasks:
            self._protocol = H11Protocol(
                self._app,
                self._shared.config,
                self._shared.context,
                tasks,
                ConnectionState({CLIENT: client, STREAM: self._form.stream}),
                self._writer.get_extra_info("ssl_object") is not None,
                parse_socket_addr(socket.family, socket.getpeername()),
                parse_socket_addr(socket.family, socket.getsockname()),
                self._send,
            )
            self._protocol.connection = _Parser(
                h11.SERVER, max_incomplete_event_size=self._shared.config.h11_max_incomplete_size
            )
            self._writer.transport.set_write_buffer_limits(high=1, low=0)  # a wait ends when nothing is left to send
            self._enter(ConnectionStage.IDLE)
            while not self._reader.at_eof():
                data = await self._reader.read(READ_SIZE)
                if (
                    self.state is ConnectionStage.CLOSING
                ):  # the answer has been sent: data that still arrives is discarded
                    if len(data) < DRIPPED:
                        break
                    continue
                if self.state is ConnectionStage.IDLE and data:
                    self._enter(ConnectionStage.HEAD)
                await self._protocol.handle(RawData(data))
            await self._protocol.handle(Closed())

    async def _send(self, event: Event) -> None:
        """Does what the protocol asks of the socket. Head and body of a small answer are sent in one write, because a
        write is the most expensive step of a call. The end of an answer is waited for before the protocol continues:
        what a client does not read is part of its call, with a deadline, and is counted with its request.
        """
        if isinstance(event, RawData):
            if event.data:
                self._gathered.append(event.data)
                self._gathered_bytes += len(event.data)
            if self._gathered_bytes > WRITE_SIZE:
                await self._write_large()
            elif self._gathered and (self._form.streams or not self._incomplete()):
                await self._write(b"".join(self._taken()))
        elif isinstance(event, Updated):
            self._form.streams = False
            self._enter(ConnectionStage.IDLE if event.idle else ConnectionStage.CALL)
        elif isinstance(event, Closed):
            self._end()

    def _incomplete(self) -> bool:
        """Whether more of the answer will follow."""
        return self._protocol is not None and self._protocol.connection.our_state is h11.SEND_BODY

    def _taken(self) -> list[bytes]:
        """Returns what was gathered, which is gathered no more."""
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        return gathered

    async def _write_large(self) -> None:
        """Writes what was gathered without a copy of it, and in pieces: encryption takes time, and needs memory for
        what the client has not taken.
        """
        for part in self._taken():
            whole = memoryview(part)
            for start in range(0, len(part), WRITE_SIZE):
                await self._write(whole[start : start + WRITE_SIZE])
                await asyncio.sleep(0)

    async def _write(self, data: bytes | memoryview) -> None:
        """Writes, and waits until the client has taken it: all but what the kernel buffers, and with TLS another 64
        KiB. What an aborted connection has not sent is lost.
        """
        if self._writer.is_closing():
            return
        self._writer.write(data)
        if self._writer.transport.get_write_buffer_size():
            if self.state in (ConnectionStage.CALL, ConnectionStage.STREAM):
                self._enter(ConnectionStage.ANSWER)
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()
        if self._form.streams:
            self._enter(ConnectionStage.STREAM)

    def _enter(self, state: ConnectionStage) -> None:
        """Enters a state and sets its deadline. A timer that expires before the deadline is kept: it reads the new
        deadline when it expires. So most calls neither set nor cancel a timer.
        """
        if self.state is ConnectionStage.CLOSING and self._deadline:
            return
        self.state, self.since = state, time.monotonic()
        self.used = self.used or state is ConnectionStage.CALL
        self._deadline = self._loop.time() + self._allowed(state)
        if self._timer is None or self._timer.when() > self._deadline:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._expire)

    def _allowed(self, state: ConnectionStage) -> float:
        match state:
            case ConnectionStage.IDLE:
                return self._deadlines.idle
            case ConnectionStage.HEAD:
                return self._deadlines.head
            case ConnectionStage.CALL:
                return self._deadlines.call
            case ConnectionStage.ANSWER:
                return self._deadlines.answer
            case ConnectionStage.STREAM:
                return self._deadlines.stream
            case ConnectionStage.CLOSING:
                return self._deadlines.closing

    def _expire(self) -> None:
        self._timer = None
        if self._loop.time() < self._deadline:
            self._set_timer()
        elif self.state is ConnectionStage.IDLE:
            self.close()
        else:
            self.cut()


class _Parser(h11.Connection):
    """Parses requests, more strictly than h11 does: what a proxy before this server may read in another way is refused.

    h11 raises an error for bytes that are not HTTP from a method of the error, which so refers to itself, and through
    the frames that called it to the connection.
    """

    def __init__(self, role: type[h11.SERVER], max_incomplete_event_size: int) -> None:
        super().__init__(role, max_incomplete_event_size)
        self._chunked = False

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Returns the next event. Raises ``RemoteProtocolError`` for what is not strictly HTTP/1.1."""
        try:
            state = self.their_state
            if state is h11.IDLE:
                arrived = self._arrived()
                head = arrived[: end if (end := arrived.find(_END_OF_HEAD)) >= 0 else None]
                _check_lines(head)
                event = super().next_event()
                return self._begun(event, head.lower()) if isinstance(event, h11.Request) else event
            if self._chunked and state is h11.SEND_BODY:
                before = self._arrived()
                event = super().next_event()
                if isinstance(event, h11.EndOfMessage):
                    _check_end(event, before[: len(before) - len(self._arrived())])
                return event
            return super().next_event()
        except h11.RemoteProtocolError as error:
            release(error)
            raise

    def _arrived(self) -> bytes:
        """What has arrived and was not parsed yet."""
        data, _ = self.trailing_data
        return data

    def _begun(self, request: h11.Request, head: bytes) -> h11.Request:
        """Returns the request without the field ``Upgrade``, which a server may ignore: Hypercorn would change to
        HTTP/2 or to a websocket. ``head`` is in small letters.
        """
        self._chunked = b"\ntransfer-encoding:" in head
        if b"\nupgrade:" not in head:
            return request
        return h11.Request(
            method=request.method,
            headers=[field for field in request.headers if field[0] != b"upgrade"],
            target=request.target,
            http_version=request.http_version,
        )


def _check_lines(head: bytes) -> None:
    """Refuses lines that do not end with CR LF, and fields that continue in the next line: parsers differ on them."""
    if head.count(b"\n") != head.count(b"\r\n"):
        raise h11.RemoteProtocolError("a line ends without CR", error_status_hint=400)
    if b"\n " in head or b"\n\t" in head:
        raise h11.RemoteProtocolError("a field continues in the next line", error_status_hint=400)


def _check_end(event: h11.EndOfMessage, framing: bytes) -> None:
    """Refuses the end of a body in chunks with fields, or with other lines than HTTP's."""
    _check_lines(framing)
    if event.headers:
        raise h11.RemoteProtocolError("fields after a body are not read", error_status_hint=400)


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """Returns the common name of a verified client certificate, as `ssl` describes it; None without a certificate."""
    if not certificate:
        return None
    names = (value for part in certificate.get("subject", ()) for name, value in part if name == "commonName")
    return next(names, "")


async def _unheard(event: Event) -> None:
    """Discards an event for a socket that is closed."""


def release(error: BaseException) -> None:
    """Clears the local variables of the error's frames: through them it may refer to itself and to the connection."""
    traceback.clear_frames(error.__traceback__)
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            release(inner)


def _config() -> Config:
    """Returns Hypercorn's settings: a limit for request heads, and none for the number of requests of a connection.

    With the default of 1,000 requests, calls of the API server that are in flight fail at every thousandth request.
    """
    config = Config()
    config.h11_max_incomplete_size = 16 * 1024
    config.keep_alive_max_requests = 10**9
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = logging.getLogger("seiretsu.http")
    return config
