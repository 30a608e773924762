"""The conversion webhook: `/convert`, for clients that speak an older version of our kinds."""

from __future__ import annotations

from typing import Final

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from api.convert.review import BadReviewError
from api.convert.review import answer as reviewed
from api.crds import CONVERSION_PATH

PATH: Final = CONVERSION_PATH
_LONG: Final = 256 * 1024
"""Bytes from which on a review (a list of many objects) is converted in a thread, so that no admission call waits."""


def conversion_route() -> Route:
    """The route of the conversion webhook."""

    async def endpoint(call: HttpRequest) -> HttpResponse:
        body = await call.body()
        status, content = await run_in_threadpool(answer, body) if len(body) > _LONG else answer(body)
        return HttpResponse(content, status, media_type="application/json" if status == 200 else "text/plain")

    return Route(PATH, endpoint, methods=["POST"], name="convert")


def answer(body: bytes) -> tuple[int, bytes]:
    """HTTP status and body; 400 where there is no review to answer."""
    try:
        return 200, orjson.dumps(reviewed(orjson.loads(body)))
    except (BadReviewError, orjson.JSONDecodeError, RecursionError) as bad:
        return 400, f"{bad}\n".encode()
