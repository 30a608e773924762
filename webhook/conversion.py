"""The conversion webhook: `/convert`, for clients that use an older version of Seiretsu's kinds."""

from __future__ import annotations

from typing import Final

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from api.convert.review import BadReviewError
from api.convert.review import answer as reviewed
from api.crds import CONVERSION_PATH
from webhook.asgi import Answer, Body, posted

PATH: Final = CONVERSION_PATH
_LONG: Final = 256 * 1024
"""Bytes from which on a review (a list of many objects) is converted in a thread, so that no admission call waits."""


def conversion_route() -> Route:
    """The route of the conversion webhook."""

    async def endpoint(body: Body) -> Answer:
        return await run_in_threadpool(answer, body) if len(body) > _LONG else answer(body)

    return posted(PATH, "convert", endpoint)


def answer(body: Body) -> Answer:
    """HTTP status and body; 400 where there is no review to answer."""
    try:
        return 200, orjson.dumps(reviewed(orjson.loads(body)))
    except (BadReviewError, orjson.JSONDecodeError, RecursionError) as bad:
        return 400, f"{bad}\n".encode()
