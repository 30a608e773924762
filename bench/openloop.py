"""Calls at a fixed rate, from a process that does nothing else, so that the server is measured and not the client.

Open loop: a call begins when it is due, whether or not earlier ones were answered, and is timed from that moment, so
that a stall counts for every call during it (no coordinated omission). Like the API server, it keeps its connections;
the requests are encoded before the first is sent. The lateness of the calls is measured too: then this process waited
(usually for a processor), and not the server.
"""

import asyncio
import contextlib
import gc
import heapq
import multiprocessing
import os
import select
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.measure import AHEAD, weigh
from controller.kube import config

CONNECTIONS = 64
PATIENCE_SECONDS = 30.0
PRIORITY = -20
"""The client represents another machine: if allowed, it never waits for a processor behind the programs that it
measures.
"""


class Quantiles(NamedTuple):
    """Milliseconds of the calls, the number of wrong answers, and the client's own lateness.

    ``began`` is when the first call was due, on the clock of ``time.perf_counter``, which all processes share.
    """

    calls: int
    failed: int
    p50: float
    p95: float
    p99: float
    p999: float
    longest: float
    late99: float
    """The lateness of the client, at the 99th percentile: lower figures mean nothing."""
    began: float

    def __str__(self) -> str:
        parts = (f"p50 {self.p50:.1f}", f"p95 {self.p95:.1f}", f"p99 {self.p99:.1f}", f"p99.9 {self.p999:.1f}")
        counted = f"{self.calls} calls, {self.failed} failed, sent {self.late99:.1f} ms late at p99"
        return f"{'  '.join(parts)}  longest {self.longest:.1f} ms   ({counted})"


@dataclass(frozen=True, slots=True)
class Target:
    """The server and the requests. ``requests`` are (path, JSON body) in turn; a right answer has status 2xx and
    contains ``expected``. Trust is a ``ca`` file, or that of a ``kubeconfig``, whose credentials are used too.
    """

    base: str
    requests: Sequence[tuple[str, bytes]]
    expected: bytes = b""
    ca: Path | None = None
    kubeconfig: Path | None = None

    def context(self) -> ssl.SSLContext:
        """How to shake hands."""
        if self.kubeconfig is not None:
            found = config.load(self.kubeconfig).tls
            assert found is not None, "a kubeconfig without TLS"
            return found
        return ssl.create_default_context(cafile=str(self.ca) if self.ca else None)

    def authorization(self) -> str:
        """The header line with the token of the kubeconfig; nothing if it has none."""
        if self.kubeconfig is None:
            return ""
        found = asyncio.run(config.load(self.kubeconfig).credentials.authorization())
        return f"Authorization: {found}\r\n" if found else ""


class Caller:
    """A client in its own process, with open connections; ``run`` can be called repeatedly. ``took`` has the seconds of
    every call so far.
    """

    def __init__(self, target: Target, connections: int = CONNECTIONS) -> None:
        self.took: list[float] = []
        ours, its = multiprocessing.get_context("spawn").Pipe()
        self._pipe = ours
        self._process = multiprocessing.get_context("spawn").Process(
            target=_serve_orders, args=(target, connections, its), daemon=True
        )
        self._process.start()
        its.close()

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process.pid is not None
        return self._process.pid

    def __enter__(self) -> "Caller":
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()

    def run(self, rate: float, seconds: float) -> Quantiles:
        """Begin ``rate`` calls a second for so long; blocks until the last is answered."""
        self._pipe.send((rate, seconds))
        found: Quantiles
        found, took = self._pipe.recv()
        self.took += took
        return found


def _serve_orders(target: Target, connections: int, pipe: Pipe) -> None:
    os.setsid()  # with its own share of the processors: it takes nothing from that of the server
    weigh(os.getpid(), AHEAD)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    gc.disable()
    loop = _Loop(target, connections)
    with contextlib.suppress(EOFError):
        while True:
            rate, seconds = pipe.recv()
            pipe.send(loop.run(rate, seconds))
            gc.collect()


class _Loop:
    """Non-blocking sockets and one ``select``: some 0.1 ms of processor a call."""

    def __init__(self, target: Target, connections: int) -> None:
        at = urlsplit(target.base)
        assert at.hostname and at.port
        head = f"Host: {at.netloc}\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        head += target.authorization()
        self._requests = [
            f"POST {path} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
            for path, body in target.requests
        ]
        self._expected = target.expected
        self._context = target.context()
        self._where = (at.hostname, at.port)
        self._idle = [self._connected() for _ in range(connections)]

    def run(self, rate: float, seconds: float) -> tuple[Quantiles, list[float]]:
        count = int(rate * seconds)
        began = time.perf_counter()
        due = [began + number / rate for number in range(count)]
        took: list[float] = []
        late: list[float] = []
        busy: dict[ssl.SSLSocket, tuple[float, bytearray]] = {}
        failed = sent = 0
        starved = False
        while len(took) < count:
            now = time.perf_counter()
            if now > began + seconds + PATIENCE_SECONDS:
                raise TimeoutError(f"{count - len(took)} of {count} calls were not answered in {PATIENCE_SECONDS:g} s")
            while sent < count and due[sent] <= now and self._idle:
                connection = self._idle.pop()
                connection.send(self._requests[sent % len(self._requests)])
                late.append(0.0 if starved else time.perf_counter() - due[sent])
                busy[connection] = (due[sent], bytearray())
                sent += 1
            starved = not self._idle  # other calls that are due wait for the server
            wait = due[sent] - time.perf_counter() if sent < count and self._idle else 0.1
            for connection in select.select(list(busy), [], [], max(wait, 0.0))[0]:
                since, answer = busy[connection]
                ended = _received(connection, answer)
                if ended is None:
                    continue
                took.append(time.perf_counter() - since)
                failed += not (200 <= ended < 300 and self._expected in answer)
                del busy[connection]
                self._idle.append(connection if ended else self._connected())
        return _quantiles(took, late, failed, began), took

    def _connected(self) -> ssl.SSLSocket:
        opened = socket.create_connection(self._where, timeout=PATIENCE_SECONDS)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self._context.wrap_socket(opened, server_hostname=self._where[0])
        connection.setblocking(False)
        return connection


def _received(connection: ssl.SSLSocket, answer: bytearray) -> int | None:
    """The status of an answer that is there to its end (0: the connection was closed before it was); else None."""
    with contextlib.suppress(ssl.SSLWantReadError):
        while True:
            try:
                part = connection.recv(65536)
            except OSError as error:
                if isinstance(error, ssl.SSLWantReadError):
                    raise
                part = b""
            if not part:
                connection.close()
                return 0
            answer += part
            if not connection.pending():
                break
    head, separator, body = answer.partition(b"\r\n\r\n")
    if not separator:
        return None
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        whole = body.endswith(b"0\r\n\r\n")
    else:
        whole = len(body) >= int(lower.partition(b"content-length:")[2].partition(b"\r\n")[0])
    return int(head[9:12]) if whole else None


def _quantiles(took: list[float], late: list[float], failed: int, began: float) -> Quantiles:
    ordered = sorted(each * 1e3 for each in took)

    def at(share: float) -> float:
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

    worst = heapq.nlargest(len(late) // 100 + 1, late)[-1] * 1e3
    return Quantiles(len(ordered), failed, at(0.5), at(0.95), at(0.99), at(0.999), ordered[-1], worst, began)
