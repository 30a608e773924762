"""The loop of a controller of admission checks, against a player of the API server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from seiretsu.client import ApiError, CheckController, Question, Verdict
from seiretsu.client.check import _CHECKS, _WORKLOADS, _News
from tests.client.test_verdict import check, workload

Raw = dict[str, Any]
BUDGET = {
    "metadata": {"name": "budget", "uid": "b", "resourceVersion": "1"},
    "spec": {"controllerName": "example.com/budget"},
}


class Api:
    """Remembers each patch, and answers with the object of a newer version."""

    def __init__(self) -> None:
        self.patched: list[tuple[str, Raw]] = []
        self.refuses: list[int] = []

    def patch(self, path: str, body: Raw) -> SimpleNamespace:
        if self.refuses:
            raise ApiError(self.refuses.pop(), "", "refused")
        self.patched.append((path, body))
        raw = workload(*body["status"].get("admissionChecks", ()))
        raw["metadata"]["resourceVersion"] = "100"
        return SimpleNamespace(body=raw)

    @property
    def verdicts(self) -> list[str]:
        """The states of the check that were written."""
        bodies = [body for path, body in self.patched if "/workloads/" in path]
        return [body["status"]["admissionChecks"][0]["state"] for body in bodies]


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def checks(api: Api) -> CheckController:
    return CheckController(api, "example.com/budget")  # type: ignore[arg-type]


def say(verdict: Verdict) -> Callable[[Question], Verdict]:
    return lambda question: verdict


def report(checks: CheckController, *news: _News, decide: Callable[[Question], Verdict]) -> None:
    for each in news:
        checks._news.put(each)
        checks.step(decide)


ASKS = workload(check("budget", "Pending"))
BOTH = (_News(_CHECKS, [BUDGET]), _News(_WORKLOADS, [ASKS]))


@pytest.mark.parametrize("order", [BOTH, BOTH[::-1]], ids=["the check is known first", "the workload is known first"])
def test_a_workload_is_asked_once_and_the_check_becomes_active(
    api: Api, checks: CheckController, order: tuple[_News, ...]
) -> None:
    report(checks, *order, decide=say(Verdict.ready()))
    assert api.verdicts == ["Ready"]
    assert [path for path, _ in api.patched if path == f"{_CHECKS}/budget/status"] == [f"{_CHECKS}/budget/status"]
    report(checks, _News(_WORKLOADS, None, ASKS), decide=say(Verdict.rejected()))
    assert api.verdicts == ["Ready"], "an event from before the verdict does not ask again"


def test_a_check_that_cannot_be_used_asks_nothing(api: Api, checks: CheckController) -> None:
    checks.usable = lambda raw: "no parameters"
    report(checks, *BOTH, decide=say(Verdict.ready()))
    assert api.verdicts == []
    (condition,) = api.patched[0][1]["status"]["conditions"]
    assert (condition["status"], condition["message"]) == ("False", "no parameters")


def test_a_workload_that_shall_wait_is_asked_again_after_its_time(api: Api, checks: CheckController) -> None:
    report(checks, *BOTH, decide=say(Verdict.pending("wait", again_after=0.0)))
    checks.step(say(Verdict.ready()))
    assert api.verdicts == ["Pending", "Ready"]


def test_a_workload_that_is_due_is_asked_also_while_changes_never_end(api: Api, checks: CheckController) -> None:
    report(checks, *BOTH, decide=say(Verdict.pending("wait", again_after=0.0)))
    other = {**ASKS, "metadata": {**ASKS["metadata"], "name": "other"}}
    asked: list[str] = []

    def decide(question: Question) -> Verdict:
        asked.append(question.workload["metadata"]["name"])
        return Verdict.ready()

    report(checks, _News(_WORKLOADS, None, other), decide=decide)
    assert asked == ["other", ASKS["metadata"]["name"]]


def test_a_write_that_was_refused_and_a_function_that_failed_are_repeated(api: Api, checks: CheckController) -> None:
    api.refuses = [409]
    report(checks, BOTH[1], BOTH[0], decide=say(Verdict.ready()))
    assert api.verdicts == ["Ready"], "the refused write was that of the check"
    api.refuses = [503]
    again = workload(check("budget", "Pending"))
    again["metadata"]["resourceVersion"] = "200"
    report(checks, _News(_WORKLOADS, None, again), decide=say(Verdict.ready()))
    assert api.verdicts == ["Ready"]

    def fails(question: Question) -> Verdict:
        raise RuntimeError("no budget")

    _due_now(checks)
    checks.step(fails)
    _due_now(checks)
    checks.step(say(Verdict.retry()))
    assert api.verdicts == ["Ready", "Retry"]


def _due_now(checks: CheckController) -> None:
    assert list(checks._due) == [("ns", "w")], "it is to be asked again"
    checks._due[("ns", "w")] = time.monotonic()


def test_an_answer_that_is_not_json_is_asked_for_again(
    api: Api, checks: CheckController, monkeypatch: pytest.MonkeyPatch
) -> None:
    class End(BaseException):
        pass

    lists: list[Any] = [json.JSONDecodeError("no JSON", "<html>", 0), {}, [], {"items": [], "metadata": None}]

    def get(path: str) -> Raw:
        if not lists:
            raise End
        found = lists.pop(0)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    monkeypatch.setattr("seiretsu.client.check._PAUSE_SECONDS", 0)
    monkeypatch.setattr(api, "get", get, raising=False)
    with pytest.raises(End):
        checks._follow(_WORKLOADS)

    def patch(path: str, body: Raw) -> SimpleNamespace:
        raise json.JSONDecodeError("no JSON", "<html>", 0)

    monkeypatch.setattr(api, "patch", patch)
    assert checks._written(_WORKLOADS, {}) is None


def test_a_workload_that_is_gone_is_forgotten(api: Api, checks: CheckController) -> None:
    report(checks, *BOTH, decide=say(Verdict.pending(again_after=600)))
    report(checks, _News(_WORKLOADS, None, ASKS, deleted=True), decide=say(Verdict.ready()))
    assert (checks.workloads, checks._due) == ({}, {})
    report(checks, BOTH[1], _News(_WORKLOADS, []), decide=say(Verdict.pending()))
    assert checks.workloads == {}
