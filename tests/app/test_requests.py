"""What the bytes of a connection say: requests in order, whatever the pieces in which they arrive."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.requests import HEAD_BYTES, End, Head, Invalid, Part, Requests, answer_head
from tests.app.http import get, post

CHUNKED = b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"


def parsed(pieces: Iterable[bytes]) -> list[Part]:
    """All parts, with the pieces of each body joined."""
    requests, found = Requests(), list[Part]()
    for piece in pieces:
        requests.feed(piece)
    for part in requests.parts:
        if isinstance(part, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += part
        else:
            found.append(part)
    return found


def test_a_request_has_its_head_its_body_and_its_end() -> None:
    head, body, end = parsed([post("/mutate%20x?timeout=5s", b"{}", "X-Name: Value")])
    assert head == Head(
        method="POST",
        path="/mutate x",
        raw_path=b"/mutate%20x",
        query=b"timeout=5s",
        version="1.1",
        headers=[
            (b"host", b"localhost"),
            (b"content-length", b"2"),
            (b"x-name", b"Value"),
            (b"content-type", b"application/json"),
        ],
        keep_alive=True,
    )
    assert (body, end) == (b"{}", End())


@given(st.lists(st.integers(0, 400)))
def test_the_pieces_in_which_requests_arrive_make_no_difference(cuts: list[int]) -> None:
    stream = post("/a", b"{" + b"x" * 100 + b"}") + get("/b") + CHUNKED + get("/d", "Connection: close")
    edges = [0, *sorted(cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges) if end > start]
    assert parsed(pieces) == parsed([stream])
    assert [part.path for part in parsed(pieces) if isinstance(part, Head)] == ["/a", "/b", "/c", "/d"]


@pytest.mark.parametrize(
    ("version", "field", "kept"),
    [
        ("1.1", "", True),
        ("1.1", "Connection: close", False),
        ("1.0", "", False),
        ("1.0", "Connection: keep-alive", True),
    ],
)
def test_the_client_says_whether_it_keeps_the_connection(version: str, field: str, kept: bool) -> None:
    head = parsed([f"GET / HTTP/{version}\r\nHost: x\r\n{field}".rstrip().encode() + b"\r\n\r\n"])[0]
    assert isinstance(head, Head)
    assert head.keep_alive is kept


INVALID = {
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a length and chunks": post("/", b"{}", "Transfer-Encoding: chunked"),
    "a space before the colon": b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
    "lines without a carriage return": b"GET / HTTP/1.1\nHost: x\n\n",
    "a folded field": b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "a tunnel": b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID.keys())
def test_refused_as_no_request(data: bytes) -> None:
    assert parsed([data]) == [Invalid(400)]


def test_nothing_is_read_after_what_is_no_request() -> None:
    first, end, invalid = parsed([get("/a") + b"\x00\r\n\r\n" + get("/b"), get("/c")])
    assert isinstance(first, Head)
    assert (end, invalid) == (End(), Invalid(400))


@pytest.mark.parametrize("piece", [100, HEAD_BYTES * 2])
@pytest.mark.parametrize("complete", [True, False])
def test_a_head_has_a_limit(piece: int, complete: bool) -> None:
    data = get("/", *(f"X-{number}: {'y' * 100}" for number in range(HEAD_BYTES // 100)))
    data = data if complete else data.removesuffix(b"\r\n\r\n")
    pieces = [data[start : start + piece] for start in range(0, len(data), piece)]
    assert parsed(pieces) == [Invalid(431)]


def test_the_limit_of_a_head_does_not_count_bodies() -> None:
    requests = parsed([post("/a", b"x" * 3 * HEAD_BYTES) * 2])
    assert [type(part) for part in requests] == [Head, bytes, End] * 2


def test_the_head_of_an_answer() -> None:
    headers = [(b"content-length", b"2"), (b"Connection", b"close")]
    assert answer_head(200, headers, b"now", close=False) == (
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ndate: now\r\n\r\n"
    )
    assert answer_head(429, headers, b"now", close=True) == (
        b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\ndate: now\r\nconnection: close\r\n\r\n"
    )
