import asyncio
import datetime
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from api.objects import Raw
from controller.kube.client import Client
from controller.kube.events import SAME_SECONDS, EventSender, EventType, ObjectReference
from controller.kube.flow.limits import GIVE_WAY_SECONDS
from controller.kube.flow.precedence import Precedence
from controller.kube.flow.throttle import Throttle
from tests.eventually import PATIENCE, eventually
from tests.faults import FaultProxy, Reset, status, throttled
from tests.standin import StandIn

JOB = ObjectReference("batch/v1", "Job", "ns", "a", "u1")


class Place:
    """A recorder with a stand-in server behind a fault proxy, on a virtual clock."""

    def __init__(self, server: StandIn, proxy: FaultProxy, client: Client) -> None:
        self.server = server
        self.proxy = proxy
        self.client = client
        self.now = 0.0
        self.slept: list[float] = []
        self.recorder = EventSender(
            client,
            instance="pod-0",
            throttle=Throttle(0),
            clock=lambda: self.now,
            now=lambda: datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=self.now),
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def record(self, about: ObjectReference, type: EventType, reason: str, message: str, component: str = "c") -> None:
        """File an event."""
        self.recorder.record(about, type, reason, message, component=component)

    async def flush(self) -> None:
        """Send everything filed."""
        self.recorder.close()
        async with asyncio.timeout(PATIENCE):
            await self.recorder.run()
        self.recorder._closed = False

    @property
    def events(self) -> list[Raw]:
        return list(self.server.objects.values())


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    server = StandIn()
    async with FaultProxy(server) as proxy, Client(proxy.connection, throttle_retries=0) as client:
        yield Place(server, proxy, client)


async def test_an_event_is_what_kubectl_describe_shows(place: Place) -> None:
    place.record(JOB, "Normal", "Started", "Admitted by clusterQueue cq")
    await place.flush()
    (event,) = place.events
    assert event["metadata"]["name"].startswith("a.") and event["metadata"]["namespace"] == "ns"
    assert {name: event[name] for name in event if name != "metadata"} == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "ns", "name": "a", "uid": "u1"},
        "type": "Normal",
        "reason": "Started",
        "message": "Admitted by clusterQueue cq",
        "source": {"component": "c"},
        "reportingComponent": "c",
        "reportingInstance": "pod-0",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }


async def test_events_of_cluster_scoped_objects_live_in_the_default_namespace(place: Place) -> None:
    place.record(JOB._replace(namespace="", kind="ClusterQueue"), "Warning", "Stopped", "m")
    await place.flush()
    assert place.events[0]["metadata"]["namespace"] == "default"
    assert "namespace" not in place.events[0]["involvedObject"]


async def test_an_event_that_would_not_be_continued_takes_no_memory_but_one_that_waits_is_sent(place: Place) -> None:
    for number in range(3):
        place.record(JOB._replace(uid=f"u{number}"), "Normal", "Started", "x")
        if number == 0:
            await place.flush()
        place.now += SAME_SECONDS + 1
    assert len(place.recorder._series) == 2, "the first has been sent"
    await place.flush()
    assert len(place.events) == 3


async def test_the_same_event_again_raises_the_count_and_after_ten_minutes_is_a_new_one(place: Place) -> None:
    for _ in range(3):
        place.record(JOB, "Normal", "Pending", "m")
    await place.flush()
    assert [(event["count"], event["lastTimestamp"]) for event in place.events] == [(3, "2026-01-01T00:00:00Z")]
    place.now += 60
    place.record(JOB, "Normal", "Pending", "m")
    await place.flush()
    assert [(event["count"], event["lastTimestamp"]) for event in place.events] == [(4, "2026-01-01T00:01:00Z")]
    assert [request.method for request in place.proxy.seen] == ["POST", "PATCH"]
    place.now += 601
    place.record(JOB, "Normal", "Pending", "m")
    await place.flush()
    assert [event["count"] for event in place.events] == [4, 1]


async def test_another_message_for_the_same_reason_continues_the_event_and_replaces_its_message(place: Place) -> None:
    place.record(JOB, "Normal", "PreemptedWorkload", "one")
    place.record(JOB, "Normal", "PreemptedWorkload", "two")
    await place.flush()
    assert [(event["message"], event["count"]) for event in place.events] == [("two", 2)]
    place.record(JOB, "Normal", "PreemptedWorkload", "three")
    await place.flush()
    assert [(event["message"], event["count"]) for event in place.events] == [("three", 3)]


async def test_another_object_reason_or_component_is_another_event(place: Place) -> None:
    place.record(JOB, "Normal", "Preempted", "m")
    place.record(JOB._replace(name="b", uid="u2"), "Normal", "Preempted", "m")
    place.record(JOB, "Normal", "Other", "m")
    place.record(JOB, "Normal", "Preempted", "m", component="other")
    await place.flush()
    assert [event["count"] for event in place.events] == [1, 1, 1, 1]
    assert {event["source"]["component"] for event in place.events} == {"c", "other"}


async def test_an_expired_event_is_created_again(place: Place) -> None:
    place.record(JOB, "Normal", "Pending", "m")
    await place.flush()
    place.server.remove(next(iter(place.server.objects)))
    place.record(JOB, "Normal", "Pending", "m")
    await place.flush()
    assert [event["count"] for event in place.events] == [2]


async def test_an_object_with_too_many_events_is_limited_and_others_are_not(place: Place) -> None:
    for number in range(40):
        place.record(JOB, "Normal", f"R{number}", "m")
    place.record(JOB._replace(uid="u2"), "Normal", "Pending", "m")
    assert len(place.recorder) == 26
    assert place.recorder.dropped == {"chatter": 15}
    place.now += 300
    place.record(JOB, "Normal", "Pending", "later")
    assert len(place.recorder) == 27


async def test_when_too_many_wait_the_newest_are_dropped_and_counted(place: Place) -> None:
    for number in range(8200):
        place.record(JOB._replace(uid=f"u{number}"), "Normal", "Pending", "m")
    assert len(place.recorder) == 4096
    assert place.recorder.dropped == {"full": 4104}


async def test_an_event_of_another_namespace_has_room_however_many_one_namespace_records(place: Place) -> None:
    flood = [JOB._replace(uid=f"u{number}", namespace="flood") for number in range(20_000)]
    for about in flood[:10_000]:
        place.record(about, "Normal", "Pending", "m")
    for number in range(1_000):
        place.record(JOB._replace(uid=f"other{number}", namespace=f"ns{number % 20}"), "Normal", "Pending", "m")
    for about in flood[10_000:]:
        place.record(about, "Normal", "Pending", "m")
    assert place.recorder.dropped.keys() == {"full"}
    waiting = Counter(said.about.namespace for said in place.recorder._waiting)
    assert waiting == {"flood": 4096} | {f"ns{number}": 50 for number in range(20)}


async def test_ten_thousand_events_of_one_namespace_delay_one_of_another_by_one(place: Place) -> None:
    for number in range(100):
        place.record(JOB._replace(uid=f"u{number}", name=f"flood{number}"), "Normal", "Pending", "m")
    place.record(JOB._replace(uid="other", name="other", namespace="other"), "Normal", "Pending", "m")
    await place.flush()
    names = [event["involvedObject"]["name"] for event in place.events]
    assert names[:3] == ["flood0", "other", "flood1"]
    assert len(names) == 101


@pytest.mark.parametrize(("answered", "waited"), [(7, 7.0), (100_000, 30.0)])
async def test_an_event_that_the_api_server_has_no_time_for_holds_no_turn_of_other_writes(
    place: Place, answered: int, waited: float
) -> None:
    """The wait is as long as the API server asks for, within a limit."""
    place.client._throttle_retries = 4
    place.proxy.inject(throttled(answered))
    in_flight: list[int] = []

    async def sleep(seconds: float) -> None:
        place.slept.append(seconds)
        in_flight.append(place.recorder._budget._in_flight)

    place.recorder._sleep = sleep
    place.record(JOB, "Normal", "Pending", "m")
    running = asyncio.create_task(place.recorder.run())
    await eventually(lambda: len(place.events) == 1)
    place.recorder.close()
    await running
    assert (place.slept, in_flight) == ([waited], [0])


async def test_a_server_that_is_away_gets_the_events_later(place: Place) -> None:
    place.proxy.inject(Reset(), status(429, "TooManyRequests"))
    place.record(JOB, "Normal", "Pending", "m")
    running = asyncio.create_task(place.recorder.run())
    async with asyncio.timeout(PATIENCE):
        while not place.recorder.sent:  # noqa: ASYNC110 - real sockets, nobody tells
            await asyncio.sleep(0.001)
    place.recorder.close()
    await running
    assert len(place.events) == 1 and len(place.slept) == 2


@pytest.mark.parametrize("reason", ["Forbidden", "Invalid", "NotFound"])
async def test_an_event_the_server_refuses_is_dropped_and_counted(place: Place, reason: str) -> None:
    place.proxy.inject(status({"Forbidden": 403, "Invalid": 422, "NotFound": 404}[reason], reason))
    place.record(JOB, "Normal", "Pending", "m")
    place.record(JOB, "Normal", "Other", "m")
    await place.flush()
    assert place.recorder.dropped == {reason: 1} and place.recorder.sent == 1


async def test_a_create_whose_answer_was_lost_is_not_lost(place: Place) -> None:
    place.proxy.inject(Reset(1, reaches=True))
    place.record(JOB, "Normal", "Pending", "m")
    running = asyncio.create_task(place.recorder.run())
    async with asyncio.timeout(PATIENCE):
        while not place.recorder.sent:  # noqa: ASYNC110 - real sockets, nobody tells
            await asyncio.sleep(0.001)
    place.recorder.close()
    await running
    assert [(event["message"], event["count"]) for event in place.events] == [("m", 1)]


async def test_events_of_one_moment_about_objects_of_one_name_do_not_replace_each_other(place: Place) -> None:
    for number in range(200):  # an object may have 25 at once
        place.record(JOB._replace(uid=f"u{number // 20}"), "Normal", f"Reason{number}", "m")
    await place.flush()
    assert len(place.events) == place.recorder.sent == 200 and not place.recorder.dropped


async def test_events_wait_while_the_client_has_no_calls_to_spare(place: Place) -> None:
    clock = [0.0]
    place.client.throttle = Throttle(10, 10, clock=lambda: clock[0])
    for _ in range(8):
        await place.client.throttle.take()

    async def sleep(seconds: float) -> None:
        assert not place.proxy.seen
        clock[0] += seconds
        await asyncio.sleep(0)

    place.recorder._sleep = sleep
    place.record(JOB, "Normal", "Pending", "m")
    running = asyncio.create_task(place.recorder.run())
    async with asyncio.timeout(PATIENCE):
        while not place.recorder.sent:  # noqa: ASYNC110 - real sockets, nobody tells
            await asyncio.sleep(0.001)
    place.recorder.close()
    await running
    assert clock[0] >= 0.29


async def test_long_messages_are_cut_and_long_names_still_make_a_valid_one(place: Place) -> None:
    place.record(JOB._replace(name="n" * 253), "Normal", "Pending", "m" * 5000)
    await place.flush()
    (event,) = place.events
    assert len(event["message"]) == 1024 and event["message"].endswith("...")
    assert len(event["metadata"]["name"]) <= 253


async def test_events_are_sent_however_long_admission_calls_go_on(place: Place) -> None:
    place.client.precedence = Precedence(clock=lambda: 0.0)  # on this clock the call is always the latest
    place.client.precedence.called()
    for number in range(5):
        place.record(JOB, "Normal", f"Reason{number}", "m")
    sending = asyncio.create_task(place.recorder.run())
    await eventually(lambda: len(place.events) == 5)
    assert (place.client.precedence.free, place.slept) == (False, [GIVE_WAY_SECONDS] * 5)
    place.recorder.close()
    await sending
