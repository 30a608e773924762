"""A worker cluster that lies: an HTTP server that answers like the API server of a cluster without objects, and, for a
part of its calls, wrongly. Each minute has another lie.

``python -m bench.lies`` serves on a free port of 127.0.0.1, prints the port, and tells only the truth until ``POST
/begin``. ``GET /counts`` returns how often each lie was told. It is a process of its own, so that its memory is not
that of who is lied to.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, NamedTuple

import orjson

LIE_SECONDS: Final = 60.0
SHARE: Final = 0.5
"""This part of the calls is lied to; the others are needed to get so far that there is something to lie about."""
MEBIBYTE: Final = 1024 * 1024
JSON: Final = "Content-Type: application/json\r\n"
CHUNKED: Final = "Transfer-Encoding: chunked\r\n"
LAST: Final = b"0\r\n\r\n"


class Call(NamedTuple):
    """One call: the resource is the last part of the path of a collection."""

    method: str
    path: str
    watch: bool
    resource: str
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Writes, at the speed of the reader."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes, code: int = 200, head: str = JSON) -> None:
        """A whole answer."""
        await self.send(f"HTTP/1.1 {code} -\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async def stream(self, parts: AsyncIterator[bytes], head: str = JSON) -> None:
        """An answer without a length."""
        await self.send(f"HTTP/1.1 200 -\r\n{head}{CHUNKED}\r\n".encode())
        async for part in parts:
            await self.send(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        await self.send(LAST)


async def truth(call: Call) -> None:
    """There is nothing, and nothing changes for a quarter of a minute; what is written is refused."""
    if call.watch:
        await call.stream(_quiet())
    elif call.method == "GET":
        await call.answer(_list(b""))
    else:
        failed = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "reason": "Invalid"}
        await call.answer(orjson.dumps(failed | {"message": "not here"}), 422)


async def _quiet() -> AsyncIterator[bytes]:
    for _ in range(3):
        yield b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n'
        await asyncio.sleep(LIE_SECONDS / 12)


def _list(items: bytes, more: str = "") -> bytes:
    token = f',"continue":"{more}"' if more else ""
    return b'{"kind":"List","metadata":{"resourceVersion":"1"%s},"items":[%s]}' % (token.encode(), items)


def _object(number: int, more: bytes = b"{}") -> bytes:
    labels = b'{"kueue.x-k8s.io/multikueue-origin":"multikueue"}'
    metadata = b'"name":"x%d","namespace":"default","uid":"u%d","resourceVersion":"1","labels":%s' % (
        (number, number, labels)
    )
    return b'{"metadata":{%s},"spec":%s,"status":%s}' % (metadata, more, more)


async def _repeated(part: bytes, size: int, first: bytes = b"", last: bytes = b"") -> AsyncIterator[bytes]:
    yield first
    for _ in range(size // len(part)):
        yield part
    yield last


def _large(part: bytes, *, first: bytes, last: bytes) -> Callable[[Call], Awaitable[None]]:
    """240 MiB of the same."""

    async def answer(call: Call) -> None:
        many = part * (64 * 1024 // len(part))
        event = b'{"type":"ADDED","object":' if call.watch else b""
        await call.stream(_repeated(many, 240 * MEBIBYTE, event + first, last + (b"}\n" if call.watch else b"")))

    return answer


async def pages_without_end(call: Call) -> None:
    """Always another page."""
    number = random.randrange(10**9)
    await call.answer(_list(b",".join(_object(number + each, b"[{},{},{}]") for each in range(25)), f"t{number}"))


async def changes_without_end(call: Call) -> None:
    """Always another object."""

    async def events() -> AsyncIterator[bytes]:
        while True:
            number = random.randrange(10**9)
            yield b"".join(
                b'{"type":"ADDED","object":%s}\n' % _object(number + each, b'{"a":[{},{}]}') for each in range(50)
            )

    await (call.stream(events()) if call.watch else truth(call))


async def objects_of_many_parts(call: Call) -> None:
    """Each has nearly the largest size that is read, and costs more when it is decoded."""
    more = b"[" + b"{}," * (300 * 1024) + b"{}]"
    if call.watch:
        await call.stream(
            _repeated(b'{"type":"ADDED","object":%s}\n' % _object(random.randrange(10**9), more), 64 * MEBIBYTE)
        )
    else:
        await call.answer(_list(_object(0, more)))


async def zipped(call: Call) -> None:
    """A gigabyte of zeros in a megabyte."""
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(1024):
            if part := packed.compress(bytes(MEBIBYTE)):
                yield part
        yield packed.flush()

    await call.stream(parts(), f"{JSON}Content-Encoding: gzip\r\n")


async def nested(call: Call) -> None:
    """Deeper than any object."""
    await call.answer(b'{"a":' * 200_000 + b"1" + b"}" * 200_000)


async def wrong_types(call: Call) -> None:
    """Fields of the wrong types, and characters that do not exist."""
    wrong = (
        b'{"metadata":[],"items":{}}',
        b'{"metadata":{"resourceVersion":{}},"items":[]}',
        _list(b"null,1,[],{},%s" % b'{"metadata":{"name":{},"namespace":[],"labels":7},"spec":"x","status":[[]]}'),
        _list(b'{"metadata":{"name":"x","namespace":"default","ownerReferences":{}},"spec":{"podSets":{"a":1e400}}}'),
        b'{"kind":"List","metadata":{"resourceVersion":"\\ud800"},"items":[]}',
    )
    body = random.choice(wrong)
    events = b'{"type":7,"object":[]}\n', b'{"type":"ADDED","object":%s}\n' % wrong[0], b"[]\n", b"\xff\xfe\n"
    if call.watch:
        await call.stream(_repeated(random.choice(events), 4096))
    else:
        await call.answer(body)


async def html(call: Call) -> None:
    """What a load balancer answers."""
    await call.answer(b"<html><h1>502 Bad Gateway</h1></html>" * 1000, random.choice((200, 502)), "")


async def half(call: Call) -> None:
    """The connection ends in the middle."""
    await call.send(f"HTTP/1.1 200 -\r\n{JSON}Content-Length: 100000\r\n\r\n".encode() + _list(b"")[:40])
    call.writer.close()


async def head_without_end(call: Call) -> None:
    """100 MB of headers."""
    await call.send(b"HTTP/1.1 200 -\r\n")
    for number in range(100_000):
        await call.send(b"X-%d: %s\r\n" % (number, b"x" * 1000))


async def slow(call: Call) -> None:
    """It ends after a minute, and is never silent."""
    await call.send(f"HTTP/1.1 200 -\r\n{JSON}Content-Length: 100000\r\n\r\n".encode())
    for _ in range(int(LIE_SECONDS)):
        await call.send(b" ")
        await asyncio.sleep(1)
    call.writer.close()


async def errors(call: Call) -> None:
    """Refusals: to be repeated in a thousand years, with a reason of 64 MiB, or elsewhere."""
    code, head = random.choice(
        ((429, "Retry-After: 99999999999\r\n"), (500, ""), (302, "Location: /api\r\n"), (401, ""), (410, ""))
    )
    await call.answer(
        b'{"kind":"Status","code":%d,"message":"%s"}' % (code, b"x" * random.choice((10, 64 * MEBIBYTE))),
        code,
        JSON + head,
    )


async def accepted(call: Call) -> None:
    """All writes succeed, with answers that have nothing to do with them."""
    if call.method == "GET":
        await truth(call)
    else:
        await call.answer(_object(random.randrange(10**9), b"[" + b"[]," * 10_000 + b"[]]"), 201)


LIES: Final[tuple[tuple[str, Callable[[Call], Awaitable[None]]], ...]] = (
    ("240 MiB of empty objects", _large(b"{},", first=_list(b"")[:-2], last=b"{}]}")),
    ("pages without end", pages_without_end),
    ("accepts all writes", accepted),
    ("changes without end", changes_without_end),
    ("objects of many parts", objects_of_many_parts),
    ("a gigabyte, zipped", zipped),
    ("240 MiB of one name", _large(b"x" * 1024, first=b'{"metadata":{"name":"', last=b'"}}')),
    ("nested", nested),
    ("wrong types", wrong_types),
    ("HTML", html),
    ("half an answer", half),
    ("a head without end", head_without_end),
    ("a byte a second", slow),
    ("errors", errors),
    ("240 MiB of empty lists", _large(b"[],", first=_list(b"")[:-2], last=b"[]]}")),
)


class Liar:
    """The server."""

    def __init__(self) -> None:
        self.lies: Counter[str] = Counter()
        self.since = 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the calls of a connection until it ends."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lengths = (line.partition(":")[2] for line in head.lower().split("\r\n") if "content-length:" in line)
                await reader.readexactly(int(next(lengths, "0")))
                method, target, _ = head.split(" ", 2)
                path, _, query = target.partition("?")
                call = Call(method, path, "watch=true" in query, path.rpartition("/")[2], writer)
                await self._answer(call)
        writer.close()

    async def _answer(self, call: Call) -> None:
        if call.path == "/begin":
            self.since = time.monotonic()
            await call.answer(b"{}")
        elif call.path == "/counts":
            await call.answer(orjson.dumps(self.lies))
        elif self.since and random.random() < SHARE:
            name, lie = LIES[int((time.monotonic() - self.since) / LIE_SECONDS) % len(LIES)]
            self.lies[name] += 1
            await lie(call)
        else:
            await truth(call)


async def serve() -> None:
    """Serves until cancelled."""
    server = await asyncio.start_server(Liar().serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
