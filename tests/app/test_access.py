"""Who may read the metrics: the API server's reviews decide, once for each token in a while."""

import asyncio

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route as Page

from api.objects import Raw, Resource
from app.access import REMEMBERED, Access, Reviews, User
from app.application import Application
from app.limits import RefusedCallError
from app.metrics import ProcessMetrics
from controller.kube.client import Client
from controller.kube.errors import Unreachable
from controller.kube.flow.throttle import Throttle


class Reviewer(Client):
    """An API server that knows users by token, and the one user that may read."""

    def __init__(self, allowed: str = "reader") -> None:
        self.users = {"t1": "reader", "t2": "visitor"}
        self.allowed = allowed
        self.down = False
        self.reviews: list[Raw] = []

    async def create(self, resource: Resource, body: Raw, namespace: str = "", *, dry_run: bool = False) -> Raw:
        if self.down:
            raise Unreachable(0, "Unreachable", "connection refused")
        self.reviews.append(body)
        await asyncio.sleep(0)
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            user = self.users.get(spec["token"])
            found = {"username": user, "uid": "1", "groups": ["all"], "extra": {"a": ["b"]}}
            return {"status": {"authenticated": True, "user": found} if user else {"error": "unknown"}}
        return {"status": {"allowed": spec["user"] == self.allowed}}


class Moment:
    now = 100.0


def access(reviewer: Reviewer) -> tuple[Access, Moment]:
    moment = Moment()
    return Access(Reviews(reviewer, throttle=Throttle(0), clock=lambda: moment.now), "/metrics"), moment


async def status(asked: Access, header: bytes) -> int:
    try:
        await asked.check(header)
    except RefusedCallError as refusal:
        return refusal.status
    return 200


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"", 401),
        (b"Bearer ", 401),
        (b"Basic dDE=", 401),
        (b"Bearer unknown", 401),
        (b"Bearer \xff\xfe", 401),
        (b"Bearer t2", 403),
        (b"Bearer t1", 200),
        (b"bearer  t1 ", 200),
    ],
)
async def test_a_client_with(header: bytes, expected: int) -> None:
    asked, _ = access(Reviewer())
    assert await status(asked, header) == expected


async def test_the_rights_of_the_whole_user_are_asked_for() -> None:
    reviewer = Reviewer()
    asked, _ = access(reviewer)
    await asked.check(b"Bearer t1")
    assert [review["spec"] for review in reviewer.reviews] == [
        {"token": "t1"},
        {
            "user": "reader",
            "uid": "1",
            "groups": ["all"],
            "extra": {"a": ["b"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    ]


async def test_an_allowed_token_is_reviewed_again_after_a_minute_and_a_refused_one_after_five_seconds() -> None:
    reviewer = Reviewer()
    asked, moment = access(reviewer)
    assert [await status(asked, b"Bearer t1"), await status(asked, b"Bearer t2")] == [200, 403]
    reviewer.allowed = "visitor"
    moment.now += 4
    assert [await status(asked, b"Bearer t1"), await status(asked, b"Bearer t2")] == [200, 403]
    moment.now += 2
    assert [await status(asked, b"Bearer t1"), await status(asked, b"Bearer t2")] == [200, 200]
    moment.now += 55
    assert [await status(asked, b"Bearer t1"), await status(asked, b"Bearer t2")] == [403, 200]


async def test_many_requests_with_one_token_cost_one_review_and_many_tokens_no_memory() -> None:
    reviewer = Reviewer()
    asked, _ = access(reviewer)
    await asyncio.gather(*(asked.check(b"Bearer t1") for _ in range(50)))
    assert len(reviewer.reviews) == 2
    for number in range(REMEMBERED + 100):
        await status(asked, b"Bearer x%d" % number)
    assert len(asked._reviews._known) == REMEMBERED


async def test_a_user_with_many_requests_delays_others_by_one_review() -> None:
    order: list[str] = []

    class Slow(Reviewer):
        async def create(self, resource: Resource, body: Raw, namespace: str = "", *, dry_run: bool = False) -> Raw:
            order.append(body["spec"]["user"])
            return await super().create(resource, body, namespace, dry_run=dry_run)

    reviews = Reviews(Slow(), throttle=Throttle(1000, 1))
    many = [reviews.may(User("busy"), {"namespace": f"n{number}"}) for number in range(40)]
    await asyncio.gather(*many, reviews.may(User("other"), {"namespace": "mine"}))
    assert len(order) == 41
    assert order.index("other") <= 2
    assert not reviews._turns, "what nobody waits for is forgotten"


async def test_without_the_api_server_a_known_token_is_still_allowed() -> None:
    reviewer = Reviewer()
    asked, moment = access(reviewer)
    await asked.check(b"Bearer t1")
    reviewer.down = True
    assert [await status(asked, b"Bearer t1"), await status(asked, b"Bearer t2")] == [200, 503]
    moment.now += 61
    assert await status(asked, b"Bearer t1") == 503


def client_of_pages() -> httpx.AsyncClient:
    """A client of an application with two pages, of which /metrics needs a token."""

    async def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse("page")

    asked, _ = access(Reviewer())
    pages = [Page("/metrics", page), Page("/readyz", page)]
    app = Application({}, pages, ProcessMetrics(), guarded={"/metrics": asked})
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://seiretsu")


async def test_only_the_guarded_page_needs_a_token() -> None:
    async with client_of_pages() as client:
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", headers={"Authorization": "Bearer t1"})).text == "page"


@pytest.mark.parametrize("path", ["/metrics%0A", "/metrics/", "//metrics", "/readyz%0A"])
async def test_a_path_that_is_not_exactly_that_of_a_page_has_none(path: str) -> None:
    async with client_of_pages() as client:
        assert (await client.get(f"https://seiretsu{path}")).status_code == 404
