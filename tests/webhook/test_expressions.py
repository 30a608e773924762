"""The operator's own rules: checked when the Configuration is read, and judged with what admission knows."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from api.configuration import ConfigurationError, load
from api.configuration.expressions import FIELDS
from api.names import Label
from core.feedback.catalog import NAMES, OF_NO_NAMESPACE
from core.model import Raw
from tests.core.feedback.world import world
from tests.webhook.cluster import ask, job, review, review_of
from webhook.expressions import compiled
from webhook.policy import policy
from webhook.settings import WebhookSettings

CONFIGURATION = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
TEAM = "has(object.metadata.labels) && 'team' in object.metadata.labels"


def own(expression: str = TEAM, message: str = "add the label team", **fields: Any) -> Raw:
    return {"name": "needs-team", "expression": expression, "message": message, **fields}


def settings(*expressions: Raw, rules: list[Raw] | None = None) -> WebhookSettings:
    text = {**CONFIGURATION, "seiretsu": {"feedback": {"expressions": list(expressions), "rules": rules or []}}}
    feedback = load(yaml.safe_dump(text), feedback_rules=NAMES).configuration.seiretsu.feedback
    return WebhookSettings(feedback=policy(feedback), expressions=compiled(feedback))


def queued(cpu: str = "1", parallelism: int = 1, **labels: str) -> Raw:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    template = {"spec": {"containers": [container]}}
    every = {Label.QUEUE_NAME: "main", **labels}
    return job(labels=every, suspend=True, template=template, parallelism=parallelism, completions=parallelism)


def said(new: Raw, given: WebhookSettings, *, synced: bool = True) -> list[str]:
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
        pytest.param("job.requests.all(r, r in ['cpu', 'memory'])", queued(), False, id="all that is asked for"),
        pytest.param("job.requests.size() == 2", queued(), False, id="how much is asked for"),
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


def test_the_action_of_an_expression_is_configured_like_a_rule() -> None:
    deny = settings(own(), rules=[{"name": "needs-team", "action": "Deny"}])
    response = ask("/validate-batch-v1-job", review(queued()), knows=world(), settings=deny)
    assert response["status"]["message"] == "add the label team (rule needs-team)"


def test_it_does_not_wait_for_the_caches() -> None:
    assert said(queued(), settings(own()), synced=False) == ["add the label team"]


@pytest.mark.parametrize(
    "expression", ["object.spec.template.spec.containers[7].image != ''", "job.pods / (job.pods - job.pods) < 3"]
)
def test_an_expression_that_fails_refuses_no_object(expression: str) -> None:
    (told,) = said(queued(), settings(own(expression)))
    assert told.startswith("rule needs-team cannot be evaluated")


def test_an_expression_that_fails_on_an_object_gives_a_warning() -> None:
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
    response = ask("/validate-kueue-x-k8s-io-v1beta2-workload", body, knows=world(), settings=given)
    assert response["allowed"] is allowed
    assert response.get("status", {}).get("message", "") == ("" if allowed else "at most 4 cpu (rule needs-team)")
    assert said(queued(cpu="9"), given) == [], "a job is not its subject"


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        pytest.param(own("a &&"), "expression: Invalid value", id="half an expression"),
        pytest.param(own("quantity('1') == 1"), "unknown function quantity", id="an unknown function"),
        pytest.param(own("objekt.spec == 1"), "unknown variable objekt", id="an unknown variable"),
        pytest.param(own("job.pods < 3 && x"), "unknown variable x", id="a variable beside one that is known"),
        pytest.param(
            own("job.request.cpu < 3"), "unknown field job.request; there are queue,", id="a field of the job"
        ),
        pytest.param(own("request.user == 'x'"), "unknown field request.user", id="a field of the request"),
        pytest.param(own("job['request'].cpu < 3"), "unknown field job.request", id="a field by its name in brackets"),
        pytest.param(own("[1].all(x, x > 0) && x == 1"), "unknown variable x", id="a macro's variable beyond it"),
        pytest.param(
            own("[{'a': 1}].all(job, job.a == 1) && job.a == 1"),
            "unknown field job.a",
            id="a hidden variable beyond it",
        ),
        pytest.param(own("job.pods"), "must be true or false, not 1", id="a number"),
        pytest.param(own("job.pods < 'many'"), "No such overload", id="a number compared with a text"),
        pytest.param(own("job.queue.startsWith(5)"), "startsWith does not take what", id="a function of texts"),
        pytest.param(own("job.queue.matches('[')"), "matches: '[' not a valid regex", id="half a pattern"),
        pytest.param(own("job.pods < amount('cpu', 'four')"), "amount: quantities must match", id="half a quantity"),
        pytest.param(own("amount('cpu') > 3"), "amount: amount() missing 1", id="an argument too few"),
        pytest.param(
            own("job.pods < 3", resources=["clusterqueues"]),
            "there is a job of jobs and workloads only, not of clusterqueues",
            id="the job of a ClusterQueue",
        ),
        pytest.param(own(messageExpression="job.pods"), "must be a text, not 1", id="a message that is a number"),
        pytest.param(own(messageExpression="nope"), "messageExpression: Invalid value", id="the message's expression"),
        pytest.param(own(message="x" * 121), "message", id="a message too long for a terminal"),
        pytest.param({**own(), "name": "will-wait"}, "a built-in rule has this name", id="a name that is taken"),
        pytest.param(own(resources=["pods"]), "resources", id="a resource we do not see"),
    ],
)
def test_errors_in_expressions_are_found_when_the_configuration_is_read(rule: Raw, error: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings(rule)
    (found,) = caught.value.errors
    assert error in str(found)
    assert str(found).startswith("seiretsu.feedback.expressions[0]")


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.parallelism < 3",
        "has(oldObject.spec) && oldObject.spec.suspend",
        "oldObject == null || oldObject.spec.suspend == object.spec.suspend",
        "job == null || job.pods < 3",
        "job.requests['nvidia.com/gpu'] < 4",
        "object.metadata.labels['request.user'] != 'job.nothing'",
        "timestamp(object.metadata.creationTimestamp).getHours() < 18",
        "object.metadata.labels.all(job, job != 'x')",
    ],
)
def test_an_error_that_depends_on_the_object_is_no_error_of_the_configuration(expression: str) -> None:
    assert settings(own(expression)).expressions


@pytest.mark.parametrize(
    ("expression", "warned"),
    [
        ("job.requests['nvidia.com/gpu'] <= 4", False),
        ("job.requests.gpu >= 1", True),
        ("has(job.requests.gpu) && job.requests.gpu < 4", True),
        ("!('gpu' in job.requests) || job.requests['gpu'] < 4", False),
        ("has(job.requests.cpu) && job.requests.cpu < 4000", False),
        (r"job.requests['nvidia.com\u002fgpu'] == 0", False),
        ("job . requests . gpu == 0 // job.requests.tpu", False),
        ("job.requests.gpu == 0 && job.requests.size() == 3", False),
        ("'has(job.requests.gpu)' != '' && job.requests.gpu == 0", False),
        ("(job.requests).gpu == 0", False),
        ("job.requests.size() == 2 && [{'requests': {'a': 1}}].all(job, job.requests.a == 1)", False),
    ],
)
def test_of_a_resource_that_a_job_does_not_ask_for_it_asks_for_none(expression: str, warned: bool) -> None:
    assert said(queued(), settings(own(expression))) == (["add the label team"] if warned else [])


def test_the_sample_that_expressions_are_tried_on_has_the_fields_there_are() -> None:
    fields = {f"{name}.{field}" for name, known in FIELDS.items() for field in known}
    every = " && ".join(f"{each} == {each}" for each in sorted(fields))
    assert said(queued(), settings(own(every))) == []


def test_two_rules_do_not_share_a_name() -> None:
    with pytest.raises(ConfigurationError, match="Duplicate value"):
        settings(own(), own("true"))


def test_an_entry_that_chooses_namespaces_for_what_is_in_none_is_warned_of() -> None:
    chosen = {"matchLabels": {"team": "a"}}
    rules = [
        {"name": "flavor-in-use", "action": "Deny", "namespaceSelector": chosen},
        {"name": "cluster-queue-in-use", "action": "Deny"},
        {"name": "cluster-queue-not-found", "action": "Deny", "namespaceSelector": chosen},
        {"name": "needs-team", "action": "Deny", "namespaceSelector": chosen},
        {"name": "of-both", "action": "Deny", "namespaceSelector": chosen},
    ]
    expressions = [
        own(resources=["clusterqueues"]),
        {**own(resources=["clusterqueues", "jobs"]), "name": "of-both"},
    ]
    text = yaml.safe_dump({**CONFIGURATION, "seiretsu": {"feedback": {"expressions": expressions, "rules": rules}}})
    loaded = load(text, feedback_rules=NAMES, cluster_rules=OF_NO_NAMESPACE)
    told = "is about objects that are in no namespace, so this entry never counts; leave the selector out"
    assert loaded.warnings == (
        f"seiretsu.feedback.rules[0].namespaceSelector: flavor-in-use {told}",
        f"seiretsu.feedback.rules[3].namespaceSelector: needs-team {told}",
    )


def test_what_a_message_reads_is_not_asked_for_in_the_rule() -> None:
    rule = own(
        '!("nvidia.com/gpu" in job.requests)', messageExpression='"GPUs: " + string(job.requests["nvidia.com/gpu"])'
    )
    assert said(queued(), settings(rule)) == []
