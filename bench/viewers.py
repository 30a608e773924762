"""Clients that cost their machine little, so that a bench measures the server: callers of admission, and viewers of the
page who read bytes and look at none of them.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, cast

AGAIN_SECONDS: Final = 2.0
"""So often a viewer asks for a page of the line of a queue."""
QUEUES_SEEN: Final = 50
_END: Final = b"\r\n\r\n"


class _Reader(asyncio.Protocol):
    """Counts the bytes that arrive."""

    def __init__(self) -> None:
        self.read = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass

    def data_received(self, data: bytes) -> None:
        self.read += len(data)

    def send(self, request: bytes) -> None:
        """Sends a request."""
        assert self.transport is not None
        if self.closed:
            raise ConnectionError("the server has closed the connection of a viewer")
        self.transport.write(request)

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""
        return self.transport is not None and self.transport.is_closing()

    def close(self) -> None:
        """Closes the connection."""
        if self.transport is not None:
            self.transport.close()


class Viewer:
    """Follows all queues, and asks again and again for a page of a line. ``read`` counts its bytes."""

    def __init__(self, port: int, number: int) -> None:
        self._port = port
        self._line = f"/api/queues/cq-{number * 7 % QUEUES_SEEN:04}/line?limit=100"
        self._connections: list[_Reader] = []

    @property
    def read(self) -> int:
        """How many bytes it has read."""
        return sum(each.read for each in self._connections)

    async def run(self) -> None:
        """Reads until cancelled."""
        try:
            stream, lines = [await self._connected() for _ in range(2)]
            stream.send(self._request("/api/stream?topic=queues&topic=cohorts"))
            while True:
                before = lines.read
                lines.send(self._request(self._line))
                await asyncio.sleep(AGAIN_SECONDS)
                if lines.read == before:
                    raise TimeoutError(f"{self._line} was not answered within {AGAIN_SECONDS:g} s")
        finally:
            for each in self._connections:
                each.close()

    async def _connected(self) -> _Reader:
        _, found = await asyncio.get_running_loop().create_connection(_Reader, "127.0.0.1", self._port)
        self._connections.append(found)
        return found

    def _request(self, path: str) -> bytes:
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAuthorization: Bearer admin\r\n"
        return f"{head}Accept-Encoding: gzip\r\n\r\n".encode()


class PathCaller:
    """Calls one path again and again, on connections that it keeps."""

    def __init__(self, port: int, path: str, body: bytes) -> None:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        self._port = port
        self._request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self._idle: list[_Connection] = []

    async def run(self, rate: float, seconds: float) -> list[float]:
        """Begins so many calls a second, whether or not earlier ones were answered; returns how long each took from the
        moment at which it was due.
        """
        took, running = list[float](), list[asyncio.Task[None]]()
        began = time.perf_counter()  # the time of the event loop has whole milliseconds
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            running.append(asyncio.create_task(self._call(due, took)))
        await asyncio.gather(*running)
        return took

    async def _call(self, due: float, took: list[float]) -> None:
        loop = asyncio.get_running_loop()
        self._idle = [each for each in self._idle if not each.closed]  # by the server, because they were idle for long
        if not self._idle:
            _, made = await loop.create_connection(_Connection, "127.0.0.1", self._port)
            self._idle.append(made)
        connection = self._idle.pop()
        answered = await connection.ask(self._request)
        took.append(answered - due)
        self._idle.append(connection)


class _Connection(_Reader):
    """One call at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._answer = b""
        self._answered: asyncio.Future[float] | None = None

    async def ask(self, request: bytes) -> float:
        """Returns when the answer was there. Raises ``ConnectionError`` for any but a right one."""
        loop = asyncio.get_running_loop()
        self._answer, self._answered = b"", loop.create_future()
        self.send(request)
        return await self._answered

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, body = self._answer.partition(_END)
        if self._answered is None or self._answered.done() or not end:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        if head.startswith(b"HTTP/1.1 200 "):
            self._answered.set_result(time.perf_counter())
        else:
            self._answered.set_exception(ConnectionError(self._answer[:200].decode(errors="replace")))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(ConnectionError("the server has closed the connection of a call"))
