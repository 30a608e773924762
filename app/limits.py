"""What a caller may send, decided before any of our code sees it. The app server below has no such limits.

Anybody who reaches the port may call, so every request is read under a cap and a deadline and refused with the status
that says why. A body is read to its end before the handler runs: a handler that is given bytes can neither wait for
more of them nor leave some unread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Limits:
    """`body_bytes` fits two objects of the API server's 3 MiB each and the rest of a review (controller-runtime's cap).

    `held_bytes` is for all bodies together. `wait_seconds` is how long a call may wait for one of the `calls` places,
    `body_seconds` how long a body may take to come in.
    """

    body_bytes: int = 7 * 1024 * 1024
    held_bytes: int = 128 * 1024 * 1024
    body_seconds: float = 5.0
    calls: int = 64
    wait_seconds: float = 1.0
    linger_seconds: float = 1.0


class RefusedError(Exception):
    """A request that goes no further: its status and a sentence for the caller."""

    def __init__(self, status: int, message: str, allow: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.allow = allow


class Guard:
    """ASGI middleware. `hooks` are the paths that take a JSON body by POST; every other path takes none, by GET."""

    def __init__(self, app: ASGIApp, hooks: Collection[str], limits: Limits | None = None) -> None:
        self.app = app
        self.hooks = frozenset(hooks)
        self.limits = limits or Limits()
        self.held = 0
        self._places = asyncio.Semaphore(self.limits.calls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request within the limits, or refuse it."""
        if scope["type"] != "http":
            return
        body = bytearray()
        try:
            _check_head(scope, self.hooks, self.limits)
            await self._read(receive, body)
            if scope["path"] in self.hooks:
                await self._call(scope, receive, send, body)
            else:
                await self.app(scope, _given(b"", receive), send)
        except RefusedError as refusal:
            await _refuse(refusal, receive, send, self.limits.linger_seconds)
        finally:
            self.held -= len(body)

    async def _read(self, receive: Receive, body: bytearray) -> None:
        """Read the whole body into `body`, counted as it comes, whatever its Content-Length said."""
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RefusedError(400, "the connection was closed before the body was complete")
                    chunk = message.get("body", b"")
                    body += chunk
                    self.held += len(chunk)
                    if len(body) > self.limits.body_bytes:
                        raise RefusedError(413, f"the body is larger than {self.limits.body_bytes} bytes")
                    if self.held > self.limits.held_bytes:
                        raise RefusedError(429, "too many large requests at once: try again")
                    if not message.get("more_body", False):
                        return
        except TimeoutError:
            seconds = f"{self.limits.body_seconds:g}"
            raise RefusedError(408, f"the body was not complete within {seconds} seconds") from None

    async def _call(self, scope: Scope, receive: Receive, send: Send, body: bytearray) -> None:
        try:
            async with asyncio.timeout(self.limits.wait_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise RefusedError(429, f"{self.limits.calls} calls are being answered already: try again") from None
        try:
            await self.app(scope, _given(body, receive), send)
        finally:
            self._places.release()


def _check_head(scope: Scope, hooks: Collection[str], limits: Limits) -> None:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length[:20]) > limits.body_bytes:
        raise RefusedError(413, f"the body is larger than {limits.body_bytes} bytes")
    if scope["path"] not in hooks:
        if scope["method"] not in ("GET", "HEAD"):
            raise RefusedError(405, "this path is read with GET", allow="GET, HEAD")
        if length.strip(b"0") or b"transfer-encoding" in headers:
            raise RefusedError(413, "this path takes no body")
        return
    if scope["method"] != "POST":
        raise RefusedError(405, "this path takes AdmissionReviews by POST", allow="POST")
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding != b"identity":
        raise RefusedError(415, "send the body without Content-Encoding")
    media_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise RefusedError(415, "send the body as Content-Type: application/json")


def _given(body: bytes | bytearray, receive: Receive) -> Receive:
    """`receive` of a request whose body has been read: the body once, as it was read, then what the connection says."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _refuse(refusal: RefusedError, receive: Receive, send: Send, linger_seconds: float) -> None:
    """Answer and close. What is still being sent is read and dropped for a moment: a connection that is closed on
    unread data is reset, and the caller would see that in place of the answer.
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
