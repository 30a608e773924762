"""From ASGI to a function of bytes and back, for all hooks alike. The body is never copied: it may be megabytes, and
everybody else would wait for each copy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

Body: TypeAlias = bytes | bytearray
Answer: TypeAlias = tuple[int, bytes]
"""HTTP status and body: JSON with 200, a sentence with any other."""


class Posted:
    """An ASGI app that answers the whole body of a request."""

    def __init__(self, answer: Callable[[Body], Awaitable[Answer]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read, answer, send."""
        status, content = await self._answer(await _whole(receive))
        media_type = b"application/json" if status == 200 else b"text/plain; charset=utf-8"
        headers = [(b"content-type", media_type), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def posted(path: str, name: str, answer: Callable[[Body], Awaitable[Answer]]) -> Route:
    """The route of a hook."""
    return Route(path, Posted(answer), methods=["POST"], name=name)


async def _whole(receive: Receive) -> Body:
    """Returns the body; without a copy if it was received in one piece, as it is behind `app.limits`."""
    message = await receive()
    body: Body = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body = bytes(body) + message.get("body", b"")
    return body
