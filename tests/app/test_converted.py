"""A conversion webhook that loses its bundle is reported by a watch: its CRD is read again only every half minute."""

import asyncio
import base64
from functools import partial

from api import crds
from api.kinds import KINDS
from api.objects import Raw, Resource
from app.cluster import LOOK_AGAIN_SECONDS, Converted
from certs.plan import RenewalPolicy
from controller.kube.client import Client
from operations.objects import CONVERTED, CRDS
from tests.eventually import PATIENCE, eventually
from tests.faults import FaultProxy
from tests.standin import StandIn

BUNDLE, OTHER = b"ours", b"another"
OURS = {"url": "https://127.0.0.1:1/convert"}
KUEUES = {"service": {"namespace": "kueue-system", "name": "kueue-webhook-service", "path": "/convert"}}


def put(server: StandIn, bundle: bytes, called: Raw = OURS) -> None:
    """All CRDs, converted by a webhook with this bundle."""
    config = {**called, "caBundle": base64.b64encode(bundle).decode()}
    for kind in KINDS:
        server.put(CRDS.path("", kind.crd_name), crds.definition(kind, config))


async def test_a_bundle_that_is_lost_is_reported_and_checked_again(server: StandIn, proxy: FaultProxy) -> None:
    put(server, BUNDLE)
    reported = 0

    def spoiled() -> None:
        nonlocal reported
        reported += 1

    async with Client(proxy.connection) as client:
        converted = Converted(
            client, lambda: OURS, clock=lambda: 0.0
        )  # the time at which the CRDs are read again never comes
        assert await converted.carries(BUNDLE)
        following = asyncio.create_task(converted.follow(spoiled))
        await eventually(lambda: server.open_watches == len(CONVERTED))
        assert await converted.carries(BUNDLE)
        assert reported == 0
        server.put(CRDS.path("", CONVERTED[0]), crds.definition(KINDS[0], OURS))
        await eventually(lambda: reported == 1)
        assert not await converted.carries(BUNDLE)
        await converted.publish(BUNDLE)
        assert await converted.carries(BUNDLE)
        put(server, OTHER)
        await eventually(lambda: reported == 1 + len(CONVERTED))
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_a_bundle_that_is_lost_again_right_after_it_was_restored_is_reported_again(
    server: StandIn, proxy: FaultProxy
) -> None:
    put(server, BUNDLE)
    path, reported = CRDS.path("", CONVERTED[0]), 0

    def spoiled() -> None:
        nonlocal reported
        reported += 1

    def at_least(times: int) -> bool:
        return reported >= times

    async with Client(proxy.connection) as client:
        converted = Converted(client, lambda: OURS, clock=lambda: 0.0)
        following = asyncio.create_task(converted.follow(spoiled))
        await eventually(lambda: server.open_watches == len(CONVERTED))
        assert await converted.carries(BUNDLE)
        for times in (1, 2, 3):
            server.put(path, crds.definition(KINDS[0], OURS))
            await eventually(partial(at_least, times))
            before = len(proxy.seen)
            assert not await converted.carries(BUNDLE)
            await converted.publish(BUNDLE)
            assert {request.path for request in proxy.seen[before:]} == {path}, "no other CRD is read"
        assert await converted.carries(BUNDLE)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


class Waiting(Client):
    """An API server that answers when all CRDs were asked for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.complete = asyncio.Event()

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Raw:
        self.asked.add(name)
        if self.asked == set(CONVERTED):
            self.complete.set()
        await self.complete.wait()
        return crds.definition(next(kind for kind in KINDS if kind.crd_name == name), OURS)


async def test_all_definitions_are_read_at_the_same_time_because_readiness_waits_for_them() -> None:
    async with asyncio.timeout(PATIENCE):
        assert not await Converted(Waiting(), lambda: OURS).carries(BUNDLE)


def test_definitions_are_read_again_before_the_next_ca_signs() -> None:
    assert RenewalPolicy().publish_wait.total_seconds() > LOOK_AGAIN_SECONDS


async def test_a_conversion_by_another_program_keeps_the_bundle_of_that_program(
    server: StandIn, proxy: FaultProxy
) -> None:
    put(server, OTHER, KUEUES)
    async with Client(proxy.connection) as client:
        converted = Converted(client, lambda: OURS)
        assert await converted.carries(BUNDLE)
        await converted.publish(BUNDLE)
        found = await client.get(CRDS, CONVERTED[0])
        assert found["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == base64.b64encode(OTHER).decode()
        put(server, OTHER, OURS)
        assert not await Converted(client, lambda: OURS).carries(BUNDLE)
