"""Limits on requests, checked before a handler runs. The ASGI server has no such limits.

Any client that reaches the port can send requests, so every request is read with a size limit and a deadline, and is
refused with the status that says why. A body is read completely before the handler runs, so that a handler can neither
wait for data nor leave data unread. `app.application` calls these functions in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs
from weakref import WeakSet

from starlette.types import Receive, Scope, Send

from api import duration


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one listener.

    `head_bytes` is for a request's path and headers. `body_bytes` is controller-runtime's limit: enough for a review
    with two objects of 3 MiB, the most that the API server takes. `held_bytes` is for all bodies and answers of more
    than `small_bytes` together; smaller ones are bounded by the number of connections, and are never refused for what
    others send.
    `body_seconds` is the time for a body to arrive, `wait_seconds` the time that a call may wait for one of `calls`
    places, `linger_seconds` the time that a client gets to read a refusal. `answer_seconds` is kept of the time for
    which a client waits (`?timeout=`): the rest is the time in which its call must begin.
    """

    head_bytes: int = 16 * 1024
    body_bytes: int = 7 * 1024 * 1024
    held_bytes: int = 128 * 1024 * 1024
    small_bytes: int = 64 * 1024
    body_seconds: float = 5.0
    calls: int = 64
    wait_seconds: float = 1.0
    linger_seconds: float = 1.0
    answer_seconds: float = 0.5


class RefusedCallError(Exception):
    """A request is refused, with an HTTP status and a sentence for the client."""

    def __init__(self, status: int, message: str, allow: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.allow = allow


class Bodies:
    """The request bodies and the answers of one listener. ``held`` is the number of their bytes in memory: of an answer
    until its client has taken it.

    While the large ones are too many together, the request that holds the most is refused, whichever that is: so nobody
    can make others fail without sending more than they do. Each request has a task of its own.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held = 0
        self._large: dict[asyncio.Task[Any], int] = {}
        """The bytes of each request that holds more than a small one."""
        self._large_bytes = 0
        self._evicted: WeakSet[asyncio.Task[Any]] = WeakSet()
        """The tasks that were cancelled because they held the most, until they know."""

    async def read(self, receive: Receive, body: bytearray) -> None:
        """Reads a whole body into ``body`` and counts the bytes that arrive, regardless of Content-Length. The caller
        must call ``release`` afterwards, also if this raises.
        """
        limits = self._limits
        try:
            async with asyncio.timeout(limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RefusedCallError(400, "the connection was closed before the body was complete")
                    chunk = message.get("body", b"")
                    body += chunk
                    self.held += len(chunk)
                    if len(body) > limits.body_bytes:
                        raise RefusedCallError(413, f"the body is larger than {limits.body_bytes} bytes")
                    if len(body) > limits.small_bytes:
                        self._count(len(body))
                    if not message.get("more_body", False):
                        return
        except TimeoutError:
            seconds = f"{limits.body_seconds:g}"
            raise RefusedCallError(408, f"the body was not complete within {seconds} seconds") from None

    def release(self, body: bytearray) -> None:
        """Frees the memory of a body: the frames of an exception may still refer to it."""
        self.drop(len(body))
        body.clear()

    def hold(self, size: int) -> None:
        """Counts an answer of so many bytes before it is sent. Raises ``RefusedCallError`` if it is the largest while
        there is too much; its task is cancelled if it becomes that. ``drop`` it afterwards, also if this raises.
        """
        self.held += size
        if size > self._limits.small_bytes:
            self._count(size)

    def drop(self, size: int) -> None:
        """Counts it no more."""
        self.held -= size
        if size > self._limits.small_bytes and (task := asyncio.current_task()) is not None:
            self._large_bytes -= self._large.pop(task, 0)

    def refused(self) -> bool:
        """Whether this task was cancelled because its request held the most, and for no other reason."""
        task = asyncio.current_task()
        if task is None or task not in self._evicted:
            return False
        self._evicted.discard(task)
        return task.uncancel() == 0

    def _count(self, size: int) -> None:
        """Counts that the request of this task holds so many bytes, and refuses the largest while all are too many."""
        task = asyncio.current_task()
        assert task is not None
        self._large_bytes += size - self._large.get(task, 0)
        self._large[task] = size
        while self._large_bytes > self._limits.held_bytes:
            largest = max(self._large, key=self._large.__getitem__)
            self._large_bytes -= self._large.pop(largest)
            if largest is task:
                raise too_many()
            self._evicted.add(largest)
            largest.cancel()


def too_many() -> RefusedCallError:
    """Returns the refusal of a request that holds the most while all hold too much."""
    return RefusedCallError(429, "too many large requests at once: try again")


class Places:
    """Limits the number of calls that are answered at once."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(limits.calls)

    async def take(self) -> None:
        """Waits for a place; ``leave`` releases it."""
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise RefusedCallError(429, f"{self._limits.calls} calls are being answered already: try again") from None

    def leave(self) -> None:
        """Releases the place for another call."""
        self._free.release()


class OneAtATime:
    """Lets one after the other do what takes long: of each user one may wait, and so many users at most. A user's
    later question takes the place of his earlier one that still waits: its answer is not wanted any more.
    """

    def __init__(self, most: int, full: str) -> None:
        """``full`` is the sentence for who finds no place to wait."""
        self._most = most
        self._full = full
        self._busy = False
        self._waiting: dict[str, asyncio.Future[None]] = {}
        """By user, in their order."""

    @contextlib.asynccontextmanager
    async def of(self, user: str) -> AsyncIterator[None]:
        """A user's turn. Raises `RefusedCallError` if there is no place to wait, or a later question takes it."""
        if self._busy:
            await self._wait(user)
        self._busy = True
        try:
            yield
        finally:
            self._next()

    async def _wait(self, user: str) -> None:
        earlier = self._waiting.get(user)
        if earlier is None and len(self._waiting) >= self._most:
            raise RefusedCallError(429, self._full)
        if earlier is not None and not earlier.done():  # else it was cancelled, and its task has not run yet
            earlier.set_exception(RefusedCallError(429, "a later question of the same user has taken its place"))
        turn = self._waiting[user] = asyncio.get_running_loop().create_future()
        try:
            await turn
        except asyncio.CancelledError:
            if self._waiting.get(user) is turn:
                del self._waiting[user]
            elif not turn.cancelled() and turn.exception() is None:
                self._next()  # it was this one's turn already
            raise

    def _next(self) -> None:
        """Gives the turn to who has waited longest; it stays taken meanwhile, so that nobody comes in between."""
        self._busy = False
        while self._waiting and not self._busy:
            turn = self._waiting.pop(next(iter(self._waiting)))
            if not turn.done():  # else it was cancelled, and its task has not run yet
                turn.set_result(None)
                self._busy = True


@lru_cache(maxsize=64)
def client_seconds(query: bytes) -> float | None:
    """Returns for how long the client waits for its answer: the API server says it with each admission call, as
    `?timeout=5s`. None if the query does not say it.
    """
    try:
        given = parse_qs(query.decode()).get("timeout", [""])[-1]
        return duration.parse(given).total_seconds() if given else None
    except ValueError:
        return None


@contextlib.asynccontextmanager
async def in_time(query: bytes, limits: Limits) -> AsyncIterator[None]:
    """Returns a context in which a call is read and gets its place. It ends while the client still waits for an answer:
    a call that begins later would be answered to nobody, and delay the calls behind it.
    """
    waits = client_seconds(query)
    if waits is None:
        yield
        return
    try:
        async with asyncio.timeout(max(waits - limits.answer_seconds, 0.0)):
            yield
    except TimeoutError:
        raise RefusedCallError(
            504, f"the call could not begin within the {waits:g} s for which its client waits"
        ) from None


def check_client(name: str | None, names: Sequence[str]) -> None:
    """Refuses a client by the name in its certificate, which TLS has verified; None if it has sent none."""
    if name is None:
        raise RefusedCallError(403, "this call needs a client certificate of the CA in --client-ca")
    if names and name not in names:
        raise RefusedCallError(
            403, f"the name in the client certificate, {name[:100]!r}, is none of {', '.join(names)}"
        )


def check_page(scope: Scope, limits: Limits) -> dict[bytes, bytes]:
    """Returns the headers. Refuses a request for a page that has another method than GET or HEAD, or a body."""
    length, headers = _length(scope, limits)
    if scope["method"] not in ("GET", "HEAD"):
        raise RefusedCallError(405, "this path is read with GET", allow="GET, HEAD")
    if length.strip(b"0") or b"transfer-encoding" in headers:
        raise RefusedCallError(413, "this path takes no body")
    return headers


def check_call(scope: Scope, limits: Limits) -> None:
    """Refuses a request to a hook that has another method, encoding or media type, or too long a body."""
    _, headers = _length(scope, limits)
    if scope["method"] != "POST":
        raise RefusedCallError(405, "this path takes AdmissionReviews by POST", allow="POST")
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding != b"identity":
        raise RefusedCallError(415, "send the body without Content-Encoding")
    media_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise RefusedCallError(415, "send the body as Content-Type: application/json")


def _length(scope: Scope, limits: Limits) -> tuple[bytes, dict[bytes, bytes]]:
    """Returns the Content-Length and the headers. A request with both a length and a Transfer-Encoding is refused: a
    proxy before this server may use the other one of them, and take the rest of the body for the next request.
    """
    head = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if head + len(scope["path"]) + len(scope["query_string"]) > limits.head_bytes:
        raise RefusedCallError(431, f"the head of the request is larger than {limits.head_bytes} bytes")
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if b"transfer-encoding" in headers and b"content-length" in headers:
        raise RefusedCallError(400, "send either Content-Length or Transfer-Encoding")
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length[:20]) > limits.body_bytes:
        raise RefusedCallError(413, f"the body is larger than {limits.body_bytes} bytes")
    return length, headers


async def refuse(refusal: RefusedCallError, receive: Receive, send: Send, linger_seconds: float) -> None:
    """Sends the refusal and closes. For ``linger_seconds``, data that still arrives is read and discarded: closing a
    socket with unread data resets the connection, and the client would see the reset instead of the answer.
    """
    text = f"{refusal}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
        (b"connection", b"close"),
    ]
    if refusal.allow:
        headers.append((b"allow", refusal.allow.encode()))
    dropping = asyncio.create_task(_drop(receive))
    try:
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": text})
        await asyncio.wait([dropping], timeout=linger_seconds)
    finally:
        dropping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await dropping


async def _drop(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
