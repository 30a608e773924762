"""One connection, from its handshake to its end: HTTP/1.1 for an ASGI application, with a deadline for each state.

Usual servers have no deadline for a request's head, and start a task for each request. Here every state of a connection
has a deadline, and a connection that exceeds it is aborted; the requests are served one after the other in the task of
the connection, and an answer is one write. ``app.requests`` is the parser.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from typing import Any, Final

import structlog
from starlette.types import ASGIApp, Message, Scope

from app.requests import End, Head, Invalid, Part, Requests, answer_head

log = structlog.get_logger("seiretsu.http")

CLIENT: Final = "client"
"""The key in the state of a scope that has the name in the client's certificate."""
READ_SIZE = 2**16
DRIPPED = 1024
"""After its answer, a client that sends fewer bytes at a time is cut off: it is not just finishing a large body."""
_NO_REQUEST: Final = b"this is no HTTP/1.1 request, or its head is too long\n"


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The seconds that a connection may spend in each state.

    `idle`: between requests. This is longer than the 90 s for which the API server keeps a connection, so that the API
    server closes it first and no connection is closed while a call is being sent on it. A new connection without data
    is idle too: the API server opens some in advance. `head`: from the first byte of a request to the end of its
    headers. `call`: from there to the end of the answer. `closing`: from an orderly close until the connection is
    aborted.
    """

    handshake: float = 5.0
    idle: float = 120.0
    head: float = 5.0
    call: float = 60.0
    closing: float = 1.0


class State(enum.Enum):
    """The state of a connection; each has a deadline."""

    IDLE = enum.auto()
    HEAD = enum.auto()
    CALL = enum.auto()
    CLOSING = enum.auto()


class Exchange:
    """One request and its answer: what an ASGI application receives and sends. ``following`` returns the next part that
    the client sends, ``ends`` whether the connection ends with this answer.
    """

    def __init__(
        self,
        request: Head,
        following: Callable[[], Awaitable[Part | None]],
        writer: asyncio.StreamWriter,
        *,
        ends: bool,
    ) -> None:
        self._request = request
        self._following = following
        self._writer = writer
        self._unsent = b""
        """The head of the answer, which is sent with the beginning of its body."""
        self._told_to_continue = not request.waits
        self.ends = ends or not request.keep_alive
        self.read = False
        """Whether the body has been received to its end."""
        self.answered = False

    async def receive(self) -> Message:
        """Returns a piece of the body; after its end, or if no more arrives, that the client has disconnected."""
        if not self._told_to_continue:
            self._told_to_continue = True
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        match None if self.read else await self._following():
            case bytes(body):
                return {"type": "http.request", "body": body, "more_body": True}
            case End():
                self.read = True
                return {"type": "http.request", "body": b"", "more_body": False}
        self.ends = True
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Sends an answer. Head and body are sent in one write, because a write is the most expensive step of a call.

        An answer without a length ends with its connection.
        """
        if message["type"] == "http.response.start":
            headers = message.get("headers", ())
            names = {name.lower(): value for name, value in headers}
            self.ends |= b"content-length" not in names or names.get(b"connection") == b"close"
            self._unsent = answer_head(message["status"], headers, _date(int(time.time())), close=self.ends)
            return
        body = b"" if self._request.method == "HEAD" else message.get("body", b"")
        self._writer.write(self._unsent + body)
        self._unsent = b""
        self.answered = not message.get("more_body", False)
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()


class Connection:
    """Serves the requests of one socket, one after the other. When `run()` returns, the socket is closed.

    `draining` returns whether each answer is now the last of its connection.
    """

    def __init__(
        self,
        app: ASGIApp,
        draining: Callable[[], bool],
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        deadlines: Deadlines,
    ) -> None:
        self._app = app
        self._draining = draining
        self._reader, self._writer = streams
        self._deadlines = deadlines
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._requests = Requests()
        self.state = State.IDLE
        self.since = 0.0  # when it entered the state; the loop's own time has only milliseconds

    async def run(self) -> None:
        """Serves until either side closes. Never raises: an error on one socket must not affect the server."""
        try:
            await self._serve()
        except asyncio.CancelledError as error:  # aborted: by a deadline or at the end of the shutdown
            release(error)
        except Exception as error:
            log.exception("A connection was closed because of a bug in Seiretsu")
            release(error)
        finally:
            self.close()
            self._requests.close()
            self._task = None

    def close(self) -> None:
        """Closes in an orderly way; aborts if that exceeds its deadline."""
        self._enter(State.CLOSING)
        self._writer.close()

    def cut(self) -> None:
        """Aborts the connection immediately, with any call in flight."""
        self._writer.transport.abort()
        if self._task is not None:
            self._task.cancel()

    async def _serve(self) -> None:
        self._enter(State.IDLE)
        while True:
            match await self._next():
                case Head() as request:
                    self._enter(State.CALL)
                    exchange = await self._answer(request)
                    if exchange.ends:
                        if not exchange.read:
                            await self._discard()
                        return
                    self._enter(State.IDLE)
                case Invalid(status):
                    await self._refuse(status)
                    return
                case _:
                    return

    async def _next(self) -> Part | None:
        """Returns the next part of what the client sends; None if it sends no more."""
        parts = self._requests.parts
        while not parts:
            data = await self._read()
            if not data:
                return None
            if self.state is State.IDLE:
                self._enter(State.HEAD)
            self._requests.feed(data)
        return parts.popleft()

    async def _read(self) -> bytes:
        """Returns bytes of the client; none if it has closed the connection."""
        try:
            return await self._reader.read(READ_SIZE)
        except OSError as error:
            release(error)
            return b""

    async def _answer(self, request: Head) -> Exchange:
        """Lets the application answer a request."""
        exchange = Exchange(request, self._next, self._writer, ends=self._draining())
        try:
            await self._app(self._scope(request), exchange.receive, exchange.send)
        except Exception as error:
            log.exception("A request failed because of a bug in Seiretsu", path=request.path)
            release(error)
            exchange.ends = True
        parts = self._requests.parts
        if not exchange.read and parts and isinstance(parts[0], End):
            parts.popleft()
            exchange.read = True
        exchange.ends |= not exchange.answered or not exchange.read or self._draining()
        return exchange

    def _scope(self, request: Head) -> Scope:
        transport = self._writer.transport
        certificate = transport.get_extra_info("peercert")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.version,
            "method": request.method,
            "scheme": "http" if transport.get_extra_info("sslcontext") is None else "https",
            "path": request.path,
            "raw_path": request.raw_path,
            "query_string": request.query,
            "root_path": "",
            "headers": request.headers,
            "client": transport.get_extra_info("peername")[:2],
            "server": transport.get_extra_info("sockname")[:2],
            "state": {CLIENT: common_name(certificate)},
        }

    async def _refuse(self, status: int) -> None:
        """Answers bytes that are no request. More of them may follow."""
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(_NO_REQUEST))]
        self._writer.write(answer_head(status, headers, _date(int(time.time())), close=True) + _NO_REQUEST)
        await self._discard()

    async def _discard(self) -> None:
        """Reads and discards what a client still sends, until the deadline, so that it can read the answer: closing a
        socket with unread data resets the connection, and the client would see only the reset.
        """
        self._enter(State.CLOSING)
        while len(await self._read()) >= DRIPPED:
            pass

    def _enter(self, state: State) -> None:
        """Enters a state and sets its deadline. A timer that expires before the deadline is kept: it reads the new
        deadline when it expires. So most calls neither set nor cancel a timer.
        """
        if self.state is State.CLOSING and self._deadline:
            return
        self.state, self.since = state, time.monotonic()
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


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """Returns the common name of a verified client certificate, as `ssl` describes it; None without a certificate."""
    if not certificate:
        return None
    names = (value for part in certificate.get("subject", ()) for name, value in part if name == "commonName")
    return next(names, "")


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    """Returns the field Date of an answer in this second."""
    return formatdate(second, usegmt=True).encode()


def release(error: BaseException) -> None:
    """Clears the local variables of the error's frames: through them it may refer to itself and to the connection."""
    traceback.clear_frames(error.__traceback__)
    error.__traceback__ = None
