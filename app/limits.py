"""What a caller may send, decided before any of our code sees it. The app server below has no such limits.

Anybody who reaches the port may call, so every request is read under a cap and a deadline and refused with the status
that says why. A body is read to its end before the handler runs: a handler that is given bytes can neither wait for
more of them nor leave some unread. `app.application` calls these in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send


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


class Bodies:
    """Reads the bodies of one listener; ``held`` is how many bytes of them are in memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.held = 0

    async def read(self, receive: Receive, body: bytearray) -> None:
        """Read a whole body into ``body``, counted as it comes, whatever its Content-Length said. Whether it raises or
        not, ``release`` ends it.
        """
        limits = self._limits
        try:
            async with asyncio.timeout(limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RefusedError(400, "the connection was closed before the body was complete")
                    chunk = message.get("body", b"")
                    body += chunk
                    self.held += len(chunk)
                    if len(body) > limits.body_bytes:
                        raise RefusedError(413, f"the body is larger than {limits.body_bytes} bytes")
                    if self.held > limits.held_bytes:
                        raise RefusedError(429, "too many large requests at once: try again")
                    if not message.get("more_body", False):
                        return
        except TimeoutError:
            seconds = f"{limits.body_seconds:g}"
            raise RefusedError(408, f"the body was not complete within {seconds} seconds") from None

    def release(self, body: bytearray) -> None:
        """Free the memory of a body, of which an error may still hold the frame."""
        self.held -= len(body)
        body.clear()


class Places:
    """How many calls are answered at once."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(limits.calls)

    async def take(self) -> None:
        """Wait for a place; ``leave`` gives it back."""
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise RefusedError(429, f"{self._limits.calls} calls are being answered already: try again") from None

    def leave(self) -> None:
        """Give the place to another call."""
        self._free.release()


def check_page(scope: Scope, limits: Limits) -> None:
    """Refuses what does not read a page: another method, or a body."""
    length, headers = _length(scope, limits)
    if scope["method"] not in ("GET", "HEAD"):
        raise RefusedError(405, "this path is read with GET", allow="GET, HEAD")
    if length.strip(b"0") or b"transfer-encoding" in headers:
        raise RefusedError(413, "this path takes no body")


def check_call(scope: Scope, limits: Limits) -> None:
    """Refuses what is no call of a hook: another method, encoding or media type, or too long a body."""
    _, headers = _length(scope, limits)
    if scope["method"] != "POST":
        raise RefusedError(405, "this path takes AdmissionReviews by POST", allow="POST")
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding != b"identity":
        raise RefusedError(415, "send the body without Content-Encoding")
    media_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise RefusedError(415, "send the body as Content-Type: application/json")


def _length(scope: Scope, limits: Limits) -> tuple[bytes, dict[bytes, bytes]]:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length[:20]) > limits.body_bytes:
        raise RefusedError(413, f"the body is larger than {limits.body_bytes} bytes")
    return length, headers


async def refuse(refusal: RefusedError, receive: Receive, send: Send, linger_seconds: float) -> None:
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
