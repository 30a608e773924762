"""The conversion webhook: `/convert`, for clients that use an older version of Seiretsu's kinds."""

from __future__ import annotations

import asyncio
from typing import Final

import orjson

from api.convert.review import BadConversionReviewError
from api.convert.review import answer as reviewed
from webhook.routes import ReceivedBody, StatusAndBody

_LONG: Final = 256 * 1024
"""Bytes from which on a review (a list of many objects) is converted in a thread, so that no admission call waits."""


async def convert(body: ReceivedBody) -> StatusAndBody:
    """Returns the answer to a call of the conversion webhook."""
    return await asyncio.to_thread(answer, body) if len(body) > _LONG else answer(body)


def answer(body: ReceivedBody) -> StatusAndBody:
    """HTTP status and body; 400 where there is no review to answer."""
    try:
        return 200, orjson.dumps(reviewed(orjson.loads(body)))
    except (BadConversionReviewError, orjson.JSONDecodeError, RecursionError) as bad:
        return 400, f"{bad}\n".encode()
