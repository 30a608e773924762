"""The page as its users and their browsers meet it: who sees what, what is sent, what a browser is told about it."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import textwrap
from collections.abc import Collection, Generator, Mapping
from itertools import islice
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from api import resources
from api.objects import Raw
from app.connection import CLIENT
from app.page import topics
from app.page.application import PageApplication
from app.page.assets import FOLDER
from app.page.stream import GZIP_HEAD
from app.visibility import FrontProxy
from controller.forecasts.process import WorkerLostError
from controller.history.database import FILE, Sqlite
from controller.history.history import HistoryReader
from controller.settings import HistorySettings
from core.forecast.edits import ObjectEdit
from core.forecast.situation import Situation
from core.model.effects import Effects
from core.page import overview
from core.state.state import State
from tests.eventually import PATIENCE
from tests.paged_example import USERS, example
from tests.paging import EVERYTHING, PagedCluster, reader

PATHS = (
    "/api/me",
    "/api/queues/vision",
    "/api/queues/vision/line",
    "/api/queues/vision/running",
    "/api/namespaces/vision/queues/main",
    "/api/namespaces/vision/queues/main/line",
    "/api/namespaces/vision/queues/main/running",
    "/api/namespaces/vision/workloads/job-train-0",
    "/api/namespaces/speech/workloads/job-train-1",
    "/api/find?q=train",
    "/api/find?q=train&namespace=vision",
    "/api/preemptions",
    "/api/preemptions?namespace=vision",
    "/api/preemptions?namespace=speech",
    "/api/queues/vision/what-if?edit=nominal/h100/cpu=16",
    "/api/topology/h100",
    "/api/clusters",
    "/api/usage",
    "/api/usage?by=user&namespace=vision",
    "/api/namespaces/speech/queues/main",
    "/api/namespaces/speech/queues/main/line",
    "/api/stream?topic=queues",
    "/api/stream?topic=cohorts",
    "/api/stream?topic=namespace:vision",
    "/api/stream?topic=namespace:speech",
    "/api/stream?topic=workload:vision/job-train-0",
)
SEEN: Mapping[str, tuple[str, ...]] = {
    "admin": PATHS,
    "tenant": ("/api/me", *(path for path in PATHS if re.search("namespaces/vision|:vision|namespace=vision", path))),
    "viewer": ("/api/me", "/api/namespaces/speech/queues/main", "/api/stream?topic=namespace:speech"),
    "nobody": ("/api/me",),
    "": (),
}
"""What each user is answered; '' has no token that the API server knows."""


class Browser:
    """Requests to the page without a connection; ``client`` is the name in the client certificate."""

    def __init__(
        self,
        cluster: PagedCluster,
        proxy: FrontProxy | None = None,
        client: str | None = None,
        history: HistoryReader | None = None,
    ) -> None:
        self.page = cluster.page(proxy, history=history)
        self.client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            await send(message)
            if len(message.get("body", b"")) > len(GZIP_HEAD) and message.get("more_body"):
                self.page.hub.close()  # a stream: its first rows have been sent

        await self.page.listener.app({**scope, "state": {CLIENT: self.client}}, receive, sent)

    async def get(self, path: str, user: str = "admin", **headers: str) -> httpx.Response:
        given = {"authorization": f"Bearer {user}", **{key.replace("_", "-"): value for key, value in headers.items()}}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self), base_url="https://here") as client:
            return await client.get(path, headers=given)


def events(text: str) -> list[Raw]:
    found: list[Raw] = [json.loads(data) for data in re.findall(r"^data: (.*)$", text, re.MULTILINE)]
    return found


@pytest.fixture(scope="module")
def cluster() -> PagedCluster:
    return example()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> HistoryReader:
    """Of the objects that are named here it has nothing: ``test_page_history`` says what is shown of it."""
    directory = tmp_path_factory.mktemp("history")
    Sqlite(directory / FILE).close()
    return HistoryReader(HistorySettings(str(directory)))


@pytest.mark.parametrize("user", [*USERS, ""])
@pytest.mark.parametrize("path", PATHS)
async def test_each_user_is_answered_what_his_rights_show(
    cluster: PagedCluster, history: HistoryReader, path: str, user: str
) -> None:
    found = await Browser(cluster, history=history).get(path, user or "unknown")
    refused = 403 if user else 401
    assert found.status_code == (200 if path in SEEN[user] else refused), found.text


def test_every_document_and_every_topic_is_among_them() -> None:
    asked = [path.partition("?")[0].removeprefix("/api/").split("/") for path in PATHS]
    (choice,) = [
        node
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(PageApplication._found))))
        if isinstance(node, ast.Match)
    ]
    for case in choice.cases:
        assert isinstance(case.pattern, ast.MatchSequence)
        words = [_literal(each) for each in case.pattern.patterns]
        assert any(
            len(path) == len(words) and all(word in (None, part) for word, part in zip(words, path, strict=True))
            for path in asked
        ), words
    kinds = {path.partition("topic=")[2].partition(":")[0] for path in PATHS if "topic=" in path}
    assert kinds == topics._KINDS.keys()


def _literal(pattern: ast.pattern) -> object:
    """The word of a path; None for a name, which is any."""
    return (
        pattern.value.value if isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant) else None
    )


NAMES = {
    "cluster-wide": ("genomics", "weather", "nightly", "organisation", "research"),
    "speech": ("train-large", 'job-train-1"'),
    "vision": ("train-detector", "sweep-a"),
}
ALLOWED = {"admin": {*NAMES}, "tenant": {"vision"}, "viewer": set[str](), "nobody": set[str]()}


@pytest.mark.parametrize("user", list(USERS))
async def test_no_answer_has_a_name_that_kubectl_would_not_show(cluster: PagedCluster, user: str) -> None:
    for path in PATHS:
        text = (await Browser(cluster).get(path, user)).text
        if user in text and path == "/api/me":
            text = text.replace(f'"user":"{user}"', "")
        for group, names in NAMES.items():
            if group not in ALLOWED[user]:
                assert not [name for name in names if name in text], (user, path)


async def test_workloads_of_other_namespaces_are_counted_in_their_places(cluster: PagedCluster) -> None:
    rights = (*reader("", "clusterqueues"), *reader("ops", "workloads"))
    cluster.api.users["ann"] = rights
    found = (await Browser(cluster).get("/api/queues/vision/line?limit=3", "ann")).json()
    assert found["total"] == 15
    assert found["rows"] == [{"position": number, "priority": 100, "hidden": True} for number in range(3)]
    mine = (await Browser(cluster).get("/api/queues/nightly/line", "ann")).json()
    assert [row["name"] for row in mine["rows"]] == [f"job-nightly-{number}" for number in (2, 1, 0)]
    running = (await Browser(cluster).get("/api/queues/vision/running", "ann")).json()
    assert running["rows"] == [{"priority": 0, "hidden": True}] * 3


async def test_a_row_of_the_line_says_why_it_waits_and_what_it_asks(cluster: PagedCluster) -> None:
    found = (await Browser(cluster).get("/api/queues/vision/line?offset=1&limit=1")).json()
    (row,) = found["rows"]
    assert (row["position"], row["job"], row["priority"], row["pods"]) == (1, "eval-20", 100, 8)
    assert {each["resource"]: each["text"] for each in row["asks"]}["nvidia.com/gpu"] == "32"
    assert row["message"].startswith("behind vision/job-sweep-8, which is first in ClusterQueue vision")
    assert {each["name"]: each["missing"] for each in row["lacking"][0]["resources"]}["nvidia.com/gpu"] == "32"


async def test_a_running_workload_has_an_expected_end(cluster: PagedCluster) -> None:
    found = (await Browser(cluster).get("/api/queues/genomics/running")).json()
    assert found["rows"][0]["ends"] == {"p10": 1140.0, "p50": 3300.0, "p90": 5460.0, "restsOn": "similar jobs"}


@pytest.mark.parametrize("path", ["/", "/ui/main.js", "/api/me", "/api/nothing", "/elsewhere", "/ui/../app/page.py"])
async def test_every_answer_forbids_code_of_others(cluster: PagedCluster, path: str) -> None:
    found = await Browser(cluster).get(path)
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert found.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_written(cluster: PagedCluster, method: str) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(Browser(cluster)), base_url="https://here") as client:
        found = await client.request(method, "/api/queues/vision", headers={"authorization": "Bearer admin"})
    assert found.status_code == 405


async def test_pages_of_other_sites_get_no_answer(cluster: PagedCluster) -> None:
    found = await Browser(cluster).get("/api/me", sec_fetch_site="cross-site")
    assert (found.status_code, found.json()["message"]) == (403, "only the page itself may ask this server")


async def test_a_file_is_sent_once(cluster: PagedCluster) -> None:
    first = await Browser(cluster).get("/ui/main.js", "nobody")
    assert (first.status_code, first.headers["content-encoding"]) == (200, "gzip")
    again = await Browser(cluster).get("/ui/main.js", "nobody", if_none_match=first.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")


def test_no_file_refers_to_another_server_or_has_code_in_html() -> None:
    allowed = {"http://www.w3.org/2000/svg"}
    for path in FOLDER.rglob("*"):
        if path.suffix in (".js", ".css", ".html") and "vendor" not in path.parts:
            text = path.read_text()
            assert set(re.findall(r"https?://[^\s'\"`)]+", text)) <= allowed, path
            assert "innerHTML" not in text, path
            assert "eval(" not in text, path
    index = (FOLDER / "index.html").read_text()
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", index)


PROXY = FrontProxy(
    ca=b"a CA", names=("sso",), user=("x-remote-user",), group=("x-remote-group",), extra=("x-remote-extra-",)
)


@pytest.mark.parametrize(
    ("client", "status"),
    [("sso", 200), ("other", 401), (None, 401)],
    ids=["the proxy", "another one", "no certificate"],
)
async def test_headers_name_a_user_only_if_the_proxy_proves_itself(
    cluster: PagedCluster, client: str | None, status: int
) -> None:
    browser = Browser(cluster, PROXY, client)
    found = await browser.get("/api/me", "unknown", x_remote_user="admin")
    assert found.status_code == status
    if status == 200:
        assert found.json()["user"] == "admin"


async def test_rights_are_asked_for_once_in_some_seconds(cluster: PagedCluster) -> None:
    browser = Browser(cluster)
    await browser.get("/api/queues/vision")
    before = len(cluster.api.reviews)
    await browser.get("/api/queues/vision")
    assert len(cluster.api.reviews) == before


async def test_before_the_caches_are_read_the_page_says_so() -> None:
    cluster = PagedCluster(users={"admin": EVERYTHING})
    found = await Browser(cluster).get("/api/me")
    assert found.status_code == 503


@pytest.mark.parametrize("text", ["", "queues:x", "namespace", "namespace:", "workload:a", "nodes", "queues:"])
async def test_what_is_no_topic_is_refused(cluster: PagedCluster, text: str) -> None:
    if text != "queues:":  # as it is written without a name
        with pytest.raises(ValueError, match="no topic"):
            topics.read(text)
        assert (await Browser(cluster).get(f"/api/stream?topic={text}")).status_code == 400


async def test_a_stream_begins_with_all_rows_of_its_topics(cluster: PagedCluster) -> None:
    found = events((await Browser(cluster).get("/api/stream?topic=queues&topic=namespace:ops")).text)
    rows = {event["topic"]: [row["name"] for row in event["all"]] for event in found}
    assert sorted(rows["queues"]) == ["genomics", "nightly", "sandbox", "speech", "vision", "weather"]
    assert sorted(rows["namespace:ops"]) == ["nightly", "sandbox"]


async def test_a_change_is_sent_to_all_viewers_as_the_same_bytes() -> None:
    cluster = example()
    page = cluster.page()
    running = asyncio.ensure_future(page.hub.run())
    names = [topics.read("queues")]
    try:
        viewers = [page.hub.follow(names) for _ in range(3)]
        for viewer in viewers:
            (first,) = await anext(viewer)
            assert first.number == 0
        cluster.workload("vision", "job-new", "main", {"cpu": "1"}, age=0)
        frames = [(await anext(viewer))[0] for viewer in viewers]
        assert frames[0] is frames[1] is frames[2]
        (event,) = events(frames[0].text.decode())
        assert [(row["name"], row["pending"], row["v"]) for row in event["put"]] == [("vision", 16, 1)]
        queue = cluster.caches.cluster_queues.get(("", "sandbox"))
        assert queue is not None
        cluster.delete(resources.CLUSTER_QUEUES, queue)
        (event,) = events((await anext(viewers[0]))[0].text.decode())
        assert event["gone"] == ["sandbox"]
        for viewer in viewers:
            await viewer.aclose()
        assert page.hub.viewers == 0
    finally:
        running.cancel()


async def test_what_others_of_the_cohort_lend_follows_their_usage() -> None:
    cluster = example()
    page = cluster.page()
    running = asyncio.ensure_future(page.hub.run())
    try:
        viewer = page.hub.follow([topics.read("queues")])
        await anext(viewer)
        gone = cluster.caches.workloads.get(("genomics", "job-align-0"))
        assert gone is not None
        cluster.delete(resources.WORKLOADS, gone)
        told: dict[str, Any] = {}
        while "nightly" not in told:
            for frame in await anext(viewer):
                told |= {row["name"]: row for event in events(frame.text.decode()) for row in event["put"]}
        assert "genomics" in told
        await viewer.aclose()
    finally:
        running.cancel()


async def test_a_workload_that_waits_concerns_the_row_of_its_own_queue_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others of the cohort lend depends on what is used, and not on who waits."""
    cluster = example()
    page = cluster.page()
    viewer = page.hub.follow([topics.read("queues")])
    await anext(viewer)
    await page.hub._pass()
    computed: list[str] = []
    row = overview.queue_row

    def counted(state: State, name: str, empty: Collection[str] = ()) -> Raw | None:
        computed.append(name)
        return row(state, name, empty)

    monkeypatch.setattr(overview, "queue_row", counted)
    cluster.workload("vision", "job-new", "main", {"cpu": "1"}, age=0)
    await page.hub._pass()
    assert computed == ["vision"]
    status = cluster.admitted("vision", "h100", {"cpu": "1"})
    cluster.workload("vision", "job-new", "main", {"cpu": "1"}, age=0, status=status)
    await page.hub._pass()
    assert {"speech", "vision"} <= {*computed[1:]}
    await viewer.aclose()


async def test_a_job_has_its_story_what_would_help_its_yaml_and_its_events(cluster: PagedCluster) -> None:
    about = {"kind": "Job", "name": "train-0", "namespace": "vision"}
    event = {"metadata": {}, "type": "Normal", "reason": "CreatedWorkload", "message": "Created Workload: x"}
    cluster.api.events = [{**event, "involvedObject": about, "lastTimestamp": "2027-01-15T08:00:00Z"}]
    found = (await Browser(cluster).get("/api/namespaces/vision/workloads/job-train-0")).json()
    assert (found["job"], found["kind"], found["pods"]) == ("train-0", "Job", 4)
    assert found["standing"]["state"] == "waiting"
    assert "it fits when speech/job-train-large-00004 ends" in found["standing"]["wouldHelp"]
    assert [each["title"] for each in found["timeline"]] == ["Created"]
    assert found["yaml"].startswith("apiVersion: kueue.x-k8s.io/v1beta2\nkind: Workload\n")
    assert [(each["reason"], each["on"]) for each in found["events"]] == [("CreatedWorkload", "Job")]


async def test_a_preempted_job_says_by_whom_and_by_which_rule_to_who_may_read_it(cluster: PagedCluster) -> None:
    cluster.api.users["forecaster"] = reader("weather", "workloads")
    path = "/api/namespaces/weather/workloads/job-forecast"
    for user, by in (("admin", "genomics/job-align-0"), ("forecaster", "a workload of another namespace")):
        found = (await Browser(cluster).get(path, user)).json()
        (told,) = [each for each in found["timeline"] if each["title"] == "Preempted"]
        assert told["text"].startswith(f"by {by}: ClusterQueue genomics took back quota of its own")
        rows = (await Browser(cluster).get("/api/preemptions?namespace=weather", user)).json()["rows"]
        assert [row["by"] for row in rows] == [
            {"namespace": "genomics", "name": "job-align-0", "job": "job-align-0"}
            if user == "admin"
            else {"hidden": True}
        ]


async def test_another_quota_is_played_and_not_written(cluster: PagedCluster) -> None:
    browser = Browser(cluster)
    found = (await browser.get("/api/queues/vision/what-if?edit=nominal/h100/nvidia.com/gpu=16")).json()
    assert [each["job"] for each in found["effects"]["exposed"]["rows"]] == ["train-segmenter"]
    assert '"name":"nvidia.com/gpu","nominalQuota":"16"' in found["patch"]
    assert found["starts"] is False, "run times are not known here"
    assert not (await browser.get("/api/queues/vision/what-if?edit=nominal/h100/cpu=64")).json()["changed"]
    for wrong in ("edit=x", "edit=nominal/h100/cpu=many", "edit=nominal/a100/cpu=1", "edit=nominal/h100/cpu=-1", ""):
        assert (await browser.get(f"/api/queues/vision/what-if?{wrong}")).status_code == 400, wrong


async def test_another_quota_that_cannot_be_played_in_time_says_so() -> None:
    async def lost(about: Situation, edit: ObjectEdit) -> tuple[Effects, bool]:
        raise WorkerLostError("there was no answer within 10 s")

    cluster = example()
    cluster.compare = lost
    found = await Browser(cluster).get("/api/queues/vision/what-if?edit=nominal/h100/cpu=16")
    assert (found.status_code, "within 10 s" in found.text) == (503, True)


async def test_nobody_queues_other_quotas_without_bound() -> None:
    ends, played = asyncio.Event(), 0

    async def slow(about: Situation, edit: ObjectEdit) -> tuple[Effects, bool]:
        nonlocal played
        played += 1
        await ends.wait()
        return Effects(), True

    cluster = example()
    cluster.compare = slow
    cluster.api.users |= {f"user-{number}": EVERYTHING for number in range(9)}
    browser = Browser(cluster)
    asked = [
        asyncio.create_task(browser.get("/api/queues/vision/what-if?edit=nominal/h100/cpu=16", user))
        for user in (f"user-{number}" for number in range(9))
    ]
    refused = [await each for each in islice(asyncio.as_completed(asked, timeout=PATIENCE), 4)]
    assert played == 1
    assert {each.status_code for each in refused} == {429}
    assert "plan -f FILE --from-cluster" in refused[0].json()["message"]
    ends.set()
    assert [each.status_code for each in await asyncio.gather(*asked)].count(200) == 5


async def test_a_domain_has_what_is_used_and_whose_pods_are_there(cluster: PagedCluster) -> None:
    cluster.api.users["plumber"] = (*reader("", "nodes"), *reader("vision", "workloads"))
    found = (await Browser(cluster).get("/api/topology/h100")).json()
    assert found["levels"] == ["block", "rack", "hostname"]
    rack = found["domains"][0]["domains"][0]
    assert (rack["name"], rack["amounts"]["nvidia.com/gpu"]) == ("rack-00", {"has": 16, "used": 16})
    assert [each["job"] for each in rack["domains"][0]["workloads"]] == ["train-detector"]
    hidden = (await Browser(cluster).get("/api/topology/h100", "plumber")).json()
    host = hidden["domains"][0]["domains"][0]["domains"][0]
    assert (host["workloads"], host["others"]) == ([], 1)


async def test_names_are_found_in_what_the_user_may_read(cluster: PagedCluster) -> None:
    found = (await Browser(cluster).get("/api/find?q=train-&namespace=vision", "tenant")).json()["rows"]
    assert {row["namespace"] for row in found} == {"vision"}
    assert "train-detector" in {row["job"] for row in found}
    assert (await Browser(cluster).get("/api/find?q=x", "admin")).status_code == 400


async def test_without_a_history_use_over_time_says_what_to_do(cluster: PagedCluster) -> None:
    found = await Browser(cluster).get("/api/usage")
    assert (found.status_code, found.json()["message"]) == (
        404,
        "there is no history: an administrator must set history.enabled",
    )


async def test_whom_a_story_names_is_looked_for_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = 0

    async def counted(steps: Generator[None, None, Any]) -> Any:
        nonlocal pauses
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            pauses += 1

    monkeypatch.setattr("app.page.jobs.SCANNED", 1)
    monkeypatch.setattr("app.page.jobs.in_pieces", counted)
    found = (await Browser(example()).get("/api/namespaces/weather/workloads/job-forecast")).json()
    assert any("genomics/job-align-0" in each["text"] for each in found["timeline"])
    assert pauses >= 3, "it is not looked for in one turn"
