"""The visibility API as its clients see it: who may ask, what is answered, in which order and pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from api.objects import Key, Raw, Resource
from app.access import Reviews
from app.connection import CLIENT
from app.visibility import FrontProxy, Visibility
from controller.kube.client import Client
from controller.kube.flow.throttle import Throttle
from core.model import LocalQueue
from core.state.lookup import Lookup
from core.state.state import State
from tests.builders import cluster_queue, workload
from tests.eventually import eventually

AUTHENTICATION = {
    "requestheader-client-ca-file": "the CA",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
BASE = "/apis/visibility.kueue.x-k8s.io/v1beta2"
ADMINISTRATOR = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}


class Reviewer(Client):
    """An API server in which `ann` may read the LocalQueue `main` of `ns`, by any way that identifies her."""

    def __init__(self) -> None:
        self.reviews: list[Raw] = []
        self.authentication: dict[str, str] = AUTHENTICATION
        self.tokens_reviewed = asyncio.Event()
        self.tokens_reviewed.set()

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Raw:
        return {"data": self.authentication}

    async def create(self, resource: Resource, body: Raw, namespace: str = "", *, dry_run: bool = False) -> Raw:
        self.reviews.append(body)
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            await self.tokens_reviewed.wait()
            return {"status": {"authenticated": spec["token"] == "of-ann", "user": {"username": "ann"}}}
        wanted = spec.get("resourceAttributes") or {}
        discovery = spec.get("nonResourceAttributes") == {"path": "/apis", "verb": "get"}
        mine = (wanted.get("namespace"), wanted.get("name"), wanted.get("subresource")) == (
            "ns",
            "main",
            "pendingworkloads",
        )
        return {"status": {"allowed": discovery or (spec["user"] == "ann" and mine)}}


def raw(key: Key) -> Raw:
    queue = "other" if key.name == "w2" else "main"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-of-{key.name}", "uid": "u", "controller": True}
    metadata = {"name": key.name, "namespace": key.namespace, "ownerReferences": [owner], "labels": {"a": "b"}}
    return {"metadata": metadata, "spec": {"queueName": queue}}


def state() -> State:
    """Four workloads wait for a ClusterQueue: w3 is the most important one, w2 is in another LocalQueue."""
    made = State()
    made.set_cluster_queue("cq", cluster_queue("cq"))
    made.set_cluster_queue("empty", cluster_queue("empty"))
    for name in ("main", "other"):
        made.set_local_queue(Key("ns", name), LocalQueue(Key("ns", name), "cq"))
    made.set_local_queue(Key("ns", "lost"), LocalQueue(Key("ns", "lost"), "absent"))
    for number in range(4):
        key = Key("ns", f"w{number}")
        queue = "other" if number == 2 else "main"
        made.set_workload(
            key, workload(key.name, 1, queue=queue, priority=9 if number == 3 else 0, created=float(number))
        )
    return made


class Served:
    """The application, and requests for it by the client whose certificate has the name ``client``."""

    def __init__(
        self, client: str | None = "front-proxy-client", *, synced: bool = True, of: State | None = None
    ) -> None:
        self.reviewer = Reviewer()
        lookup = Lookup(of or state(), ready=lambda: synced)
        self.app = Visibility(self.reviewer, lookup, raw, reviews=Reviews(self.reviewer, throttle=Throttle(0)))
        self.app.proxy = FrontProxy.read(AUTHENTICATION)
        self.client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app({**scope, "state": {CLIENT: self.client}}, receive, send)

    async def get(self, path: str, headers: Mapping[str, str] = ADMINISTRATOR, method: str = "GET") -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self), base_url="https://here") as client:
            return await client.request(method, path, headers=dict(headers))


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["metadata"]["name"] for each in answer.json()["items"]]


async def test_the_answer_is_a_summary_with_positions_and_owners() -> None:
    found = (await Served().get(f"{BASE}/clusterqueues/cq/pendingworkloads")).json()
    assert (found["kind"], found["apiVersion"]) == ("PendingWorkloadsSummary", "visibility.kueue.x-k8s.io/v1beta2")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job-of-w3", "uid": "u"}
    assert found["items"][0] == {
        "metadata": {"name": "w3", "namespace": "ns", "ownerReferences": [owner]},
        "priority": 9,
        "localQueueName": "main",
        "positionInClusterQueue": 0,
        "positionInLocalQueue": 0,
    }
    positions = [(each["positionInClusterQueue"], each["positionInLocalQueue"]) for each in found["items"]]
    assert positions == [(0, 0), (1, 1), (2, 2), (3, 0)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("clusterqueues/cq/pendingworkloads", ["w3", "w0", "w1", "w2"]),
        ("clusterqueues/cq/pendingworkloads?limit=2", ["w3", "w0"]),
        ("clusterqueues/cq/pendingworkloads?offset=1&limit=2", ["w0", "w1"]),
        ("clusterqueues/cq/pendingworkloads?offset=3", ["w2"]),
        ("clusterqueues/cq/pendingworkloads?offset=9", []),
        ("clusterqueues/cq/pendingworkloads?limit=0", []),
        ("clusterqueues/cq/pendingworkloads?limit=-1", []),
        ("clusterqueues/cq/pendingworkloads?offset=-5&limit=1", ["w3"]),
        ("clusterqueues/cq/pendingworkloads?limit=99999999999999999999999999", ["w3", "w0", "w1", "w2"]),
        ("clusterqueues/empty/pendingworkloads", []),
        ("namespaces/ns/localqueues/main/pendingworkloads", ["w3", "w0", "w1"]),
        ("namespaces/ns/localqueues/main/pendingworkloads?offset=1&limit=1", ["w0"]),
        ("namespaces/ns/localqueues/other/pendingworkloads", ["w2"]),
        ("namespaces/ns/localqueues/lost/pendingworkloads", []),
    ],
)
async def test_workloads_come_in_the_order_of_the_queue_page_by_page(path: str, expected: list[str]) -> None:
    assert names(await Served().get(f"{BASE}/{path}")) == expected


async def test_no_answer_has_more_than_5000_workloads_and_offset_reads_the_next_ones() -> None:
    waiting = State()
    waiting.set_cluster_queue("cq", cluster_queue("cq"))
    waiting.set_local_queue(Key("ns", "main"), LocalQueue(Key("ns", "main"), "cq"))
    for number in range(5003):
        waiting.set_workload(Key("ns", f"w{number}"), workload(f"w{number}", 1, queue="main", created=float(number)))
    served = Served(of=waiting)
    path = f"{BASE}/clusterqueues/cq/pendingworkloads?limit=100000"
    assert len(names(await served.get(path))) == 5000
    assert names(await served.get(f"{path}&offset=5000")) == ["w5000", "w5001", "w5002"]


@pytest.mark.parametrize(
    ("path", "code", "reason"),
    [
        ("clusterqueues/none/pendingworkloads", 404, "NotFound"),
        ("namespaces/ns/localqueues/none/pendingworkloads", 404, "NotFound"),
        ("namespaces/ns/clusterqueues/cq/pendingworkloads", 404, "NotFound"),
        ("clusterqueues", 404, "NotFound"),
        ("clusterqueues/cq/pendingworkloads?limit=many", 400, "BadRequest"),
    ],
)
async def test_other_requests_get_a_status_with_the_reason(path: str, code: int, reason: str) -> None:
    answer = await Served().get(f"{BASE}/{path}")
    found = answer.json()
    assert (answer.status_code, found["kind"], found["code"], found["reason"]) == (code, "Status", code, reason)


async def test_nothing_can_be_written_and_nothing_is_answered_before_the_queues_are_known() -> None:
    path = f"{BASE}/clusterqueues/cq/pendingworkloads"
    assert (await Served().get(path, method="DELETE")).status_code == 405
    assert (await Served(synced=False).get(path)).status_code == 503


def as_ann(**more: str) -> dict[str, str]:
    return {"X-Remote-User": "ann", **more}


@pytest.mark.parametrize(
    ("client", "headers", "expected"),
    [
        ("front-proxy-client", as_ann(), 200),
        ("front-proxy-client", {}, 401),
        (None, as_ann(), 401),
        (None, ADMINISTRATOR, 401),
        ("another", ADMINISTRATOR, 401),
        ("front-proxy-client", {"X-Remote-User": "bob"}, 403),
        (None, {"Authorization": "Bearer of-ann"}, 200),
        (None, {"Authorization": "Bearer forged"}, 401),
    ],
    ids=[
        *("the API server for a user", "the API server for nobody", "a client that says who it is"),
        *("a client that says it is the administrator", "another certificate", "a user without the right"),
        *("a token", "a wrong token"),
    ],
)
async def test_only_the_api_server_may_name_its_user(
    client: str | None, headers: dict[str, str], expected: int
) -> None:
    served = Served(client)
    answer = await served.get(f"{BASE}/namespaces/ns/localqueues/main/pendingworkloads", headers)
    assert answer.status_code == expected


async def test_nobody_is_believed_before_the_ca_is_known() -> None:
    served = Served()
    served.app.proxy = FrontProxy()
    assert (await served.get("/apis", ADMINISTRATOR)).status_code == 401


async def test_the_api_server_is_asked_about_the_user_with_groups_and_extra() -> None:
    served = Served()
    headers = as_ann(**{"X-Remote-Group": "team", "X-Remote-Extra-Example.com%2fScope": "x"})
    await served.get(f"{BASE}/namespaces/ns/localqueues/main/pendingworkloads", headers)
    (review,) = served.reviewer.reviews
    assert review["spec"] == {
        "user": "ann",
        "uid": "",
        "groups": ["team", "system:authenticated"],
        "extra": {"example.com/scope": ["x"]},
        "resourceAttributes": {
            "verb": "get",
            "group": "visibility.kueue.x-k8s.io",
            "version": "v1beta2",
            "resource": "localqueues",
            "subresource": "pendingworkloads",
            "namespace": "ns",
            "name": "main",
        },
    }
    other = await served.get(f"{BASE}/namespaces/ns/localqueues/other/pendingworkloads", headers)
    assert other.status_code == 403, "a right for one queue is none for another"


async def test_nobody_becomes_authenticated_by_being_anonymous() -> None:
    proxy = FrontProxy.read(AUTHENTICATION)
    for name, groups in (("system:anonymous", ()), ("ann", ("system:unauthenticated",))):
        headers = [(b"X-Remote-User", name.encode()), *((b"X-Remote-Group", each.encode()) for each in groups)]
        user = proxy.user_of("front-proxy-client", headers)
        assert user is not None
        assert user.groups == groups


async def test_reviews_of_unknown_tokens_do_not_delay_the_users_of_the_api_server() -> None:
    served = Served()
    served.reviewer.tokens_reviewed.clear()
    served.client = None
    stranger = asyncio.create_task(served.get("/apis", {"Authorization": "Bearer forged"}))
    await eventually(lambda: bool(served.reviewer.reviews))
    served.client = "front-proxy-client"
    answer = await served.get(f"{BASE}/namespaces/ns/localqueues/main/pendingworkloads", as_ann())
    assert answer.status_code == 200
    served.reviewer.tokens_reviewed.set()
    assert (await stranger).status_code == 401


@pytest.mark.parametrize("broken", [{"requestheader-username-headers": "[1]"}, {}], ids=["a header", "no space"])
async def test_the_process_goes_on_if_the_identity_of_the_api_server_cannot_be_used(broken: dict[str, str]) -> None:
    def full(authority: bytes) -> None:
        raise OSError(28, "No space left on device")

    served = Served()
    known = served.app.proxy = FrontProxy.read({**AUTHENTICATION, "requestheader-client-ca-file": "the CA before"})
    served.reviewer.authentication = {**AUTHENTICATION, **broken}
    with capture_logs() as logged:
        following = asyncio.create_task(served.app.run(full))
        await eventually(lambda: bool(logged) or following.done())
        assert not following.done()
        following.cancel()
    assert [line["event"] for line in logged] == ["How the API server identifies itself could not be read"]
    assert served.app.proxy == known


async def test_discovery_has_both_versions_and_what_can_be_asked() -> None:
    served = Served()
    groups = (await served.get("/apis")).json()["groups"]
    assert [each["version"] for each in groups[0]["versions"]] == ["v1beta2", "v1beta1"]
    found: Any = (await served.get(BASE)).json()
    assert found["groupVersion"] == "visibility.kueue.x-k8s.io/v1beta2"
    verbs = {each["name"]: (each["namespaced"], each["verbs"]) for each in found["resources"]}
    assert verbs == {
        "clusterqueues": (False, []),
        "clusterqueues/pendingworkloads": (False, ["get"]),
        "localqueues": (True, []),
        "localqueues/pendingworkloads": (True, ["get"]),
        "localqueues/standing": (True, ["get"]),
        "workloads/standing": (True, ["get"]),
        "reports": (True, ["get"]),
    }
    assert json.loads((await served.get("/openapi/v2")).text)["code"] == 404


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_openapi_describes_every_field_of_an_answer(version: str) -> None:
    served = Served()
    place = f"apis/visibility.kueue.x-k8s.io/{version}"
    address = (await served.get("/openapi/v3")).json()["paths"][place]["serverRelativeURL"]
    document = (await served.get(address)).json()
    (path,) = [each for each in document["paths"] if "clusterqueues" in each]
    asked = document["paths"][path]["get"]
    summary = asked["responses"]["200"]["content"]["application/json"]["schema"]
    answer = (await served.get(path.format(name="cq"))).json()
    assert len(answer["items"]) == 4
    assert undescribed(answer, summary, document["components"]["schemas"]) == []
    changed = {**answer, "items": [{**answer["items"][0], "priority": "9", "colour": "red"}]}
    found = undescribed(changed, summary, document["components"]["schemas"])
    assert found == [".items[].priority: '9' is no integer", ".items[].colour"]
    for each in asked["parameters"]:
        limited = await served.get(f"{path.format(name='cq')}?{each['name']}={each['schema']['default']}")
        assert limited.json() == answer, "a default of the document is the default of the server"


def undescribed(value: Any, schema: Raw, schemas: Raw, path: str = "") -> list[str]:
    """Returns the paths of everything that the schema does not describe."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if value is None and schema.get("nullable"):
        return []
    if isinstance(value, dict):
        known: Raw = schema.get("properties") or {}
        missing = [f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value]
        parts = [
            undescribed(each, known[name], schemas, f"{path}.{name}") if name in known else [f"{path}.{name}"]
            for name, each in value.items()
        ]
        return [*missing, *(found for part in parts for found in part)]
    if isinstance(value, list):
        return [found for each in value for found in undescribed(each, schema["items"], schemas, f"{path}[]")]
    kind = {"string": str, "integer": int, "boolean": bool, "number": int | float}[schema["type"]]
    return [] if isinstance(value, kind) else [f"{path}: {value!r} is no {schema['type']}"]


async def test_openapi_of_other_groups_is_not_served() -> None:
    assert (await Served().get("/openapi/v3/apis/batch/v1")).status_code == 404
