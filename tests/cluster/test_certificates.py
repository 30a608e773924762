"""The CA in a Secret and its copies in webhook configurations, on a real API server."""

import asyncio
import base64
import json
import multiprocessing
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Self

import orjson
import pytest
from starlette.types import Receive, Scope, Send

from api import crds
from api.objects import Raw
from app.application import Application
from app.cluster import Charted, Converted, SecretStore
from app.connection import Deadlines
from app.internals import of_certificates
from app.metrics import ProcessMetrics
from app.published import Published
from app.server import Address, Farewell, Listener, Server
from certs import keeper as keeper_module
from certs import pki
from certs.keeper import PASS_EVERY, Keeper
from certs.live import LiveContext
from certs.plan import RenewalPolicy, RotationStep
from certs.record import CertificateRecord
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import NotFound
from devcluster.controlplane import ControlPlane, Spec
from operations.objects import CONVERTED, CRDS, MUTATING, SECRETS, apply
from tests.app.http import Wire, post
from tests.cluster.steady import creating
from tests.effort import LONG
from tests.eventually import PATIENCE, eventually
from tests.webhook.cluster import cluster, job, review
from webhook.configurations import Endpoint, HookOptions, mutating
from webhook.routes import routes
from webhook.settings import Context, WebhookSettings

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


def keeper(client: Client, policy: RenewalPolicy | None = None) -> Keeper:
    return Keeper(
        SecretStore(client, SECRET, NAMESPACE),
        LiveContext(),
        NAMES,
        targets=[Charted(client, {MUTATING: HOOKS})],
        clock=partial(datetime.now, UTC),
        policy=policy,
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


def start_once(kubeconfig: Path, gate: Barrier, results: "Queue[tuple[bytes, bytes, bytes]]") -> None:
    """Another replica: waits until all of them are there, and starts."""

    async def start() -> None:
        async with Client(config.load(kubeconfig)) as client:
            one = keeper(client)
            gate.wait(PATIENCE)
            await one.tick()
            assert one.live.pair is not None
            results.put((one.bundle, one.live.pair.chain_pem, one.live.pair.key_pem))

    asyncio.run(start())


async def test_t9_twenty_processes_that_start_at_once_make_one_ca(plane: ControlPlane, client: Client) -> None:
    """T9: each process has its own connections, and clients verify what each of them serves."""
    await charted(client)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    gate, results = context.Barrier(20), context.Queue()
    processes = [context.Process(target=start_once, args=(plane.kubeconfig, gate, results)) for _ in range(20)]
    for process in processes:
        process.start()
    found = [await asyncio.to_thread(results.get, timeout=PATIENCE) for _ in processes]
    for process in processes:
        await asyncio.to_thread(process.join)
    (bundle,) = await bundles(client)
    assert {own for own, _, _ in found} == {bundle}
    assert len(pki.read_certificates(bundle)) == 1
    assert len({leaf for _, leaf, _ in found}) == 20
    for _, chain, key in found:
        pki.verify_chain(pki.read_pair(chain, key), bundle, "localhost", datetime.now(UTC))


async def test_an_empty_secret_that_the_chart_made_is_filled_and_keeps_its_labels(client: Client) -> None:
    metadata = {"name": SECRET, "namespace": NAMESPACE, "labels": {"helm.sh/chart": "x"}}
    await client.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}, NAMESPACE)
    await keeper(client).tick()
    found = await client.get(SECRETS, SECRET, NAMESPACE)
    assert found["metadata"]["labels"] == {"helm.sh/chart": "x"}
    assert set(found["data"]) == {"ca.crt", "signing.crt", "signing.key", "rotation.json"}


def encoded(data: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in data.items()}


def expired() -> CertificateRecord:
    return CertificateRecord(pki.new_authority(datetime.now(UTC) - timedelta(days=2), timedelta(days=1)))


STRANGER = pki.new_authority(datetime.now(UTC), timedelta(days=1))
BROKEN = {
    "garbage": {"signing.crt": "Z2FyYmFnZQ==", "ca.crt": "Z2FyYmFnZQ=="},
    "emptied": {"signing.crt": None, "signing.key": None, "ca.crt": None},
    "a key that is none": encoded({"signing.key": b"-----BEGIN PRIVATE KEY-----\n"}),
    "the key of another CA": encoded({"signing.key": STRANGER.key_pem}),
    "deleted": None,
}


def restorations(one: Keeper) -> float:
    """What the alert SeiretsuCaDamaged reads."""
    found = [sample for family in of_certificates(one.live, one) for sample in family.samples]
    return next(sample.value for sample in found if sample.name == "seiretsu_ca_restorations_total")


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
async def test_t8_a_damaged_secret_is_restored_without_an_outage(client: Client, change: Raw | None) -> None:
    """T8: the next pass restores it, and reports that by a metric; `tests/certs/test_keeper.py` shows that it begins
    within 5 s.
    """
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
    assert restorations(one) == 1
    fresh = keeper(client)
    await fresh.tick()
    assert fresh.bundle == before
    assert await bundles(client) == {before}


async def test_t8_an_expired_ca_in_the_secret_is_replaced_while_the_last_certificate_is_served(client: Client) -> None:
    await charted(client)
    one = keeper(client)
    await one.tick()
    leaf = one.live.pair
    assert leaf is not None
    await client.patch(SECRETS, SECRET, NAMESPACE, {"data": encoded(expired().data())})
    await one.tick()
    assert restorations(one) == 1
    (bundle,) = await bundles(client)
    now = datetime.now(UTC)
    pki.verify_chain(leaf, bundle, "localhost", now)  # for replicas that have not renewed theirs yet
    assert one.live.pair is not None
    pki.verify_chain(one.live.pair, bundle, "localhost", now)
    assert one.record is not None and one.record.signs_at(now)


async def test_a_lost_bundle_is_restored_when_the_watch_reports_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Webhook configurations and CRDs; no pass begins by itself in this test."""
    monkeypatch.setattr(keeper_module, "PASS_EVERY", 3600.0)
    called = Endpoint(url="https://127.0.0.1:1")
    for definition in crds.definitions(called.client_config(crds.CONVERSION_PATH, b"")):
        await apply(client, definition)
    await charted(client)
    one = keeper(client)
    converted = Converted(client, lambda: called.client_config(crds.CONVERSION_PATH, b""))
    one.add_target(converted)
    published = Published(
        client, {MUTATING: HOOKS}, one.live, "localhost", clock=one.clock, required=True, spoiled=one.wake
    )
    await one.tick()
    tasks = [asyncio.create_task(each) for each in (one.run(), published.run(), converted.follow(one.wake))]
    await eventually(lambda: published.known)
    lost = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": None}}}}}
    for _ in range(2):
        await client.patch(
            MUTATING, HOOKS, "", [{"op": "remove", "path": "/webhooks/1/clientConfig/caBundle"}], type="json"
        )
        await restored(client, one.bundle)
        await client.patch(CRDS, CONVERTED[0], "", lost)
        await restored(client, one.bundle)
    await eventually(lambda: one.writes >= 6)  # the last write may be seen before its answer
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert one.writes == 6, "two at the start, and one for each loss"


async def restored(client: Client, bundle: bytes) -> None:
    async with asyncio.timeout(PATIENCE):
        while await bundles(client) != {bundle} or await converting(client) != bundle:  # noqa: ASYNC110 - on the server
            await asyncio.sleep(0.02)


async def converting(client: Client) -> bytes:
    found = await client.get(CRDS, CONVERTED[0])
    return base64.b64decode(found["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle", ""))


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


RATE, WAIT_SECONDS, PASS_SECONDS = (100, 15, PASS_EVERY) if LONG else (12, 2, 0.25)
"""Creates a second, the wait before the next CA signs, the time between passes."""
LEAF_SECONDS, SPENT = 20, 2 / 3 if LONG else 1 / 2
"""The life of certificates, and the part of it after which they are replaced, of which a third is spent when they are
made (`certs.pki`, for clocks that differ): beside other tests a process may wait long for a processor.
"""
DEADLINES = Deadlines() if LONG else Deadlines(handshake=PATIENCE)
"""Clients, servers and keepers share a process here. With a twentieth of a processor, beside other tests, a handshake
took more than ten seconds, and the server gave it up.
"""
QUEUED = job(labels={"kueue.x-k8s.io/queue-name": "main"})


class Replica:
    """A keeper and a server of webhooks; `waited` is for how long the API server waits for each call."""

    def __init__(self, client: Client, policy: RenewalPolicy) -> None:
        self.keeper = keeper(client, policy)
        self.waited: set[str] = set()
        self._client = client
        hooks = Application(
            routes(Context(WebhookSettings(), cluster())), [], ProcessMetrics(), called=lambda path: None
        )

        async def asked(scope: Scope, receive: Receive, send: Send) -> None:
            self.waited.add(scope["query_string"].decode())
            await hooks(scope, receive, send)

        self.listener = Listener(asked, Address("127.0.0.1", 0), self.keeper.live.context)
        self.server = Server([self.listener], DEADLINES)
        self.leaves: set[str] = set()

    async def __aenter__(self) -> Self:
        await self.keeper.tick()
        await self.server.start()
        self._running = asyncio.create_task(self.keeper.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await self.server.stop(Farewell(0, 1))

    async def connect(self, bundle: bytes) -> int:
        """Makes a new connection that trusts the bundle, and a call on it; the status of the answer."""
        assert self.listener.bound is not None
        async with Wire(self.listener.bound, ssl.create_default_context(cadata=bundle.decode())) as wire:
            served = wire.writer.get_extra_info("ssl_object").getpeercert()
            self.leaves.add(served["serialNumber"])
            return (await wire.call(post("/mutate-batch-v1-job", orjson.dumps(review(QUEUED))))).status


async def test_t7_a_rotation_of_the_ca_with_short_lived_certificates_fails_no_call(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T7 and F8: the API server calls one replica all the time, and other clients connect anew to two of them, while
    the CA is replaced and every certificate expires several times (full size: 20 s of life, 100 calls a second, 2 min).

    F7: each call of the API server names the time for which it waits.
    """
    monkeypatch.setattr(keeper_module, "PASS_EVERY", PASS_SECONDS)
    life, wait = timedelta(seconds=LEAF_SECONDS), timedelta(seconds=WAIT_SECONDS)
    policy = RenewalPolicy(leaf_life=life, renew_fraction=SPENT, publish_wait=wait)
    due = CertificateRecord(pki.new_authority(datetime.now(UTC) - timedelta(days=300), timedelta(days=365)))
    assert await SecretStore(client, SECRET, NAMESPACE).write(due.data(), "")
    failures, widths, connections = list[str](), list[int](), 0
    async with AsyncExitStack() as stack:
        one, other = [await stack.enter_async_context(Replica(client, policy)) for _ in range(2)]
        endpoint = Endpoint(url=f"https://{one.listener.bound}")
        name = HOOKS.removesuffix("-mutating-webhook-configuration")
        options = HookOptions(endpoint=endpoint, name=name, timeout_seconds=30)
        await client.create(MUTATING, mutating(options))
        await one.keeper.tick()

        async def connecting() -> None:
            nonlocal connections
            while True:
                (bundle,) = await bundles(client)
                widths.append(len(pki.read_certificates(bundle)))
                for replica in (one, other):
                    connections += 1
                    try:
                        status = await replica.connect(bundle)
                    except OSError as error:
                        failures.append(str(error))
                        continue
                    if status != 200:
                        failures.append(f"answered with {status}")

        def over() -> bool:
            """The CA was replaced, and both replicas serve the third certificate of the new one, or more."""
            steps = one.keeper.steps + other.keeper.steps
            served = min(len(one.leaves), len(other.leaves))
            return steps[RotationStep.PRUNE] > 0 and widths[-1:] == [1] and served >= (12 if LONG else 4)

        def seen() -> bool:
            """There were enough creates and connections meanwhile to notice a gap."""
            return creates.made > RATE * LEAF_SECONDS / 4 and connections > 50

        creates = await stack.enter_async_context(creating(client, RATE))
        connected = asyncio.create_task(connecting())
        await eventually(lambda: over() and seen())
        connected.cancel()
        await asyncio.gather(connected, return_exceptions=True)
    print(creates, f"and {connections} connections; {len(one.leaves | other.leaves)} certificates were served")
    assert (failures, creates.failures) == ([], [])
    assert [width for place, width in enumerate(widths) if not place or width != widths[place - 1]][-2:] == [2, 1]
    assert set(widths) <= {1, 2}
    assert one.waited - {""} == {"timeout=30s"}, "the API server sends the webhook's timeoutSeconds"
