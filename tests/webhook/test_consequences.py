"""The answer to an administrator's edit says whom it hits; other calls go on while that is computed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import orjson
import pytest

from api.objects import Key
from core.forecast.situation import Situation
from core.model import Raw
from core.model.effects import Effects
from tests.core.feedback.test_queues import ours, team_a, with_cpu
from tests.core.feedback.world import running, waiting, world
from tests.webhook.cluster import review_of
from webhook import consequences, routes
from webhook.policy import FeedbackPolicy, PolicyEntry
from webhook.review import allow, parse
from webhook.settings import Context, WebhookSettings

PATH = "/feedback-kueue-x-k8s-io-v1beta2-clusterqueue"
BUSY = running("one", "team-a", "team-a", "4") + running("two", "team-a", "team-a", "4") + waiting("w", "team-a", "9")
LESS = "1 waiting never starts (w)"


def context(more: str = BUSY, settings: WebhookSettings | None = None) -> Context:
    return Context(settings or WebhookSettings(), world(more))


def body(new: Raw | None, old: Raw | None, resource: str = "clusterqueues", **request: Any) -> bytes:
    found = {"apiVersion": "kueue.x-k8s.io/v1beta2", **(new or old or {})}
    made = review_of(found, old=old, resource=resource, **request)
    made["request"]["object"] = new and {"apiVersion": found["apiVersion"], **new}
    made["request"]["oldObject"] = old and {"apiVersion": found["apiVersion"], **old}
    return orjson.dumps(made)


async def answered(given: Context, sent: bytes, path: str = PATH) -> Raw:
    status, answer = await routes.routes(given)[path](sent)
    assert status == 200
    found: Raw = orjson.loads(answer)["response"]
    return found


async def test_a_lower_quota_names_the_workload_that_then_never_starts() -> None:
    response = await answered(context(), body(with_cpu(nominalQuota="4"), team_a()))
    assert response["allowed"] is True
    assert LESS in response["warnings"]


async def test_an_edit_that_changes_no_decision_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consequences, "situations", None)  # a call would fail
    labelled = team_a()
    labelled["metadata"]["labels"] = {"team": "a"}
    assert "warnings" not in await answered(context(), body(labelled, team_a()))


async def test_the_operator_may_refuse_edits_that_hit_somebody() -> None:
    settings = WebhookSettings(feedback=FeedbackPolicy((PolicyEntry("workloads-affected", "Deny"),)))
    response = await answered(context(settings=settings), body(with_cpu(nominalQuota="4"), team_a()))
    assert response["allowed"] is False
    assert "(rule workloads-affected)" in response["status"]["message"]


async def test_with_too_many_workloads_their_numbers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consequences, "MOST", 2)
    response = await answered(context(), body(with_cpu(nominalQuota="4"), team_a()))
    assert any(warning.startswith("2 running, 1 waiting workloads are concerned") for warning in response["warnings"])


async def test_with_too_many_queues_the_numbers_of_workloads_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consequences, "MOST_QUEUES", 1)
    monkeypatch.setattr(consequences, "situations", None)  # a call would fail
    response = await answered(context(), body(with_cpu(nominalQuota="4"), team_a()))
    assert any(warning.startswith("2 running, 1 waiting workloads are concerned") for warning in response["warnings"])


async def test_a_malformed_edit_is_refused_as_before_and_an_invalid_one_asks_nothing() -> None:
    nameless = team_a()
    nameless["metadata"] = {"annotations": 1}
    assert (await answered(context(), body(nameless, team_a())))["allowed"] is False
    response = await answered(context(), body(team_a(resourceGroups=7), team_a()))
    assert response["allowed"] is True


async def test_while_one_question_is_computed_another_gets_numbers_and_the_loop_goes_on() -> None:
    go_on = threading.Event()

    def compute(before: Situation, after: Situation) -> Effects:
        go_on.wait(60)
        return Effects(starting=tuple(each.key for each in before.waiting))

    found = consequences.Consequences(context(), compute)
    request = parse(body(with_cpu(nominalQuota="4"), team_a()))
    first = asyncio.ensure_future(found.beside(allow(), request))
    await asyncio.sleep(0)
    second = await found.beside(allow(), request)
    assert second.warnings[0].startswith("2 running, 1 waiting workloads are concerned")
    assert not first.done()
    go_on.set()
    assert (await first).warnings == ("1 waiting starts (w)",)


async def test_a_computation_that_takes_too_long_gets_numbers_and_one_that_fails_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consequences, "SECONDS", 0.01)
    go_on = threading.Event()

    def endless(before: Situation, after: Situation) -> Effects:
        go_on.wait(60)
        raise ValueError("too late")

    request = parse(body(with_cpu(nominalQuota="4"), team_a()))
    slow = consequences.Consequences(context(), endless)
    assert (await slow.beside(allow(), request)).warnings[0].startswith("2 running, 1 waiting")
    late = slow._asked
    assert late is not None
    go_on.set()
    await asyncio.wait([late])
    monkeypatch.setattr(consequences, "SECONDS", 60)
    assert await slow.beside(allow(), request) == allow()


async def test_a_class_that_gets_another_value_is_asked_about() -> None:
    path = "/feedback-kueue-x-k8s-io-v1beta2-workloadpriorityclass"
    old, new = ({"kind": "WorkloadPriorityClass", "metadata": {"name": "gold"}, "value": value} for value in (1, 2))
    assert (await answered(context(), body(new, old, "workloadpriorityclasses"), path))["allowed"] is True


async def test_a_local_queue_that_drains_is_asked_about() -> None:
    path = "/feedback-kueue-x-k8s-io-v1beta2-localqueue"
    old = ours("LocalQueue", "main", "team-a", clusterQueue="team-a")
    new = ours("LocalQueue", "main", "team-a", clusterQueue="team-a", stopPolicy="HoldAndDrain")
    response = await answered(context(), body(new, old, "localqueues"), path)
    assert any("2 workloads stop (one, two)" in warning for warning in response["warnings"]), response["warnings"]


async def test_who_edits_a_local_queue_is_told_no_names_of_other_namespaces() -> None:
    starting = (Key("team-a", "mine"), Key("team-z", "secret"))
    asked = consequences.Consequences(context(), compute=lambda before, after: Effects(starting=starting))
    old = ours("LocalQueue", "main", "team-a", clusterQueue="team-a")
    new = ours("LocalQueue", "main", "team-a", clusterQueue="team-a", stopPolicy="HoldAndDrain")
    response = await asked.beside(allow(), parse(body(new, old, "localqueues")))
    assert response.warnings == ("2 waiting start (mine and 1 more)",)
