"""The CA in a Secret and its copies in webhook configurations, on a real API server."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from functools import partial

import pytest

from api.objects import Raw
from app.cluster import MUTATING, SECRETS, Charted, SecretStore
from certs import pki
from certs.keeper import Keeper
from certs.live import LiveContext
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import NotFound
from devcluster.controlplane import ControlPlane, Spec

pytestmark = pytest.mark.cluster

NAMES = ("localhost", "127.0.0.1")
SECRET, NAMESPACE, HOOKS = "webhook-server-cert", "default", "chart-mutating-webhook-configuration"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane.start(spec=Spec(nodes=())) as started:
        yield started


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(config.load(plane.kubeconfig)) as one:
        yield one
        for resource, name, namespace in ((SECRETS, SECRET, NAMESPACE), (MUTATING, HOOKS, "")):
            try:
                await one.delete(resource, name, namespace)
            except NotFound:
                continue


def keeper(client: Client) -> Keeper:
    return Keeper(
        SecretStore(client, SECRET, NAMESPACE),
        LiveContext(),
        NAMES,
        targets=[Charted(client, {MUTATING: HOOKS})],
        clock=partial(datetime.now, UTC),
    )


def hook(name: str) -> Raw:
    return {
        "name": f"{name}.kb.io",
        "clientConfig": {"service": {"name": "s", "namespace": "default"}},
        "rules": [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["cronjobs"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


async def charted(client: Client) -> None:
    await client.create(
        MUTATING,
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": HOOKS},
            "webhooks": [hook("one"), hook("two")],
        },
    )


async def bundles(client: Client) -> set[bytes]:
    found = await client.get(MUTATING, HOOKS)
    return {base64.b64decode(one["clientConfig"].get("caBundle", "")) for one in found["webhooks"]}


async def test_twenty_replicas_that_start_at_once_make_one_ca(client: Client) -> None:
    await charted(client)
    replicas = [keeper(client) for _ in range(20)]
    await asyncio.gather(*(replica.tick() for replica in replicas))
    assert {replica.bundle for replica in replicas} == await bundles(client)
    assert len(pki.read_certificates(replicas[0].bundle)) == 1


async def test_an_empty_secret_that_the_chart_made_is_filled_and_keeps_its_labels(client: Client) -> None:
    metadata = {"name": SECRET, "namespace": NAMESPACE, "labels": {"helm.sh/chart": "x"}}
    await client.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}, NAMESPACE)
    await keeper(client).tick()
    found = await client.get(SECRETS, SECRET, NAMESPACE)
    assert found["metadata"]["labels"] == {"helm.sh/chart": "x"}
    assert set(found["data"]) == {"ca.crt", "signing.crt", "signing.key", "rotation.json"}


BROKEN = [
    ("garbage", {"signing.crt": "Z2FyYmFnZQ==", "ca.crt": "Z2FyYmFnZQ=="}),
    ("emptied", {"signing.crt": None, "signing.key": None, "ca.crt": None}),
    ("a key that is not its own", {"signing.key": base64.b64encode(b"-----BEGIN PRIVATE KEY-----\n").decode()}),
    ("deleted", None),
]


@pytest.mark.parametrize("change", [case[1] for case in BROKEN], ids=[case[0] for case in BROKEN])
async def test_a_damaged_secret_is_restored_without_an_outage(client: Client, change: Raw | None) -> None:
    await charted(client)
    one = keeper(client)
    await one.tick()
    before, leaf = one.bundle, one.live.pair
    if change is None:
        await client.delete(SECRETS, SECRET, NAMESPACE)
    else:
        await client.patch(SECRETS, SECRET, NAMESPACE, {"data": change})
    await one.tick()
    assert (one.bundle, one.live.pair) == (before, leaf)
    fresh = keeper(client)
    await fresh.tick()
    assert fresh.bundle == before
    assert await bundles(client) == {before}


async def test_a_bundle_that_a_chart_upgrade_removes_is_restored_and_nothing_else_changed(client: Client) -> None:
    await charted(client)
    one = keeper(client)
    await one.tick()
    patch = [{"op": "remove", "path": "/webhooks/1/clientConfig/caBundle"}]
    before = await client.patch(MUTATING, HOOKS, "", patch, type="json")
    await one.tick()
    after = await client.get(MUTATING, HOOKS)
    assert await bundles(client) == {one.bundle}
    assert [hook["name"] for hook in after["webhooks"]] == [hook["name"] for hook in before["webhooks"]]
    assert json.dumps(after["webhooks"][0]) == json.dumps(before["webhooks"][0])


async def test_configurations_that_are_not_there_yet_hold_nothing_up(client: Client) -> None:
    one = keeper(client)
    await one.tick()
    assert one.published
