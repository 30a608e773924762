"""Converts bytes to documents: one answer or one stream of lines. Separate from the client, which only sends."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable
from math import inf
from typing import Any

import aiohttp
import orjson
from multidict import CIMultiDictProxy

from api.document import loads
from api.objects import Raw
from controller.kube.errors import ApiError, TooLarge, Unintelligible, excerpt, from_answer, is_json

LINE_CAP_BYTES = 16 * 1024 * 1024


def _retry_after(headers: CIMultiDictProxy[str]) -> float | None:
    value = headers.get("Retry-After", "")
    return float(value) if value.isdigit() else None


def refusal_of(response: aiohttp.ClientResponse, body: bytes) -> ApiError:
    """The typed error of an answer that is not 2xx."""
    return from_answer(response.status, response.headers.get("Content-Type", ""), body, _retry_after(response.headers))


async def body_of(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body of an answer. Raises ``TooLarge`` as soon as it is longer than ``most`` bytes."""
    parts: list[bytes] = []
    held = 0
    async for chunk in response.content.iter_any():
        held += len(chunk)
        if held > most:
            raise TooLarge(response.status, "TooLarge", f"an answer of more than {most:,} bytes is not read")
        parts.append(chunk)
    return b"".join(parts)


def document_of(response: aiohttp.ClientResponse, body: bytes) -> Raw:
    """The JSON object of a good answer; anything else (HTML, an empty or a cut body, a list) is an error."""
    content_type = response.headers.get("Content-Type", "")
    document: Any = None
    if is_json(content_type):
        with contextlib.suppress(orjson.JSONDecodeError):
            document = loads(body)
    if not isinstance(document, dict):
        raise Unintelligible(
            response.status, "Unintelligible", f"not a Kubernetes answer ({content_type or 'no type'}): {excerpt(body)}"
        )
    return document


async def lines_of(
    response: aiohttp.ClientResponse,
    most: int = LINE_CAP_BYTES,
    *,
    skip: bool = True,
    silence_seconds: float = inf,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[bytes]:
    """Splits a stream at newlines in linear time. An unfinished last line is dropped: it is half an event.

    A line over ``most`` bytes is returned as ``b""``, or raises ``TooLarge`` as soon as it is that long, if it is not
    to be skipped: it may have no end. Empty lines are skipped. Raises ``TimeoutError`` when bytes arrive but no line
    ends for so long: a byte a second is no message.
    """
    parts: list[bytes] = []
    held, ended = 0, clock()
    async for chunk in response.content.iter_any():
        pieces = chunk.split(b"\n")
        if len(pieces) > 1:
            ended = clock()
        elif clock() - ended > silence_seconds:
            raise TimeoutError(f"no message for {silence_seconds:g} s")
        if not skip and (held + len(pieces[0]) > most or max(map(len, pieces)) > most):
            raise TooLarge(response.status, "TooLarge", f"an event of more than {most:,} bytes is not read")
        for piece in pieces[:-1]:
            if not piece and not held:
                continue
            line = b"".join((*parts, piece)) if held + len(piece) <= most else b""
            parts, held = [], 0
            if line.strip() or not line:
                yield line
        rest = pieces[-1]
        held += len(rest)
        if held <= most:
            parts.append(rest)
        else:
            parts = []
