"""The operator's own rules: checked when the Configuration is read, and judged with what admission knows."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from api.configuration import ConfigurationError, load
from api.names import Label
from core.feedback.catalog import NAMES
from core.model import Raw
from tests.core.feedback.world import world
from tests.webhook.cluster import ask, job, review, review_of
from webhook.expressions import compiled
from webhook.policy import policy
from webhook.settings import Settings

CONFIGURATION = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
TEAM = "has(object.metadata.labels) && 'team' in object.metadata.labels"


def own(expression: str = TEAM, message: str = "add the label team", **fields: Any) -> Raw:
    return {"name": "needs-team", "expression": expression, "message": message, **fields}


def settings(*expressions: Raw, rules: list[Raw] | None = None) -> Settings:
    text = {**CONFIGURATION, "seiretsu": {"feedback": {"expressions": list(expressions), "rules": rules or []}}}
    feedback = load(yaml.safe_dump(text), feedback_rules=NAMES).configuration.seiretsu.feedback
    return Settings(feedback=policy(feedback), expressions=compiled(feedback))


def queued(cpu: str = "1", parallelism: int = 1, **labels: str) -> Raw:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    template = {"spec": {"containers": [container]}}
    every = {Label.QUEUE_NAME: "main", **labels}
    return job(labels=every, suspend=True, template=template, parallelism=parallelism, completions=parallelism)


def said(new: Raw, given: Settings, *, synced: bool = True) -> list[str]:
    response = ask("/validate-batch-v1-job", review(new), knows=world(synced=synced), settings=given)
    assert response["allowed"]
    return list(response.get("warnings", []))


@pytest.mark.parametrize(
    ("expression", "new", "warned"),
    [
        pytest.param(TEAM, queued(), True, id="a label is missing"),
        pytest.param(TEAM, queued(team="a"), False, id="the label is there"),
        pytest.param("job.requests.cpu <= amount('cpu', '4')", queued("2", 2), False, id="four cpu in all"),
        pytest.param("job.requests.cpu <= amount('cpu', '4')", queued("2500m", 2), True, id="five cpu in all"),
        pytest.param("job.pods < 3 && job.queue == 'main'", queued(parallelism=3), True, id="pods and queue"),
        pytest.param("namespaceObject.metadata.labels.team == 'a'", queued(), False, id="the namespace's labels"),
        pytest.param("request.operation == 'CREATE' && oldObject == null", queued(), False, id="the request"),
        pytest.param("object.spec.template.spec.containers.all(c, c.name != 'x')", queued(), False, id="containers"),
    ],
)
def test_an_expression_is_true_of_what_is_fine(expression: str, new: Raw, warned: bool) -> None:
    assert said(new, settings(own(expression))) == (["add the label team"] if warned else [])


def test_it_may_make_its_message() -> None:
    rule = own("job.pods <= 2", messageExpression="'at most 2 pods, not ' + string(job.pods)")
    assert said(queued(parallelism=3), settings(rule)) == ["at most 2 pods, not 3"]
    failing = own("job.pods <= 2", messageExpression="object.nothing.there")
    assert said(queued(parallelism=3), settings(failing)) == ["add the label team"]


def test_what_it_does_is_said_among_the_rules() -> None:
    deny = settings(own(), rules=[{"name": "needs-team", "action": "Deny"}])
    response = ask("/validate-batch-v1-job", review(queued()), knows=world(), settings=deny)
    assert response["status"]["message"] == "add the label team (rule needs-team)"


def test_it_does_not_wait_for_the_caches() -> None:
    assert said(queued(), settings(own()), synced=False) == ["add the label team"]


@pytest.mark.parametrize(
    "expression", ["object.spec.template.spec.containers[7].image != ''", "job.pods / (job.pods - job.pods) < 3"]
)
def test_one_that_runs_into_an_error_of_its_own_refuses_nobody(expression: str) -> None:
    (told,) = said(queued(), settings(own(expression)))
    assert told.startswith("rule needs-team cannot be evaluated")


def test_one_that_fails_on_an_object_says_so() -> None:
    assert said(queued(), settings(own("object.spec.absent > 3"))) == ["rule needs-team cannot be evaluated: 'absent'"]


@pytest.mark.parametrize(("kind", "version"), [("LocalQueue", "v1beta2"), ("Queue", "v1alpha1")])
def test_it_may_look_at_queues_those_of_v01_too(kind: str, version: str) -> None:
    rule = own("object.spec.clusterQueue.startsWith('team-')", "name a team's queue", resources=["localqueues"])
    new = {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "new", "namespace": "team-a"},
        "spec": {"clusterQueue": "shared"},
    }
    body = review_of(new, resource=f"{kind.lower()}s")
    path = f"/feedback-kueue-x-k8s-io-{version}-{kind.lower()}"
    response = ask(path, body, knows=world(), settings=settings(rule))
    assert response["warnings"][0] == "name a team's queue"
    assert said(queued(), settings(rule)) == []


@pytest.mark.parametrize(("cpu", "allowed"), [("2", True), ("3", False)])
def test_it_may_look_at_workloads_without_a_job_and_at_what_they_request(cpu: str, allowed: bool) -> None:
    rule = own("job.requests.cpu <= amount('cpu', '4')", "at most 4 cpu", resources=["workloads"])
    in_team_a = {"matchLabels": {"team": "a"}}
    given = settings(rule, rules=[{"name": "needs-team", "action": "Deny", "namespaceSelector": in_team_a}])
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    pod_set = {"name": "main", "count": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    new = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "by-hand", "namespace": "team-a"},
        "spec": {"queueName": "main", "podSets": [pod_set]},
    }
    body = review_of(new, resource="workloads")
    response = ask("/feedback-kueue-x-k8s-io-v1beta2-workload", body, knows=world(), settings=given)
    assert response["allowed"] is allowed
    assert response.get("status", {}).get("message", "") == ("" if allowed else "at most 4 cpu (rule needs-team)")
    assert said(queued(cpu="9"), given) == [], "a job is not its subject"


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        pytest.param(own("a &&"), "expression: Invalid value", id="half an expression"),
        pytest.param(own("quantity('1') == 1"), "unknown function quantity", id="a function nobody knows"),
        pytest.param(own("objekt.spec == 1"), "unknown variable objekt", id="a variable nobody knows"),
        pytest.param(own(messageExpression="nope"), "messageExpression: Invalid value", id="the message's expression"),
        pytest.param(own(message="x" * 121), "message", id="a message too long for a terminal"),
        pytest.param({**own(), "name": "will-wait"}, "a built-in rule has this name", id="a name that is taken"),
        pytest.param(own(resources=["pods"]), "resources", id="a resource we do not see"),
    ],
)
def test_mistakes_are_found_when_the_configuration_is_read(rule: Raw, error: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings(rule)
    (found,) = caught.value.errors
    assert error in str(found)
    assert str(found).startswith("seiretsu.feedback.expressions[0]")


def test_two_rules_do_not_share_a_name() -> None:
    with pytest.raises(ConfigurationError, match="Duplicate value"):
        settings(own(), own("true"))
