"""Verdicts of webhooks are counted, and refusals are logged with their reasons."""

import logging

import orjson
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from api.objects import Raw
from app.verdicts import ALL_LINES_A_MINUTE, LINES_A_MINUTE, Verdicts, verdict_of
from tests.core.feedback.world import world
from tests.webhook.cluster import job, review
from webhook.hooks import HOOKS
from webhook.review import Response, allow, deny, parse
from webhook.routes import answer
from webhook.settings import Context, WebhookSettings

BY_PATH = {hook.path: hook for hook in HOOKS}


def asked(registry: CollectorRegistry, path: str, new: Raw) -> list[Raw]:
    """The log of one review."""
    verdicts = Verdicts(registry)
    with capture_logs() as told:
        answer(
            BY_PATH[path],
            orjson.dumps(review(new)),
            Context(WebhookSettings(), world()),
            verdicts,
        )
    return [dict(each) for each in told]


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        (allow(), "allowed"),
        (allow(warnings=["a"]), "warned"),
        (deny("no"), "refused"),
        (Response(allowed=False, code=500), "failed"),
    ],
)
def test_the_word_for_a_verdict(response: Response, verdict: str) -> None:
    assert verdict_of(response) == verdict


def test_a_refusal_is_one_readable_line() -> None:
    registry = CollectorRegistry()
    path = "/validate-batch-v1-job"
    wrong = job(labels={"kueue.x-k8s.io/queue-name": "Not A Name"})
    (told,) = asked(registry, path, wrong)
    assert told["event"] == "admission refused"
    assert told["log_level"] == "info"
    assert (told["kind"], told["namespace"], told["name"], told["user"]) == ("Job", "team-a", "train", "alice")
    assert "kueue.x-k8s.io/queue-name" in told["message"]
    labels = {"hook": path, "operation": "CREATE", "verdict": "refused"}
    assert registry.get_sample_value("seiretsu_admission_verdicts_total", labels) == 1


def test_refusals_in_one_namespace_cannot_fill_the_log() -> None:
    """Each is counted; so many a minute are logged, and then how many were not."""
    registry, now = CollectorRegistry(), [0.0]
    verdicts = Verdicts(registry, clock=lambda: now[0])
    hook = BY_PATH["/validate-batch-v1-job"]

    def refuse(namespace: str, times: int) -> list[Raw]:
        request = parse(orjson.dumps(review(job(), namespace=namespace)))
        with capture_logs() as told:
            for _ in range(times):
                verdicts(hook, request, deny("no"))
        return [dict(each) for each in told]

    assert len(refuse("loud", 1000)) == LINES_A_MINUTE
    assert len(refuse("calm", 1)) == 1
    assert sum(len(refuse(f"n{number}", 100)) for number in range(100)) == ALL_LINES_A_MINUTE - LINES_A_MINUTE - 1
    now[0] = 60.0
    left_out, line = refuse("loud", 1)
    assert left_out["left_out"] == 11_001 - ALL_LINES_A_MINUTE
    assert (line["event"], line["namespace"]) == ("admission refused", "loud")
    labels = {"hook": hook.path, "operation": "CREATE", "verdict": "refused"}
    assert registry.get_sample_value("seiretsu_admission_verdicts_total", labels) == 11_002


def test_others_are_logged_only_at_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = CollectorRegistry()
    assert asked(registry, "/mutate-batch-v1-job", job(labels={"kueue.x-k8s.io/queue-name": "main"})) == []
    monkeypatch.setattr(logging.getLogger("seiretsu.admission"), "isEnabledFor", lambda level: True)
    (told,) = asked(CollectorRegistry(), "/mutate-batch-v1-job", job(labels={"kueue.x-k8s.io/queue-name": "main"}))
    assert (told["event"], told["log_level"]) == ("admission changed", "debug")


def test_findings_are_counted_by_rule_and_action() -> None:
    registry = CollectorRegistry()
    asked(registry, "/validate-batch-v1-job", job(labels={"kueue.x-k8s.io/queue-name": "mian"}, suspend=True))
    found = {
        (sample.labels["rule"], sample.labels["action"]): sample.value
        for metric in registry.collect()
        if metric.name == "seiretsu_feedback_findings"
        for sample in metric.samples
        if sample.name.endswith("_total")
    }
    assert found, "a queue that does not exist is worth a warning"
    assert {action for _, action in found} == {"Warn"}
