"""The ASGI application of a listener: it answers calls of hooks without a framework, and pages through Starlette.

`Application._call` has the steps of an admission call in order; docs/architecture.md lists them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Page
from starlette.types import Message, Receive, Scope, Send

from app.access import Access
from app.limits import Bodies, Limits, Places, RefusedCallError, check_call, check_page, in_time, refuse, too_many
from app.metrics import ProcessMetrics
from app.pieces import CALLS
from webhook.routes import Route


class Application:
    """Serves `hooks`, which take reviews by POST, and `pages`, which are read with GET; those in `guarded` only by
    clients that their `Access` allows. `client` raises `RefusedCallError` for the scope of a call that its client may
    not make. `called` gets the path of each call of a hook when it arrives.
    """

    def __init__(
        self,
        hooks: Mapping[str, Route],
        pages: Iterable[Page],
        metrics: ProcessMetrics,
        limits: Limits | None = None,
        *,
        guarded: Mapping[str, Access] | None = None,
        client: Callable[[Scope], None] = lambda scope: None,
        called: Callable[[str], None] = lambda path: None,
    ) -> None:
        self.limits = limits or Limits()
        self.bodies = Bodies(self.limits)
        self._places = Places(self.limits)
        self._hooks = hooks
        served = [*pages]
        self._pages = Starlette(routes=served)
        self._paths = frozenset(page.path for page in served)
        self._guarded = guarded or {}
        self._metrics = metrics
        self._client = client
        self._called = called

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request within the limits, or refuses it."""
        if scope["type"] != "http":
            return
        try:
            route = self._hooks.get(scope["path"])
            if route is not None:
                await self._call(route, scope, receive, send)
                return
            headers = check_page(scope, self.limits)
            if scope["path"] not in self._paths:  # Starlette takes a path with a final newline for the page itself
                await _answer(send, 404, b"Not Found")
                return
            if (access := self._guarded.get(scope["path"])) is not None:
                await access.check(headers.get(b"authorization", b""))
            await self._pages(scope, receive, partial(self._page, send))
        except RefusedCallError as refusal:
            await refuse(refusal, receive, send, self.limits.linger_seconds)

    async def _call(self, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the call of a hook and counts it."""
        path: str = scope["path"]
        started = time.perf_counter()
        self._called(path)
        self._metrics.in_flight.inc()
        status, body, size, begun = 0, bytearray(), 0, False
        try:
            self._client(scope)
            check_call(scope, self.limits)
            async with in_time(scope["query_string"], self.limits):
                await self.bodies.read(receive, body)
                await self._places.take()
            try:
                with CALLS:
                    status, content = await route(body)
            except Exception:
                status = 500
                await _answer(send, status, b"Internal Server Error")
                raise
            finally:
                self._places.leave()
            self.bodies.release(body)
            size = len(content)
            self.bodies.hold(size)
            begun = True
            await _answer(send, status, content)
        except RefusedCallError as refusal:
            status = refusal.status
            raise
        except asyncio.CancelledError:
            if begun or not self.bodies.refused():
                raise
            status = 429
            raise too_many() from None
        finally:
            self.bodies.release(body)
            self.bodies.drop(size)
            self._metrics.in_flight.dec()
            self._metrics.answered(path, status, time.perf_counter() - started)

    async def _page(self, send: Send, message: Message) -> None:
        """Sends a part of a page; ends the connection instead if there is no memory for it: its head was sent."""
        size = len(message.get("body", b""))
        try:
            self.bodies.hold(size)
            await send(message)
        except RefusedCallError:
            raise asyncio.CancelledError from None
        finally:
            self.bodies.drop(size)


async def _answer(send: Send, status: int, content: bytes) -> None:
    media_type = b"application/json" if status == 200 else b"text/plain; charset=utf-8"
    headers = [(b"content-type", media_type), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


METRICS: Final = "/metrics"


def metrics_page(metrics: ProcessMetrics) -> Page:
    """Returns the page of the metrics."""

    async def endpoint(request: Request) -> Response:
        return Response(await metrics.page(), media_type=CONTENT_TYPE_LATEST)

    return Page(METRICS, endpoint)
