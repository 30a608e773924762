"""The ASGI application of the page: its files for anybody, and documents and streams for users that the API server
knows.

A user is known by his token, or by the headers of an authenticating proxy whose client certificate TLS has verified. No
cookie is used, nothing is written, and no file refers to another server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import parse_qs

import orjson
import structlog
from starlette.types import Receive, Scope, Send

from api.objects import Key, Raw
from api.visibility import Page, page
from app.access import Reviews
from app.connection import CLIENT, STREAM
from app.limits import Limits, RefusedCallError, check_page
from app.page import topics
from app.page.answers import DEFAULT_ROWS, MOST_ROWS, PageAnswers
from app.page.assets import Asset
from app.page.jobs import JobAnswers
from app.page.questions import LONGEST_DAYS, QuestionAnswers
from app.page.rights import Rights
from app.page.stream import GZIP_HEAD, PING, PING_PACKED, Hub, StreamFrame
from app.page.topics import TopicName
from app.visibility import FrontProxy

log = structlog.get_logger("seiretsu.page")

MOST_STREAMS: Final = 200
MOST_TOPICS: Final = 20
"""Of one stream."""
STREAM_SECONDS: Final = 300.0
"""A stream ends after this time, and its viewer comes back: rights are reviewed again."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)


class PageApplication:
    """Serves the page. ``proxy`` is how an authenticating proxy identifies itself and its users."""

    def __init__(
        self,
        answers: PageAnswers,
        jobs: JobAnswers,
        questions: QuestionAnswers,
        hub: Hub,
        reviews: Reviews,
        assets: dict[str, Asset],
        *,
        proxy: FrontProxy | None = None,
        limits: Limits | None = None,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._answers = answers
        self._jobs = jobs
        self._questions = questions
        self._hub = hub
        self._reviews = reviews
        self._assets = assets
        self._proxy = proxy or FrontProxy()
        self._limits = limits or Limits()
        self._ready = ready
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or says why not."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        if scope["type"] != "http":
            return
        try:
            headers = check_page(scope, self._limits)
            asset = self._assets.get(scope["path"])
            if asset is not None:
                await _send_asset(send, asset, headers)
                return
            if headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
                raise RefusedCallError(403, "only the page itself may ask this server")
            if not scope["path"].startswith("/api/"):
                raise RefusedCallError(404, "there is no such page: the address of the page is /")
            rights = await self._rights(scope, headers)
            if not self._ready():
                raise RefusedCallError(503, "the queues have not been read yet: try again")
            if scope["path"] == "/api/stream":
                await self._stream(rights, scope, headers, receive, send)
                return
            await _send(send, 200, await self._document(rights, scope))
        except RefusedCallError as refusal:
            await _send(send, refusal.status, {"message": str(refusal)})

    async def _rights(self, scope: Scope, headers: dict[bytes, bytes]) -> Rights:
        user = self._proxy.user_of((scope.get("state") or {}).get(CLIENT), scope["headers"])
        if user is None:
            user = await self._reviews.user(headers.get(b"authorization", b""))
        return Rights(user, self._reviews)

    async def _document(self, rights: Rights, scope: Scope) -> Raw:
        """Returns the document at a path."""
        try:
            given = parse_qs(scope["query_string"].decode("latin1"), keep_blank_values=True, max_num_fields=100)
        except ValueError:
            raise RefusedCallError(400, "the query has too many fields") from None
        try:
            rows = page(scope["query_string"].decode("latin1"), DEFAULT_ROWS, MOST_ROWS)
        except ValueError as error:
            raise RefusedCallError(400, str(error)) from None
        found = self._found(rights, scope["path"].removeprefix("/api/").split("/"), given, rows)
        if found is None:
            raise RefusedCallError(404, "there is no such document")
        return await found

    def _found(
        self, rights: Rights, path: list[str], given: Mapping[str, list[str]], rows: Page
    ) -> Awaitable[Raw] | None:
        answers, jobs, questions = self._answers, self._jobs, self._questions

        def one(name: str, usual: str = "") -> str:
            return given.get(name, [usual])[-1]

        match path:
            case ["me"]:
                return answers.me(rights, one("namespace"))
            case ["find"]:
                return jobs.find(rights, one("q"), one("namespace"))
            case ["namespaces", namespace, "workloads", name]:
                return jobs.job(rights, Key(namespace, name))
            case ["preemptions"]:
                return jobs.preemptions(rights, one("namespace"), _days(one("days", "7")))
            case ["queues", name, "what-if"]:
                return questions.what_if(rights, name, given.get("edit", []))
            case ["topology", flavor]:
                return questions.topology(rights, flavor)
            case ["clusters"]:
                return questions.clusters(rights)
            case ["usage"]:
                return questions.usage(
                    rights, one("by", "queue"), _days(one("days", "7")), one("namespace"), one("group")
                )
            case ["queues", name]:
                return answers.cluster_queue(rights, name)
            case ["queues", name, "line"]:
                return answers.line(rights, name, None, rows)
            case ["queues", name, "running"]:
                return answers.running(rights, name, None, rows)
            case ["namespaces", namespace, "queues", name]:
                return answers.local_queue(rights, Key(namespace, name))
            case ["namespaces", namespace, "queues", name, "line"]:
                return answers.line(rights, "", Key(namespace, name), rows)
            case ["namespaces", namespace, "queues", name, "running"]:
                return answers.running(rights, "", Key(namespace, name), rows)
        return None

    async def _stream(
        self, rights: Rights, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        """Sends the frames of topics until the client leaves, is too slow, or its time is over."""
        asked = parse_qs(scope["query_string"].decode("latin1")).get("topic", [])
        try:
            wanted = [topics.read(each) for each in asked]
        except ValueError as error:
            raise RefusedCallError(400, str(error)) from None
        if not 0 < len(wanted) <= MOST_TOPICS:
            raise RefusedCallError(400, f"follow 1 to {MOST_TOPICS} topics: ?topic=queues&topic=namespace:NAME")
        await asyncio.gather(*(rights.follow(each) for each in wanted))
        if self._streams >= MOST_STREAMS or self._hub.closed:
            raise RefusedCallError(503, f"{MOST_STREAMS} viewers follow changes already: try again later")
        self._streams += 1
        try:
            await self._streamed(wanted, scope, headers, receive, send)
        finally:
            self._streams -= 1

    async def _streamed(
        self, wanted: list[TopicName], scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        packs = b"gzip" in headers.get(b"accept-encoding", b"")
        begin: Callable[[], None] | None = (scope.get("state") or {}).get(STREAM)
        if begin is not None:
            begin()
        encoding = [(b"content-encoding", b"gzip")] if packs else []
        types = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, *types, *encoding]})
        if packs:
            await send({"type": "http.response.body", "body": GZIP_HEAD, "more_body": True})
        sending = asyncio.ensure_future(self._send_frames(wanted, headers, send, packs=packs))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            async with asyncio.timeout(STREAM_SECONDS):
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            pass
        finally:
            for task in (sending, leaving):
                task.cancel()
            for task in (sending, leaving):
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await send({"type": "http.response.body", "body": b""})

    async def _send_frames(
        self, wanted: list[TopicName], headers: dict[bytes, bytes], send: Send, *, packs: bool
    ) -> None:
        after = headers.get(b"last-event-id", b"").decode("latin1")
        frames = self._hub.follow(wanted, after)
        async with contextlib.aclosing(frames):
            async for found in frames:
                body = _joined(found, packs=packs)
                await send({"type": "http.response.body", "body": body, "more_body": True})


def _days(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= LONGEST_DAYS:
        raise RefusedCallError(400, f"days: {text[:20]!r} is not a number of days, at most {LONGEST_DAYS:g}")
    return found


def _joined(frames: list[StreamFrame], *, packs: bool) -> bytes:
    if not frames:
        return PING_PACKED if packs else PING
    return b"".join(each.packed if packs else each.text for each in frames)


async def _left(receive: Receive) -> None:
    """Returns when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_asset(send: Send, asset: Asset, headers: dict[bytes, bytes]) -> None:
    """Sends a file, or that the browser has it already."""
    own = [(b"etag", asset.tag), (b"cache-control", b"no-cache"), (b"vary", b"accept-encoding")]
    if headers.get(b"if-none-match") == asset.tag:
        await send({"type": "http.response.start", "status": 304, "headers": [*HEADERS, *own]})
        await send({"type": "http.response.body", "body": b""})
        return
    packs = b"gzip" in headers.get(b"accept-encoding", b"")
    content = asset.packed if packs else asset.content
    own += [(b"content-type", asset.media_type), (b"content-length", str(len(content)).encode())]
    own += [(b"content-encoding", b"gzip")] if packs else []
    await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, *own]})
    await send({"type": "http.response.body", "body": content})


async def _send(send: Send, status: int, document: Raw) -> None:
    content = orjson.dumps(document)
    own = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"content-length", str(len(content)).encode()),
    ]
    if status == 401:
        own.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": [*HEADERS, *own]})
    await send({"type": "http.response.body", "body": content})
