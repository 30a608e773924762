"""HTTP/1.1 requests: what the bytes of a connection say, part by part, and the head of an answer.

A pure parser around llhttp, the parser of Node.js (``httptools``, in C: a request costs a tenth of what it costs in
Python). Only HTTP/1.1 and 1.0 are served; a request to change the protocol is refused. So is one with both a length and
chunks: a proxy before this server may use the other one of them, and take the rest of the body for the next request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserInvalidURLError, HttpParserUpgrade, HttpRequestParser, parse_url

HEAD_BYTES: Final = 16 * 1024
"""The longest request head. A request target and a field count when they are complete."""


class Head(NamedTuple):
    """The head of a request. ``headers`` have names in lower case."""

    method: str
    path: str
    raw_path: bytes
    query: bytes
    version: str
    headers: list[tuple[bytes, bytes]]
    keep_alive: bool
    """Whether the client may send another request after this one."""

    @property
    def waits(self) -> bool:
        """Whether the client sends its body only when it is told to continue."""
        return any(name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers)


class End(NamedTuple):
    """The end of a request, after its body."""


class Invalid(NamedTuple):
    """The status that answers bytes that are no request; nothing is read after them."""

    status: int


Part: TypeAlias = Head | bytes | End | Invalid
"""What arrives, in order: of each request its head, its body in pieces, and its end."""


class Requests:
    """The requests of one connection. ``feed`` takes bytes as they arrive; ``parts`` has what they said."""

    def __init__(self) -> None:
        self.parts: deque[Part] = deque()
        self._parser: HttpRequestParser | None = HttpRequestParser(self)
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._in_head = False
        self._fed = 0
        """Bytes of the present request, and of those that came with its beginning."""

    def feed(self, data: bytes) -> None:
        """Reads these bytes. Nothing is read after ``Invalid``."""
        if self._parser is None:
            return
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserUpgrade, HttpParserError):
            self._refuse(HTTPStatus.BAD_REQUEST)
        if self._in_head and self._fed > HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def close(self) -> None:
        """Reads nothing any more. The parser and this object refer to each other."""
        self._parser = None

    def _refuse(self, status: HTTPStatus) -> None:
        if self._parser is not None:
            self.parts.append(Invalid(status))
            self.close()

    def on_message_begin(self) -> None:
        """Begins a request."""
        self._target, self._headers, self._in_head = b"", [], True

    def on_url(self, url: bytes) -> None:
        """Takes a piece of the request target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a field."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Makes the head of what was taken, or refuses it."""
        parser = self._parser
        if parser is None:
            return
        self._in_head = False
        version = parser.get_http_version()
        if len(self._target) + sum(len(name) + len(value) + 4 for name, value in self._headers) > HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        hosts = sum(name == b"host" for name, _ in self._headers)
        if parser.should_upgrade() or hosts > 1 or (not hosts and version != "1.0"):
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        try:
            url = parse_url(self._target)
        except HttpParserInvalidURLError:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        raw_path = url.path or b"/"
        self.parts.append(
            Head(
                parser.get_method().decode("ascii"),
                unquote(raw_path.decode("latin-1")) if b"%" in raw_path else raw_path.decode("latin-1"),
                raw_path,
                url.query or b"",
                version,
                self._headers,
                parser.should_keep_alive(),
            )
        )

    def on_body(self, body: bytes) -> None:
        """Takes a piece of the body."""
        if self._parser is not None:
            self.parts.append(body)

    def on_message_complete(self) -> None:
        """Ends the request."""
        self._fed = 0
        if self._parser is not None:
            self.parts.append(End())


_LINES: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}


def answer_head(status: int, headers: Iterable[tuple[bytes, bytes]], date: bytes, *, close: bool) -> bytes:
    """Returns the head of an answer, which says that the connection is closed afterwards if ``close``."""
    lines = [_LINES[status]]
    for name, value in headers:
        if name.lower() != b"connection":
            lines += (name, b": ", value, b"\r\n")
    lines += (b"date: ", date, b"\r\nconnection: close\r\n\r\n" if close else b"\r\n\r\n")
    return b"".join(lines)
