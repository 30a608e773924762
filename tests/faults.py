"""A fault proxy: stands between a client and an API server and does, on demand, what networks and proxies do to
connections.

Faults are queued with ``inject`` and used up in order by the requests they match; all else passes. The upstream is a
real API server (``Forward``) or, where a fault must meet an exact resource version, the stand-in of
``tests/standin.py``.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import orjson

from controller.kube.config import Connection
from controller.kube.connector import ClosingConnector


@dataclass(frozen=True)
class Request:
    """One request as the proxy read it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    target: str


@dataclass(frozen=True)
class Delay:
    """Wait, then pass the request on."""

    seconds: float


@dataclass(frozen=True)
class Answer:
    """Answer in the server's place, which never sees the request."""

    status: int
    body: bytes = b""
    content_type: str = "text/html"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reset:
    """Pass on so many bytes of the answer's body, then RST.

    With ``reaches`` False the server never sees the request.
    """

    after_bytes: int = 0
    reaches: bool = False


@dataclass(frozen=True)
class Truncate:
    """Pass on so many bytes of the answer's body, then close politely."""

    after_bytes: int


@dataclass(frozen=True)
class BlackHole:
    """Pass on so many bytes of the answer's body (0: not even the head), then never another one, on an open
    connection.
    """

    after_bytes: int = 0


Fault = Delay | Answer | Reset | Truncate | BlackHole


def status(code: int, reason: str, message: str = "injected", headers: Mapping[str, str] | None = None) -> Answer:
    """A Status document as the API server writes it."""
    document = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    body = orjson.dumps(document | {"message": message})
    return Answer(code, body, "application/json", headers or {})


def throttled(seconds: int = 1) -> Answer:
    """429 with Retry-After."""
    return status(429, "TooManyRequests", headers={"Retry-After": str(seconds)})


def html(code: int = 502) -> Answer:
    """What a load balancer says when its backend is away."""
    return Answer(code, b"<html><body><h1>502 Bad Gateway</h1></body></html>")


class Reply:
    """The answer on its way to the client: ``start`` once, ``send`` any number of times, ``end``."""

    def __init__(self, writer: asyncio.StreamWriter, fault: Fault | None) -> None:
        self.status = 0
        self._writer = writer
        self._fault = fault
        self._passed = 0

    async def start(self, code: int, headers: Mapping[str, str]) -> None:
        """Send the head; bodies are always chunked."""
        if isinstance(self._fault, BlackHole) and not self._fault.after_bytes:
            await asyncio.Event().wait()
        self.status = code
        lines = [f"HTTP/1.1 {code} -", "Transfer-Encoding: chunked", *(f"{k}: {v}" for k, v in headers.items())]
        self._write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await self._cut(b"")

    async def send(self, data: bytes) -> None:
        """Send a part of the body, as far as the fault lets it through."""
        if not data:
            return
        data = await self._cut(data)
        self._write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._writer.drain()

    async def end(self) -> None:
        """End the body properly."""
        self._write(b"0\r\n\r\n")
        await self._writer.drain()

    def _write(self, data: bytes) -> None:
        if self._writer.is_closing():  # the client has been killed
            raise ConnectionResetError
        self._writer.write(data)

    async def _cut(self, data: bytes) -> bytes:
        if not isinstance(self._fault, Reset | Truncate | BlackHole):
            return data
        allowed = self._fault.after_bytes - self._passed
        if len(data) < allowed:
            self._passed += len(data)
            return data
        if allowed:
            self._writer.write(b"%x\r\n%b\r\n" % (allowed, data[:allowed]))
        await self._writer.drain()
        if isinstance(self._fault, BlackHole):
            await asyncio.Event().wait()
        raise ConnectionResetError if isinstance(self._fault, Reset) else EOFError


BACKLOG = 100
SWEEP_SECONDS = 1.0
Upstream = Callable[[Request, Reply], Awaitable[None]]


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: faulty
clusters: [{{name: faulty, cluster: {{server: '{server}'}}}}]
contexts: [{{name: faulty, context: {{cluster: faulty, user: nobody}}}}]
users: [{{name: nobody, user: {{}}}}]
"""


class FaultProxy:
    """Listens on a free local port, over plain HTTP. ``seen`` holds every request, in order; ``answered`` those whose
    whole answer by the server was passed on, with its status.

    ``draw`` is asked for a fault for each request that none was queued for.
    """

    def __init__(self, upstream: Upstream) -> None:
        self.seen: list[Request] = []
        self.answered: list[tuple[Request, int]] = []
        self.url = ""
        self.draw: Callable[[Request], Fault | None] = lambda request: None
        self._upstream = upstream
        self._faults: list[tuple[Fault, Callable[[Request], bool]]] = []
        self._listening: socket.socket | None = None
        self._connections: dict[asyncio.Task[None], socket.socket] = {}
        self._watches: dict[asyncio.Task[None], asyncio.StreamReader] = {}
        self._sweeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._listening.setblocking(False)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        asyncio.get_running_loop().add_reader(self._listening, self._take, self._listening)
        self._sweeping = asyncio.create_task(self._sweep())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listening and self._sweeping
        self._sweeping.cancel()
        asyncio.get_running_loop().remove_reader(self._listening)
        self._listening.close()
        await self.cut()

    @property
    def connection(self) -> Connection:
        """How a client reaches the server through this proxy."""
        return Connection(self.url)

    @property
    def kubeconfig(self) -> str:
        """How a process reaches the server through this proxy."""
        return KUBECONFIG.format(server=self.url)

    def inject(
        self, *faults: Fault, method: str = "", path: str = "", watch: bool | None = None, times: int = 1
    ) -> None:
        """Queue faults for the next requests of this method, whose path holds this text, and that are a watch or
        not.
        """

        def matches(request: Request) -> bool:
            asked = request.query.get("watch") == "true"
            return method in ("", request.method) and path in request.path and watch in (None, asked)

        self._faults += [(fault, matches) for fault in faults for _ in range(times)]

    @property
    def injected(self) -> int:
        """How many queued faults have not been met yet."""
        return len(self._faults)

    def forget(self) -> None:
        """Forget every request, of which there are many in an hour."""
        self.seen.clear()
        self.answered.clear()

    def heal(self) -> None:
        """Forget every fault not yet met."""
        self._faults.clear()
        self.draw = lambda request: None

    async def cut(self) -> None:
        """Reset every open connection."""
        tasks = list(self._connections)
        for task, accepted in self._connections.items():
            linger(accepted)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, listening: socket.socket) -> None:
        """Accepts a connection, which ``cut`` finds from now on. Those that ``asyncio.start_server`` accepts are in no
        list for some turns of the event loop, and would stay open after the proxy has ended.
        """
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):  # the client has given up
            return
        task = asyncio.create_task(self._serve(accepted))
        self._connections[task] = accepted
        task.add_done_callback(lambda ended: self._connections.pop(ended).close())

    async def _serve(self, accepted: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=accepted, limit=2**26)
        try:
            await self._answer_all(reader, writer)
            writer.close()
            await writer.wait_closed()
        except (ConnectionResetError, aiohttp.ClientError):
            linger(accepted)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            if accepted.fileno() >= 0:  # an abort of what has closed itself fails after a full buffer
                writer.transport.abort()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        try:
            while request := await _read(reader):
                if request.query.get("watch") == "true":
                    self._watches[task] = reader
                await self._answer(request, writer)
                self._watches.pop(task, None)
        except EOFError:
            pass
        finally:
            self._watches.pop(task, None)

    async def _sweep(self) -> None:
        """Ends the watches of clients that have been killed: the server would keep them open until their next event."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for task, reader in list(self._watches.items()):
                if reader.at_eof() or reader.exception() is not None:  # a client with unread answers resets it
                    task.cancel()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.seen.append(request)
        fault = self._fault_for(request)
        reply = Reply(writer, fault)
        match fault:
            case Answer():
                await reply.start(fault.status, {"Content-Type": fault.content_type, **fault.headers})
                await reply.send(fault.body)
                await reply.end()
                return
            case Delay(seconds):
                await asyncio.sleep(seconds)
            case Reset(after_bytes=0, reaches=False):
                raise ConnectionResetError
        await self._upstream(request, reply)
        self.answered.append((request, reply.status))

    def _fault_for(self, request: Request) -> Fault | None:
        for place, (fault, matches) in enumerate(self._faults):
            if matches(request):
                del self._faults[place]
                return fault
        return self.draw(request)


class Forward:
    """The upstream that is a real API server. Close it after the proxy."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, request: Request, reply: Reply) -> None:
        """Pass one request on with the connection's own credentials, streaming the answer back."""
        self._session = self._session or aiohttp.ClientSession(
            connector=ClosingConnector(limit=0, ssl=self._connection.tls or True),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        kept = ("content-type", "accept", "accept-encoding", "user-agent", "authorization")
        headers = {name: value for name, value in request.headers.items() if name in kept}
        if authorization := await self._connection.credentials.authorization():
            headers["authorization"] = authorization
        async with self._session.request(
            request.method, self._connection.server + request.target, data=request.body or None, headers=headers
        ) as answer:
            passed = {name: answer.headers[name] for name in ("Content-Type", "Retry-After") if name in answer.headers}
            await reply.start(answer.status, passed)
            async for chunk in answer.content.iter_any():
                await reply.send(chunk)
        await reply.end()

    async def close(self) -> None:
        """Close the connections to the server."""
        if self._session:
            await self._session.close()


@contextlib.asynccontextmanager
async def proxied(connection: Connection) -> AsyncIterator[FaultProxy]:
    """A fault proxy in front of a real API server."""
    forward = Forward(connection)
    try:
        async with FaultProxy(forward) as proxy:
            yield proxy
    finally:
        await forward.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    return Request(method, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), headers, body, target)


def linger(connected: socket.socket) -> None:
    """Makes closing this socket send RST rather than FIN."""
    if connected.fileno() >= 0:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
