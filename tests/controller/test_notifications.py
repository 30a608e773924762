"""Notifications reach a receiver over HTTP, and nothing that a receiver does delays or leaks anything."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from api.configuration import load
from certs import pki
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.notifications.notifications import Notifications
from controller.notifications.sender import MOST_ATTEMPTS, Sender
from controller.run.controller import Controller
from controller.settings import from_configuration
from core.model import Key, Selector
from core.model.kubernetes import Requirement
from core.notifications.model import Notification, NotificationKind, NotificationPolicy, Recipient
from tests.controller.test_forecasts import RUNS, given
from tests.controller.test_forecasts import Place as Forecasted
from tests.unresponsive import UNFINISHED, WHOLE, left_open_by, unresponsive

LOOPBACK = (ip_network("127.0.0.0/8"),)
ALL = frozenset(NotificationKind)


def failed(name: str = "w", namespace: str = "ns", at: float = 0.0) -> Notification:
    return Notification(NotificationKind.FAILED, at, Key(namespace, name), name, None, "lq", "cq", 0, message="why")


class Place:
    """A receiver that answers with ``statuses`` in turn, then with 204, and a sender for it on a virtual clock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.got: list[tuple[str, dict[str, str], Any]] = []
        self.statuses: list[int] = []
        self.answers: dict[str, str] = {}
        self.now = 0.0
        self.slept: list[float] = []
        self.registry = CollectorRegistry()
        self.results = Counter("results", "", ["receiver", "result"], registry=self.registry)

    async def answer(self, request: web.Request) -> web.Response:
        self.got.append((request.path_qs, dict(request.headers), orjson.loads(await request.read())))
        status = self.statuses.pop(0) if self.statuses else 204
        return web.Response(status=status, headers=self.answers)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def sender(self, **changes: Any) -> Sender:
        settings = {"name": "chat", "url": f"{self.url}/hook", "kinds": ALL, "networks": LOOPBACK} | changes
        clock: Callable[[], float] = lambda: self.now  # noqa: E731
        return Sender(Recipient(**settings), "/s", self.results, clock=clock, now=clock, sleep=self.sleep)

    def count(self, result: str) -> float | None:
        return self.registry.get_sample_value("results_total", {"receiver": "chat", "result": result})


@contextlib.asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Place]:
    found: list[Place] = []

    async def answer(request: web.Request) -> web.Response:
        return await found[0].answer(request)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        host, port = runner.addresses[0][:2]
        found.append(Place(f"{'https' if tls else 'http'}://{host}:{port}"))
        yield found[0]
    finally:
        await runner.cleanup()


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with receiving() as found:
        yield found


async def test_a_cloud_event_arrives_with_the_secrets_of_the_files_and_no_log_has_them(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("Bearer s3cret\n")
    (tmp_path / "path").write_text("T0/B0/p4th?x=1\n")
    sender = place.sender(header=("Authorization", str(tmp_path / "token")), path_file=str(tmp_path / "path"))
    place.statuses = [500, 400]
    with structlog.testing.capture_logs() as logs:
        await sender.send(failed())
        place.url = "http://127.0.0.1:9"
        await place.sender(path_file=str(tmp_path / "path")).send(failed())
    (path, headers, body), _ = place.got
    assert (path, headers["Authorization"]) == ("/hook/T0/B0/p4th?x=1", "Bearer s3cret")
    assert headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    assert (body["type"], body["data"]["workload"]) == ("io.seiretsu.workload.failed.v1", "w")
    assert [each["error"] for each in logs] == ["status 500", "status 400", "ClientConnectorError"]
    assert "s3cret" not in str(logs)
    assert "p4th" not in str(logs)


async def test_a_secret_that_changes_is_used_for_the_next_call(place: Place, tmp_path: Path) -> None:
    token = tmp_path / "token"
    sender = place.sender(header=("X-Token", str(token)))
    for value in ("one", "two"):
        token.write_text(value)
        await sender.send(failed())
    assert [headers["X-Token"] for _, headers, _ in place.got] == ["one", "two"]


@pytest.mark.parametrize("content", ["", "a\nb", "x" * 20_000, "\u2028"])
async def test_a_header_that_is_not_one_line_of_text_is_not_sent(place: Place, tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    await place.sender(header=("X-Token", str(tmp_path / "token"))).send(failed())
    assert (place.got, place.count("failed")) == ([], 1)


@pytest.mark.parametrize("content", ["../../admin", "a b", "x#y", "http://evil\\@x"])
async def test_the_file_of_the_path_leads_nowhere_else(place: Place, tmp_path: Path, content: str) -> None:
    (tmp_path / "path").write_text(content)
    await place.sender(path_file=str(tmp_path / "path")).send(failed())
    assert place.got == []


async def test_a_redirect_is_not_followed(place: Place) -> None:
    place.statuses, place.answers = [307], {"Location": f"{place.url}/elsewhere"}
    await place.sender().send(failed())
    assert [path for path, _, _ in place.got] == ["/hook"]
    assert place.count("failed") == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_an_address_that_is_not_public_is_called_only_in_the_networks(place: Place, host: str) -> None:
    url = place.url.replace("127.0.0.1", host)
    with structlog.testing.capture_logs() as logs:
        await place.sender(url=url, networks=()).send(failed())
    assert (place.got, place.count("failed")) == ([], 1)
    assert "is not public and in none of the receiver's networks" in logs[0]["error"]


async def test_a_receiver_that_is_busy_is_called_again_later_each_time(place: Place) -> None:
    place.statuses = [503, 503, 429]
    place.answers = {"Retry-After": "30"}
    sender = place.sender()
    await sender.send(failed())
    assert (len(place.got), place.slept, place.count("sent")) == (4, [30.0, 30.0, 30.0], 1)
    assert place.got[-1][2]["id"] == place.got[0][2]["id"], "a receiver can tell that it is the same"


async def test_a_receiver_that_is_down_is_called_once_a_minute_at_last(place: Place) -> None:
    place.statuses = [500] * 3 * MOST_ATTEMPTS
    sender = place.sender()
    for number in range(3):
        await sender.send(failed(str(number), at=place.now))
    assert place.slept[:6] == [1.0, 2.0, 4.0, 8.0, 16.0, 60.0]
    assert set(place.slept[6:]) == {60.0}
    assert place.count("failed") == 3
    await sender.send(failed("next", at=place.now))
    assert place.got[-1][2]["data"]["droppedBefore"] == 3


async def test_old_news_is_dropped_after_an_outage(place: Place) -> None:
    sender = place.sender()
    place.statuses = [500, 400]
    await sender.send(failed())
    place.now += 4_000
    await sender.send(failed("old"))
    await sender.send(failed("fresh", at=place.now))
    assert [body["data"]["workload"] for _, _, body in place.got] == ["w", "w", "fresh"]
    assert place.count("dropped") == 1


async def test_the_queue_is_bounded_and_one_namespace_leaves_room_for_others(place: Place) -> None:
    sender = place.sender(queue_length=10)
    for number in range(100):
        sender.add(failed(str(number), "noisy"))
    sender.add(failed("a", "quiet"))
    assert (len(sender), place.count("dropped")) == (6, 95)


async def test_the_budget_limits_the_rate(place: Place) -> None:
    sender = place.sender(rate_per_minute=12)
    for number in range(5):
        sender.add(failed(str(number)))
    task = asyncio.ensure_future(sender.run())
    try:
        while len(place.got) < 5:  # noqa: ASYNC110 - the clock is virtual
            await asyncio.sleep(0.01)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert place.now == pytest.approx(15.0), "two at once, then one each five seconds"


async def test_a_body_of_the_administrator_is_sent_instead(place: Place) -> None:
    await place.sender(body={"text": "{text}"}).send(failed())
    _, headers, body = place.got[0]
    assert headers["Content-Type"] == "application/json"
    assert body == {"text": "Workload w in namespace ns failed: why"}


def test_workloads_that_change_and_wait_reach_the_receivers_that_want_them() -> None:
    world = Forecasted()
    teams = Selector((Requirement("team", "Exists", ()),))
    recipients = [
        Recipient("all", "https://a", ALL),
        Recipient("teams", "https://b", ALL, namespaces=teams),
        Recipient("admissions", "https://c", frozenset({NotificationKind.ADMITTED})),
    ]
    policy = NotificationPolicy(waiting_seconds=60.0)
    told = Notifications(world.caches, recipients, policy, "/s", CollectorRegistry(), now=lambda: world.now)
    told.connect()
    for _ in told.everything():
        pass
    assert [len(each) for each in told.senders] == [0, 0, 0]
    world.now += 60
    assert not told.look()
    assert [len(each) for each in told.senders] == [1, 0, 0]
    world.put("next", "4", {"admission": given("4"), "conditions": RUNS})
    assert [len(each) for each in told.senders] == [2, 0, 1]


@pytest.mark.parametrize(("trusted", "sent"), [(True, 1), (False, 0)])
async def test_tls_is_verified_by_the_named_authorities(tmp_path: Path, *, trusted: bool, sent: int) -> None:
    now, life = datetime.now(UTC), timedelta(hours=1)
    authority, other = pki.new_authority(now, life), pki.new_authority(now, life)
    leaf = pki.new_leaf(authority, ["127.0.0.1"], now, life)
    (tmp_path / "leaf").write_bytes(leaf.chain_pem + leaf.key_pem)
    (tmp_path / "ca").write_bytes((authority if trusted else other).chain_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "leaf")
    async with receiving(context) as place:
        with structlog.testing.capture_logs() as logs:
            await place.sender(ca_file=str(tmp_path / "ca")).send(failed())
        assert len(place.got) == sent
        assert (logs == []) is trusted
        assert trusted or "certificate" in logs[0]["error"].lower()


@pytest.mark.parametrize("answer", [WHOLE, UNFINISHED], ids=["whole", "unfinished"])
def test_a_receiver_that_does_nothing_after_its_status_keeps_no_connection(tmp_path: Path, answer: bytes) -> None:
    """A close notification that it does not answer would keep each socket for half a minute."""

    async def send(url: str, authority: bytes) -> None:
        (tmp_path / "ca").write_bytes(authority)
        place = Place(url)
        networks = (*LOOPBACK, ip_network("::1"))
        await place.sender(ca_file=str(tmp_path / "ca"), networks=networks).send(failed())
        assert place.count("sent") == 1

    with unresponsive(answer) as server:
        assert left_open_by(send(*server)) == []


CONFIGURED = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
seiretsu:
  notifications:
    waitingAfter: 2h
    receivers:
    - name: chat
      url: https://chat.example.com/hooks
      pathFile: /etc/notify/path
      header: {name: Authorization, file: /etc/notify/token}
      networks: [10.96.0.0/12]
      types: [failed, loop]
      namespaceSelector: {matchLabels: {team: a}}
      body: {text: "{text}"}
"""


def test_the_configuration_is_taken_over_and_without_receivers_nothing_is_made() -> None:
    found = from_configuration(load(CONFIGURED).configuration, elect=False)
    (recipient,) = found.notifications.recipients
    assert recipient == Recipient(
        name="chat",
        url="https://chat.example.com/hooks",
        kinds=frozenset({NotificationKind.FAILED, NotificationKind.LOOP}),
        path_file="/etc/notify/path",
        header=("Authorization", "/etc/notify/token"),
        networks=(ip_network("10.96.0.0/12"),),
        namespaces=Selector((Requirement("team", "In", ("a",)),)),
        body={"text": "{text}"},
    )
    assert found.notifications.policy == NotificationPolicy(wanted=recipient.kinds, waiting_seconds=7200.0)
    assert Controller(Client(Connection("http://127.0.0.1:1")), found).notifications is not None
    assert Controller(Client(Connection("http://127.0.0.1:1"))).notifications is None
