"""Whether the live webhook configurations trust what is served, followed by a watch."""

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from api.objects import Raw
from app.published import Published
from certs import pki
from certs.live import LiveContext
from certs.pki import KeyPair
from certs.plan import RenewalPolicy
from controller.kube.client import Client
from operations.objects import MUTATING, VALIDATING
from tests.eventually import eventually
from tests.faults import FaultProxy, status
from tests.standin import StandIn

NOW = datetime(2026, 6, 1, tzinfo=UTC)
NAMES = {MUTATING: "ours-mutating", VALIDATING: "ours-validating"}
AT = {resource: f"{resource.path('', name)}" for resource, name in NAMES.items()}


def authority() -> KeyPair:
    return pki.new_authority(NOW, RenewalPolicy().authority_life)


def serve(live: LiveContext, signer: KeyPair) -> None:
    leaf = pki.new_leaf(signer, ("localhost",), NOW, RenewalPolicy().leaf_life)
    live.load(leaf, signer.chain_pem, "localhost", NOW)


class World:
    """An API server with the configurations, and a watcher of them; `spoiled` counts its reports."""

    def __init__(self, server: StandIn, client: Client, *, required: bool = True) -> None:
        self.server = server
        self.live = LiveContext()
        self.signer = authority()
        self.spoiled = 0
        serve(self.live, self.signer)
        self.published = Published(
            client, NAMES, self.live, "localhost", clock=lambda: NOW, required=required, spoiled=self._spoiled
        )

    def _spoiled(self) -> None:
        self.spoiled += 1

    def put(self, *bundles: bytes) -> None:
        """Both configurations, with a webhook a bundle."""
        for resource, path in AT.items():
            self.server.put(path, {"kind": resource.kind, "webhooks": [hook(bundle) for bundle in bundles]})


def hook(bundle: bytes) -> Raw:
    return {"name": "mjob.kb.io", "clientConfig": {"caBundle": base64.b64encode(bundle).decode()}}


@pytest.fixture
async def world(server: StandIn, proxy: FaultProxy) -> AsyncIterator[World]:
    async with Client(proxy.connection) as client:
        made = World(server, client)
        made.put(made.signer.chain_pem)
        running = asyncio.create_task(made.published.run())
        yield made
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_nothing_is_wrong_while_every_webhook_trusts_what_is_served(world: World) -> None:
    await eventually(lambda: world.published.known)
    assert (world.published.complaint(), world.spoiled) == ("", 0)


SPOILED = [
    pytest.param(b"", "has no caBundle", id="blanked"),
    pytest.param(b"garbage", "does not verify the certificate that is served", id="garbage"),
    pytest.param(authority().chain_pem, "does not verify the certificate that is served", id="another CA"),
]


@pytest.mark.parametrize(("bundle", "told"), SPOILED)
async def test_a_wrong_bundle_is_reported_immediately_until_it_is_restored(
    world: World, bundle: bytes, told: str
) -> None:
    await eventually(lambda: world.published.known)
    world.put(world.signer.chain_pem, bundle)
    await eventually(lambda: told in world.published.complaint())
    await eventually(lambda: world.spoiled)
    assert "webhook mjob.kb.io of the MutatingWebhookConfiguration ours-mutating" in world.published.complaint()
    world.put(world.signer.chain_pem, world.signer.chain_pem)
    await eventually(lambda: not world.published.complaint())


async def test_a_certificate_of_another_ca_needs_another_bundle(world: World) -> None:
    await eventually(lambda: world.published.known)
    following = authority()
    serve(world.live, following)
    assert "does not verify" in world.published.complaint()
    world.put(pki.bundle_pem([world.signer.certificate, following.certificate]))
    await eventually(lambda: not world.published.complaint())


@pytest.mark.parametrize("required", [True, False])
async def test_a_missing_configuration_is_reported_only_if_it_is_required(
    server: StandIn, proxy: FaultProxy, required: bool
) -> None:
    async with Client(proxy.connection) as client:
        world = World(server, client, required=required)
        running = asyncio.create_task(world.published.run())
        await eventually(lambda: world.published.known)
        told = "the MutatingWebhookConfiguration ours-mutating does not exist"
        assert world.published.complaint() == (told if required else "")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_what_cannot_be_watched_is_not_known(server: StandIn, proxy: FaultProxy) -> None:
    for _ in range(50):
        proxy.inject(status(403, "Forbidden"))
    async with Client(proxy.connection) as client:
        world = World(server, client)
        running = asyncio.create_task(world.published.run())
        await eventually(lambda: len(proxy.seen) >= 2)
        assert not world.published.known
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_however_often_it_is_asked_a_certificate_is_verified_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await eventually(lambda: world.published.known)
    assert world.published.complaint() == ""
    verified: list[KeyPair] = []
    monkeypatch.setattr(pki, "verify_chain", lambda pair, *others: verified.append(pair))
    assert {world.published.complaint() for _ in range(100)} == {""}
    assert verified == []
    monkeypatch.undo()
    serve(world.live, world.signer)
    monkeypatch.setattr(pki, "verify_chain", lambda pair, *others: verified.append(pair))
    assert {world.published.complaint() for _ in range(100)} == {""}
    assert verified == [world.live.pair] * len(NAMES)
