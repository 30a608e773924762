"""The client: one HTTP request, one JSON object or one typed error as its result. Thin, because every layer costs time
on every call.

Measured at a quarter of a millisecond of CPU for a request. Reads and writes share a session, watches have their own,
so that a hundred open watches never delay a write. There are few retries here (throttling, one new token): all others
are in the work queue, which reads the state again before it repeats anything.
"""

import asyncio
import contextlib
import ssl
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Literal, Self

import aiohttp
import orjson
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection as OpenConnection
from aiohttp.tracing import Trace

from api import names
from api.objects import Raw, Resource
from controller.kube.clock import ServerClock
from controller.kube.config import Connection
from controller.kube.connector import ClosingConnector
from controller.kube.errors import Fenced, Invalid, TooLarge, Unintelligible, Unreachable, is_json
from controller.kube.flow.precedence import Precedence
from controller.kube.flow.pressure import Pressure
from controller.kube.flow.throttle import Throttle
from controller.kube.size_limit import weight
from controller.kube.wire import LINE_CAP_BYTES, body_of, document_of, lines_of, refusal_of

Body = Raw | list[Raw]
PatchType = Literal["merge", "json", "apply", "strategic"]
Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete"]

PATCH_TYPES: Mapping[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
    "strategic": "application/strategic-merge-patch+json",
}
METHODS: Mapping[Verb, str] = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}
READS = ("get", "list", "watch")
PAGE_SIZE = 500
EMPTY_PAGES = 100
"""So many pages of a list in a row without an object are no list."""
LARGEST_ANSWER = 1024 * 1024 * 1024
"""An answer in bytes: a whole collection may be one, of an API server that is trusted."""
LARGEST_PAGE = 32 * 1024 * 1024
"""A page in bytes, which is decoded in one step: more than one object can have. Tenants make objects of 1.5 MB, and six
times as large in JSON.
"""
SMALLER = 8
"""By so much a page is smaller after one that was too large."""
CONNECT_SECONDS = 5.0
CALL_CONNECTIONS = 64
"""A thousand calls at the same time would open a thousand connections, whose handshakes overload the API server for
seconds.
"""
LONGEST_RETRY_AFTER_SECONDS = 30.0
NOT_RETRIED = frozenset({"events"})
"""Resources whose writer waits itself when the API server is busy (429), outside of its turn among other writes."""


class Client:
    """Calls one API server. Belongs to the event loop that first uses it; use as ``async with`` or ``close()`` it.

    ``may_write`` is called before every write, and again when there is a connection, directly before it is sent: a
    handshake may take seconds. If it returns False, the write raises ``Fenced``. ``requests``
    counts calls by ``(verb, resource)``, e.g. ``("patch", "workloads/status")``; ``answers`` by verb, resource and HTTP
    status (0: none). ``impersonate`` are the headers with the impersonated account. ``clock`` is set from the API
    server's answers, ``pressure`` from their latency. An answer of more than ``largest_answer`` bytes raises
    ``TooLarge``. Of a server that is not trusted so does one, or an event of a watch, that could take more than
    ``heaviest`` bytes of memory when it is decoded, and an event of more than ``largest_line`` bytes.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        throttle: Throttle | None = None,
        may_write: Callable[[], bool] = lambda: True,
        deadline_seconds: float = 30.0,
        field_manager: str = names.FIELD_MANAGER,
        throttle_retries: int = 4,
        largest_answer: int = LARGEST_ANSWER,
        largest_line: int = LINE_CAP_BYTES,
        heaviest: int | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.connection = connection
        self.throttle = throttle or Throttle()
        self.may_write = may_write
        self.deadline_seconds = deadline_seconds
        self.largest_answer = largest_answer
        self._largest_line = largest_line
        self._heaviest = heaviest
        self.field_manager = field_manager
        self.impersonate: Mapping[str, str] = {}
        self.precedence = Precedence()
        self.pressure = Pressure()
        self.clock = ServerClock()
        self.requests: Counter[tuple[str, str]] = Counter()
        self.answers: Counter[tuple[str, str, int]] = Counter()
        self.fenced = 0
        self._throttle_retries = throttle_retries
        self._sleep = sleep
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; open watches end with ``Unreachable``."""
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Raw:
        """Reads one object. Raises ``NotFound`` only if the API server itself reports it."""
        return await self._call("get", resource, resource.path(namespace, name, subresource), subresource)

    async def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> Raw:
        """A whole collection as one quorum read: ``metadata`` with its ``resourceVersion``, and ``items``."""
        items: list[Raw] = []
        metadata: Raw = {}
        async for page in self.pages(resource, namespace, label_selector=label_selector, field_selector=field_selector):
            items += page["items"]
            metadata = page["metadata"]
        return {"kind": f"{resource.kind}List", "metadata": metadata, "items": items}

    async def pages(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
    ) -> AsyncGenerator[Raw, None]:
        """A collection page by page (``limit`` 0: in one), all as of one resource version; ``Gone`` if that expired
        on the way. A page that is too large is asked for again with fewer objects. A list without end is an error: the
        same token again, or many pages without an object.

        Items carry ``apiVersion`` and ``kind``, which the server leaves out of lists of built-in kinds.
        """
        params = _selectors(label_selector, field_selector)
        if limit:
            params["limit"] = str(limit)
        empty, largest = 0, LARGEST_PAGE if limit else None
        while True:
            try:
                page = await self._call("list", resource, resource.path(namespace), params=params, largest=largest)
            except TooLarge:
                if limit <= 1:
                    raise
                limit = max(1, limit // SMALLER)
                params["limit"] = str(limit)
                continue
            found, metadata = page.get("items"), page.get("metadata")
            if (
                not isinstance(found, list | None)
                or not isinstance(metadata, dict)
                or not isinstance(metadata.get("resourceVersion"), str)
            ):
                raise Unintelligible(
                    200, "Unintelligible", f"not a list of {resource.plural}: kind {page.get('kind')!r}"
                )
            page["items"] = found = [item for item in found or () if isinstance(item, dict)]
            for item in found:
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
            yield page
            token = metadata.get("continue")
            if not token:
                return
            empty = 0 if found else empty + 1
            if not isinstance(token, str) or token == params.get("continue") or empty > EMPTY_PAGES:
                raise Unintelligible(200, "Unintelligible", f"a list of {resource.plural} without end")
            params["continue"] = token

    async def create(self, resource: Resource, body: Raw, namespace: str = "", *, dry_run: bool = False) -> Raw:
        """Create an object; ``AlreadyExists`` where the name is taken."""
        return await self._call("create", resource, resource.path(namespace), params=self._written(dry_run), body=body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        body: Body,
        *,
        type: PatchType = "merge",
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Raw:
        """Patches an object or its subresource. With ``metadata.resourceVersion`` in the body it fails if the object
        changed (``Conflict``).

        ``force`` is for ``apply``: take fields from other managers. CRDs have no strategic patch.
        """
        params = self._written(dry_run)
        if force:
            params["force"] = "true"
        path = resource.path(namespace, name, subresource)
        return await self._call("patch", resource, path, subresource, params, body, PATCH_TYPES[type])

    async def update(self, resource: Resource, body: Raw, *, subresource: str = "", dry_run: bool = False) -> Raw:
        """Replaces an object that only Seiretsu writes (a Lease, a Secret), or a status; users' objects are patched."""
        metadata = body["metadata"]
        path = resource.path(metadata.get("namespace", ""), metadata["name"], subresource)
        return await self._call("update", resource, path, subresource, self._written(dry_run), body)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        grace: int | None = None,
    ) -> Raw:
        """Delete an object, only if it still is that ``uid`` and version where given (``Conflict`` otherwise).
        ``grace`` are the seconds that a pod may take, if not its own.
        """
        preconditions = {"uid": uid} if uid else {}
        if resource_version:
            preconditions["resourceVersion"] = resource_version
        body: Raw = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if preconditions:
            body["preconditions"] = preconditions
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        return await self._call("delete", resource, resource.path(namespace, name), body=body)

    async def raw(self, path: str) -> Raw:
        """GET any path, e.g. ``/version`` or ``/apis``; discovery is read so."""
        return await self._call("get", Resource("", "", path.strip("/"), "", namespaced=False), path)

    async def text(self, path: str, params: Mapping[str, str] | None = None) -> str:
        """Reads a path whose answer is text, e.g. the log of a pod."""
        limits = aiohttp.ClientTimeout(total=self.deadline_seconds, sock_connect=CONNECT_SECONDS)
        async with self._sent("get", path.rpartition("/")[2], path, params, limits, fresh=False) as response:
            answer = await self._body_of(response)
            if response.status != 200:
                raise refusal_of(response, answer)
            return answer.decode(errors="replace")

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        params: Mapping[str, str],
        silence_seconds: float = 90.0,
        opened: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a watch, one event each, undecoded. Ends when the server ends it; close it with
        ``aclosing``.

        A line over 16 MiB is returned as ``b""``, and the next ones still follow. Raises ``Unreachable`` when cut, or
        when no byte arrived for ``silence_seconds``. ``opened`` is called when the server has accepted the watch,
        which may be long before its first event.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true"} | dict(params)
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds)
        for fresh in (False, True):
            async with self._sent("watch", resource.plural, resource.path(namespace), query, limits, fresh) as response:
                if response.status == 401 and not fresh:
                    continue
                if response.status != 200 or not is_json(response.headers.get("Content-Type", "")):
                    raise refusal_of(response, await self._body_of(response))
                opened()
                trusted = self._heaviest is None
                lines = lines_of(response, self._largest_line, skip=trusted, silence_seconds=silence_seconds)
                async for line in lines:
                    self._weigh(line)
                    yield line
                return

    async def _call(
        self,
        verb: Verb,
        resource: Resource,
        path: str,
        subresource: str = "",
        params: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
        *,
        largest: int | None = None,
    ) -> Raw:
        counted = f"{resource.plural}/{subresource}" if subresource else resource.plural
        try:
            data = None if body is None else orjson.dumps(body)
        except orjson.JSONEncodeError as error:  # more levels than the encoder takes, but not too many for the decoder
            raise Invalid(422, "Invalid", f"{resource.plural}: the object cannot be sent: {error}") from None
        limits = aiohttp.ClientTimeout(total=self.deadline_seconds, sock_connect=CONNECT_SECONDS)
        fresh, retries = False, 0 if resource.plural in NOT_RETRIED else self._throttle_retries
        while True:
            await self.throttle.take()
            async with (
                self._turn(verb, path),
                self._sent(verb, counted, path, params, limits, fresh, data, content_type) as response,
            ):
                answer = await self._body_of(response, largest)
            if response.status == 401 and not fresh:
                fresh = True
                continue
            if 200 <= response.status < 300:
                self.throttle.passed()
                document = document_of(response, answer)
                self.clock.observed(response.headers.get("Date", ""))
                return document
            refusal = refusal_of(response, answer)
            if response.status != 429:
                raise refusal
            self.pressure.refused()
            if not retries:
                raise refusal
            retries -= 1
            self.throttle.throttled()
            async with self.precedence.paused():
                await self._sleep(min(refusal.retry_after or 1.0, LONGEST_RETRY_AFTER_SECONDS))

    async def _body_of(self, response: aiohttp.ClientResponse, largest: int | None = None) -> bytes:
        body = await body_of(response, min(self.largest_answer, largest or self.largest_answer))
        self._weigh(body)
        return body

    def _weigh(self, data: bytes) -> None:
        """Raises ``TooLarge`` for JSON that could take too much memory when it is decoded."""
        if self._heaviest is not None and weight(data) > self._heaviest:
            raise TooLarge(200, "TooLarge", f"an answer that could take more than {self._heaviest:,} bytes is not read")

    def _turn(self, verb: Verb, path: str) -> contextlib.AbstractAsyncContextManager[None]:
        if verb in READS:
            return contextlib.nullcontext()
        return self.precedence.turn(path.partition("/namespaces/")[2].partition("/")[0])

    @contextlib.asynccontextmanager
    async def _sent(
        self,
        verb: Verb,
        counted: str,
        path: str,
        params: Mapping[str, str] | None,
        limits: aiohttp.ClientTimeout,
        fresh: bool,
        data: bytes | None = None,
        content_type: str = "application/json",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sends one request; network errors raise ``Unreachable``; the fence is checked last."""
        headers = {**self.impersonate, **({"Content-Type": content_type} if data is not None else {})}
        if authorization := await self.connection.credentials.authorization(fresh=fresh):
            if not authorization.isprintable():
                raise Unreachable(
                    0, "BadCredentials", f"the credentials for {self.connection.server} have a line end in them"
                )
            headers["Authorization"] = authorization
        account = self.connection.account
        session = self._session("watch" if verb == "watch" else "call")
        if verb not in READS:
            self._fence()
        self.requests[verb, counted] += 1
        status, began = 0, time.perf_counter()
        try:
            async with session.request(
                METHODS[verb],
                self.connection.server + path,
                params=params,
                data=data,
                headers=headers if account is None else [*headers.items(), *account.headers()],
                timeout=limits,
                allow_redirects=False,
                proxy=self.connection.proxy,
                server_hostname=self.connection.server_name,
            ) as response:
                status = response.status
                _check_encoding(response)
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            status = 0
            raise Unreachable(
                0, type(error).__name__, f"{verb} of {counted} at {self.connection.server}: {error}"
            ) from error
        finally:
            self.answers[verb, counted, status] += 1
            if verb not in READS and 200 <= status < 300:
                self.pressure.wrote((verb, counted), time.perf_counter() - began)

    def _session(self, purpose: str) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreachable(0, "Closed", "this client was closed")
        session = self._sessions.get(purpose)
        if session is None:
            session = aiohttp.ClientSession(
                connector=_FencedConnector(
                    self._fence,
                    limit=0 if purpose == "watch" else CALL_CONNECTIONS,
                    tls=self.connection.tls,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                # The API server zips big lists at a cost to its CPU, the scarcest thing here; the network is not.
                headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": self.field_manager},
                trust_env=False,
            )
            self._sessions[purpose] = session
        return session

    def _fence(self) -> None:
        if not self.may_write():
            self.fenced += 1
            raise Fenced(0, "Fenced", "no lease to write with: the write was not sent")

    def _written(self, dry_run: bool) -> dict[str, str]:
        # Unknown fields are dropped either way; else the API server would look for them, for warnings nobody reads.
        params = {"fieldManager": self.field_manager, "fieldValidation": "Ignore"}
        return params | {"dryRun": "All"} if dry_run else params


class _FencedConnector(ClosingConnector):
    """``fence`` is asked when a write has its connection, and raises if it may not be sent."""

    def __init__(self, fence: Callable[[], None], *, limit: int, tls: ssl.SSLContext | None) -> None:
        super().__init__(limit=limit, keepalive_timeout=30, ssl=tls or True)
        self._fence = fence

    async def connect(  # aiohttp calls it with its time limits
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> OpenConnection:
        """A connection to send this request on."""
        connection = await super().connect(req, traces, timeout)
        if req.method != "GET":
            try:
                self._fence()
            except Fenced:
                connection.release()
                raise
        return connection


def _check_encoding(response: aiohttp.ClientResponse) -> None:
    """Raises ``Unintelligible`` for an answer that is compressed, which was not asked for: a megabyte may become a
    gigabyte, and unpacking it takes the time of everything else.
    """
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise Unintelligible(
            response.status, "Unintelligible", f"the answer has Content-Encoding {encoding[:20]!r}, not asked for"
        )


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    given = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in given.items() if value}
