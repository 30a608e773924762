import asyncio
import gc
import inspect
import itertools
import weakref
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.flow.throttle import Throttle
from controller.kube.reflector import (
    ABSENT_SECONDS,
    DECODED_AT_ONCE,
    LONGEST_BACKOFF_SECONDS,
    PAGE_SIZE,
    READ_AT_ONCE,
    Reflector,
)
from controller.kube.size_limit import SizeLimit
from controller.kube.store import Store, verbatim
from tests.effort import cases
from tests.eventually import PATIENCE, eventually
from tests.faults import Answer, BlackHole, FaultProxy, Request, Reset, Truncate, html, status, throttled
from tests.standin import StandIn

THINGS = Resource("example.com", "v1", "things", "Thing")
PATH = "/apis/example.com/v1/namespaces/ns/things"


class World:
    """A stand-in server behind a fault proxy, a reflector that follows it, and what its handlers heard."""

    def __init__(self, server: StandIn, proxy: FaultProxy, client: Client) -> None:
        self.server = server
        self.proxy = proxy
        self.client = client
        self.store: Store[Raw] = Store("things", verbatim)
        self.told: list[tuple[str | None, str | None]] = []
        self.waits: list[float] = []
        self.now = 0.0
        self.synced_calls = 0
        self.luck = 1.0
        self.store.on_change(lambda old, new: self.told.append((name(old), name(new))))
        self.reflector = self.following()
        self.running: asyncio.Task[None] | None = None

    def following(
        self, *, optional: bool = False, size_limit: SizeLimit | None = None, pace: Throttle | None = None
    ) -> Reflector[Raw]:
        """A reflector of the store whose time is the test's."""
        return Reflector(
            self.client,
            THINGS,
            self.store,
            optional=optional,
            silence_seconds=5,
            size_limit=size_limit,
            pace=pace,
            on_synced=self._on_synced,
            clock=lambda: self.now,
            sleep=self._sleep,
            draw=lambda: self.luck,
        )

    def _on_synced(self) -> None:
        self.synced_calls += 1

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    async def start(self) -> None:
        self.running = asyncio.create_task(self.reflector.run())
        async with asyncio.timeout(PATIENCE):
            await self.reflector.synced.wait()
        await eventually(lambda: self.server.open_watches)

    async def caught_up(self) -> None:
        """Wait until the store holds what the server holds."""
        expected = {identity(raw) for path, raw in self.server.objects.items() if path.startswith(PATH)}
        await eventually(lambda: {identity(raw) for raw in self.store} == expected)

    def requests(self, *, watch: bool) -> int:
        return sum((request.query.get("watch") == "true") == watch for request in self.proxy.seen)


def identity(raw: Raw) -> tuple[str, str, str]:
    return raw["metadata"]["name"], raw["metadata"]["uid"], raw["metadata"]["resourceVersion"]


def name(raw: Raw | None) -> str | None:
    return raw["metadata"]["name"] if raw else None


@pytest.fixture
async def world() -> AsyncIterator[World]:
    server = StandIn()
    async with FaultProxy(server) as proxy, Client(proxy.connection) as client:
        world = World(server, proxy, client)
        yield world
        if world.running:
            world.running.cancel()
            await asyncio.gather(world.running, return_exceptions=True)


@pytest.fixture(params=[True, False], ids=["streamed list", "paged list"])
def streams(request: pytest.FixtureRequest, world: World) -> bool:
    """Whether the server can stream the initial list; every test that takes this runs both ways."""
    world.server.watch_list = request.param
    return bool(request.param)


async def test_the_store_follows_the_server(world: World, streams: bool) -> None:
    for number in range(700):
        world.server.put(f"{PATH}/t{number}", {"spec": 0})
    await world.start()
    assert len(world.store) == 700 and world.store.synced and world.synced_calls == 1
    world.server.put(f"{PATH}/t1", {"spec": 1})
    world.server.put(f"{PATH}/new", {})
    world.server.remove(f"{PATH}/t2")
    await world.caught_up()
    assert world.told[700:] == [("t1", "t1"), (None, "new"), ("t2", None)]
    assert world.reflector.relists == {"start": 1}, "an attempt that the API server refuses is no list"
    assert world.requests(watch=False) == (0 if streams else 700 // PAGE_SIZE)


GROUPS = Answer(200, b'{"kind": "APIGroup", "versions": [{"version": "v1"}]}', "application/json")
NO_THINGS = Answer(200, b'{"kind": "APIResourceList", "resources": [{"name": "others"}]}', "application/json")
NO_VERSION = Answer(200, b'{"kind": "APIGroup", "versions": [{"version": "v2"}]}', "application/json")
OTHER_GROUPS = Answer(200, b'{"kind": "APIGroupList", "groups": [{"name": "apps"}]}', "application/json")
THIS_GROUP = Answer(200, b'{"kind": "APIGroupList", "groups": [{"name": "example.com"}]}', "application/json")
NO_PAGE = Answer(404, b"404 page not found", "text/plain")


def not_served(world: World, *, times: int, lacks: str) -> None:
    """Answer as an API server does that lacks the resource, or its version altogether, or its group."""
    for _ in range(times):
        world.proxy.inject(NO_PAGE, path="/things")
        if lacks == "resource":
            world.proxy.inject(GROUPS, path="/apis/example.com")
            world.proxy.inject(NO_THINGS, path="/apis/example.com/v1")
        elif lacks == "version":
            world.proxy.inject(NO_VERSION, path="/apis/example.com")
        else:
            world.proxy.inject(NO_PAGE, path="/apis/example.com")
            world.proxy.inject(OTHER_GROUPS, path="/apis")


@pytest.mark.parametrize("lacks", ["resource", "version", "group"])
async def test_an_optional_resource_that_is_not_served_is_empty_logged_once_and_used_when_it_appears(
    world: World, lacks: str
) -> None:
    world.server.put(f"{PATH}/a", {})
    not_served(world, times=3, lacks=lacks)
    world.reflector = world.following(optional=True)
    with capture_logs() as logged:
        world.running = asyncio.create_task(world.reflector.run())
        async with asyncio.timeout(PATIENCE):
            await world.reflector.synced.wait()
        assert (len(world.store), world.store.synced) == (0, True)
        await world.caught_up()
    assert world.waits == [ABSENT_SECONDS] * 3
    assert [line["event"] for line in logged] == ["not served yet: used when it is", "served now"]
    assert world.told == [(None, "a")]


@pytest.mark.parametrize(
    "discovery", [NO_PAGE, html(), status(503, "ServiceUnavailable"), Answer(200, b"{}", "application/json")]
)
async def test_a_404_without_confirmation_by_discovery_is_no_absence(world: World, discovery: Answer) -> None:
    world.server.put(f"{PATH}/a", {})
    world.proxy.inject(NO_PAGE, path="/things", times=3)
    world.proxy.inject(discovery, path="/apis/example.com", times=3)
    world.reflector = world.following(optional=True)
    await world.start()
    assert world.told == [(None, "a")]
    assert ABSENT_SECONDS not in world.waits


async def test_a_group_that_is_listed_and_does_not_answer_is_not_taken_as_missing(world: World) -> None:
    world.server.put(f"{PATH}/a", {})
    world.proxy.inject(NO_PAGE, path="/things")
    world.proxy.inject(NO_PAGE, path="/apis/example.com")
    world.proxy.inject(THIS_GROUP, path="/apis")
    world.reflector = world.following(optional=True)
    await world.start()
    assert world.told == [(None, "a")]
    assert ABSENT_SECONDS not in world.waits


async def test_a_resource_that_is_needed_is_waited_for_until_it_is_served(world: World) -> None:
    world.server.put(f"{PATH}/a", {})
    world.proxy.inject(NO_PAGE, path="/things", times=3)
    await world.start()
    assert world.told == [(None, "a")]
    assert len(world.waits) == 3


async def test_a_watch_that_ends_politely_is_taken_up_where_it_was(world: World, streams: bool) -> None:
    world.server.put(f"{PATH}/a", {})
    await world.start()
    lists = world.reflector.relists.total()
    world.now += 400
    world.server.hang_up()
    world.server.put(f"{PATH}/b", {})
    await world.caught_up()
    assert world.waits == [0.1]
    assert world.reflector.relists.total() == lists
    assert world.proxy.seen[-1].query["resourceVersion"] == "101"


async def test_bookmarks_keep_the_version_fresh(world: World) -> None:
    await world.start()
    world.server.put("/apis/example.com/v1/namespaces/ns/others/x", {})
    world.server.bookmark()
    world.server.compact()
    await eventually(lambda: world.reflector._version == "101")
    world.server.hang_up()
    world.server.put(f"{PATH}/a", {})
    await world.caught_up()
    assert world.reflector.relists == {"start": 1}


@pytest.mark.parametrize("as_status", [True, False], ids=["410 answer", "ERROR event"])
async def test_t14_a_version_that_is_gone_costs_one_list_and_handlers_hear_what_changed(
    world: World, streams: bool, as_status: bool
) -> None:
    """T14 (F14); with a compaction of the real etcd in `test_real_server.py`."""
    for each in "abc":
        world.server.put(f"{PATH}/{each}", {})
    await world.start()
    lists = world.reflector.relists.total()
    world.told.clear()
    world.proxy.inject(Reset(), html(), watch=True)
    if as_status:
        world.proxy.inject(status(410, "Expired"), watch=True)
    world.server.hang_up()
    world.server.remove(f"{PATH}/a")
    world.server.put(f"{PATH}/b", {"spec": 2})
    world.server.put(f"{PATH}/d", {})
    world.server.compact()
    await world.caught_up()
    assert sorted(world.told, key=str) == sorted([("a", None), ("b", "b"), (None, "d")], key=str)
    assert world.reflector.relists.total() == lists + 1
    world.store._check()


async def test_a_page_token_that_expires_makes_the_next_list_a_single_page(world: World) -> None:
    world.server.watch_list = False
    for number in range(PAGE_SIZE + 1):
        world.server.put(f"{PATH}/t{number}", {})
    world.proxy.inject(status(410, "Expired"), path="/things", watch=False)
    await world.start()
    await world.caught_up()
    limits = [request.query.get("limit") for request in world.proxy.seen if "watch" not in request.query]
    assert limits == [str(PAGE_SIZE), None]


@pytest.mark.parametrize(
    "fault",
    [
        html(502),
        html(200),
        Answer(200, b"", "application/json"),
        Answer(200, b"<html>not json</html>\n", "application/json"),
        Answer(200, b'{"type":"ADDED","object":null}\n', "application/json"),
        Answer(200, b'{"type":"SURPRISE","object":{"metadata":{}}}\n', "application/json"),
        Answer(200, b'{"type":"ADDED","object":{"metadata":{"name":"z","resourceVersion":7}}}\n', "application/json"),
        Answer(200, b'{"type":"BOOKMARK","object":{"metadata":{"annotations":["a"]}}}\n', "application/json"),
        Answer(404, b"404 page not found\n", "text/plain"),
        status(401, "Unauthorized"),
        status(403, "Forbidden"),
        status(500, "InternalError"),
        Reset(),
        Truncate(20),
        Reset(20, reaches=True),
    ],
    ids=lambda fault: f"{type(fault).__name__} {getattr(fault, 'status', '')} {getattr(fault, 'body', b'')[:20]!r}",
)
async def test_t15_what_is_no_event_never_becomes_one_and_the_watch_goes_on(world: World, fault: Any) -> None:
    """T15 (F16)."""
    world.server.put(f"{PATH}/a", {})
    await world.start()
    world.told.clear()
    world.proxy.inject(fault, times=6, watch=True)
    world.server.hang_up()
    world.server.put(f"{PATH}/b", {})
    await world.caught_up()
    assert world.told == [(None, "b")]
    assert world.reflector.relists == {"start": 1}


@pytest.mark.parametrize("luck", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "fault",
    [html(502), Answer(200, b"", "application/json"), status(410, "Expired"), status(500, "E"), throttled(1), Reset()],
    ids=lambda fault: f"{type(fault).__name__} {getattr(fault, 'status', '')}",
)
async def test_t15_a_server_that_is_away_gets_at_most_2_requests_a_second(
    world: World, streams: bool, fault: Any, luck: float
) -> None:
    """T15 (F13): in any ten seconds, whatever is answered, and however the waits are drawn."""
    await world.start()
    world.luck, at = luck, list[float]()

    def away(request: Request) -> Any:
        at.append(world.now)
        return fault

    world.proxy.draw = away
    world.server.hang_up()
    await eventually(lambda: world.now > 120)
    world.proxy.heal()
    world.server.put(f"{PATH}/b", {})
    await world.caught_up()
    assert max(sum(begin <= moment < begin + 10 for moment in at) for begin in at) <= 20


async def test_t15_an_object_of_5_mb_is_an_event_like_any_other(world: World) -> None:
    """T15 (F17): it arrives in many reads; the API server allows 3 MiB, and events can be longer."""
    await world.start()
    world.server.put(f"{PATH}/large", {"data": "x" * 5_000_000})
    world.server.put(f"{PATH}/after", {})
    await world.caught_up()
    assert (world.reflector.undecodable, world.reflector.relists) == (0, {"start": 1})


async def test_a_server_that_stays_away_is_asked_less_and_less(world: World) -> None:
    await world.start()
    world.proxy.inject(html(502), times=12, watch=True)
    world.server.hang_up()
    world.server.put(f"{PATH}/b", {})
    await world.caught_up()
    assert world.waits[1:10] == [0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


async def test_an_unreachable_server_is_tried_again_within_5_seconds(world: World) -> None:
    await world.start()
    world.proxy.inject(Reset(), times=24, watch=True)  # each try is repeated once by the transport
    world.server.hang_up()
    world.server.put(f"{PATH}/b", {})
    await world.caught_up()
    assert max(world.waits) == 5.0


@pytest.mark.parametrize(
    ("asked", "waited"),
    [pytest.param(7, 7.0, id="as-asked"), pytest.param(99_999_999_999, 30.0, id="in-a-thousand-years")],
)
async def test_throttling_is_waited_out_within_limits(world: World, asked: int, waited: float) -> None:
    await world.start()
    world.proxy.inject(throttled(asked), watch=True)
    world.server.hang_up()
    world.server.put(f"{PATH}/b", {})
    await world.caught_up()
    assert max(world.waits) == waited
    assert world.reflector.watch_errors["TooManyRequests"] == 1


async def test_a_server_that_says_when_to_try_again_is_tried_again_within_5_seconds(world: World) -> None:
    await world.start()
    world.proxy.inject(*[throttled(1)] * 12, watch=True)
    world.server.hang_up()
    world.server.put(f"{PATH}/b", {})
    await world.caught_up()
    assert max(world.waits) == 5.0


async def test_t15_a_socket_that_falls_silent_is_given_up(world: World) -> None:
    """T15 (F15): after 90 s without a message; the API server sends a bookmark every minute."""
    assert inspect.signature(Reflector).parameters["silence_seconds"].default == 90
    world.reflector._silence_seconds = 0.05
    world.server.put(f"{PATH}/a", {})
    world.proxy.inject(BlackHole(0), BlackHole(30), watch=True)
    await world.start()
    await world.caught_up()
    assert world.reflector.watch_errors["Unreachable"] >= 2


async def test_the_age_of_the_last_answer_can_be_read(world: World) -> None:
    await world.start()
    world.now += 50
    assert world.reflector.last_event_age() == 50
    world.server.bookmark()
    await eventually(lambda: world.reflector.last_event_age() == 0)


async def test_t16_one_object_that_does_not_decode_is_skipped_and_the_rest_flow(world: World) -> None:
    """T16."""

    def color(raw: Raw) -> Raw:
        raw["spec"]["color"].upper()
        return raw

    world.store._transform = color
    world.server.put(f"{PATH}/odd", {"spec": None})
    world.server.put(f"{PATH}/good", {"spec": {"color": "red"}})
    await world.start()
    world.server.put(f"{PATH}/odd", {"spec": {"color": 7}})
    world.server.put(f"{PATH}/more", {"spec": {"color": "red"}})
    await eventually(lambda: len(world.store) == 2)
    assert world.reflector.undecodable == 2
    assert world.reflector.relists == {"start": 1}


async def test_an_object_that_an_index_cannot_read_is_skipped_and_the_rest_flow(world: World, streams: bool) -> None:
    world.store = Store("things", verbatim, {"color": lambda raw: [raw["spec"]["color"].upper()]})
    world.reflector = world.following()
    world.server.put(f"{PATH}/odd", {"spec": None})
    world.server.put(f"{PATH}/turns", {"spec": {"color": "red"}})
    await world.start()
    world.server.put(f"{PATH}/turns", {"spec": {"color": 7}})
    world.server.put(f"{PATH}/good", {"spec": {"color": "red"}})
    await eventually(lambda: len(world.store) == 2)
    found = [(name(raw), raw["spec"]) for raw in world.store.by_index("color", "RED")]
    assert found == [("turns", {"color": "red"}), ("good", {"color": "red"})]
    world.store._check()


async def test_first_events_without_a_version_or_a_name_are_asked_for_again(world: World) -> None:
    end = {"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}}
    lines = [{"type": "DELETED", "object": {"metadata": {}}}, {"type": "BOOKMARK", "object": end}]
    world.proxy.inject(Answer(200, b"\n".join(map(orjson.dumps, lines)) + b"\n", "application/json"), watch=True)
    world.server.put(f"{PATH}/a", {})
    await world.start()
    await world.caught_up()
    assert (world.reflector.undecodable, world.reflector.watch_errors["Unintelligible"]) == (1, 1)


async def test_an_event_too_long_to_hold_is_skipped(world: World) -> None:
    await world.start()
    huge = orjson.dumps({"type": "ADDED", "object": {"metadata": {"name": "x"}, "data": "x" * (17 * 1024 * 1024)}})
    good = orjson.dumps({"type": "ADDED", "object": world.server.put(f"{PATH}/good", {})})
    await world.caught_up()
    world.proxy.inject(Answer(200, huge + b"\n" + good + b"\n", "application/json"), watch=True)
    world.server.hang_up()
    await eventually(lambda: world.reflector.undecodable == 1)


async def test_a_list_over_the_size_limit_is_not_kept_and_tried_again_later(world: World, streams: bool) -> None:
    for number in range(3):
        world.server.put(f"{PATH}/t{number}", {"spec": "x" * 100_000})
    world.reflector = world.following(size_limit=SizeLimit(250_000))
    world.running = asyncio.create_task(world.reflector.run())
    await eventually(lambda: world.reflector.watch_errors["TooLarge"] > 1)
    assert len(world.store) == 0 and not world.reflector.synced.is_set()
    assert LONGEST_BACKOFF_SECONDS in world.waits
    world.server.remove(f"{PATH}/t1")
    await world.caught_up()
    assert world.reflector.synced.is_set()


async def test_what_was_received_of_a_list_over_the_size_limit_is_freed_before_the_wait(
    world: World, streams: bool
) -> None:
    class Received(dict[str, Any]):
        """Raw objects have no weak references."""

    received, kept = list[weakref.ref[Received]](), list[bool]()

    def convert(raw: Raw) -> Raw:
        found = Received(raw)
        received.append(weakref.ref(found))
        return found

    async def wait(seconds: float) -> None:
        kept.extend(each() is not None for each in received)
        await World._sleep(world, seconds)

    for number in range(3):
        world.server.put(f"{PATH}/t{number}", {"spec": "x" * 100_000})
    world.store = Store("things", convert)
    world._sleep = wait  # type: ignore[method-assign]
    world.reflector = world.following(size_limit=SizeLimit(250_000))
    gc.disable()
    try:
        world.running = asyncio.create_task(world.reflector.run())
        await eventually(lambda: world.reflector.watch_errors["TooLarge"] > 1)
    finally:
        gc.enable()
    assert kept and not any(kept)


async def test_a_store_does_not_grow_over_the_size_limit(world: World, streams: bool) -> None:
    world.reflector = world.following(size_limit=SizeLimit(250_000))
    await world.start()
    world.server.put(f"{PATH}/first", {"spec": "x" * 100_000})
    for size in (90_000, 100_000):  # a change is no growth
        world.server.put(f"{PATH}/second", {"spec": "x" * size})
    await world.caught_up()
    world.server.put(f"{PATH}/third", {"spec": "x" * 100_000})
    await eventually(lambda: world.reflector.watch_errors["TooLarge"] > 0)
    assert {name(raw) for raw in world.store} == {"first", "second"}
    world.server.remove(f"{PATH}/first")
    await world.caught_up()
    assert {name(raw) for raw in world.store} == {"second", "third"}


async def test_changes_that_come_too_fast_are_read_later_and_the_first_list_is_not(world: World, streams: bool) -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    for number in range(5):
        world.server.put(f"{PATH}/t{number}", {})
    world.reflector = world.following(pace=Throttle(10, burst=3, clock=lambda: 0.0, sleep=wait))
    await world.start()
    for number in range(5):
        world.server.put(f"{PATH}/t{number}", {"spec": 1})
    await world.caught_up()
    assert waits == [0.1, 0.2]


async def test_the_list_of_a_restored_server_replaces_everything(world: World, streams: bool) -> None:
    world.server.put(f"{PATH}/old", {"spec": 1})
    await world.start()
    world.server.put(f"{PATH}/old", {"spec": 2})
    for number in range(5):
        world.server.put(f"{PATH}/late{number}", {})
    await world.caught_up()
    watches = world.requests(watch=True)
    world.server.restore(101)
    world.server.put(f"{PATH}/other", {})
    await eventually(lambda: world.requests(watch=True) > watches)
    world.server.bookmark()
    await world.caught_up()
    assert {name(raw) for raw in world.store} == {"old", "other"}


async def test_selectors_and_namespace_are_the_servers(world: World) -> None:
    narrow = Reflector(
        world.client,
        THINGS,
        Store("n", verbatim),
        namespace="ns",
        label_selector="a=b",
        field_selector="metadata.name=x",
    )
    running = asyncio.create_task(narrow.run())
    await eventually(narrow.synced.is_set)
    running.cancel()
    asked = world.proxy.seen[-1]
    assert asked.path == PATH
    assert (asked.query["labelSelector"], asked.query["fieldSelector"]) == ("a=b", "metadata.name=x")
    assert 300 <= int(asked.query["timeoutSeconds"]) <= 600
    await asyncio.gather(running, return_exceptions=True)


FAULTS = [html(), html(200), Reset(), Truncate(300), Reset(100, reaches=True), status(410, "Expired"), throttled(1)]


@settings(max_examples=cases(25, 400), suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("pprchbx"), st.sampled_from(FAULTS)), max_size=40))
def test_through_any_churn_and_faults_the_store_ends_as_the_server(steps: list[tuple[str, str, Any]]) -> None:
    async def play() -> None:
        server = StandIn()
        async with FaultProxy(server) as proxy, Client(proxy.connection) as client:
            world = World(server, proxy, client)
            await world.start()
            for each, step, fault in steps:
                path = f"{PATH}/{each}"
                match step:
                    case "p":
                        world.store.put_from_write(server.put(path, {}))
                    case "r" if path in server.objects:
                        server.remove(path)
                    case "c":
                        server.compact()
                    case "h":
                        server.hang_up()
                    case "b":
                        server.bookmark()
                    case "x":
                        proxy.inject(fault)
                await asyncio.sleep(0)
            proxy.heal()
            await world.caught_up()
            world.store._check()
            assert world.running
            world.running.cancel()
            await asyncio.gather(world.running, return_exceptions=True)

    asyncio.run(play())


@pytest.mark.parametrize("streams", [True, False])
async def test_other_tasks_run_while_many_objects_that_arrived_together_are_decoded(streams: bool) -> None:
    size = 2048
    raws: list[Raw] = [
        {
            "metadata": {"namespace": "ns", "name": f"t{place}", "uid": f"u{place}", "resourceVersion": str(place + 1)},
            "data": "x" * size,
        }
        for place in range(100)
    ]

    class Together(Client):
        """Has all objects at once, in a stream or in one page."""

        async def watch(self, *_: object, **__: object) -> AsyncIterator[bytes]:  # type: ignore[override]
            for raw in raws:
                yield orjson.dumps({"type": "ADDED", "object": raw})
            end = {"resourceVersion": "200", "annotations": {"k8s.io/initial-events-end": "true"}}
            yield orjson.dumps({"type": "BOOKMARK", "object": {"metadata": end}})
            await asyncio.Event().wait()

        async def pages(self, *_: object, **__: object) -> AsyncIterator[Raw]:  # type: ignore[override]
            yield {"items": raws, "metadata": {"resourceVersion": "200"}}

    decoded, turns = list[str](), list[int]()

    def decode(raw: Raw) -> Raw:
        decoded.append(raw["metadata"]["name"])
        return raw

    reflector = Reflector(Together(Connection("http://127.0.0.1:1")), THINGS, Store("things", decode))
    reflector._streams_lists = streams
    running = asyncio.create_task(reflector.run())
    while not reflector.synced.is_set():
        turns.append(len(decoded))
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(decoded) == 100
    most = READ_AT_ONCE // size if streams else DECODED_AT_ONCE
    assert max(after - before for before, after in itertools.pairwise(turns)) <= most


async def test_other_tasks_run_while_events_without_content_arrive() -> None:
    """A server that is not trusted may report ever so many, and each is logged."""
    asked = 0

    class Empty(Client):
        """Reports objects without a name."""

        async def watch(self, *_: object, **__: object) -> AsyncIterator[bytes]:  # type: ignore[override]
            nonlocal asked
            while asked < 1000:
                asked += 1
                yield b'{"type":"ADDED","object":{"metadata":{}}}'
            await asyncio.Event().wait()

    reflector = Reflector(Empty(Connection("http://127.0.0.1:1")), THINGS, Store("things", verbatim))
    with capture_logs():
        running, turns = asyncio.create_task(reflector.run()), list[int]()
        while asked < 1000:
            turns.append(asked)
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 20


async def test_empty_lines_of_a_watch_are_no_events(world: World) -> None:
    await world.start()
    good = orjson.dumps({"type": "ADDED", "object": world.server.put(f"{PATH}/good", {})})
    await world.caught_up()
    world.proxy.inject(Answer(200, b"\n" * 1000 + good + b"\n\n", "application/json"), watch=True)
    world.server.hang_up()
    await eventually(lambda: world.reflector.watch_errors["Unintelligible"] > 0)
    assert world.reflector.undecodable == 0
