"""The reflector: keeps a store equal to the objects of the API server, after every failure of a watch.

It lists once (as a stream of initial events if the server supports it, else in pages), then follows the watch from that
version. An interrupted watch continues at the last version; only if that version is too old, it lists again and
compares with the store, so that handlers get the changes in between, including deletions. Anything that is not a
Kubernetes answer is an error and never an event.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from traceback import clear_frames
from typing import Generic, TypeVar

import orjson
import structlog

from api.document import loads
from api.objects import Raw, Resource
from controller.kube.client import LONGEST_RETRY_AFTER_SECONDS, Client
from controller.kube.discovery import serves
from controller.kube.errors import (
    ApiError,
    Gone,
    Invalid,
    TooLarge,
    TooManyRequests,
    Unintelligible,
    Unreachable,
    excerpt,
    from_status,
)
from controller.kube.flow.throttle import Throttle
from controller.kube.size_limit import SizeLimit, Sizes, length
from controller.kube.store import Listing, Store, number_of

T = TypeVar("T")

FIRST_BACKOFF_SECONDS = 0.2
LONGEST_BACKOFF_SECONDS = 30.0
LONGEST_SOON_SECONDS = 5.0
"""A refused connection costs the server nothing, and it is noticed sooner that it is back. A server that reads a large
collection into its cache refuses the list meanwhile with 429, and says when to try again.
"""
STOOD_SECONDS = 10.0
"""A watch that lasted this long was healthy: the next failure starts with the shortest wait."""
ABSENT_SECONDS = 5.0
"""How often an optional resource that is not served is looked for."""
PAUSE_AFTER_WATCH_SECONDS = 0.1
READ_AT_ONCE = 16 * 1024
"""So many bytes of objects, which take a third of a millisecond, are decoded before other tasks can run: two hundred
objects arrive together when the cache is read, and those of several resources at the same time. An admission call takes
several turns of the event loop, and may have to wait for all of them in each.
"""
LEAST_READ = 1024
"""So many bytes a smaller event counts: each takes some time, however small it is."""
DECODED_AT_ONCE = 5
"""So many objects of a page, which is parsed already, are decoded before other tasks can run."""
PAGE_SIZE = 100
"""Objects in a page, which is parsed in one step: a hundred Workloads take four milliseconds. Only API servers that do
not stream lists are asked for pages.
"""
SMALL_PAGE_SIZE = 25
"""Objects in a page of a server that is not trusted: less is read of it at once."""
PACED_BYTES = 16 * 1024
"""So many bytes of an event count as one change of those that are read in a second."""
EVENTS = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

log = structlog.get_logger(__name__)


class Reflector(Generic[T]):
    """Fills ``store`` with one resource. ``run()`` without end in its own task; ``synced`` is set after the first list.

    For metrics: ``relists`` by reason (complete ones), ``watch_errors`` by the error's class, ``undecodable``,
    ``last_event_age()``.
    ``on_synced`` is called once, after the first list: with the collector off until then and ``gc.freeze()`` there, the
    longest stall over 50,000 Workloads was 12 ms; with the collector on 135 ms, as raw objects 411 ms
    (``bench.caches``). Selectors are those of the API server; an object that they no longer match counts as deleted.

    ``optional``: if the API server does not serve the resource there are no objects, which is known immediately; they
    are used as soon as it is served. For any other resource the first list is waited for.

    ``on_served`` is called when an optional resource is found not to be served, and when it is served again.
    ``on_connection`` is called with each error that interrupts the reflector, and with None when it follows again.

    ``size_limit`` is shared by all reflectors of an API server that is not trusted. While there is more, the store
    keeps what it has, and the list is tried again every half minute. ``pace`` limits the events of its watches that are
    read. ``decode`` reads a line of the watch instead of ``decoded``, and may leave out fields.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        store: Store[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        optional: bool = False,
        silence_seconds: float = 90.0,
        size_limit: SizeLimit | None = None,
        pace: Throttle | None = None,
        decode: Callable[[bytes], tuple[str, Raw]] | None = None,
        on_synced: Callable[[], None] = lambda: None,
        on_connection: Callable[[ApiError | None], None] = lambda error: None,
        on_served: Callable[[bool], None] = lambda served: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.resource = resource
        self.store = store
        self.synced = asyncio.Event()
        self.relists: Counter[str] = Counter()
        self.watch_errors: Counter[str] = Counter()
        self.undecodable = 0
        self._client = client
        self._namespace = namespace
        self._selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._optional = optional
        self._absent = False
        self._silence_seconds = silence_seconds
        self._size_limit = size_limit
        self._pace = pace
        self._decode = decode or decoded
        self._on_synced = on_synced
        self._on_connection = on_connection
        self._on_served = on_served
        self._clock = clock
        self._sleep = sleep
        self._draw = draw
        self._version = ""
        self._last_event_at = clock()
        self._failures = 0
        self._streams_lists = True
        self._pages_lists = True
        self._relist_reason = "start"

    def last_event_age(self) -> float:
        """Returns the seconds since the last message of the server, including bookmarks (one a minute).

        Above 95 the store may be stale.
        """
        return self._clock() - self._last_event_at

    async def run(self) -> None:
        """Follows the server until cancelled. Never returns and never raises because of the server or the network."""
        while True:
            began = self._clock()
            try:
                if self._version or self._streams_lists:
                    await self._follow()
                else:
                    await self._list()
                    continue
                stood = self._clock() - began
                if stood < 1.0:
                    raise Unintelligible(200, "EmptyWatch", f"the watch ended at once, after {stood:.3f} s")
            except ApiError as error:
                clear_frames(error.__traceback__)  # they have what was received, which would be kept while it waits
                await self._recover(error, self._clock() - began)
            else:
                self._failures = 0
                await self._sleep(PAUSE_AFTER_WATCH_SECONDS)

    async def _recover(self, error: ApiError, stood: float) -> None:
        """Decides how to continue after an error: a new list, another way to list, or only a wait."""
        if stood >= STOOD_SECONDS:
            self._failures = 0
        if self._optional and error.status == 404 and await self._not_served():
            await self._sleep(ABSENT_SECONDS)
            return
        self.watch_errors[type(error).__name__] += 1
        self._on_connection(error)
        if isinstance(error, Gone):
            if not self._version and not self._streams_lists:
                self._pages_lists = False
            self._version, self._relist_reason = "", "gone"
        if isinstance(error, TooLarge):
            self._version, self._relist_reason, self._pages_lists = "", "too large", True
        if isinstance(error, Invalid) and not self._version and self._streams_lists:
            self._streams_lists = False
            return
        wait = self._backoff(error)
        starting = isinstance(error, TooManyRequests) and "initializing" in str(error)
        log.log(
            logging.INFO if starting else logging.WARNING,  # an API server reads its storage when it starts
            "watch interrupted",
            resource=self.resource.plural,
            error=str(error),
            relist=not self._version,
            retry_seconds=round(wait, 3),
        )
        await self._sleep(wait)

    async def _not_served(self) -> bool:
        """Whether the discovery of the API server reports that the resource does not exist; then it has no objects."""
        try:
            if await serves(self._client, self.resource):
                return False
        except ApiError:
            return False
        if not self._absent:
            log.info(
                "not served yet: used when it is", resource=self.resource.plural, api_version=self.resource.api_version
            )
            self._on_served(False)
        self._absent = True
        await self._enter(self.store.listing(), "", self._sizes())
        return True

    def _backoff(self, error: ApiError) -> float:
        """Jitter: between half of a bound that doubles and all of it, so that no luck makes many requests; never sooner
        than the server asked, if that is no longer than half a minute. What is too large stays so for a while.
        """
        if isinstance(error, TooLarge):
            return LONGEST_BACKOFF_SECONDS
        asked = error.retry_after if isinstance(error, TooManyRequests) else None
        soon = isinstance(error, Unreachable) or asked is not None
        longest = LONGEST_SOON_SECONDS if soon else LONGEST_BACKOFF_SECONDS
        bound: float = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(self._failures, 16), longest)
        self._failures += 1
        return max(bound * (1 + self._draw()) / 2, min(asked or 0.0, LONGEST_RETRY_AFTER_SECONDS))

    async def _list(self) -> None:
        """List in pages; one token that expired on the way makes the next attempt a single page."""
        listing, sizes = self.store.listing(), self._sizes()
        version = ""
        async with aclosing(
            self._client.pages(
                self.resource,
                self._namespace,
                label_selector=self._selectors["labelSelector"],
                field_selector=self._selectors["fieldSelector"],
                limit=0 if not self._pages_lists else PAGE_SIZE if self._size_limit is None else SMALL_PAGE_SIZE,
            )
        ) as pages:
            async for page in pages:
                for place, raw in enumerate(page["items"], start=1):
                    if sizes is not None and self._size_limit is not None:
                        sizes.add(raw, self._size_limit.cost(self.resource.plural, raw), length(raw))
                    self.undecodable += not listing.add(raw)
                    if not place % DECODED_AT_ONCE:
                        await asyncio.sleep(0)
                version = page["metadata"]["resourceVersion"]
        self._pages_lists = True
        await self._enter(listing, version, sizes)

    def _sizes(self) -> Sizes | None:
        return self._size_limit.listing(self.resource.plural) if self._size_limit is not None else None

    async def _enter(self, listing: Listing[T], version: str, sizes: Sizes | None) -> None:
        if sizes is not None:
            sizes.enter()
        for _ in listing.enter(version):
            await asyncio.sleep(0)
        if version and self._absent:
            self._absent = False
            self._on_served(True)
            log.info("served now", resource=self.resource.plural, api_version=self.resource.api_version)
        if version:
            self.relists[self._relist_reason] += 1
        self._version, self._relist_reason = version, "gone"
        self._last_event_at = self._clock()
        if not self.synced.is_set():
            self._on_synced()
            self.synced.set()
        self._on_connection(None)

    async def _follow(self) -> None:
        """Watch from the version we hold, or from nothing with the initial state as events; returns when the server
        ends it.
        """
        params = {name: value for name, value in self._selectors.items() if value}
        params["timeoutSeconds"] = str(300 + int(300 * self._draw()))
        listing: Listing[T] | None = None
        sizes: Sizes | None = None
        if self._version:
            params["resourceVersion"] = self._version
        else:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
            listing, sizes = self.store.listing(), self._sizes()
        watch = self._client.watch(
            self.resource,
            self._namespace,
            params=params,
            silence_seconds=self._silence_seconds,
            opened=self._opened,
        )
        async with aclosing(watch) as lines:
            read = 0
            async for line in lines:
                counted = max(len(line), LEAST_READ)
                read += counted
                if read > READ_AT_ONCE:
                    read = counted
                    await asyncio.sleep(0)
                self._last_event_at = self._clock()
                if not line:  # over the limit: it is skipped, and the events after it are valid
                    self.undecodable += 1
                    log.warning("event skipped: too long", resource=self.resource.plural)
                    continue
                event, raw = self._decode(line)
                if event == "ERROR":
                    raise from_status(raw)
                if listing is None:
                    if self._pace is not None:
                        await self._pace.take(max(1.0, len(line) / PACED_BYTES))
                    if self._size_limit is not None and event != "BOOKMARK":
                        size = self._size_limit.cost(self.resource.plural, raw)
                        self._size_limit.observe(self.resource.plural, event, raw, size)
                    self._observe(event, raw)
                elif event == "BOOKMARK" and (raw["metadata"].get("annotations") or {}).get(INITIAL_EVENTS_END):
                    version = raw["metadata"].get("resourceVersion")
                    if not version:
                        raise Unintelligible(200, "Unintelligible", "the first events end without a version")
                    await self._enter(listing, version, sizes)
                    listing = None
                elif event == "DELETED":
                    self.undecodable += not listing.discard(raw)
                    if sizes is not None:
                        sizes.discard(raw)
                elif event != "BOOKMARK":
                    if sizes is not None and self._size_limit is not None:
                        sizes.add(raw, self._size_limit.cost(self.resource.plural, raw), len(line))
                    self.undecodable += not listing.add(raw)

    def _opened(self) -> None:
        """A watch that continues at a known version needs no list: what it missed follows immediately."""
        if self._version:
            self._on_connection(None)

    def _observe(self, event: str, raw: Raw) -> None:
        version = raw["metadata"].get("resourceVersion", "")
        if 0 < number_of(version) < number_of(self._version):
            raise Gone(410, "WentBack", f"version {version} came after {self._version}: the server was restored")
        if event == "BOOKMARK":
            self.store.bookmark(version)
        else:
            self.undecodable += not self.store.observe(event, raw)
        self._version = version or self._version


def decoded(line: bytes) -> tuple[str, Raw]:
    """Returns the type and the object of a watch event; raises ``Unintelligible`` for anything else."""
    try:
        event = loads(line)
    except orjson.JSONDecodeError:
        event = None
    if isinstance(event, dict):
        kind, raw = event.get("type"), event.get("object")
        if kind == "ERROR" and isinstance(raw, dict):
            return kind, raw
        if kind in EVENTS and isinstance(raw, dict) and _is_metadata(raw.get("metadata")):
            return kind, raw
    raise Unintelligible(200, "Unintelligible", f"not a watch event: {excerpt(line)}")


def _is_metadata(found: object) -> bool:
    """Whether these can be the metadata of an object: the few fields that this module reads have their types."""
    if not isinstance(found, dict):
        return False
    return isinstance(found.get("resourceVersion", ""), str) and isinstance(found.get("annotations"), dict | None)
