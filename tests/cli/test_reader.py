"""Reading an API server with the standard library."""

from __future__ import annotations

import itertools

import pytest

from api.objects import Resource
from cli.reader import Reader, _document
from controller.kube.config import Connection, StaticCredentials
from controller.kube.errors import ApiError, Unauthorized, Unintelligible, Unreachable
from tests.cli.api_server import EMPTY, Asked, Reply, refusal, serving

PODS = Resource("", "v1", "pods", "Pod")


class Renewed(StaticCredentials):
    """Another token after a 401."""

    async def authorization(self, *, fresh: bool = False) -> str | None:
        return "Bearer new" if fresh else "Bearer old"


def test_all_pages_of_a_list_are_read_and_objects_have_their_kind() -> None:
    def answer(asked: Asked) -> Reply:
        last = asked.query.get("continue") == ["more"]
        metadata = {"resourceVersion": "1", **({} if last else {"continue": "more"})}
        return Reply({"metadata": metadata, "items": [{"metadata": {"name": "b" if last else "a"}}]})

    with serving(answer) as (url, asked), Reader(Connection(url)) as reader:
        found = reader.list(PODS, "team-a", labels="a=b", fields="metadata.name=x")
    assert found == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} for name in "ab"]
    assert asked[0].path == "/api/v1/namespaces/team-a/pods"
    assert (asked[0].query["labelSelector"], asked[0].query["fieldSelector"]) == (["a=b"], ["metadata.name=x"])


def test_an_object_that_is_nested_too_deep_hides_no_other() -> None:
    deep = b'[{"f:a": ' * 2_500 + b"{}" + b"}]" * 2_500
    text = b'{"items": [{"metadata": {"name": "deep", "managedFields": %s}}, {"metadata": {"name": "b"}}]}' % deep
    found = _document(200, "application/json", text)
    assert [each["metadata"]["name"] for each in found["items"]] == ["deep", "b"]


def test_what_may_not_be_listed_is_none_and_what_is_not_served_is_empty() -> None:
    replies = iter([refusal(403, "Forbidden", "no"), refusal(404, "NotFound", "no")])
    with serving(lambda asked: next(replies)) as (url, _), Reader(Connection(url)) as reader:
        assert (reader.list(PODS), reader.list(PODS)) == (None, [])


def test_refused_credentials_are_renewed_once() -> None:
    def answer(asked: Asked) -> Reply:
        return EMPTY if ("Authorization", "Bearer new") in asked.headers else refusal(401, "Unauthorized", "no")

    with serving(answer) as (url, _):
        with Reader(Connection(url, credentials=Renewed())) as reader:
            assert reader.list(PODS) == []
        with Reader(Connection(url, credentials=StaticCredentials("Bearer x"))) as reader, pytest.raises(Unauthorized):
            reader.list(PODS)


def test_a_throttled_call_is_repeated() -> None:
    throttled = refusal(429, "TooManyRequests", "slow down")._replace(headers=(("Retry-After", "0"),))
    replies = iter([throttled, throttled, EMPTY])
    with serving(lambda asked: next(replies)) as (url, asked), Reader(Connection(url)) as reader:
        assert reader.list(PODS) == []
    assert len(asked) == 3


def test_a_connection_that_the_server_has_closed_meanwhile_is_opened_again() -> None:
    count = itertools.count()

    def answer(asked: Asked) -> Reply:
        return EMPTY._replace(headers=(("Connection", "close"),)) if next(count) == 0 else EMPTY

    with serving(answer) as (url, asked), Reader(Connection(url)) as reader:
        assert [reader.list(PODS) for _ in range(3)] == [[], [], []]
    assert len(asked) == 3


def test_the_path_of_a_server_behind_a_gateway_is_kept() -> None:
    with serving(lambda asked: EMPTY) as (url, asked), Reader(Connection(f"{url}/k8s/clusters/a")) as reader:
        reader.list(PODS)
    assert asked[0].path == "/k8s/clusters/a/api/v1/pods"


def test_an_http_proxy_gets_the_whole_address() -> None:
    with serving(lambda asked: EMPTY) as (url, asked), Reader(Connection("http://a:8080", proxy=url)) as reader:
        reader.list(PODS)
    assert asked[0].path == "/api/v1/pods"
    assert ("Host", "a:8080") in asked[0].headers


def test_an_answer_of_another_program_is_an_error() -> None:
    page = Reply([])  # type: ignore[arg-type]
    with serving(lambda asked: page) as (url, _), Reader(Connection(url)) as reader, pytest.raises(Unintelligible):
        reader.get("/api")


def test_no_answer_is_an_api_error() -> None:
    with Reader(Connection("http://127.0.0.1:1")) as reader, pytest.raises(Unreachable) as told:
        reader.list(PODS)
    assert isinstance(told.value, ApiError)
    assert isinstance(told.value.__cause__, ConnectionRefusedError)
