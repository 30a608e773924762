import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from api.objects import Resource
from controller.kube.client import EMPTY_PAGES, Client
from controller.kube.config import Connection
from controller.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Fenced,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unintelligible,
    Unreachable,
)
from controller.kube.wire import lines_of
from tests.eventually import PATIENCE
from tests.faults import Answer, BlackHole, Delay, FaultProxy, Reset, Truncate, html, status, throttled
from tests.standin import StandIn
from tests.unresponsive import left_open_by, unresponsive

THINGS = Resource("example.com", "v1", "things", "Thing")
PATH = "/apis/example.com/v1/namespaces/ns/things"


class Sleeps(list[float]):
    """Records the waits instead of waiting."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def sleeps() -> Sleeps:
    return Sleeps()


@pytest.fixture
async def client(proxy: FaultProxy, sleeps: Sleeps) -> AsyncIterator[Client]:
    async with Client(proxy.connection, sleep=sleeps) as client:
        yield client


async def test_an_object_is_created_read_patched_replaced_and_deleted(client: Client, server: StandIn) -> None:
    created = await client.create(THINGS, {"metadata": {"name": "a"}, "spec": {"size": 1}}, "ns")
    assert created["metadata"]["uid"]
    assert await client.get(THINGS, "a", "ns") == created
    patched = await client.patch(THINGS, "a", "ns", {"status": {"phase": "Up"}}, subresource="status")
    assert patched["status"] == {"phase": "Up"}
    replaced = await client.update(THINGS, patched | {"spec": {"size": 2}})
    assert replaced["spec"] == {"size": 2}
    await client.delete(THINGS, "a", "ns")
    assert server.objects == {}


async def test_every_request_is_counted_by_verb_and_resource(client: Client) -> None:
    await client.create(THINGS, {"metadata": {"name": "a"}}, "ns")
    await client.patch(THINGS, "a", "ns", {"status": {}}, subresource="status")
    with pytest.raises(NotFound):
        await client.get(THINGS, "b", "ns")
    assert client.requests == {("create", "things"): 1, ("patch", "things/status"): 1, ("get", "things"): 1}
    assert client.answers["get", "things", 404] == 1


async def test_a_patch_with_an_old_resource_version_is_a_conflict(client: Client) -> None:
    old = await client.create(THINGS, {"metadata": {"name": "a"}}, "ns")
    version = old["metadata"]["resourceVersion"]
    await client.patch(THINGS, "a", "ns", {"spec": {"x": 1}})
    with pytest.raises(Conflict):
        await client.patch(THINGS, "a", "ns", {"metadata": {"resourceVersion": version}, "spec": {"x": 2}})


async def test_the_patch_type_and_the_field_manager_are_sent_to_the_server(client: Client, proxy: FaultProxy) -> None:
    await client.create(THINGS, {"metadata": {"name": "a"}}, "ns")
    await client.patch(THINGS, "a", "ns", {"spec": {}}, type="apply", force=True, dry_run=True)
    sent = proxy.seen[-1]
    assert sent.headers["content-type"] == "application/apply-patch+yaml"
    assert sent.query == {
        "fieldManager": "seiretsu",
        "fieldValidation": "Ignore",
        "force": "true",
        "dryRun": "All",
    }


async def test_a_list_is_read_in_pages_and_its_items_say_what_they_are(
    client: Client, server: StandIn, proxy: FaultProxy
) -> None:
    for number in range(1203):
        server.put(f"{PATH}/t{number:04}", {})
    listed = await client.list(THINGS)
    assert [item["metadata"]["name"] for item in listed["items"]] == [f"t{n:04}" for n in range(1203)]
    assert {(item["apiVersion"], item["kind"]) for item in listed["items"]} == {("example.com/v1", "Thing")}
    assert len(proxy.seen) == 3


async def test_pages_that_are_too_large_are_read_with_fewer_objects(
    client: Client, server: StandIn, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant can make each object as large as the API server allows: hundreds of them do not fit into memory."""
    monkeypatch.setattr("controller.kube.client.LARGEST_PAGE", 20_000)
    for number in range(40):
        server.put(f"{PATH}/t{number:04}", {"spec": "x" * (10_000 if 15 <= number < 20 else 10)})
    listed = await client.list(THINGS)
    assert [item["metadata"]["name"] for item in listed["items"]] == [f"t{n:04}" for n in range(40)]
    server.put(f"{PATH}/larger", {"spec": "x" * 20_000})
    with pytest.raises(TooLarge):
        await client.list(THINGS)


async def test_a_page_token_that_expired_is_gone(client: Client, server: StandIn, proxy: FaultProxy) -> None:
    for number in range(600):
        server.put(f"{PATH}/t{number:04}", {})
    proxy.inject(Delay(0), status(410, "Expired"), path="/things")
    with pytest.raises(Gone):
        await client.list(THINGS)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status(403, "Forbidden", "no rights"), Forbidden),
        (status(404, "NotFound"), NotFound),
        (status(409, "AlreadyExists"), AlreadyExists),
        (status(410, "Expired"), Gone),
        (status(504, "Timeout", "Too large resource version: 7, current: 3"), Gone),
        (status(500, "InternalError"), ApiError),
        (html(502), Unintelligible),
        (html(404), Unintelligible),
        (html(200), Unintelligible),
        (Answer(200, b"", "application/json"), Unintelligible),
        (Answer(200, b"", ""), Unintelligible),
        (Answer(200, b'{"kind":"Thi', "application/json"), Unintelligible),
        (Answer(200, b'["list"]', "application/json"), Unintelligible),
        (Answer(404, b"404 page not found\n", "text/plain"), Unintelligible),
        (Answer(410, b"gone", "text/plain"), Gone),
    ],
)
async def test_each_kind_of_failed_answer_has_a_separate_error_type(
    client: Client, proxy: FaultProxy, answer: Answer, kind: type[ApiError]
) -> None:
    proxy.inject(answer)
    with pytest.raises(ApiError) as caught:
        await client.get(THINGS, "a", "ns")
    assert type(caught.value) is kind


async def test_a_list_that_is_no_list_is_an_error_rather_than_an_empty_world(client: Client, proxy: FaultProxy) -> None:
    proxy.inject(Answer(200, b'{"kind":"Thing","metadata":{}}', "application/json"))
    with pytest.raises(Unintelligible):
        await client.list(THINGS)


def page(token: str, *items: object) -> Answer:
    """A page of a list that goes on with a token."""
    metadata = {"resourceVersion": "7", "continue": token}
    return Answer(200, orjson.dumps({"kind": "ThingList", "metadata": metadata, "items": items}), "application/json")


async def test_a_list_that_gives_the_same_token_again_is_an_error(client: Client, proxy: FaultProxy) -> None:
    proxy.inject(page("on", {"metadata": {"name": "a"}}), times=3)
    with pytest.raises(Unintelligible, match="a list of things without end"):
        await client.list(THINGS)
    assert len(proxy.seen) == 2


async def test_a_list_of_empty_pages_without_end_is_an_error(client: Client, proxy: FaultProxy) -> None:
    for number in range(EMPTY_PAGES + 5):
        proxy.inject(page(str(number)))
    with pytest.raises(Unintelligible, match="a list of things without end"):
        await client.list(THINGS)
    assert len(proxy.seen) == EMPTY_PAGES + 1


async def test_an_object_that_the_encoder_does_not_take_is_invalid(client: Client, proxy: FaultProxy) -> None:
    deep: dict[str, Any] = {}
    for _ in range(300):  # the decoder takes 1,024 levels
        deep = {"a": deep}
    with pytest.raises(Invalid, match="things: the object cannot be sent"):
        await client.patch(THINGS, "x", "ns", {"spec": deep})
    assert not proxy.seen


async def test_an_answer_over_the_limit_is_not_read(proxy: FaultProxy, server: StandIn) -> None:
    server.put(f"{PATH}/small", {})
    server.put(f"{PATH}/large", {"spec": "x" * 2000})
    async with Client(proxy.connection, largest_answer=1000) as client:
        assert (await client.get(THINGS, "small", "ns"))["metadata"]["name"] == "small"
        with pytest.raises(TooLarge, match="more than 1,000 bytes"):
            await client.get(THINGS, "large", "ns")
        with pytest.raises(TooLarge):
            await client.list(THINGS)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
async def test_an_answer_that_is_compressed_is_not_unpacked(client: Client, proxy: FaultProxy, encoding: str) -> None:
    """A megabyte may become a gigabyte, and takes all of the time meanwhile."""
    packed = Answer(200, gzip.compress(b"{}"), "application/json", {"Content-Encoding": encoding})
    proxy.inject(packed, packed)
    with pytest.raises(Unintelligible, match="Content-Encoding"):
        await client.get(THINGS, "a", "ns")
    with pytest.raises(Unintelligible, match="Content-Encoding"):
        async with aclosing(client.watch(THINGS, "ns", params={})) as lines:
            async for _ in lines:
                pass


async def test_an_event_that_never_ends_is_given_up_at_the_limit(proxy: FaultProxy) -> None:
    """Of a server that is not trusted: else as much is read as it sends."""
    endless = Answer(200, b'{"type":"ADDED"}\n' + b"x" * 5000, "application/json")
    proxy.inject(endless)
    seen = []
    async with Client(proxy.connection, largest_line=1000, heaviest=100_000) as client:
        with pytest.raises(TooLarge, match=r"an event of more than 1,000 bytes"):
            async with aclosing(client.watch(THINGS, "ns", params={})) as lines:
                async for line in lines:
                    seen.append(line)
    assert len(seen) <= 1


async def test_a_byte_a_second_is_no_message() -> None:
    """Of a worker that never ends a line, and is never silent: its watch would stay open for ever."""
    now = 0.0

    class Content:
        async def iter_any(self) -> AsyncIterator[bytes]:
            nonlocal now
            for part in (b"{}\n", *([b" "] * 1000)):
                now += 1
                yield part

    response = cast(Any, SimpleNamespace(content=Content(), status=200))
    seen = []
    with pytest.raises(TimeoutError, match="no message for 90 s"):
        async for line in lines_of(response, silence_seconds=90.0, clock=lambda: now):
            seen.append(line)
    assert (seen, now) == ([b"{}"], 92.0)


@pytest.mark.parametrize("fault", [Reset(), Reset(5, reaches=True), Truncate(5)], ids=["reset", "reset in body", "cut"])
async def test_a_broken_connection_is_unreachable(
    client: Client, proxy: FaultProxy, server: StandIn, fault: Reset | Truncate
) -> None:
    server.put(f"{PATH}/a", {})
    proxy.inject(fault, times=2)  # the transport repeats an idempotent request once on a connection it had kept
    with pytest.raises(Unreachable):
        await client.get(THINGS, "a", "ns")


async def test_a_write_whose_answer_is_lost_may_have_happened(
    client: Client, proxy: FaultProxy, server: StandIn
) -> None:
    proxy.inject(Reset(1, reaches=True))
    with pytest.raises(Unreachable):
        await client.create(THINGS, {"metadata": {"name": "a"}}, "ns")
    assert f"{PATH}/a" in server.objects
    assert client.requests["create", "things"] == 1


async def test_a_server_that_never_answers_is_given_up_at_the_deadline(proxy: FaultProxy) -> None:
    proxy.inject(BlackHole())
    async with Client(proxy.connection, deadline_seconds=0.05) as client:
        with pytest.raises(Unreachable):
            await client.get(THINGS, "a", "ns")


async def test_a_port_without_a_listener_is_unreachable() -> None:
    async with Client(Connection("http://127.0.0.1:9")) as client:
        with pytest.raises(Unreachable):
            await client.get(THINGS, "a", "ns")


async def test_throttling_is_waited_out_as_long_as_the_server_asks(
    client: Client, proxy: FaultProxy, server: StandIn, sleeps: Sleeps
) -> None:
    proxy.inject(throttled(3), throttled(1))
    await client.create(THINGS, {"metadata": {"name": "a"}}, "ns")
    assert sleeps == [3.0, 1.0]
    assert client.throttle.rate < client.throttle.qps
    assert client.requests["create", "things"] == 3


async def test_endless_throttling_is_an_error(client: Client, proxy: FaultProxy) -> None:
    proxy.inject(throttled(), times=9)
    with pytest.raises(TooManyRequests) as caught:
        await client.get(THINGS, "a", "ns")
    assert caught.value.retry_after == 1.0
    assert len(proxy.seen) == 5


class Renewed:
    """Credentials whose first token has run out."""

    async def authorization(self, *, fresh: bool = False) -> str | None:
        return "Bearer new" if fresh else "Bearer old"


async def test_a_refused_token_is_read_again_once(proxy: FaultProxy, server: StandIn) -> None:
    server.put(f"{PATH}/a", {})
    proxy.inject(status(401, "Unauthorized"))
    async with Client(Connection(proxy.url, credentials=Renewed())) as client:
        await client.get(THINGS, "a", "ns")
        assert [request.headers["authorization"] for request in proxy.seen] == ["Bearer old", "Bearer new"]
        proxy.inject(status(401, "Unauthorized"), times=2)
        with pytest.raises(Unauthorized):
            await client.get(THINGS, "a", "ns")


class Broken:
    """Credentials of a file or a command that puts a line end into the token."""

    async def authorization(self, *, fresh: bool = False) -> str | None:
        return "Bearer a\nb"


async def test_credentials_that_no_header_can_have_are_an_error_of_the_connection(proxy: FaultProxy) -> None:
    async with Client(Connection(proxy.url, credentials=Broken())) as client:
        with pytest.raises(Unreachable, match="BadCredentials"):
            await client.get(THINGS, "a", "ns")
    assert not proxy.seen


async def test_no_write_leaves_while_the_fence_is_down_but_reads_do(
    client: Client, proxy: FaultProxy, server: StandIn
) -> None:
    server.put(f"{PATH}/a", {})
    client.may_write = lambda: False
    await client.get(THINGS, "a", "ns")
    for write in (
        client.create(THINGS, {"metadata": {"name": "b"}}, "ns"),
        client.patch(THINGS, "a", "ns", {}),
        client.update(THINGS, {"metadata": {"name": "a", "namespace": "ns"}}),
        client.delete(THINGS, "a", "ns"),
    ):
        with pytest.raises(Fenced):
            await write
    assert [request.method for request in proxy.seen] == ["GET"]


async def test_a_write_whose_connection_takes_longer_than_the_lease_is_not_sent(
    client: Client, proxy: FaultProxy
) -> None:
    asked = iter([True, False, True, True])
    client.may_write = lambda: next(asked)
    with pytest.raises(Fenced):
        await client.create(THINGS, {"metadata": {"name": "b"}}, "ns")
    assert (proxy.seen, client.fenced) == ([], 1)
    await client.create(THINGS, {"metadata": {"name": "b"}}, "ns")
    assert [request.method for request in proxy.seen] == ["POST"]


async def test_the_fence_is_asked_again_after_a_wait(client: Client, proxy: FaultProxy) -> None:
    asked = iter([True, True, False])
    client.may_write = lambda: next(asked)
    proxy.inject(throttled())
    with pytest.raises(Fenced):
        await client.create(THINGS, {"metadata": {"name": "b"}}, "ns")
    assert len(proxy.seen) == 1


async def test_a_closed_client_raises_an_error(proxy: FaultProxy) -> None:
    client = Client(proxy.connection)
    await client.close()
    with pytest.raises(Unreachable, match="closed"):
        await client.get(THINGS, "a", "ns")


async def test_a_watch_gives_one_line_an_event(client: Client, server: StandIn) -> None:
    server.put(f"{PATH}/a", {})
    server.put(f"{PATH}/b", {})
    async with aclosing(client.watch(THINGS, params={"resourceVersion": "101"})) as lines:
        line = await anext(lines)
    assert b'"type":"ADDED"' in line and b'"name":"b"' in line


async def test_a_watch_skips_what_is_too_long_and_drops_half_a_line(client: Client, proxy: FaultProxy) -> None:
    body = b'{"a":1}\n' + b"x" * (17 * 1024 * 1024) + b'\n\n{"b":2}\n{"c'
    proxy.inject(Answer(200, body, "application/json"))
    lines = [line async for line in client.watch(THINGS, params={})]
    assert lines == [b'{"a":1}', b"", b'{"b":2}']


async def test_a_watch_that_falls_silent_is_unreachable(client: Client, proxy: FaultProxy, server: StandIn) -> None:
    server.put(f"{PATH}/a", {})
    with pytest.raises(Unreachable):
        async with asyncio.timeout(PATIENCE):
            _ = [line async for line in client.watch(THINGS, params={}, silence_seconds=0.05)]


async def test_a_refused_watch_is_an_error_and_html_never_an_event(client: Client, proxy: FaultProxy) -> None:
    for answer, kind in ((status(410, "Expired"), Gone), (html(200), Unintelligible), (throttled(), TooManyRequests)):
        proxy.inject(answer)
        with pytest.raises(kind):
            _ = [line async for line in client.watch(THINGS, params={})]


def test_a_watch_that_is_given_up_keeps_no_connection_to_a_frozen_server() -> None:
    """Its close notification would not be answered, and the socket stays for half a minute."""

    async def give_up(url: str, authority: bytes) -> None:
        opened = asyncio.Event()

        async def read(client: Client) -> None:
            async for _ in client.watch(THINGS, params={}, opened=opened.set):
                pass

        async with Client(Connection(url, tls=ssl.create_default_context(cadata=authority.decode()))) as client:
            reading = asyncio.create_task(read(client))
            await opened.wait()
            reading.cancel()
            await asyncio.wait([reading])

    with unresponsive() as server:
        assert left_open_by(give_up(*server)) == []
