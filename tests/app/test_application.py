"""An admission call goes a straight way: from the server's call to the hook's rules without a framework between."""

import sys

import httpx
import orjson
import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route as Page

from app.application import Application
from app.metrics import ProcessMetrics
from webhook.routes import ReceivedBody, StatusAndBody

JSON = {"content-type": "application/json"}


def client(app: Application) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://webhook")


async def page(request: object) -> PlainTextResponse:
    return PlainTextResponse("page")


async def test_nothing_lies_between_the_application_and_a_hook() -> None:
    callers: list[str] = []
    bodies: list[ReceivedBody] = []

    async def route(body: ReceivedBody) -> StatusAndBody:
        assert body == b'{"a": 1}'
        bodies.append(body)
        frame = sys._getframe(1)
        while "app/" in frame.f_code.co_filename:
            callers.append(frame.f_code.co_qualname)
            assert frame.f_back is not None
            frame = frame.f_back
        return 200, b"{}"

    app = Application({"/hook": route}, [], ProcessMetrics())
    async with client(app) as caller:
        answer = await caller.post("/hook?timeout=5s", content=b'{"a": 1}', headers=JSON)
    assert (answer.status_code, answer.headers["content-type"], answer.content) == (200, "application/json", b"{}")
    assert callers == ["Application._call", "Application.__call__"]
    assert bodies == [b""], "read once, and freed after the answer"


async def test_a_sentence_is_sent_as_text_and_paths_are_exact() -> None:
    async def route(body: ReceivedBody) -> StatusAndBody:
        return 400, b"no review"

    metrics = ProcessMetrics()
    async with client(Application({"/hook": route}, [Page("/page", page)], metrics)) as caller:
        answer = await caller.post("/hook", content=b"{", headers=JSON)
        counted = metrics.registry.get_sample_value("seiretsu_webhook_bad_requests_total", {"code": "400"})
        assert counted == 1, "T3: an operator sees that a client sends nonsense"
        assert (answer.status_code, answer.headers["content-type"]) == (400, "text/plain; charset=utf-8")
        assert (await caller.get("/page")).text == "page"
        assert (await caller.get("/hook")).status_code == 405
        assert (await caller.post("/hook/", content=b"{}", headers=JSON)).status_code == 405
        assert (await caller.get("/hook/")).status_code == 404


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [(b"{}", JSON, 200), (b"{}", {"content-type": "text/plain"}, 415), (b"null", JSON, 500)],
    ids=["answered", "refused", "failed"],
)
async def test_every_call_is_counted_with_its_status(content: bytes, headers: dict[str, str], status: int) -> None:
    async def route(body: ReceivedBody) -> StatusAndBody:
        return 200, orjson.dumps({**orjson.loads(body)})

    metrics, heard = ProcessMetrics(), list[str]()
    app = Application({"/hook": route}, [], metrics, called=heard.append)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="https://webhook") as caller:
        assert (await caller.post("/hook", content=content, headers=headers)).status_code == status
    text = (await metrics.page()).decode()
    assert f'seiretsu_webhook_requests_total{{code="{status}",path="/hook"}} 1.0' in text
    assert "seiretsu_webhook_requests_in_flight 0.0" in text
    assert heard == ["/hook"]
    assert app.bodies.held == 0
