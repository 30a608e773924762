"""Sends the notifications of one receiver, one after the other, by HTTP POST.

A receiver that is slow or down delays only its own notifications: at most ``queue_length`` of them wait, and of a
namespace with many the newest are dropped first. Each is tried a few times; while the receiver does not answer at all
there is one call a minute. What is secret (a header, the end of the URL) is read from files for each call and is in no
message of this module: of errors it logs the kind alone, because their texts may contain the URL.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import orjson
from prometheus_client import Counter
from yarl import URL

from controller.kube.connector import ClosingConnector
from controller.kube.flow.throttle import Throttle
from controller.kube.log import get_logger
from controller.kube.turns import Turns
from core.notifications.addresses import refused
from core.notifications.document import CONTENT_TYPE, document, filled
from core.notifications.model import Notification, Recipient

log = get_logger(__name__)

CALL_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5.0
FILE_SECONDS: Final = 5.0
MOST_ATTEMPTS: Final = 6
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 60.0
TOO_OLD_SECONDS: Final = 3600.0
"""A notification that was not delivered for so long is dropped: it is no news."""
TRUST_SECONDS: Final = 600.0
"""The file with the authorities is read again after this time."""
LARGEST_FILE: Final = 16 * 1024
AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_PATH: Final = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%/?-]+")
_VALUE: Final = re.compile(r"[ -~]+")


class NotDeliveredError(Exception):
    """A call failed; the message has no secret. ``again``: another one may succeed, after ``seconds`` if given."""

    def __init__(self, why: str, *, again: bool = True, seconds: float | None = None) -> None:
        self.again = again
        self.seconds = seconds
        super().__init__(why)


class Sender:
    """``add`` notifications, ``run`` in a task. ``clock`` is monotonic, ``now`` in seconds since the epoch."""

    def __init__(
        self,
        recipient: Recipient,
        source: str,
        results: Counter,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.recipient = recipient
        self._source = source
        self._results = results
        self._clock = clock
        self._now = now
        self._sleep = sleep
        rate = recipient.rate_per_minute
        self._budget = Throttle(rate / 60, max(1, rate // 6), clock=clock, sleep=sleep)
        self._waiting: Turns[Notification] = Turns(lambda each: each.key.namespace)
        self._news = asyncio.Event()
        self._failures = 0
        self._complaint = ""
        self._dropped = 0
        self._trust: tuple[float, ssl.SSLContext] | None = None
        self._refusal = ""
        for result in ("sent", "failed", "dropped"):
            results.labels(recipient.name, result)

    def __len__(self) -> int:
        """How many notifications wait to be sent."""
        return len(self._waiting)

    def add(self, notification: Notification) -> None:
        """Stores a notification that is sent later; returns at once. A namespace may have as many as there are free
        places: so one namespace can take half of them, and there is always room for another one.
        """
        taken = self._waiting.count(notification.key.namespace)
        if notification not in self._waiting and taken >= self.recipient.queue_length - len(self._waiting):
            self._drop("dropped")
            return
        self._waiting.add(notification)
        self._news.set()

    async def run(self) -> None:
        """Sends notifications until cancelled."""
        while True:
            if not len(self._waiting):
                self._news.clear()
                await self._news.wait()
            await self._budget.take()
            await self.send(self._waiting.pop())

    async def send(self, notification: Notification) -> None:
        """Sends a notification, with repetitions."""
        for attempt in range(1, MOST_ATTEMPTS + 1):
            if self._now() - notification.at > TOO_OLD_SECONDS and self._failures:
                self._drop("dropped")
                return
            try:
                await self._post(notification)
            except NotDeliveredError as error:
                self._failures += 1
                self._complain(str(error))
                if not error.again or attempt == MOST_ATTEMPTS:
                    self._drop("failed")
                    return
                wait = min(FIRST_WAIT_SECONDS * 2.0 ** min(self._failures - 1, 10), LONGEST_WAIT_SECONDS)
                await self._sleep(min(max(wait, error.seconds or 0.0), LONGEST_WAIT_SECONDS))
            else:
                self._delivered()
                return

    def _drop(self, result: str) -> None:
        self._dropped += 1
        self._results.labels(self.recipient.name, result).inc()

    def _delivered(self) -> None:
        self._results.labels(self.recipient.name, "sent").inc()
        self._failures = self._dropped = 0
        if self._complaint:
            log.info("notifications are delivered again", receiver=self.recipient.name)
        self._complaint = ""

    def _complain(self, why: str) -> None:
        """Logs why nothing is delivered, once for each reason."""
        if why != self._complaint:
            log.warning("a notification was not delivered", receiver=self.recipient.name, error=why)
        self._complaint = why

    async def _post(self, notification: Notification) -> None:
        body = self.recipient.body
        if body is None:
            content, sent = CONTENT_TYPE, document(notification, self._source, dropped=self._dropped)
        else:
            content, sent = "application/json", filled(body, notification)
        headers = {"Content-Type": content, "User-Agent": "seiretsu"}
        if self.recipient.header is not None:
            name, file = self.recipient.header
            headers[name] = await _secret(file, "header", _VALUE)
        url = await self._url()
        connector = ClosingConnector(
            ssl=await self._trusted(), force_close=True, limit=1, socket_factory=self._socket, use_dns_cache=False
        )
        limits = aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS)
        self._refusal = ""
        try:
            async with (
                aiohttp.ClientSession(
                    connector=connector,
                    timeout=limits,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    auto_decompress=False,
                    trust_env=False,
                ) as session,
                session.post(url, data=orjson.dumps(sent), headers=headers, allow_redirects=False) as answer,
            ):
                _judge(answer)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise NotDeliveredError(self._refusal or _kind(error)) from None

    async def _url(self) -> URL:
        base = self.recipient.url
        if not self.recipient.path_file:
            return URL(base)
        rest = await _secret(self.recipient.path_file, "pathFile", _PATH)
        if ".." in rest.partition("?")[0].split("/"):
            raise NotDeliveredError('the file of pathFile has a ".." in the path')
        return URL(f"{base.rstrip('/')}/{rest.lstrip('/')}", encoded=True)

    async def _trusted(self) -> ssl.SSLContext | bool:
        """The authorities, read in a thread: those of a system are half a megabyte."""
        if urlsplit(self.recipient.url).scheme == "http":
            return True
        if self._trust is None or self._clock() - self._trust[0] > TRUST_SECONDS:
            file = self.recipient.ca_file or None
            try:
                context = await asyncio.to_thread(ssl.create_default_context, cafile=file)
            except (OSError, ValueError) as error:
                raise NotDeliveredError(f"the file of caFile cannot be read: {_kind(error)}") from None
            self._trust = (self._clock(), context)
        return self._trust[1]

    def _socket(self, address: Any) -> socket.socket:
        """Makes the socket for an address, unless the address may not be called: there is no way around this, whatever
        the name of the receiver resolves to.
        """
        family, kind, protocol, _, peer = address
        if why := refused(str(peer[0]), self.recipient.networks):
            self._refusal = why
            raise OSError(why)
        return socket.socket(family, kind, protocol)


def _judge(answer: aiohttp.ClientResponse) -> None:
    """Raises unless the receiver accepted the notification. The body of the answer is not read."""
    status = answer.status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise NotDeliveredError(f"status {status}: redirects are not followed", again=False)
    after = answer.headers.get("Retry-After", "")
    seconds = float(after) if after.isascii() and after.isdigit() and len(after) < 6 else None
    raise NotDeliveredError(f"status {status}", again=status in AGAIN, seconds=seconds)


def _kind(error: BaseException) -> str:
    certificate = getattr(error, "certificate_error", None)
    return f"{type(error).__name__}: {certificate.verify_message}" if certificate is not None else type(error).__name__


async def _secret(file: str, field: str, form: re.Pattern[str]) -> str:
    """Returns the content of a file, without white space at its ends."""
    try:
        async with asyncio.timeout(FILE_SECONDS):
            content = await asyncio.to_thread(_read, file)
    except (OSError, TimeoutError, UnicodeDecodeError) as error:
        raise NotDeliveredError(f"the file of {field} cannot be read: {_kind(error)}") from None
    if not form.fullmatch(content):
        raise NotDeliveredError(f"the file of {field} is empty, too long, or has characters that are not allowed there")
    return content


def _read(file: str) -> str:
    with Path(file).open("rb") as opened:
        content = opened.read(LARGEST_FILE + 1)
    return "" if len(content) > LARGEST_FILE else content.decode().strip()
