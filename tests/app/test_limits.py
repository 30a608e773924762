"""Limits on requests: every refusal has its status and does not affect other callers."""

import asyncio
import contextlib
import resource
from dataclasses import replace
from pathlib import Path

import pytest
import structlog.testing

from app.connection import ServedConnection
from app.limits import Limits, client_seconds
from tests.app.conftest import PATIENT, Serve, shorten
from tests.app.http import Answer, Wire, get, post
from tests.eventually import PATIENCE, eventually

SMALL = Limits(body_bytes=1000, held_bytes=2500, body_seconds=0.3, calls=2, wait_seconds=0.1, linger_seconds=0.3)

KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="


def chunked(body: bytes) -> bytes:
    """A POST with its body as it is."""
    return post("/echo", b"", "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"") + body


REFUSED = [
    ("a body over the limit by its own account", post("/echo", b"x" * 1001), 413),
    (
        "a length of four hundred digits",
        post("/echo", b"", "X: y").replace(b"Length: 0", b"Length: " + b"9" * 400),
        400,
    ),
    ("a hook that is read with GET", get("/echo"), 405),
    ("a page that is posted to", post("/page", b"{}"), 405),
    ("a page that is given a body", get("/page", "Content-Length: 5") + b"hello", 413),
    ("no content type", post("/echo", b"{}", content_type=""), 415),
    ("YAML", post("/echo", b"a: b", content_type="application/yaml"), 415),
    ("a form", post("/echo", b"a=b", content_type="application/x-www-form-urlencoded"), 415),
    ("a compressed body", post("/echo", b"\x1f\x8b", "Content-Encoding: gzip"), 415),
    ("a body that is not sent", post("/echo", b"x", "X: y").replace(b"Length: 1", b"Length: 10"), 408),
    ("an unknown path", get("/nothing"), 404),
    ("a posted unknown path", post("/nothing", b"{}"), 405),
    ("no HTTP at all", b"\x00\x01\x02\x03\r\n\r\n", 400),
    ("a head of 100 KiB", get("/page", "X: " + "y" * 100_000), 431),
    ("two lengths", post("/echo", b"{}", "Content-Length: 3"), 400),
    ("a head of 17 KiB in one piece", get("/page", *(f"X-{number}: {'y' * 1000}" for number in range(17))), 431),
    ("a length and chunks", post("/echo", b"0\r\n\r\n", "Transfer-Encoding: chunked"), 400),
    ("a page with a length and chunks", get("/page", "Content-Length: 0", "Transfer-Encoding: chunked"), 400),
    ("a line that ends without CR", get("/page", "X: y\nZ: w"), 400),
    ("a head whose lines end without CR", get("/page", "X: y").replace(b"\r\n", b"\n"), 400),
    ("a head that ends without CR", get("/page", "X: y").replace(b"\r\n\r\n", b"\r\n\n"), 400),
    ("a field that continues after a space", get("/page", "X: y", " z"), 400),
    ("a field that continues after a tab", get("/page", "Content-Length: 0", "\t1"), 400),
    ("a name after a space", post("/echo", b"{}").replace(b"Host", b" Host"), 400),
    ("chunks whose last line ends without CR", chunked(b"2\r\n{}\r\n0\r\n\n"), 400),
    ("chunks with a line that ends without CR", chunked(b"2\n{}\r\n0\r\n\r\n"), 400),
    ("fields after the chunks", chunked(b"2\r\n{}\r\n0\r\nX: y\r\n\r\n"), 400),
    ("a continued field after the chunks", chunked(b"2\r\n{}\r\n0\r\nX: y\r\n z\r\n\r\n"), 400),
]


@pytest.mark.parametrize(("request_bytes", "status"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
async def test_refused_with(serve: Serve, request_bytes: bytes, status: int) -> None:
    async with serve(limits=SMALL) as served:
        async with served.wire() as wire:
            answer = await wire.call(request_bytes)
            assert answer.status == status
            if status not in (404,):
                assert answer.headers["connection"] == "close"
                assert await wire.closed()
        async with served.wire() as other:
            assert (await other.call(post("/echo", b"{}"))).status == 200


ACCEPTED = [
    ("a media type with its charset", post("/echo", b"{}", content_type="application/json; charset=utf-8")),
    ("a media type in capitals", post("/echo", b"{}", content_type="Application/JSON")),
    ("an encoding that is none", post("/echo", b"{}", "Content-Encoding: identity")),
    ("a body in chunks", chunked(b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")),
    ("line ends without CR in a body", post("/echo", b"\n\n")),
    ("line ends without CR in a chunk", chunked(b"2\r\n\n\n\r\n0\r\n\r\n")),
]


@pytest.mark.parametrize("request_bytes", [case[1] for case in ACCEPTED], ids=[case[0] for case in ACCEPTED])
async def test_accepted(serve: Serve, request_bytes: bytes) -> None:
    async with serve(limits=SMALL) as served, served.wire() as wire:
        answer = await wire.call(request_bytes)
        assert (answer.status, answer.body) == (200, b"2")


async def test_a_chunked_body_over_the_limit_is_cut_off_when_it_passes_it(serve: Serve) -> None:
    head = chunked(b"")
    async with serve(limits=SMALL) as served, served.wire() as wire:
        await wire.send(head + (b"64\r\n" + b"x" * 100 + b"\r\n") * 10)
        assert (await wire.call(b"64\r\n" + b"x" * 100 + b"\r\n")).status == 413
        assert await wire.closed()
    assert served.app.bodies.held == 0


@pytest.mark.parametrize("in_chunks", [False, True], ids=["by its length", "in chunks"])
async def test_t1_300_mb_neither_fill_the_memory_nor_hold_others_up(serve: Serve, in_chunks: bool) -> None:
    """T1: other calls are answered while it is sent."""
    block = b"x" * 65536
    if in_chunks:
        head = chunked(b"")
        block = b"10000\r\n" + block + b"\r\n"
    else:
        head = post("/echo", b"").replace(b"Length: 0", b"Length: 314572800")
    async with serve() as served:
        async with served.wire() as wire, served.wire() as other:
            await other.call(post("/echo", b"{}"))
            before, grown = resident_mib(), 0.0
            answered = asyncio.create_task(wire.answer())
            meanwhile = asyncio.create_task(call_until(answered, other))
            try:
                await wire.send(head)
                for _ in range(4800):
                    await wire.send(block)
                    grown = max(grown, resident_mib() - before)
                    if answered.done():
                        break
            except ConnectionError:
                pass
            assert (await answered).status in (413, 0)
            assert grown < 60, f"{grown} MiB for a body of 300 MiB, of which at most 7 may be held"
            assert await meanwhile == {b"2"}
        assert served.app.bodies.held == 0


def resident_mib() -> float:
    """Returns the memory that this process has now: server and client are one process here.

    What a busy machine changes (the order of reads and writes, buffers, the allocator's pages) is some MiB. A limit
    that does not hold takes all that is sent: what a test allows is far from both.
    """
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


async def call_until(answered: asyncio.Task[Answer], other: Wire) -> set[bytes]:
    """Calls again and again until another call is answered; returns the answers."""
    answers = {(await other.call(post("/echo", b"{}"))).body}
    while not answered.done():
        answers.add((await other.call(post("/echo", b"{}"))).body)
    return answers


async def test_a_caller_that_sends_on_after_a_refusal_can_read_it_and_no_bug_is_logged(serve: Serve) -> None:
    patient = replace(PATIENT, closing=PATIENCE)
    with structlog.testing.capture_logs() as told:
        async with serve(limits=SMALL, deadlines=patient, tls=True) as served, served.wire() as wire:
            await wire.send(post("/echo", b"").replace(b"Length: 0", b"Length: 5000000"))
            for _ in range(100):
                await wire.send(b"x" * 50_000)
            assert (await wire.answer()).status == 413
    assert told == []


LARGE = replace(SMALL, small_bytes=100, body_seconds=60, calls=1)


async def test_the_largest_of_many_bodies_is_refused_whichever_came_last(serve: Serve) -> None:
    async with serve(limits=LARGE) as served:
        bodies = served.app.bodies
        async with served.wire() as one, served.wire() as two, served.wire() as three, served.wire() as four:
            await one.send(post("/echo", b"x" * 900)[:-100])
            await two.send(post("/echo", b"x" * 1000)[:-1])
            await eventually(lambda: bodies.held == 1799)
            assert (await three.call(post("/echo", b"x" * 701))).body == b"701", "as much as there is"
            await three.send(post("/echo", b"x" * 703)[:-1])
            assert (await two.answer()).status == 429, "the largest, not the last"
            await eventually(lambda: bodies.held == 800 + 702)
            assert (await four.call(post("/echo", b"x" * 1000))).status == 429, "the last is the largest"
            for wire, sent, size in ((one, b"x" * 100, b"900"), (three, b"x", b"703")):
                assert (await wire.call(sent)).body == size
    assert bodies.held == bodies._large_bytes == 0 and not bodies._large


async def test_small_calls_are_answered_whatever_large_ones_hold(serve: Serve) -> None:
    """Nineteen slow clients once made every review fail."""
    async with serve(limits=LARGE) as served, contextlib.AsyncExitStack() as slow, served.wire() as wire:
        for _ in range(19):
            each = await slow.enter_async_context(served.wire())
            await each.send(post("/echo", b"x" * 1000)[:-1])
            assert (await wire.call(post("/echo", b"x" * 100))).body == b"100"
        await eventually(lambda: served.app.bodies.held <= 2500)
    await eventually(lambda: served.app.bodies.held == 0)


async def test_a_call_that_waits_for_its_place_gives_way_too(serve: Serve) -> None:
    limits = replace(LARGE, wait_seconds=60)
    async with serve(limits=limits) as served, served.wire() as busy, served.wire() as waiting:
        await busy.send(post("/slow", b"{}"))
        await served.entered.wait()
        await waiting.send(post("/echo", b"x" * 1000))
        await eventually(lambda: served.app.bodies.held == 1002)
        async with served.wire() as one, served.wire() as two:
            await one.send(post("/echo", b"x" * 800)[:-1])
            await two.send(post("/echo", b"x" * 800)[:-1])
            assert (await waiting.answer()).status == 429
            served.release.set()
            assert (await busy.answer()).body == b"at last"
            assert (await one.call(b"x")).body == (await two.call(b"x")).body == b"800"


UNREAD = Limits(held_bytes=14 * 2**20, calls=1)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
async def test_answers_that_are_not_read_are_counted_and_hold_nobody_up(serve: Serve, tls: bool) -> None:
    """43 clients once had 164 MB in buffers that no limit knew."""
    request = post("/mirror", b"x" * 6 * 2**20)
    async with serve(limits=UNREAD, tls=tls) as served, served.wire() as other:
        await other.call(post("/mirror", b"{}"))
        bodies, before = served.app.bodies, resident_mib()
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(16):
                wire = await stack.enter_async_context(served.wire())
                wire.writer.transport.set_write_buffer_limits(high=1, low=0)  # this process has the client's, too
                for start in range(0, len(request), 2**16):
                    await wire.send(request[start : start + 2**16])
                await wire.reader.readexactly(1)  # it is being answered
                assert bodies.held <= UNREAD.held_bytes
                assert sum(unsent(each) for each in served.listener.open.values()) < UNREAD.held_bytes
                assert (await other.call(post("/mirror", b"{}"))).body == b"{}", "the only place is free"
            assert bodies.held > UNREAD.body_bytes // 2, "the last ones are being sent still"
            assert resident_mib() - before < 64, "96 MiB of answers"
            shorten(served, answer=0.1)
            await eventually(lambda: len(served.listener.open) == 1)
        assert bodies.held == bodies._large_bytes == 0 and not bodies._large
        assert (await other.call(request)).body == b"x" * 6 * 2**20


def unsent(connection: ServedConnection | None) -> int:
    """The bytes in the buffers of a connection."""
    return connection._writer.transport.get_write_buffer_size() if connection is not None else 0


async def test_a_client_that_reads_no_answer_is_cut_off_however_small_they_are(serve: Serve) -> None:
    async with serve(deadlines=replace(PATIENT, answer=0.5)) as served, served.wire() as wire:
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                await wire.send(get("/page") * 1000)
            assert await wire.closed()
        await eventually(lambda: not served.listener.open)


async def test_a_call_waits_for_a_place_and_is_then_refused_with_429(serve: Serve) -> None:
    async with serve(limits=SMALL) as served, served.wire() as one, served.wire() as two, served.wire() as three:
        await one.send(post("/slow", b"{}"))
        await two.send(post("/slow", b"{}"))
        refused = await three.call(post("/slow", b"{}"))
        assert (refused.status, refused.body) == (429, b"2 calls are being answered already: try again\n")
        served.release.set()
        assert (await one.answer()).status == (await two.answer()).status == 200
        async with served.wire() as four:
            assert (await four.call(post("/slow", b"{}"))).status == 200


async def test_a_bug_is_answered_with_500_and_without_its_text(serve: Serve) -> None:
    async with serve() as served, served.wire() as wire:
        answer = await wire.call(post("/broken", b"{}"))
        assert (answer.status, answer.body) == (500, b"Internal Server Error")


async def test_t2_two_hundred_dripping_heads_are_cut_and_real_calls_go_on(serve: Serve) -> None:
    """T2: each sends a byte at a time, so that none is ever idle; all are gone once the head's deadline has passed."""
    async with serve(deadlines=replace(PATIENT, head=2.0), tls=True) as served:

        async def drip() -> None:
            try:
                async with served.wire() as wire:
                    for byte in get("/page", "X: " + "y" * 1000):
                        await wire.send(bytes([byte]))
                        await asyncio.sleep(0.2)
            except ConnectionError:  # also in the handshake, where the machine is too busy for it
                return
            raise AssertionError("the whole head was let through, a byte at a time")

        async with asyncio.TaskGroup() as drippers:
            for _ in range(200):
                drippers.create_task(drip())
            async with served.wire() as real:
                for _ in range(20):
                    assert (await real.call(post("/echo", b"{}"))).body == b"2"


async def test_a_connection_without_data_is_closed_when_idle_too_long(serve: Serve) -> None:
    async with serve(deadlines=replace(PATIENT, idle=0.2)) as served, served.wire() as wire:
        assert await wire.closed()


async def test_a_connection_without_a_handshake_is_cut(serve: Serve) -> None:
    async with serve(deadlines=replace(PATIENT, handshake=0.2), tls=True) as served:
        wire = served.wire()
        wire.tls = None
        async with wire:
            assert await wire.closed()


@pytest.mark.parametrize(
    "fields",
    [
        ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"),
        ("upgrade:H2C", "Connection: upgrade"),
        ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", KEY),
        ("Upgrade: h2c", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", KEY),
    ],
    ids=["HTTP/2", "HTTP/2 in other letters", "a websocket", "both"],
)
async def test_a_change_of_the_protocol_is_ignored(serve: Serve, fields: tuple[str, ...]) -> None:
    async with serve() as served, served.wire() as wire:
        for _ in range(2):
            answer = await wire.call(get("/page", *fields))
            assert (answer.status, answer.body) == (200, b"page")
            assert (await wire.call(post("/echo", b"{}", *fields))).body == b"2"


async def test_http_2_is_not_spoken(serve: Serve) -> None:
    async with serve() as served, served.wire() as wire:
        assert (await wire.call(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")).status == 0
        assert await wire.closed()


UNHURRIED = Limits(body_seconds=60, calls=1, wait_seconds=60, linger_seconds=0.3)
"""Without the time for which a client waits, its call would wait for a minute."""


async def test_f7_a_call_whose_body_does_not_arrive_while_its_client_waits_is_refused(serve: Serve) -> None:
    """F7."""
    async with serve(limits=UNHURRIED) as served, served.wire() as wire:
        unfinished = post("/echo?timeout=600ms", b"x").replace(b"Length: 1", b"Length: 10")
        assert (await wire.call(unfinished)).status == 504
    assert served.app.bodies.held == 0


async def test_f7_a_call_that_gets_no_place_while_its_client_waits_is_never_begun(serve: Serve) -> None:
    """F7."""
    async with serve(limits=UNHURRIED) as served, contextlib.AsyncExitStack() as wires:
        second = await wires.enter_async_context(served.wire())
        while not served.entered.is_set():  # on a busy machine the first call may come too late, too
            first = await wires.enter_async_context(served.wire())
            answered = asyncio.create_task(first.call(post("/slow?timeout=600ms", b"{}")))
            await eventually(lambda: served.entered.is_set() or answered.done())  # noqa: B023 - it is awaited here
        served.entered.clear()
        refused = await second.call(post("/slow?timeout=600ms", b"{}"))
        assert (refused.status, refused.body) == (
            504,
            b"the call could not begin within the 0.6 s for which its client waits\n",
        )
        assert not served.entered.is_set()
        served.release.set()
        assert (await answered).body == b"at last", "a call that has begun is answered"


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        (b"timeout=5s", 5.0),
        (b"a=b&timeout=1m30s", 90.0),
        (b"timeout=1500ms", 1.5),
        (b"timeout=soon", None),
        (b"timeout=", None),
        (b"timeout=\xff", None),
        (b"", None),
    ],
)
def test_the_time_for_which_a_client_waits(query: bytes, seconds: float | None) -> None:
    assert client_seconds(query) == seconds


async def test_requests_that_arrive_together_are_answered_in_order(serve: Serve) -> None:
    async with serve(tls=True) as served, served.wire() as wire:
        await wire.send(post("/echo", b"{}") + get("/page") + post("/echo", b"x" * 500))
        assert [(await wire.answer()).body for _ in range(3)] == [b"2", b"page", b"500"]
        assert (await wire.call(get("/page"))).status == 200


async def test_a_client_that_waits_is_told_to_continue(serve: Serve) -> None:
    async with serve() as served, served.wire() as wire:
        request = post("/echo", b"{}", "Expect: 100-continue")
        assert (await wire.call(request[:-2])).status == 100
        assert (await wire.call(request[-2:])).body == b"2"


async def test_an_answer_to_head_has_no_body(serve: Serve) -> None:
    async with serve() as served, served.wire() as wire:
        await wire.send(get("/page").replace(b"GET", b"HEAD") + get("/page"))
        head = await wire.reader.readuntil(b"\r\n\r\n")
        assert b"content-length: 4\r\n" in head
        assert (await wire.answer()).body == b"page"
