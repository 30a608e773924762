"""Where queues and workloads stand, as users of the visibility API see it: who may ask, and what is named to whom."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from api.objects import Key, Raw
from app.access import ALLOWED_SECONDS, DENIED_SECONDS, Reviews
from app.visibility import FrontProxy, Visibility
from controller.kube.errors import ApiError
from controller.kube.flow.throttle import Throttle
from core.model.policy import Strategy
from core.state.lookup import Lookup
from core.state.state import State
from tests.app.test_visibility import ADMINISTRATOR, AUTHENTICATION, BASE, Reviewer, Served, undescribed
from tests.builders import cluster_queue, cycle, put, workload
from tests.core.explain.test_topology import asks, racks
from tests.core.test_standing import OTHERS, shared

QUEUE, WORKLOAD = f"{BASE}/namespaces/ns/localqueues/lq/standing", f"{BASE}/namespaces/ns/workloads/next/standing"
BOB = {"X-Remote-User": "bob"}
KINDS = {QUEUE: "LocalQueueStanding", WORKLOAD: "WorkloadStanding"}


class Rights(Reviewer):
    """An API server in which `bob` may ask where things of `ns` stand, and list what ``listed`` has: plural and
    namespace, '' for all of them.
    """

    def __init__(self, *listed: tuple[str, str]) -> None:
        super().__init__()
        self.listed = listed
        self.broken = False

    async def create(self, resource: Any, body: Raw, namespace: str = "", *, dry_run: bool = False) -> Raw:
        self.reviews.append(body)
        wanted = body["spec"].get("resourceAttributes") or {}
        if wanted.get("verb") == "list":
            if self.broken:
                raise ApiError(500, "InternalError", "no authorizer answers")
            return {"status": {"allowed": (wanted["resource"], wanted["namespace"]) in self.listed}}
        stands = wanted.get("subresource") == "standing" and wanted["namespace"] == "ns"
        return {"status": {"allowed": stands and body["spec"]["user"] == "bob"}}


def raw(key: Key) -> Raw:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-of-{key.name}", "uid": "u", "controller": True}
    status: Raw = {}
    if key.name == "done":
        done = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "Job finished successfully"}
        status = {"conditions": [done]}
    metadata = {"name": key.name, "namespace": key.namespace, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"queueName": "lq"}, "status": status}


def served(*listed: tuple[str, str], of: State | None = None, forecast: Mapping[Key, Raw] | None = None) -> Served:
    """The application, for users with the right to list these."""
    made = Served(of=of)
    made.reviewer = Rights(*listed)
    lookup = Lookup(of or shared())
    made.app = Visibility(
        made.reviewer,
        lookup,
        lambda key: raw(key) if key in lookup.state.workloads or key.name == "done" else None,
        reviews=Reviews(made.reviewer, throttle=Throttle(0)),
        forecast=(forecast or {}).get,
    )
    made.app.proxy = FrontProxy.read(AUTHENTICATION)
    return made


async def answer(app: Served, path: str = WORKLOAD, headers: Mapping[str, str] = BOB) -> Raw:
    found = await app.get(path, headers)
    assert found.status_code == 200, found.text
    document: Raw = found.json()
    return document


async def test_a_tenant_sees_limits_and_his_waiting_workloads_page_by_page() -> None:
    found = await answer(served(), QUEUE)
    assert (found["kind"], found["apiVersion"]) == ("LocalQueueStanding", "visibility.kueue.x-k8s.io/v1beta2")
    assert found["metadata"] == {"name": "lq", "namespace": "ns"}
    (limits,) = found["flavors"][0]["resources"]
    assert (limits["nominal"], limits["available"], limits["borrowable"]) == ("8", "0", "0")
    assert [each["metadata"]["name"] for each in found["workloads"]] == ["ahead", "next"]
    second = await answer(served(), f"{QUEUE}?offset=1&limit=1")
    assert [each["metadata"]["name"] for each in second["workloads"]] == ["next"]
    assert second["workloads"][0]["positionInClusterQueue"] == 2


@pytest.mark.parametrize("path", [QUEUE, WORKLOAD])
async def test_no_name_of_another_tenant_is_in_any_answer(path: str) -> None:
    text = (await served().get(path, BOB)).text
    for name in ("hidden", OTHERS, "secret"):
        assert name not in text


async def test_who_may_read_a_namespace_sees_its_workloads_by_name() -> None:
    found = await answer(served(("workloads", OTHERS)))
    assert [each["name"] for each in found["ahead"]] == ["hidden-first", "ahead"]
    assert found["ahead"][0]["job"] == "job-of-hidden-first"
    assert (found["aheadNotNamed"], found["heldByOthers"]) == (0, [])
    assert {each["clusterQueue"] for each in found["heldBy"]} == {"cq", "secret"}
    assert found["wouldHelp"][0] == "it fits when elsewhere/hidden-0 and elsewhere/hidden-1 have ended"


async def test_who_may_list_cluster_queues_sees_where_the_others_are() -> None:
    found = await answer(served(("clusterqueues", "")))
    assert [(each["workloads"], each["clusterQueue"]) for each in found["heldByOthers"]] == [(2, "cq"), (1, "secret")]
    assert "hidden" not in repr(found)


@pytest.mark.parametrize("who", ["a user who may list all workloads", "an administrator"])
async def test_who_may_read_everything_gets_every_name(who: str) -> None:
    everything = (("workloads", ""), ("clusterqueues", ""), ("nodes", ""))
    found = await answer(served(*everything), headers=BOB if who.startswith("a user") else ADMINISTRATOR)
    assert found["heldByOthers"] == []
    assert {each["namespace"] for each in found["heldBy"]} == {"ns", OTHERS}


async def test_each_right_is_asked_for_once_and_a_refusal_is_used_as_long_as_a_permission() -> None:
    app, now = served(), [0.0]
    app.app = Visibility(
        app.reviewer,
        Lookup(shared()),
        raw,
        reviews=Reviews(app.reviewer, throttle=Throttle(0), clock=lambda: now[0]),
    )
    app.app.proxy = FrontProxy.read(AUTHENTICATION)

    async def reviews() -> int:
        before = len(app.reviewer.reviews)
        await answer(app)
        return len(app.reviewer.reviews) - before

    assert await reviews() == 4, "the request; Workloads of all namespaces, of the other one; ClusterQueues"
    now[0] = DENIED_SECONDS + 1
    assert await reviews() == 0
    now[0] = ALLOWED_SECONDS + 1
    assert await reviews() == 4


async def test_an_api_server_that_cannot_review_names_gets_an_answer_without_them() -> None:
    app = served(("workloads", ""))
    assert isinstance(app.reviewer, Rights)
    app.reviewer.broken = True
    found = await answer(app)
    assert found["aheadNotNamed"] == 1
    assert "hidden" not in repr(found)


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        (QUEUE, {"X-Remote-User": "eve"}, 403),
        (WORKLOAD.replace("/ns/", f"/{OTHERS}/"), BOB, 403),
        (QUEUE.replace("/lq/", "/none/"), BOB, 404),
        (WORKLOAD.replace("/next/", "/none/"), BOB, 404),
        (f"{BASE}/workloads/next/standing", ADMINISTRATOR, 404),
        (f"{BASE}/clusterqueues/cq/standing", ADMINISTRATOR, 404),
        (f"{BASE}/namespaces/ns/workloads/next/pendingworkloads", ADMINISTRATOR, 404),
        (f"{BASE}/namespaces//workloads/next/standing", ADMINISTRATOR, 404),
        (f"{QUEUE}?limit=x", BOB, 400),
    ],
)
async def test_other_requests_are_refused(path: str, headers: dict[str, str], code: int) -> None:
    assert (await served().get(path, headers)).status_code == code


async def test_the_right_for_pending_workloads_is_not_that_for_the_standing() -> None:
    app = Served(of=shared())
    ann = {"X-Remote-User": "ann"}
    path = f"{BASE}/namespaces/ns/localqueues/main/"
    assert (await app.get(f"{path}pendingworkloads", ann)).status_code == 404, "she may ask, and there is none"
    assert (await app.get(f"{path}standing", ann)).status_code == 403


async def test_a_workload_that_runs_or_has_ended_says_so() -> None:
    runs = await answer(served(), WORKLOAD.replace("next", "mine"))
    assert (runs["state"], runs["message"]) == ("admitted", "it holds 2 cpu in default")
    ended = await answer(served(), WORKLOAD.replace("next", "done"))
    assert (ended["state"], ended["reason"]) == ("finished", "Succeeded")


@pytest.mark.parametrize("path", [QUEUE, WORKLOAD])
@pytest.mark.parametrize("headers", [BOB, ADMINISTRATOR], ids=["a tenant", "an administrator"])
async def test_openapi_describes_every_field(path: str, headers: dict[str, str]) -> None:
    expected = {Key("ns", "next"): {"p50": 60}}
    app = served(("clusterqueues", ""), forecast=expected)
    found = await answer(app, path, headers)
    if path == QUEUE:
        found["workloads"][1]["forecast"] = {}
    assert "forecast" in repr(found)
    document = (await app.get("/openapi/v3/apis/visibility.kueue.x-k8s.io/v1beta2", ADMINISTRATOR)).json()
    general = path.replace("/ns/", "/{namespace}/").replace("/lq/", "/{name}/").replace("/next/", "/{name}/")
    asked = document["paths"][general]["get"]
    assert asked["x-kubernetes-group-version-kind"]["kind"] == KINDS[path]
    schema = asked["responses"]["200"]["content"]["application/json"]["schema"]
    found.get("forecast", {}).clear()
    assert undescribed(found, schema, document["components"]["schemas"]) == []
    for each in asked["parameters"]:
        limited = await answer(app, f"{path}?{each['name']}={each['schema']['default']}", headers)
        assert len(limited["workloads"]) == len(found["workloads"])


async def test_openapi_describes_rooms_in_a_topology_and_shares() -> None:
    found = racks()
    found.policy = replace(found.policy, fair_sharing=tuple(Strategy))
    found.set_cluster_queue("cq", cluster_queue("cq", 100, cohort="c"))
    for each in (asks("first", 3, 2), asks("next", 3, 2), asks("third", 3, 2)):
        cycle(put(found, each))
    app = served(of=found)
    document = (await app.get("/openapi/v3/apis/visibility.kueue.x-k8s.io/v1beta2", ADMINISTRATOR)).json()
    for path in (QUEUE, WORKLOAD.replace("next", "third")):
        shown = await answer(app, path, ADMINISTRATOR)
        assert "topology" in repr(shown)
        assert "weightedShare" in repr(shown)
        schema = document["components"]["schemas"][f"io.k8s.kueue.visibility.v1beta2.{shown['kind']}"]
        assert undescribed(shown, schema, document["components"]["schemas"]) == []
        if path != QUEUE:
            assert [each["takenBy"][0]["pods"] for each in shown["topology"][0]["domains"]] == [3, 3]


async def test_a_forecast_is_in_the_answers_as_soon_as_there_is_one() -> None:
    assert "forecast" not in await answer(served())
    app = served(forecast={Key("ns", "next"): {"p50": 60}})
    assert (await answer(app))["forecast"] == {"p50": 60}
    assert [each.get("forecast") for each in (await answer(app, QUEUE))["workloads"]] == [None, {"p50": 60}]


async def test_a_workload_that_has_just_arrived_has_its_position() -> None:
    """Though the order of its queue was computed before it came."""
    found = shared()
    app = served(of=found)
    assert (await answer(app))["pendingInClusterQueue"] == 3
    put(found, workload("late", 6000, created=9.0))
    assert (await answer(app, WORKLOAD.replace("next", "late")))["positionInClusterQueue"] == 3


async def test_other_requests_are_answered_while_one_is_computed() -> None:
    """Each step is a cycle at most, and as much time as it took is left to others."""
    found = shared()
    put(found, *(workload(f"w{number}", 1000 + number % 7, created=4.0 + number) for number in range(3000)))
    app = served(of=found)
    asked = asyncio.create_task(answer(app))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await asked)["pendingInClusterQueue"] == 3003
    assert turns > 10
