"""Serves the visibility API as an aggregated API server: the API server sends it the requests of its users.

What waits in a queue is answered here, where a LocalQueue or a workload stands by ``app.standing``, what the history
has by ``app.reports``.

It knows the API server by its client certificate, of the CA in the ConfigMap `extension-apiserver-authentication`, and
takes the user from the headers that are named there. Any other client needs a token. Whether a user may read a queue
is decided by the API server (SubjectAccessReview).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import orjson
import structlog
from starlette.types import Receive, Scope, Send

from api import visibility
from api.objects import Key, Raw, Resource
from api.visibility import Page, VisibilityRequest
from api.visibility_openapi import openapi
from app.access import UNREVIEWED, Reviews, User
from app.connection import CLIENT
from app.limits import Limits, RefusedCallError, check_page
from app.reports import Reports
from app.standing import Standings
from controller.kube.client import Client
from controller.kube.errors import ApiError
from core.state.lookup import Lookup
from core.state.queries import QueuePlace, places_in_steps

log = structlog.get_logger("seiretsu.visibility")

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
AUTHENTICATION, SYSTEM = "extension-apiserver-authentication", "kube-system"
READ_AGAIN_SECONDS, RETRY_SECONDS = 60.0, 5.0
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """How the API server identifies itself and its users; nothing is known before the ConfigMap was read."""

    ca: bytes = b""
    names: tuple[str, ...] = ()
    """The names that its certificate may have; none: any."""
    user: tuple[str, ...] = ()
    uid: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    """The beginnings of the names of headers."""

    @classmethod
    def read(cls, data: Mapping[str, str]) -> FrontProxy:
        """Returns what the data of the ConfigMap says. Raises `ValueError`."""

        def listed(name: str) -> tuple[str, ...]:
            return tuple(json.loads(data.get(f"requestheader-{name}") or "[]"))

        def headers(name: str) -> tuple[str, ...]:
            return tuple(each.lower() for each in listed(name))

        return cls(
            ca=data.get("requestheader-client-ca-file", "").encode(),
            names=listed("allowed-names"),
            user=headers("username-headers"),
            uid=headers("uid-headers"),
            group=headers("group-headers"),
            extra=headers("extra-headers-prefix"),
        )

    def user_of(self, client: str | None, headers: Iterable[tuple[bytes, bytes]]) -> User | None:
        """Returns the user for whom the API server sends a request; None if another client sends it. ``client`` is the
        name in a certificate that TLS has verified.
        """
        if client is None or not self.ca or (self.names and client not in self.names):
            return None
        found = [(name.decode("latin1").lower(), value.decode("utf-8", "replace")) for name, value in headers]

        def first(names: tuple[str, ...]) -> str:
            return next((value for wanted in names for name, value in found if name == wanted and value), "")

        extra: dict[str, list[str]] = {}
        for name, value in found:
            for prefix in self.extra:
                if name.startswith(prefix):
                    extra.setdefault(unquote(name[len(prefix) :]), []).append(value)
        groups = tuple(value for wanted in self.group for name, value in found if name == wanted)
        kept = tuple(sorted((key, tuple(values)) for key, values in extra.items()))
        name = first(self.user)
        if name != "system:anonymous" and not {AUTHENTICATED, UNAUTHENTICATED}.intersection(groups):
            groups += (AUTHENTICATED,)  # every API server adds it: its own requests come without
        return User(name, first(self.uid), groups, kept) if name else None


class Visibility:
    """The ASGI application. `run` follows the ConfigMap; `raw` returns a Workload; `forecast` when one is expected to
    start, None while that is not known; ``reports`` are those of the history.
    """

    def __init__(
        self,
        client: Client,
        lookup: Lookup,
        raw: Callable[[Key], Raw | None],
        *,
        reviews: Reviews | None = None,
        token_reviews: Reviews | None = None,
        limits: Limits | None = None,
        forecast: Callable[[Key], Raw | None] = lambda key: None,
        reports: Reports | None = None,
    ) -> None:
        self.proxy = FrontProxy()
        self._client = client
        self._lookup = lookup
        self._raw = raw
        self._reviews = reviews or Reviews(client)
        # Any pod can send any token: the reviews of those must not delay the requests of the API server.
        self._token_reviews = token_reviews or Reviews(client)
        self._limits = limits or Limits()
        self._one_at_a_time = asyncio.Lock()
        self._reports = reports or Reports(None)
        self._standings = Standings(lookup, raw, self._one_at_a_time, forecast)

    async def run(self, trust: Callable[[bytes], None]) -> None:
        """Reads the ConfigMap again and again until cancelled; calls ``trust`` with each new CA."""
        while True:
            wait, known = READ_AGAIN_SECONDS, self.proxy
            try:
                found = await self._client.get(CONFIG_MAPS, AUTHENTICATION, SYSTEM)
                self.proxy = FrontProxy.read(found.get("data") or {})
                if self.proxy.ca != known.ca:
                    trust(self.proxy.ca)
                    log.info("The visibility API takes requests of the API server", names=self.proxy.names)
            except (ApiError, ValueError, TypeError, AttributeError, OSError) as error:  # incl. ssl.SSLError
                wait, self.proxy = RETRY_SECONDS, known
                log.warning("How the API server identifies itself could not be read", error=str(error))
            await asyncio.sleep(wait)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request with a document, or with the Status that says why not."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        if scope["type"] != "http":
            return
        try:
            status, document = 200, await self._answered(scope)
        except RefusedCallError as refusal:
            status, document = refusal.status, visibility.failure(refusal.status, str(refusal))
        content = orjson.dumps(document)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answered(self, scope: Scope) -> Raw:
        headers = check_page(scope, self._limits)
        user, reviews = self.proxy.user_of(scope["state"].get(CLIENT), scope["headers"]), self._reviews
        if user is None:
            reviews = self._token_reviews
            user = await reviews.user(headers.get(b"authorization", b""))
        about = visibility.asked(scope["path"])
        await _check(reviews, user, about, scope["path"])
        if about is None:
            found = visibility.discovery(scope["path"]) or openapi(scope["path"])
            if found is None:
                raise RefusedCallError(404, "the server could not find the requested resource")
            return found
        if about.resource == visibility.RECORDINGS:
            return await self._reports.recording(about)
        if about.resource == visibility.REPORTS:
            return await self._reports.answer(about, scope["query_string"].decode("latin1"))
        standing = about.subresource == visibility.STANDING
        limits = (visibility.DEFAULT_STANDING_LIMIT, visibility.MAX_STANDING_LIMIT) if standing else ()
        try:
            page = visibility.page(scope["query_string"].decode("latin1"), *limits)
        except ValueError as error:
            raise RefusedCallError(400, str(error)) from None
        if not self._lookup.synced:
            raise RefusedCallError(503, "the queues have not been read yet: try again")
        if standing:
            return await self._standings.answer(about, page, user, reviews)
        async with self._one_at_a_time:  # each costs some milliseconds for each thousand of waiting workloads
            return visibility.summary(about.version, await self._items(about, page))

    async def _items(self, about: VisibilityRequest, page: Page) -> list[Raw]:
        """Returns the page of the workloads that wait in the queue."""
        wanted = Key(about.namespace, about.name) if about.namespace else None
        name = about.name
        if wanted is not None:
            local_queue = self._lookup.local_queue(wanted)
            if local_queue is None:
                raise RefusedCallError(404, visibility.not_found(about))
            name = local_queue.cluster_queue
        elif self._lookup.cluster_queue(name) is None:
            raise RefusedCallError(404, visibility.not_found(about))
        items: list[Raw] = []
        if not page.limit:
            return items
        for place in places_in_steps(self._lookup.state, name):
            if place is None:
                await asyncio.sleep(0)
                continue
            if wanted is not None and (place.workload.key.namespace, place.workload.queue) != wanted:
                continue
            if _position(place, wanted) >= page.offset and (raw := self._raw(place.workload.key)) is not None:
                items.append(
                    visibility.pending_workload(
                        raw,
                        priority=place.workload.priority,
                        in_cluster_queue=place.in_cluster_queue,
                        in_local_queue=place.in_local_queue,
                    )
                )
            if _position(place, wanted) + 1 >= page.offset + page.limit:
                break
        return items


def _position(place: QueuePlace, local_queue: Key | None) -> int:
    return place.in_cluster_queue if local_queue is None else place.in_local_queue


async def _check(reviews: Reviews, user: User, about: VisibilityRequest | None, path: str) -> None:
    """Raises `RefusedCallError` unless the user may get what a request is about."""
    if UNREVIEWED.intersection(user.groups):
        return
    if about is None:
        wanted: Mapping[str, Raw] = {"nonResourceAttributes": {"path": path, "verb": "get"}}
        await reviews.allow(user, wanted, f"get {path}")
        return
    attributes = {
        "verb": "get",
        "group": visibility.GROUP,
        "version": about.version,
        "resource": about.resource,
        "subresource": about.subresource,
        "namespace": about.namespace,
        "name": about.name,
    }
    where = f' in the namespace "{about.namespace}"' if about.namespace else ""
    resource = f"{about.resource}/{about.subresource}".rstrip("/")
    what = f'get {resource} of "{about.name}" in the API group "{visibility.GROUP}"'
    await reviews.allow(user, {"resourceAttributes": attributes}, what + where)
