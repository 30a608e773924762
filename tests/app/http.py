"""A bare HTTP/1.1 client for tests: it can send what a proper client never would, and sees every byte of the answer."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Self

from app.server import Address


@dataclass(frozen=True)
class Answer:
    """One response. `status` 0: the connection was closed or reset without one."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


CUT = Answer(0, {})


class Wire:
    """One connection to a server under test; use with `async with`."""

    def __init__(
        self, address: Address, tls: ssl.SSLContext | None = None, connected: socket.socket | None = None
    ) -> None:
        self.address = address
        self.tls = tls
        self.connected = connected
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        host, port = (None, None) if self.connected else (self.address.host, self.address.port)
        self.reader, self.writer = await asyncio.open_connection(
            host, port, sock=self.connected, ssl=self.tls, server_hostname="localhost" if self.tls else None
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def send(self, data: bytes) -> None:
        """Bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """The next response, whole, or `CUT`."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            status_line, *lines = head.decode("latin1").strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return CUT
        return Answer(int(status_line.split()[1]), headers, body)

    async def call(self, data: bytes) -> Answer:
        """Send bytes, wait for a response."""
        await self.send(data)
        return await self.answer()

    async def closed(self) -> bool:
        """Wait until the other side has closed; False if it sent something instead."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


def post(path: str, body: bytes, *headers: str, content_type: str = "application/json") -> bytes:
    """A well-formed POST."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path: str, *headers: str) -> bytes:
    """A well-formed GET."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers]).encode() + b"\r\n\r\n"
