"""The same promises, kept with a real API server: what the stand-in only plays is checked here against the original."""

import asyncio
import base64
import http.client
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import kubernetes
import pytest

from api.objects import Key, Raw, Resource
from controller.kube import config
from controller.kube.client import Client
from controller.kube.config import Connection, StaticCredentials
from controller.kube.elector import LEASES, Durations, Elector
from controller.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Unauthorized,
    Unintelligible,
    Unreachable,
)
from controller.kube.events import EventSender, ObjectReference
from controller.kube.reflector import Reflector
from controller.kube.store import Store, verbatim
from devcluster.controlplane import ControlPlane, Spec
from seiretsu.client.http import Api
from tests.eventually import PATIENCE, eventually
from tests.faults import Answer, BlackHole, Fault, FaultProxy, Reset, html, proxied, throttled

pytestmark = pytest.mark.cluster

MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
JOBS = Resource("batch", "v1", "jobs", "Job")
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane.start(spec=Spec(name="kube", nodes=())) as plane:
        yield plane


@pytest.fixture
def connection(plane: ControlPlane) -> Connection:
    return config.load(plane.kubeconfig)


@pytest.fixture
async def client(connection: Connection) -> AsyncIterator[Client]:
    async with Client(connection) as client:
        yield client


@pytest.fixture
async def namespace(client: Client, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A namespace of the test's own."""
    created = await client.create(NAMESPACES, {"metadata": {"generateName": "kube-"}})
    yield created["metadata"]["name"]


def job(name: str) -> Raw:
    container = {"name": "c", "image": "busybox", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": {"name": name}, "spec": {"suspend": True, "template": template}}


async def test_an_object_goes_round_and_refusals_have_their_types(client: Client, namespace: str) -> None:
    created = await client.create(JOBS, job("a"), namespace)
    assert (await client.get(JOBS, "a", namespace))["metadata"]["uid"] == created["metadata"]["uid"]
    with pytest.raises(AlreadyExists):
        await client.create(JOBS, job("a"), namespace)
    stale = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"], "labels": {"x": "2"}}}
    labelled = await client.patch(JOBS, "a", namespace, {"metadata": {"labels": {"x": "1"}}})
    assert labelled["metadata"]["labels"]["x"] == "1"
    with pytest.raises(Conflict):
        await client.patch(JOBS, "a", namespace, stale)
    with pytest.raises(Invalid) as invalid:
        await client.patch(JOBS, "a", namespace, {"spec": {"parallelism": -1}})
    assert {cause["field"] for cause in invalid.value.details["causes"]} == {"spec.parallelism"}
    with pytest.raises(Conflict):
        await client.delete(JOBS, "a", namespace, uid="another")
    await client.delete(JOBS, "a", namespace, uid=created["metadata"]["uid"])
    with pytest.raises(NotFound):
        await client.get(JOBS, "a", namespace)


async def test_every_kind_of_patch_is_understood_and_a_dry_run_changes_nothing(client: Client, namespace: str) -> None:
    await client.create(JOBS, job("a"), namespace)
    added = [{"op": "add", "path": "/metadata/annotations", "value": {"n": "1"}}]
    assert (await client.patch(JOBS, "a", namespace, added, type="json"))["metadata"]["annotations"] == {"n": "1"}
    owned: Raw = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "labels": {"by": "apply"}}}
    applied = await client.patch(JOBS, "a", namespace, owned, type="apply", force=True)
    assert applied["metadata"]["labels"]["by"] == "apply"
    await client.patch(JOBS, "a", namespace, {"metadata": {"labels": {"dry": "run"}}}, dry_run=True)
    strategic = await client.patch(JOBS, "a", namespace, {"metadata": {"labels": {"s": "m"}}}, type="strategic")
    assert "dry" not in strategic["metadata"]["labels"] and strategic["metadata"]["labels"]["s"] == "m"
    status = {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
    assert (await client.patch(JOBS, "a", namespace, status, subresource="status"))["status"]["conditions"]


async def test_a_long_list_comes_in_pages_and_each_item_says_what_it_is(client: Client, namespace: str) -> None:
    names = [f"m{number:04}" for number in range(1001)]
    few = asyncio.Semaphore(20)  # a thousand connections at once take longer to open than the client waits

    async def create(name: str) -> None:
        async with few:
            await client.create(MAPS, {"metadata": {"name": name}}, namespace)

    await asyncio.gather(*map(create, names))
    listed = await client.list(MAPS, namespace, field_selector="metadata.name!=kube-root-ca.crt")
    assert [item["metadata"]["name"] for item in listed["items"]] == names
    assert {(item["apiVersion"], item["kind"]) for item in listed["items"]} == {("v1", "ConfigMap")}
    assert client.requests["list", "configmaps"] == 3


async def test_whose_kubeconfig_has_a_certificate_is_known_by_it(plane: ControlPlane, tmp_path: Path) -> None:
    """As those of kubeadm and kind have; on these control planes users have tokens."""
    raw = json.loads(plane.kubeconfig.read_text())
    certificate = plane.layout.pki / "admin"
    files = {"client-certificate": f"{certificate}.crt", "client-key": f"{certificate}.key"}
    raw["users"] = [{"name": user["name"], "user": files} for user in raw["users"]]
    (tmp_path / "kubeconfig").write_text(json.dumps(raw))
    async with Client(config.load(tmp_path / "kubeconfig")) as client:
        assert (await client.list(NAMESPACES))["items"]
    official = kubernetes.client.Configuration()
    await asyncio.to_thread(
        kubernetes.config.load_kube_config, str(tmp_path / "kubeconfig"), client_configuration=official
    )
    assert (await asyncio.to_thread(Api.of(official).get, "/api/v1/namespaces"))["items"]


async def test_unauthenticated_and_unauthorized_clients_get_different_errors(
    plane: ControlPlane, client: Client, connection: Connection, namespace: str
) -> None:
    anonymous = config.Connection(connection.server, config._context(ca_file=plane.layout.pki / "ca.crt"))
    async with Client(replace(anonymous, credentials=StaticCredentials("Bearer wrong"))) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.get(JOBS, "a", namespace)
        assert stranger.requests["get", "jobs"] == 2
    await client.create(ACCOUNTS, {"metadata": {"name": "poor"}}, namespace)
    token = plane.kubectl("create", "token", "poor", "-n", namespace, check=True).stdout.strip()
    async with Client(replace(anonymous, credentials=StaticCredentials(f"Bearer {token}"))) as poor:
        with pytest.raises(Forbidden, match="cannot list resource"):
            await poor.list(JOBS)


async def test_a_group_that_is_not_installed_differs_from_a_missing_object(client: Client) -> None:
    with pytest.raises(Unintelligible) as caught:
        await client.get(Resource("nobody.example.com", "v1", "things", "Thing"), "a", "ns")
    assert caught.value.status == 404


async def test_a_version_too_old_to_watch_or_to_page_from_is_gone(client: Client, namespace: str) -> None:
    with pytest.raises(Gone):
        await client._call(
            "list",
            MAPS,
            MAPS.path(),
            params={"limit": "1", "resourceVersion": "99999999", "resourceVersionMatch": "Exact"},
        )


class Followed:
    """A reflector on one namespace's ConfigMaps, through a fault proxy in front of the real server."""

    def __init__(self, proxy: FaultProxy, client: Client, namespace: str) -> None:
        self.proxy = proxy
        self.store: Store[Raw] = Store("configmaps", verbatim)
        self.pace = 1.0
        """What a second of waiting between requests takes."""
        self.reflector = Reflector(
            client, MAPS, self.store, namespace=namespace, sleep=lambda seconds: asyncio.sleep(seconds * self.pace)
        )

    def lists(self) -> int:
        return self.reflector.relists.total()


@pytest.fixture
async def followed(connection: Connection, namespace: str) -> AsyncIterator[Followed]:
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(proxied(connection))
        client = await stack.enter_async_context(Client(proxy.connection))
        followed = Followed(proxy, client, namespace)
        running = asyncio.create_task(followed.reflector.run())
        await asyncio.wait_for(followed.reflector.synced.wait(), PATIENCE)
        yield followed
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class Etcd:
    """What is stored, read from etcd itself and not through the API server."""

    def __init__(self, plane: ControlPlane) -> None:
        self._port = plane.ports.etcd

    def maps(self, namespace: str) -> set[tuple[str, str]]:
        """Returns the names and versions of the ConfigMaps of a namespace."""
        first = f"/registry/configmaps/{namespace}/".encode()
        found = self._call("range", {"key": first, "range_end": first[:-1] + b"0", "keys_only": True})
        return {
            (base64.b64decode(each["key"]).decode().rsplit("/", 1)[-1], each["mod_revision"])
            for each in found.get("kvs", ())
        }

    def compact(self) -> None:
        """Forgets all revisions but the present one."""
        self._call("compaction", {"revision": self._call("range", {"key": b"/"})["header"]["revision"]})

    def _call(self, what: str, body: dict[str, Any]) -> Raw:
        encoded = {
            name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in body.items()
        }
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request("POST", f"/v3/kv/{what}", json.dumps(encoded))
            answer = connection.getresponse()
            found: Raw = json.loads(answer.read())
            assert answer.status == 200, found
            return found
        finally:
            connection.close()


@pytest.fixture
def etcd(plane: ControlPlane) -> Etcd:
    return Etcd(plane)


async def same(etcd: Etcd, store: Store[Raw], namespace: str) -> None:
    """Wait until the store holds what etcd holds, versions included."""
    expected = await asyncio.to_thread(etcd.maps, namespace)
    await eventually(
        lambda: {(raw["metadata"]["name"], raw["metadata"]["resourceVersion"]) for raw in store} == expected,
    )


async def test_the_first_state_streams_in_without_a_list_and_changes_follow(
    client: Client, etcd: Etcd, followed: Followed, namespace: str
) -> None:
    assert all(request.query.get("watch") == "true" for request in followed.proxy.seen)
    await client.create(MAPS, {"metadata": {"name": "a"}, "data": {"k": "1"}}, namespace)
    await same(etcd, followed.store, namespace)
    written = await client.patch(MAPS, "a", namespace, {"data": {"k": "2"}})
    assert followed.store.put_from_write(written)["data"] == {"k": "2"}
    await client.delete(MAPS, "a", namespace)
    await eventually(lambda: Key(namespace, "a") not in followed.store)
    followed.store.put_from_write(written)
    assert Key(namespace, "a") not in followed.store


async def test_t15_faults_on_the_way_neither_lose_nor_invent_anything(
    client: Client, etcd: Etcd, followed: Followed, namespace: str
) -> None:
    """T15: also an answer without a body, one that says when to come again, and the largest object that is allowed."""
    empty = Answer(200, b"", "application/json")
    faults: tuple[Fault, ...] = (
        html(),
        html(200),
        empty,
        throttled(2),
        Reset(),
        Reset(200, reaches=True),
        BlackHole(100),
    )
    await client.create(MAPS, {"metadata": {"name": "large"}, "data": {"k": "x" * 1_000_000}}, namespace)
    followed.pace = 0.02
    for number, fault in enumerate(faults):
        followed.reflector._silence_seconds = 1 if isinstance(fault, BlackHole) else 90
        followed.proxy.inject(fault, watch=True)
        await followed.proxy.cut()
        await client.create(MAPS, {"metadata": {"name": f"m{number}"}}, namespace)
        if number:
            await client.delete(MAPS, f"m{number - 1}", namespace)
        await same(etcd, followed.store, namespace)
    assert followed.lists() == 1


async def test_t14_a_compaction_while_the_watch_is_cut_costs_one_list(
    plane: ControlPlane, client: Client, etcd: Etcd, followed: Followed, namespace: str
) -> None:
    """T14 (F13, F14): the watch is cut, objects come and go, etcd is compacted, and the API server starts anew.

    In that time it gets at most 2 requests a second; a list in pages cannot be continued either.
    """
    for name in "abc":
        await client.create(MAPS, {"metadata": {"name": name}}, namespace)
    await same(etcd, followed.store, namespace)
    first = await client._call("list", MAPS, MAPS.path(namespace), params={"limit": "1"})
    gone = list[str]()
    followed.store.on_change(lambda old, new: gone.append(old["metadata"]["name"]) if new is None and old else None)
    began, asked = time.monotonic(), len(followed.proxy.seen)
    followed.proxy.draw = lambda request: Reset()
    await followed.proxy.cut()
    await client.delete(MAPS, "a", namespace)
    await client.patch(MAPS, "b", namespace, {"data": {"k": "1"}})
    await client.create(MAPS, {"metadata": {"name": "d"}}, namespace)
    await asyncio.to_thread(plane.kill_apiserver)
    with pytest.raises(Unreachable):
        await client.get(MAPS, "b", namespace)
    await asyncio.to_thread(etcd.compact)
    followed.proxy.heal()
    await asyncio.to_thread(plane.start_apiserver)
    await same(etcd, followed.store, namespace)
    assert (gone, followed.reflector.relists) == (["a"], {"start": 1, "gone": 1})
    assert len(followed.proxy.seen) - asked <= 20 + 2 * (time.monotonic() - began)
    with pytest.raises(Gone):
        await client._call(
            "list", MAPS, MAPS.path(namespace), params={"limit": "1", "continue": first["metadata"]["continue"]}
        )


async def test_a_frozen_api_server_ends_the_leadership_and_no_write_leaves_after_the_fence(
    plane: ControlPlane, connection: Connection, client: Client, namespace: str
) -> None:
    """Only the test moves the time on which leadership depends: a busy machine can only make it take longer."""
    quick, now = Durations(lease=8.0, renew=2.5, retry=0.3), [1000.0]
    election = partial(Elector, connection, namespace=namespace, name="lead", durations=quick, clock=lambda: now[0])
    async with election() as first:
        await asyncio.wait_for(first.elected.wait(), PATIENCE)
        async with election() as second:
            await asyncio.to_thread(plane.pause)
            try:
                assert first.may_write()
                now[0] += quick.renew
                assert not first.may_write()
                await asyncio.wait_for(first.lost.wait(), PATIENCE)
            finally:
                await asyncio.to_thread(plane.resume)
            assert not second.elected.is_set() and not second.may_write()
            async with asyncio.timeout(PATIENCE):
                while not second.elected.is_set():  # the lease lasts from when it sees it
                    now[0] += quick.lease / 16
                    await asyncio.sleep(quick.retry / 4)
            assert second.may_write() and not first.may_write()
        lease = await client.get(LEASES, "lead", namespace)
        assert lease["spec"]["holderIdentity"] == "" and lease["spec"]["leaseTransitions"] == 1


async def test_events_show_in_kubectl_describe(plane: ControlPlane, client: Client, namespace: str) -> None:
    created = await client.create(JOBS, job("a"), namespace)
    recorder, about = EventSender(client, instance="pod-0"), ObjectReference.of(created)
    sending = asyncio.create_task(recorder.run())
    for free in (4, 3, 2):
        recorder.record(about, "Warning", "Waits", f"asked for 5 cpu, {free} free in default", component="seiretsu")
        async with asyncio.timeout(PATIENCE):
            while len(recorder):  # noqa: ASYNC110 - a real server, nobody tells
                await asyncio.sleep(0.01)
    recorder.record(about, "Normal", "Created", "Created Workload: kube/a", component="seiretsu")
    recorder.close()
    await sending
    assert (recorder.sent, recorder.dropped) == (4, {})
    shown = plane.kubectl("describe", "job", "a", "-n", namespace, check=True).stdout
    assert "asked for 5 cpu, 2 free in default" in shown and "(x3 over" in shown and "seiretsu" in shown


async def test_a_watch_from_now_on_gives_only_what_is_new(client: Client, namespace: str) -> None:
    version = (await client.list(MAPS, namespace))["metadata"]["resourceVersion"]
    await client.create(MAPS, {"metadata": {"name": "new"}}, namespace)
    params = {"resourceVersion": version, "fieldSelector": "metadata.name=new"}
    async with aclosing(client.watch(MAPS, namespace, params=params)) as lines:
        assert b'"name":"new"' in await anext(lines)
