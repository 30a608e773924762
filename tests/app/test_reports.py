"""Reports of the history at the visibility API: who gets which, and what the answer is when there is none."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from api.objects import Raw, Resource
from app.access import Reviews
from app.reports import Reports
from app.visibility import FrontProxy, Visibility
from controller.history.history import HistoryReader
from controller.kube.flow.throttle import Throttle
from controller.settings import HistorySettings, RecorderSettings
from core.recording.entries import MAGIC
from core.state.lookup import Lookup
from tests.app.test_visibility import ADMINISTRATOR, AUTHENTICATION, BASE, Reviewer, Served, raw, state, undescribed
from tests.controller.history import HOUR, recorded

PERIOD = f"since=0&until={5 * HOUR}"
ANN = {"X-Remote-User": "ann"}


class ReportReviewer(Reviewer):
    """`ann` may read the reports of namespace `one`."""

    async def create(self, resource: Resource, body: Raw, namespace: str = "", *, dry_run: bool = False) -> Raw:
        wanted = body["spec"].get("resourceAttributes") or {}
        mine = (wanted.get("resource"), wanted.get("namespace"), wanted.get("subresource")) == ("reports", "one", "")
        return {"status": {"allowed": body["spec"].get("user") == "ann" and mine}}


def served(directory: Path | None) -> Served:
    found = Served()
    reader = HistoryReader(HistorySettings(str(directory))) if directory is not None else None
    found.app = visible(found, Reports(reader))
    return found


def visible(found: Served, reports: Reports) -> Visibility:
    reviews = Reviews(ReportReviewer(), throttle=Throttle(0))
    app = Visibility(found.reviewer, Lookup(state()), raw, reviews=reviews, reports=reports)
    app.proxy = FrontProxy.read(AUTHENTICATION)
    return app


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("reports"))


async def test_the_report_of_a_namespace_has_nothing_of_others(directory: Path) -> None:
    answer = await served(directory).get(f"{BASE}/namespaces/one/reports/user?{PERIOD}", ANN)
    assert answer.status_code == 200, answer.text
    assert [each["name"] for each in answer.json()["groups"]] == ["alice"]
    assert not any(word in answer.text for word in ("bob", "high", "two"))
    listed = await served(directory).get(f"{BASE}/namespaces/one/reports/workloads?{PERIOD}", ANN)
    assert [each["name"] for each in listed.json()["workloads"]] == ["low"]


@pytest.mark.parametrize("path", ["reports/user", "namespaces/two/reports/user", "reports/workloads"])
async def test_other_reports_need_a_right_of_their_own(directory: Path, path: str) -> None:
    assert (await served(directory).get(f"{BASE}/{path}?{PERIOD}", ANN)).status_code == 403
    assert (await served(directory).get(f"{BASE}/{path}?{PERIOD}", ADMINISTRATOR)).status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("reports/colour", 404, "not find"),
        ("reports/user?since=yesterday", 400, "is not a number"),
        ("reports/user?since=9&until=8", 400, "before until"),
        ("reports/user?since=nan", 400, "out of range"),
    ],
)
async def test_a_wrong_question_gets_a_sentence(directory: Path, path: str, status: int, told: str) -> None:
    answer = await served(directory).get(f"{BASE}/{path}", ADMINISTRATOR)
    assert (answer.status_code, told in answer.json()["message"]) == (status, True), answer.text


async def test_the_recording_is_for_those_who_may_read_it_of_the_whole_cluster(tmp_path: Path) -> None:
    found = served(None)
    path = f"{BASE}/recordings/last"
    assert (await found.get(path, ANN)).status_code == 403
    assert "recorder.enabled" in (await found.get(path, ADMINISTRATOR)).json()["message"]
    found.app = visible(found, Reports(None, RecorderSettings(str(tmp_path))))
    assert (await found.get(path, ADMINISTRATOR)).status_code == 503, "another replica leads"
    (tmp_path / "1.recording").write_bytes(MAGIC + b"chunks")
    answer = await found.get(path, ADMINISTRATOR)
    assert base64.b64decode(answer.json()["data"]) == MAGIC + b"chunks"


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_openapi_describes_every_field_of_reports_and_recordings(directory: Path, version: str) -> None:
    found = served(directory)
    found.app = visible(
        found, Reports(HistoryReader(HistorySettings(str(directory))), RecorderSettings(str(directory)))
    )
    (directory / "1.recording").write_bytes(MAGIC)
    base = BASE.replace("v1beta2", version)
    document = (await found.get(f"/openapi/v3{base}", ADMINISTRATOR)).json()
    known: set[str] = set()
    for path, general in (
        ("reports/queue", "reports/{name}"),
        ("namespaces/one/reports/user", "namespaces/{namespace}/reports/{name}"),
        ("reports/workloads", "reports/{name}"),
        ("recordings/last", "recordings/{name}"),
    ):
        answer = (await found.get(f"{base}/{path}?{PERIOD}", ADMINISTRATOR)).json()
        asked = document["paths"][f"{base}/{general}"]["get"]
        schema = asked["responses"]["200"]["content"]["application/json"]["schema"]
        assert undescribed(answer, schema, document["components"]["schemas"]) == []
        assert asked["x-kubernetes-group-version-kind"]["kind"] == answer["kind"]
        known |= {name for name, value in answer.items() if value}
    described = document["components"]["schemas"][f"io.k8s.kueue.visibility.{version}.Report"]["properties"]
    assert known >= described.keys(), "every field was in an answer"


async def test_without_a_history_the_answer_says_what_to_set(tmp_path: Path) -> None:
    answer = await served(None).get(f"{BASE}/reports/user", ADMINISTRATOR)
    assert answer.status_code == 404
    assert "history.enabled" in answer.json()["message"]
    empty = await served(tmp_path).get(f"{BASE}/reports/user", ADMINISTRATOR)
    assert empty.status_code == 503, "nothing was written yet"
